// Layouts for the tensors that nobody named: an axis goes where the same index walks, forwards from
// what a statement reads to what it computes, and backwards.
#include <algorithm>

#include "core/distribute/distribution.h"
#include "core/support/control.h"

namespace tile {
namespace {

class Completion {
 public:
  Completion(const BoundProgram& program, Distribution& d)
      : program_(program), d_(d), known_(program.tensors.size()) {
    for (TensorId id : program.tensors.ids()) {
      known_[id] = d.named[id];
      // Elements of the program's text are everywhere.
      if (program.tensors[id].constant) make_whole(id);
    }
  }

  void run() {
    // Each round that gives some tensor its layout takes one away from those that have none.
    for (bool again = true; again;) {
      again = false;
      for (const BoundStatement& s : program_.statements) again = forwards(s) || again;
      for (size_t i = program_.statements.size(); i-- > 0;) {
        again = backwards(program_.statements[i]) || again;
      }
    }
    for (TensorId id : program_.tensors.ids()) {
      if (!known_[id] && !program_.tensors[id].view_of) make_whole(id);
    }
  }

 private:
  void make_whole(TensorId id) {
    d_.layouts[id] = whole_layout(program_.tensors[id].shape.size());
    known_[id] = true;
  }

  // A view's follows from its source's.
  std::optional<TensorLayout> layout_of(TensorId id) const {
    const BoundTensor& tensor = program_.tensors[id];
    if (!tensor.view_of) {
      return known_[id] ? std::optional(d_.layouts[id]) : std::nullopt;
    }
    if (!known_[*tensor.view_of]) return std::nullopt;
    TensorLayout source = d_.layouts[*tensor.view_of];
    source.partial.clear();
    return layout_of_view(program_, id, followed_by_view(program_, id, source));
  }

  // Takes over the cut of a dimension where the axes are free; cuts of equal extents are equal.
  void inherit(TensorLayout& layout, size_t d, int64_t extent, const DimLayout& from,
               const std::vector<size_t>& taken) const {
    if (from.whole() || !layout.dims[d].whole()) return;
    for (size_t axis : from.axes) {
      bool used = layout.uses(axis) || std::find(taken.begin(), taken.end(), axis) != taken.end();
      if (used) return;
    }
    layout.dims[d] = from.starts.back() == extent ? from : even_cut(d_.mesh, from.axes, extent);
  }

  std::vector<size_t> axes_of_cuts(TensorId id) const {
    std::vector<size_t> axes;
    auto cuts = d_.cuts.find(id);
    if (cuts == d_.cuts.end()) return axes;
    for (const ReductionCut& cut : cuts->second) {
      axes.insert(axes.end(), cut.parts.axes.begin(), cut.parts.axes.end());
    }
    return axes;
  }

  bool forwards(const BoundStatement& statement) {
    checkpoint();
    const auto* c = std::get_if<Contraction>(&statement);
    if (c == nullptr) return whole_statement(statement);
    TensorId output = c->outputs[0];
    if (known_[output]) return false;
    const Shape& shape = program_.tensors[output].shape;
    TensorLayout layout = whole_layout(shape.size());
    std::vector<size_t> taken = axes_of_cuts(output);
    bool found = false;
    for (const Piece& piece : c->pieces) {
      for (const Access& load : piece.loads) {
        std::optional<TensorLayout> from = layout_of(load.tensor);
        if (!from) continue;
        found = true;
        for_matching(piece, load, [&](size_t d, size_t of_load) {
          inherit(layout, d, shape[d], from->dims[of_load], taken);
        });
      }
    }
    if (!found && taken.empty()) return false;
    d_.layouts[output] = std::move(layout);
    known_[output] = true;
    return true;
  }

  // Dimensions that the same index walks in the first store and in a load.
  template <class Visit>
  static void for_matching(const Piece& piece, const Access& load, const Visit& visit) {
    const Access& store = piece.stores[0];
    for (size_t d = 0; d < store.index.size(); ++d) {
      std::optional<size_t> iterator = single_iterator(store.index[d].affine);
      if (!iterator || !same_components(piece, d)) continue;
      for (size_t l = 0; l < load.index.size(); ++l) {
        bool same = load.index[l].value < 0 && single_iterator(load.index[l].affine) == iterator;
        if (same) visit(d, l);
      }
    }
  }
  static bool same_components(const Piece& piece, size_t d) {
    return std::all_of(piece.stores.begin(), piece.stores.end(), [&](const Access& store) {
      return store.index[d].affine == piece.stores[0].index[d].affine;
    });
  }

  // Sorts keep the layout of what they read but along their axis; scatters are computed whole.
  bool whole_statement(const BoundStatement& statement) {
    if (const auto* sort = std::get_if<Sort>(&statement)) {
      std::optional<TensorLayout> from = layout_of(sort->source);
      if (known_[sort->result] || !from) return false;
      from->dims[static_cast<size_t>(sort->axis)] = {};
      from->partial.clear();
      d_.layouts[sort->result] = std::move(*from);
      known_[sort->result] = true;
      return true;
    }
    TensorId result = std::get<Scatter>(statement).result;
    if (known_[result]) return false;
    make_whole(result);
    return true;
  }

  bool backwards(const BoundStatement& statement) {
    checkpoint();
    const auto* c = std::get_if<Contraction>(&statement);
    if (c == nullptr || !known_[c->outputs[0]]) return false;
    const TensorLayout& from = d_.layouts[c->outputs[0]];
    bool changed = false;
    for (const Piece& piece : c->pieces) {
      for (const Access& load : piece.loads) {
        if (known_[load.tensor] || program_.tensors[load.tensor].view_of) continue;
        const Shape& shape = program_.tensors[load.tensor].shape;
        TensorLayout layout = whole_layout(shape.size());
        for_matching(piece, load, [&](size_t d, size_t of_load) {
          inherit(layout, of_load, shape[of_load], from.dims[d], {});
        });
        if (layout == whole_layout(shape.size())) continue;
        d_.layouts[load.tensor] = std::move(layout);
        known_[load.tensor] = changed = true;
      }
    }
    return changed;
  }

  const BoundProgram& program_;
  Distribution& d_;
  IdVector<TensorId, bool> known_;
};

}  // namespace

void complete_layouts(const BoundProgram& program, Distribution& distribution) {
  Completion(program, distribution).run();
}

}  // namespace tile
