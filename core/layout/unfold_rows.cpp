#include "core/layout/unfold_rows.h"

#include <algorithm>
#include <set>

#include "core/ir/analysis/accesses.h"
#include "core/layout/unfolding.h"
#include "core/passes/normalize/substitution.h"

namespace tile {
namespace {

class RowUnfolding {
 public:
  RowUnfolding(Contraction& c, FactorCopies& copies) : c_(c), copies_(copies) {}

  bool run(std::vector<BoundStatement>& made, std::vector<BoundStatement>& behind) {
    if (!find_roles()) return false;
    merge_channels();
    std::optional<TensorId> unfolded = copy(made);
    if (!unfolded) return false;
    multiply(*unfolded, behind);
    return true;
  }

 private:
  Piece& piece() { return c_.pieces[0]; }
  const Piece& piece() const { return c_.pieces[0]; }
  int64_t box(size_t u) const { return piece().box[u]; }
  const BoundTensor& tensor(const Access& a) const { return copies_.tensor(a.tensor); }

  // One factor's dimensions are the terms and then its own parallel dimensions, all of each; what
  // moves the other one stands in the order in which it lies in memory.
  bool find_roles() {
    for (size_t load = 0; load < 2; ++load) {
      plain_ = load;
      terms_.clear();
      columns_.clear();
      if (is_plain(piece().loads[load]) && find_rows()) return true;
    }
    return false;
  }
  bool is_plain(const Access& a) {
    for (size_t d = 0; d < a.index.size(); ++d) {
      IteratorId u = sole_iterator(a.index[d], piece());
      if (!u.valid() || box(u.index()) != tensor(a).shape[d]) return false;
      bool term = !piece().is_parallel(u);
      if (term && !columns_.empty()) return false;
      (term ? terms_ : columns_).push_back(u.index());
    }
    return !terms_.empty() && !columns_.empty();
  }
  bool find_rows() {
    rows_.clear();
    for (size_t u = 0; u < piece().iterators.size(); ++u) {
      bool plain = moves_with(piece().loads[plain_], u), window = moves_with(windows(), u);
      bool term = u >= piece().parallel_dims;
      if (box(u) == 1 && !plain && !window) continue;
      if (term ? !plain || !window : plain == window) return false;
      if (!window || term) continue;
      if (dimensions_of(u).size() != 1) return false;
      rows_.push_back({u, 1, {}});
    }
    auto dimension = [&](const Row& r) { return dimensions_of(r.iterator)[0]; };
    std::stable_sort(rows_.begin(), rows_.end(),
                     [&](const Row& x, const Row& y) { return dimension(x) < dimension(y); });
    // Neighbours in the factor's memory are neighbours in a row.
    return !rows_.empty() && dimension(rows_.back()) + 1 == windows().index.size();
  }

  const Access& windows() const { return piece().loads[1 - plain_]; }
  // Of the windows, those that the iterator moves along.
  std::vector<size_t> dimensions_of(size_t u) const {
    std::vector<size_t> list;
    for (size_t d = 0; d < windows().index.size(); ++d) {
      if (!windows().index[d].affine.coefficient(u).is_zero()) list.push_back(d);
    }
    return list;
  }

  // A tap whose channels are all of the dimension behind it: both dimensions are seen as one.
  void merge_channels() {
    if (rows_.size() < 2) return;
    size_t u = rows_[rows_.size() - 2].iterator, v = rows_.back().iterator;
    const Access& a = windows();
    size_t d = dimensions_of(u)[0], e = dimensions_of(v)[0];
    const Shape& shape = tensor(a).shape;
    bool neighbours = e == d + 1 && a.index[d].affine.coefficient(u) == Rational(1);
    bool all = neighbours && a.index[e].affine == iterator_affine(v) && box(v) == shape[e];
    if (!all || e + 1 != shape.size() || is_constrained(piece(), v)) return;
    int64_t channels = box(v);
    layout::join_dimensions(piece(), 1 - plain_, d, u, channels, copies_);
    rows_.pop_back();
    rows_.back().channels = channels;
    rows_.back().channel = v;
  }

  // Rows of the copy are whole accesses.
  std::optional<TensorId> copy(std::vector<BoundStatement>& made) {
    const Access& from = windows();
    const BoundTensor source = tensor(from);
    int64_t each = kWideBytes / static_cast<int64_t>(byte_size(source.type));
    std::vector<Affine> place(piece().iterators.size(), constant_affine(0));
    Shape shape;
    std::vector<std::string> names;
    auto walk = [&](size_t u, int64_t extent) {
      place[u] = iterator_affine(shape.size());
      shape.push_back(extent);
      names.push_back(piece().iterators[u]);
    };
    for (size_t u : terms_) walk(u, box(u));
    for (const Row& r : rows_) walk(r.iterator, extent(r));
    int64_t last = shape.back();
    shape.back() = ceil_div(last, each) * each;
    bool pads = shape.back() != last;
    if (bytes_of(shape, source.type) > layout::kMostUnfoldedBytes) return std::nullopt;
    std::set<size_t> used;  // constraints that the copy keeps
    Access read =
        layout::read_for_copy(piece(), from, source.shape, place,
                              pads ? std::optional(rows_.back().iterator) : std::nullopt, used);
    if (used.size() != piece().constraints.size()) return std::nullopt;
    padded_ = shape.back();
    TensorId to = copies_.add(source.name + "_unfolded", source.type, std::move(shape));
    made.emplace_back(
        copies_.copied(to, read, std::move(names), pads ? std::optional(last) : std::nullopt));
    return to;
  }

