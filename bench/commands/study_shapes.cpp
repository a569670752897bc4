#include "bench/commands/study_shapes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>

#include "core/support/checked.h"

namespace tile::bench {
namespace {

using Size = std::function<int64_t(double, double)>;

struct StudyClass {
  const char* name;
  const char* text;
  std::vector<Shape> (*shapes)(const Size& size);
};

// One function: a table, a row for each class.
const std::vector<StudyClass>& classes() {
  static const std::vector<StudyClass> kClasses = {
      {"product", "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
       [](const Size& size) -> std::vector<Shape> {
         int64_t m = size(16, 700), n = size(16, 700), k = size(16, 700);
         return {{m, k}, {k, n}};
       }},
      {"3x3 convolution",
       "function (I[N, H, W, C], K[3, 3, C, D]) -> (O) {"
       "  O[n, y, x, d: N, H, W, D] = +(I[n, y + j - 1, x + i - 1, c] * K[j, i, c, d]); }",
       [](const Size& size) -> std::vector<Shape> {
         int64_t n = size(1, 5), h = size(7, 50), c = size(8, 128), d = size(8, 128);
         return {{n, h, h, c}, {3, 3, c, d}};
       }},
      {"batched, transposed",
       "function (A[B, M, L], W[B, N, L]) -> (C) {"
       "  C[b, i, j: B, M, N] = +(A[b, i, k] * W[b, j, k]); }",
       [](const Size& size) -> std::vector<Shape> {
         int64_t b = size(2, 16), m = size(16, 200), n = size(16, 200), k = size(16, 200);
         return {{b, m, k}, {b, n, k}};
       }},
      {"sums of rows", "function (X[M, N]) -> (O) { O[m: M] = +(X[m, n]); }",
       [](const Size& size) -> std::vector<Shape> { return {{size(64, 3000), size(64, 3000)}}; }},
      {"filter gradient",
       "function (I[N, H, W, C], G[N, H, W, D]) -> (K) {"
       "  K[j, i, c, d: 3, 3, C, D] = +(I[n, y + j - 1, x + i - 1, c] * G[n, y, x, d]); }",
       [](const Size& size) -> std::vector<Shape> {
         int64_t n = size(1, 5), h = size(7, 40), c = size(8, 100), d = size(8, 100);
         return {{n, h, h, c}, {n, h, h, d}};
       }},
      {"permuted contraction",
       "function (X[A, E, B], Y[C, E]) -> (O) {"
       "  O[a, b, c: A, B, C] = +(X[a, e, b] * Y[c, e]); }",
       [](const Size& size) -> std::vector<Shape> {
         int64_t a = size(8, 60), b = size(8, 60), c = size(8, 60), e = size(8, 60);
         return {{a, e, b}, {c, e}};
       }},
      {"softmax",
       "function (X[M, N]) -> (O) { Top[m, 0: M, 1] = >(X[m, n]); E = exp(X - Top);"
       "  Sum[m, 0: M, 1] = +(E[m, n]); O = E / Sum; }",
       [](const Size& size) -> std::vector<Shape> { return {{size(16, 1500), size(16, 3000)}}; }},
      {"data gradient, stride 2",
       "function (G[N, P, Q, D], K[3, 3, C, D]) -> (O) {"
       "  O[n, 2 * y + j, 2 * x + i, c: N, 2 * P + 1, 2 * Q + 1, C] ="
       "    +(G[n, y, x, d] * K[j, i, c, d]); }",
       [](const Size& size) -> std::vector<Shape> {
         int64_t n = size(1, 5), h = size(7, 30), c = size(8, 100), d = size(8, 100);
         return {{n, h, h, d}, {3, 3, c, d}};
       }},
      {"product, bias, relu",
       "function (A[M, L], B[L, N], V[N]) -> (R) {"
       "  C[i, j: M, N] = +(A[i, k] * B[k, j]); R = relu(C + V); }",
       [](const Size& size) -> std::vector<Shape> {
         int64_t m = size(16, 700), n = size(16, 700), k = size(16, 700);
         return {{m, k}, {k, n}, {n}};
       }},
      {"sums of columns", "function (X[M, N]) -> (O) { O[n: N] = +(X[m, n]); }",
       [](const Size& size) -> std::vector<Shape> { return {{size(64, 3000), size(64, 3000)}}; }},
      {"depthwise",
       "function (I[N, H, W, C], K[3, 3, C]) -> (O) {"
       "  O[n, y, x, c: N, H, W, C] = +(I[n, y + j - 1, x + i - 1, c] * K[j, i, c]); }",
       [](const Size& size) -> std::vector<Shape> {
         int64_t n = size(1, 5), h = size(7, 60), c = size(8, 256);
         return {{n, h, h, c}, {3, 3, c}};
       }},
      {"skinny product",
       "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
       [](const Size& size) -> std::vector<Shape> {
         int64_t m = size(1, 12), n = size(100, 3000), k = size(100, 3000);
         return {{m, k}, {k, n}};
       }},
      {"gelu",
       "function (X[M, N], B[N]) -> (O) { A = X + B;"
       "  O = 0.5 * A * (1.0 + erf(A * 0.7071067811865476)); }",
       [](const Size& size) -> std::vector<Shape> {
         int64_t m = size(16, 1500), n = size(16, 2000);
         return {{m, n}, {n}};
       }},
      {"1x1 convolution, stride 2",
       "function (I[N, H, W, C], K[C, D]) -> (O) {"
       "  O[n, y, x, d: N, (H + 1) / 2, (W + 1) / 2, D] = +(I[n, 2 * y, 2 * x, c] * K[c, d]); }",
       [](const Size& size) -> std::vector<Shape> {
         int64_t n = size(1, 5), h = size(7, 60), c = size(16, 300), d = size(16, 300);
         return {{n, h, h, c}, {c, d}};
       }},
      {"max pool",
       "function (I[N, H, W, C]) -> (O) {"
       "  O[n, y, x, c: N, H / 2, W / 2, C] = >(I[n, 2 * y + j - 1, 2 * x + i - 1, c]),"
       "    j < 3, i < 3; }",
       [](const Size& size) -> std::vector<Shape> {
         return {{size(1, 5), size(8, 90), size(8, 90), size(8, 100)}};
       }},
      {"transpose", "function (X[A, B, C]) -> (O) { O[a, c, b: A, C, B] = =(X[a, b, c]); }",
       [](const Size& size) -> std::vector<Shape> {
         return {{size(1, 16), size(16, 400), size(16, 400)}};
       }},
  };
  return kClasses;
}

}  // namespace

int64_t StudyCases::size(double low, double high) {
  std::uniform_real_distribution<double> part(std::log(low), std::log(high));
  int64_t drawn = std::max<int64_t>(1, std::llround(scale_ * std::exp(part(random_))));
  return ceil_div(drawn, multiple_) * multiple_;
}

StudyCase StudyCases::next(size_t number) {
  const StudyClass& c = classes()[number % classes().size()];
  StudyCase drawn{c.name, c.text, c.shapes([this](double a, double b) { return size(a, b); })};
  for (const Shape& shape : drawn.shapes) {
    drawn.name += " ";
    for (size_t d = 0; d < shape.size(); ++d) {
      drawn.name += (d > 0 ? "x" : "") + std::to_string(shape[d]);
    }
  }
  return drawn;
}

std::shared_ptr<const Executable> study_executable(const std::shared_ptr<Engine>& engine,
                                                   const StudyCase& c, DType type) {
  auto source = std::make_shared<Source>(Source{"study", c.text});
  LoadedProgram program(engine, std::make_shared<Program>(parse(Language::tile, source)));
  std::vector<InputLayout> layouts;
  for (const Shape& shape : c.shapes) layouts.push_back({{type, shape}, {}});
  std::shared_ptr<const Executable> e = program.executable(layouts);
  return e->restored ? compile_stages(*e) : e;
}

std::string one_line(const Schedule& schedule) {
  std::istringstream words(print(schedule));
  std::string line, word;
  while (words >> word) line += (line.empty() ? "" : " ") + word;
  return line;
}

}  // namespace tile::bench
