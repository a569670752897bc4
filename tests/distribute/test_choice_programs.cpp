// Programs of all languages and their gradients under chosen layouts mean what they mean undivided.
#include <gtest/gtest.h>

#include <random>

#include "core/autodiff/differentiate.h"
#include "core/distribute/spread.h"
#include "core/ir/repeat.h"
#include "core/language/lift/lift.h"
#include "core/language/mfg/mfg.h"
#include "tests/distribute/sharded_run.h"
#include "tests/random/agreement/agreement.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

SourcePtr text(const std::string& program) {
  return std::make_shared<const Source>(Source{"program", program});
}

std::vector<HostTensor> random_inputs(const std::vector<InputType>& types, int64_t most) {
  std::mt19937_64 random(7);
  std::vector<HostTensor> inputs;
  for (const InputType& type : types) {
    HostTensor& t = inputs.emplace_back(type.type, type.shape);
    for (int64_t i = 0; i < t.count(); ++i) {
      double value = double(random() % uint64_t(most)) / (is_float(type.type) ? double(most) : 1);
      t.set(i, is_float(type.type) ? real_scalar(value, type.type)
                                   : integer_scalar(int64_t(value), type.type));
    }
  }
  return inputs;
}

// On slow links and slow ranks, so that every way of dividing is worth it somewhere.
void expect_same_meaning(const Program& source, const std::vector<InputType>& types,
                         int64_t most = 16) {
  BoundProgram program = tile::bind(with_repeats_written_out(source), types);
  std::vector<HostTensor> inputs = random_inputs(types, most);
  Interpretation expected = interpret(program, inputs, kInOrder, true);
  size_t divided = 0;
  for (const char* axes : {"x=2", "x=3", "x=2, y=2", "x=3, y=2", "x=8"}) {
    Mesh mesh = parse_mesh(text(axes));
    for (double bytes_per_ns : {1e-3, 1.0, 1e3}) {
      for (bool spreads : {false, true}) {
        SCOPED_TRACE(std::string(axes) + (spreads ? ", spread" : ", open"));
        ChoiceOptions options;
        options.links.any = {1 / bytes_per_ns, bytes_per_ns};
        options.rates = {0.1, 1};
        WrittenLayouts written = spreads ? spread_layouts(program, mesh) : WrittenLayouts{};
        Choice choice = choose_layouts(program, named_layouts(program, mesh, written), options);
        PartitionedProgram p = divided_as(program, choice, options);
        EXPECT_EQ(difference(expected, run_ranks(p, program, inputs), false), "");
        for (const StatementSummary& s : p.statements) divided += s.times < double(mesh.ranks());
      }
    }
  }
  EXPECT_GT(divided, 0u);
}

TEST(ChosenPrograms, StridedConvolutionsAndTheirGradients) {
  Program source =
      parse_tile(text("function (X[N, H, C], W[K, C, F]) -> (O) {"
                      "  O[n, h, f: N, (H - K) / 2 + 1, F] = +(X[n, 2*h + k, c] * W[k, c, f]);"
                      "}"));
  Program gradient = differentiate(source, "O", {"X", "W"});
  expect_same_meaning(gradient,
                      {{DType::f32, {2, 11, 3}}, {DType::f32, {3, 3, 5}}, {DType::f32, {2, 5, 5}}});
}

TEST(ChosenPrograms, AttentionAndItsGradients) {
  Program source =
      parse_tile(text("function (Q[M, D], K[N, D], V[N, D]) -> (O) {"
                      "  S[m, n: M, N] = +(Q[m, d] * K[n, d]);"
                      "  T[m, 0: M, 1] = >(S[m, n]);"
                      "  E = exp(S - T);"
                      "  Z[m, 0: M, 1] = +(E[m, n]);"
                      "  P = E / Z;"
                      "  O[m, d: M, D] = +(P[m, n] * V[n, d]);"
                      "}"));
  expect_same_meaning(
      differentiate(source, "O", {"Q", "V"}),
      {{DType::f32, {5, 4}}, {DType::f32, {7, 4}}, {DType::f32, {7, 4}}, {DType::f32, {5, 4}}});
}

TEST(ChosenPrograms, ReshapesSortsAndIndicesThatAreValues) {
  Program source =
      parse_tile(text("function (X[A, B], I[K]) -> (S, G) {"
                      "  R = reshape(X, B, A);"
                      "  S = sort(R, 0);"
                      "  G = gather(R, I);"
                      "}"));
  expect_same_meaning(source, {{DType::f32, {6, 4}}, {DType::i32, {5}}}, 4);
}

TEST(ChosenPrograms, StencilsOfLift) {
  Program source =
      parse_lift(text("val step = fun(ArrayType(ArrayType(Float, M), N), IN =>"
                      "  MapGlb(1)(MapGlb(0)(w =>"
                      "    (At(1) o At(0) $ w) + (At(0) o At(1) $ w) + 2.0f * (At(1) o At(1) $ w) +"
                      "    (At(2) o At(1) $ w) + (At(1) o At(2) $ w))) o"
                      "    Slide2D(3, 1) o Pad2D(1, 1, clamp) $ IN)"));
  expect_same_meaning(source, {{DType::f32, {9, 7}}});
  const BoundProgram bound = tile::bind(source, {{DType::f32, {9, 7}}});
  std::string input = bound.tensors[bound.inputs[0]].name,
              output = bound.tensors[bound.outputs[0]].name;
  expect_same_meaning(differentiate(source, output, {input}),
                      {{DType::f32, {9, 7}}, {DType::f32, {9, 7}}});
}

TEST(ChosenPrograms, FiltersOfMfg) {
  Program source =
      parse_mfg(text("let source = sampler<input_f32>(address=.ClampToEdge)\n"
                     "let [W, H] = input_f32.extent()\n"
                     "@bounds(W, H)\n"
                     "def across |x, y| {\n"
                     "  rsum(-2..<3) |dx| { source(x+dx, y) }\n"
                     "}\n"
                     "let rows = sampler<across>(address=.ClampToEdge)\n"
                     "def result_f32 |x, y| {\n"
                     "  rsum(-1..<2) |dy| { rows(x, y+dy) }\n"
                     "}\n"));
  expect_same_meaning(source, {{DType::f32, {7, 10}}});
}

}  // namespace
}  // namespace tile::test
