#include "core/schedule/space/row_candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/kernel/geometry.h"
#include "core/kernel/rows.h"
#include "core/kernel/stream.h"
#include "core/schedule/cost/piece/piece_model.h"
#include "core/schedule/cost/piece/thread_cost.h"
#include "core/schedule/cost/row_model.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/piece/piece_space.h"

namespace tile {
namespace {

constexpr int64_t kTasksPerThread = 4;
constexpr int64_t kPassingRows = 8;     // of a chunk, at a time
constexpr size_t kStageChoices = 3;     // of each stage, for a race
constexpr size_t kSearchedBlocks = 3;   // whose tiles are searched, where one schedule is wanted
constexpr double kStreamedShare = 0.5;  // of a cache, for what is made of a streamed block

class RowSpace {
 public:
  RowSpace(const Kernel& kernel, const Target& target, size_t limit)
      : kernel_(kernel),
        target_(target),
        one_thread_(target),
        limit_(limit),
        extents_(row_extents(kernel)) {
    one_thread_.threads = 1;
  }

  std::vector<Schedule> ranked() {
    std::vector<std::vector<int64_t>> choices = block_choices();
    if (limit_ == 1 && choices.size() > kSearchedBlocks) keep_promising(choices);
    for (const std::vector<int64_t>& blocks : choices) consider(blocks, {});
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
      if (stage.attach.valid()) continue;
      const Piece& piece = stage.contraction.pieces[0];
      PieceFacts facts(piece, stage.contraction, kernel_, target_);
      for (const AccessFacts& a : facts.accesses) {
        double bytes = a.footprint(piece.box);
        if (!is_global(kernel_, a.access->tensor) || bytes <= most) continue;
        most = bytes;
        for (size_t r = 0; r < best.size(); ++r) {
          best[r] = std::abs(a.strides[stage.rows[r]]);
        }
      }
    }
    return best;
  }

  // Blocks of one row that many reads of the streamed axis share, and of that axis as much as keeps
  // what is made there in the second cache.
  std::vector<std::vector<int64_t>> streamed_choices() const {
    std::vector<std::vector<int64_t>> all;
    if (stores_rows()) return passing_rows();
    size_t row = reused_row(kernel_, target_), stream = extents_.size() - 1;
    int64_t lanes = target_.vector_bits / 32;
    for (int64_t n : {int64_t{2}, int64_t{4}, int64_t{8}}) {
      std::vector<int64_t> blocks(extents_.size(), 1);
      blocks[row] = std::min(n * lanes, extents_[row]);
      double bytes = kStreamedShare * static_cast<double>(target_.l2_bytes);
      blocks[stream] = streamed_block(blocks, bytes);
      all.push_back(blocks);
      // Where conditions spare blocks, smaller ones spare more, and one of all spares nothing.
      double visited = visited_share(kernel_, blocks);
      while (blocks[stream] > 2 * lanes) {
        blocks[stream] = std::max(lanes, blocks[stream] / 2 / lanes * lanes);
        double fewer = visited_share(kernel_, blocks);
        if (fewer >= visited) break;
        visited = fewer;
        all.push_back(blocks);
      }
      if (blocks[row] == extents_[row]) break;
    }
    return all;
  }
  // The streamed axis is of rows that pass by and are stored, not of what a block sums up.
  bool stores_rows() const {
    return std::any_of(kernel_.stages.begin(), kernel_.stages.end(), [](const KernelStage& s) {
      return s.stream.valid() && !reduces_stream(s) && s.residence == Residence::global;
    });
  }
  // A few of them at a time, of one chunk.
  std::vector<std::vector<int64_t>> passing_rows() const {
    std::vector<std::vector<int64_t>> all;
    for (int64_t rows = 1; rows <= kPassingRows && rows <= extents_.back(); rows *= 2) {
      all.emplace_back(extents_.size(), 1);
      all.back().back() = rows;
    }
    return all;
  }
  // Powers of two of the streamed axis, or all of it.
  int64_t streamed_block(const std::vector<int64_t>& blocks, double bytes) const {
    double each = 1;  // bytes made for one value of the axis
    std::vector<bool> has_axis(kernel_.stages.size(), false);
    for (size_t s = 0; s < kernel_.stages.size(); ++s) {
      const KernelStage& stage = kernel_.stages[s];
      bool attached = stage.attach.valid();
      has_axis[s] = attached ? has_axis[stage.attach.index()] : !reduces_stream(stage);
      if (!has_axis[s] || stage.residence != Residence::row) continue;
      each += static_cast<double>(byte_size(kernel_.tensors[stage.contraction.outputs[0]].type));
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

  // Those blocks that are the best of all with the few tiles that a quick look considers.
  void keep_promising(std::vector<std::vector<int64_t>>& choices) {
    constexpr Breadth kFew{2, 1};
    std::vector<std::pair<double, std::vector<int64_t>>> scored;
    for (std::vector<int64_t>& blocks : choices) {
      found_.clear();
      consider(blocks, kFew);
      double ns = found_.empty() ? std::numeric_limits<double>::infinity() : found_[0].first;
      scored.emplace_back(ns, std::move(blocks));
    }
    found_.clear();
    std::stable_sort(scored.begin(), scored.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    choices.clear();
    for (size_t i = 0; i < kSearchedBlocks; ++i) choices.push_back(std::move(scored[i].second));
  }

  void consider(const std::vector<int64_t>& blocks, const Breadth& breadth) {
    RowModel model(kernel_, target_, blocks);
    std::vector<std::vector<RankedPiece>> stages(kernel_.stages.size());
    std::vector<double> best;
    for (size_t s = 0; s < kernel_.stages.size(); ++s) {
      if (kernel_.stages[s].attach.valid()) continue;
      stages[s] = piece_candidates(model.block(), s, 0, one_thread_, breadth);
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
      bool blocked = std::any_of(p.schedule.outer.begin(), p.schedule.outer.end(),
                                 [&](auto& l) { return !piece.is_parallel(l.iterator); });
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

std::vector<Schedule> row_candidates(const Kernel& kernel, const Target& target, size_t limit) {
  return RowSpace(kernel, target, std::max<size_t>(limit, 1)).ranked();
}

}  // namespace tile
