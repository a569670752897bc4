// The space and the cost of kernels with row loops: which rows come in blocks, and each stage's
// best schedule for such a block.
#include <algorithm>
#include <cmath>
#include <set>

#include "core/schedule/cost.h"
#include "core/schedule/rows.h"
#include "core/schedule/space.h"
#include "core/schedule/stream.h"

namespace tile {
namespace {

constexpr double kOverlap = 0.15;    // of the smaller of two costs that the larger does not hide
constexpr double kResident = 0.75;   // of a cache that data find there again
constexpr double kBlockShare = 0.5;  // of a cache, for a block of rows beside the next one's data
constexpr int64_t kTasksPerThread = 4;
constexpr size_t kStageChoices = 3;     // of each stage, for a race
constexpr double kStreamedShare = 0.5;  // of a cache, for what is made of a streamed block

bool is_global(const Kernel& kernel, TensorId id) {
  auto listed = [&](const std::vector<TensorId>& list) {
    return std::find(list.begin(), list.end(), id) != list.end();
  };
  return listed(kernel.reads) || listed(kernel.writes);
}

std::vector<int64_t> extents(const Kernel& kernel) {
  const KernelStage& first = kernel.stages[0];
  std::vector<int64_t> list;
  for (int u : shared_unknowns(first)) {
    list.push_back(first.contraction.pieces[0].box[static_cast<size_t>(u)]);
  }
  return list;
}

// The extents of the shared loops' blocks: of the rows, then of the streamed axis.
std::vector<int64_t> block_extents(const Schedule& schedule, const Kernel& kernel) {
  std::vector<int64_t> blocks = extents(kernel);
  std::vector<int> rows = shared_unknowns(kernel.stages[0]);
  for (size_t i = 0; i < schedule.shared; ++i) {
    const Loop& l = schedule.stages[0][0].outer[i];
    auto r = std::find(rows.begin(), rows.end(), l.unknown) - rows.begin();
    int64_t& block = blocks[static_cast<size_t>(r)];
    block = std::min(block, l.step);
  }
  return blocks;
}

// The model of a kernel with row loops whose blocks have the given sizes.
class RowModel {
 public:
  RowModel(const Kernel& kernel, const Target& target, std::vector<int64_t> blocks)
      : target_(target), blocks_(std::move(blocks)), block_(block_of_rows(kernel, blocks_)) {
    std::vector<int64_t> all = extents(kernel);
    for (size_t r = 0; r < all.size(); ++r) {
      count_ *= static_cast<double>(all[r]) / static_cast<double>(blocks_[r]);
    }
    if (has_stream(kernel)) count_ *= visited_share(kernel, blocks_);
    attached_share_ = 1 / count_;
    cold_ = count_ * cold_block(kernel);
    again_ = count_ * read_again();
  }

  const Kernel& block() const { return block_; }
  // Of the stages' schedules for one block, on one core.
  double serial_ns(const std::vector<double>& stages) const {
    double warm = attached();
    for (double ns : stages) warm += ns;
    warm = warm * count_ + again_;
    return std::max(warm, cold_) + kOverlap * std::min(warm, cold_);
  }

 private:
  double attached() const {
    double total = 0;
    for (const KernelStage& stage : block_.stages) {
      if (stage.attach >= 0) total += attached_ns(stage, block_, target_);
    }
    return total * attached_share_;
  }

  // What comes from memory for one block: each global tensor once. Of what rows name, each thread
  // has its own rows' part in its second cache.
  double cold_block(const Kernel& kernel) const {
    double bytes = 0, second = 0;
    std::set<TensorId> seen;
    std::vector<std::pair<size_t, size_t>> moved;  // stage, access
    for (size_t s = 0; s < kernel.stages.size(); ++s) {
      const Contraction& c = kernel.stages[s].contraction;
      PieceModel model(c.pieces[0], c, kernel, target_);
      for (size_t a = 0; a < model.accesses().size(); ++a) {
        const PieceModel::AccessModel& access = model.accesses()[a];
        TensorId id = access.access->tensor;
        if (!is_global(kernel, id) || !seen.insert(id).second) continue;
        double all = model.footprint(access, c.pieces[0].box);
        bool by_rows = model.footprint(access, block_.stages[s].contraction.pieces[0].box) < all;
        bytes += all;
        second += by_rows ? all / std::max(1, target_.threads) : all;
        moved.emplace_back(s, a);
      }
    }
    if (second <= kResident * static_cast<double>(target_.l2_bytes)) return 0;
    bool near = bytes <= kResident * static_cast<double>(target_.l3_bytes);
    double rate = near ? target_.l3_bytes_per_ns : target_.dram_bytes_per_ns;
    double total = 0;
    for (auto [s, a] : moved) {
      const Contraction& c = block_.stages[s].contraction;
      PieceModel model(c.pieces[0], c, block_, target_);
      const PieceModel::AccessModel& access = model.accesses()[a];
      double ns = model.fetch_ns(access, c.pieces[0].box, rate) * (access.store ? 2 : 1);
      total += block_.stages[s].attach >= 0 ? ns * attached_share_ : ns;
    }
    return total;
  }

