// Issue 22, item 2: gradients of attention, whose streamed kernels compute scores again, on the
// emulated GPU by warps (sm_80) and by groups of warps (sm_90a); races are found. No program of
// these stores what has rows and columns.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "core/autodiff/differentiate.h"
#include "core/fusion/group.h"
#include "core/kernel/stream.h"
#include "core/language/tile/tile.h"
#include "core/passes/bind/bind.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "tests/emulation/cases.h"

namespace tile::test {
namespace {

struct Training {
  const char* name;
  std::string text;
  std::vector<InputType> inputs;
  std::string of;
  std::vector<std::string> wrt;
  bool stays = false;  // scores are stored, since to compute them twice takes longer
  // Inputs that have these values, again and again.
  std::map<size_t, std::vector<double>> given = {};
};

struct Attention {
  std::string arguments = "Q[B, S, D], K[B, T, D], V[B, T, C]";
  std::string scores = "as_float(Q[b, s, d], 32) * as_float(K[b, t, d], 32)";
  std::string scaled = "L * 0.25";
  std::string condition = "";
  std::string power = "exp(Z - Top)";
  std::string weights = "as_bf16(E / Sum)";
  std::string results = "O";
  std::string text() const {
    return "function (" + arguments + ") -> (" + results + ") {\n  L[b, s, t: B, S, T] = +(" +
           scores + ");\n  Z = " + scaled + ";\n  Top[b, s, 0: B, S, 1] = >(Z[b, s, t])" +
           condition + ";\n  E = " + power + ";\n  Sum[b, s, 0: B, S, 1] = +(E[b, s, t])" +
           condition + ";\n  P = " + weights +
           ";\n  O[b, s, c: B, S, C] = +(P[b, s, t] * V[b, t, c])" + condition + ";\n}\n";
  }
};

std::vector<InputType> sizes(DType type, int64_t rows, int64_t columns, int64_t depth,
                             int64_t values, int64_t batch = 2) {
  return {{type, {batch, rows, depth}},
          {type, {batch, columns, depth}},
          {type, {batch, columns, values}}};
}

Training attention(const char* name, const Attention& a, std::vector<InputType> inputs) {
  return {name, a.text(), std::move(inputs), "O", {"Q", "K", "V"}};
}

std::vector<Training> plain_attentions() {
  Attention full, causal, window, prefix, narrow, f16;
  causal.condition = ", s - t < S";
  window.condition = ", s - t < 40";
  prefix.condition = ", s - t + 30 < S + 30";
  narrow.scores = "Q[b, s, d] * K[b, t, d]";
  narrow.scaled = "as_float(L, 32) * 0.25";
  f16.weights = "as_float(E / Sum, 16)";
  return {
      attention("full", full, sizes(DType::bf16, 70, 90, 32, 48)),
      attention("causal", causal, sizes(DType::bf16, 150, 150, 16, 16)),
      attention("window", window, sizes(DType::bf16, 150, 150, 16, 32)),
      attention("prefix", prefix, sizes(DType::bf16, 100, 130, 16, 16)),
      attention("rounded_scores", narrow, sizes(DType::bf16, 33, 65, 17, 31)),
      attention("f16", f16, sizes(DType::f16, 75, 100, 80, 80)),
      attention("wide", full, sizes(DType::bf16, 130, 150, 128, 128, 1)),
      attention("few_rows", full, sizes(DType::bf16, 5, 65, 64, 64, 1)),
      attention("long", causal, sizes(DType::bf16, 333, 333, 16, 16, 1)),
  };
}

std::vector<Training> other_attentions() {
  Attention bias, soft_cap, second;
  bias.arguments += ", M[S, T]";
  bias.scaled = "L * 0.25 + M";
  soft_cap.scaled = "tanh(L * 0.1) * 4.0";
  second.results = "O, Sum";
  Training biased = attention("bias", bias, sizes(DType::bf16, 70, 90, 32, 32));
  biased.inputs.push_back({DType::f32, {70, 90}});
  std::string grouped =
      "function (Q[G, R, S, D], K[G, T, D], V[G, T, C]) -> (O) {\n"
      "  L[g, r, s, t: G, R, S, T] = +(as_float(Q[g, r, s, d], 32) * as_float(K[g, t, d], 32));\n"
      "  Top[g, r, s, 0: G, R, S, 1] = >(L[g, r, s, t]);\n  E = exp(L - Top);\n"
      "  Sum[g, r, s, 0: G, R, S, 1] = +(E[g, r, s, t]);\n  P = as_bf16(E / Sum);\n"
      "  O[g, r, s, c: G, R, S, C] = +(P[g, r, s, t] * V[g, t, c]);\n}\n";
  // No softmax: two products, one the gate of the other.
  std::string gated =
      "function (Q[B, S, D], K[B, T, D], V[B, T, C], X[B, S, D], Y[B, T, D]) -> (O) {\n"
      "  L[b, s, t: B, S, T] = +(as_float(Q[b, s, d], 32) * as_float(K[b, t, d], 32));\n"
      "  G[b, s, t: B, S, T] = +(as_float(X[b, s, d], 32) * as_float(Y[b, t, d], 32));\n"
      "  P = as_bf16(L * sigmoid(G));\n"
      "  O[b, s, c: B, S, C] = +(P[b, s, t] * V[b, t, c]), s - t < S;\n}\n";
  return {
      biased,
      attention("soft_cap", soft_cap, sizes(DType::bf16, 65, 70, 32, 32)),
      attention("second_output", second, sizes(DType::bf16, 65, 70, 32, 32)),
      {"grouped",
       grouped,
       {{DType::bf16, {2, 3, 66, 32}}, {DType::bf16, {2, 34, 32}}, {DType::bf16, {2, 34, 32}}},
       "O",
       {"Q", "K", "V"}},
      {"gated",
       gated,
       {{DType::bf16, {2, 70, 32}},
        {DType::bf16, {2, 70, 32}},
        {DType::bf16, {2, 70, 32}},
        {DType::bf16, {2, 70, 32}},
        {DType::bf16, {2, 70, 32}}},
       "O",
       {"Q", "K", "V", "X", "Y"}},
  };
}

// The same in other spellings.
std::vector<Training> other_spellings() {
  Attention divided, sink, more, late, lengths;
  divided.condition = sink.condition = ", s - t < S";
  divided.scaled = "L / 4.0";
  sink.arguments += ", R[B, 1, 1]";
  sink.weights = "as_bf16(E / (exp(R - Top) + Sum))";
  more.weights = "as_bf16(E / (exp(-Top) + Sum))";
  lengths.arguments += ", N[B]";
  lengths.scaled = "index(L, 2) < 40 + reshape(N, B, 1, 1) ? L * 0.25 : -1e30";
  Training with_sink = attention("sink", sink, sizes(DType::bf16, 150, 150, 16, 32));
  with_sink.inputs.push_back({DType::f32, {2, 1, 1}});
  with_sink.wrt.push_back("R");
  Training with_lengths = attention("lengths", lengths, sizes(DType::bf16, 70, 90, 32, 32));
  with_lengths.inputs.push_back({DType::i32, {2}});
  std::string late_text = late.text();
  late_text.replace(late_text.find("as_bf16(E / Sum)"), 16, "as_bf16(E)");
  late_text.replace(late_text.find("  O["), 4, "  U[");
  late_text.replace(late_text.rfind("}"), 1, "  O = as_bf16(as_float(U, 32) / Sum);\n}");
  // Slices of one tensor, and heads behind rows.
  std::string slices =
      "function (X[B, S, 3, H, D]) -> (O) {\n"
      "  L[b, h, s, t: B, H, S, S] = +(as_float(X[b, s, 0, h, d], 32) * "
      "as_float(X[b, t, 1, h, d], 32)), s - t < S;\n  Z = L / 4.0;\n"
      "  Top[b, h, s, 0: B, H, S, 1] = >(Z[b, h, s, t]), s - t < S;\n  E = exp(Z - Top);\n"
      "  Sum[b, h, s, 0: B, H, S, 1] = +(E[b, h, s, t]), s - t < S;\n  P = as_bf16(E / Sum);\n"
      "  O[b, s, h, d: B, S, H, D] = +(P[b, h, s, t] * X[b, t, 2, h, d]), s - t < S;\n}\n";
  std::string causal = divided.text();
  causal.replace(causal.find(");\n  Z ="), 1, "), s - t < S");
  Training masked{
      "divided_gaps", causal, sizes(DType::bf16, 150, 150, 16, 16), "O", {"Q", "K", "V"}};
  return {
      masked,
      with_sink,
      with_lengths,
      attention("one_more_term", more, sizes(DType::bf16, 70, 90, 32, 48)),
      {"normalized_last", late_text, sizes(DType::bf16, 70, 90, 32, 48), "O", {"Q", "K", "V"}},
      {"slices", slices, {{DType::bf16, {2, 100, 3, 2, 16}}}, "O", {"X"}},
  };
}

// Rows whose largest score is beyond 2^27, or whose sum is beyond 2^125, take longer forms of
// exponents and quotients: all of a block's, some or none. Gradients of keys have rows as columns.
std::vector<Training> odd_rows() {
  auto far = [](const char* name, const char* scale, std::vector<double> added) {
    Attention a;
    a.arguments += ", R[B, S, 1]";
    a.scaled = std::string("(L + R) * ") + scale;
    a.condition = ", s - t < S";
    Training t = attention(name, a, sizes(DType::bf16, 150, 150, 16, 32));
    t.inputs.push_back({DType::f32, {2, 150, 1}});
    t.given = {{3, std::move(added)}};
    return t;
  };
  Attention huge;
  huge.power = "exp(Z - Top) * 3e36";
  huge.scaled = "L * 0.3";
  std::vector<double> one_far(150, 0.5);
  one_far[70] = -1e9;
  return {
      far("usual", "0.3", {0, 0.5, -1}),
      far("far", "0.3", {0, 1e9, 1, -1e9}),
      far("far_exact", "0.25", {0, 1e9, 1, -1e9}),
      far("one_far", "0.3", one_far),
      attention("huge", huge, sizes(DType::bf16, 150, 150, 16, 32)),
  };
}

std::vector<Training> of_f32(std::vector<Training> all) {
  for (Training& t : all) {
    t.text = unrounded(t.text);
    for (InputType& in : t.inputs) in.type = is_float(in.type) ? DType::f32 : in.type;
    t.stays = std::string(t.name) == "wide" || std::string(t.name) == "grouped";
  }
  return all;
}

Program parsed(const std::string& text) {
  return parse_tile(std::make_shared<const Source>(Source{"training", text}));
}

RandomCase drawn(const Training& t) {
  RandomCase c;
  c.exact = false;
  c.types = t.inputs;
  Program program = parsed(t.text);
  BoundProgram forward = tile::bind(program, t.inputs);
  const BoundTensor& out = forward.tensors[forward.outputs[0]];
  c.types.push_back({out.type, out.shape});
  c.text = print(differentiate(program, t.of, t.wrt));
  std::mt19937_64 random(1);
  std::normal_distribution<double> value(0, 1);
  for (const InputType& in : c.types) {
    HostTensor tensor(in.type, in.shape);
    auto given = t.given.find(c.inputs.size());
    for (int64_t i = 0; i < tensor.count(); ++i) {
      double x = value(random);
      if (given != t.given.end()) x = given->second[static_cast<size_t>(i) % given->second.size()];
      tensor.set(i, real_scalar(x, in.type));
    }
    c.inputs.push_back(std::move(tensor));
  }
  return c;
}

// A GPU whose memory is so slow, beside its arithmetic, that nothing is stored which need not be,
// at any size.
Target slow_memory(const std::string& architecture) {
  Target target = *gpu_target(architecture);
  target.strict_skip = false;
  target.dram_bytes_per_ns /= 1000;
  target.fma_per_ns *= 100;
  return target;
}

std::string far(const EmulatedCase& c, const std::vector<HostTensor>& got) {
  // Three roundings to 8 bits, of factors and of the result.
  return far_from_largest(c, got, [](DType) { return 0.02; });
}

std::string far_in_f32(const EmulatedCase& c, const std::vector<HostTensor>& got) {
  return far_from_largest(c, got, [](DType) { return 2e-5; });
}

// The largest number of cells that a tensor between kernels has.
int64_t largest_temporary(const BoundProgram& program, const Target& target) {
  int64_t most = 0;
  for (const Step& step : group(program, target)) {
    for (TensorId id : std::get<Kernel>(step).writes) {
      bool output =
          std::find(program.outputs.begin(), program.outputs.end(), id) != program.outputs.end();
      if (!output) most = std::max(most, element_count(program.tensors[id].shape));
    }
  }
  return most;
}

class StreamGradients : public ::testing::TestWithParam<const char*> {
 protected:
  template <class Far>
  void expect_all(const std::vector<Training>& all, Far is_far) {
    expect_all(all, slow_memory(GetParam()), is_far);
  }
  template <class Far>
  void expect_all(const std::vector<Training>& all, const Target& target, Far is_far) {
    std::vector<EmulatedCase> cases;
    for (const Training& t : all) {
      SCOPED_TRACE(t.name);
      cases.push_back(lowered(0, 0, drawn(t), target));
      // Partial sums of heads that share keys are as large as the queries.
      int64_t lines = 0;
      for (const InputType& in : t.inputs) lines = std::max(lines, element_count(in.shape));
      if (t.stays) continue;
      EXPECT_LE(largest_temporary(cases.back().program, target), lines);
    }
    expect_emulated(cases, target, is_far);
  }
};

TEST_P(StreamGradients, OfMasksAndSizesAgree) { expect_all(plain_attentions(), far); }
TEST_P(StreamGradients, OfOtherScoresAgree) { expect_all(other_attentions(), far); }
TEST_P(StreamGradients, OfOtherSpellingsAgree) { expect_all(other_spellings(), far); }
TEST_P(StreamGradients, OfOddRowsAgree) { expect_all(odd_rows(), far); }
TEST_P(StreamGradients, OfMasksAndSizesInF32Agree) {
  expect_all(of_f32(plain_attentions()), far_in_f32);
}
TEST_P(StreamGradients, OfOtherScoresInF32Agree) {
  expect_all(of_f32(other_attentions()), far_in_f32);
}
TEST_P(StreamGradients, OfOtherSpellingsInF32Agree) {
  expect_all(of_f32(other_spellings()), far_in_f32);
}

INSTANTIATE_TEST_SUITE_P(Architectures, StreamGradients, ::testing::Values("sm_80", "sm_90a"),
                         [](const auto& tested) { return std::string(tested.param); });

// Blocks that stay and take tiles in turns.
class StreamGradientsInTurns : public StreamGradients {};
TEST_P(StreamGradientsInTurns, OfOddRowsAgree) {
  Target few = slow_memory(GetParam());
  few.gpu.multiprocessors = 2;
  expect_all(odd_rows(), few, far);
}
INSTANTIATE_TEST_SUITE_P(Hopper, StreamGradientsInTurns, ::testing::Values("sm_90a"));

}  // namespace
}  // namespace tile::test
