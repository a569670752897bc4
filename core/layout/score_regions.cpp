#include "core/layout/score_regions.h"

#include <algorithm>

#include "core/fusion/stream_regions.h"
#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/plain_contraction.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/forms/stream_pattern.h"

namespace tile::layout {

namespace {

class RegionFinder {
 public:
  RegionFinder(const BoundProgram& program, const Target& target, const StatementUses& uses)
      : program_(program), target_(target), uses_(uses) {}

  std::optional<ScoreRegion> at(size_t scores) {
    bool begins =
        makes_scores(scores) && stream::are_large(*contraction(scores), program_.tensors, target_);
    if (!begins) return std::nullopt;
    rank_ = many(piece(scores));
    std::vector<size_t> open{scores};
    while (!open.empty()) {
      size_t i = open.back();
      open.pop_back();
      if (region_.cells.contains(i) || region_.users.contains(i)) continue;
      bool cell = is_cell(i);
      (cell ? region_.cells : region_.users).insert(i);
      if (!cell) continue;
      TensorId made = contraction(i)->outputs[0];
      made_.insert(made);
      for (size_t r : uses_.readers(made)) open.push_back(r);
      for (size_t other : scores_beside(i)) open.push_back(other);
    }
    number_axes(scores);
    for (size_t i : region_.cells) find_axes(i);
    for (size_t i : region_.users) {
      find_axes(i);
      find_reduced(i);
    }
    return std::move(region_);
  }

 private:
  const Contraction* contraction(size_t i) const {
    return std::get_if<Contraction>(&program_.statements[i]);
  }
  const Piece& piece(size_t i) const { return contraction(i)->pieces[0]; }
  bool plain(size_t i) const {
    const Contraction* c = contraction(i);
    return c != nullptr && is_plain_contraction(*c);
  }
  bool makes_scores(size_t i) const {
    return plain(i) && stream::makes_scores(*contraction(i), program_.tensors, target_) &&
           uses_.is_inner(contraction(i)->outputs[0]);
  }
  static size_t many(const Piece& p) {
    size_t count = 0;
    for (size_t u = 0; u < p.parallel_dims; ++u) count += p.box[u] > 1 ? 1 : 0;
    return count;
  }

  // Scores of what the region does not make, or a pointwise statement at their cells.
  bool is_cell(size_t i) const {
    if (!plain(i) || !uses_.is_inner(contraction(i)->outputs[0])) return false;
    const Piece& p = piece(i);
    if (many(p) != rank_ || !names_cells(p, p.stores[0])) return false;
    bool reads = std::any_of(p.loads.begin(), p.loads.end(),
                             [&](const Access& a) { return made_.contains(a.tensor); });
    if (p.parallel_dims < p.box.size()) return !reads && makes_scores(i);
    bool at_cells = std::all_of(p.loads.begin(), p.loads.end(), [&](const Access& a) {
      return !made_.contains(a.tensor) || names_cells(p, a);
    });
    return reads && p.constraints.empty() && at_cells;
  }
  // Every parallel dimension of several values is one dimension's index, alone.
  static bool names_cells(const Piece& p, const Access& access) {
    std::vector<bool> found(p.box.size(), false);
    for (const Index& index : access.index) {
      IteratorId u = sole_iterator(index, p);
      if (!u.valid() && !(index.value < 0 && index.affine == constant_affine(0))) return false;
      if (u.valid()) found[u.index()] = true;
    }
    for (size_t u = 0; u < p.parallel_dims; ++u) {
      if (p.box[u] > 1 && !found[u]) return false;
    }
    return true;
  }
  std::vector<size_t> scores_beside(size_t i) const {
    std::vector<size_t> list;
    if (piece(i).parallel_dims < piece(i).box.size()) return list;
    for (const Access& a : piece(i).loads) {
      std::optional<size_t> made = uses_.maker(a.tensor);
      if (made && makes_scores(*made) && names_cells(piece(i), a)) list.push_back(*made);
    }
    return list;
  }

  using Node = std::pair<size_t, size_t>;  // statement and iterator
  Node root(Node n) const {
    for (auto up = parent_.find(n); up != parent_.end(); up = parent_.find(n)) n = up->second;
    return n;
  }
  void join(Node a, Node b) {
    a = root(a);
    b = root(b);
    if (a != b) parent_[b] = a;
  }
  void number_axes(size_t scores) {
    for (const std::set<size_t>* list : {&region_.cells, &region_.users}) {
      for (size_t i : *list) join_loads(i);
    }
    for (size_t u = 0; u < piece(scores).parallel_dims; ++u) {
      if (piece(scores).box[u] > 1) axes_.emplace(root({scores, u}), axes_.size());
    }
  }
  void join_loads(size_t i) {
    if (!plain(i)) return;
    for (const Access& a : piece(i).loads) {
      if (!made_.contains(a.tensor)) continue;
      size_t from = *uses_.maker(a.tensor);
      for (size_t d = 0; d < a.index.size(); ++d) {
        IteratorId u = sole_iterator(piece(from).stores[0].index[d], piece(from));
        IteratorId v = sole_iterator(a.index[d], piece(i));
        if (u.valid() && v.valid()) join({from, u.index()}, {i, v.index()});
      }
    }
  }
  void find_axes(size_t i) {
    if (!plain(i)) return;
    for (size_t u = 0; u < piece(i).box.size(); ++u) {
      auto axis = axes_.find(root({i, u}));
      region_.axes[i].push_back(axis == axes_.end() ? std::nullopt : std::optional(axis->second));
    }
  }
  void find_reduced(size_t i) {
    const Contraction* c = contraction(i);
    if (!plain(i) || !stream::sums_scores(*c, target_)) return;
    std::vector<ScoreRegion::Reduced> list;
    for (size_t u = piece(i).parallel_dims; u < piece(i).box.size(); ++u) {
      if (auto axis = region_.axes.at(i)[u]) list.push_back({u, *axis});
    }
    if (!list.empty()) region_.reduced[i] = std::move(list);
  }

