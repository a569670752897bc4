// Runs a grouped program, each kernel's nest by the nest interpreter.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/interpret/whole_tensor.h"
#include "core/kernel/schedule.h"
#include "core/lower/lower.h"
#include "core/nest/launch_extent.h"
#include "core/nest/nest.h"
#include "core/nest/passes/nest_passes.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/search/dynamic_extent.h"
#include "core/schedule/space/candidates.h"
#include "tests/support/random_schedule.h"
#include "tests/support/run_tile.h"
#include "tests/support/schedule_kernels.h"

namespace tile::test {

// Runs the steps of a grouped program.
class StepRunner {
 public:
  // `passes`: how the passes over nests are run.
  StepRunner(const BoundProgram& program, const std::vector<HostTensor>& inputs,
             PassOptions passes = {})
      : program_(program), passes_(std::move(passes)) {
    for (const BoundTensor& t : program.tensors) {
      values_.emplace_back(t.type, t.shape);
      // What nothing has written shows as nonsense.
      std::vector<std::byte>& bytes = values_.back().bytes;
      std::fill(bytes.begin(), bytes.end(), std::byte{0x7e});
      if (t.constant) bytes = *t.constant;
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      values_[program.inputs[i]] = inputs[i];
    }
  }

  void run(const Step& step, uint64_t seed, const Target& target) {
    if (const auto* kernel = std::get_if<Kernel>(&step)) {
      verify(*kernel);
      if (run_class(*kernel, seed, target)) return;
      Schedule schedule =
          seed == 0 ? analytic_schedule(*kernel, target) : random_schedule(*kernel, target, seed);
      ASSERT_EQ(illegal(schedule, *kernel, target), "");
      run(nest::run_passes(lower(*kernel, schedule, target), target, passes_),
          arguments_of(*kernel), {}, copies(*kernel, schedule, target));
    } else if (const auto* scatter = std::get_if<Scatter>(&step)) {
      run(nest::run_passes(lower_scatter(*scatter, program_.tensors, target), target, passes_),
          {scatter->updates, scatter->indices, scatter->result});
    } else {
      const auto& sort = std::get<Sort>(step);
      run_sort(sort, value(sort.source), value(sort.result));
    }
  }

  // How many kernels ran as those of a class of sizes, and with so many copies made before.
  int classes() const { return classes_; }
  int prepared() const { return prepared_; }

  std::vector<HostTensor> outputs() {
    std::vector<HostTensor> all;
    for (TensorId id : program_.outputs) {
      all.push_back(value(id));
      all.back().shape = program_.tensors[id].shape;
    }
    return all;
  }

 private:
  bool run_class(const Kernel& kernel, uint64_t seed, const Target& target) {
    std::optional<ClassKernel> found = with_open_extent(kernel, target);
    if (!found) return false;
    std::optional<Schedule> schedule =
        seed == 0 ? class_schedule(*found, target)
                  : std::optional(random_schedule(found->kernel, target, seed));
    if (!schedule || !suits_class(*schedule, *found)) return false;
    run(nest::run_passes(lower(*found, *schedule, target), target, passes_), arguments_of(kernel),
        {found->size}, copies(found->kernel, *schedule, target));
    ++classes_;
    return true;
  }

  HostTensor& value(TensorId id) {
    const BoundTensor& declared = program_.tensors[id];
    return values_[declared.view_of.value_or(id)];
  }

  std::vector<HostTensor> copies(const Kernel& kernel, const Schedule& schedule,
                                 const Target& target) {
    std::vector<HostTensor> all;
    for (const Prepacking& p : prepackings(kernel, schedule, target)) {
      nest::verify(p.nest);
      HostTensor source = value(p.source);
      source.shape = p.nest.buffers[0].shape;
      all.emplace_back(p.nest.buffers[1].type, p.nest.buffers[1].shape);
      nest::interpret(nest::run_passes(p.nest, target, passes_), {&source, &all.back()});
    }
    prepared_ += static_cast<int>(all.size());
    return all;
  }

  void run(const nest::Nest& nest, const std::vector<TensorId>& arguments,
           const std::vector<int64_t>& parameters = {}, std::vector<HostTensor> prepared = {}) {
    nest::verify(nest);
    std::vector<HostTensor> holders;
    for (size_t i = 0; i < arguments.size(); ++i) {
      HostTensor t = value(arguments[i]);
      t.shape = nest.buffers[i].shape;
      if (nest.buffers[i].extent) {
        t.shape[0] = nest::first_extent(nest, nest.buffers[i], parameters);
      }
      if (nest.buffers[i].written) std::fill(t.bytes.begin(), t.bytes.end(), std::byte{0x7e});
      holders.push_back(std::move(t));
    }
    std::vector<HostTensor*> pointers;
    for (HostTensor& holder : holders) pointers.push_back(&holder);
    for (HostTensor& copy : prepared) pointers.push_back(&copy);
    nest::interpret(nest, pointers, parameters);
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (nest.buffers[i].written) value(arguments[i]).bytes = holders[i].bytes;
    }
  }

  const BoundProgram& program_;
  const PassOptions passes_;
  IdVector<TensorId, HostTensor> values_;
  int classes_ = 0, prepared_ = 0;
};

// Runs the steps under the analytic and `count` random schedules and expects these outputs.
inline void expect_steps_give(const BoundProgram& program, const std::vector<Step>& steps,
                              const std::vector<HostTensor>& inputs,
                              const std::vector<HostTensor>& expected, int count,
                              double tolerance) {
  for (int seed = 0; seed <= count; ++seed) {
    StepRunner runner(program, inputs);
    Target target = seed % 2 == 0 ? testing::wide_target() : testing::small_target();
    for (const Step& s : steps) runner.run(s, static_cast<uint64_t>(seed), target);
    std::vector<HostTensor> got = runner.outputs();
    for (size_t o = 0; o < expected.size(); ++o) {
      Values x = values_of(expected[o]), y = values_of(got[o]);
      ASSERT_EQ(x.size(), y.size());
      for (size_t i = 0; i < x.size(); ++i) {
        bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])) ||
                    std::abs(x[i] - y[i]) <= tolerance * std::max(1.0, std::abs(x[i]));
        ASSERT_TRUE(same) << "seed " << seed << " output " << o << " element " << i << ": " << x[i]
                          << " and " << y[i];
      }
    }
  }
}

}  // namespace tile::test
