// Gradients of attention on a CPU whose kernels compute scores again, block by block: random
// programs of any mask, size and spelling against the reference interpreter, under the model's and
// random schedules. Nothing that has rows and columns is stored where space comes first.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "core/autodiff/differentiate.h"
#include "core/fusion/group.h"
#include "core/kernel/stream.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/space/row_candidates.h"
#include "core/support/choices.h"
#include "tests/support/run_tile.h"
#include "tests/support/schedule_kernels.h"
#include "tests/support/step_runner.h"

namespace tile::testing {
namespace {

using test::kInf;

struct Attention {
  int64_t groups = 1, heads = 1, rows = 1, columns = 1, depth = 1, values = 1;
  DType type = DType::f32;
  std::string condition = "", scaled = "L * 0.25 + M", weights = "E / Sum", sums = "P";
  std::string bias = "[R, T]";

  std::string text() const {
    return "function (Q[G, H, R, D], K[G, T, D], V[G, T, C], M" + bias +
           ") -> (O) {\n"
           "  L[g, h, s, t: G, H, R, T] = +(Q[g, h, s, d] * K[g, t, d]);\n  Z = " +
           scaled + ";\n  Top[g, h, s, 0: G, H, R, 1] = >(Z[g, h, s, t])" + condition +
           ";\n  E = exp(Z - Top);\n  Sum[g, h, s, 0: G, H, R, 1] = +(E[g, h, s, t])" + condition +
           ";\n  P = " + weights + ";\n  W[g, h, s, c: G, H, R, C] = +(" + sums +
           "[g, h, s, t] * V[g, t, c])" + condition + ";\n  O = W" + (sums == "E" ? " / Sum" : "") +
           ";\n}\n";
  }
  std::string sizes() const {
    std::string all(to_string(type));
    for (int64_t n : {groups, heads, rows, columns, depth, values}) all += " " + std::to_string(n);
    return all;
  }
  // Gradients by all inputs but the bias, which would have rows and columns.
  std::string gradients() const {
    auto source = std::make_shared<const Source>(Source{"attention", text()});
    return print(differentiate(parse_tile(source), "O", {"Q", "K", "V"}));
  }
  std::vector<HostTensor> inputs(uint64_t seed) const {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> value(0, 1);
    std::vector<HostTensor> all;
    for (Shape shape : {Shape{groups, heads, rows, depth}, Shape{groups, columns, depth},
                        Shape{groups, columns, values}, Shape{rows, columns},
                        Shape{groups, heads, rows, values}}) {
      HostTensor t(type, std::move(shape));
      for (int64_t i = 0; i < t.count(); ++i) t.set(i, real_scalar(value(random), type));
      all.push_back(std::move(t));
    }
    return all;
  }
};

Attention drawn(uint64_t seed) {
  std::mt19937_64 random(seed);
  auto up_to = [&](int64_t most) {
    return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most));
  };
  Attention a;
  a.groups = up_to(2);
  a.heads = up_to(3);
  a.rows = 15 + up_to(30);
  a.columns = 15 + up_to(30);
  a.depth = 6 + up_to(12);
  a.values = 6 + up_to(12);
  if (random() % 4 == 0) a.type = DType::f64;
  // Causal, banded, and as far as some keys ahead.
  const std::string conditions[] = {"", ", s - t < R", ", s - t < 5", ", s - t + 3 < R + 3"};
  size_t condition = random() % 4;
  a.condition = conditions[condition];
  if (condition > 0) a.columns = a.rows + (condition == 3 ? 3 : 0);
  const std::string scales[] = {"L * 0.25 + M", "L / 3.0 + M", "tanh(L * 0.1) * 4.0 + M",
                                "(L + M) * 0.5"};
  a.scaled = scales[random() % 4];
  if (random() % 3 == 0) a.sums = "E";
  return a;
}

// Of tensors that kernels leave for others.
int64_t largest_temporary(const BoundProgram& program, const std::vector<Step>& steps) {
  int64_t most = 0;
  for (const Step& step : steps) {
    for (TensorId id : std::get<Kernel>(step).writes) {
      bool output =
          std::find(program.outputs.begin(), program.outputs.end(), id) != program.outputs.end();
      if (!output) most = std::max(most, element_count(program.tensors[id].shape));
    }
  }
  return most;
}

struct Compiled {
  BoundProgram program;
  std::vector<Step> steps;
};
Compiled compiled(const BoundProgram& bound, const Target& target) {
  Compiled c{bound, {}};
  run_pipeline(c.program, target);
  c.steps = group(c.program, target);
  return c;
}

