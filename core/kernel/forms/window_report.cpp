#include "core/kernel/forms/window_report.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace tile {
namespace {

using Iterators = std::set<size_t>;

bool moves(const Piece& piece, const Affine& form, size_t u) {
  return piece.box[u] > 1 && !form.coefficient(u).is_zero();
}

Iterators iterators_of(const Piece& piece, const Affine& form) {
  Iterators result;
  for (size_t u = 0; u < piece.box.size(); ++u) {
    if (moves(piece, form, u)) result.insert(u);
  }
  return result;
}

// A dimension of a load that moves with a parallel dimension and with a reduction.
bool slides(const Piece& piece, const Index& index) {
  Iterators in = iterators_of(piece, index.affine);
  return !in.empty() && *in.begin() < piece.parallel_dims && *in.rbegin() >= piece.parallel_dims;
}
bool slides(const Piece& piece, const Access& access) {
  return std::any_of(access.index.begin(), access.index.end(),
                     [&](const Index& i) { return slides(piece, i); });
}

// The one load that slides, if there is one and not several.
std::optional<size_t> sliding_load(const Piece& piece) {
  std::optional<size_t> found;
  for (size_t l = 0; l < piece.loads.size(); ++l) {
    if (!slides(piece, piece.loads[l])) continue;
    if (found) return std::nullopt;
    found = l;
  }
  return found;
}

// What one factor of the body depends on, the dimensions of the sliding load left out.
struct Factor {
  Iterators iterators;
  bool slides = false;  // the sliding load is in it
  bool opaque = false;  // a loop or a read at a place that data decide: anything may be in it
};

class Factors {
 public:
  Factors(const Piece& piece, size_t sliding) : piece_(piece), sliding_(sliding) {}
  std::vector<Factor> found;

  void product(NodeId id) {
    const Node& n = piece_.body[id];
    bool operation = n.kind == NodeKind::operation;
    if (operation && n.op == Op::cast) return product(n.args[0]);
    if (operation && n.op == Op::mul) {
      product(n.args[0]);
      return product(n.args[1]);
    }
    whole(id);
  }
  void whole(NodeId id) {
    Factor f;
    IdVector<NodeId, bool> seen(piece_.body.nodes.size());
    add(id, f, seen);
    found.push_back(f);
  }

 private:
  void add(NodeId id, Factor& f, IdVector<NodeId, bool>& seen) const {
    if (seen[id]) return;
    seen[id] = true;
    const Node& n = piece_.body[id];
    for (NodeId arg : n.args) add(arg, f, seen);
    if (n.kind == NodeKind::fold) f.opaque = true;
    if (n.kind == NodeKind::index) f.iterators.insert(n.slot);
    if (n.kind != NodeKind::load) return;
    f.opaque = f.opaque || !n.args.empty();
    if (n.slot == sliding_) {
      f.slides = true;
      return;
    }
    for (const Index& index : piece_.loads[n.slot].index) {
      f.iterators.merge(iterators_of(piece_, index.affine));
    }
  }
  const Piece& piece_;
  size_t sliding_;
};

// Reductions, and the parallel dimensions that slide with one, in groups that depend on each other.
class Groups {
 public:
  explicit Groups(const Piece& piece) : piece_(piece), root_(piece.box.size()) {
    std::iota(root_.begin(), root_.end(), size_t{0});
    for (size_t u = piece.parallel_dims; u < piece.box.size(); ++u) linked_.insert(u);
  }
  void slide(const Index& index) {
    Iterators in = iterators_of(piece_, index.affine);
    if (slides(piece_, index)) linked_.insert(in.begin(), in.end());
  }
  // What stands together belongs together, if a reduction does.
  void join(const Iterators& iterators) {
    if (iterators.empty() || *iterators.rbegin() < piece_.parallel_dims) return;
    std::optional<size_t> first;
    for (size_t u : iterators) {
      if (linked_.count(u) == 0) continue;
      if (first) root_[root(u)] = root(*first);
      first = u;
    }
  }
  void join_all() { join(linked_); }
  // Those with a reduction that slides.
  std::vector<std::vector<size_t>> windows(const Access& sliding) {
    std::vector<std::vector<size_t>> result;
    for (size_t r = 0; r < root_.size(); ++r) {
      std::vector<size_t> members;
      bool window = false;
      for (size_t u = piece_.parallel_dims; u < root_.size(); ++u) {
        if (root(u) != r || piece_.box[u] == 1) continue;
        members.push_back(u);
        window = window || std::any_of(sliding.index.begin(), sliding.index.end(), [&](auto& i) {
                   return slides(piece_, i) && moves(piece_, i.affine, u);
                 });
      }
      if (window) result.push_back(members);
    }
    return result;
  }

 private:
  size_t root(size_t u) const { return root_[u] == u ? u : root(root_[u]); }
  const Piece& piece_;
  std::vector<size_t> root_;
  Iterators linked_;
};

std::string dimension_text(const Piece& piece, const Index& index) {
  std::vector<std::string> terms;
  for (size_t u : iterators_of(piece, index.affine)) {
    std::string extent = u < piece.parallel_dims ? "parallel" : std::to_string(piece.box[u]);
    terms.push_back(to_string(index.affine.coefficient(u)) + "*" + extent);
  }
  std::sort(terms.begin(), terms.end());
  std::string out = to_string(index.affine.constant);
  for (const std::string& t : terms) out += "+" + t;
  return out + (index.boundary == Boundary::in_range
                    ? ""
                    : " boundary " + std::to_string(static_cast<int>(index.boundary)));
}

}  // namespace

std::vector<std::vector<size_t>> separable_window(const Piece& piece, Aggregation aggregation) {
  std::optional<size_t> sliding = sliding_load(piece);
  if (!sliding || piece.body.results.size() != 1 || aggregation == Aggregation::assign) return {};
  const Access& access = piece.loads[*sliding];
  Groups groups(piece);
  for (const Index& index : access.index) groups.slide(index);
  for (const Index& index : access.index) groups.join(iterators_of(piece, index.affine));
  for (const Constraint& c : piece.constraints) groups.join(iterators_of(piece, c.form));
  Factors factors(piece, *sliding);
  // Only a sum distributes over the factors.
  if (aggregation == Aggregation::sum) {
    factors.product(piece.body.results[0]);
  } else {
    factors.whole(piece.body.results[0]);
  }
  for (const Factor& f : factors.found) {
    if (f.opaque || (f.slides && !f.iterators.empty())) groups.join_all();
    groups.join(f.iterators);
  }
  std::vector<std::vector<size_t>> result = groups.windows(access);
  return result.size() > 1 ? result : std::vector<std::vector<size_t>>{};
}

std::optional<SlidingWindow> sliding_window(const Piece& piece) {
  std::optional<size_t> sliding = sliding_load(piece);
  if (!sliding) return std::nullopt;
  const Access& access = piece.loads[*sliding];
  SlidingWindow result{access.tensor, ""};
  for (const Index& index : access.index) result.form += dimension_text(piece, index) + ";";
  return result;
}

}  // namespace tile
