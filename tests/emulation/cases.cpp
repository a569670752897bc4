#include "tests/emulation/cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/cuda/source.h"
#include "core/fusion/group.h"
#include "core/interpret/whole_tensor.h"
#include "core/lower/lower.h"
#include "core/nest/passes/nest_passes.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/space/candidates.h"
#include "tests/cuda/machine.h"
#include "tests/emulation/emulated.h"
#include "tests/random/agreement/agreement.h"
#include "tests/support/random_schedule.h"
#include "tests/support/run_tile.h"

namespace tile::test {

RandomCase random_inputs(uint64_t seed, const std::string& text, const std::vector<Shape>& shapes) {
  RandomCase c;
  c.text = text;
  uint64_t state = seed;
  for (const Shape& shape : shapes) {
    HostTensor t(DType::f32, shape);
    for (int64_t i = 0; i < t.count(); ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      t.set(i, real_scalar(static_cast<double>(state >> 40) / (1 << 23) - 1, DType::f32));
    }
    c.types.push_back({DType::f32, shape});
    c.inputs.push_back(std::move(t));
  }
  return c;
}

EmulatedCase lowered(uint64_t seed, const PickSchedule& pick, RandomCase drawn,
                     BoundProgram program, const Target& target) {
  EmulatedCase c;
  c.seed = seed;
  c.drawn = std::move(drawn);
  c.program = std::move(program);
  c.expected = interpret(c.program, c.drawn.inputs, {}, true);
  run_pipeline(c.program, target);
  for (const Step& step : group(c.program, target)) {
    if (const auto* kernel = std::get_if<Kernel>(&step)) {
      nest::Nest nest = nest::run_passes(lower(*kernel, pick(*kernel), target), target);
      nest::verify(nest);
      c.steps.push_back(EmulatedLaunch{std::move(nest), arguments_of(*kernel)});
    } else if (const auto* scatter = std::get_if<Scatter>(&step)) {
      c.steps.push_back(EmulatedLaunch{
          nest::run_passes(lower_scatter(*scatter, c.program.tensors, target), target),
          {scatter->updates, scatter->indices, scatter->result}});
    } else {
      c.steps.push_back(std::get<Sort>(step));
    }
  }
  return c;
}
// `schedule` 0 is the analytic pick.
EmulatedCase lowered(uint64_t seed, uint64_t schedule, RandomCase drawn, BoundProgram program,
                     const Target& target) {
  PickSchedule pick = [&](const Kernel& kernel) {
    return schedule == 0 ? analytic_schedule(kernel, target)
                         : random_schedule(kernel, target, schedule);
  };
  return lowered(seed, pick, std::move(drawn), std::move(program), target);
}
EmulatedCase lowered(uint64_t seed, uint64_t schedule, const RandomCase& drawn,
                     const Target& target) {
  return lowered(seed, schedule, drawn, bind_text(drawn.text, drawn.types), target);
}

namespace {

class Runner {
 public:
  Runner(const EmulatedCase& c, const Emulated& code) : case_(c), code_(code) {
    for (const BoundTensor& t : c.program.tensors) {
      HostTensor& made = values_.emplace_back(t.type, t.shape);
      tile_emulation::fill_with_nonsense(made.bytes.data(), made.bytes.size());
    }
    for (size_t i = 0; i < c.drawn.inputs.size(); ++i) {
      values_[c.program.inputs[i]] = c.drawn.inputs[i];
    }
  }

  std::vector<HostTensor> outputs() {
    size_t next = case_.first;
    for (const auto& step : case_.steps) {
      if (const auto* launch = std::get_if<EmulatedLaunch>(&step)) {
        run(*launch, next++);
      } else {
        const Sort& sort = std::get<Sort>(step);
        run_sort(sort, value(sort.source), value(sort.result));
      }
    }
    std::vector<HostTensor> all;
    for (TensorId id : case_.program.outputs) {
      all.push_back(value(id));
      all.back().shape = case_.program.tensors[id].shape;
    }
    return all;
  }

