// A sum of tensors of which no two have values in one cell is no addition: S[t, …] = T0[t, …] +
// T1[t, …] + … where Tk is zero but at t = k is one statement with a piece for each k. The gradient
// of a tensor that is read at literal indices, the steps of a loop written out, is such a sum;
// added up, it would take one whole tensor for each step.
//
// Sums of narrow floats, too: each cell of a term is rounded once, as it was, and adding zeros
// rounds nothing.
//
// Proof: cells of two terms differ in one dimension, by an interval or by a remainder that all
// indices of the one have there and none of the other. In a cell of one term the others are +0, and
// (x + 0) + … + 0 is x + 0, in floats, too, whatever x is; x + 0 differs from x only where x is -0.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "core/kernel/coverage.h"
#include "core/passes/optimize/optimize.h"
#include "core/passes/optimize/whole_sums.h"
#include "core/support/checked.h"
#include "core/support/control.h"

namespace tile {
namespace {

// The indices that a store has along one dimension: first, first + step, … up to last.
struct Places {
  int64_t first, last, step;  // a step of 0: one place
};
using Cells = std::vector<Places>;  // of all dimensions

std::optional<Cells> cells_of(const Piece& piece) {
  Cells cells;
  for (const Index& index : piece.stores[0].index) {
    if (!index.affine.is_integral()) return std::nullopt;
    FormRange range = range_over_box(index.affine, piece.box);
    int64_t step = 0;
    for (const Rational& a : index.affine.coefficients) step = gcd(step, a.num());
    cells.push_back({range.lo.num(), range.hi.num(), step});
  }
  return cells;
}

bool apart(const Places& a, const Places& b) {
  if (a.last < b.first || b.last < a.first) return true;
  int64_t step = gcd(a.step, b.step);
  return step > 1 && (a.first - b.first) % step != 0;
}
bool apart(const Cells& a, const Cells& b) {
  for (size_t d = 0; d < a.size(); ++d) {
    if (apart(a[d], b[d])) return true;
  }
  return false;
}

struct Term {
  TensorId tensor;
  std::optional<size_t> maker;  // of a term that can be part of an assembly
  std::vector<Cells> cells;
};
bool apart(const Term& a, const Term& b) {
  return std::all_of(a.cells.begin(), a.cells.end(), [&](const Cells& one) {
    return std::all_of(b.cells.begin(), b.cells.end(),
                       [&](const Cells& other) { return apart(one, other); });
  });
}

bool has_points(const Piece& piece) {
  return std::all_of(piece.box.begin(), piece.box.end(), [](int64_t n) { return n > 0; });
}
bool reduces(const Piece& piece) { return piece.parallel_dims != piece.box.size(); }

// The value with +0 for -0, as a sum with +0 has it.
NodeId without_negative_zero(Body& body, NodeId value, DType type, Span span) {
  if (!is_float(type)) return value;
  NodeId zero = body.real(0, type, span);
  return body.operation(Op::add, {value, zero}, type, span);
}
bool is_zero(const Node& node) {
  return node.kind == NodeKind::real && node.real == 0 && !std::signbit(node.real);
}

class Assembly {
 public:
  explicit Assembly(BoundProgram& program) : program_(program), uses_(program) {}

  void run() {
    size_t count = program_.statements.size();
    std::vector<std::vector<BoundStatement>> before(count);
    for (size_t s = 0; s < count; ++s) {
      checkpoint();
      auto* c = std::get_if<Contraction>(&program_.statements[s]);
      std::optional<std::vector<TensorId>> terms =
          c == nullptr ? std::nullopt : whole_sum(*c, program_.tensors);
      if (terms) rewrite(*c, *terms, before[s]);
    }
    insert_statements(program_, std::move(before), gone_);
  }

 private:
  const Contraction& statement(size_t s) const {
    return std::get<Contraction>(program_.statements[s]);
  }

  Term term_of(TensorId id) const {
    Term term{id, uses_.sole_maker(id), {}};
    if (!term.maker) return term;
    const Contraction& c = statement(*term.maker);
    // A sum has a tensor of its own for what it is the sum of, without the places that are none of
    // its points.
    bool one = c.pieces.size() == 1, plain = c.aggregation == Aggregation::assign;
    for (const Piece& piece : c.pieces) {
      if (!has_points(piece)) continue;
      std::optional<Cells> cells = cells_of(piece);
      bool fits = cells && (one || (plain && !reduces(piece))) && are_inside(*cells, id);
      if (!fits) return {id, std::nullopt, {}};
      term.cells.push_back(std::move(*cells));
    }
    if (term.cells.empty()) term.maker = std::nullopt;
    return term;
  }

  // Conditions may leave only a part of the box inside the tensor, which a copy would not have.
  bool are_inside(const Cells& cells, TensorId id) const {
    const Shape& shape = program_.tensors[id].shape;
    for (size_t d = 0; d < cells.size(); ++d) {
      if (cells[d].first < 0 || cells[d].last >= shape[d]) return false;
    }
    return true;
  }

