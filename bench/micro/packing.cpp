// Copies of a product's operands into the order in which its tiles use them: alone, and within the
// product that they are made for.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <optional>

#include "bench/micro/product.h"
#include "core/kernel/schedule.h"
#include "core/lower/lower.h"
#include "core/schedule/space/candidates.h"

namespace {

using namespace tile;
using namespace tile::bench;

constexpr size_t kCandidates = 64;

bool is_copy(const nest::Buffer& buffer) {
  return buffer.scope != nest::Scope::argument && buffer.scope != nest::Scope::registers;
}

// What of a block writes copies of operands, with the loops around it.
nest::Block copies_of(const nest::Nest& nest, const nest::Block& block);

struct CopiesOf {
  const nest::Nest& nest;
  using Kept = std::optional<nest::Statement>;

  bool copied(nest::BufferId buffer) const { return is_copy(nest.buffers[buffer]); }
  Kept operator()(const nest::For& loop) const {
    nest::For kept = loop;
    kept.body = copies_of(nest, loop.body);
    return kept.body.empty() ? Kept() : Kept({{std::move(kept)}});
  }
  Kept operator()(const nest::If& branch) const {
    nest::If kept = branch;
    kept.then = copies_of(nest, branch.then);
    kept.otherwise = copies_of(nest, branch.otherwise);
    return kept.then.empty() && kept.otherwise.empty() ? Kept() : Kept({{std::move(kept)}});
  }
  Kept operator()(const nest::Store& store) const {
    return copied(store.target.buffer) ? Kept({{store}}) : Kept();
  }
  Kept operator()(const nest::Alloc& alloc) const {
    return copied(alloc.buffer) ? Kept({{alloc}}) : Kept();
  }
  template <class Other>
  Kept operator()(const Other&) const {
    return std::nullopt;
  }
};

nest::Block copies_of(const nest::Nest& nest, const nest::Block& block) {
  nest::Block kept;
  for (const nest::Statement& statement : block) {
    if (auto copy = std::visit(CopiesOf{nest}, statement.what)) kept.push_back(std::move(*copy));
  }
  return kept;
}

bool packs(const Schedule& schedule) {
  return std::any_of(schedule.stages.begin(), schedule.stages.end(), [](const auto& pieces) {
    return std::any_of(pieces.begin(), pieces.end(),
                       [](const PieceSchedule& piece) { return !piece.packings.empty(); });
  });
}

// The best schedule that packs an operand, of the product's kernel.
std::optional<Schedule> packing_schedule(const Kernel& kernel, const Target& target) {
  for (const Schedule& schedule : candidates(kernel, target, kCandidates)) {
    if (packs(schedule)) return schedule;
  }
  return std::nullopt;
}

void measure(benchmark::State& state, bool alone) {
  Product product(fresh_engine(), state.range(0));
  std::shared_ptr<const Executable> executable = product.program().executable(product.layouts());
  const Launch& launch = executable->launches.at(0);
  Backend& backend = executable->engine->backend();
  const Target& target = backend.target();
  std::optional<Schedule> schedule = packing_schedule(*launch.kernel, target);
  if (!schedule) {
    state.SkipWithError("no schedule of this machine packs an operand");
    return;
  }
  nest::Nest nest = nest::hoist(lower(*launch.kernel, *schedule, target));
  if (alone) nest.body = copies_of(nest, nest.body);
  KernelLaunch kernel(product, *executable, launch, backend.compile(nest, target), {});
  for (auto _ : state) kernel();
}

void packing_of_operands(benchmark::State& state) { measure(state, true); }
BENCHMARK(packing_of_operands)->Arg(256)->Arg(1024)->Unit(benchmark::kMicrosecond)->UseRealTime();

void product_with_packing(benchmark::State& state) { measure(state, false); }
BENCHMARK(product_with_packing)->Arg(256)->Arg(1024)->Unit(benchmark::kMicrosecond)->UseRealTime();

}  // namespace
