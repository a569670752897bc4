// Gradients through the C interface: compiled code, errors, and products that a user gives
// (rule 7.4).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tile/tile.hpp"

namespace {

namespace jit = tile::jit;
using Floats = std::vector<float>;
using testing::HasSubstr;

jit::Engine engine(const char* backend = "cpu") {
  tile_engine_options options{};
  options.struct_size = sizeof options;
  options.backend = backend;
  options.cache_mode = "off";
  return jit::Engine(options);
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const jit::Error& error) {
    return error.what();
  }
  return "";
}

jit::View vector(Floats& data) {
  return jit::view(data.data(), {static_cast<int64_t>(data.size())});
}

// Rule 7.3a: what is tied stays tied in compiled code, where the products are fused with the sums.
TEST(CompiledGradients, TiesSurviveFusedMultiplyAdd) {
  for (const char* backend : {"reference", "cpu"}) {
    jit::Engine e = engine(backend);
    jit::Program p =
        e.parse("tile", "function (A[N], B[N], C[N]) -> (O) { O[] = >(A[i] * B[i] + C[i]); }");
    jit::Program g = p.differentiate("O", {"C", "A"});
    // 4 equal sums that need the product's low bits, and one smaller.
    Floats a(20, 1.1f), b(20, 1.3f), c(20, 0.7f), dc(20), da(20);
    for (size_t i = 4; i < 20; ++i) c[i] = 0.1f;
    float o = 0, seed = 8;
    g.run({vector(a), vector(b), vector(c), jit::view(&seed, {})},
          {jit::view(&o, {}), vector(dc), vector(da)});
    for (size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(dc[i], i < 4 ? 2 : 0) << backend << i;
      EXPECT_EQ(da[i], i < 4 ? 2 * 1.3f : 0) << backend << i;
    }
  }
}

TEST(CompiledGradients, AgainGiveTheHessian) {
  jit::Engine e = engine();
  jit::Program p = e.parse("tile", "function (A[N]) -> (O) { O[] = *(A[i]); }");
  jit::Program h = p.differentiate("O", {"A"}).differentiate("DA", {"A"});
  Floats a{2, 0, 5, 0}, direction{0, 1, 0, 0}, da(4), row(4);
  float o = 1, seed = 1;
  h.run({vector(a), jit::view(&seed, {}), vector(direction)},
        {jit::view(&o, {}), vector(da), vector(row)});
  EXPECT_EQ(o, 0);
  EXPECT_EQ(da, (Floats{0, 0, 0, 0}));
  EXPECT_EQ(row, (Floats{0, 0, 0, 10}));
}

// The text that is printed is the program that runs.
TEST(CompiledGradients, PrintAndParse) {
  jit::Engine e = engine();
  jit::Program g =
      e.parse("tile", "function (A, B) -> (O) { O = exp(A) * B; }").differentiate("O", {"A", "B"});
  jit::Program again = e.parse("tile", g.text());
  EXPECT_EQ(again.text(), g.text());
  EXPECT_EQ(again.outputs(), (std::vector<std::string>{"O", "DA", "DB"}));
}

TEST(GradientErrors, NameWhatIsWrong) {
  jit::Engine e = engine();
  jit::Program p = e.parse("tile", "function (A, I) -> (O) {\n  O = A * I;\n}", "p.tile");
  EXPECT_THAT(error_of([&] { p.differentiate("Q", {"A"}); }), HasSubstr("\"Q\" is not an output"));
  EXPECT_THAT(error_of([&] { p.differentiate("O", {"Q"}); }), HasSubstr("\"Q\" is not an input"));
  Floats a{1, 2};
  std::vector<int32_t> i{3, 4};
  jit::View integers = jit::view(i.data(), {2});
  jit::Program by_integers = p.differentiate("O", {"I"});
  EXPECT_THAT(error_of([&] { by_integers.compile({vector(a), integers, vector(a)}); }),
              testing::AllOf(HasSubstr("p.tile:1:14"), HasSubstr("I is i32")));
  jit::Program g = p.differentiate("O", {"A"});
  EXPECT_THAT(error_of([&] { g.compile({integers, integers, integers}); }), HasSubstr("is i32"));
  Floats longer{1, 2, 3};
  EXPECT_THAT(error_of([&] { g.compile({vector(a), integers, vector(longer)}); }),
              testing::AllOf(HasSubstr("p.tile:2"), HasSubstr("the seed DO has shape [3]")));
}

const char* kLogistic = "function (A[N]) -> (O) { O = log(1 + exp(A)); }";

