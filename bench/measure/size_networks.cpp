#include "bench/measure/size_networks.h"

namespace tile::bench {
namespace {

// Statements for rows of M values of a tensor X[S, M], named by `p`: Y = (X - mean) / deviation.
std::string layer_norm(const std::string& y, const std::string& x, const std::string& rows,
                       const std::string& width) {
  std::string m = y + "M", d = y + "D", q = y + "Q", v = y + "V";
  return " " + m + "[r, 0: " + rows + ", 1] = +(" + x + "[r, c]);" +  //
         " " + d + " = " + x + " - " + m + " / " + width + ";" +      //
         " " + q + " = " + d + " * " + d + ";" +                      //
         " " + v + "[r, 0: " + rows + ", 1] = +(" + q + "[r, c]);" +  //
         " " + y + " = " + d + " * rsqrt(" + v + " / " + width + " + 0.00001);";
}

std::string softmax(const std::string& y, const std::string& x, const std::string& rows) {
  std::string t = y + "T", e = y + "E", s = y + "S";
  return " " + t + "[r, 0: " + rows + ", 1] = >(" + x + "[r, c]);" +  //
         " " + e + " = exp(" + x + " - " + t + ");" +                 //
         " " + s + "[r, 0: " + rows + ", 1] = +(" + e + "[r, c]);" +  //
         " " + y + " = " + e + " / " + s + ";";
}

std::string gelu(const std::string& y, const std::string& x) {
  return " " + y + " = 0.5 * " + x + " * (1.0 + erf(" + x + " * 0.7071067811865476));";
}

// R = X + attention of the rows of X[S, M] with H heads of D values each.
std::string attention(const std::string& when) {
  return " Q[s, h, d: S, H, D] = +(X[s, m] * WQ[m, h, d]);"
         " K[s, h, d: S, H, D] = +(X[s, m] * WK[m, h, d]);"
         " V[s, h, d: S, H, D] = +(X[s, m] * WV[m, h, d]);"
         " L[h, s, t: H, S, S] = +(Q[s, h, d] * K[t, h, d]);"
         " Z = L * (1.0 / sqrt(1.0 * D));"
         " Top[h, s, 0: H, S, 1] = >(Z[h, s, t])" +
         when +
         ";"
         " E = exp(Z - Top);"
         " Sum[h, s, 0: H, S, 1] = +(E[h, s, t])" +
         when +
         ";"
         " U[h, s, d: H, S, D] = +(E[h, s, t] * V[t, h, d])" +
         when +
         ";"
         " P = U / Sum;"
         " O[s, m: S, M] = +(P[h, s, d] * WO[h, d, m]);"
         " R = X + O;";
}
// The same for each of B sequences.
std::string batched_attention() {
  return " Q[b, h, s, d: B, H, S, D] = +(X[b, s, m] * WQ[m, h, d]);"
         " K[b, h, s, d: B, H, S, D] = +(X[b, s, m] * WK[m, h, d]);"
         " V[b, h, s, d: B, H, S, D] = +(X[b, s, m] * WV[m, h, d]);"
         " L[b, h, s, t: B, H, S, S] = +(Q[b, h, s, d] * K[b, h, t, d]);"
         " Z = L * (1.0 / sqrt(1.0 * D));"
         " Top[b, h, s, 0: B, H, S, 1] = >(Z[b, h, s, t]);"
         " E = exp(Z - Top);"
         " Sum[b, h, s, 0: B, H, S, 1] = +(E[b, h, s, t]);"
         " P = E / Sum;"
         " U[b, h, s, d: B, H, S, D] = +(P[b, h, s, t] * V[b, h, t, d]);"
         " O[b, s, m: B, S, M] = +(U[b, h, s, d] * WO[h, d, m]);"
         " R = X + O;";
}

constexpr const char* kAttentionInputs =
    "X[S, M], WQ[M, H, D], WK[M, H, D], WV[M, H, D], WO[H, D, M]";

std::string convolution(const char* y, const char* x, const char* k) {
  std::string in = x, out = y, weights = k;
  return " " + out + "[n, y, x, o: N, H, W, C] = +(" + in + "[n, y + j - 1, x + i - 1, c] * " +
         weights + "[j, i, c, o]);";
}

std::vector<SizeNetwork> perceptrons() {
  const int64_t n = kOpen;
  return {
      {"layer 768-512",
       "batch",
       "function (X[B, I], W[I, O], V[O]) -> (R) { Y[b, o: B, O] = +(X[b, i] * W[i, o]);"
       " R = relu(Y + V); }",
       {{n, 768}, {768, 512}, {512}}},
      {"perceptron 784-1024-10",
       "batch",
       "function (X[B, I], W[I, J], V[J], U[J, O], T[O]) -> (R) {"
       " Y[b, j: B, J] = +(X[b, i] * W[i, j]); A = relu(Y + V);"
       " Z[b, o: B, O] = +(A[b, j] * U[j, o]); R = Z + T; }",
       {{n, 784}, {784, 1024}, {1024}, {1024, 10}, {10}}},
      {"layer with softmax",
       "batch",
       "function (X[B, I], W[I, O]) -> (R) { Y[r, o: B, O] = +(X[r, i] * W[i, o]);" +
           softmax("R", "Y", "B") + " }",
       {{n, 512}, {512, 128}}},
      {"perceptron 256-512-256, gelu",
       "batch",
       "function (X[B, I], W[I, J], V[J], U[J, I]) -> (R) {"
       " Y[b, j: B, J] = +(X[b, i] * W[i, j]); A = Y + V;" +
           gelu("G", "A") + " Z[b, i: B, I] = +(G[b, j] * U[j, i]); R = X + Z; }",
       {{n, 256}, {256, 512}, {512}, {512, 256}}},
      {"perceptron with layer norm",
       "batch",
       "function (X[B, I], W[I, J], U[J, I]) -> (R) {" + layer_norm("N", "X", "B", "I") +
           " Y[b, j: B, J] = +(N[b, i] * W[i, j]); A = relu(Y);"
           " Z[b, i: B, I] = +(A[b, j] * U[j, i]); R = X + Z; }",
       {{n, 256}, {256, 512}, {512, 256}}},
      {"gated perceptron with RMS norm",
       "batch",
       "function (X[B, I], W[I, J], V[I, J], U[J, I]) -> (R) { Q = X * X;"
       " S[b, 0: B, 1] = +(Q[b, i]); N = X * rsqrt(S / I + 0.00001);"
       " Y[b, j: B, J] = +(N[b, i] * W[i, j]); G[b, j: B, J] = +(N[b, i] * V[i, j]);"
       " A = Y / (1.0 + exp(-Y)) * G; Z[b, i: B, I] = +(A[b, j] * U[j, i]); R = X + Z; }",
       {{n, 192}, {192, 512}, {192, 512}, {512, 192}}},
      {"perceptron of 4 sequences",
       "sequence",
       "function (X[B, S, I], W[I, J], U[J, I]) -> (R) {"
       " Y[b, s, j: B, S, J] = +(X[b, s, i] * W[i, j]); A = relu(Y);"
       " Z[b, s, i: B, S, I] = +(A[b, s, j] * U[j, i]); R = X + Z; }",
       {{4, n, 128}, {128, 256}, {256, 128}}},
      {"classifier of a mean",
       "sequence",
       "function (X[B, S, I], W[I, O]) -> (R) { Y[b, i: B, I] = +(X[b, s, i]); A = Y / S;"
       " Z[r, o: B, O] = +(A[r, i] * W[i, o]);" +
           softmax("R", "Z", "B") + " }",
       {{8, n, 64}, {64, 32}}},
  };
}

std::vector<SizeNetwork> attentions() {
  const int64_t n = kOpen;
  const std::vector<Shape> rows{{n, 128}, {128, 4, 32}, {128, 4, 32}, {128, 4, 32}, {4, 32, 128}};
  std::vector<Shape> batches = rows, blocks = rows, batched_blocks;
  batches[0] = {n, 32, 128};
  blocks.insert(blocks.end(), {{128, 256}, {256, 128}});
  batched_blocks = blocks;
  batched_blocks[0] = {n, 16, 128};
  std::string inputs = kAttentionInputs, batched = inputs;
  batched.replace(batched.find("X[S, M]"), 7, "X[B, S, M]");
  std::string perceptron = " Y[s, j: S, J] = +(RN[s, m] * W[m, j]);" + gelu("G", "Y") +
                           " F[s, m: S, M] = +(G[s, j] * Z2[j, m]); T = R + F; }";
  return {
      {"attention of a batch", "batch",
       "function (" + batched + ") -> (R) {" + batched_attention() + " }", batches},
      {"transformer block of a batch", "batch",
       "function (" + batched + ", W[M, J], Z2[J, M]) -> (T) {" + batched_attention() +
           " RM[b, s, 0: B, S, 1] = +(R[b, s, m]); RD = R - RM / M; RQ = RD * RD;"
           " RV[b, s, 0: B, S, 1] = +(RQ[b, s, m]); RN = RD * rsqrt(RV / M + 0.00001);"
           " Y[b, s, j: B, S, J] = +(RN[b, s, m] * W[m, j]);" +
           gelu("G", "Y") + " F[b, s, m: B, S, M] = +(G[b, s, j] * Z2[j, m]); T = R + F; }",
       batched_blocks},
      {"attention", "sequence", "function (" + inputs + ") -> (R) {" + attention("") + " }", rows},
      {"causal attention", "sequence",
       "function (" + inputs + ") -> (R) {" + attention(", s - t < S") + " }", rows},
      {"transformer block", "sequence",
       "function (" + inputs + ", W[M, J], Z2[J, M]) -> (T) {" + attention("") +
           layer_norm("RN", "R", "S", "M") + perceptron,
       blocks},
      {"attention to a memory",
       "sequence",
       "function (X[S, M], K[T, H, D], V[T, H, D], WQ[M, H, D]) -> (O) {"
       " Q[s, h, d: S, H, D] = +(X[s, m] * WQ[m, h, d]);"
       " L[s, h, t: S, H, T] = +(Q[s, h, d] * K[t, h, d]); Z = L * (1.0 / sqrt(1.0 * D));"
       " Top[s, h, 0: S, H, 1] = >(Z[s, h, t]); E = exp(Z - Top);"
       " Sum[s, h, 0: S, H, 1] = +(E[s, h, t]); P = E / Sum;"
       " O[s, h, d: S, H, D] = +(P[s, h, t] * V[t, h, d]); }",
       {{n, 128}, {48, 4, 32}, {48, 4, 32}, {128, 4, 32}}},
  };
}

std::vector<SizeNetwork> convolutions() {
  const int64_t n = kOpen;
  return {
      {"convolution, scale, relu",
       "batch",
       "function (I[N, H, W, C], K[3, 3, C, C], G[C], B[C]) -> (R) {" + convolution("Y", "I", "K") +
           " R = relu(Y * G + B); }",
       {{n, 14, 14, 32}, {3, 3, 32, 32}, {32}, {32}}},
      {"residual block",
       "batch",
       "function (I[N, H, W, C], K[3, 3, C, C], L[3, 3, C, C]) -> (R) {" +
           convolution("Y", "I", "K") + " A = relu(Y);" + convolution("Z", "A", "L") +
           " R = relu(I + Z); }",
       {{n, 8, 8, 32}, {3, 3, 32, 32}, {3, 3, 32, 32}}},
      {"convolution, pools, softmax",
       "batch",
       "function (I[N, H, W, C], K[3, 3, C, C], U[C, O]) -> (R) {" + convolution("Y", "I", "K") +
           " A = relu(Y);"
           " P[n, y, x, c: N, H / 2, W / 2, C] = >(A[n, 2 * y + j, 2 * x + i, c]), j < 2, i < 2;"
           " S[n, c: N, C] = +(P[n, y, x, c]); M = S / 49.0;"
           " Z[r, o: N, O] = +(M[r, c] * U[c, o]);" +
           softmax("R", "Z", "N") + " }",
       {{n, 14, 14, 16}, {3, 3, 16, 16}, {16, 10}}},
      {"depthwise and pointwise",
       "batch",
       "function (I[N, H, W, C], K[3, 3, C], L[C, D]) -> (R) {"
       " Y[n, y, x, c: N, H, W, C] = +(I[n, y + j - 1, x + i - 1, c] * K[j, i, c]); A = relu(Y);"
       " Z[n, y, x, d: N, H, W, D] = +(A[n, y, x, c] * L[c, d]); R = relu(Z); }",
       {{n, 14, 14, 32}, {3, 3, 32}, {32, 64}}},
      {"convolution, channel norm",
       "batch",
       "function (I[N, H, W, C], K[3, 3, C, C]) -> (R) {" + convolution("Y", "I", "K") +
           " M[n, y, x, 0: N, H, W, 1] = +(Y[n, y, x, c]); D = Y - M / C; Q = D * D;"
           " V[n, y, x, 0: N, H, W, 1] = +(Q[n, y, x, c]); A = D * rsqrt(V / C + 0.00001);" +
           gelu("R", "A") + " }",
       {{n, 8, 8, 32}, {3, 3, 32, 32}}},
      {"convolution of a sequence",
       "sequence",
       "function (X[S, C], K[5, C, D]) -> (R) {"
       " Y[s, d: S, D] = +(X[s + j - 2, c] * K[j, c, d]); A = relu(Y);" +
           layer_norm("R", "A", "S", "D") + " }",
       {{n, 64}, {5, 64, 64}}},
  };
}

}  // namespace

std::vector<Shape> SizeNetwork::at(int64_t size) const {
  std::vector<Shape> list = shapes;
  for (Shape& shape : list) {
    for (int64_t& extent : shape) extent = extent == kOpen ? size : extent;
  }
  return list;
}

const std::vector<SizeNetwork>& size_networks() {
  static const std::vector<SizeNetwork> kNetworks = [] {
    std::vector<SizeNetwork> all = perceptrons();
    for (auto more : {attentions, convolutions}) {
      for (SizeNetwork& n : more()) all.push_back(std::move(n));
    }
    return all;
  }();
  return kNetworks;
}

}  // namespace tile::bench
