#include "core/distribute/distribution.h"

#include <algorithm>

#include "core/distribute/needs.h"
#include "core/support/checked.h"
#include "core/support/control.h"

namespace tile {

std::vector<size_t> axes_of(const std::vector<ReductionCut>& cuts) {
  std::vector<size_t> all;
  for (const ReductionCut& cut : cuts) {
    all.insert(all.end(), cut.parts.axes.begin(), cut.parts.axes.end());
  }
  return all;
}

std::optional<size_t> single_iterator(const Affine& form) {
  std::optional<size_t> found;
  for (size_t i = 0; i < form.coefficients.size(); ++i) {
    if (form.coefficients[i].is_zero()) continue;
    if (found || form.coefficients[i] != Rational(1)) return std::nullopt;
    found = i;
  }
  return form.constant.is_integer() ? found : std::nullopt;
}

bool data_decides(const Contraction& c) {
  for (const Piece& piece : c.pieces) {
    for (const Access& load : piece.loads) {
      for (const Index& index : load.index) {
        if (index.value >= 0 && index.boundary == Boundary::in_range) return true;
      }
    }
  }
  return false;
}

namespace {

[[noreturn]] void bad_layout(Span where, std::string message, std::string hint = "") {
  fail(Stage::bind, "layout", where, std::move(message), std::move(hint));
}

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kShown = 12;
  std::string text;
  for (size_t i = 0; i < names.size() && i < kShown; ++i) text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > kShown ? text + ", …" : text;
}

// The places of a cut, from sizes that are written or even.
DimLayout cut_places(const Mesh& mesh, const std::vector<size_t>& axes,
                     const std::vector<int64_t>& sizes, int64_t first, int64_t extent, Span where,
                     const std::string& what) {
  DimLayout dim = even_cut(mesh, axes, extent);
  if (!sizes.empty()) {
    dim.starts.assign(1, 0);
    for (int64_t size : sizes) {
      int64_t sum = 0;
      if (__builtin_add_overflow(dim.starts.back(), size, &sum)) {
        bad_layout(where, "the sum of the sizes does not fit in 64 bits");
      }
      dim.starts.push_back(sum);
    }
    if (dim.starts.back() != extent) {
      bad_layout(where, "the sizes of the parts add up to " + std::to_string(dim.starts.back()) +
                            ", but " + what + " has extent " + std::to_string(extent));
    }
  }
  for (int64_t& start : dim.starts) start = checked_add(start, first);
  return dim;
}

class Fitting {
 public:
  Fitting(const BoundProgram& program, const Mesh& mesh, const WrittenLayouts& written)
      : program_(program), written_(written) {
    d_.mesh = mesh;
    d_.layouts.resize(program.tensors.size());
    d_.named.resize(program.tensors.size());
    producer_.resize(program.tensors.size());
    for (const BoundStatement& statement : program.statements) {
      const auto* c = std::get_if<Contraction>(&statement);
      if (c == nullptr) continue;
      for (TensorId id : c->outputs) producer_[id] = c;
    }
  }

  Distribution run() {
    for (TensorId id : program_.tensors.ids()) ids_.emplace(program_.tensors[id].name, id);
    for (const auto& [name, layout] : written_.tensors) fit(name, layout);
    for (const auto& [name, cuts] : written_.cuts) fit_cuts(name, cuts);
    for (const auto& [name, layout] : written_.tensors) check_partial(ids_.at(name), layout);
    return std::move(d_);
  }

 private:
  TensorId tensor_of(const std::string& name, Span where) const {
    auto found = ids_.find(name);
    bool usable = found != ids_.end() && !program_.tensors[found->second].constant;
    if (!usable) {
      std::vector<std::string> names;
      for (const BoundTensor& t : program_.tensors) {
        bool written = t.name.find('.') == std::string::npos;
        if (!t.view_of && !t.constant && written) names.push_back(t.name);
      }
      bad_layout(where, "the program has no tensor " + name, "it has " + listed(names));
    }
    const BoundTensor& tensor = program_.tensors[found->second];
    if (tensor.view_of) {
      const std::string& source = program_.tensors[*tensor.view_of].name;
      bad_layout(where, name + " is " + source + " in another shape and lies as it does",
                 "give " + source + " a layout");
    }
    return found->second;
  }

  void fit(const std::string& name, const WrittenLayout& layout) {
    checkpoint();
    TensorId id = tensor_of(name, layout.span);
    const Shape& shape = program_.tensors[id].shape;
    if (layout.dims.size() != shape.size()) {
      fail(Stage::bind, "rank", layout.span,
           name + " has " + std::to_string(shape.size()) + " dimensions, but its layout has " +
               std::to_string(layout.dims.size()));
    }
    TensorLayout& fitted = d_.layouts[id];
    fitted.partial = layout.partial;
    for (size_t d = 0; d < shape.size(); ++d) {
      const WrittenDim& dim = layout.dims[d];
      std::string what = "dimension " + std::to_string(d) + " of " + name;
      fitted.dims.push_back(cut_places(d_.mesh, dim.axes, dim.sizes, 0, shape[d], dim.span, what));
      if (!dim.axes.empty()) check_components(id, d, dim.span);
    }
    d_.named[id] = true;
  }

