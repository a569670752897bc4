#include "core/schedule/cost/row_model.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/kernel/rows.h"
#include "core/kernel/stream.h"
#include "core/schedule/cost/piece/piece_model.h"
#include "core/schedule/cost/piece/thread_cost.h"
#include "core/schedule/cost/piece/traffic.h"

namespace tile {
namespace {

// [race] (cost_cycles.h), as shares: of the smaller of two costs, what the larger does not hide; of
// a cache, what data find there again, and what a block of rows has beside the next one's data.
constexpr double kOverlap = 0.15;
constexpr double kResident = 0.75;
constexpr double kBlockShare = 0.5;

// The extents of the shared loops' blocks: of the rows, then of the streamed axis.
std::vector<int64_t> block_extents(const Schedule& schedule, const Kernel& kernel) {
  std::vector<int64_t> blocks = row_extents(kernel);
  IdVector<RowId, IteratorId> rows = shared_iterators(kernel.stages[0]);
  for (size_t i = 0; i < schedule.shared; ++i) {
    const Loop& l = schedule.stages[0][0].outer[i];
    auto r = std::find(rows.begin(), rows.end(), l.iterator) - rows.begin();
    int64_t& block = blocks[r];
    block = std::min(block, l.step);
  }
  return blocks;
}

}  // namespace

bool is_global(const Kernel& kernel, TensorId id) {
  auto listed = [&](const std::vector<TensorId>& list) {
    return std::find(list.begin(), list.end(), id) != list.end();
  };
  return listed(kernel.reads) || listed(kernel.writes);
}

std::vector<int64_t> row_extents(const Kernel& kernel) {
  const KernelStage& first = kernel.stages[0];
  std::vector<int64_t> list;
  for (IteratorId u : shared_iterators(first)) {
    list.push_back(first.contraction.pieces[0].box[u]);
  }
  return list;
}

RowModel::RowModel(const Kernel& kernel, const Target& target, std::vector<int64_t> blocks)
    : target_(target), blocks_(std::move(blocks)), block_(block_of_rows(kernel, blocks_)) {
  std::vector<int64_t> all = row_extents(kernel);
  for (size_t r = 0; r < all.size(); ++r) {
    count_ *= static_cast<double>(all[r]) / static_cast<double>(blocks_[r]);
  }
  if (has_stream(kernel)) count_ *= visited_share(kernel, blocks_);
  attached_share_ = 1 / count_;
  cold_ = count_ * cold_block(kernel);
  again_ = count_ * read_again();
}

double RowModel::serial_ns(const std::vector<double>& stages, CostTerm* into) const {
  double inside = attached(), warm = inside;
  for (double ns : stages) warm += ns;
  warm = warm * count_ + again_;
  double total = std::max(warm, cold_) + kOverlap * std::min(warm, cold_);
  if (into == nullptr) return total;
  CostTerm block = std::move(*into);
  block.name = "stages of a block";
  block.factor = count_;
  block.facts.emplace_back("blocks", count_);
  block.add_if("stages in tiles of others", inside);
  block.ns = combined(block);
  CostTerm near = combine("blocks in the second cache", Combine::sum, 1, {std::move(block)});
  near.add_if("data that stages read again", again_);
  near.ns = combined(near);
  *into = combine("work", Combine::overlap, kOverlap,
                  {std::move(near), cost_leaf("arguments from behind the second cache", cold_)});
  return total;
}

double RowModel::attached() const {
  double total = 0;
  for (const KernelStage& stage : block_.stages) {
    if (stage.attach.valid()) total += attached_ns(stage, block_, target_);
  }
  return total * attached_share_;
}

double RowModel::cold_block(const Kernel& kernel) const {
  double bytes = 0, second = 0;
  std::set<TensorId> seen;
  struct Moved {
    size_t stage, access;
    bool stays;  // in the second cache from block to block, such as the factors of all rows
  };
  std::vector<Moved> moved;
  double resident = kResident * static_cast<double>(target_.l2_bytes);
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    const Contraction& c = kernel.stages[s].contraction;
    PieceFacts facts(c.pieces[0], c, kernel, target_);
    for (size_t a = 0; a < facts.accesses.size(); ++a) {
      const AccessFacts& access = facts.accesses[a];
      TensorId id = access.access->tensor;
      if (!is_global(kernel, id) || !seen.insert(id).second) continue;
      double all = access.footprint(c.pieces[0].box);
      bool by_rows = access.footprint(block_.stages[s].contraction.pieces[0].box) < all;
      bytes += all;
      second += by_rows ? all / std::max(1, target_.threads) : all;
      moved.push_back({s, a, !by_rows && all <= kBlockShare * resident});
    }
  }
  if (second <= resident) return 0;
  bool near = bytes <= kResident * static_cast<double>(target_.l3_bytes);
  double rate = near ? target_.l3_bytes_per_ns : target_.dram_bytes_per_ns;
  double total = 0, threads = std::min<double>(std::max(1, target_.threads), count_);
  for (auto [s, a, stays] : moved) {
    const Contraction& c = block_.stages[s].contraction;
    PieceFacts facts(c.pieces[0], c, block_, target_);
    const AccessFacts& access = facts.accesses[a];
    double ns = fetch_ns(access, c.pieces[0].box, rate, target_) * (access.store ? 2 : 1);
    if (stays) ns *= threads / count_;
    total += block_.stages[s].attach.valid() ? ns * attached_share_ : ns;
  }
  return total;
}