void expect_little_stored(const Attention& a, const std::vector<HostTensor>& inputs, int schedules,
                          double tolerance) {
  BoundProgram bound = test::bind_text(a.gradients(), test::types_of(inputs));
  std::vector<HostTensor> expected = interpret(bound, inputs).outputs;
  SpaceFirst now;
  Compiled c = compiled(bound, wide_target());
  // Heads that share keys leave their parts of the keys' gradients.
  int64_t lines = 0;
  for (size_t i : {0, 1, 2, 4}) lines = std::max(lines, inputs[i].count());
  lines = std::max(lines, a.heads * std::max(inputs[1].count(), inputs[2].count()));
  bool outgrown = a.rows * a.columns * a.heads * a.groups > 2 * lines;
  if (outgrown) {
    EXPECT_LE(largest_temporary(c.program, c.steps), lines) << print(c.steps, c.program);
  }
  test::expect_steps_give(c.program, c.steps, inputs, expected, schedules, tolerance);
}

constexpr uint64_t kPrograms = 5;  // of each test

class StreamGradients : public ::testing::TestWithParam<uint64_t> {};

TEST_P(StreamGradients, OfRandomAttentionAgree) {
  for (uint64_t seed = kPrograms * GetParam(); seed < kPrograms * (GetParam() + 1); ++seed) {
    Attention a = drawn(seed);
    SCOPED_TRACE(a.text() + a.sizes());
    expect_little_stored(a, a.inputs(seed), 2, 2e-5);
    if (HasFatalFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, StreamGradients, ::testing::Range<uint64_t>(0, 6));

Attention causal() {
  Attention a;
  a.rows = a.columns = 45;
  a.heads = 2;
  a.depth = a.values = 5;
  a.condition = ", s - t < R";
  return a;
}

// The largest score of a row more than once.
TEST(RecomputedStreams, Ties) {
  Attention a = causal();
  std::vector<HostTensor> inputs = a.inputs(1);
  for (size_t i : {0, 3}) {
    for (int64_t k = 0; k < inputs[i].count(); ++k) inputs[i].set(k, real_scalar(0, a.type));
  }
  expect_little_stored(a, inputs, 3, 2e-5);
}

// Rows without any term, and terms of -inf.
TEST(RecomputedStreams, MaskedRows) {
  Attention a = causal();
  std::vector<HostTensor> inputs = a.inputs(2);
  for (int64_t t = 0; t < a.columns; ++t) {
    inputs[3].set(7 * a.columns + t, real_scalar(-kInf, a.type));
    if (t % 3 == 0) inputs[3].set(11 * a.columns + t, real_scalar(-kInf, a.type));
  }
  expect_little_stored(a, inputs, 3, 2e-5);
}

// By time alone, too, where scores do not fit into caches. What the second cache holds is stored.
TEST(RecomputedStreams, AreChosenByTime) {
  Attention a = causal();
  a.rows = a.columns = 2048;
  a.depth = a.values = 64;
  a.scaled = "L * 0.25";
  BoundProgram bound = test::bind_text(a.gradients(), test::types_of(a.inputs(3)));
  Target near = wide_target();
  near.l2_bytes = int64_t{64} << 20;
  Compiled chosen = compiled(bound, wide_target()), usual = compiled(bound, near);
  int64_t scores = a.groups * a.heads * a.rows * a.columns;
  EXPECT_LT(largest_temporary(chosen.program, chosen.steps), scores);
  EXPECT_EQ(largest_temporary(usual.program, usual.steps), scores);
}

// How many terms of products a nest adds up; both sides of what data decides have as many.
class Terms {
 public:
  int64_t of(const nest::Block& block) {
    int64_t all = 0;
    for (const nest::Statement& s : block) {
      if (const auto* loop = std::get_if<nest::For>(&s.what)) all += of(*loop);
      if (const auto* choice = std::get_if<nest::If>(&s.what)) all += of(*choice);
      const auto* store = std::get_if<nest::Store>(&s.what);
      if (store != nullptr && store->kind == nest::StoreKind::fma) ++all;
    }
    return all;
  }

 private:
  int64_t of(const nest::For& loop) {
    int64_t begin = *value_at(loop.begin, at_), extent = *value_at(loop.extent, at_), all = 0;
    bool alike = loop.kind == nest::LoopKind::unrolled || loop.kind == nest::LoopKind::vector;
    for (int64_t i = 0; i < (alike ? std::min<int64_t>(extent, 1) : extent); ++i) {
      at_[loop.variable] = begin + i;
      all += of(loop.body);
    }
    return alike ? extent * all : all;
  }
  int64_t of(const nest::If& choice) {
    bool holds = std::all_of(choice.nonnegative.begin(), choice.nonnegative.end(),
                             [&](const Expr& e) { return *value_at(e, at_) >= 0; });
    return of(holds ? choice.then : choice.otherwise);
  }

  std::map<std::string, int64_t, std::less<>> at_;
};

// A schedule whose blocks have 128 rows and 128 of the streamed axis.
Schedule with_large_blocks(const Kernel& kernel, const Target& target) {
  for (const Schedule& s : row_candidates(kernel, target, 500)) {
    const std::vector<Loop>& outer = s.stages[0][0].outer;
    auto large = std::count_if(outer.begin(), outer.begin() + static_cast<std::ptrdiff_t>(s.shared),
                               [](const Loop& l) { return l.step == 128; });
    if (large == 2) return s;
  }
  ADD_FAILURE() << "no such blocks";
  return analytic_schedule(kernel, target);
}

// Scores of blocks at the diagonal are made for half of the cells and half a tile of 64 rows for
// each row, where whole blocks would be 0.5625 of all; the sums of them know their own conditions.
TEST(RecomputedStreams, MakeCellsThatSumsNeed) {
  Attention a = causal();
  a.rows = a.columns = 1024;
  a.depth = a.values = 64;
  a.scaled = "L * 0.25";
  BoundProgram bound = test::bind_text(a.gradients(), test::types_of(a.inputs(5)));
  Target target = wide_target();
  target.threads = 2;
  SpaceFirst now;
  Compiled c = compiled(bound, target);
  int products = 0;
  for (const Step& step : c.steps) {
    const auto& kernel = std::get<Kernel>(step);
    if (!has_stream(kernel)) continue;
    int64_t all = 0;
    for (const KernelStage& stage : kernel.stages) {
      const Piece& p = stage.contraction.pieces[0];
      bool product = p.parallel_dims < p.box.size() && p.loads.size() == 2 && p.box.size() == 5;
      if (!product) continue;
      all += element_count(Shape(p.box.begin(), p.box.end()));
      ++products;
    }
    Schedule pick = with_large_blocks(kernel, target);
    double made = static_cast<double>(Terms().of(lower(kernel, pick, target).body));
    EXPECT_LT(made, 0.53 * static_cast<double>(all)) << kernel.name;
    EXPECT_GT(made, 0.5 * static_cast<double>(all)) << kernel.name;
  }
  EXPECT_GE(products, 8);
}

// What lies behind the mask is not visited, from either end of the streamed axis.
TEST(RecomputedStreams, VisitBlocksThatSumsNeed) {
  Attention a = causal();
  a.rows = a.columns = 512;
  BoundProgram bound = test::bind_text(a.gradients(), test::types_of(a.inputs(4)));
  SpaceFirst now;
  Compiled c = compiled(bound, wide_target());
  int streams = 0;
  for (const Step& step : c.steps) {
    const auto& kernel = std::get<Kernel>(step);
    if (!has_stream(kernel)) continue;
    std::vector<int64_t> blocks(kernel.stages[0].rows.size() + 1, 64);
    EXPECT_NEAR(visited_share(kernel, blocks), 4.5 / 8, 1e-9) << kernel.name;
    ++streams;
  }
  EXPECT_GE(streams, 3);
}

HostTensor drawn_tensor(DType type, Shape shape, std::mt19937_64& random) {
  std::normal_distribution<double> value(0, 0.3);
  HostTensor t(type, std::move(shape));
  for (int64_t i = 0; i < t.count(); ++i) {
    double v = value(random);
    t.set(i, type == DType::bool_ ? integer_scalar(v < 0.3 ? 1 : 0, type) : real_scalar(v, type));
  }
  return t;
}
// Where space comes first the kernels give what the interpreter gives.
void expect_agrees(const std::string& text, const std::vector<HostTensor>& inputs,
                   double tolerance) {
  BoundProgram bound = test::bind_text(text, test::types_of(inputs));
  SpaceFirst now;
  Compiled c = compiled(bound, wide_target());
  test::expect_steps_give(c.program, c.steps, inputs, interpret(bound, inputs).outputs, 1,
                          tolerance);
}
std::string gradients_of(const std::string& text, const std::string& of,
                         const std::vector<std::string>& by) {
  return print(
      differentiate(parse_tile(std::make_shared<const Source>(Source{"p", text})), of, by));
}

// Kernels add the terms of a score in different orders, so that scores made again need not have the
// bits of the maximum of others.
TEST(RecomputedStreams, AreNotComparedWithOthersMaximum) {
  std::mt19937_64 random(6);
  std::vector<HostTensor> inputs;
  for (const Shape& shape : {Shape{56, 2, 2, 32}, Shape{56, 2, 32}}) {
    inputs.push_back(drawn_tensor(DType::f32, shape, random));
  }
  inputs.push_back(drawn_tensor(DType::bool_, {56, 56}, random));
  for (const char* picks : {"Z == Top", "Z - Top >= 0.0", "sign(Z - Top) == 0"}) {
    expect_agrees(
        "function (Q[T, H, G, E], K[T, H, E], M[T, T]) -> (O) {\n"
        "  L[h, g, t, u: H, G, T, T] = +(Q[t, h, g, e] * K[u, h, e]);\n"
        "  Z = M ? L : -1000.0;\n  Top[h, g, t, 0: H, G, T, 1] = >(Z[h, g, t, u]);\n"
        "  P = " +
            std::string(picks) +
            " ? 1.0 : 0.0;\n  O[t, h, g, e: T, H, G, E] = +(P[h, g, t, u] * K[u, h, e]);\n}\n",
        inputs, 2e-5);
  }
}

// Contrastive losses sum up the diagonal of a softmax over rows and of one over columns.
TEST(RecomputedStreams, ScalarsOfScores) {
  std::mt19937_64 random(7);
  std::string text = gradients_of(
      "function (X[T, D]) -> (L) {\n  G[t, u: T, T] = +(X[t, d] * X[u, d]);\n"
      "  M[t, 0: T, 1] = >(G[t, u]);\n  E = exp(G - M);\n"
      "  Z[t, 0: T, 1] = +(E[t, u]);\n  Q = G - M - log(Z);\n  A[] = +(Q[t, t]);\n"
      "  N[0, u: 1, T] = >(G[t, u]);\n  F = exp(G - N);\n"
      "  Y[0, u: 1, T] = +(F[t, u]);\n  R = G - N - log(Y);\n  B[] = +(R[t, t]);\n"
      "  L = A + B;\n}\n",
      "L", {"X"});
  expect_agrees(text,
                {drawn_tensor(DType::f32, {33, 4}, random), drawn_tensor(DType::f32, {}, random)},
                2e-5);
}

// Sums that one region moves are scores of another one, which cannot copy what they were.
TEST(RecomputedStreams, OfRegionsThatFollowEachOther) {
  std::string text = gradients_of(
      "function (A[T, D], B[F, D], C[D, F], WK[D, H, E], WV[D, H, E], M[T, T], WO[H, G, E, D], "
      "W[D, D], S[T, 1], Q[T, H, G, E], Z[T, H, G, 1]) -> (O) {\n"
      "  X[t, d: T, D] = +(A[t, e] * W[e, d]);\n  Y[t, f: T, F] = +(X[t, d] * C[d, f]);\n"
      "  N = S * Y;\n  P[t, d: T, D] = +(N[t, f] * B[f, d]);\n  R = X + P;\n"
      "  K[u, h, e: T, H, E] = +(R[u, d] * WK[d, h, e]);\n"
      "  V[u, h, e: T, H, E] = +(R[u, d] * WV[d, h, e]);\n"
      "  L[h, g, t, u: H, G, T, T] = +(Q[t, h, g, e] * K[u, h, e]);\n"
      "  U[h, g, t, u: H, G, T, T] = =(M[t, u] ? L[h, g, t, u] : -1000.0);\n"
      "  Top[h, g, t, 0: H, G, T, 1] = >(U[h, g, t, u]);\n  I = exp(U - Top);\n"
      "  J[t, h, g, e: T, H, G, E] = +(I[h, g, t, u] * V[u, h, e]);\n  JZ = J / Z;\n"
      "  JO[t, d: T, D] = +(JZ[t, h, g, e] * WO[h, g, e, d]);\n  RO = R + JO;\n"
      "  O[i, j: T, T] = +(RO[i, d] * RO[j, d]);\n}\n",
      "O", {"A", "B", "C", "Q"});
  std::mt19937_64 random(8);
  std::vector<HostTensor> inputs;
  for (const Shape& shape :
       {Shape{64, 8}, Shape{1, 8}, Shape{8, 1}, Shape{8, 2, 32}, Shape{8, 2, 32}, Shape{64, 64},
        Shape{2, 2, 32, 8}, Shape{8, 8}, Shape{64, 1}, Shape{64, 2, 2, 32}, Shape{64, 2, 2, 1},
        Shape{64, 64}}) {
    DType type = inputs.size() == 5 ? DType::bool_ : DType::f32;
    inputs.push_back(drawn_tensor(type, shape, random));
  }
  for (int64_t i = 0; i < inputs[10].count(); ++i) inputs[10].set(i, real_scalar(1, DType::f32));
  expect_agrees(text, inputs, 2e-3);
}

}  // namespace
}  // namespace tile::testing
