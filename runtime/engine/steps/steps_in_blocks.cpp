#include "runtime/engine/steps/steps_in_blocks.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include "core/ir/analysis/uses.h"
#include "core/schedule/cost/estimate.h"
#include "core/schedule/space/grid_schedule.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/inspect/names.h"

namespace tile {
namespace {

constexpr size_t kMostLaunches = 8;
constexpr size_t kMostArguments = CallPlan::kMost;
// What code and trials cost is some hundredths of loops that take as long, by the model.
constexpr double kLeastNs = 20e6;
// Of a trip's time by itself, at most, for a trip whose data is in the second cache.
constexpr double kWorthIt = 0.9;

// Launches that are kernels of one parallel loop are looked into elsewhere.
bool has_plain_kernels(const Executable& step) {
  if (step.engine->is_reference() || is_gpu(step.engine->target())) return false;
  if (step.launches.empty() || step.launches.size() > kMostLaunches) return false;
  if (!step.copies.empty() || !step.densified.empty()) return false;
  return std::all_of(step.launches.begin(), step.launches.end(), [](const Launch& launch) {
    return launch.kernel && launch.prepared.empty() && launch.begins.empty() &&
           launch.arguments.size() <= kMostArguments;
  });
}

// The tensors of a step that trips change, and who reads and writes them.
class Traffic {
 public:
  Traffic(const Executable& step, std::span<const Feed> feeds) : step_(step) {
    for (const Feed& feed : feeds) {
      fed_.emplace(storage(step.program.inputs[feed.input]),
                   storage(step.program.outputs[feed.output]));
    }
    for (size_t k = 0; k < step.launches.size(); ++k) {
      for (TensorId id : step.launches[k].kernel->writes) writers_[storage(id)].push_back(k);
    }
  }

  TensorId storage(TensorId id) const { return storage_of(step_.program, id); }
  // Each is stored by one launch, what is fed by a launch of its own step; no two share memory.
  bool is_plain() const {
    bool single = std::all_of(writers_.begin(), writers_.end(),
                              [](const auto& w) { return w.second.size() == 1; });
    bool fed = std::all_of(fed_.begin(), fed_.end(), [&](const auto& f) {
      return writers_.contains(f.second) && !writers_.contains(f.first);
    });
    return single && fed && !shares_memory();
  }
  // The launch that makes what the argument of another one holds, this trip or the one before.
  std::optional<size_t> maker(TensorId argument) const {
    auto made = writers_.find(source(argument));
    if (made == writers_.end()) return std::nullopt;
    return made->second.front();
  }
  // The tensor that is stored for what the argument holds.
  TensorId source(TensorId argument) const {
    auto fed = fed_.find(storage(argument));
    return fed == fed_.end() ? storage(argument) : fed->second;
  }
  // For each launch the turn of its trip: behind those whose results of the trip it reads.
  std::vector<int64_t> turns() const {
    std::vector<int64_t> turns;
    for (size_t k = 0; k < step_.launches.size(); ++k) {
      int64_t turn = 0;
      for (TensorId id : step_.launches[k].arguments) {
        auto made = writers_.find(storage(id));
        if (made == writers_.end() || made->second.front() >= k) continue;
        turn = std::max(turn, turns[made->second.front()] + 1);
      }
      turns.push_back(turn);
    }
    return turns;
  }
  // All that a trip touches, each once.
  int64_t bytes() const {
    std::map<TensorId, int64_t> sizes;
    for (const Launch& launch : step_.launches) {
      for (TensorId id : launch.arguments) {
        const BoundTensor& t = step_.program.tensors[storage(id)];
        sizes[storage(id)] = element_count(t.shape) * static_cast<int64_t>(byte_size(t.type));
      }
    }
    int64_t all = 0;
    for (const auto& [id, bytes] : sizes) all += bytes;
    return all;
  }

