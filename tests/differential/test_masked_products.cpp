// Products whose cells or terms conditions leave out (causal attention's and their kind), of sizes
// around those of register tiles: compiled code for every vector width gives what the reference
// interpreter gives, bit for bit, as all values are small whole numbers.
#include <gtest/gtest.h>

#include "core/language/language.h"
#include "core/passes/bind/bind.h"
#include "tests/executors/run_backends.h"
#include "tests/random/random_source.h"
#include "tests/random/sweep.h"

namespace tile::test {
namespace {

struct MaskedProduct {
  std::string text;  // of A, B and the default P, to C
  std::vector<HostTensor> inputs;
};

HostTensor whole_numbers(DType type, const Shape& shape, RandomSource& random) {
  HostTensor t(type, shape);
  for (int64_t i = 0; i < t.count(); ++i) t.set(i, integer_scalar(random.in(-2, 2), type));
  return t;
}

std::string condition(RandomSource& random) {
  std::string form = random.pick(std::vector<std::string>{
      "i - j", "j - i", "i + j", "2*i - j", "3*j - i", "i - k", "k - i", "j - k", "k - j",
      "i + j - k", "k - i - j", "2*k - j", "i - 2*k", "i", "k"});
  std::string from = std::to_string(random.in(-24, 24));
  return form + " + " + from + " < " +
         std::to_string(random.pick(std::vector<int64_t>{1, 2, 5, 16, 40, 300}));
}

MaskedProduct masked_product(uint64_t seed) {
  RandomSource random(seed);
  auto extent = [&] {
    return random.pick(std::vector<int64_t>{0, 1, 2, 5, 13, 16, 31, 48, 53, 64, 67});
  };
  int64_t rows = extent(), columns = extent(), terms = extent(), batch = random.in(1, 2);
  DType type =
      random.pick(std::vector<DType>{DType::f32, DType::f32, DType::f64, DType::bf16, DType::i32});
  bool swapped = random.percent(40);  // the second factor's columns are its rows
  std::string sum = random.pick(std::vector<std::string>{"+", "+", "+", ">", "<"});
  std::string text = "function (A[N, I, K], B[N, " + std::string(swapped ? "J, K" : "K, J") +
                     "], P[N, I, J]) -> (C) { C[n, i, j: N, I, J] = " + sum +
                     "(A[n, i, k] * B[n, " + (swapped ? "j, k" : "k, j") + "])";
  for (int64_t n = random.in(1, 3); n > 0; --n) text += ", " + condition(random);
  if (random.percent(40)) text += " default P";
  Shape second = swapped ? Shape{batch, columns, terms} : Shape{batch, terms, columns};
  MaskedProduct made{text + "; }", {}};
  for (const Shape& shape : {Shape{batch, rows, terms}, second, Shape{batch, rows, columns}}) {
    made.inputs.push_back(whole_numbers(type, shape, random));
  }
  return made;
}

// Engines for the vector widths that this machine has.
std::vector<std::shared_ptr<Engine>> engines() {
  std::vector<std::shared_ptr<Engine>> all;
  for (const char* features : {"sse", "avx2", "avx512"}) {
    try {
      all.push_back(test_engine("cpu", features));
    } catch (const Failure&) {  // not on this machine
    }
  }
  return all;
}

TEST(MaskedProducts, ConditionsOfCellsAndTerms) {
  std::vector<std::shared_ptr<Engine>> all = engines();
  ASSERT_FALSE(all.empty());
  for (uint64_t seed : sweep(0, 60, 20)) {
    MaskedProduct drawn = masked_product(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + drawn.text);
    auto source = std::make_shared<const Source>(Source{"masked.tile", drawn.text});
    auto program = std::make_shared<const Program>(parse(Language::tile, source));
    std::vector<InputType> types;
    std::vector<InputLayout> layouts;
    for (const HostTensor& t : drawn.inputs) {
      types.push_back({t.type, t.shape, std::nullopt});
      layouts.push_back({types.back(), {}});
    }
    HostTensor expected = interpret(tile::bind(*program, types), drawn.inputs).outputs[0];
    for (const std::shared_ptr<Engine>& engine : all) {
      SCOPED_TRACE(engine->target().features);
      std::shared_ptr<Executable> e = compile(engine, program, layouts);
      for (int how = 0; how < 2; ++how) {
        HostTensor got = how == 0 ? run_nests(*e, drawn.inputs)[0] : run_code(*e, drawn.inputs)[0];
        ASSERT_EQ(got.shape, expected.shape);
        for (int64_t i = 0; i < got.count(); ++i) {
          ASSERT_EQ(convert(got.at(i), DType::f64).f, convert(expected.at(i), DType::f64).f)
              << (how == 0 ? "nests" : "compiled code") << ", element " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tile::test