// Rule 7.4: a stable gradient where the generated one is NaN.
TEST(GivenGradients, ReplaceTheGeneratedOnes) {
  jit::Engine e = engine();
  jit::Program p = e.parse("tile", kLogistic);
  Floats a{0, 200}, seed{4, 4}, o(2), da(2);
  auto gradient_of = [&](const jit::Program& program) {
    program.differentiate("O", {"A"}).run({vector(a), vector(seed)}, {vector(o), vector(da)});
    return da;
  };
  EXPECT_NE(gradient_of(p)[1], 4);  // infinity over infinity
  jit::Program given = e.parse("tile", "function (DO[M], A[M]) -> (DA) { DA = DO * sigmoid(A); }");
  jit::Program better = p.with_gradient("O", given);
  EXPECT_EQ(gradient_of(better), (Floats{2, 4}));
  EXPECT_NE(gradient_of(p)[1], 4);  // the program itself stays as it was
  // Also twice: the second derivative is that of what was given.
  Floats one{1, 1}, dda(2);
  better.differentiate("O", {"A"})
      .differentiate("DA", {"A"})
      .run({vector(a), vector(seed), vector(one)}, {vector(o), vector(da), vector(dda)});
  EXPECT_EQ(dda, (Floats{1, 0}));
}

// Contractions with dimensions of their own names, intermediate tensors, and the output as input.
TEST(GivenGradients, AreProgramsOfTheirOwn) {
  jit::Engine e = engine();
  jit::Program p = e.parse("tile",
                           "function (A[M, N], B[N]) -> (O) { T[i: M] = +(A[i, j] * B[j]);"
                           " O = exp(T); }");
  jit::Program given = e.parse("tile",
                               "function (O[R], DO[R], B[S], A[R, S]) -> (DB, DA) {"
                               " T = O * DO; DA[i, j: R, S] = +(T[i] * B[j]);"
                               " DB[j: S] = +(T[i] * A[i, j]); }");
  Floats a{1, 0, 2, 3, -1, 1}, b{0.5f, -0.25f, 0.125f}, seed{1, 2}, o(2);
  std::vector<Floats> results;
  for (const jit::Program& program : {p.with_gradient("O", given).differentiate("O", {"A", "B"}),
                                      p.differentiate("O", {"A", "B"})}) {
    Floats da(6), db(3);
    program.run({jit::view(a.data(), {2, 3}), vector(b), vector(seed)},
                {vector(o), jit::view(da.data(), {2, 3}), vector(db)});
    da.insert(da.end(), db.begin(), db.end());
    results.push_back(da);
  }
  for (size_t i = 0; i < results[0].size(); ++i) EXPECT_FLOAT_EQ(results[0][i], results[1][i]);
}

// The given gradient reads P, which is no output of the program that is differentiated.
TEST(GivenGradients, StayWithOtherOutputs) {
  jit::Engine e = engine();
  jit::Program p = e.parse("tile", "function (A[N]) -> (O, P) { P = exp(A); O = P + A; }");
  jit::Program given =
      p.with_gradient("O", e.parse("tile", "function (DO[N], P[N]) -> (DA) { DA = 7 * DO * P; }"));
  const char* names[] = {"O"};
  tile_program* made = nullptr;
  ASSERT_EQ(tile_program_with_outputs(given.get(), names, 1, &made), nullptr);
  Floats a{0, 0}, seed{1, 2}, o(2), da(2);
  jit::Program(made)
      .differentiate("O", {"A"})
      .run({vector(a), vector(seed)}, {vector(o), vector(da)});
  EXPECT_EQ(da, (Floats{7, 14}));
}

TEST(GivenGradients, MustFit) {
  jit::Engine e = engine();
  jit::Program p = e.parse("tile", "function (A, B) -> (O) { O = A * B; }");
  auto give = [&](const char* of, const char* text) {
    return error_of([&] { p.with_gradient(of, e.parse("tile", text)); });
  };
  EXPECT_THAT(give("P", "function (DP, B) -> (DA) { DA = DP * B; }"),
              HasSubstr("\"P\" is not an output"));
  EXPECT_THAT(give("O", "function (DO, C) -> (DA) { DA = DO * C; }"), HasSubstr("the input C"));
  EXPECT_THAT(give("O", "function (DO, B) -> (DC) { DC = DO * B; }"), HasSubstr("the output DC"));
  jit::Program half =
      p.with_gradient("O", e.parse("tile", "function (DO, B) -> (DA) { DA = DO * B; }"));
  EXPECT_THAT(error_of([&] { half.differentiate("O", {"A", "B"}); }),
              HasSubstr("does not compute DB"));
}

}  // namespace
