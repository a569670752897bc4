// Interiors of every stencil and filter: no division, remainder, clamp or select on indices in the
// LLVM IR of their loops (issue text: the simplifier, item 4). Borders are the other side of the
// tests that the partition made, which this test takes out before it compiles.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "backends/cpu/cpu_backend.h"
#include "core/language/language.h"
#include "core/passes/bind.h"
#include "core/passes/pipeline.h"
#include "core/schedule/lower.h"
#include "core/schedule/schedule.h"

namespace tile::cpu {
namespace {

struct Case {
  const char* path;
  std::vector<Shape> shapes;       // of the inputs that are no run-time parameters, in order
  const char* inherent = nullptr;  // choices that no schedule can spare
};

// The ends of a window whose radius is a run-time parameter may be anywhere: each cell of the scan
// clamps the two, as scalars, for all lanes together.
const char* const kMovingEnds = "@llvm\\.[su](min|max)\\.i64";

// Inputs whose sizes the tiles divide, and cells of a mosaic: remainders are borders of another
// kind.
const Case kCases[] = {
    {"bench/workloads/lift/j2d5pt.lift", {{256, 512}}},
    {"bench/workloads/lift/j2d9pt.lift", {{256, 512}}},
    {"bench/workloads/lift/stencil_9pt.lift", {{256, 512}}},
    {"bench/workloads/lift/gaussian.lift", {{256, 512}}},
    {"bench/workloads/lift/gradient_2d.lift", {{256, 512}}},
    {"bench/workloads/lift/heat_3d.lift", {{64, 64, 256}}},
    {"bench/workloads/lift/poisson_3d.lift", {{64, 64, 256}}},
    {"bench/workloads/lift/hotspot.lift", {{256, 512}, {256, 512}}},
    {"runtime/examples/filters/antialias.mfg", {{256, 512, 4}}},
    {"runtime/examples/filters/bilateral.mfg", {{256, 512, 4}}},
    {"runtime/examples/filters/blur.mfg", {{256, 512, 4}}, kMovingEnds},
    {"runtime/examples/filters/box_plane.mfg", {{256, 512}}, kMovingEnds},
    {"runtime/examples/filters/crystallise.mfg", {{240, 3072, 4}}},
    {"runtime/examples/filters/dilate.mfg", {{256, 512, 4}}},
    {"runtime/examples/filters/dither.mfg", {{256, 512, 4}}},
    {"runtime/examples/filters/gaussian_plane.mfg", {{256, 512}}},
    {"runtime/examples/filters/median.mfg", {{256, 512, 4}}},
    {"runtime/examples/filters/mosaic.mfg", {{256, 512, 4}}},
    {"runtime/examples/filters/sobel.mfg", {{256, 512, 4}}},
    {"runtime/examples/filters/stretch.mfg", {{256, 512, 4}}},
    {"runtime/examples/filters/swirl.mfg", {{256, 512, 4}}},
    {"runtime/examples/filters/tone_curve.mfg", {{256, 512, 4}}},
    {"runtime/examples/filters/unsharp_mask.mfg", {{256, 512, 4}}},
};

Program parsed(const std::string& path) {
  std::ifstream file(std::string(TILE_SOURCE_DIR) + "/" + path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return parse(*language_of_suffix(path), std::make_shared<Source>(Source{path, text.str()}));
}

std::vector<InputType> inputs_of(const Program& program, const std::vector<Shape>& shapes) {
  std::vector<InputType> inputs;
  size_t next = 0;
  for (TensorId id : program.inputs) {
    const Tensor& t = program.tensors[static_cast<size_t>(id)];
    InputType input;
    input.type = t.type.value_or(DType::f32);
    if (t.parameter) {
      if (t.parameter->init.size() > 1) {
        input.shape = {static_cast<int64_t>(t.parameter->init.size())};
      }
      input.type = t.type.value_or(t.parameter->type);
    } else {
      input.shape = shapes[std::min(next++, shapes.size() - 1)];
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

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
  Program program = parsed(path);
  BoundProgram bound = tile::bind(program, inputs_of(program, shapes));
  run_pipeline(bound, target);
  const auto kernel = std::get<Kernel>(group(bound, target).back());
  nest::Nest nest = nest::partition(lower(kernel, analytic_schedule(kernel, target), target));
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
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.path);
    Program program = parsed(c.path);
    BoundProgram bound = tile::bind(program, inputs_of(program, c.shapes));
    run_pipeline(bound, target);
    for (const Step& step : group(bound, target)) {
      const auto& kernel = std::get<Kernel>(step);
      nest::Nest nest = nest::partition(lower(kernel, analytic_schedule(kernel, target), target));
      nest.body = interior(nest.body);
      std::string llvm = backend->emit(nest, target, "llvm");
      EXPECT_EQ(choices(llvm, c.inherent), std::vector<std::string>{}) << print(nest);
    }
  }
}

}  // namespace
}  // namespace tile::cpu