  // The components of a tuple are computed together.
  void check_components(TensorId id, size_t d, Span where) const {
    const Contraction* c = producer_[id];
    if (c == nullptr) return;
    for (const Piece& piece : c->pieces) {
      for (const Access& store : piece.stores) {
        if (store.index[d].affine == piece.stores[0].index[d].affine) continue;
        bad_layout(where,
                   "the components of " + program_.tensors[id].name +
                       " are computed together: their dimension cannot be cut",
                   "write `*` for it");
      }
    }
  }

  void fit_cuts(const std::string& name, const std::vector<WrittenCut>& cuts) {
    TensorId id = tensor_of(name, cuts[0].index.span);
    const Contraction* c = producer_[id];
    if (c == nullptr || c->aggregation == Aggregation::assign) {
      bad_layout(cuts[0].index.span, name + " has no terms that could be divided",
                 "only contractions that aggregate with +, *, > or < have partial results");
    }
    check_divisible(*c, cuts[0].index.span);
    for (const WrittenCut& cut : cuts) {
      IndexRange range = values_of(*c, cut.index);
      std::string what = "the index " + cut.index.text;
      d_.cuts[id].push_back(
          {cut.index.text, cut_places(d_.mesh, cut.axes, cut.sizes, range.lo, range.hi - range.lo,
                                      cut.index.span, what)});
    }
  }

  // Which cells have terms must be known where data decides which points are valid.
  static void check_divisible(const Contraction& c, Span where) {
    bool plain = c.aggregation == Aggregation::sum && !c.fill;
    if (plain || !data_decides(c)) return;
    bad_layout(where, "which cells have terms depends on data here: they cannot be divided",
               "cut a dimension of the result instead");
  }

  // Over all pieces that have the index.
  IndexRange values_of(const Contraction& c, const Word& index) const {
    std::optional<IndexRange> all;
    std::vector<std::string> names;
    for (const Piece& piece : c.pieces) {
      for (const std::string& name : piece.iterators) {
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
        if (name != index.text) continue;
        IndexRange range = range_of(program_, piece, name);
        bool none = all && range.lo >= range.hi;
        if (none) continue;
        if (!all || all->lo >= all->hi) all = range;
        all->lo = std::min(all->lo, range.lo);
        all->hi = std::max(all->hi, range.hi);
      }
    }
    if (!all) {
      bad_layout(index.span,
                 "the statement that computes " + program_.tensors[c.outputs[0]].name +
                     " has no index " + index.text,
                 names.empty() ? "it has none" : "its indices are " + listed(names));
    }
    return *all;
  }

  void check_partial(TensorId id, const WrittenLayout& written) const {
    const TensorLayout& layout = d_.layouts[id];
    if (layout.partial.empty()) return;
    const std::string& name = program_.tensors[id].name;
    if (program_.tensors[id].role == TensorRole::input) return;
    const Contraction* c = producer_[id];
    if (c == nullptr || c->aggregation != Aggregation::sum || c->fill) {
      bad_layout(written.span, name + " is no plain sum: it has no partial sums");
    }
    std::vector<size_t> divided;
    if (auto cuts = d_.cuts.find(id); cuts != d_.cuts.end()) {
      for (const ReductionCut& cut : cuts->second) {
        divided.insert(divided.end(), cut.parts.axes.begin(), cut.parts.axes.end());
      }
    }
    std::vector<size_t> kept = layout.partial;
    std::sort(divided.begin(), divided.end());
    std::sort(kept.begin(), kept.end());
    if (divided == kept) return;
    bad_layout(written.span,
               name + " is kept as partial sums, but its terms are not divided over those axes",
               "say which index is cut, as in `" + name +
                   ": k=" + d_.mesh.axes[layout.partial[0]].name + "`");
  }

  const BoundProgram& program_;
  const WrittenLayouts& written_;
  Distribution d_;
  std::map<std::string, TensorId> ids_;
  IdVector<TensorId, const Contraction*> producer_;
};

}  // namespace

Distribution named_layouts(const BoundProgram& program, const Mesh& mesh,
                           const WrittenLayouts& written) {
  return Fitting(program, mesh, written).run();
}

Distribution distribution_of(const BoundProgram& program, const Mesh& mesh,
                             const WrittenLayouts& written) {
  Distribution distribution = named_layouts(program, mesh, written);
  complete_layouts(program, distribution);
  return distribution;
}

}  // namespace tile
