#include "core/passes/optimize/whole_sums.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/plain_contraction.h"
#include "core/ir/analysis/uses.h"

namespace tile {
namespace {

// Iterators are the dimensions, in order.
bool is_identity(const Access& access, const Shape& shape, const IterationBox& box) {
  if (access.index.size() != box.size() || shape.size() != box.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d) {
    const Index& index = access.index[d];
    bool plain = is_plain_index(index);
    if (!plain || shape[d] != box[d] || !(index.affine == iterator_affine(d))) return false;
  }
  return true;
}

// The loads under a tree of additions, widened where they are narrow floats, in order; false:
// something else stands there.
bool addends(const Body& body, NodeId at, const Piece& piece, std::vector<TensorId>& terms) {
  const Node& node = body[before_widening(body, at)];
  if (node.kind == NodeKind::load) {
    terms.push_back(piece.loads[node.slot].tensor);
    return true;
  }
  bool adds = node.kind == NodeKind::operation && node.op == Op::add && node.args.size() == 2;
  return adds && addends(body, node.args[0], piece, terms) &&
         addends(body, node.args[1], piece, terms);
}

}  // namespace

namespace {

// A piece for each cell of the result, at which its only load reads what it stores.
bool is_copy(const Contraction& c, const BoundTensors& tensors) {
  if (!is_plain_contraction(c)) return false;
  const Piece& piece = c.pieces[0];
  const BoundTensor& result = tensors[c.outputs[0]];
  if (!piece.constraints.empty() || piece.parallel_dims != piece.box.size() ||
      piece.loads.size() != 1 || !is_identity(piece.stores[0], result.shape, piece.box)) {
    return false;
  }
  const BoundTensor& source = tensors[piece.loads[0].tensor];
  return piece.body[piece.body.results[0]].kind == NodeKind::load && source.type == result.type &&
         is_identity(piece.loads[0], source.shape, piece.box);
}

}  // namespace

std::optional<std::vector<TensorId>> whole_sum(const Contraction& c, const BoundTensors& tensors) {
  if (!is_plain_contraction(c) || c.aggregation != Aggregation::assign) return std::nullopt;
  const Piece& piece = c.pieces[0];
  const BoundTensor& result = tensors[c.outputs[0]];
  if (compute_type(result.type) != c.accumulator || !piece.constraints.empty() ||
      piece.loads.size() < 2 || piece.parallel_dims != piece.box.size() ||
      !is_identity(piece.stores[0], result.shape, piece.box)) {
    return std::nullopt;
  }
  for (const Access& load : piece.loads) {
    const BoundTensor& t = tensors[load.tensor];
    if (t.type != result.type || !is_identity(load, t.shape, piece.box)) return std::nullopt;
  }
  std::vector<TensorId> terms;
  if (!addends(piece.body, piece.body.results[0], piece, terms)) return std::nullopt;
  return terms;
}

std::vector<Index> identity_index(size_t rank) {
  std::vector<Index> index;
  for (size_t d = 0; d < rank; ++d) index.push_back({iterator_affine(d)});
  return index;
}

void insert_statements(BoundProgram& program, std::vector<std::vector<BoundStatement>> before,
                       const std::set<size_t>& gone) {
  std::vector<BoundStatement> all;
  for (size_t s = 0; s < before.size(); ++s) {
    std::move(before[s].begin(), before[s].end(), std::back_inserter(all));
    if (!gone.contains(s)) all.push_back(std::move(program.statements[s]));
  }
  program.statements = std::move(all);
}

Piece over_box(TensorId to, const IterationBox& box) {
  Piece piece;
  for (size_t d = 0; d < box.size(); ++d) piece.iterators.push_back("i" + std::to_string(d));
  piece.box = box;
  piece.parallel_dims = box.size();
  piece.stores = {{to, identity_index(box.size()), {}}};
  return piece;
}

Contraction sum_of_whole(TensorId result, const std::vector<TensorId>& terms,
                         const BoundTensors& tensors, Span span) {
  const BoundTensor& made = tensors[result];
  IterationBox box;
  for (int64_t extent : made.shape) box.push_back(extent);
  Piece piece = over_box(result, box);
  DType type = compute_type(made.type);
  NodeId sum;
  for (TensorId term : terms) {
    NodeId value =
        piece.body.cast(piece.body.load(piece.loads.size(), made.type, span), type, span);
    piece.loads.push_back({term, identity_index(box.size()), span});
    sum = sum.valid() ? piece.body.operation(Op::add, {sum, value}, type, span) : value;
  }
  piece.body.results = {sum};
  Contraction c;
  c.outputs = {result};
  c.accumulator = type;
  c.normalized = true;
  c.span = span;
  c.pieces.push_back(std::move(piece));
  return c;
}

TensorUses::TensorUses(const BoundProgram& program)
    : program_(program),
      readings_(program.tensors.size(), 0),
      makers_(program.tensors.size()),
      names_(program.tensors) {
  for (const BoundTensor& t : program.tensors) {
    if (t.view_of) readings_[*t.view_of] += 2;
  }
  for (TensorId id : program.outputs) readings_[id] += 2;
  for (size_t s = 0; s < program.statements.size(); ++s) {
    const BoundStatement& statement = program.statements[s];
    for (TensorId id : written_by(statement)) makers_[id] = s;
    const auto* c = std::get_if<Contraction>(&statement);
    if (c == nullptr || c->fill) {
      for (TensorId id : read_by(statement)) readings_[id] += 2;
    }
    if (c == nullptr) continue;
    for (const Piece& piece : c->pieces) {
      for (const Access& load : piece.loads) ++readings_[load.tensor];
    }
  }
}

std::optional<size_t> TensorUses::maker(TensorId id) const {
  return makers_.contains(id) ? makers_[id] : std::nullopt;
}

TensorId TensorUses::origin(TensorId id) const {
  for (;;) {
    std::optional<size_t> by = maker(id);
    const auto* c = by ? std::get_if<Contraction>(&program_.statements[*by]) : nullptr;
    if (c == nullptr || !is_copy(*c, program_.tensors)) return id;
    id = c->pieces[0].loads[0].tensor;
  }
}

std::optional<size_t> TensorUses::sole_maker(TensorId id) const {
  if (!makers_.contains(id) || !makers_[id] || readings_[id] != 1) return std::nullopt;
  const BoundTensor& t = program_.tensors[id];
  const auto* c = std::get_if<Contraction>(&program_.statements[*makers_[id]]);
  bool plain = c != nullptr && c->normalized && c->outputs.size() == 1 && !c->fill &&
               c->accumulator == compute_type(t.type) && t.role == TensorRole::temporary &&
               !t.view_of;
  return plain ? makers_[id] : std::nullopt;
}

}  // namespace tile