  // What the stages before a stage have touched of a block is still in the second cache only if all
  // that the stages touch fits there; each stage's own model knows of its own data alone.
  double read_again() const {
    double capacity = kBlockShare * static_cast<double>(target_.l2_bytes);
    double held = 0, total = 0;
    std::set<TensorId> seen;
    for (const KernelStage& stage : block_.stages) {
      if (stage.attach >= 0) continue;
      const Piece& piece = stage.contraction.pieces[0];
      PieceModel model(piece, stage.contraction, block_, target_);
      double own = 0, again = 0;
      for (const PieceModel::AccessModel& a : model.accesses()) {
        double bytes = model.footprint(a, piece.box);
        own += bytes;
        bool fresh = seen.insert(a.access->tensor).second;
        if (fresh) held += bytes;
        if (!fresh) again += model.fetch_ns(a, piece.box, target_.l3_bytes_per_ns);
      }
      if (own <= capacity) total += again;
    }
    return held > capacity ? total : 0;
  }

  const Target& target_;
  std::vector<int64_t> blocks_;
  Kernel block_;
  double count_ = 1;  // of blocks; a short one counts as the part that it is
  double cold_ = 0;
  double again_ = 0;
  double attached_share_ = 1;  // an attached stage's unknowns are not cut to the block
};

double tasks_of(const PieceSchedule& s, const Piece& piece) {
  double tasks = 1;
  for (const Loop& l : s.outer) {
    if (l.binding != Binding::parallel) break;
    int64_t extent = piece.box[static_cast<size_t>(l.unknown)];
    tasks *= static_cast<double>(ceil_div(extent, l.step));
  }
  return tasks;
}

class RowSpace {
 public:
  RowSpace(const Kernel& kernel, const Target& target, size_t limit)
      : kernel_(kernel),
        target_(target),
        one_thread_(target),
        limit_(limit),
        extents_(extents(kernel)) {
    one_thread_.threads = 1;
  }