double RowModel::read_again() const {
  double capacity = kBlockShare * static_cast<double>(target_.l2_bytes);
  double held = 0, total = 0;
  std::set<TensorId> seen;
  for (const KernelStage& stage : block_.stages) {
    if (stage.attach.valid()) continue;
    const Piece& piece = stage.contraction.pieces[0];
    PieceFacts facts(piece, stage.contraction, block_, target_);
    double own = 0, again = 0;
    for (const AccessFacts& a : facts.accesses) {
      double bytes = a.footprint(piece.box);
      own += bytes;
      bool fresh = seen.insert(a.access->tensor).second;
      if (fresh) held += bytes;
      if (!fresh) again += fetch_ns(a, piece.box, target_.l3_bytes_per_ns, target_);
    }
    if (own <= capacity) total += again;
  }
  return held > capacity ? total : 0;
}

size_t reused_row(const Kernel& kernel, const Target& target) {
  std::vector<int64_t> all = row_extents(kernel);
  size_t best = 0;
  double most = -1;
  for (size_t r = 0; r < row_loops(kernel); ++r) {
    double bytes = 0;
    for (const KernelStage& stage : kernel.stages) {
      if (stage.attach.valid()) continue;
      const Piece& piece = stage.contraction.pieces[0];
      PieceFacts facts(piece, stage.contraction, kernel, target);
      for (const AccessFacts& a : facts.accesses) {
        bool depends = a.strides[stage.rows[r]] != 0;
        bool argument = is_global(kernel, a.access->tensor);
        if (argument && !depends) bytes += a.footprint(piece.box);
      }
    }
    if (bytes < most || (bytes == most && all[r] <= all[best])) continue;
    most = bytes;
    best = r;
  }
  return best;
}

double estimate_rows(const Schedule& schedule, const Kernel& kernel, const Target& target,
                     CostTerm* into) {
  const KernelStage& first = kernel.stages[0];
  RowModel model(kernel, target, block_extents(schedule, kernel));
  std::vector<double> times;
  CostTerm work;
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    if (kernel.stages[s].attach.valid()) continue;
    PieceSchedule inside = schedule.stages[s][0];
    inside.outer.erase(inside.outer.begin(),
                       inside.outer.begin() + static_cast<std::ptrdiff_t>(schedule.shared));
    for (Packing& p : inside.packings) p.level -= schedule.shared;
    const Contraction& c = model.block().stages[s].contraction;
    CostTerm stage;
    stage.name = "stage " + std::to_string(s);
    PieceModel piece(c.pieces[0], c, model.block(), target);
    times.push_back(piece.serial_ns(inside, into == nullptr ? nullptr : &stage));
    if (into != nullptr) work.add(std::move(stage));
  }
  double tasks = tasks_of(schedule.stages[0][0], first.contraction.pieces[0]);
  CostTerm* terms = into == nullptr ? nullptr : &work;
  double serial = model.serial_ns(times, terms);
  double total = kKernelStartNanoseconds + threaded_ns(serial, tasks, target, 0, terms);
  if (into != nullptr) {
    into->add("starting the kernel", kKernelStartNanoseconds);
    into->add(std::move(work));
  }
  return total;
}

}  // namespace tile
