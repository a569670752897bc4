// Random programs whose inputs, all or some, are declared constant.
#include <gtest/gtest.h>

#include <random>

#include "core/language/language.h"
#include "runtime/engine/constants.h"
#include "tests/executors/run_backends.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/sweep.h"

namespace tile::test {
namespace {

std::shared_ptr<const Executable> with_constants(const std::shared_ptr<LoadedProgram>& program,
                                                 const std::vector<HostTensor>& inputs,
                                                 const std::vector<size_t>& constants) {
  std::vector<TensorView> views = views_of(inputs);
  return program->executable(std::span<const TensorView>(views), constants);
}

TEST(ConstantInputs, RandomProgramsAgree) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  size_t prepared = 0;
  for (uint64_t seed : sweep(0, 300, 100)) {
    RandomOptions options;
    options.real_values = seed % 4 == 0;
    options.large = seed % 10 == 1;
    RandomCase drawn = random_case(seed, options);
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + drawn.text);
    std::mt19937_64 random(seed);
    std::vector<size_t> constants;
    for (size_t i = 0; i < drawn.inputs.size(); ++i) {
      if (random() % 3 != 0) constants.push_back(i);
    }
    std::shared_ptr<const Executable> e =
        with_constants(loaded(engine, drawn.text), drawn.inputs, constants);
    Interpretation expected = interpret(e->bound, drawn.inputs, {}, true);
    EXPECT_EQ(difference(expected, run_code(*e, drawn.inputs), drawn.exact), "");
    if (!options.large) {
      EXPECT_EQ(difference(expected, run_nests(*e, drawn.inputs), drawn.exact), "");
    }
    for (const Launch& launch : e->launches) prepared += launch.prepared.size();
  }
  std::printf("%zu copies\n", prepared);
}

HostTensor whole(DType type, const Shape& shape, int64_t seed) {
  HostTensor t(type, shape);
  for (int64_t i = 0; i < t.count(); ++i) {
    int64_t value = (i * 7 + i / 13 + seed) % 5 - (type == DType::u8 ? 0 : 2);
    t.set(i, is_float(type) ? real_scalar(static_cast<double>(value), type)
                            : integer_scalar(value, type));
  }
  return t;
}

void expect_exact(const std::shared_ptr<Engine>& engine, const std::string& text,
                  const std::vector<HostTensor>& inputs, const std::vector<size_t>& constants,
                  bool packs) {
  SCOPED_TRACE(text);
  std::shared_ptr<LoadedProgram> program = loaded(engine, text);
  std::shared_ptr<const Executable> e = with_constants(program, inputs, constants);
  Interpretation expected = interpret(e->bound, inputs);
  EXPECT_EQ(difference(expected, run_code(*e, inputs), true), "");
  size_t copies = 0;
  for (const Launch& launch : e->launches) copies += launch.prepared.size();
  EXPECT_TRUE(!packs || copies > 0);
  EXPECT_EQ(engine->statistics.constant_bytes, constant_bytes(*e));
}

const char* kProduct =
    "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";

// Types, transposed reads and sizes that fill no tile.
TEST(ConstantInputs, ProductsOfEveryType) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  for (DType type :
       {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i8, DType::u8, DType::i32}) {
    for (auto [m, n, k] : {std::array<int64_t, 3>{65, 131, 97}, {3, 40, 200}, {100, 1, 37}}) {
      expect_exact(engine, kProduct, {whole(type, {m, k}, 1), whole(type, {k, n}, 2)}, {1}, false);
      expect_exact(engine, kProduct, {whole(type, {m, k}, 1), whole(type, {k, n}, 2)}, {0, 1},
                   false);
    }
  }
  const char* turned =
      "function (A[M, L], B[N, L]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[j, k]); }";
  for (DType type : {DType::f32, DType::bf16, DType::i8}) {
    expect_exact(engine, turned, {whole(type, {97, 200}, 1), whole(type, {131, 200}, 2)}, {1},
                 true);
  }
}

TEST(ConstantInputs, ConvolutionsAndTheirGradients) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  const char* text =
      "function (I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) {"
      " O[n, y, x, co: N, H, W, CO] = +(I[n, y + j - 1, x + i - 1, ci] * K[j, i, ci, co]); }";
  for (DType type : {DType::f32, DType::bf16}) {
    expect_exact(engine, text, {whole(type, {2, 7, 9, 40}, 1), whole(type, {3, 3, 40, 72}, 2)}, {1},
                 true);
  }
  const char* strided =
      "function (S[N, Y, X, CO], K[3, 3, CI, CO]) -> (D) {"
      " D[n, 3*y + 2*j, 3*x + 2*i, ci: N, 3*Y + 4, 3*X + 4, CI] ="
      " +(S[n, y, x, co] * K[j, i, ci, co]); }";
  expect_exact(engine, strided,
               {whole(DType::f32, {2, 5, 6, 24}, 1), whole(DType::f32, {3, 3, 40, 24}, 2)}, {1},
               false);
}

// Views and two kernels that read one constant.
TEST(ConstantInputs, ViewsAndSeveralKernels) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  expect_exact(engine,
               "function (A[M, L], W[X, Y]) -> (O) { B = reshape(W, 60, 70);"
               " O[i, j: M, 70] = +(A[i, k] * B[k, j]); }",
               {whole(DType::f32, {33, 60}, 1), whole(DType::f32, {42, 100}, 2)}, {1}, false);
  expect_exact(engine,
               "function (A[M, N], W[N, N]) -> (O) { P[i, j: M, N] = +(A[i, k] * W[k, j]);"
               " Q = relu(P); O[i, j: M, N] = +(Q[i, k] * W[j, k]); }",
               {whole(DType::f32, {50, 80}, 1), whole(DType::f32, {80, 80}, 2)}, {1}, false);
}

// One kernel for a class of batches reads a copy of its own for each executable.
TEST(ConstantInputs, ClassesOfSizes) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  std::shared_ptr<LoadedProgram> program = loaded(
      engine, "function (A[M, L], B[N, L]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[j, k]); }");
  HostTensor weights = whole(DType::f32, {300, 700}, 2);
  std::vector<std::shared_ptr<const Executable>> all;
  size_t classes = 0;
  for (int64_t batch : {19, 20, 21, 64, 63, 40}) {
    std::vector<HostTensor> inputs{whole(DType::f32, {batch, 700}, batch), weights};
    std::shared_ptr<const Executable> e = with_constants(program, inputs, {1});
    EXPECT_EQ(difference(interpret(e->bound, inputs), run_code(*e, inputs), true), "") << batch;
    classes += e->launches[0].parameters.empty() ? 0 : 1;
    all.push_back(e);
  }
  EXPECT_GT(classes, 2U);
  EXPECT_GE(all[1]->launches[0].prepared.size(), 1U);
}

}  // namespace
}  // namespace tile::test
