// Interiors of every stencil and filter: no division, remainder, clamp or select on indices in the
// LLVM IR of their loops (issue text: the simplifier, item 4). Borders are the other side of the
// tests that the partition made, which this test takes out before it compiles.
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "backends/cpu/cpu_backend.h"
#include "core/nest/passes/nest_passes.h"
#include "tests/support/interior_cases.h"

namespace tile::cpu {
namespace {

// Takes the interior's side of every test that has two.
nest::Block interior(const nest::Block& statements) {
  nest::Block out;
  for (nest::Statement s : statements) {
    if (auto* f = std::get_if<nest::For>(&s.what)) f->body = interior(f->body);
    if (auto* i = std::get_if<nest::If>(&s.what)) {
      nest::Block then = interior(i->then);
      bool two = !i->otherwise.empty() && i->predicate.results.empty();
      if (two) {
        std::move(then.begin(), then.end(), std::back_inserter(out));
        continue;
      }
      i->then = std::move(then);
    }
    out.push_back(std::move(s));
  }
  return out;
}

// Lines that divide, clamp or choose 64-bit integers: values of programs have 32 bits and fewer.
// What comes before the first branch of a function runs once: run-time parameters are clamped
// there.
std::vector<std::string> choices(const std::string& llvm, const char* inherent) {
  static const std::regex kChoice(
      "= (sdiv|udiv|srem|urem)( exact)? (i64|<[0-9]+ x i64>)|"
      "= select i1 [^,]*, i64|= select <[0-9]+ x i1> [^,]*, <[0-9]+ x i64>|"
      "@llvm\\.[su](min|max)\\.(v[0-9]+)?i64");
  std::vector<std::string> found;
  std::istringstream lines(llvm);
  bool branched = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("define", 0) == 0) branched = false;
    branched = branched || line.rfind("  br ", 0) == 0;
    bool inside = branched && line.rfind("declare", 0) != 0;
    bool needed = inherent != nullptr && std::regex_search(line, std::regex(inherent));
    if (inside && !needed && std::regex_search(line, kChoice)) found.push_back(line);
  }
  return found;
}

// What a filter's last kernel becomes, its interior alone.
std::string interior_code(const char* path, const std::vector<Shape>& shapes) {
  std::shared_ptr<Backend> backend = shared_backend();
  Target target = backend->target();
  nest::Nest nest = nest::run_passes(test::lowered_nests({path, shapes}, target).back(), target);
  nest.body = interior(nest.body);
  return backend->emit(nest, target, "llvm");
}

TEST(CpuInteriors, BytesOfPixelsFillWholeVectors) {
  std::string code = interior_code("runtime/examples/filters/median.mfg", {{256, 512, 4}});
  std::string vector = "<" + std::to_string(shared_backend()->target().vector_bits / 8) + " x i8>";
  EXPECT_NE(code.find("call " + vector + " @llvm.umin"), std::string::npos);
  EXPECT_EQ(code.find("zext <"), std::string::npos) << "components are taken apart";
}

TEST(CpuInteriors, QuotientsOfSmallIntegersAreProducts) {
  std::string code = interior_code("runtime/examples/filters/dither.mfg", {{256, 512, 4}});
  EXPECT_FALSE(std::regex_search(code, std::regex("= (sdiv|srem|udiv|urem|fdiv) <")));
  EXPECT_EQ(code.find("gather"), std::string::npos) << "a pattern is read in vectors";
  EXPECT_EQ(code.find("scatter"), std::string::npos);
}

TEST(CpuInteriors, AllStencilsAndFiltersDoNotChooseIndices) {
  std::shared_ptr<Backend> backend = shared_backend();
  Target target = backend->target();
  target.threads = 1;  // tasks of a parallel loop are told apart by divisions, once each
  for (const test::InteriorCase& c : test::interior_cases()) {
    SCOPED_TRACE(c.path);
    for (nest::Nest nest : test::lowered_nests(c, target)) {
      nest = nest::run_passes(nest, target);
      nest.body = interior(nest.body);
      std::string llvm = backend->emit(nest, target, "llvm");
      EXPECT_EQ(choices(llvm, c.inherent_llvm), std::vector<std::string>{}) << print(nest);
    }
  }
}

}  // namespace
}  // namespace tile::cpu
