#include "core/layout/own_scores.h"

#include <algorithm>
#include <set>

#include "core/ir/analysis/fresh_names.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/forms/stream_pattern.h"
#include "core/passes/normalize/fold_constants.h"
#include "core/passes/normalize/index_forms.h"
#include "core/passes/normalize/substitution.h"

namespace tile::layout {
namespace {

// The same piece, iterator `order[i]` being number i.
Piece with_iterators_in_order(const Piece& piece, const std::vector<size_t>& order) {
  std::vector<size_t> now(order.size());  // by iterator
  for (size_t to = 0; to < order.size(); ++to) now[order[to]] = to;
  std::vector<Affine> moved;
  for (size_t to : now) moved.push_back(iterator_affine(to));
  auto form = [&](const Affine& a) { return substitute(a, moved); };
  Piece result = piece;
  for (size_t to = 0; to < order.size(); ++to) {
    result.iterators[IteratorId(to)] = piece.iterators[IteratorId(order[to])];
    result.box[IteratorId(to)] = piece.box[IteratorId(order[to])];
  }
  for (Constraint& c : result.constraints) c.form = form(c.form);
  for (std::vector<Access>* list : {&result.loads, &result.stores}) {
    for (Access& a : *list) {
      for (Index& index : a.index) index.affine = form(index.affine);
    }
  }
  change_nodes(result.body, [&](Node& n) {
    if (n.kind == NodeKind::index) n.slot = now[n.slot];
  });
  return result;
}

class OwnScores {
 public:
  OwnScores(BoundProgram& program, const ScoreRegion& region)
      : program_(program), region_(region), names_(program.tensors) {}

  Instead run(const std::vector<Sharing>& lists) {
    for (const Sharing& list : lists) {
      for (size_t user : list.users) instead_[user] = {};
      instead_[list.users.back()] = copied(list);
    }
    drop_unread();
    return std::move(instead_);
  }

 private:
  const Contraction& statement(size_t i) const {
    return std::get<Contraction>(program_.statements[i]);
  }
  std::optional<size_t> maker(TensorId id) const {
    for (size_t i : region_.cells) {
      if (statement(i).outputs[0] == id) return i;
    }
    return std::nullopt;
  }

  std::vector<BoundStatement> copied(const Sharing& list) {
    std::set<size_t> needed;
    std::vector<size_t> open = list.users;
    while (!open.empty()) {
      size_t i = open.back();
      open.pop_back();
      for (const Access& a : statement(i).pieces[0].loads) {
        std::optional<size_t> made = maker(a.tensor);
        if (made && needed.insert(*made).second) open.push_back(*made);
      }
    }
    std::map<TensorId, TensorId> own;
    std::vector<BoundStatement> made;
    const std::vector<Constraint> conditions = conditions_of(list);
    for (size_t i : needed) {
      Contraction c = reading(statement(i), own);
      decide(c.pieces[0], i, conditions, list.users[0]);
      TensorId before = c.outputs[0];
      own[before] = add(program_.tensors[before], program_.tensors[before].shape,
                        program_.tensors[before].type);
      c.outputs[0] = c.pieces[0].stores[0].tensor = own[before];
      made.emplace_back(std::move(c));
    }
    for (size_t i : list.users) add_user(i, reading(statement(i), own), made);
    return made;
  }
  // The conditions that all users have, on the first one's iterators.
  std::vector<Constraint> conditions_of(const Sharing& list) const {
    const Piece& first = statement(list.users[0]).pieces[0];
    for (size_t user : list.users) {
      IdVector<IteratorId, IteratorId> of;
      for (size_t u = 0; u < first.box.size(); ++u) of.push_back(same_axis(list.users[0], u, user));
      if (!stream::keeps_conditions(statement(user).pieces[0], first, of)) return {};
    }
    return first.constraints;
  }
  // The iterator of another statement that runs over the same axis.
  IteratorId same_axis(size_t i, size_t iterator, size_t other) const {
    std::optional<size_t> axis = region_.axes.at(i)[iterator];
    const auto& axes = region_.axes.at(other);
    auto at = axis ? std::find(axes.begin(), axes.end(), axis) : axes.end();
    return at == axes.end() ? IteratorId() : IteratorId(static_cast<size_t>(at - axes.begin()));
  }
  // Comparisons that the conditions of all users decide: no other cell is read.
  void decide(Piece& piece, size_t i, const std::vector<Constraint>& conditions,
              size_t user) const {
    Piece known = piece;
    for (const Constraint& c : conditions) {
      Constraint here = c;
      here.form = constant_affine(c.form.constant);
      for (size_t u = 0; u < c.form.coefficients.size(); ++u) {
        if (c.form.coefficient(u).is_zero()) continue;
        IteratorId at = same_axis(user, u, i);
        if (!at.valid()) return;
        here.form = here.form + iterator_affine(at) * c.form.coefficient(u);
      }
      known.constraints.push_back(std::move(here));
    }
    IndexForms forms(known);
    known.body = rewritten(piece.body, [&](Body& body, const Node& n) -> NodeId {
      if (n.kind != NodeKind::operation) return NodeId();
      std::optional<bool> truth = forms.decided(body, n);
      return truth ? body.integer(*truth ? 1 : 0, DType::bool_, n.span) : NodeId();
    });
    piece.body = tidied(with_constants_folded(program_, known));
    drop_unused_loads(piece);
  }
  static Contraction reading(Contraction c, const std::map<TensorId, TensorId>& own) {
    for (Access& a : c.pieces[0].loads) {
      auto found = own.find(a.tensor);
      if (found != own.end()) a.tensor = found->second;
    }
    return c;
  }
  TensorId add(BoundTensor like, Shape shape, DType type) {
    like.name = names_.get(like.name);
    like.shape = std::move(shape);
    like.type = type;
    like.role = TensorRole::temporary;
    return program_.tensors.add(std::move(like));
  }

