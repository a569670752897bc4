// Inputs that are not dense, read by several statements: each read a dense copy or the strided
// input by a rule of its own, and kernels were lowered for the one while memory was planned for the
// other.
#include <gtest/gtest.h>

#include "core/autodiff/differentiate.h"
#include "core/language/language.h"
#include "runtime/engine/launch/input_strides.h"
#include "tests/executors/guarded_run.h"
#include "tests/executors/layouts.h"
#include "tests/executors/run_backends.h"
#include "tests/random/agreement/agreement.h"

namespace tile::test {
namespace {

using Strides1 = std::vector<int64_t>;

void expect_agreement(const std::shared_ptr<Engine>& engine,
                      const std::shared_ptr<const Program>& program,
                      const std::vector<HostTensor>& inputs, const Laid& laid) {
  SCOPED_TRACE(described(laid));
  try {
    std::shared_ptr<Executable> e = compile(engine, program, laid.layouts);
    Interpretation expected = interpret(e->bound, inputs, {}, true);
    EXPECT_EQ(difference(expected, run_code(*e, inputs), true), "");
  } catch (const Failure& f) {
    ADD_FAILURE() << to_string(f.diagnostic().stage) << ": " << f.what();
  } catch (const InternalError& error) {
    ADD_FAILURE() << error.what();
  }
}

std::shared_ptr<const Program> parsed(Language language, const std::string& text) {
  return std::make_shared<const Program>(
      parse(language, std::make_shared<const Source>(Source{"strided", text})));
}

// Dense, and in layouts of every kind, by every vector width.
void expect_agreement(const std::shared_ptr<const Program>& program,
                      const std::vector<HostTensor>& inputs) {
  std::vector<InputType> types;
  for (const HostTensor& t : inputs) types.push_back({t.type, t.shape, std::nullopt});
  for (const char* features : {"", "avx2", "sse"}) {
    SCOPED_TRACE(features);
    std::shared_ptr<Engine> engine = test_engine("cpu", features);
    expect_agreement(engine, program, inputs, dense_layouts(types, inputs));
    for (uint64_t seed = 0; seed < 12; ++seed) {
      Laid laid = random_layouts(seed, types, inputs);
      expect_agreement(engine, program, laid.inputs, laid);
      if (testing::Test::HasFailure()) return;
    }
  }
}

HostTensor indices(const Shape& shape, int64_t below) {
  HostTensor t(DType::i32, shape);
  for (int64_t i = 0; i < t.count(); ++i) t.set(i, integer_scalar(i * 5 % below, DType::i32));
  return t;
}

// Scatter had dense strides whatever its inputs had.
TEST(StridedInputs, Scatter) {
  auto rows = parsed(Language::tile, "function (A, I) -> (O) { O = scatter(A, I, 4); }");
  expect_agreement(rows, {integers({66}, 1), indices({66}, 4)});
  expect_agreement(rows, {integers({9, 7}, 1), indices({9}, 4)});
  expect_agreement(rows, {integers({3, 5, 21}, 2), indices({3, 5}, 6)});
  auto view =
      parsed(Language::tile,
             "function (A[N, M], I) -> (O) { O = scatter(reshape(A, 63), reshape(I, 63), 4); }");
  expect_agreement(view, {integers({9, 7}, 1), indices({9, 7}, 4)});
}

TEST(StridedInputs, AViewAndAKernel) {
  auto both =
      parsed(Language::tile, "function (A[N, M]) -> (R, T) { R = reshape(A, M, N); T = A * 1; }");
  expect_agreement(both, {integers({3, 4}, 1)});
  expect_agreement(both, {integers({30, 17}, 1)});
  auto product = parsed(Language::tile,
                        "function (A[N, M], B[M, L]) -> (R, T) { R = reshape(A, M, N);"
                        " T[n, l: N, L] = +(A[n, m] * B[m, l]); }");
  expect_agreement(product, {integers({21, 16}, 1), integers({16, 33}, 2)});
}

TEST(StridedInputs, ASortAndAKernel) {
  auto sorted =
      parsed(Language::tile,
             "function (A) -> (S, P, D) { S = sort(A, 1); P = argsort(A, 0); D = A * 1; }");
  expect_agreement(sorted, {integers({2, 4}, 1)});
  expect_agreement(sorted, {integers({19, 33}, 1)});
}

// A final copy of elements, for an output that shares storage with an input.
TEST(StridedInputs, AnOutputThatIsAnInput) {
  auto same = parsed(Language::tile, "function (A) -> (O, D) { O = A; D = A * 2; }");
  expect_agreement(same, {integers({5, 9}, 1)});
}

TEST(StridedInputs, GatherAndItsGradient) {
  auto gather = parsed(Language::tile, "function (A, I) -> (O) { O = gather(A, I); }");
  expect_agreement(gather, {integers({4, 6}, 1), indices({5}, 4)});
  auto gradient = std::make_shared<const Program>(differentiate(*gather, "O", {"A"}));
  expect_agreement(gradient, {integers({4, 6}, 1), indices({5}, 4), integers({5, 6}, 2)});
}

// Join makes a view in another shape; accesses behind it split its dimensions again.
TEST(StridedInputs, LiftJoinGatherWrap) {
  const std::string matrix = "val f = fun(ArrayType(ArrayType(Float, M), N), a => ";
  const std::string cube = "val f = fun(ArrayType(ArrayType(ArrayType(Float, K), M), N), a => ";
  for (const char* body :
       {"Map(Reduce(add, 0.0f)) o Slide(3, 1) o Pad(1, 1, clamp) o Join()",
        "(x => Map(i => At(toInt(i)) $ x) $ x) o Join()",
        "Map(Reduce(add, 0.0f)) o Slide(2, 1) o Gather(reverse) o Join()",
        "Join() o Gather(reverse)", "Gather(reverse) o Pad(0, 1, Wrap) o Join()"}) {
    SCOPED_TRACE(body);
    auto program = parsed(Language::lift, matrix + body + " $ a)");
    expect_agreement(program, {integers({2, 3}, 1)});
    expect_agreement(program, {integers({7, 19}, 1)});
  }
  for (const char* body : {"Gather(reverse) o Pad(0, 1, Wrap) o Gather(shift(1))",
                           "Join() o Gather(reverse) o Pad(0, 1, Wrap)", "Join() o Join()",
                           "Map(Join()) o Gather(shift(1))"}) {
    SCOPED_TRACE(body);
    auto program = parsed(Language::lift, cube + body + " $ a)");
    expect_agreement(program, {integers({3, 2, 2}, 1)});
    expect_agreement(program, {integers({5, 3, 18}, 1)});
  }
}

// Races gave kernels memory that began at the first element, whatever strides were negative: here
// what is read in front of it is further away than any heap has neighbours.
TEST(StridedInputs, RacesOfBackwardInputs) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  auto program = parsed(Language::tile, "function (A[N, M]) -> (O) { O[n: N] = +(A[n, m]); }");
  InputLayout layout{{DType::f32, {64, 33}, std::nullopt}, {-(int64_t{1} << 18), 1}};
  std::shared_ptr<const Executable> e = tuned(*compile(engine, program, {layout}), 5);
  HostTensor a = integers({64, 33}, 1);
  EXPECT_EQ(difference(interpret(e->bound, {a}, {}, true), run_code(*e, {a}), true), "");
}

TEST(StridedInputs, ViewsTakeStridesThatFit) {
  EXPECT_EQ(strides_in_shape({4, 6}, {8, 1}, {4, 2, 3}), (Strides1{8, 3, 1}));
  EXPECT_EQ(strides_in_shape({4, 6}, {8, 1}, {2, 2, 6}), (Strides1{16, 8, 1}));
  EXPECT_EQ(strides_in_shape({4, 6}, {8, 1}, {24}), std::nullopt);
  EXPECT_EQ(strides_in_shape({4, 6}, {8, 1}, {8, 3}), std::nullopt);
  EXPECT_EQ(strides_in_shape({4, 6}, {12, 2}, {24}), (Strides1{2}));
  EXPECT_EQ(strides_in_shape({4, 6}, {-6, -1}, {3, 8}), (Strides1{-8, -1}));
  EXPECT_EQ(strides_in_shape({4, 1, 6}, {0, 0, 1}, {1, 4, 6, 1}), (Strides1{0, 0, 1, 0}));
  EXPECT_EQ(strides_in_shape({4, 6}, {0, 0}, {3, 8}), (Strides1{0, 0}));
}

}  // namespace
}  // namespace tile::test