  std::vector<Schedule> ranked() {
    for (const std::vector<int64_t>& blocks : block_choices()) consider(blocks);
    std::stable_sort(found_.begin(), found_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Schedule> all;
    for (auto& [ns, schedule] : found_) {
      if (all.size() >= limit_) break;
      if (std::find(all.begin(), all.end(), schedule) == all.end()) {
        all.push_back(std::move(schedule));
      }
    }
    if (all.empty()) all.push_back(plain_schedule(kernel_));
    return all;
  }

 private:
  // Distance in memory of a row from the next, in the tensor that the kernel moves most of.
  std::vector<int64_t> row_strides() const {
    std::vector<int64_t> best(row_loops(kernel_), 0);
    double most = -1;
    for (const KernelStage& stage : kernel_.stages) {
      if (stage.attach >= 0) continue;
      const Piece& piece = stage.contraction.pieces[0];
      PieceModel model(piece, stage.contraction, kernel_, target_);
      for (const PieceModel::AccessModel& a : model.accesses()) {
        double bytes = model.footprint(a, piece.box);
        if (!is_global(kernel_, a.access->tensor) || bytes <= most) continue;
        most = bytes;
        for (size_t r = 0; r < best.size(); ++r) {
          best[r] = std::abs(a.strides[static_cast<size_t>(stage.rows[r])]);
        }
      }
    }
    return best;
  }

  // Blocks of one row that many reads of the streamed axis share, and of that axis as much as keeps
  // what is made there in the second cache.
  std::vector<std::vector<int64_t>> streamed_choices() const {
    std::vector<std::vector<int64_t>> all;
    size_t row = reused_row(kernel_, target_), stream = extents_.size() - 1;
    int64_t lanes = target_.vector_bits / 32;
    for (int64_t n : {int64_t{2}, int64_t{4}, int64_t{8}}) {
      std::vector<int64_t> blocks(extents_.size(), 1);
      blocks[row] = std::min(n * lanes, extents_[row]);
      double bytes = kStreamedShare * static_cast<double>(target_.l2_bytes);
      blocks[stream] = streamed_block(blocks, bytes);
      all.push_back(blocks);
      // Where conditions spare blocks, smaller ones spare more.
      while (visited_share(kernel_, blocks) < 1 && blocks[stream] > 2 * lanes) {
        blocks[stream] = std::max(lanes, blocks[stream] / 2 / lanes * lanes);
        all.push_back(blocks);
      }
      if (blocks[row] == extents_[row]) break;
    }
    return all;
  }
  // Powers of two of the streamed axis, or all of it.
  int64_t streamed_block(const std::vector<int64_t>& blocks, double bytes) const {
    double each = 1;  // bytes made for one value of the axis
    std::vector<bool> has_axis(kernel_.stages.size(), false);
    for (size_t s = 0; s < kernel_.stages.size(); ++s) {
      const KernelStage& stage = kernel_.stages[s];
      auto tile = static_cast<size_t>(stage.attach);
      has_axis[s] = stage.attach < 0 ? !reduces_stream(stage) : has_axis[tile];
      if (!has_axis[s] || stage.residence != Residence::row) continue;
      each += static_cast<double>(
          byte_size(kernel_.tensors[static_cast<size_t>(stage.contraction.outputs[0])].type));
    }
    for (size_t r = 0; r + 1 < blocks.size(); ++r) each *= static_cast<double>(blocks[r]);
    int64_t block = target_.vector_bits / 32, extent = extents_.back();
    while (block < extent && static_cast<double>(2 * block) * each <= bytes) block *= 2;
    return std::min(block, extent);
  }

  // Single rows; vectors of rows that lie side by side; a few rows at a time of short ones.
  std::vector<std::vector<int64_t>> block_choices() {
    std::vector<int64_t> strides = row_strides();
    order_.resize(row_loops(kernel_));
    for (size_t r = 0; r < order_.size(); ++r) order_[r] = r;
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return strides[a] > strides[b]; });
    if (has_stream(kernel_)) return streamed_choices();
    std::vector<int64_t> single(extents_.size(), 1);
    std::vector<std::vector<int64_t>> all{single};
    size_t inner = order_.back();
    int64_t lanes = target_.vector_bits / 32;
    for (int64_t n : {int64_t{1}, int64_t{2}, int64_t{4}}) {
      int64_t block = strides[inner] == 1 ? n * lanes : 4 * n;
      if (n > 1 && block >= 2 * extents_[inner]) continue;
      if (extents_[inner] < 2) continue;
      all.push_back(single);
      all.back()[inner] = block;
    }
    return all;
  }

  std::vector<SharedLoop> shared_loops(const std::vector<int64_t>& blocks, double serial) const {
    std::vector<SharedLoop> shared;
    bool threads = target_.threads > 1 && serial >= 2 * kChunkNanoseconds;
    int64_t tasks = 1;
    for (size_t r : order_) {
      SharedLoop l{r, blocks[r], Binding::serial};
      threads = threads && tasks < kTasksPerThread * target_.threads;
      if (threads) l.binding = Binding::parallel;
      tasks = checked_mul(tasks, ceil_div(extents_[r], blocks[r]));
      shared.push_back(l);
    }
    if (has_stream(kernel_)) shared.push_back({blocks.size() - 1, blocks.back(), Binding::serial});
    return shared;
  }

  void consider(const std::vector<int64_t>& blocks) {
    RowModel model(kernel_, target_, blocks);
    std::vector<std::vector<RankedPiece>> stages(kernel_.stages.size());
    std::vector<double> best;
    for (size_t s = 0; s < kernel_.stages.size(); ++s) {
      if (kernel_.stages[s].attach >= 0) continue;
      stages[s] = piece_candidates(model.block(), s, 0, one_thread_);
      keep_fitting(stages[s], s, model, shared_loops(blocks, 0));
      best.push_back(stages[s][0].nanoseconds);
    }
    std::vector<SharedLoop> shared = shared_loops(blocks, model.serial_ns(best));
    std::vector<size_t> choice(kernel_.stages.size(), 0);
    add(model, stages, choice, shared);
    if (limit_ == 1) return;
    for (size_t s = 0; s < stages.size(); ++s) {
      for (size_t i = 1; i < std::min(kStageChoices, stages[s].size()); ++i) {
        choice[s] = i;
        add(model, stages, choice, shared);
      }
      choice[s] = 0;
    }
  }