 private:
  // Temporaries whose lives within a trip are apart may lie in one place.
  bool shares_memory() const {
    std::vector<std::pair<size_t, size_t>> parts;
    for (const auto& [id, by] : writers_) {
      const Place& place = step_.places[id];
      if (place.kind != Place::Kind::arena) continue;
      const BoundTensor& t = step_.program.tensors[id];
      parts.emplace_back(place.at, static_cast<size_t>(element_count(t.shape)) * byte_size(t.type));
    }
    std::sort(parts.begin(), parts.end());
    for (size_t i = 1; i < parts.size(); ++i) {
      if (parts[i].first < parts[i - 1].first + parts[i - 1].second) return true;
    }
    return false;
  }

  const Executable& step_;
  std::map<TensorId, TensorId> fed_;  // outputs by the inputs that they feed
  std::map<TensorId, std::vector<size_t>> writers_;
};

// One kernel over the grid.
struct GridLaunch {
  GridSchedule made;
  nest::Nest nest;
  std::optional<nest::IterationAccesses> accesses;
};

std::optional<std::vector<GridLaunch>> grid_launches(const Executable& step) {
  const Target& target = step.engine->target();
  std::vector<GridLaunch> list;
  for (const Launch& launch : step.launches) {
    const Kernel& kernel = *launch.kernel;
    const KernelStage& stage = kernel.stages[0];
    TensorId stored = stage.contraction.outputs.at(0);
    std::vector<int64_t> steps = grid_steps(kernel.tensors[stored].shape);
    std::optional<GridSchedule> made = best_grid_schedule(launch.schedule, steps, kernel, target);
    if (!made || (!list.empty() && made->grid != list[0].made.grid)) return std::nullopt;
    nest::Nest nest = lowered(step, made->kernel, made->schedule);
    auto accesses = nest::IterationAccesses::of(nest, made->grid);
    if (!accesses || !copies_for(step, made->kernel, made->schedule).empty()) return std::nullopt;
    list.push_back({std::move(*made), std::move(nest), std::move(accesses)});
  }
  return list;
}

// The argument of a launch that is a tensor's storage; nullopt: none is, or several are.
std::optional<nest::BufferId> argument_of(const Traffic& traffic, const Launch& launch,
                                          TensorId storage) {
  std::optional<nest::BufferId> found;
  for (size_t i = 0; i < launch.arguments.size(); ++i) {
    if (traffic.storage(launch.arguments[i]) != storage) continue;
    if (found) return std::nullopt;
    found = nest::BufferId(i);
  }
  return found;
}

// How far iterations reach along one dimension of the grid, in all launches.
std::optional<nest::Reach> reach_along(const Executable& step, const Traffic& traffic,
                                       const std::vector<GridLaunch>& grids, size_t along) {
  nest::Reach all;
  std::map<TensorId, std::optional<nest::StoredRanges>> stored;
  auto stored_of = [&](TensorId id, size_t maker) {
    auto [at, fresh] = stored.try_emplace(id);
    auto buffer = fresh ? argument_of(traffic, step.launches[maker], id) : std::nullopt;
    if (buffer) at->second = grids[maker].accesses->stored(*buffer, along);
    return at->second;
  };
  for (size_t k = 0; k < grids.size(); ++k) {
    const std::vector<TensorId>& arguments = step.launches[k].arguments;
    for (size_t i = 0; i < arguments.size(); ++i) {
      std::optional<size_t> maker = traffic.maker(arguments[i]);
      if (!maker) continue;
      auto ranges = stored_of(traffic.source(arguments[i]), *maker);
      if (!ranges) return std::nullopt;
      auto reach = grids[k].accesses->reach(nest::BufferId(i), along, *ranges);
      if (!reach) return std::nullopt;
      all.far = std::max(all.far, reach->far);
      all.wraps = all.wraps || reach->wraps;
    }
  }
  return all;
}

std::optional<std::vector<TiledDimension>> dimensions_of(const Executable& step,
                                                         const Traffic& traffic,
                                                         const std::vector<GridLaunch>& grids) {
  std::vector<TiledDimension> dimensions;
  const std::vector<int64_t>& grid = grids[0].made.grid;
  for (size_t d = 0; d < grid.size(); ++d) {
    std::optional<nest::Reach> reach = reach_along(step, traffic, grids, d);
    if (!reach) return std::nullopt;
    dimensions.push_back({grid[d], std::min(reach->far, grid[d]), reach->wraps, 1});
  }
  return dimensions;
}

// Whether the model gives blocks a chance.
bool may_pay(const Executable& step, const std::vector<GridLaunch>& grids, int64_t trips) {
  const Target& target = step.engine->target();
  double apart = 0, cached = 0;
  for (size_t k = 0; k < grids.size(); ++k) {
    const Launch& launch = step.launches[k];
    apart += estimate(launch.schedule, *launch.kernel, target);
    cached += cached_time(grids[k].made.schedule, grids[k].made.kernel, target);
  }
  return cached < kWorthIt * apart && apart * static_cast<double>(trips) >= kLeastNs;
}

// All of a step's kernels over a grid, with what is known of them.
struct StepOnGrid {
  std::vector<GridLaunch> grids;
  std::vector<TiledDimension> dimensions;
  std::vector<int64_t> turn;  // of each kernel in its trip
  int64_t turns = 1;
};
std::optional<StepOnGrid> on_grid(const Executable& step, const Traffic& traffic) {
  auto grids = traffic.is_plain() ? grid_launches(step) : std::nullopt;
  auto dimensions = grids ? dimensions_of(step, traffic, *grids) : std::nullopt;
  if (!dimensions) return std::nullopt;
  std::vector<int64_t> turn = traffic.turns();
  int64_t turns = 1 + *std::max_element(turn.begin(), turn.end());
  return StepOnGrid{std::move(*grids), std::move(*dimensions), std::move(turn), turns};
}

std::vector<LaunchInBlocks> with_code(const Executable& step, std::vector<GridLaunch> grids,
                                      const std::vector<int64_t>& turns) {
  std::vector<LaunchInBlocks> launches;
  for (size_t k = 0; k < grids.size(); ++k) {
    Launch launch;
    for (nest::Buffer& b : grids[k].nest.buffers) b.read_soon = b.written;
    launch.nest = std::move(grids[k].nest);
    make_code(step, launch);
    tell_names(step, step.launches[k], launch.code, " in blocks");
    launches.push_back({launch.code, launch.key, turns[k], std::move(grids[k].made.schedule)});
  }
  return launches;
}

std::shared_ptr<const StepsInBlocks> made(const Executable& step, StepOnGrid on,
                                          std::vector<TimeTiles> tiles) {
  if (tiles.empty()) return nullptr;
  auto blocks = std::make_shared<StepsInBlocks>();
  blocks->turns = on.turns;
  blocks->tiles = std::move(tiles);
  blocks->launches = with_code(step, std::move(on.grids), on.turn);
  blocks->race = std::make_shared<WayRace>(1 + blocks->tiles.size());
  return takes_blocks(step, *blocks) ? blocks : nullptr;
}

}  // namespace

int64_t StepsInBlocks::trips_at_a_time() const {
  int64_t most = 1;
  for (const TimeTiles& t : tiles) most = std::max(most, t.turns / turns);
  return most;
}

std::shared_ptr<const StepsInBlocks> steps_in_blocks(const Executable& step,
                                                     std::span<const Feed> feeds,
                                                     const ChosenTiles& choose) {
  if (!has_plain_kernels(step)) return nullptr;
  std::optional<StepOnGrid> on = on_grid(step, Traffic(step, feeds));
  if (!on) return nullptr;
  std::vector<TimeTiles> tiles = choose(on->dimensions, on->turns);
  return made(step, std::move(*on), std::move(tiles));
}

std::shared_ptr<const StepsInBlocks> steps_in_blocks(const Executable& step,
                                                     std::span<const Feed> feeds, int64_t trips) {
  if (!has_plain_kernels(step)) return nullptr;
  const Target& target = step.engine->target();
  Traffic traffic(step, feeds);
  int64_t bytes = traffic.bytes();
  if (bytes <= std::max(1, target.threads) * target.l2_bytes) return nullptr;
  std::optional<StepOnGrid> on = on_grid(step, traffic);
  if (!on || !may_pay(step, on->grids, trips)) return nullptr;
  auto tiles = time_tiles(on->dimensions, on->turns, trips, bytes, target);
  return made(step, std::move(*on), std::move(tiles));
}

bool takes_blocks(const Executable& step, const StepsInBlocks& blocks) {
  if (step.launches.size() != blocks.launches.size() || blocks.tiles.empty()) return false;
  if (!step.copies.empty() || !step.densified.empty() || !blocks.race) return false;
  bool tiles = std::all_of(blocks.tiles.begin(), blocks.tiles.end(), [&](const TimeTiles& t) {
    return is_sound(t) && blocks.turns >= 1 && t.turns % blocks.turns == 0;
  });
  if (!tiles) return false;
  for (size_t k = 0; k < blocks.launches.size(); ++k) {
    const LaunchInBlocks& launch = blocks.launches[k];
    if (launch.turn < 0 || launch.turn >= blocks.turns || !launch.code) return false;
    const Code::Takes* takes = launch.code->takes();
    size_t arguments = step.launches[k].arguments.size();
    if (takes == nullptr || takes->written.size() != arguments || arguments > kMostArguments) {
      return false;
    }
    for (const TimeTiles& t : blocks.tiles) {
      int64_t all = 1;
      for (const TiledDimension& d : t.dimensions) {
        if (__builtin_mul_overflow(all, d.iterations, &all)) return false;
      }
      if (launch.code->iterations() != all) return false;
    }
  }
  return true;
}

bool computes_the_same(const Executable& step, const StepsInBlocks& blocks) {
  if (step.launches.size() != blocks.launches.size()) return false;
  for (size_t k = 0; k < step.launches.size(); ++k) {
    const Launch& launch = step.launches[k];
    bool same = launch.kernel && launch.prepared.empty() &&
                same_order_of_terms(launch.schedule, blocks.launches[k].schedule, *launch.kernel,
                                    step.engine->target());
    if (!same) return false;
  }
  return true;
}

std::string found_fastest(const StepsInBlocks& blocks) {
  std::optional<WayRace::Verdict> found = blocks.race->verdict();
  if (!found) return "";
  return found->way == 0 ? "step by step" : print(blocks.tiles[found->way - 1], blocks.turns);
}

std::string print(const StepsInBlocks& blocks) {
  std::string out = "step by step";
  for (const TimeTiles& t : blocks.tiles) out += ", or " + print(t, blocks.turns);
  out += ": decided at run time";
  std::optional<WayRace::Verdict> found = blocks.race->verdict();
  if (!found) return out;
  std::string times;
  for (double ns : found->ns) {
    char time[32];
    std::snprintf(time, sizeof time, "%.1f", ns / 1e3);
    times += (times.empty() ? "" : ", ") + std::string(time);
  }
  return out + ", last for " + found_fastest(blocks) + " (us a step: " + times + ")";
}

void share_races(const Executable& from, Executable& to) {
  for (size_t i = 0; i < std::min(from.launches.size(), to.launches.size()); ++i) {
    const std::optional<StepLoop>& old = from.launches[i].loop;
    std::optional<StepLoop>& loop = to.launches[i].loop;
    bool same =
        old && loop && old->blocks && loop->blocks && old->blocks->tiles == loop->blocks->tiles;
    if (!same) continue;
    auto blocks = std::make_shared<StepsInBlocks>(*loop->blocks);
    blocks->race = old->blocks->race;
    loop->blocks = std::move(blocks);
  }
}

}  // namespace tile
