#include "core/schedule/space/gpu_schedule.h"

#include <algorithm>
#include <set>

#include "core/kernel/forms/gpu_forms.h"
#include "core/kernel/forms/scan.h"
#include "core/kernel/geometry.h"
#include "core/schedule/cost/gpu_model.h"
#include "core/schedule/facts/thread_reads.h"
#include "core/schedule/legality/legality.h"

namespace tile::gpu {
namespace {

constexpr int64_t kMostParts = 256;  // of a sum that blocks share

// Cells of a thread are code each: long bodies have few, so that registers hold their values.
constexpr int64_t kFewCells = 4, kMostNodes = 1024;
constexpr int64_t kMostCells = 16;  // of a register tile, that leave registers for what they read
constexpr int64_t kRemainders = 4;  // tiles along a dimension, one of which may be a part

int64_t nodes_in(const Body& body) {
  auto count = static_cast<int64_t>(body.nodes.size());
  for (const Node& node : body.nodes) count += node.region ? nodes_in(*node.region) : 0;
  return count;
}

constexpr int64_t kCopyStages = 3;    // hide the memory's latency behind two steps
constexpr int64_t kFewProducts = 64;  // of a term, that a thread's other warps hide the reads of

// Elements of the type that two 16-byte accesses hold.
int64_t access_elements(DType type) {
  return std::clamp<int64_t>(32 / static_cast<int64_t>(byte_size(type)), 1, 16);
}

class GpuPieceSpace {
 public:
  GpuPieceSpace(const Piece& piece, const Contraction& c, const Kernel& kernel,
                const Target& target)
      : piece_(piece),
        c_(c),
        kernel_(kernel),
        target_(target),
        parallel_dims_(flat_parallel_dims(piece, kernel)),
        terms_(flat_reductions(piece, kernel)) {}

