#include "tests/support/interior_cases.h"

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

#include "core/fusion/group.h"
#include "core/kernel/schedule.h"
#include "core/language/language.h"
#include "core/lower/lower.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/space/candidates.h"
#include "core/support/diagnostic.h"

namespace tile::test {
namespace {

// The ends of a window whose radius is a run-time parameter may be anywhere: each cell of the scan
// clamps the two, as scalars, for all lanes together.
const char* const kMovingEnds = "@llvm\\.[su](min|max)\\.i64";

// Inputs whose sizes the tiles divide, and cells of a mosaic: remainders are borders of another
// kind.
const std::vector<InteriorCase> kCases = {
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
  internal_check(!text.str().empty(), "tests: a program that is not there");
  return parse(*language_of_suffix(path), std::make_shared<Source>(Source{path, text.str()}));
}

std::vector<InputType> inputs_of(const Program& program, const std::vector<Shape>& shapes) {
  std::vector<InputType> inputs;
  size_t next = 0;
  for (TensorId id : program.inputs) {
    const Tensor& t = program.tensors[id];
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

bool runs_threads(const nest::Block& block) {
  return std::any_of(block.begin(), block.end(), [](const nest::Statement& s) {
    if (const auto* i = std::get_if<nest::If>(&s.what)) {
      return runs_threads(i->then) || runs_threads(i->otherwise);
    }
    const auto* f = std::get_if<nest::For>(&s.what);
    return f != nullptr && (f->kind == nest::LoopKind::thread || runs_threads(f->body));
  });
}

// The side of each test of a whole block: of its interior, or of all else.
nest::Block side(const nest::Block& statements, bool interior) {
  nest::Block out;
  for (nest::Statement s : statements) {
    if (auto* f = std::get_if<nest::For>(&s.what)) f->body = side(f->body, interior);
    auto* i = std::get_if<nest::If>(&s.what);
    bool whole_block = i != nullptr && !i->otherwise.empty() && runs_threads(i->then);
    if (whole_block) {
      nest::Block taken = side(interior ? i->then : i->otherwise, interior);
      std::move(taken.begin(), taken.end(), std::back_inserter(out));
    } else {
      out.push_back(std::move(s));
    }
  }
  return out;
}

}  // namespace

nest::Nest block_side(nest::Nest nest, bool interior) {
  nest.body = side(nest.body, interior);
  return nest;
}

const std::vector<InteriorCase>& interior_cases() { return kCases; }

BoundProgram bound(const InteriorCase& c, const std::vector<Shape>& shapes) {
  Program program = parsed(c.path);
  return tile::bind(program, inputs_of(program, shapes));
}

std::vector<HostTensor> random_inputs(const InteriorCase& c, const BoundProgram& program,
                                      uint64_t seed) {
  Program source = parsed(c.path);
  std::mt19937_64 random(seed);
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const BoundTensor& declared = program.tensors[program.inputs[i]];
    const Tensor& tensor = source.tensors[source.inputs[i]];
    HostTensor t(declared.type, declared.shape);
    for (int64_t at = 0; at < t.count(); ++at) {
      double value = tensor.parameter ? tensor.parameter->init.at(static_cast<size_t>(at))
                                      : static_cast<double>(random() % 256);
      t.set(at, is_float(t.type) ? real_scalar(value, t.type)
                                 : integer_scalar(static_cast<int64_t>(value), t.type));
    }
    inputs.push_back(std::move(t));
  }
  return inputs;
}

std::vector<nest::Nest> lowered_nests(const InteriorCase& c, const Target& target) {
  BoundProgram program = bound(c, c.shapes);
  run_pipeline(program, target);
  std::vector<nest::Nest> nests;
  for (const Step& step : group(program, target)) {
    const auto& kernel = std::get<Kernel>(step);
    nests.push_back(lower(kernel, analytic_schedule(kernel, target), target));
  }
  return nests;
}

}  // namespace tile::test
