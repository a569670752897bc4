#include "tests/random/training_programs.h"

#include "core/autodiff/differentiate.h"
#include "core/language/tile/tile.h"
#include "core/passes/bind/bind.h"
#include "tests/random/random_source.h"

namespace tile::test {
namespace {

constexpr const char* kSoftmax = R"(function (X[N, M]) -> (O) {
  Top[n, 0: N, 1] = >(X[n, m]);
  E = exp(X - Top);
  Sum[n, 0: N, 1] = +(E[n, m]);
  O = E / Sum;
})";
constexpr const char* kCrossEntropy = R"(function (X[N, M], T[N, M]) -> (L) {
  Top[n, 0: N, 1] = >(X[n, m]);
  D = X - Top;
  E = exp(D);
  Sum[n, 0: N, 1] = +(E[n, m]);
  P = (log(Sum) - D) * T;
  L[n: N] = +(P[n, m]);
})";
constexpr const char* kLayerNorm = R"(function (X[N, M], G[M], B[M]) -> (O) {
  Sum[n, 0: N, 1] = +(X[n, m]);
  D = X - Sum / M;
  S = D * D;
  Var[n, 0: N, 1] = +(S[n, m]);
  O = D * rsqrt(Var / M + 0.00001) * G + B;
})";
constexpr const char* kRmsNorm = R"(function (X[N, M], G[M]) -> (O) {
  S = X * X;
  Mean[n, 0: N, 1] = +(S[n, m]);
  O = X * rsqrt(Mean / M + 0.00001) * G;
})";
constexpr const char* kAttention = R"(function (Q[H, S, D], K[H, T, D], V[H, T, D]) -> (O) {
  L[h, s, t: H, S, T] = +(Q[h, s, d] * K[h, t, d]);
  Z = L * (1.0 / sqrt(1.0 * D));
  Top[h, s, 0: H, S, 1] = >(Z[h, s, t]);
  E = exp(Z - Top);
  Sum[h, s, 0: H, S, 1] = +(E[h, s, t]);
  P = E / Sum;
  O[h, s, d: H, S, D] = +(P[h, s, t] * V[h, t, d]);
})";
constexpr const char* kCausalAttention = R"(function (Q[H, S, D], K[H, T, D], V[H, T, D]) -> (O) {
  L[h, s, t: H, S, T] = +(Q[h, s, d] * K[h, t, d]);
  Z = L * (1.0 / sqrt(1.0 * D));
  Top[h, s, 0: H, S, 1] = >(Z[h, s, t]), s - t < S;
  E = exp(Z - Top);
  Sum[h, s, 0: H, S, 1] = +(E[h, s, t]), s - t < S;
  R[h, s, d: H, S, D] = +(E[h, s, t] * V[h, t, d]), s - t < S;
  O = R / Sum;
})";
constexpr const char* kTransformerBlock = R"(function (X[S, D], G1[D], B1[D], WQ[D, D], WK[D, D],
    WV[D, D], WO[D, D], G2[D], B2[D], W1[D, F], W2[F, D]) -> (Y) {
  S1[s, 0: S, 1] = +(X[s, d]);
  C1 = X - S1 / D;
  Q1 = C1 * C1;
  V1[s, 0: S, 1] = +(Q1[s, d]);
  N1 = C1 * rsqrt(V1 / D + 0.00001) * G1 + B1;
  Q[s, e: S, D] = +(N1[s, d] * WQ[d, e]);
  K[s, e: S, D] = +(N1[s, d] * WK[d, e]);
  V[s, e: S, D] = +(N1[s, d] * WV[d, e]);
  L[s, t: S, S] = +(Q[s, d] * K[t, d]);
  Z = L * (1.0 / sqrt(1.0 * D));
  Top[s, 0: S, 1] = >(Z[s, t]);
  E = exp(Z - Top);
  Sum[s, 0: S, 1] = +(E[s, t]);
  P = E / Sum;
  A[s, d: S, D] = +(P[s, t] * V[t, d]);
  R[s, e: S, D] = +(A[s, d] * WO[d, e]);
  H = X + R;
  S2[s, 0: S, 1] = +(H[s, d]);
  C2 = H - S2 / D;
  Q2 = C2 * C2;
  V2[s, 0: S, 1] = +(Q2[s, d]);
  N2 = C2 * rsqrt(V2 / D + 0.00001) * G2 + B2;
  U[s, f: S, F] = +(N2[s, d] * W1[d, f]);
  A2 = gelu(U);
  W[s, d: S, D] = +(A2[s, f] * W2[f, d]);
  Y = H + W;
})";
constexpr const char* kConvolutionBlock = R"(function (I[N, H, W, CI], K[KH, KW, CI, CO], G[CO],
    B[CO]) -> (R) {
  O[n, y, x, co: N, H, W, CO] = +(I[n, y + j - 1, x + i - 1, ci] * K[j, i, ci, co]);
  S[co: CO] = +(O[n, y, x, co]);
  C = O - S / (N * H * W);
  Q = C * C;
  V[co: CO] = +(Q[n, y, x, co]);
  R = relu(C * rsqrt(V / (N * H * W) + 0.00001) * G + B);
})";

