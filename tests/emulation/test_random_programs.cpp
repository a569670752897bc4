// Issue 5, item 4: printed SIMT kernels are executed, on random programs, against the reference
// interpreter: index arithmetic, guards, barriers and operations.
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cuda/source.h"
#include "core/interpret/whole_tensor.h"
#include "core/nest/nest.h"
#include "core/passes/pipeline.h"
#include "core/schedule/lower.h"
#include "core/schedule/schedule.h"
#include "tests/emulation/emulated.h"
#include "tests/random/agreement.h"
#include "tests/random/random_program.h"
#include "tests/unit/run_tile.h"

namespace tile::test {
namespace {

struct Launch {
  nest::Nest nest;
  std::vector<TensorId> arguments;
};

// A random program, lowered; its launches are numbered from `first` on among all programs'.
struct Case {
  uint64_t seed = 0;
  RandomCase drawn;
  BoundProgram program;
  std::vector<std::variant<Launch, Sort>> steps;
  Interpretation expected;
  size_t first = 0;
};

std::vector<TensorId> arguments_of(const Kernel& kernel) {
  std::vector<TensorId> list;
  for (TensorId id : kernel.reads) {
    if (std::find(kernel.writes.begin(), kernel.writes.end(), id) == kernel.writes.end()) {
      list.push_back(id);
    }
  }
  list.insert(list.end(), kernel.writes.begin(), kernel.writes.end());
  return list;
}

// `schedule` 0 is the analytic pick.
Case lowered(uint64_t seed, uint64_t schedule, const RandomOptions& options, const Target& target) {
  Case c;
  c.seed = seed;
  c.drawn = random_case(seed, options);
  c.program = bind_text(c.drawn.text, c.drawn.types);
  c.expected = interpret(c.program, c.drawn.inputs, {}, true);
  run_pipeline(c.program, target);
  for (const Step& step : group(c.program, target)) {
    if (const auto* kernel = std::get_if<Kernel>(&step)) {
      Schedule s = schedule == 0 ? analytic_schedule(*kernel, target)
                                 : random_schedule(*kernel, target, schedule);
      c.steps.push_back(Launch{nest::partition(lower(*kernel, s, target)), arguments_of(*kernel)});
    } else if (const auto* scatter = std::get_if<Scatter>(&step)) {
      c.steps.push_back(Launch{nest::partition(lower_scatter(*scatter, c.program.tensors, target)),
                               {scatter->updates, scatter->indices, scatter->result}});
    } else {
      c.steps.push_back(std::get<Sort>(step));
    }
  }
  return c;
}

class Runner {
 public:
  Runner(const Case& c, const Emulated& code) : case_(c), code_(code) {
    for (const BoundTensor& t : c.program.tensors) values_.emplace_back(t.type, t.shape);
    for (size_t i = 0; i < c.drawn.inputs.size(); ++i) {
      values_[static_cast<size_t>(c.program.inputs[i])] = c.drawn.inputs[i];
    }
  }

  std::vector<HostTensor> outputs() {
    size_t next = case_.first;
    for (const auto& step : case_.steps) {
      if (const auto* launch = std::get_if<Launch>(&step)) {
        run(*launch, next++);
      } else {
        const Sort& sort = std::get<Sort>(step);
        run_sort(sort, value(sort.source), value(sort.result));
      }
    }
    std::vector<HostTensor> all;
    for (TensorId id : case_.program.outputs) {
      all.push_back(value(id));
      all.back().shape = case_.program.tensors[static_cast<size_t>(id)].shape;
    }
    return all;
  }

 private:
  HostTensor& value(TensorId id) {
    const BoundTensor& declared = case_.program.tensors[static_cast<size_t>(id)];
    return values_[static_cast<size_t>(declared.view_of.value_or(id))];
  }
  void run(const Launch& launch, size_t index) {
    std::vector<HostTensor*> arguments;
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      HostTensor& t = value(launch.arguments[i]);
      if (launch.nest.buffers[i].written) {
        std::fill(t.bytes.begin(), t.bytes.end(), std::byte{0x7e});
      }
      arguments.push_back(&t);
    }
    code_.run(index, launch.nest, arguments);
  }

  const Case& case_;
  const Emulated& code_;
  std::vector<HostTensor> values_;
};

void expect_emulated_agree(const std::vector<Case>& cases, const Target& target) {
  std::vector<cuda::CudaSource> sources;
  std::vector<Case> placed = cases;
  for (Case& c : placed) {
    c.first = sources.size();
    for (const auto& step : c.steps) {
      const auto* launch = std::get_if<Launch>(&step);
      if (launch != nullptr) sources.push_back(cuda::print_cuda(launch->nest, target));
    }
  }
  Emulated code(sources);
  for (const Case& c : placed) {
    SCOPED_TRACE("seed " + std::to_string(c.seed) + ":\n" + c.drawn.text);
    EXPECT_EQ(difference(c.expected, Runner(c, code).outputs(), c.drawn.exact), "");
  }
}

void expect_seeds_agree(const std::vector<uint64_t>& list, bool random_schedules,
                        const RandomOptions& options) {
  std::vector<Case> cases;
  for (uint64_t seed : list) {
    try {
      cases.push_back(lowered(seed, random_schedules ? seed + 1 : 0, options, h200_target()));
    } catch (const InternalError& error) {
      ADD_FAILURE() << "seed " << seed << ": " << error.what();
    }
  }
  expect_emulated_agree(cases, h200_target());
}

TEST(Emulation, AnalyticSchedules) { expect_seeds_agree(seeds(0, 60), false, {}); }

TEST(Emulation, RandomSchedules) { expect_seeds_agree(seeds(100, 60), true, {}); }

TEST(Emulation, RealsNanAndInfinities) {
  RandomOptions reals;
  reals.real_values = true;
  expect_seeds_agree(seeds(200, 40), false, reals);
}

}  // namespace
}  // namespace tile::test
