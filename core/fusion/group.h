// Which statements of a program become one kernel.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/kernel/kernel.h"
#include "core/support/choices.h"
#include "core/support/pass.h"

namespace tile {

// A row of the table of fusions: kernels are made of statements, several become one, and what came
// out is completed.
struct FusionPass : PassInfo {
  bool gpu = true;  // is for GPUs, too: the others serve CPUs alone
};
std::span<const FusionPass> fusion_passes();

// Splits a normalized program into kernels: each contraction with loops of its own starts one,
// pointwise consumers attach where the cost model finds it worth it. Sort and Scatter stay
// statements of their own.
std::vector<Step> group(const BoundProgram& program, const Target& target);

// Tensors by their storage, each once. `makes` has results that are never stored, too.
struct StepUse {
  std::vector<TensorId> reads;  // before the step itself has made them
  std::vector<TensorId> makes;
};

// The steps of a program while fusions put several into one. Used by one thread.
class OpenSteps {
 public:
  explicit OpenSteps(std::vector<Step> steps) : uses_(steps.size()) {
    for (Step& s : steps) steps_.emplace_back(std::move(s));
  }
  size_t size() const { return steps_.size(); }
  // Empty where the step has become part of another.
  const std::optional<Step>& operator[](size_t i) const { return steps_[i]; }
  // Null where step i is no kernel or has become part of another.
  const Kernel* kernel(size_t i) const {
    return steps_[i] ? std::get_if<Kernel>(&*steps_[i]) : nullptr;
  }
  // The same, of a kernel without row loops.
  const Kernel* plain_kernel(size_t i) const {
    const Kernel* k = kernel(i);
    return k != nullptr && row_loops(*k) == 0 ? k : nullptr;
  }
  const std::vector<std::optional<Step>>& list() const { return steps_; }
  void set(size_t i, std::optional<Step> step) {
    steps_[i] = std::move(step);
    uses_[i].reset();
  }
  void reset(size_t i) { set(i, std::nullopt); }
  std::optional<Step> take(size_t i) {
    uses_[i].reset();
    return std::exchange(steps_[i], std::nullopt);
  }
  // Of a step that is there; found once, since fusions ask it of all steps between two.
  const StepUse& use(size_t i, const BoundProgram& program) const;
  // Takes the steps that are left out of the list.
  std::vector<Step> left() {
    std::vector<Step> list;
    for (std::optional<Step>& s : steps_) {
      if (s) list.push_back(std::move(*s));
    }
    return list;
  }

 private:
  std::vector<std::optional<Step>> steps_;
  mutable std::vector<std::optional<StepUse>> uses_;
};

// Merges kernels that share rows (KernelStage::rows) where that is cheaper. `finish` completes a
// kernel: what it reads and writes, and where its results live. `always`: wherever it is legal.
std::vector<Step> fuse_rows(std::vector<Step> steps, const BoundProgram& program,
                            const Target& target, const std::function<void(Kernel&)>& finish,
                            bool always);

// One sum whose reduction is the place in a chunk that is one of its results' dimensions.
bool sums_chunks(const Kernel& kernel);
// Merges sums over chunks of rows with the kernel that makes or reads the rows.
std::vector<Step> fuse_row_sums(std::vector<Step> steps, const BoundProgram& program,
                                const Target& target, const std::function<void(Kernel&)>& finish,
                                bool always);

// Makes one kernel of reductions of one tensor over the same axes where that is cheaper, or
// wherever it is legal with `always`.
std::vector<Step> fuse_siblings(std::vector<Step> steps, const BoundProgram& program,
                                const Target& target, const std::function<void(Kernel&)>& finish,
                                bool always);

// collapse(), but of kernels whose blocks are copied by the dimensions of the program's tensors: on
// a GPU those with a streamed axis, so that any strides of the tensors do.
void collapse_for(Kernel& kernel, const Target& target);
// What a kernel makes last, by name: for questions about it (core/support/choices.h).
const std::string& result_name(const Kernel& kernel, const BoundProgram& program);
// The model's time for a kernel as it would be compiled.
double compiled_cost(const Kernel& raw, const Target& target,
                     const std::function<void(Kernel&)>& finish);
// The same with the bytes of the tensors that it stores.
Price compiled_price(const Kernel& raw, const Target& target,
                     const std::function<void(Kernel&)>& finish);
double stored_bytes(const Kernel& kernel);

// Tensors of the program that no kernel makes, since what reads them is written otherwise. With a
// valid id: the kernel that makes that tensor has cells of its own instead, and makes them of the
// same operands.
using GoneTensors = std::map<TensorId, TensorId>;
// Makes one kernel with a streamed axis (KernelStage::stream) of a maximum, the exponential of
// distances to it, sums of that, and what makes the distances' terms, where that is cheaper; or
// wherever it is legal with `always`. Tensors that no kernel makes any more are added to `gone`.
// Also scores and sums of what is made of them, without a maximum.
std::vector<Step> fuse_streams(std::vector<Step> steps, const BoundProgram& program,
                               const Target& target, const std::function<void(Kernel&)>& finish,
                               GoneTensors& gone, bool always);
// Makes one kernel of a reduction over disjoint windows and of what makes its operand, which is
// then not stored, where that is cheaper; or wherever it is legal with `always`.
std::vector<Step> fuse_pools(std::vector<Step> steps, const BoundProgram& program,
                             const Target& target, const std::function<void(Kernel&)>& finish,
                             bool always);
// How group() works. `streams` to `rows`, for tests: with every fusion of these kinds that is
// legal. `after` is told of the steps after each pass by its name (kernels' lists and residences
// are settled by "complete-kernels").
struct GroupOptions {
  bool streams = false, siblings = false, pools = false, rows = false;
  std::function<void(std::string_view pass, const std::vector<Step>& steps)> after = {};
  PassOptions passes = {};
};
// Splits a program into steps. After each fusion everything is made before it is read, and at last
// every rule of verify_steps.h holds.
std::vector<Step> group(const BoundProgram& program, const Target& target,
                        const GroupOptions& options);

// The steps one after the other, for people.
std::string print(const std::vector<Step>& steps, const BoundProgram& program);

}  // namespace tile
