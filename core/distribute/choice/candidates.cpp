#include "core/distribute/choice/candidates.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/distribute/needs.h"
#include "core/ir/analysis/uses.h"
#include "core/support/control.h"

namespace tile {
namespace {

// Ways to give axes to places; beyond so many the shortest places get none.
constexpr double kMostWays = 512;
// Indices of reductions that are considered, the longest ones.
constexpr size_t kMostIndices = 3;

// A place for axes: a dimension of the result, or an index whose terms are divided.
struct Place {
  int64_t first = 0, extent = 0;  // values in [first, first + extent)
  size_t dim = 0;
  std::string index;  // empty: a dimension
};

// The axes that divide anything.
std::vector<size_t> useful_axes(const Mesh& mesh, const std::vector<size_t>& without) {
  std::vector<size_t> axes;
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    bool taken = std::find(without.begin(), without.end(), a) != without.end();
    if (!taken && mesh.axes[a].size > 1) axes.push_back(a);
  }
  return axes;
}

// Leaves out what cannot be divided, and the shortest places as long as there are too many ways.
std::vector<Place> considered(std::vector<Place> places, size_t axes) {
  // Of places with one value one is enough: it says which ranks have that.
  bool one = false;
  std::erase_if(places, [&](const Place& p) {
    return p.extent < 1 || (p.extent == 1 && std::exchange(one, true));
  });
  auto ways = [&] { return std::pow(static_cast<double>(places.size() + 1), axes); };
  while (!places.empty() && ways() > kMostWays) {
    auto shortest =
        std::min_element(places.begin(), places.end(),
                         [](const Place& a, const Place& b) { return a.extent < b.extent; });
    places.erase(shortest);
  }
  return places;
}

DimLayout moved_by(DimLayout cut, int64_t first) {
  for (int64_t& start : cut.starts) start += first;
  return cut;
}

// Calls `visit` with the axes of each place, for every way; the way without any is the first.
template <class Visit>
void for_ways(const std::vector<size_t>& axes, size_t places, const Visit& visit) {
  std::vector<size_t> at(axes.size(), 0);  // 0: none, else the place + 1
  for (;;) {
    checkpoint();
    std::vector<std::vector<size_t>> of_place(places);
    for (size_t a = 0; a < axes.size(); ++a) {
      if (at[a] != 0) of_place[at[a] - 1].push_back(axes[a]);
    }
    visit(of_place);
    size_t a = 0;
    while (a < at.size() && ++at[a] > places) at[a++] = 0;
    if (a == at.size()) return;
  }
}

// The even cut, and those of the text that fit.
std::vector<DimLayout> cuts_of(const Mesh& mesh, const std::vector<size_t>& axes, int64_t extent,
                               const UnevenCuts& uneven) {
  std::vector<DimLayout> cuts{even_cut(mesh, axes, extent)};
  for (const DimLayout& other : uneven) {
    std::vector<size_t> sorted = other.axes;
    std::erase_if(sorted, [&](size_t a) { return mesh.axes[a].size == 1; });
    std::sort(sorted.begin(), sorted.end());
    bool fits = !axes.empty() && sorted == axes && other.starts.back() == extent;
    if (fits && other != cuts[0]) cuts.push_back(other);
  }
  return cuts;
}

// All ways of the places, with even cuts and with those of the text.
std::vector<Way> ways_of(const Mesh& mesh, const std::vector<Place>& places,
                         const std::vector<size_t>& axes, size_t dims, const UnevenCuts& uneven) {
  std::vector<Way> ways;
  for_ways(axes, places.size(), [&](const std::vector<std::vector<size_t>>& of_place) {
    std::vector<Way> made{{whole_layout(dims), {}}};
    for (size_t p = 0; p < places.size(); ++p) {
      if (of_place[p].empty()) continue;
      std::vector<Way> longer;
      for (const DimLayout& cut : cuts_of(mesh, of_place[p], places[p].extent, uneven)) {
        for (Way way : made) {
          if (places[p].index.empty()) {
            way.computed.dims[places[p].dim] = cut;
          } else {
            way.cuts.push_back({places[p].index, moved_by(cut, places[p].first)});
          }
          longer.push_back(std::move(way));
        }
      }
      made = std::move(longer);
    }
    for (Way& way : made) ways.push_back(std::move(way));
  });
  return ways;
}

std::vector<Place> places_of(const Shape& shape, const std::vector<bool>& may_be_cut) {
  std::vector<Place> places;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (may_be_cut[d]) places.push_back({0, shape[d], d, ""});
  }
  return places;
}

// Whether each cell's index stands alone in some dimension: that may be cut instead.
bool stored_alone(const Piece& piece, size_t iterator) {
  return std::any_of(piece.stores.begin(), piece.stores.end(), [&](const Access& store) {
    return std::any_of(store.index.begin(), store.index.end(), [&](const Index& index) {
      return single_iterator(index.affine) == iterator;
    });
  });
}

// Indices whose terms are added up, or that make a store's index together with others.
std::vector<Place> reduced_indices(const BoundProgram& program, const Contraction& c) {
  std::vector<Place> places;
  bool one = c.pieces.size() == 1 && c.aggregation != Aggregation::assign;
  if (!one || data_decides(c)) return places;
  const Piece& piece = c.pieces[0];
  for (size_t i = 0; i < piece.iterators.size(); ++i) {
    if (stored_alone(piece, i)) continue;
    IndexRange range = range_of(program, piece, piece.iterators[i]);
    places.push_back({range.lo, range.hi - range.lo, 0, range.name});
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.extent > b.extent; });
  if (places.size() > kMostIndices) places.resize(kMostIndices);
  return places;
}