  const BoundProgram& program_;
  const Target& target_;
  const StatementUses& uses_;
  ScoreRegion region_;
  size_t rank_ = 0;
  std::set<TensorId> made_;
  std::map<Node, Node> parent_;
  std::map<Node, size_t> axes_;
};

// What a value is made of.
struct Origin {
  bool scores = false, picked = false;
};

// A small change of an operand may change the result by a whole step.
bool is_step(Op op) {
  TypeRule rule = info(op).rule;
  return rule == TypeRule::comparison || rule == TypeRule::rounding || op == Op::sign;
}

class Comparisons {
 public:
  Comparisons(const BoundProgram& program, const ScoreRegion& region)
      : program_(program), region_(region) {
    for (size_t i : region_.cells) add_made(i, scores_);
    for (size_t i = 0; i < program_.statements.size(); ++i) {
      if (picks(i) || follows(i)) add_made(i, picked_);
    }
  }

  bool any() const {
    auto compares = [&](size_t i) { return statement_compares(i); };
    return std::any_of(region_.cells.begin(), region_.cells.end(), compares) ||
           std::any_of(region_.users.begin(), region_.users.end(), compares);
  }

 private:
  void add_made(size_t i, std::set<TensorId>& list) const {
    for (TensorId id : written_by(program_.statements[i])) list.insert(storage_of(program_, id));
  }
  // A sum or product of several scores is none of them.
  bool picks(size_t i) const {
    if (!region_.users.contains(i)) return false;
    const Contraction* c = std::get_if<Contraction>(&program_.statements[i]);
    bool sums = c != nullptr &&
                (c->aggregation == Aggregation::sum || c->aggregation == Aggregation::product);
    return !sums || !region_.reduced.contains(i);
  }
  bool follows(size_t i) const {
    std::vector<TensorId> read = read_by(program_.statements[i]);
    return std::any_of(read.begin(), read.end(),
                       [&](TensorId id) { return picked_.contains(storage_of(program_, id)); });
  }

  bool statement_compares(size_t i) const {
    const Contraction* c = std::get_if<Contraction>(&program_.statements[i]);
    return c != nullptr && std::any_of(c->pieces.begin(), c->pieces.end(),
                                       [&](const Piece& p) { return piece_compares(p); });
  }
  // A loop inside of the body counts as a value made of all that it is given and reads.
  bool piece_compares(const Piece& piece) const {
    IdVector<NodeId, Origin> origins;
    for (const Node& n : piece.body.nodes) {
      Origin origin;
      for (NodeId arg : n.args) add(origin, origins[arg]);
      if (n.kind == NodeKind::load) add(origin, origin_of(piece.loads[n.slot]));
      if (n.kind == NodeKind::fold) add_loads(origin, *n.region, piece);
      bool step = n.kind == NodeKind::fold || (n.kind == NodeKind::operation && is_step(n.op));
      if (step && origin.scores && origin.picked) return true;
      origins.push_back(origin);
    }
    return false;
  }
  void add_loads(Origin& origin, const Body& region, const Piece& piece) const {
    visit_nodes(region, [&](const Node& n) {
      if (n.kind == NodeKind::load) add(origin, origin_of(piece.loads[n.slot]));
    });
  }
  static void add(Origin& to, const Origin& from) {
    to.scores = to.scores || from.scores;
    to.picked = to.picked || from.picked;
  }
  Origin origin_of(const Access& load) const {
    TensorId id = storage_of(program_, load.tensor);
    return {scores_.contains(id), picked_.contains(id)};
  }

  const BoundProgram& program_;
  const ScoreRegion& region_;
  std::set<TensorId> scores_, picked_;
};

}  // namespace

std::optional<ScoreRegion> score_region(const BoundProgram& program, const Target& target,
                                        const StatementUses& uses, size_t scores) {
  return RegionFinder(program, target, uses).at(scores);
}

bool compares_with_picked(const BoundProgram& program, const ScoreRegion& region) {
  return Comparisons(program, region).any();
}

}  // namespace tile::layout
