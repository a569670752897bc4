// Issue 6, item 4, on a GPU: where a block is inside, the CUDA of no stencil and no filter divides,
// clamps or chooses for an index, and an index costs multiplications and additions. The counter
// finds what the general bodies and the nests before the partition have.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <sstream>

#include "backends/cuda/source.h"
#include "core/nest/passes/interior.h"
#include "core/target/target.h"
#include "tests/support/interior_cases.h"

namespace tile::test {
namespace {

// Expressions of a nest that choose: indices, tests, ends of loops, and integers in bodies.
class Choices {
 public:
  std::vector<std::string> found;
  void block(const nest::Block& statements) {
    for (const nest::Statement& s : statements) {
      if (const auto* f = std::get_if<nest::For>(&s.what)) {
        expression(f->begin);
        expression(f->extent);
        block(f->body);
      } else if (const auto* i = std::get_if<nest::If>(&s.what)) {
        for (const Expr& e : i->nonnegative) expression(e);
        body(i->predicate, i->loads);
        block(i->then);
        block(i->otherwise);
      } else if (const auto* store = std::get_if<nest::Store>(&s.what)) {
        access(store->target);
        body(store->body, store->loads);
      }
    }
  }

 private:
  void expression(const Expr& e) {
    if (nest::has_choices(e)) found.push_back(to_string(e));
  }
  void access(const nest::Access& a) {
    for (const Expr& e : a.index) expression(e);
  }
  void body(const Body& b, const std::vector<nest::Access>& loads) {
    for (const nest::Access& a : loads) access(a);
    nodes(b);
  }
  // Also integers that operations of the body make of indices alone.
  void nodes(const Body& b) {
    IdVector<NodeId, bool> of_indices;
    for (const Node& node : b.nodes) {
      if (node.kind == NodeKind::size) expression(node.expr);
      if (node.region) nodes(*node.region);
      bool made = node.kind == NodeKind::operation && !is_float(node.type);
      bool all = std::all_of(node.args.begin(), node.args.end(), [&](NodeId id) {
        return of_indices[id] || b[id].kind == NodeKind::integer;
      });
      made = made && all;
      of_indices.push_back(node.kind == NodeKind::size || made);
      if (made && chooses(node.op)) found.push_back(std::string(info(node.op).name));
    }
  }
  static bool chooses(Op op) {
    return op == Op::div || op == Op::mod || op == Op::min || op == Op::max || op == Op::select;
  }
};

std::vector<std::string> choices(const nest::Nest& nest) {
  Choices choices;
  choices.block(nest.body);
  return choices.found;
}

// From the bracket at `open` to the one that closes it.
std::string bracketed(const std::string& text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    depth += text[i] == '(' || text[i] == '[' ? 1 : text[i] == ')' || text[i] == ']' ? -1 : 0;
    if (depth == 0) return text.substr(open, i - open + 1);
  }
  return text.substr(open);
}

// Index arithmetic of printed kernels: elements of buffers and packs of them, loop variables, and
// integers made of them. Elsewhere stand values, which may divide and choose.
std::vector<std::string> index_texts(const std::string& line) {
  static const std::regex kBuffer("\\bb[0-9]+(\\[| \\+)");
  static const std::regex kLoop("^ *(const (int|long long) [gtkln][0-9]+ = |for \\(|if \\()(.*)$");
  static const std::regex kSize("= \\(?[a-z0-9 ()]*\\(i64\\)");
  std::smatch match;
  std::vector<std::string> list;
  if (std::regex_search(line, match, kLoop)) return {line};
  if (std::regex_search(line, kSize)) list.push_back(line);
  for (auto it = std::sregex_iterator(line.begin(), line.end(), kBuffer);
       it != std::sregex_iterator(); ++it) {
    auto at = static_cast<size_t>(it->position());
    bool element = line[at + static_cast<size_t>(it->length()) - 1] == '[';
    size_t open = element ? at + static_cast<size_t>(it->length()) - 1 : line.rfind('(', at);
    list.push_back(bracketed(line, open));
  }
  return list;
}

// Lines of the kernels, behind the functions that all texts have, whose indices divide or choose.
std::vector<std::string> choosing_lines(const std::string& cuda) {
  static const std::regex kChoice("[/%?]|quotient|remainder|\\b(min|max)\\(");
  // How often a loop that counts from zero runs: once for each loop, not for each element.
  static const std::regex kTrips(R"(\(unsigned\)\((v[0-9]+) < (v[0-9]+) \? \2 - \1 : 0\))");
  std::vector<std::string> found;
  std::istringstream lines(cuda.substr(cuda.find("__global__")));
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> texts = index_texts(std::regex_replace(line, kTrips, "trips"));
    bool chooses = std::any_of(texts.begin(), texts.end(), [](const std::string& text) {
      return std::regex_search(text, kChoice);
    });
    if (chooses) found.push_back(line);
  }
  return found;
}

using Strings = std::vector<std::string>;

TEST(CudaInteriors, NoStencilOrFilterChoosesIndices) {
  Target target = h200_target();
  for (const InteriorCase& c : interior_cases()) {
    SCOPED_TRACE(c.path);
    for (const nest::Nest& nest : lowered_nests(c, target)) {
      nest::Nest parts = nest::partition(nest);
      nest::verify(parts);
      nest::Nest inside = block_side(parts, true);
      EXPECT_EQ(choices(inside), Strings{}) << print(inside);
      std::string cuda = cuda::print_cuda(inside, target).text;
      EXPECT_EQ(choosing_lines(cuda), Strings{});
    }
  }
}

// Blocks at the border of a stencil choose, and so would all without the partition.
TEST(CudaInteriors, TheCounterFindsTheBordersChoices) {
  Target target = h200_target();
  for (const InteriorCase& c : interior_cases()) {
    if (std::string(c.path).find(".lift") == std::string::npos) continue;
    SCOPED_TRACE(c.path);
    for (const nest::Nest& nest : lowered_nests(c, target)) {
      nest::Nest border = block_side(nest::partition(nest), false);
      EXPECT_GE(choices(border).size(), 4U);
      EXPECT_GE(choosing_lines(cuda::print_cuda(border, target).text).size(), 4U);
      EXPECT_GE(choices(nest).size(), 4U);
      EXPECT_GE(choosing_lines(cuda::print_cuda(nest, target).text).size(), 4U);
    }
  }
}

}  // namespace
}  // namespace tile::test
