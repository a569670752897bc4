#include "core/kernel/in_place.h"

#include <algorithm>

#include "core/ir/analysis/accesses.h"
#include "core/kernel/coverage.h"
#include "core/kernel/rows.h"

namespace tile {
namespace {

size_t tile_of(const Kernel& kernel, size_t stage) {
  while (kernel.stages[stage].attach.valid()) stage = kernel.stages[stage].attach.index();
  return stage;
}

bool same_cell(const Access& a, const Access& b) {
  return std::equal(a.index.begin(), a.index.end(), b.index.begin(), b.index.end(),
                    [](const Index& x, const Index& y) {
                      return is_plain_index(x) && is_plain_index(y) && x.affine == y.affine;
                    });
}
// Dimension d at iterator d.
bool follows_iterators(const Access& access) {
  for (size_t d = 0; d < access.index.size(); ++d) {
    const Index& index = access.index[d];
    if (!is_plain_index(index) || !(index.affine == iterator_affine(d))) return false;
  }
  return true;
}
bool reduces(const Piece& piece) { return piece.iterators.size() != piece.parallel_dims; }

class InPlace {
 public:
  InPlace(const Kernel& kernel, TensorId read, TensorId written)
      : kernel_(kernel), read_(read), written_(written) {}

  bool works() {
    const BoundTensor &from = kernel_.tensors[read_], &to = kernel_.tensors[written_];
    if (from.type != to.type || from.shape != to.shape || !find_writer()) return false;
    for (size_t s = 0; s < kernel_.stages.size(); ++s) {
      if (kernel_.stages[s].stream.valid() || !reads_in_time(s)) return false;
    }
    return true;
  }

 private:
  // The one stage that makes the result: of each cell once, and of nothing else.
  bool find_writer() {
    size_t writers = 0;
    for (size_t s = 0; s < kernel_.stages.size(); ++s) {
      const std::vector<TensorId>& made = kernel_.stages[s].contraction.outputs;
      if (std::find(made.begin(), made.end(), written_) == made.end()) continue;
      writer_ = s;
      ++writers;
    }
    const Contraction& c = kernel_.stages[writer_].contraction;
    return writers == 1 && c.outputs.size() == 1 && !c.fill && covers_output(c, kernel_.tensors) &&
           std::none_of(c.pieces.begin(), c.pieces.end(), reduces);
  }

  bool reads_in_time(size_t stage) const {
    const Contraction& c = kernel_.stages[stage].contraction;
    if (c.fill == read_) return false;
    for (const Piece& piece : c.pieces) {
      for (const Access& load : piece.loads) {
        if (load.tensor != read_) continue;
        bool before = stage == writer_ ? same_cell(load, piece.stores[0])
                                       : stage < writer_ && reads_before(stage, load);
        if (!before) return false;
      }
    }
    return true;
  }

  // A stage before the one that writes: in the same tile, at the tile's own cells, or in the same
  // rows, which are read as a whole before any of them is written.
  bool reads_before(size_t stage, const Access& load) const {
    if (tile_of(kernel_, stage) == tile_of(kernel_, writer_)) {
      return follows_iterators(load) && is_in_step(stage) && is_in_step(writer_);
    }
    size_t loops = row_loops(kernel_);
    if (loops == 0) return false;
    RowMap rows = row_map(kernel_);
    std::vector<RowId> read = row_indices(load, rows.iterators[stage]);
    const std::vector<RowId>& made = rows.dimensions.at(written_);
    for (size_t row = 0; row < loops; ++row) {
      bool same = false;
      for (size_t d = 0; d < made.size() && d < read.size(); ++d) {
        same = same || (made[d] == RowId(row) && read[d] == made[d]);
      }
      if (!same) return false;
    }
    return true;
  }

  // Whether the stage's points are the cells of the tile that it is in.
  bool is_in_step(size_t stage) const {
    const KernelStage& of = kernel_.stages[stage];
    const Contraction& c = of.contraction;
    if (c.pieces.size() != 1 || c.outputs.size() != 1 || reduces(c.pieces[0]) ||
        kernel_.tensors[c.outputs[0]].shape != kernel_.tensors[written_].shape ||
        !follows_iterators(c.pieces[0].stores[0])) {
      return false;
    }
    return !of.attach.valid() || reads_in_step(c.pieces[0], of.attach.index());
  }
  bool reads_in_step(const Piece& piece, size_t from) const {
    const Contraction& source = kernel_.stages[from].contraction;
    for (const Access& load : piece.loads) {
      if (std::find(source.outputs.begin(), source.outputs.end(), load.tensor) !=
              source.outputs.end() &&
          !follows_iterators(load)) {
        return false;
      }
    }
    // What a tile's first stage reduces it has reduced before others are computed.
    return !kernel_.stages[from].attach.valid()
               ? source.pieces.size() == 1 && source.outputs.size() == 1 &&
                     follows_iterators(source.pieces[0].stores[0])
               : is_in_step(from);
  }

  const Kernel& kernel_;
  TensorId read_, written_;
  size_t writer_ = 0;
};

}  // namespace

bool works_in_place(const Kernel& kernel, TensorId read, TensorId written) {
  return InPlace(kernel, read, written).works();
}

}  // namespace tile
