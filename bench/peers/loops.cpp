// Rows are computed by a vectorised loop without conditions, between two border elements that
// clamp. The file is compiled with -O3 -march=native.
#include "bench/peers/loops.h"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <array>
#include <cmath>
#include <map>

namespace tile::bench {
namespace {

int64_t clamped(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

// The rows around row y of a picture, from -R to R.
template <int R>
using Rows = std::array<const float*, 2 * R + 1>;

// out[x] = f(rows, x - R … x + R), the columns being clamped at the ends.
template <int R, class F>
void row(const Rows<R>& rows, float* __restrict out, int64_t width, F f) {
  auto border = [&](int64_t x) {
    std::array<std::array<float, 2 * R + 1>, 2 * R + 1> window;
    Rows<R> w;
    for (int j = 0; j <= 2 * R; ++j) {
      for (int i = 0; i <= 2 * R; ++i) window[j][i] = rows[j][clamped(x + i - R, width)];
      w[j] = window[j].data();
    }
    out[x] = f(w, R);
  };
  for (int64_t x = 0; x < std::min<int64_t>(R, width); ++x) border(x);
#pragma GCC ivdep
  for (int64_t x = R; x < width - R; ++x) out[x] = f(rows, x);
  for (int64_t x = std::max<int64_t>(R, width - R); x < width; ++x) border(x);
}

template <int R, class F>
void picture(const float* in, float* out, int64_t height, int64_t width, F f) {
  tbb::parallel_for(tbb::blocked_range<int64_t>(0, height, 16), [=](const auto& range) {
    for (int64_t y = range.begin(); y < range.end(); ++y) {
      Rows<R> rows;
      for (int j = 0; j <= 2 * R; ++j) rows[j] = in + clamped(y + j - R, height) * width;
      row<R>(rows, out + y * width, width, f);
    }
  });
}

auto sum9 = [](const Rows<1>& r, int64_t x) {
  float sum = 0;
  for (int j = 0; j < 3; ++j) sum += r[j][x - 1] + r[j][x] + r[j][x + 1];
  return sum;
};
auto j2d5pt = [](const Rows<1>& r, int64_t x) {
  return (5.0F * r[0][x] + 12.0F * r[1][x - 1] + 15.0F * r[1][x] + 12.0F * r[1][x + 1] +
          5.0F * r[2][x]) /
         118.0F;
};
auto j2d9pt = [](const Rows<1>& r, int64_t x) {
  return (7.0F * r[0][x - 1] + 5.0F * r[0][x] + 9.0F * r[0][x + 1] + 12.0F * r[1][x - 1] +
          15.0F * r[1][x] + 12.0F * r[1][x + 1] + 9.0F * r[2][x - 1] + 5.0F * r[2][x] +
          7.0F * r[2][x + 1]) /
         118.0F;
};
auto gaussian25 = [](const Rows<2>& r, int64_t x) {
  constexpr float kWeights[5][5] = {
      {2, 4, 5, 4, 2}, {4, 9, 12, 9, 4}, {5, 12, 15, 12, 5}, {4, 9, 12, 9, 4}, {2, 4, 5, 4, 2}};
  float sum = 0;
#pragma GCC unroll 5
  for (int j = 0; j < 5; ++j) {
#pragma GCC unroll 5
    for (int i = 0; i < 5; ++i) sum += kWeights[j][i] * r[j][x + i - 2];
  }
  return sum / 159.0F;
};
auto gradient = [](const Rows<1>& r, int64_t x) {
  float c = r[1][x], n = r[0][x] - c, w = r[1][x - 1] - c, e = r[1][x + 1] - c, s = r[2][x] - c;
  return c + 1.0F / std::sqrt(0.0001F + n * n + w * w + e * e + s * s);
};

void heat(const float* in, float* out, int64_t depth, int64_t height, int64_t width) {
  tbb::parallel_for(tbb::blocked_range<int64_t>(0, depth * height, 16), [=](const auto& range) {
    for (int64_t line = range.begin(); line < range.end(); ++line) {
      int64_t z = line / height, y = line % height;
      auto at = [&](int64_t dz, int64_t dy) {
        return in + (clamped(z + dz, depth) * height + clamped(y + dy, height)) * width;
      };
      const float *c = at(0, 0), *b = at(-1, 0), *f = at(1, 0), *n = at(0, -1), *s = at(0, 1);
      float* __restrict o = out + line * width;
      auto one = [=](int64_t x, float left, float right) {
        return c[x] + 0.125F * (b[x] - 2.0F * c[x] + f[x]) + 0.125F * (n[x] - 2.0F * c[x] + s[x]) +
               0.125F * (left - 2.0F * c[x] + right);
      };
      o[0] = one(0, c[0], c[clamped(1, width)]);
#pragma GCC ivdep
      for (int64_t x = 1; x < width - 1; ++x) o[x] = one(x, c[x - 1], c[x + 1]);
      o[width - 1] = one(width - 1, c[clamped(width - 2, width)], c[width - 1]);
    }
  });
}

class Loops : public Peer {
 public:
  explicit Loops(int threads) : arena_(threads) {}

  std::string name() const override { return "loops"; }
  std::string description() const override {
    return "C++ loops by hand, " __VERSION__ " -O3 -march=native, " +
           std::to_string(arena_.max_concurrency()) + " threads";
  }

  Calls prepare(const Case& c, std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    Tensor& output = outputs.front();
    const std::string& kind = c.workload->kind;
    if (inputs.empty() || output.type() != DType::f32) return {};
    const Shape& s = inputs[0].shape();
    const float* in = inputs[0].elements<float>();
    float* out = output.elements<float>();
    if (kind == "heat_3d") return call([=] { heat(in, out, s[0], s[1], s[2]); });
    if (kind == "stencil_9pt") return call([=] { picture<1>(in, out, s[0], s[1], sum9); });
    if (kind == "j2d5pt") return call([=] { picture<1>(in, out, s[0], s[1], j2d5pt); });
    if (kind == "j2d9pt") return call([=] { picture<1>(in, out, s[0], s[1], j2d9pt); });
    if (kind == "gaussian25") return call([=] { picture<2>(in, out, s[0], s[1], gaussian25); });
    if (kind == "gradient_2d") return call([=] { picture<1>(in, out, s[0], s[1], gradient); });
    return {};
  }

 private:
  template <class F>
  Calls call(F f) {
    return timed([this, f] { arena_.execute(f); });
  }

  tbb::task_arena arena_;
};

}  // namespace

std::unique_ptr<Peer> make_loops(int threads) { return std::make_unique<Loops>(threads); }

}  // namespace tile::bench
