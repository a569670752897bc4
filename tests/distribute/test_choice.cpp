// Layouts that are chosen: what they cost is what their exchanges take, and no other choice is
// cheaper.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/distribute/choice/layout_search.h"
#include "core/ir/analysis/uses.h"
#include "tests/distribute/random_layouts.h"
#include "tests/distribute/sharded_run.h"
#include "tests/random/random_program.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

using ::testing::HasSubstr;

double exchange_ns(const PartitionedProgram& p) {
  double ns = 0;
  for (const ExchangeSummary& e : p.exchanges) ns += e.cost.ns;
  return ns;
}

// Messages, bytes and statements that each matter somewhere.
ChoiceOptions slow_machine() {
  ChoiceOptions options;
  options.links.any = {20, 0.5};
  options.rates = {0.25, 2};
  return options;
}

// Whether some default goes in after a sum over ranks: the model takes its place for that of the
// sum's cells.
bool fills_sums(const BoundProgram& program, const Distribution& d) {
  return std::any_of(program.statements.begin(), program.statements.end(),
                     [&](const BoundStatement& s) {
                       const auto* c = std::get_if<Contraction>(&s);
                       return c != nullptr && c->fill && d.cuts.contains(c->outputs[0]);
                     });
}

// Arithmetic of a product on one rank, at the rates of a GPU that has no GPU here to ask.
double product_ns(DType type, Precision precision, const char* aggregation = "+") {
  std::string text =
      "function (A[M, K], B[K, N]) -> (C) { C[m, n: M, N] = " + std::string(aggregation) +
      "(A[m, k] * B[k, n]); }";
  BoundProgram program = bind_text(text, {{type, {4096, 4096}}, {type, {4096, 4096}}});
  Target target = h200_target();
  target.precision = precision;
  ChoiceOptions options;
  options.rates = rank_rates(target);
  return chosen(program, "gpu=1", "", options).cost.compute_ns;
}

TEST(Choice, ProductsTakeTheTimeOfTheUnitsThatMakeThem) {
  double points = 4096.0 * 4096 * 4096, processors = 132;
  double plain = points / (processors * h200_target().fma_per_ns);
  double narrow = points / (0.7 * processors * h200_target().gpu.matrix_per_ns);
  EXPECT_NEAR(product_ns(DType::bf16, Precision::f32), narrow, 1e-6 * narrow);
  EXPECT_NEAR(product_ns(DType::f16, Precision::f32), narrow, 1e-6 * narrow);
  EXPECT_NEAR(product_ns(DType::i8, Precision::f32), narrow / 2, 1e-6 * narrow);
  EXPECT_NEAR(product_ns(DType::f32, Precision::f32), plain, 1e-6 * plain);
  EXPECT_NEAR(product_ns(DType::f32, Precision::tf32), 2 * narrow, 1e-6 * narrow);
  // Maxima of products are none of theirs: a multiplication and a comparison each.
  EXPECT_NEAR(product_ns(DType::bf16, Precision::f32, ">"), 2 * plain, 1e-6 * plain);
}

TEST(Choice, ExchangesTakeWhatWasCounted) {
  for (uint64_t seed : seeds(20000, 150)) {
    RandomCase drawn = random_case(seed);
    BoundProgram program = bind_text(drawn.text, drawn.types);
    RandomLayouts layouts = random_layouts(program, seed, true);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", mesh " + layouts.mesh + "\n" +
                 layouts.layouts + drawn.text);
    Choice choice = chosen(program, layouts.mesh, layouts.layouts, slow_machine());
    if (fills_sums(program, choice.distribution)) continue;
    PartitionedProgram p = divided_as(program, choice, slow_machine());
    EXPECT_NEAR(choice.cost.exchange_ns, exchange_ns(p), 1e-6 * choice.cost.exchange_ns);
    EXPECT_LE(choice.cost.all(), choice.whole.all() * (1 + 1e-9));
    EXPECT_LE(choice.cost.all(), choice.followed.all() * (1 + 1e-9));
  }
}

// The least cost of all layouts and ways of the model, or nothing where they are too many.
class Exhaustive {
 public:
  Exhaustive(ChoiceModel& model, LayoutSearch& search) : model_(model), search_(search) {}

  std::optional<double> least(double most_choices) {
    double choices = 1;
    for (const ChoiceModel::Tensor& t : model_.tensors()) choices *= double(t.layouts.size());
    for (const ChoiceModel::Statement& s : model_.statements()) choices *= double(s.ways.size());
    if (choices > most_choices) return std::nullopt;
    a_.layouts.assign(model_.tensors().size(), 0);
    a_.ways.assign(model_.statements().size(), 0);
    for (;;) {
      least_ = std::min(least_, search_.cost(a_).all());
      if (!next()) return least_;
    }
  }

