// A layer of one's own in a C++ program: an RMS norm, its gradient, and what an error looks like.
#include <iostream>
#include <tile/tile.hpp>

namespace jit = tile::jit;

namespace {

const char* const kText =
    "function (X[N, C], Gain[C]) -> (Y) {\n"
    "  S[n, 0: N, 1] = +(X[n, c] * X[n, c]);\n"
    "  Y = X * rsqrt(S / C + 1e-6) * Gain;\n"
    "}\n";

void show(const char* name, const std::vector<float>& values) {
  std::cout << name << ":";
  for (float value : values) std::cout << " " << value;
  std::cout << "\n";
}

}  // namespace

int main() {
  try {
    jit::Engine engine;
    jit::Program norm = engine.parse("tile", kText, "norm.tile");
    std::vector<float> x = {0, 1, 2, 3, 4, 5}, gain = {1, 2, 1}, y(6);
    std::vector<jit::View> inputs = {jit::view(x.data(), {2, 3}), jit::view(gain.data(), {3})};
    norm.run(inputs, {jit::view(y.data(), {2, 3})});
    show("Y", y);

    // The gradient's further input is the seed, the loss's gradient by Y; of the sum of Y it is
    // ones.
    jit::Program gradient = norm.differentiate("Y", {"X", "Gain"});
    std::vector<float> seed(6, 1), dx(6), dgain(3);
    inputs.push_back(jit::view(seed.data(), {2, 3}));
    gradient.run(inputs, {jit::view(y.data(), {2, 3}), jit::view(dx.data(), {2, 3}),
                          jit::view(dgain.data(), {3})});
    show("DGain", dgain);

    engine.parse("tile", "function (X[N], Gain[N]) -> (Y) { Y = X * Gian; }", "typo.tile");
  } catch (const jit::Error& error) {
    std::cout << error.what();
  }
}
