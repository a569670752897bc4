#include "core/layout/factor_copies.h"

#include <algorithm>
#include <numeric>

#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/plain_contraction.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/collapse.h"
#include "core/schedule/cost/estimate.h"
#include "core/schedule/space/candidates.h"

namespace tile {
namespace {

// A value x in the 11 bits of tf32, and the rest: with c = (2^13 + 1) x, c - (c - x) is x
// rounded. Where c could overflow, x is scaled first. Of an infinity both are NaN.
Body split_value() {
  constexpr double kScale = 0x1p-20, kLarge = 0x1p100;
  Body b;
  auto operation = [&](Op op, NodeId x, NodeId y) { return b.operation(op, {x, y}, DType::f32); };
  auto choose = [&](NodeId large, NodeId yes, NodeId no) {
    return b.operation(Op::select, {large, yes, no}, DType::f32);
  };
  NodeId x = b.load(0, DType::f32);
  NodeId large = b.operation(
      Op::gt, {b.operation(Op::abs, {x}, DType::f32), b.real(kLarge, DType::f32)}, DType::bool_);
  NodeId scaled = choose(large, operation(Op::mul, x, b.real(kScale, DType::f32)), x);
  NodeId c = operation(Op::mul, scaled, b.real(0x1p13 + 1, DType::f32));
  NodeId rounded = operation(Op::sub, c, operation(Op::sub, c, scaled));
  NodeId high = choose(large, operation(Op::mul, rounded, b.real(1 / kScale, DType::f32)), rounded);
  b.results = {high, operation(Op::sub, x, high)};
  return b;
}

}  // namespace

std::optional<std::vector<IteratorId>> whole_dimensions(const Access& access, const Piece& piece,
                                                        const Shape& shape) {
  std::vector<IteratorId> list;
  for (size_t d = 0; d < access.index.size(); ++d) {
    IteratorId u = sole_iterator(access.index[d], piece);
    bool whole = u.valid() && piece.box[u] == shape[d] &&
                 std::find(list.begin(), list.end(), u) == list.end();
    if (!whole) return std::nullopt;
    list.push_back(u);
  }
  return list;
}

ProductExtents product_extents(const Piece& piece, const Access& first, const Access& second) {
  ProductExtents of;
  for (size_t u = 0; u < piece.box.size(); ++u) {
    bool a = moves_with(first, u), b = moves_with(second, u);
    if (u >= piece.parallel_dims && a && b) of.terms *= piece.box[u];
    if (u < piece.parallel_dims && a != b) (a ? of.rows : of.columns) *= piece.box[u];
  }
  return of;
}

std::optional<PieceClass> matrix_class(const Contraction& c, const BoundTensors& tensors) {
  bool form =
      is_plain_contraction(c) && c.pieces[0].loads.size() == 2 && c.pieces[0].constraints.empty();
  if (!form) return std::nullopt;
  PieceClass kind = classify(c.pieces[0], c, tensors);
  return kind.kind == KernelClass::matrix ? std::optional(std::move(kind)) : std::nullopt;
}

double alone_ns(const Contraction& c, const BoundProgram& program, const Target& target) {
  Kernel kernel;
  kernel.tensors = program.tensors;
  KernelStage stage;
  stage.contraction = c;
  kernel.stages.push_back(std::move(stage));
  kernel.reads = read_by(c);
  kernel.writes = c.outputs;
  collapse(kernel);
  return estimate(analytic_schedule(kernel, target), kernel, target);
}

int64_t bytes_of(const Shape& shape, DType type) {
  return checked_mul(element_count(shape), static_cast<int64_t>(byte_size(type)));
}

std::optional<size_t> only_dimension(const Access& access, size_t iterator) {
  std::optional<size_t> found;
  for (size_t d = 0; d < access.index.size(); ++d) {
    const Affine& form = access.index[d].affine;
    if (form.coefficient(iterator).is_zero()) continue;
    if (found || !(form.coefficient(iterator) == Rational(1))) return std::nullopt;
    found = d;
  }
  return found;
}

TensorId FactorCopies::add(const std::string& of, DType type, Shape shape,
                           std::optional<TensorId> view_of) {
  BoundTensor t;
  t.name = fresh_name(of);
  t.type = type;
  t.shape = std::move(shape);
  t.view_of = view_of;
  return program_.tensors.add(std::move(t));
}
std::string FactorCopies::fresh_name(const std::string& of) const {
  std::string name = of;
  auto taken = [&](const BoundTensor& t) { return t.name == name; };
  for (int i = 1; std::any_of(program_.tensors.begin(), program_.tensors.end(), taken); ++i) {
    name = of + std::to_string(i);
  }
  return name;
}

Contraction FactorCopies::copied(TensorId to, const Access& from, std::vector<std::string> names,
                                 std::optional<int64_t> limit) const {
  Piece piece;
  piece.iterators = IdVector<IteratorId, std::string>(std::move(names));
  piece.box = IterationBox(tensor(to).shape);
  piece.parallel_dims = piece.box.size();
  Access store;
  store.tensor = to;
  for (size_t u = 0; u < piece.parallel_dims; ++u) store.index.push_back({iterator_affine(u)});
  piece.stores = {std::move(store)};
  piece.loads = {from};
  Body& b = piece.body;
  DType type = compute_type(tensor(to).type);
  NodeId value = b.cast(b.load(0, tensor(from.tensor).type), type);
  if (limit) {
    size_t last = piece.parallel_dims - 1;
    NodeId inside = b.operation(Op::lt, {b.index(last, DType::i64), b.integer(*limit, DType::i64)},
                                DType::bool_);
    NodeId zero = is_float(type) ? b.real(0, type) : b.integer(0, type);
    value = b.operation(Op::select, {inside, value, zero}, type);
  }
  b.results = {value};
  Contraction c;
  c.outputs = {to};
  c.accumulator = type;
  c.normalized = true;
  c.pieces = {std::move(piece)};
  return c;
}

Access FactorCopies::reordered(const Access& from, const std::vector<size_t>& order,
                               std::vector<BoundStatement>& made) {
  return through(from, order, tensor(from.tensor).type, made);
}

Access FactorCopies::converted(const Access& from, DType type, std::vector<BoundStatement>& made) {
  std::vector<size_t> order(from.index.size());
  std::iota(order.begin(), order.end(), size_t{0});
  return through(from, order, type, made);
}

Access FactorCopies::through(const Access& from, const std::vector<size_t>& order, DType type,
                             std::vector<BoundStatement>& made) {
  const BoundTensor& t = tensor(from.tensor);
  Shape shape;
  for (size_t d : order) shape.push_back(t.shape[d]);
  Access read, result;
  read.tensor = from.tensor;
  read.index.resize(order.size());
  std::vector<std::string> names;
  for (size_t i = 0; i < order.size(); ++i) {
    read.index[order[i]].affine = iterator_affine(i);
    result.index.push_back(from.index[order[i]]);
    names.push_back("d" + std::to_string(i));
  }
  result.tensor = add(t.name + "_arranged", type, std::move(shape));
  made.emplace_back(copied(result.tensor, read, std::move(names)));
  return result;
}

std::pair<Access, Access> FactorCopies::in_parts(const Access& from,
                                                 const std::vector<size_t>& order,
                                                 std::vector<BoundStatement>& made) {
  const BoundTensor source = tensor(from.tensor);
  Contraction copy;
  Piece piece;
  Access read, high;
  read.tensor = from.tensor;
  read.index.resize(order.size());
  Shape shape;
  for (size_t i = 0; i < order.size(); ++i) {
    bool last = i + 1 == order.size();
    int64_t extent = source.shape[order[i]], each = kWideBytes / 4;
    piece.iterators.push_back("d" + std::to_string(i));
    piece.box.push_back(last ? ceil_div(extent, each) * each : extent);
    if (last) shape.push_back(2);
    shape.push_back(piece.box.back());
    read.index[order[i]].affine = iterator_affine(i);
    if (piece.box.back() != extent) read.index[order[i]].boundary = Boundary::constant;
    if (last) high.index.push_back({constant_affine(0)});
    high.index.push_back(from.index[order[i]]);
  }
  high.tensor = add(source.name + "_parts", DType::f32, std::move(shape));
  program_.tensors.edit(high.tensor).tf32_parts = true;
  Access rest = high, store = high, store_rest;
  rest.index[order.size() - 1].affine = constant_affine(1);
  for (size_t i = 0, u = 0; i < store.index.size(); ++i) {
    if (i + 1 != order.size()) store.index[i].affine = iterator_affine(u++);
  }
  store_rest = store;
  store_rest.index[order.size() - 1].affine = constant_affine(1);
  piece.parallel_dims = piece.box.size();
  piece.stores = {store, store_rest};
  piece.loads = {std::move(read)};
  piece.body = split_value();
  copy.outputs = {high.tensor, high.tensor};
  copy.accumulator = DType::f32;
  copy.normalized = true;
  copy.pieces = {std::move(piece)};
  made.emplace_back(std::move(copy));
  return {std::move(high), std::move(rest)};
}

}  // namespace tile
