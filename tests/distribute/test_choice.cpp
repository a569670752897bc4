// Layouts that are chosen: what they cost is what their exchanges take, and no other choice is
// cheaper.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/distribute/choice/layout_search.h"
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
  std::cout << compared << " programs, " << as_cheap << " as cheap, up to " << longest << "\n";
  EXPECT_GT(compared, 0);
  EXPECT_GE(as_cheap, compared * 9 / 10);
}

}  // namespace
}  // namespace tile::test
