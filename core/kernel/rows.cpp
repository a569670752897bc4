// Row loops: which iterators and dimensions they run over, and what a kernel with them must keep.
#include "core/kernel/rows.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/ir/analysis/accesses.h"
#include "core/kernel/coverage.h"
#include "core/kernel/stream.h"
#include "core/support/control.h"

namespace tile {
namespace {

// The row that the index is, alone, if it is.
RowId row_of(const Index& index, const IdVector<IteratorId, RowId>& iterators) {
  IteratorId u = sole_iterator(index, iterators.size());
  return u.valid() ? iterators[u] : RowId();
}

size_t tile_of(const Kernel& kernel, size_t stage) {
  while (kernel.stages[stage].attach.valid()) {
    stage = kernel.stages[stage].attach.index();
  }
  return stage;
}

// The stage in whose tile each tensor is made; a kernel makes a few.
class MadeIn {
 public:
  std::optional<size_t> find(TensorId id) const {
    for (const auto& [tensor, tile] : list_) {
      if (tensor == id) return tile;
    }
    return std::nullopt;
  }
  void put(TensorId id, size_t tile) {
    for (auto& [tensor, known] : list_) {
      if (tensor == id) return static_cast<void>(known = tile);
    }
    list_.emplace_back(id, tile);
  }

 private:
  std::vector<std::pair<TensorId, size_t>> list_;
};

// The rows that an attached stage's iterators are, from what it reads of its tile.
void follow_tile(const Kernel& kernel, size_t stage, const MadeIn& made_in, RowMap& map) {
  const Piece& piece = kernel.stages[stage].contraction.pieces[0];
  size_t tile = tile_of(kernel, stage);
  for (const Access& load : piece.loads) {
    if (made_in.find(load.tensor) != tile) continue;
    const std::vector<RowId>& rows = map.dimensions.at(load.tensor);
    for (size_t d = 0; d < rows.size(); ++d) {
      IteratorId u = sole_iterator(load.index[d], piece);
      if (u.valid() && rows[d].valid()) map.iterators[stage][u] = rows[d];
    }
  }
}

}  // namespace

RowId row_of(const IdVector<RowId, IteratorId>& rows, IteratorId u) {
  for (RowId r : rows.ids()) {
    if (rows[r] == u) return r;
  }
  return {};
}

std::vector<RowId> row_indices(const Access& access, const IdVector<IteratorId, RowId>& rows) {
  std::vector<RowId> list;
  for (const Index& index : access.index) list.push_back(row_of(index, rows));
  return list;
}

size_t row_loops(const Kernel& kernel) {
  checkpoint();
  return kernel.stages.empty() ? 0 : kernel.stages[0].rows.size();
}

RowMap row_map(const Kernel& kernel) {
  RowMap map;
  MadeIn made_in;
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    const KernelStage& stage = kernel.stages[s];
    const Contraction& c = stage.contraction;
    const Piece& piece = c.pieces[0];
    map.iterators.emplace_back(piece.iterators.size(), RowId());
    IdVector<RowId, IteratorId> shared = shared_iterators(stage);
    for (RowId r : shared.ids()) map.iterators[s][shared[r]] = r;
    if (stage.attach.valid()) follow_tile(kernel, s, made_in, map);
    for (size_t o = 0; o < c.outputs.size(); ++o) {
      std::vector<RowId> rows;
      for (const Index& index : piece.stores[o].index) {
        rows.push_back(row_of(index, map.iterators[s]));
      }
      // Several results may store one tensor's components: its rows are those of all.
      auto [known, fresh] = map.dimensions.emplace(c.outputs[o], rows);
      for (size_t d = 0; !fresh && d < rows.size(); ++d) {
        if (known->second[d] != rows[d]) known->second[d] = {};
      }
      made_in.put(c.outputs[o], tile_of(kernel, s));
    }
  }
  return map;
}

std::string broken_rows(const Kernel& kernel) {
  size_t rows = row_loops(kernel);
  if (rows == 0) {
    bool none = std::all_of(kernel.stages.begin(), kernel.stages.end(), [](const auto& s) {
      return s.rows.empty() && s.residence != Residence::row && !s.stream.valid() &&
             !s.rescale.valid();
    });
    return none ? "" : "rows of some stages only";
  }
  for (const KernelStage& stage : kernel.stages) {
    const Contraction& c = stage.contraction;
    if (c.pieces.size() != 1 || !covers_output(c, kernel.tensors)) {
      return "a stage in rows with pieces or gaps";
    }
    if (stage.rows.size() != (stage.attach.valid() ? 0 : rows)) return "another number of rows";
    for (size_t r = 0; r < stage.rows.size(); ++r) {
      IteratorId u = stage.rows[r];
      if (!c.pieces[0].is_parallel(u)) return "a row that is no parallel dimension";
      bool twice = std::count(stage.rows.begin(), stage.rows.end(), u) != 1;
      const KernelStage& first = kernel.stages[0];
      int64_t extent = first.contraction.pieces[0].box[first.rows[r]];
      if (twice || c.pieces[0].box[u] != extent) return "rows that differ";
    }
  }
  RowMap map = row_map(kernel);
  MadeIn made_in;
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    const Contraction& c = kernel.stages[s].contraction;
    for (const Access& load : c.pieces[0].loads) {
      std::optional<size_t> made = made_in.find(load.tensor);
      if (!made || *made == tile_of(kernel, s)) continue;
      const std::vector<RowId>& dims = map.dimensions.at(load.tensor);
      std::vector<bool> found(rows, false);
      for (size_t d = 0; d < dims.size(); ++d) {
        if (!dims[d].valid()) continue;
        if (row_of(load.index[d], map.iterators[s]) != dims[d]) return "a read of another row";
        if (dims[d].index() < rows) found[dims[d].index()] = true;
      }
      if (std::find(found.begin(), found.end(), false) != found.end()) {
        return "a result that is not of its row";
      }
    }
    for (TensorId out : c.outputs) made_in.put(out, tile_of(kernel, s));
  }
  return broken_stream(kernel);
}

