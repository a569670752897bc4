// Contractions whose terms are divided: partial results, their sum over ranks, and what cells
// without any term get.
#include <algorithm>
#include <limits>

#include "core/distribute/partitioner.h"
#include "core/support/checked.h"

namespace tile {

Piece cells_of(TensorId result, size_t dims) {
  Piece piece;
  Access store;
  store.tensor = result;
  for (size_t d = 0; d < dims; ++d) {
    piece.iterators.push_back("c" + std::to_string(d));
    store.index.push_back({iterator_affine(d)});
  }
  piece.stores.push_back(std::move(store));
  return piece;
}

NodeId load_of(Piece& piece, TensorId tensor, DType type) {
  Access load = piece.stores[0];
  load.tensor = tensor;
  piece.loads.push_back(std::move(load));
  return piece.body.load(piece.loads.size() - 1, type);
}

namespace {

Contraction of_piece(Piece piece, TensorId result, Aggregation aggregation, DType accumulator,
                     Span span) {
  Contraction c;
  c.outputs.push_back(result);
  c.aggregation = aggregation;
  c.accumulator = accumulator;
  c.pieces.push_back(std::move(piece));
  c.span = span;
  return c;
}

int64_t largest(DType type) {
  if (type == DType::bool_) return 1;
  if (type == DType::u64) return -1;  // its bits
  int bits = bit_width(type) - (is_signed_integer(type) ? 1 : 0);
  return bits == 63 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << bits) - 1;
}

int64_t smallest(DType type) { return is_signed_integer(type) ? -largest(type) - 1 : 0; }

// What changes no value that it is aggregated with.
NodeId identity(Body& body, Aggregation aggregation, DType type) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (aggregation) {
    case Aggregation::product:
      return is_float(type) ? body.real(1, type) : body.integer(1, type);
    case Aggregation::max:
      return is_float(type) ? body.real(-kInfinity, type) : body.integer(smallest(type), type);
    case Aggregation::min:
      return is_float(type) ? body.real(kInfinity, type) : body.integer(largest(type), type);
    default:
      return is_float(type) ? body.real(0, type) : body.integer(0, type);
  }
}

// Whether every cell has a term wherever the program runs: some piece walks every dimension with an
// index of its own, and no condition ties two of its iterators together or leaves holes.
bool covers_all(const BoundProgram& program, const Contraction& c) {
  const Shape& shape = program.tensors[c.outputs[0]].shape;
  auto alone = [](const Affine& form) {
    return std::count_if(form.coefficients.begin(), form.coefficients.end(),
                         [](const Rational& r) { return !r.is_zero(); }) <= 1;
  };
  return std::any_of(c.pieces.begin(), c.pieces.end(), [&](const Piece& piece) {
    if (piece.stores.size() != 1) return false;
    std::vector<size_t> used;
    for (size_t d = 0; d < shape.size(); ++d) {
      const Affine& form = piece.stores[0].index[d].affine;
      if (shape[d] == 1 && form == constant_affine(0)) continue;
      std::optional<size_t> iterator = single_iterator(form);
      bool fresh = iterator && std::find(used.begin(), used.end(), *iterator) == used.end();
      if (!fresh || !form.constant.is_zero()) return false;
      IndexRange range = range_of(program, piece, piece.iterators[*iterator]);
      if (range.lo != 0 || range.hi != shape[d]) return false;
      used.push_back(*iterator);
    }
    for (const Access& load : piece.loads) {
      for (const Index& index : load.index) {
        if (index.boundary != Boundary::in_range) continue;
        bool holes = index.value >= 0 || !alone(index.affine) || !index.affine.is_integral();
        if (holes) return false;
      }
    }
    bool separate =
        std::all_of(piece.constraints.begin(), piece.constraints.end(), [&](const Constraint& k) {
          return alone(k.form) && (!k.integral || k.form.is_integral());
        });
    return separate && !needs_of(program, piece, whole_box(shape), {}).empty;
  });
}

}  // namespace

bool needs_marks(const BoundProgram& program, const Contraction& c) {
  return (c.aggregation != Aggregation::sum || c.fill) && !covers_all(program, c);
}

TensorLayout layout_of_sums(const BoundProgram& program, const Contraction& c,
                            const TensorLayout& layout, const PartialSums& sums, const Mesh& mesh,
                            const Links& links) {
  auto parts = static_cast<double>(parts_of(mesh, sums.axes));
  bool used =
      std::any_of(sums.axes.begin(), sums.axes.end(), [&](size_t a) { return layout.uses(a); });
  double most = 0;
  for (const Box& box : sums.boxes) most = std::max(most, static_cast<double>(box.count()));
  double bytes = most * static_cast<double>(sums.element_bytes);
  Link link = links.over(sums.axes);
  bool worth = bytes * (parts - 2) / parts > link.latency_ns * link.bytes_per_ns;
  if (used || !worth) return layout;
  // The longest dimension that nothing cuts yet; components of tuples stay together.
  const Shape& shape = program.tensors[c.outputs[0]].shape;
  size_t dims = shape.size() - (c.outputs.size() > 1 ? 1 : 0);
  std::optional<size_t> longest;
  for (size_t d = 0; d < dims; ++d) {
    if (layout.dims[d].whole() && (!longest || shape[d] > shape[*longest])) longest = d;
  }
  if (!longest || static_cast<double>(shape[*longest]) < parts) return layout;
  TensorLayout divided = layout;
  divided.dims[*longest] = even_cut(mesh, sums.axes, shape[*longest]);
  return divided;
}