// How the way divides the values of an iterator.
DimLayout cut_of(const Piece& piece, const Way& way, size_t iterator) {
  for (size_t d = 0; d < way.computed.dims.size(); ++d) {
    if (single_iterator(piece.stores[0].index[d].affine) == iterator) return way.computed.dims[d];
  }
  for (const ReductionCut& cut : way.cuts) {
    if (cut.index == piece.iterators[iterator]) return cut.parts;
  }
  return {};
}

}  // namespace

bool operator==(const Way& a, const Way& b) {
  return a.computed == b.computed &&
         std::equal(a.cuts.begin(), a.cuts.end(), b.cuts.begin(), b.cuts.end(),
                    [](const ReductionCut& x, const ReductionCut& y) {
                      return x.index == y.index && x.parts == y.parts;
                    });
}

UnevenCuts uneven_cuts(const Distribution& named) {
  UnevenCuts cuts;
  auto add = [&](DimLayout dim, int64_t first) {
    if (dim.whole()) return;
    dim = moved_by(std::move(dim), -first);
    bool sorted = std::is_sorted(dim.axes.begin(), dim.axes.end());
    bool even = sorted && dim == even_cut(named.mesh, dim.axes, dim.starts.back());
    if (!even && std::find(cuts.begin(), cuts.end(), dim) == cuts.end()) cuts.push_back(dim);
  };
  for (TensorId id : named.layouts.ids()) {
    if (!named.named[id]) continue;
    for (const DimLayout& dim : named.layouts[id].dims) add(dim, 0);
  }
  for (const auto& [id, list] : named.cuts) {
    for (const ReductionCut& cut : list) add(cut.parts, cut.parts.starts.front());
  }
  return cuts;
}

std::vector<TensorLayout> possible_layouts(const Mesh& mesh, const Shape& shape,
                                           const std::vector<bool>& may_be_cut,
                                           const UnevenCuts& uneven) {
  std::vector<size_t> axes = useful_axes(mesh, {});
  std::vector<Place> places = considered(places_of(shape, may_be_cut), axes.size());
  std::vector<TensorLayout> layouts;
  for (Way& way : ways_of(mesh, places, axes, shape.size(), uneven)) {
    layouts.push_back(std::move(way.computed));
  }
  return layouts;
}

std::vector<bool> dims_to_cut(const BoundProgram& program, const BoundStatement& statement) {
  std::vector<bool> may(program.tensors[written_by(statement)[0]].shape.size(), true);
  if (const auto* sort = std::get_if<Sort>(&statement)) {
    may[static_cast<size_t>(sort->axis)] = false;
  } else if (std::holds_alternative<Scatter>(statement)) {
    may[0] = false;
  } else if (const auto* c = std::get_if<Contraction>(&statement)) {
    for (const Piece& piece : c->pieces) {
      for (const Access& store : piece.stores) {
        for (size_t d = 0; d < may.size(); ++d) {
          if (store.index[d].affine != piece.stores[0].index[d].affine) may[d] = false;
        }
      }
    }
  }
  return may;
}

TensorLayout suitable_layout(const BoundProgram& program, const Mesh& mesh,
                             const BoundStatement& statement, const Way& way, TensorId tensor) {
  const Shape& shape = program.tensors[tensor].shape;
  if (std::holds_alternative<Sort>(statement)) return way.computed;
  TensorLayout layout = whole_layout(shape.size());
  const auto* c = std::get_if<Contraction>(&statement);
  if (c == nullptr) return layout;
  for (const Piece& piece : c->pieces) {
    for (const Access& load : piece.loads) {
      if (load.tensor != tensor) continue;
      for (size_t l = 0; l < shape.size(); ++l) {
        const Index& index = load.index[l];
        std::optional<size_t> iterator = single_iterator(index.affine);
        if (index.value >= 0 || !iterator) continue;
        DimLayout cut = cut_of(piece, way, *iterator);
        bool free =
            layout.dims[l].whole() && std::none_of(cut.axes.begin(), cut.axes.end(),
                                                   [&](size_t axis) { return layout.uses(axis); });
        if (!free || cut.whole()) continue;
        bool same = cut.starts.front() == 0 && cut.starts.back() == shape[l];
        layout.dims[l] = same ? cut : even_cut(mesh, cut.axes, shape[l]);
      }
    }
  }
  return layout;
}

std::vector<Way> possible_ways(const BoundProgram& program, const Mesh& mesh,
                               const BoundStatement& statement, const UnevenCuts& uneven,
                               const WayOptions& options) {
  const Shape& shape = program.tensors[written_by(statement)[0]].shape;
  Way given;
  if (options.named != nullptr) given.cuts = *options.named;
  std::vector<size_t> axes = useful_axes(mesh, given.axes());
  std::vector<Place> places = places_of(shape, dims_to_cut(program, statement));
  const auto* c = std::get_if<Contraction>(&statement);
  if (c != nullptr && options.named == nullptr && options.divide_terms) {
    for (Place& place : reduced_indices(program, *c)) places.push_back(std::move(place));
  }
  std::vector<Way> ways =
      ways_of(mesh, considered(std::move(places), axes.size()), axes, shape.size(), uneven);
  for (Way& way : ways) {
    if (options.named != nullptr) way.cuts = given.cuts;
  }
  return ways;
}

}  // namespace tile
