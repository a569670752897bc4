// Sums whose cells, and whose terms, conditions leave out: what is summed for cells outside is not
// stored, trips of a reduction without a point of the tile are passed over, and those with all of
// them have no test.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/kernel/geometry.h"
#include "core/nest/passes/nest_passes.h"
#include "core/schedule/legality/legality.h"
#include "tests/random/random_program.h"
#include "tests/random/random_source.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

using Conditions = std::vector<std::tuple<std::string, int64_t, int64_t>>;

NodeId product(Body& body, const std::vector<NodeId>& v, DType type) {
  return body.operation(Op::mul, {body.cast(v[0], type), body.cast(v[1], type)}, type);
}

// C[i, j] aggregates A[i, k] * B[k, j] under the conditions.
struct Masked {
  int64_t rows, columns, terms;
  DType type = DType::f32;
  Aggregation aggregation = Aggregation::sum;
  Conditions conditions;

  Kernel kernel() const {
    KernelBuilder b;
    TensorId x = b.tensor("A", type, {rows, terms}), y = b.tensor("B", type, {terms, columns});
    TensorId c = b.tensor("C", type, {rows, columns});
    DType wide = type == DType::bf16 ? DType::f32 : type;
    b.stage(
        c, aggregation, wide,
        {{{"i", "j", "k"},
          {rows, columns, terms},
          2,
          {"i", "j"},
          {{x, {"i", "k"}}, {y, {"k", "j"}}},
          conditions,
          [wide](Body& body, const std::vector<NodeId>& v) { return product(body, v, wide); }}});
    return b.finish();
  }
};

// `form` from some value to another, or beyond one end of all its values.
std::tuple<std::string, int64_t, int64_t> drawn_condition(test::RandomSource& random) {
  std::string form = random.pick(std::vector<std::string>{
      "i - j", "j - i", "i + j", "2*i - j", "3*j - 2*i", "i - k", "k - j", "i - 2*k", "2*k - j",
      "i + j - k", "i + k - j", "k - 2*i - j", "i", "j", "k"});
  int64_t lo = random.in(-20, 20), size = random.in(0, 30);
  if (random.percent(30)) return {form, lo, 200};
  if (random.percent(40)) return {form, -200, lo};
  return {form, lo, lo + size};
}

TEST(MaskedSums, AnyConditions) {
  for (uint64_t seed : test::seeds(0, 60)) {
    test::RandomSource random(seed);
    auto extent = [&] { return random.pick(std::vector<int64_t>{1, 2, 7, 16, 17, 31, 40}); };
    Masked m{extent(), extent(), extent(), DType::f32, Aggregation::sum, {}};
    m.type = random.pick(
        std::vector<DType>{DType::f32, DType::f32, DType::f64, DType::bf16, DType::i32});
    m.aggregation = random.pick(std::vector<Aggregation>{Aggregation::sum, Aggregation::sum,
                                                         Aggregation::max, Aggregation::min});
    for (int64_t n = random.in(1, 3); n > 0; --n) m.conditions.push_back(drawn_condition(random));
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_all_schedules_agree(m.kernel(), 6, seed * 100 + 1);
    if (HasFailure()) return;
  }
}

// Where a factor has no element outside of the mask, points are tested before it is read.
TEST(MaskedSums, FactorsThatTheMaskKeepsInside) {
  for (auto [size, terms] : std::vector<std::array<int64_t, 2>>{{17, 16}, {24, 3}, {5, 33}}) {
    KernelBuilder b;
    TensorId x = b.tensor("A", DType::f32, {size, terms});
    TensorId y = b.tensor("B", DType::f32, {size, terms}),
             c = b.tensor("C", DType::f32, {size, size});
    b.stage(
        c, Aggregation::sum, DType::f32,
        {{{"i", "j", "k"},
          {size, size, terms},
          2,
          {"i", "j"},
          {{x, {"i", "k"}}, {y, {"i - j", "k"}}},
          {{"i - j", 0, 1000}},
          [](Body& body, const std::vector<NodeId>& v) { return product(body, v, DType::f32); }}});
    expect_all_schedules_agree(b.finish(), 24);
  }
}