namespace {

std::string broken_prefix(const PieceSchedule& p, const KernelStage& stage,
                          const PieceSchedule& first_piece, const KernelStage& first,
                          size_t shared) {
  if (p.outer.size() < shared) return "a stage without the shared loops";
  IdVector<RowId, IteratorId> rows = shared_iterators(stage);
  IdVector<RowId, IteratorId> first_rows = shared_iterators(first);
  IdVector<RowId, bool> seen(rows.size(), false);
  for (size_t i = 0; i < p.outer.size(); ++i) {
    const Loop& l = p.outer[i];
    if (i >= shared) {
      if (l.binding == Binding::parallel) return "a parallel loop inside the shared ones";
      bool reduced = !stage.contraction.pieces[0].is_parallel(l.iterator);
      if (reduced && reduces_stream(stage)) return "a streamed reduction in more blocks";
      continue;
    }
    RowId row = row_of(rows, l.iterator);
    if (!row.valid()) return "a shared loop that is no row";
    const Loop& same = first_piece.outer[i];
    bool agrees =
        first_rows[row] == same.iterator && l.step == same.step && l.binding == same.binding;
    if (!agrees) return "shared loops that differ";
    bool streamed = l.iterator == stage.stream;
    if (streamed != (stage.stream.valid() && i + 1 == shared))
      return "a streamed axis not innermost";
    if (streamed && l.binding != Binding::serial) return "a streamed axis in parallel";
    seen[row] = true;
  }
  if (std::find(seen.begin(), seen.end(), false) != seen.end()) return "a row without a loop";
  for (const Packing& k : p.packings) {
    if (k.level < shared) return "a packing outside the shared loops";
  }
  return {};
}

}  // namespace

std::string broken_shared(const Schedule& schedule, const Kernel& kernel) {
  if (row_loops(kernel) == 0) return schedule.shared == 0 ? "" : "shared loops without rows";
  const PieceSchedule& first = schedule.stages[0][0];
  if (schedule.shared > first.outer.size()) return "a stage without the shared loops";
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    const KernelStage& stage = kernel.stages[s];
    if (stage.attach.valid()) continue;
    const PieceSchedule& p = schedule.stages[s][0];
    IdVector<RowId, IteratorId> rows = shared_iterators(stage);
    if (p.carried.valid() && std::count(rows.begin(), rows.end(), p.carried) > 0) {
      return "a carried row";
    }
    std::string text = broken_prefix(p, stage, first, kernel.stages[0], schedule.shared);
    if (!text.empty()) return text;
  }
  return {};
}

Kernel block_of_rows(const Kernel& kernel, const std::vector<int64_t>& blocks) {
  Kernel block = kernel;
  for (KernelStage& stage : block.stages) {
    IdVector<RowId, IteratorId> shared = shared_iterators(stage);
    for (size_t r = 0; r < shared.size(); ++r) {
      stage.contraction.pieces[0].box[shared[r]] = blocks[r];
    }
  }
  if (!has_stream(kernel)) return block;
  // What lives for a block is as dense as it will be.
  RowMap map = row_map(kernel);
  for (const auto& [id, dims] : map.dimensions) {
    bool global = std::count(kernel.writes.begin(), kernel.writes.end(), id) > 0;
    for (size_t d = 0; !global && d < dims.size(); ++d) {
      int64_t& extent = block.tensors.edit(id).shape[d];
      if (dims[d].valid()) extent = std::min(extent, blocks[dims[d].index()]);
    }
  }
  return block;
}

PieceSchedule inside_shared(const PieceSchedule& block, const KernelStage& stage,
                            const std::vector<SharedLoop>& shared) {
  PieceSchedule whole = block;
  whole.outer.clear();
  IdVector<RowId, IteratorId> rows = shared_iterators(stage);
  IdVector<RowId, int64_t> sizes(rows.size(), 0);
  for (const SharedLoop& l : shared) {
    whole.outer.push_back({rows[l.row], l.step, l.binding});
    sizes[l.row] = l.step;
  }
  auto covers_block = [&](const Loop& l) {
    RowId row = row_of(rows, l.iterator);
    return row.valid() && l.step >= sizes[row];
  };
  std::vector<size_t> dropped(block.outer.size() + 1, 0);  // before each position
  for (size_t i = 0; i < block.outer.size(); ++i) {
    const Loop& l = block.outer[i];
    bool whole_block = covers_block(l);
    dropped[i + 1] = dropped[i] + (whole_block ? 1 : 0);
    if (whole_block) continue;
    whole.outer.push_back(l);
    whole.outer.back().binding = Binding::serial;
  }
  for (Packing& p : whole.packings) {
    p.level = p.level + shared.size() - dropped[p.level];
  }
  auto drop = [&](std::vector<Loop>& loops) { std::erase_if(loops, covers_block); };
  drop(whole.reduce);
  drop(whole.tile);
  for (Packing& p : whole.packings) drop(p.order);
  std::erase_if(whole.packings, [](const Packing& p) { return p.order.empty(); });
  return whole;
}

}  // namespace tile