 private:
  HostTensor& value(TensorId id) {
    const BoundTensor& declared = case_.program.tensors[id];
    return values_[declared.view_of.value_or(id)];
  }
  void run(const EmulatedLaunch& launch, size_t index) {
    std::vector<HostTensor*> arguments;
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      HostTensor& t = value(launch.arguments[i]);
      if (launch.nest.buffers[i].written) {
        tile_emulation::fill_with_nonsense(t.bytes.data(), t.bytes.size());
      }
      arguments.push_back(&t);
    }
    code_.run(index, launch.nest, arguments);
  }

  const EmulatedCase& case_;
  const Emulated& code_;
  IdVector<TensorId, HostTensor> values_;
};

// As difference(), where what follows a sum cancels most of it.
std::string far_apart(const Interpretation& expected, const std::vector<HostTensor>& got) {
  for (size_t o = 0; o < got.size(); ++o) {
    for (int64_t i = 0; i < got[o].count(); ++i) {
      double p = expected.outputs[o].at(i).f, q = got[o].at(i).f;
      if (std::abs(p - q) <= 2e-6 * std::max(1.0, std::abs(p))) continue;
      return "output " + std::to_string(o) + ", element " + std::to_string(i) + ": " +
             std::to_string(p) + " and " + std::to_string(q);
    }
  }
  return {};
}

}  // namespace

std::string unrounded(std::string text) {
  for (const auto& [rounded, exact] : {std::pair("as_bf16(", "("), {", 16)", ", 32)"}}) {
    for (size_t at = text.find(rounded); at != std::string::npos; at = text.find(rounded)) {
      text.replace(at, std::string(rounded).size(), exact);
    }
  }
  return text;
}

std::string far_from_largest(const EmulatedCase& c, const std::vector<HostTensor>& got,
                             const std::function<double(DType)>& allowed) {
  for (size_t o = 0; o < got.size(); ++o) {
    const HostTensor& want = c.expected.outputs[o];
    double largest = 1e-3, apart = 0;
    for (int64_t i = 0; i < want.count(); ++i) {
      double p = convert(want.at(i), DType::f64).f, q = convert(got[o].at(i), DType::f64).f;
      largest = std::max(largest, std::fabs(p));
      apart = std::isfinite(q) ? std::max(apart, std::fabs(p - q)) : INFINITY;
      if (std::isinf(apart)) break;
    }
    if (apart <= allowed(want.type) * largest) continue;
    return "output " + std::to_string(o) + " is " + std::to_string(apart) + " apart of " +
           std::to_string(largest);
  }
  return "";
}

void expect_emulated(const std::vector<EmulatedCase>& cases, const Target& target,
                     const Compare& compare) {
  std::vector<cuda::CudaSource> sources;
  std::vector<EmulatedCase> placed = cases;
  for (EmulatedCase& c : placed) {
    c.first = sources.size();
    for (const auto& step : c.steps) {
      const auto* launch = std::get_if<EmulatedLaunch>(&step);
      if (launch != nullptr) sources.push_back(cuda::print_cuda(launch->nest, target));
    }
  }
  Emulated code(sources);
  for (const EmulatedCase& c : placed) {
    SCOPED_TRACE("seed " + std::to_string(c.seed) + ":\n" + c.drawn.text);
    try {
      EXPECT_EQ(compare(c, Runner(c, code).outputs()), "");
    } catch (const InternalError& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

void expect_emulated_agree(const std::vector<EmulatedCase>& cases, const Target& target,
                           bool close) {
  expect_emulated(cases, target, [&](const EmulatedCase& c, const std::vector<HostTensor>& got) {
    return close ? far_apart(c.expected, got) : difference(c.expected, got, c.drawn.exact);
  });
}

}  // namespace tile::test