TensorLayout Partitioner::layout_of_sums(const Contraction& c, const ContractionPlan& plan) const {
  PartialSums sums{plan.boxes, plan.axes(), static_cast<int64_t>(byte_size(c.accumulator))};
  return tile::layout_of_sums(program_, c, d_.layouts[c.outputs[0]], sums, d_.mesh, options_.links);
}

void Partitioner::sum_over_ranks(const Contraction& c, const ContractionPlan& plan) {
  TensorId id = c.outputs[0];
  const BoundTensor& tensor = at(id);
  TensorLayout layout = layout_of_sums(c, plan);
  std::vector<Box> boxes = boxes_of(layout, tensor.shape, d_.mesh);
  // Cells without a term on this rank must not change those of others.
  std::optional<TensorId> fill;
  bool sum = c.aggregation == Aggregation::sum;
  if (!sum) fill = identities(c, plan.boxes);
  TensorId partial =
      ranks_.declare(tensor.name + ".terms", c.accumulator, TensorRole::temporary, plan.boxes);
  emit(c, plan, partial, fill);
  StoredTensor from{partial, plan.computed, plan.boxes};
  from.layout.partial = plan.axes();
  std::optional<TensorId> covered;
  if (needs_marks(program_, c)) covered = coverage(c, plan, layout);
  bool at_once = !covered && c.accumulator == tensor.type;
  bool stays = layout == d_.layouts[id];
  TensorId result =
      stays ? declare_result(id, boxes)
            : ranks_.declare(tensor.name + ".parts", tensor.type, TensorRole::temporary, boxes);
  TensorId total =
      at_once ? result
              : ranks_.declare(tensor.name + ".sum", c.accumulator, TensorRole::temporary, boxes);
  ranks_.exchange(from, total, needs_of_boxes(boxes), c.aggregation, c.span);
  if (!at_once) finish(c, total, covered, boxes, result);
  store_computed(id, layout, result, c.span);
}

TensorId Partitioner::identities(const Contraction& c, const std::vector<Box>& boxes) {
  const BoundTensor& tensor = at(c.outputs[0]);
  TensorId id =
      ranks_.declare(tensor.name + ".identity", c.accumulator, TensorRole::temporary, boxes);
  for (size_t r = 0; r < ranks_.ranks(); ++r) {
    Piece piece = cells_of(id, tensor.shape.size());
    piece.body.results.push_back(identity(piece.body, c.aggregation, c.accumulator));
    ranks_.add(r, of_piece(std::move(piece), id, Aggregation::assign, c.accumulator, c.span));
  }
  return id;
}

TensorId Partitioner::coverage(const Contraction& c, const ContractionPlan& plan,
                               const TensorLayout& layout) {
  const BoundTensor& tensor = at(c.outputs[0]);
  Contraction marks = of_piece({}, {}, Aggregation::max, DType::i32, c.span);
  marks.outputs = c.outputs;
  marks.pieces.clear();
  for (Piece piece : c.pieces) {
    for (const Access& load : piece.loads) {
      const Shape& shape = at(load.tensor).shape;
      for (size_t d = 0; d < load.index.size(); ++d) {
        const Index& index = load.index[d];
        internal_check(index.value < 0 || index.boundary != Boundary::in_range,
                       "partition: terms that data decides are divided");
        if (index.value >= 0 || index.boundary != Boundary::in_range) continue;
        piece.constraints.push_back({index.affine, 0, shape[d], true});
      }
    }
    piece.loads.clear();
    piece.body = Body();
    NodeId one = piece.body.integer(1, DType::i32);
    piece.body.results.assign(piece.stores.size(), one);
    marks.pieces.push_back(std::move(piece));
  }
  ContractionPlan unread = plan;
  unread.windows = {};
  unread.windows.of_load.resize(c.pieces.size());
  for (std::vector<PieceNeeds>& of_rank : unread.needs) {
    for (PieceNeeds& needs : of_rank) needs.loads.clear();
  }
  TensorId partial =
      ranks_.declare(tensor.name + ".marks", DType::i32, TensorRole::temporary, plan.boxes);
  emit(marks, unread, partial, std::nullopt);
  StoredTensor from{partial, plan.computed, plan.boxes};
  from.layout.partial = plan.axes();
  std::vector<Box> boxes = boxes_of(layout, tensor.shape, d_.mesh);
  TensorId result =
      ranks_.declare(tensor.name + ".covered", DType::i32, TensorRole::temporary, boxes);
  ranks_.exchange(from, result, needs_of_boxes(boxes), Aggregation::max, c.span);
  return result;
}

void Partitioner::finish(const Contraction& c, TensorId value, std::optional<TensorId> covered,
                         const std::vector<Box>& boxes, TensorId result) {
  const BoundTensor& tensor = at(c.outputs[0]);
  DType type = tensor.type == DType::bool_ ? DType::bool_ : compute_type(tensor.type);
  std::optional<TensorId> fill;
  if (c.fill && covered) fill = exact(*c.fill, boxes, c.span);
  for (size_t r = 0; r < ranks_.ranks(); ++r) {
    Piece piece = cells_of(result, tensor.shape.size());
    Body& body = piece.body;
    NodeId last = body.cast(load_of(piece, value, c.accumulator), type);
    if (covered) {
      NodeId mark = load_of(piece, *covered, DType::i32);
      NodeId is_covered = body.operation(Op::gt, {mark, body.integer(0, DType::i32)}, DType::bool_);
      NodeId other = fill ? body.cast(load_of(piece, *fill, tensor.type), type)
                          : identity(body, Aggregation::sum, type);
      last = body.operation(Op::select, {is_covered, last, other}, type);
    }
    body.results.push_back(last);
    ranks_.add(r, of_piece(std::move(piece), result, Aggregation::assign, type, c.span));
  }
}

}  // namespace tile
