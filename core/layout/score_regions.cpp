#include "core/layout/score_regions.h"

#include <algorithm>

#include "core/fusion/stream_regions.h"
#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/plain_contraction.h"
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

}  // namespace

std::optional<ScoreRegion> score_region(const BoundProgram& program, const Target& target,
                                        const StatementUses& uses, size_t scores) {
  return RegionFinder(program, target, uses).at(scores);
}

}  // namespace tile::layout
