// Gradients of maxima that are written out over a window: every value on the way to the result is
// used several times by the derivatives of the values before it.
#include <gtest/gtest.h>

#include "core/autodiff/differentiate.h"
#include "core/language/language.h"
#include "tests/support/tile_text.h"

namespace tile::test {
namespace {

std::string written_out(int window) {
  std::string value = "A[y, x]";
  for (int i = 1; i < window * window; ++i) {
    value = "max(" + value + ", A[y + " + std::to_string(i / window) + ", x + " +
            std::to_string(i % window) + "])";
  }
  std::string less = std::to_string(window - 1);
  return "function (A[N, M]) -> (O) { O[y, x: N - " + less + ", M - " + less + "] = =(" + value +
         " * A[y, x]); }";
}

size_t nodes_of(const Program& p) {
  size_t nodes = 0;
  for (const Statement& s : p.statements) {
    const auto* c = std::get_if<SymbolicContraction>(&s.what);
    nodes += c != nullptr ? c->body.nodes.size() : 1;
  }
  return nodes;
}

TEST(WindowGradients, TheTextGrowsAsTheProgram) {
  for (int window : {2, 3, 4, 5}) {
    Program p = parse_text(written_out(window));
    for (int order = 1; order <= (window < 5 ? 2 : 1); ++order) {
      std::string name = p.tensors[p.outputs.back()].name;
      p = differentiate(p, name, {"A"});
      std::string text = print(p);
      EXPECT_LT(text.size(), 100 * nodes_of(p)) << window << ", derivative " << order;
      EXPECT_EQ(print(parse_text(text)), text);
    }
  }
}

TEST(WindowGradients, OfLiftWindows) {
  for (const char* window : {"2", "3", "4", "5", "7"}) {
    std::string text =
        "val f = fun(ArrayType(ArrayType(Float, M), N), image => Map(Map(w => "
        "Reduce(max, 0.0f) o Join() $ w)) o Slide2D(" +
        std::string(window) + ", 1) $ image)";
    auto source = std::make_shared<const Source>(Source{"test.lift", text});
    Program p = differentiate(parse(Language::lift, source), "out", {"image"});
    EXPECT_LT(print(p).size(), 100 * nodes_of(p)) << window;
  }
}

}  // namespace
}  // namespace tile::test