  std::vector<PieceSchedule> ranked() {
    loops();
    others();
    if (piece_.parallel_dims < piece_.box.size()) reductions();
    matrices();
    std::stable_sort(found_.begin(), found_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<PieceSchedule> list;
    for (auto& [ns, s] : found_) list.push_back(std::move(s));
    if (list.empty()) list.push_back(plain_schedule(piece_));
    return list;
  }

 private:
  void consider(PieceSchedule s) {
    if (!illegal_piece(s, piece_, c_, kernel_, target_).empty()) return;
    double ns = estimate_piece(s, piece_, c_, kernel_, target_);
    found_.emplace_back(ns, std::move(s));
  }

  // A thread for each cell, or for the neighbours that one access holds, or for some cells whose
  // windows overlap.
  void loops() {
    std::optional<ScanForm> scan = scan_form(piece_, c_);
    DType type = kernel_.tensors[c_.outputs[0]].type;
    for (int64_t vector = 1; vector <= access_elements(type); vector *= 2) {
      if (vector > 1 && (scan || parallel_dims_.fastest % vector != 0)) continue;
      if (vector > kFewCells && vector * nodes_in(piece_.body) > kMostNodes) continue;
      consider(loops_of(vector, scan));
    }
    if (scan) return;
    // One access of 16 bytes: more cells are better neighbours along another dimension.
    for (int64_t vector = 1; 2 * vector <= access_elements(type); vector *= 2) {
      if (parallel_dims_.fastest % vector == 0) register_tiles(vector);
    }
  }

  PieceSchedule loops_of(int64_t vector, const std::optional<ScanForm>& scan) const {
    PieceSchedule s;
    if (scan) s.carried = IteratorId(scan->parallel_dim);
    for (size_t u : parallel_dims_.iterators) {
      IteratorId iterator(u);
      if (iterator == s.carried) continue;
      bool wide = vector > 1 && u == parallel_dims_.iterators.back();
      s.outer.push_back({iterator, wide ? vector : 1, Binding::parallel});
      if (wide) s.tile.push_back({iterator, 1, Binding::vector});
    }
    for (size_t u : terms_.iterators) {
      if (!scan) s.reduce.push_back({IteratorId(u), 1, Binding::serial});
    }
    return s;
  }

  // Cells of one thread along one or two further dimensions, where neighbours read the same.
  void register_tiles(int64_t vector) {
    std::vector<size_t> along;
    for (size_t i = 0; i + 1 < parallel_dims_.iterators.size(); ++i) {
      size_t u = parallel_dims_.iterators[i];
      if (windows_overlap(IteratorId(u), piece_, kernel_, target_)) along.push_back(u);
    }
    for (size_t i = 0; i < along.size(); ++i) {
      for (int64_t cells : {2, 4, 8}) {
        register_tile(vector, {{along[i], cells}});
        for (size_t j = i + 1; j < along.size(); ++j) {
          for (int64_t more : {2, 4, 8}) {
            register_tile(vector, {{along[i], cells}, {along[j], more}});
          }
        }
      }
    }
  }

  void register_tile(int64_t vector, const std::vector<std::pair<size_t, int64_t>>& cells) {
    PieceSchedule s = loops_of(vector, std::nullopt);
    int64_t all = vector;
    for (auto [u, count] : cells) {
      bool few = piece_.box[u] < kRemainders * count;  // to compute a part of a tile for
      if (few && piece_.box[u] % count != 0) return;
      all *= count;
      for (Loop& l : s.outer) {
        if (l.iterator == IteratorId(u)) l.step = count;
      }
      s.tile.insert(s.tile.end() - (vector > 1 ? 1 : 0), {IteratorId(u), 1, Binding::unroll});
    }
    if (all > kMostCells || all * nodes_in(piece_.body) > kMostNodes) return;
    int64_t taps = 1;
    for (const Loop& l : s.reduce) taps *= std::max<int64_t>(piece_.box[l.iterator], 1);
    if (taps * all * nodes_in(piece_.body) <= kMostNodes) {
      for (Loop& l : s.reduce) l.binding = Binding::unroll;
    }
    consider(std::move(s));
  }

  void others() {
    if (scans_lines(piece_, c_, kernel_)) {
      for (int64_t lanes : {512, 256, 128, 64, 32}) {
        for (int64_t vector : {16, 8, 4}) {
          PieceSchedule s;
          s.gpu_form = GpuScan{lanes, vector};
          consider(std::move(s));
        }
      }
    }
    if (std::optional<TransposeForm> form = transpose_form(piece_, kernel_)) {
      PieceSchedule s;
      s.gpu_form = GpuTranspose{};
      consider(std::move(s));
    }
  }

  void reductions() {
    bool narrow =
        !piece_.loads.empty() && byte_size(kernel_.tensors[piece_.loads[0].tensor].type) == 2;
    for (bool along_parallel_dims : {false, true}) {
      const FlatIndex& near = along_parallel_dims ? parallel_dims_ : terms_;
      for (int64_t vector : {8, 4, 1}) {
        if (vector > 1 && near.fastest % vector != 0) continue;
        if (vector == 8 && !narrow) continue;
        for (int64_t lanes = 1; lanes <= 512; lanes *= 2) {
          for (int64_t threads : {128, 256, 512}) {
            if (lanes <= threads) reduction(along_parallel_dims, vector, threads / lanes, lanes);
          }
        }
      }
    }
  }

  void reduction(bool along_parallel_dims, int64_t vector, int64_t parallel_dims, int64_t lanes) {
    int64_t terms = terms_.count / (along_parallel_dims ? 1 : vector);
    int64_t groups = parallel_dims_.count / (along_parallel_dims ? vector : 1);
    if (lanes > 1 && lanes > 2 * terms) return;
    if (parallel_dims > 1 && parallel_dims > 2 * groups) return;
    GpuReduction g;
    g.parallel_dims = parallel_dims;
    g.lanes = lanes;
    g.vector = vector;
    g.vector_parallel_dims = along_parallel_dims;
    g.parallel_dims_fastest = along_parallel_dims;
    int64_t blocks = ceil_div(groups, parallel_dims);
    int64_t wanted = ceil_div(int64_t{8} * target_.gpu.multiprocessors, blocks);
    int64_t most = std::max<int64_t>(1, terms / (lanes * 8));
    PieceSchedule s;
    s.gpu_form = g;
    consider(s);
    int64_t split = std::min<int64_t>({wanted, most, 1024});
    if (split < 2) return;
    g.split = split;
    s.gpu_form = g;
    consider(std::move(s));
  }

  void matrices() {
    std::optional<MatrixForm> form = matrix_form(piece_, c_, kernel_);
    if (!form || form->m.count < 8 || form->n.count < 8 || form->k.count < 4) return;
    static constexpr int64_t kTiles[][5] = {
        {128, 64, 16, 8, 8},   {64, 128, 16, 8, 8},   {128, 128, 16, 8, 8}, {128, 128, 8, 8, 8},
        {256, 128, 16, 16, 8}, {128, 256, 16, 8, 16}, {64, 64, 16, 8, 8},   {64, 64, 16, 4, 4},
        {32, 64, 16, 4, 4},    {64, 32, 16, 4, 4},    {32, 32, 16, 4, 4}};
    for (const auto& t : kTiles) {
      SimtGemm g{t[0], t[1], t[2], t[3], t[4], 1};
      int64_t blocks =
          ceil_div(form->m.count, g.m) * ceil_div(form->n.count, g.n) * form->batch.count;
      int64_t most = std::min<int64_t>(form->k.count / (4 * g.k), kMostParts);
      std::set<int64_t> splits{1};
      for (int64_t each : {1, 2, 3, 4, 6, 8}) {  // blocks of a multiprocessor
        splits.insert(std::min(each * target_.gpu.multiprocessors / blocks, most));
      }
      for (int64_t split : splits) {
        if (split < 1) continue;
        g.split = split;
        staged(g, *form);
      }
    }
  }

  // The ways to stage the tiles: with two stages, or with copies that run ahead of them.
  void staged(SimtGemm g, const MatrixForm& form) {
    auto take = [&] {
      PieceSchedule s;
      s.gpu_form = g;
      consider(std::move(s));
    };
    take();
    if (!copies_factor(true, form, piece_, c_, kernel_, target_) &&
        !copies_factor(false, form, piece_, c_, kernel_, target_)) {
      return;
    }
    g.stages = kCopyStages;
    take();
    g.ahead = true;
    if (g.thread_m * g.thread_n > kFewProducts) take();
  }

  const Piece& piece_;
  const Contraction& c_;
  const Kernel& kernel_;
  const Target& target_;
  FlatIndex parallel_dims_, terms_;
  std::vector<std::pair<double, PieceSchedule>> found_;
};

}  // namespace

std::vector<PieceSchedule> piece_schedules(const Piece& piece, const Contraction& c,
                                           const Kernel& kernel, const Target& target) {
  return GpuPieceSpace(piece, c, kernel, target).ranked();
}

std::vector<Schedule> candidate_schedules(const Kernel& kernel, const Target& target,
                                          size_t limit) {
  if (std::vector<Schedule> lines = line_schedules(kernel, target); !lines.empty()) {
    if (lines.size() > limit) lines.resize(limit);
    return lines;
  }
  Schedule best = plain_schedule(kernel);
  std::vector<std::vector<std::vector<PieceSchedule>>> all(kernel.stages.size());
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    const Contraction& c = kernel.stages[s].contraction;
    for (size_t p = 0; p < best.stages[s].size(); ++p) {
      all[s].push_back(piece_schedules(c.pieces[p], c, kernel, target));
      best.stages[s][p] = all[s][p][0];
    }
  }
  std::vector<Schedule> list{best};
  for (size_t rank = 1; rank < limit; ++rank) {
    bool more = false;
    for (size_t s = 0; s < all.size(); ++s) {
      for (size_t p = 0; p < all[s].size() && list.size() < limit; ++p) {
        if (rank >= all[s][p].size()) continue;
        Schedule other = best;
        other.stages[s][p] = all[s][p][rank];
        list.push_back(std::move(other));
        more = true;
      }
    }
    if (!more) break;
  }
  return list;
}

}  // namespace tile::gpu