// A tile of 6 rows and 32 columns; the reduction is a loop outside of it.
Schedule tiles(const Kernel& kernel) {
  const Piece& piece = kernel.stages[0].contraction.pieces[0];
  PieceSchedule s = plain_schedule(piece);
  for (Loop& l : s.outer) {
    if (l.iterator == IteratorId(0)) l.step = 6;
    if (l.iterator == IteratorId(1)) l.step = 32;
  }
  s.tile = {{IteratorId(0), 1, Binding::unroll},
            {IteratorId(1), 16, Binding::unroll},
            {IteratorId(1), 1, Binding::vector}};
  Schedule schedule;
  schedule.stages = {{s}};
  return schedule;
}

std::string nest_text(const Kernel& kernel) {
  Target target = wide_target();
  Schedule schedule = tiles(kernel);
  EXPECT_EQ(illegal(schedule, kernel, target), "");
  return nest::print(nest::run_passes(lower(kernel, schedule, target), target));
}

// The tests around each multiplication, from the loop over the reduction inwards.
std::vector<int> tests_around_products(const std::string& text) {
  std::vector<int> found;
  std::vector<char> open;  // what each brace belongs to: 'k', an if, or anything else
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    line.erase(0, std::min(line.find_first_not_of(' '), line.size()));
    at = end + 1;
    if (line.rfind("fma ", 0) == 0) {
      int tests = 0;
      for (size_t i = open.size(); i-- > 0 && open[i] != 'k';) tests += open[i] == '?';
      found.push_back(tests);
    }
    if (line[0] == '}') open.pop_back();
    if (line.empty() || line.back() != '{') continue;
    bool reduces = line.rfind("serial k", 0) == 0;
    bool tested = line.rfind("if ", 0) == 0 || line[0] == '}';
    open.push_back(reduces ? 'k' : tested ? '?' : ' ');
  }
  return found;
}

TEST(MaskedSums, CellsAreTestedOutsideOfTheReduction) {
  Kernel kernel = Masked{48, 64, 40, DType::f32, Aggregation::sum, {{"i - j", 0, 1000}}}.kernel();
  std::string text = nest_text(kernel);
  std::vector<int> tests = tests_around_products(text);
  ASSERT_FALSE(tests.empty()) << text;
  for (int each : tests) EXPECT_EQ(each, 0) << text;
  // A tile above the diagonal has nothing to do: its last row is before its first column.
  EXPECT_NE(text.find("if [5 + 6*i_0 - 32*j_0]"), std::string::npos) << text;
}

TEST(MaskedSums, MiddlesOfReductionsHaveNoTest) {
  Kernel kernel = Masked{48, 64, 40, DType::f32, Aggregation::sum, {{"i - k", 0, 1000}}}.kernel();
  std::string text = nest_text(kernel);
  std::vector<int> tests = tests_around_products(text);
  // One loop tests its rows: of the terms that some of them have.
  EXPECT_EQ(std::count(tests.begin(), tests.end(), 1), 1) << text;
  EXPECT_EQ(std::count(tests.begin(), tests.end(), 0),
            static_cast<std::ptrdiff_t>(tests.size()) - 1)
      << text;
  EXPECT_GE(tests.size(), 2U) << text;
}

// Terms that no cell needs are not visited: half of them, and the tile's steps at the diagonal.
TEST(MaskedSums, TrianglesHaveHalfOfTheWork) {
  Kernel kernel = Masked{96, 32, 96, DType::f32, Aggregation::sum, {{"i - k", 0, 1000}}}.kernel();
  Target target = wide_target();
  Values inputs = small_integers(kernel, 3), expected = inputs;
  brute_force(kernel, expected);
  nest::NestCounts counts;
  nest::Nest nest = nest::run_passes(lower(kernel, tiles(kernel), target), target);
  EXPECT_EQ(difference(kernel, run_nest(nest, kernel, inputs, &counts), expected), "");
  EXPECT_EQ(counts.multiply_adds, 96 * 97 / 2 * 32);
  EXPECT_LE(counts.guards, 16 * (5 * 6 + 2));  // of each tile the steps at the diagonal
}

}  // namespace
}  // namespace tile::testing