  // Terms that share no cells, as many as can be; the first of a group tells its place.
  std::vector<std::vector<Term>> groups_of(const std::vector<TensorId>& terms) const {
    std::vector<std::vector<Term>> groups;
    for (TensorId id : terms) {
      Term term = term_of(id);
      auto takes = [&](const std::vector<Term>& group) {
        return term.maker && group[0].maker &&
               std::all_of(group.begin(), group.end(),
                           [&](const Term& other) { return apart(other, term); });
      };
      auto at = std::find_if(groups.begin(), groups.end(), takes);
      if (at == groups.end()) at = groups.emplace(at);
      at->push_back(std::move(term));
    }
    return groups;
  }

  void rewrite(Contraction& sum, const std::vector<TensorId>& terms,
               std::vector<BoundStatement>& before) {
    std::vector<std::vector<Term>> groups = groups_of(terms);
    if (groups.size() == terms.size()) return;
    TensorId result = sum.outputs[0];
    Span span = sum.span;
    if (groups.size() == 1) {
      sum = assembled(result, groups[0], span);
      return;
    }
    std::vector<TensorId> left;
    for (const std::vector<Term>& group : groups) {
      left.push_back(group[0].tensor);
      if (group.size() == 1) continue;
      BoundTensor whole = program_.tensors[result];
      whole.role = TensorRole::temporary;
      whole.name = uses_.fresh_name(whole.name + "_whole");
      left.back() = program_.tensors.add(std::move(whole));
      before.emplace_back(assembled(left.back(), group, span));
    }
    sum = sum_of_whole(result, left, program_.tensors, span);
  }

  Contraction assembled(TensorId result, const std::vector<Term>& group, Span span) {
    Contraction whole;
    whole.outputs = {result};
    whole.accumulator = compute_type(program_.tensors[result].type);
    whole.normalized = true;
    whole.span = span;
    for (const Term& term : group) {
      auto& maker = std::get<Contraction>(program_.statements[*term.maker]);
      bool sums = std::any_of(maker.pieces.begin(), maker.pieces.end(), reduces);
      if (!sums) gone_.insert(*term.maker);
      std::vector<Piece> pieces = sums ? std::vector{copied(maker)} : maker.pieces;
      for (Piece& piece : pieces) {
        piece.stores[0].tensor = result;
        if (!sums) add_zero(piece, whole.accumulator);
        if (has_points(piece)) whole.pieces.push_back(std::move(piece));
      }
    }
    return whole;
  }

  void add_zero(Piece& piece, DType type) const {
    NodeId value = piece.body.results[0];
    if (is_never_negative_zero(piece, value)) return;
    piece.body.results = {without_negative_zero(piece.body, value, type, piece.body[value].span)};
  }
  bool is_never_negative_zero(const Piece& piece, NodeId value) const {
    const Node& node = piece.body[value];
    if (node.kind == NodeKind::operation && node.op == Op::add) {
      return is_zero(piece.body[node.args[0]]) || is_zero(piece.body[node.args[1]]);
    }
    std::optional<size_t> maker;
    if (node.kind == NodeKind::load) maker = uses_.maker(piece.loads[node.slot].tensor);
    const auto* c = maker ? std::get_if<Contraction>(&program_.statements[*maker]) : nullptr;
    if (c == nullptr || c->fill || !c->normalized || c->outputs.size() != 1) return false;
    return std::all_of(c->pieces.begin(), c->pieces.end(), [](const Piece& p) {
      const Node& of = p.body[p.body.results[0]];
      return !reduces(p) && of.kind == NodeKind::operation && of.op == Op::add &&
             (is_zero(p.body[of.args[0]]) || is_zero(p.body[of.args[1]]));
    });
  }

  // Makes the statement's tensor one of its points alone, and gives the piece that copies it to
  // where it was.
  Piece copied(Contraction& maker) {
    Piece& made = maker.pieces[0];
    IterationBox box;
    for (size_t d = 0; d < made.parallel_dims; ++d) box.push_back(made.box[IteratorId(d)]);
    const BoundTensor& before = program_.tensors[maker.outputs[0]];
    BoundTensor part = before;
    part.name = uses_.fresh_name(before.name + "_part");
    part.shape.assign(box.begin(), box.end());
    DType type = part.type;
    TensorId id = program_.tensors.add(std::move(part));
    Piece copy = over_box(id, box);
    copy.loads = copy.stores;
    copy.stores = made.stores;
    DType wide = compute_type(type);
    NodeId value = copy.body.cast(copy.body.load(0, type, maker.span), wide, maker.span);
    copy.body.results = {without_negative_zero(copy.body, value, wide, maker.span)};
    made.stores = copy.loads;
    maker.outputs = {id};
    return copy;
  }

  BoundProgram& program_;
  TensorUses uses_;
  std::set<size_t> gone_;  // statements that are parts of others
};

}  // namespace

void assemble_sums(BoundProgram& program, const Target&) { Assembly(program).run(); }

}  // namespace tile