 private:
  bool next() {
    for (size_t t = 0; t < a_.layouts.size(); ++t) {
      if (++a_.layouts[t] < model_.tensors()[t].layouts.size()) return true;
      a_.layouts[t] = 0;
    }
    for (size_t s = 0; s < a_.ways.size(); ++s) {
      if (++a_.ways[s] < model_.statements()[s].ways.size()) return true;
      a_.ways[s] = 0;
    }
    return false;
  }

  ChoiceModel& model_;
  LayoutSearch& search_;
  Assignment a_;
  double least_ = std::numeric_limits<double>::infinity();
};

TEST(Choice, ExhaustiveSearchFindsNothingMuchCheaper) {
  int compared = 0, as_cheap = 0;
  size_t longest = 0;
  for (uint64_t seed : seeds(21000, 300)) {
    RandomCase drawn = random_case(seed);
    BoundProgram program = bind_text(drawn.text, drawn.types);
    RandomLayouts layouts = random_layouts(program, seed, false);
    Mesh mesh = parse_mesh(std::make_shared<const Source>(Source{"<mesh>", layouts.mesh}));
    auto text = std::make_shared<const Source>(Source{"<layout>", layouts.layouts});
    Distribution named = named_layouts(program, mesh, parse_layouts(text, mesh));
    ChoiceOptions options = slow_machine();
    ChoiceModel model(program, named, options);
    LayoutSearch search(model, options.beam);
    std::optional<double> least = Exhaustive(model, search).least(3e5);
    if (!least) continue;
    double got = choose_layouts(program, named, options).cost.all();
    SCOPED_TRACE("seed " + std::to_string(seed) + ", mesh " + layouts.mesh + "\n" +
                 layouts.layouts + drawn.text);
    EXPECT_LE(got, *least * 1.1);
    ++compared;
    as_cheap += got <= *least * (1 + 1e-9);
    longest = std::max(longest, model.statements().size());
  }
  RecordProperty("compared", compared);
  RecordProperty("as_cheap", as_cheap);
  RecordProperty("most_statements", std::to_string(longest));
  EXPECT_GT(compared, 0);
  EXPECT_GE(as_cheap, compared * 9 / 10);
}

std::string layout_of(const Choice& choice, const BoundProgram& program, const std::string& name) {
  for (TensorId id : program.tensors.ids()) {
    if (program.tensors[id].name != name) continue;
    return to_string(choice.distribution.layouts[id], name, choice.distribution.mesh);
  }
  return "";
}

std::vector<ExchangeKind> kinds(const PartitionedProgram& p) {
  std::vector<ExchangeKind> kinds;
  for (const ExchangeSummary& e : p.exchanges) {
    if (e.cost.messages != 0) kinds.push_back(e.cost.kind);
  }
  return kinds;
}

// Layouts that are written at random, for all tensors, exchange no less than those that are chosen
// for the same inputs and outputs where computing is free.
TEST(Choice, HandWrittenLayoutsExchangeNoLess) {
  ChoiceOptions options;
  options.links.any = {20, 0.5};
  options.rates = {1e12, 1e12};
  int cheaper = 0;
  for (uint64_t seed : seeds(22000, 150)) {
    RandomCase drawn = random_case(seed);
    BoundProgram program = bind_text(drawn.text, drawn.types);
    RandomLayouts layouts = random_layouts(program, seed, true);
    PartitionOptions how;
    how.links = options.links;
    Mesh mesh = parse_mesh(std::make_shared<const Source>(Source{"<mesh>", layouts.mesh}));
    auto text = std::make_shared<const Source>(Source{"<layout>", layouts.layouts});
    WrittenLayouts written = parse_layouts(text, mesh);
    Distribution hand = distribution_of(program, mesh, written);
    double by_hand = exchange_ns(partition(program, hand, how));
    Distribution named = hand;
    for (TensorId id : program.tensors.ids()) {
      named.named[id] = contains(program.inputs, id) || contains(program.outputs, id);
    }
    named.cuts.clear();
    Choice choice = choose_layouts(program, named, options);
    if (fills_sums(program, choice.distribution)) continue;
    double got = exchange_ns(divided_as(program, choice, options));
    SCOPED_TRACE("seed " + std::to_string(seed) + ", mesh " + layouts.mesh + "\n" +
                 layouts.layouts + drawn.text);
    EXPECT_LE(got, by_hand * 1.1);
    cheaper += got < by_hand * 0.9;
  }
  EXPECT_GT(cheaper, 0);
}

const char* const kPerceptron =
    "function (X[T, D], U[D, F], V[F, D]) -> (Y) {"
    "  H[t, f: T, F] = +(X[t, d] * U[d, f]);"
    "  G = max(H, 0);"
    "  Y[t, d: T, D] = +(G[t, f] * V[f, d]);"
    "}";