std::vector<Shape> attention(int64_t rows, int64_t columns) {
  return {{2, rows, columns}, {2, rows, columns}, {2, rows, columns}};
}

}  // namespace

const std::vector<TrainingProgram>& training_programs() {
  static const std::vector<TrainingProgram> list = {
      {"softmax", kSoftmax, [](int64_t r, int64_t c) { return std::vector<Shape>{{r, c}}; }},
      {"cross_entropy", kCrossEntropy,
       [](int64_t r, int64_t c) { return std::vector<Shape>{{r, c}, {r, c}}; }},
      {"layer_norm", kLayerNorm,
       [](int64_t r, int64_t c) { return std::vector<Shape>{{r, c}, {c}, {c}}; }},
      {"rms_norm", kRmsNorm, [](int64_t r, int64_t c) { return std::vector<Shape>{{r, c}, {c}}; }},
      {"attention", kAttention, attention},
      {"causal_attention", kCausalAttention, attention},
      {"transformer_block", kTransformerBlock,
       [](int64_t r, int64_t c) {
         return std::vector<Shape>{{r, c}, {c}, {c}, {c, c},     {c, c},    {c, c},
                                   {c, c}, {c}, {c}, {c, 2 * c}, {2 * c, c}};
       }},
      {"convolution_block", kConvolutionBlock, [](int64_t r, int64_t c) {
         return std::vector<Shape>{{2, r, r, c}, {3, 3, c, c}, {c}, {c}};
       }}};
  return list;
}

namespace {

Program parsed(const TrainingProgram& program) {
  return parse_tile(std::make_shared<const Source>(Source{program.name, program.text}));
}

HostTensor small_reals(const InputType& type, uint64_t seed) {
  RandomSource random(seed);
  HostTensor t(type.type, type.shape);
  for (int64_t i = 0; i < t.count(); ++i) t.set(i, real_scalar(2 * random.unit() - 1, type.type));
  return t;
}

}  // namespace

Program training_gradient(const TrainingProgram& program) {
  Program plain = parsed(program);
  std::vector<std::string> wrt;
  for (TensorId id : plain.inputs) wrt.push_back(plain.tensors[id].name);
  return differentiate(plain, plain.tensors[plain.outputs[0]].name, wrt);
}

RandomCase training_types(const TrainingProgram& program, DType type, int64_t rows, int64_t columns,
                          bool gradient) {
  RandomCase c;
  c.exact = false;
  for (const Shape& shape : program.shapes(rows, columns)) c.types.push_back({type, shape});
  c.text = program.text;
  if (gradient) {
    BoundProgram bound = tile::bind(parsed(program), c.types);
    const BoundTensor& output = bound.tensors[bound.outputs[0]];
    c.types.push_back({output.type, output.shape});
    c.text = print(training_gradient(program));
  }
  return c;
}

RandomCase training_case(const TrainingProgram& program, DType type, int64_t rows, int64_t columns,
                         bool gradient) {
  RandomCase c = training_types(program, type, rows, columns, gradient);
  for (size_t i = 0; i < c.types.size(); ++i) c.inputs.push_back(small_reals(c.types[i], i + 1));
  return c;
}

}  // namespace tile::test
