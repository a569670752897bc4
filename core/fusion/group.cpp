// Splits a normalized program into kernels: the table of fusions and its runner.
#include "core/fusion/group.h"

#include <array>

#include "core/fusion/fusion_passes.h"
#include "core/fusion/peel_remainder.h"
#include "core/fusion/verify_steps.h"
#include "core/kernel/collapse.h"
#include "core/support/choices.h"

namespace tile {
namespace {

using fusion::State;

void each_kernel(State& state, const std::function<void(Kernel&)>& work) {
  for (Step& step : state.steps) {
    if (auto* kernel = std::get_if<Kernel>(&step)) work(*kernel);
  }
}

// The rows of functions that are used elsewhere, too.
void streams(State& s) {
  s.steps = fuse_streams(std::move(s.steps), s.program, s.target, s.complete, s.completion.gone,
                         s.options.streams);
}
void siblings(State& s) {
  s.steps = fuse_siblings(std::move(s.steps), s.program, s.target, s.complete, s.options.siblings);
}
void pools(State& s) {
  s.steps = fuse_pools(std::move(s.steps), s.program, s.target, s.complete, s.options.pools);
}
void rows(State& s) {
  s.steps = fuse_rows(std::move(s.steps), s.program, s.target, s.complete, s.options.rows);
}
void row_sums(State& s) {
  s.steps = fuse_row_sums(std::move(s.steps), s.program, s.target, s.complete, s.options.rows);
}
void drop_kernel_points(State& s) { each_kernel(s, drop_points); }
void collapse_kernels(State& s) {
  each_kernel(s, [&](Kernel& k) { collapse_for(k, s.target); });
}
void peel_remainders(State& s) {
  each_kernel(s, [&](Kernel& k) { peel_remainder(k, s.target); });
}

// What is verified after a row: nothing yet, that everything is made before it is read, or (behind
// the last row) every rule.
enum class Verified : uint8_t { later, order, at_end };

struct Row : FusionPass {
  void (*run)(State&) = nullptr;
  Verified verified = Verified::order;
};

constexpr bool kOptional = true, kGpu = true;

constexpr Row row(std::string_view name, void (*run)(State&), bool optional, bool gpu,
                  Verified verified, std::string_view summary) {
  return {{{PassStage::fusion, name, optional, summary}, gpu}, run, verified};
}

constexpr std::array kRows = {
    row("make-kernels", fusion::make_kernels, !kOptional, kGpu, Verified::later,
        "makes each contraction a kernel"),
    row("attach-epilogues", fusion::attach_epilogues, kOptional, kGpu, Verified::order,
        "computes pointwise statements in the register tile of what they read"),
    row("fuse-streams", streams, kOptional, kGpu, Verified::order,
        "streams blocks past a running maximum: online softmax, attention"),
    row("fuse-siblings", siblings, kOptional, kGpu, Verified::order,
        "makes one kernel of reductions of one tensor over the same axes"),
    row("fuse-pools", pools, kOptional, !kGpu, Verified::order,
        "computes a pooling window where its operand is made"),
    row("fuse-rows", rows, kOptional, kGpu, Verified::order,
        "makes one kernel of statements that share rows"),
    row("fuse-row-sums", row_sums, kOptional, !kGpu, Verified::order,
        "gathers sums over chunks of rows in the kernel of these rows"),
    row("complete-kernels", fusion::complete_kernels, !kOptional, kGpu, Verified::at_end,
        "lists what kernels read and write; says where results live"),
    row("drop-points", drop_kernel_points, kOptional, !kGpu, Verified::at_end,
        "takes reductions of one value out"),
    row("collapse", collapse_kernels, kOptional, kGpu, Verified::at_end,
        "merges adjacent dimensions that a kernel walks as one"),
    row("peel-remainder", peel_remainders, kOptional, !kGpu, Verified::at_end,
        "makes the last columns of a product a piece of their own"),
};

// Where choices are repeated, the fusions are those of the program at other sizes, and the last
// verification is of all of them.
void verify_after(const Row& row, const State& state) {
  bool each = state.options.passes.verify_each;
  bool order = row.verified == Verified::order && !choices_are_repeated();
  if (order || (row.verified != Verified::at_end && each)) {
    verify_order(state.steps, state.program);
  }
  if (row.verified == Verified::at_end && each) verify(state.steps, state.program);
}

// Sliced from the rows, as others see them.
constexpr auto kPasses = [] {
  std::array<FusionPass, kRows.size()> passes;
  for (size_t i = 0; i < kRows.size(); ++i) passes[i] = kRows[i];
  return passes;
}();

}  // namespace

std::span<const FusionPass> fusion_passes() { return kPasses; }

std::vector<Step> group(const BoundProgram& program, const Target& target) {
  return group(program, target, GroupOptions{});
}

std::vector<Step> group(const BoundProgram& program, const Target& target,
                        const GroupOptions& options) {
  State state(program, target, options);
  for (const Row& row : kRows) {
    if (is_gpu(target) && !row.gpu) continue;
    auto work = [&] {
      row.run(state);
      verify_after(row, state);
    };
    auto text = [&] { return print(state.steps, program); };
    bool done = run_pass(row, options.passes, work, text);
    if (done && options.after) options.after(row.name, state.steps);
  }
  verify(state.steps, program);
  return std::move(state.steps);
}

}  // namespace tile