  // The product of both matrices, and the statement that copies its result to where it belongs.
  void multiply(TensorId unfolded, std::vector<BoundStatement>& behind) {
    const Piece old = piece();
    TensorId output = c_.outputs[0];
    int64_t terms = 1, rows = 1;
    for (size_t u : terms_) terms = checked_mul(terms, old.box[u]);
    std::vector<int64_t> distance(rows_.size(), 1);  // of neighbours, in rows of the product
    for (size_t i = rows_.size(); i-- > 0;) {
      distance[i] = rows;
      rows = checked_mul(rows, i + 1 == rows_.size() ? padded_ : extent(rows_[i]));
    }
    Piece product;
    product.iterators.emplace_back("row");
    product.box.push_back(rows);
    Shape shape{rows}, seen{terms};
    Access made, plain;
    made.index.push_back({iterator_affine(0)});
    plain.index.push_back({iterator_affine(columns_.size() + 1)});
    for (size_t u : columns_) {
      Affine column = iterator_affine(product.box.size());
      made.index.push_back({column});
      plain.index.push_back({column});
      product.iterators.push_back(old.iterators[u]);
      product.box.push_back(old.box[u]);
      shape.push_back(old.box[u]);
      seen.push_back(old.box[u]);
    }
    product.parallel_dims = product.box.size();
    product.iterators.emplace_back("term");
    product.box.push_back(terms);
    const BoundTensor factor = tensor(old.loads[plain_]), matrix = copies_.tensor(unfolded),
                      result = copies_.tensor(output);
    plain.tensor = copies_.add(factor.name + "_matrix", factor.type, std::move(seen),
                               factor.view_of.value_or(old.loads[plain_].tensor));
    Access window;
    window.tensor = copies_.add(matrix.name + "_matrix", matrix.type, {terms, rows}, unfolded);
    window.index = {{iterator_affine(columns_.size() + 1)}, {iterator_affine(0)}};
    product.loads.resize(2);
    product.loads[plain_] = std::move(plain);
    product.loads[1 - plain_] = std::move(window);
    product.body = old.body;
    made.tensor = copies_.add(result.name + "_rows", result.type, std::move(shape));
    product.stores = {made};
    behind.emplace_back(copied_back(old, made.tensor, distance));
    c_.outputs = {made.tensor};
    c_.pieces[0] = std::move(product);
  }
  Contraction copied_back(const Piece& old, TensorId from,
                          const std::vector<int64_t>& distance) const {
    Access read;
    read.tensor = from;
    read.index = {{constant_affine(0)}};
    for (size_t i = 0; i < rows_.size(); ++i) {
      Affine tap = iterator_affine(rows_[i].iterator) * Rational(rows_[i].channels);
      if (rows_[i].channel) tap = tap + iterator_affine(*rows_[i].channel);
      read.index[0].affine = read.index[0].affine + tap * Rational(distance[i]);
    }
    for (size_t u : columns_) read.index.push_back({iterator_affine(u)});
    Contraction c;
    c.outputs = c_.outputs;
    c.accumulator = compute_type(copies_.tensor(from).type);
    c.normalized = true;
    Piece p;
    p.parallel_dims = old.parallel_dims;
    for (size_t u = 0; u < old.parallel_dims; ++u) {
      p.iterators.push_back(old.iterators[u]);
      p.box.push_back(old.box[u]);
    }
    p.stores = old.stores;
    for (Access& store : p.stores) keep_iterators(store, old.parallel_dims);
    p.loads = {std::move(read)};
    p.body.results = {p.body.cast(p.body.load(0, copies_.tensor(from).type), c.accumulator)};
    c.pieces = {std::move(p)};
    return c;
  }

  // Rows of the product: a parallel iterator of the windows, and where all of them are neighbours
  // of its own, those channels.
  struct Row {
    size_t iterator = 0;
    int64_t channels = 1;
    std::optional<size_t> channel;
  };
  int64_t extent(const Row& r) const { return box(r.iterator) * r.channels; }

  Contraction& c_;
  FactorCopies& copies_;
  size_t plain_ = 0;  // the load that is read where it lies
  std::vector<size_t> terms_, columns_;
  std::vector<Row> rows_;
  int64_t padded_ = 0;  // extent of the last row in the copy
};

}  // namespace

bool unfold_rows(Contraction& c, FactorCopies& copies, std::vector<BoundStatement>& made,
                 std::vector<BoundStatement>& behind) {
  return RowUnfolding(c, copies).run(made, behind);
}

}  // namespace tile