// Few rows and large weights: the weights are divided, the first by columns and the second by rows,
// and one sum over ranks is all that is exchanged (Shoeybi et al., arXiv:1909.08053).
TEST(Choice, WeightsOfAPerceptronArePaired) {
  BoundProgram program =
      bind_text(kPerceptron,
                {{DType::f32, {16, 1024}}, {DType::f32, {1024, 4096}}, {DType::f32, {4096, 1024}}});
  Choice choice = chosen(program, "x=4", "X[*, *] Y[*, *]");
  EXPECT_EQ(layout_of(choice, program, "U"), "U[*, x]");
  EXPECT_EQ(layout_of(choice, program, "H"), "H[*, x]");
  EXPECT_EQ(layout_of(choice, program, "G"), "G[*, x]");
  EXPECT_EQ(layout_of(choice, program, "V"), "V[x, *]");
  // The sum over ranks is made in parts, which are gathered.
  EXPECT_EQ(kinds(divided_as(program, choice)),
            (std::vector<ExchangeKind>{ExchangeKind::reduce_scatter, ExchangeKind::all_gather}));
}

// Many rows and small weights: rows are divided, and nothing is exchanged.
TEST(Choice, RowsOfABatchAreDividedWhereWeightsAreSmall) {
  BoundProgram program = bind_text(
      kPerceptron, {{DType::f32, {65536, 64}}, {DType::f32, {64, 64}}, {DType::f32, {64, 64}}});
  Choice choice = chosen(program, "x=4", "");
  EXPECT_EQ(layout_of(choice, program, "X"), "X[x, *]");
  EXPECT_EQ(layout_of(choice, program, "Y"), "Y[x, *]");
  EXPECT_TRUE(divided_as(program, choice).exchanges.empty());
}

// The least a rank must have of the tensors of a product of which it computes its share, whatever
// the shape of that share (Kwasniewski et al., arXiv:1908.09606, with extents as bounds).
double least_touched(double m, double n, double k, double ranks) {
  std::vector<double> extents{m, n, k};
  std::sort(extents.begin(), extents.end());
  double rest = m * n * k / ranks;
  double a = std::min(extents[0], std::cbrt(rest));
  double b = std::min(extents[1], std::sqrt(rest / a));
  double c = rest / (a * b);
  return a * b + b * c + a * c;
}

// Most bytes of all exchanges that some rank gets or gives.
double busiest(const PartitionedProgram& p) {
  double bytes = 0;
  for (const ExchangeSummary& e : p.exchanges) bytes += static_cast<double>(e.cost.busiest);
  return bytes;
}

std::vector<std::array<int64_t, 3>> sixty_products() {
  const std::vector<int64_t> extents{256, 512, 1000, 4096, 16384};
  std::vector<std::array<int64_t, 3>> shapes;
  for (int64_t m : extents) {
    for (int64_t n : extents) {
      for (int64_t k : extents) {
        if (m <= n && shapes.size() < 60) shapes.push_back({m, n, k});
      }
    }
  }
  return shapes;
}

// Inputs and the output are spread over all ranks by their rows; bytes decide.
TEST(Choice, ProductsMoveLittleMoreThanTheyMust) {
  ChoiceOptions options;
  options.links.any = {0, 0.01};
  double worst = 0;
  for (const auto& [m, n, k] : sixty_products()) {
    BoundProgram program =
        bind_text("function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
                  {{DType::f32, {m, k}}, {DType::f32, {k, n}}});
    for (std::string axes : {"x.y.z", "x.y.z.u"}) {
      std::string mesh = axes.size() == 5 ? "x=2, y=2, z=2" : "x=2, y=2, z=2, u=2";
      Choice choice = chosen(program, mesh,
                             "A[" + axes + ", *] B[" + axes + ", *] C[" + axes + ", *]", options);
      double bound =
          least_touched(double(m), double(n), double(k), double(choice.distribution.mesh.ranks()));
      double over = busiest(divided_as(program, choice, options)) / 4 / bound;
      worst = std::max(worst, over);
      EXPECT_LE(over, 1.1) << m << " x " << n << " x " << k << " on " << mesh;
    }
  }
  RecordProperty("most_over_the_bound", std::to_string(worst));
}

std::string chain(int statements) {
  std::string text = "function (X[T, D], W[D, D]) -> (Y) {";
  std::string last = "X";
  for (int s = 0; s < statements; ++s) {
    std::string next = s + 1 == statements ? "Y" : "T" + std::to_string(s);
    text += s % 2 == 0 ? next + "[t, d: T, D] = +(" + last + "[t, e] * W[e, d]);"
                       : next + " = tanh(" + last + ");";
    last = next;
  }
  return text + "}";
}

TEST(Choice, LongProgramsAreSearchedInLinearTime) {
  std::vector<InputType> types{{DType::f32, {512, 512}}, {DType::f32, {512, 512}}};
  BoundProgram shorter = bind_text(chain(26), types), longer = bind_text(chain(50), types);
  for (const char* mesh : {"x=8", "x=2, y=4"}) {
    size_t few = chosen(shorter, mesh, "").evaluated;
    size_t many = chosen(longer, mesh, "").evaluated;
    EXPECT_LE(many, 3 * few);
    EXPECT_LE(many, 100000u);
  }
}

}  // namespace
}  // namespace tile::test