  // Tiles that divide the blocks; of the streamed axis, no other blocks than the shared loop's.
  void keep_fitting(std::vector<RankedPiece>& pieces, size_t stage, const RowModel& model,
                    const std::vector<SharedLoop>& shared) const {
    const KernelStage& whole = kernel_.stages[stage];
    const Contraction& c = model.block().stages[stage].contraction;
    const Piece& piece = c.pieces[0];
    std::erase_if(pieces, [&](const RankedPiece& p) {
      bool blocked = std::any_of(p.schedule.outer.begin(), p.schedule.outer.end(), [&](auto& l) {
        return static_cast<size_t>(l.unknown) >= piece.owners;
      });
      if (blocked && reduces_stream(whole)) return true;
      PieceSchedule inside = inside_shared(p.schedule, whole, shared);
      return !illegal_piece(inside, whole.contraction.pieces[0], whole.contraction, kernel_,
                            target_, shared.size())
                  .empty();
    });
    if (!pieces.empty()) return;
    PieceSchedule plain = plain_schedule(piece);
    double ns = PieceModel(piece, c, model.block(), one_thread_).serial_ns(plain);
    pieces.push_back({ns, std::move(plain)});
  }

  void add(const RowModel& model, const std::vector<std::vector<RankedPiece>>& stages,
           const std::vector<size_t>& choice, const std::vector<SharedLoop>& shared) {
    Schedule schedule;
    schedule.shared = shared.size();
    schedule.stages.resize(kernel_.stages.size());
    std::vector<double> times;
    for (size_t s = 0; s < stages.size(); ++s) {
      if (stages[s].empty()) continue;
      const RankedPiece& chosen = stages[s][choice[s]];
      schedule.stages[s] = {inside_shared(chosen.schedule, kernel_.stages[s], shared)};
      times.push_back(chosen.nanoseconds);
    }
    if (!illegal(schedule, kernel_, target_).empty()) return;
    double tasks = tasks_of(schedule.stages[0][0], kernel_.stages[0].contraction.pieces[0]);
    found_.emplace_back(threaded_ns(model.serial_ns(times), tasks, target_), std::move(schedule));
  }

  const Kernel& kernel_;
  const Target& target_;
  Target one_thread_;
  size_t limit_;
  std::vector<int64_t> extents_;
  std::vector<size_t> order_;  // rows, the one of the largest stride first
  std::vector<std::pair<double, Schedule>> found_;
};

}  // namespace

size_t reused_row(const Kernel& kernel, const Target& target) {
  std::vector<int64_t> all = extents(kernel);
  size_t best = 0;
  double most = -1;
  for (size_t r = 0; r < row_loops(kernel); ++r) {
    double bytes = 0;
    for (const KernelStage& stage : kernel.stages) {
      if (stage.attach >= 0) continue;
      const Piece& piece = stage.contraction.pieces[0];
      PieceModel model(piece, stage.contraction, kernel, target);
      for (const PieceModel::AccessModel& a : model.accesses()) {
        bool depends = a.strides[static_cast<size_t>(stage.rows[r])] != 0;
        bool argument = is_global(kernel, a.access->tensor);
        if (argument && !depends) bytes += model.footprint(a, piece.box);
      }
    }
    if (bytes < most || (bytes == most && all[r] <= all[best])) continue;
    most = bytes;
    best = r;
  }
  return best;
}

double estimate_rows(const Schedule& schedule, const Kernel& kernel, const Target& target) {
  const KernelStage& first = kernel.stages[0];
  RowModel model(kernel, target, block_extents(schedule, kernel));
  std::vector<double> times;
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    if (kernel.stages[s].attach >= 0) continue;
    PieceSchedule inside = schedule.stages[s][0];
    inside.outer.erase(inside.outer.begin(),
                       inside.outer.begin() + static_cast<std::ptrdiff_t>(schedule.shared));
    for (Packing& p : inside.packings) p.level -= static_cast<int>(schedule.shared);
    const Contraction& c = model.block().stages[s].contraction;
    times.push_back(PieceModel(c.pieces[0], c, model.block(), target).serial_ns(inside));
  }
  double tasks = tasks_of(schedule.stages[0][0], first.contraction.pieces[0]);
  return kKernelStart + threaded_ns(model.serial_ns(times), tasks, target);
}

std::vector<Schedule> row_candidates(const Kernel& kernel, const Target& target, size_t limit) {
  return RowSpace(kernel, target, std::max<size_t>(limit, 1)).ranked();
}

}  // namespace tile