  // A sum over several axes (heads that share keys) is one over the longest of them, and then over
  // the others.
  void add_user(size_t i, Contraction c, std::vector<BoundStatement>& made) {
    const std::vector<ScoreRegion::Reduced>& reduced = region_.reduced.at(i);
    if (reduced.size() == 1) {
      made.emplace_back(std::move(c));
      return;
    }
    const Piece& before = c.pieces[0];
    size_t longest = reduced[0].iterator;
    for (const auto& r : reduced) {
      if (before.box[r.iterator] > before.box[longest]) longest = r.iterator;
    }
    std::vector<size_t> order, later;
    for (size_t u = 0; u < before.parallel_dims; ++u) order.push_back(u);
    for (const auto& r : reduced) {
      if (r.iterator != longest) later.push_back(r.iterator);
    }
    order.insert(order.end(), later.begin(), later.end());
    for (size_t u = before.parallel_dims; u < before.box.size(); ++u) {
      if (std::find(later.begin(), later.end(), u) == later.end()) order.push_back(u);
    }
    Piece piece = with_iterators_in_order(before, order);
    piece.parallel_dims += later.size();
    auto [part, total] = in_parts(c, std::move(piece), later.size());
    made.emplace_back(std::move(part));
    made.emplace_back(std::move(total));
  }
  // The sum of the piece for each value of its last parallel dimensions, and the sum of those.
  std::pair<Contraction, Contraction> in_parts(const Contraction& c, Piece piece, size_t parts) {
    size_t dims = piece.parallel_dims;
    Shape shape;
    Access cell;
    for (size_t u = 0; u < dims; ++u) {
      shape.push_back(piece.box[u]);
      cell.index.push_back({iterator_affine(u), -1, Boundary::in_range});
    }
    cell.tensor = add(program_.tensors[c.outputs[0]], shape, c.accumulator);
    Contraction total = c, part = c;
    Piece sum = piece;
    sum.constraints.clear();
    sum.iterators.resize(dims);
    sum.box.resize(dims);
    sum.parallel_dims = dims - parts;
    sum.loads = {cell};
    sum.body = Body();
    sum.body.results = {sum.body.load(0, c.accumulator)};
    total.pieces = {std::move(sum)};
    piece.stores = {cell};
    part.outputs = {cell.tensor};
    part.pieces = {std::move(piece)};
    return {std::move(part), std::move(total)};
  }

  // Statements of the region that neither what stays nor what came reads, last ones first.
  void drop_unread() {
    for (auto i = region_.cells.rbegin(); i != region_.cells.rend(); ++i) {
      TensorId made = statement(*i).outputs[0];
      auto reads = [&](size_t j) {
        return !instead_.contains(j) && contains(read_by(program_.statements[j]), made);
      };
      bool read = std::any_of(region_.cells.begin(), region_.cells.end(), reads) ||
                  std::any_of(region_.users.begin(), region_.users.end(), reads);
      if (!read) instead_[*i] = {};
    }
  }

  BoundProgram& program_;
  const ScoreRegion& region_;
  FreshNames names_;
  Instead instead_;
};

}  // namespace

Instead own_scores(BoundProgram& program, const ScoreRegion& region,
                   const std::vector<Sharing>& lists) {
  return OwnScores(program, region).run(lists);
}

bool moves_behind(const BoundProgram& program, size_t i, size_t j) {
  std::vector<TensorId> made = written_by(program.statements[i]);
  for (size_t k = i + 1; k <= j; ++k) {
    for (TensorId id : read_by(program.statements[k])) {
      if (contains(made, storage_of(program, id))) return false;
    }
  }
  return true;
}

}  // namespace tile::layout
