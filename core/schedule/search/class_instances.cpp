// What changes with a program's size in one of its kernels, told from the kernel at two sizes: all
// numbers that differ are to grow with one of them.
#include <algorithm>
#include <cmath>
#include <set>

#include "core/kernel/alike.h"
#include "core/kernel/canonical.h"
#include "core/kernel/coverage.h"
#include "core/schedule/search/dynamic_extent.h"

namespace tile {
namespace {

// Classes with more sizes have no kernels whose conditions grow: they are looked at at each size.
constexpr int64_t kMostSizesLookedAt = 512;
// Real literals up to it are integers in every type that is meant.
constexpr double kMostLiteral = 1 << 24;

// A number at both sizes.
struct Pair {
  int64_t one = 0, two = 0;
  int64_t apart() const { return one - two; }
};
std::optional<Growth> growth_of(const Pair& number, const Pair& extent) {
  if (number.apart() % extent.apart() != 0) return std::nullopt;
  int64_t factor = number.apart() / extent.apart();
  return Growth{factor, number.one - factor * extent.one};
}

// The numbers in which two kernels of one structure differ.
class Differences {
 public:
  Differences(const Kernel& one, const Kernel& two) : one_(one), two_(two) {}

  // Why there is no such list.
  std::string collect() {
    if (one_.stages.size() != two_.stages.size() || one_.tensors.size() != two_.tensors.size()) {
      return "other stages at another size";
    }
    for (size_t s = 0; s < one_.stages.size(); ++s) {
      const std::vector<Piece>& a = one_.stages[s].contraction.pieces;
      const std::vector<Piece>& b = two_.stages[s].contraction.pieces;
      if (a.size() != b.size()) return "other pieces at another size";
      for (size_t p = 0; p < a.size(); ++p) {
        std::string why = piece({StageId(s), p}, a[p], b[p]);
        if (!why.empty()) return why;
      }
    }
    for (TensorId id : accessed_) {
      std::string why = tensor(id);
      if (!why.empty()) return why;
    }
    return {};
  }

  // All of them as multiples of the one that grows least; the reason in `why` where that cannot be.
  std::optional<DynamicExtent> grown(Pair& extent, std::string& why) const {
    if (walks_.empty()) {
      why = "no loop grows with the size";
      return std::nullopt;
    }
    extent = walks_[0].second;
    for (const auto& [walk, number] : walks_) {
      if (std::abs(number.apart()) < std::abs(extent.apart())) extent = number;
    }
    DynamicExtent found;
    auto put = [&](auto& list, const auto& from, auto grows) {
      return std::all_of(from.begin(), from.end(), [&](auto entry) {
        std::optional<Growth> growth = growth_of(entry.second, extent);
        if (growth) grows(entry.first) = *growth;
        list.push_back(std::move(entry.first));
        return growth.has_value();
      });
    };
    bool all = put(found.walks, walks_, [](auto& w) -> Growth& { return w.size; }) &&
               put(found.dimensions, dimensions_, [](auto& d) -> Growth& { return d.size; }) &&
               put(found.bounds, bounds_, [](auto& b) -> Growth& { return b.value; }) &&
               put(found.literals, literals_, [](auto& l) -> Growth& { return l.value; });
    if (all) return found;
    why = "numbers that are no multiples of one extent";
    return std::nullopt;
  }

 private:
  using PieceAt = DynamicExtent::PieceAt;

  std::string piece(const PieceAt& at, const Piece& a, const Piece& b) {
    if (a.box.size() != b.box.size() || a.constraints.size() != b.constraints.size() ||
        a.body.nodes.size() != b.body.nodes.size()) {
      return "other loops, conditions or values at another size";
    }
    for (size_t u = 0; u < a.box.size(); ++u) {
      Pair sizes{a.box[u], b.box[u]};
      if (sizes.apart() != 0) walks_.push_back({{at, IteratorId(u), {}}, sizes});
    }
    for (size_t c = 0; c < a.constraints.size(); ++c) {
      std::string why = bound(at, c, a.constraints[c], b.constraints[c]);
      if (!why.empty()) return why;
    }
    for (size_t n = 0; n < a.body.nodes.size(); ++n) {
      std::string why = literal(at, NodeId(n), a.body.nodes[n], b.body.nodes[n]);
      if (!why.empty()) return why;
    }
    auto take = [&](const Access& access) { accessed_.insert(access.tensor); };
    std::for_each(a.stores.begin(), a.stores.end(), take);
    std::for_each(a.loads.begin(), a.loads.end(), take);
    return {};
  }
  std::string bound(const PieceAt& at, size_t number, const Constraint& a, const Constraint& b) {
    for (bool upper : {false, true}) {
      Pair values{upper ? a.hi : a.lo, upper ? b.hi : b.lo};
      if (values.apart() == 0) continue;
      if (!a.form.is_integral()) return "a condition of fractions that grows with the size";
      bounds_.push_back({{at, number, upper, {}}, values});
    }
    return {};
  }
  std::string literal(const PieceAt& at, NodeId node, const Node& a, const Node& b) {
    if (a.kind != b.kind) return "other values at another size";
    if (a.kind == NodeKind::integer && a.integer != b.integer) {
      literals_.push_back({{at, node, {}}, {a.integer, b.integer}});
    }
    bool differs = a.kind == NodeKind::real && a.real != b.real;
    if (!differs) return {};
    auto whole = [](double v) { return std::abs(v) <= kMostLiteral && std::floor(v) == v; };
    bool known = a.type == DType::f32 || a.type == DType::f64;
    if (!known || !whole(a.real) || !whole(b.real)) {
      return "a constant that is made of the size and no multiple of it";
    }
    Pair values{static_cast<int64_t>(a.real), static_cast<int64_t>(b.real)};
    literals_.push_back({{at, node, {}}, values});
    return {};
  }
  std::string tensor(TensorId id) {
    const Shape &a = one_.tensors[id].shape, &b = two_.tensors[id].shape;
    if (a.size() != b.size()) return "a tensor of another rank at another size";
    for (size_t d = 0; d < a.size(); ++d) {
      Pair sizes{a[d], b[d]};
      if (sizes.apart() != 0) dimensions_.push_back({{id, d, {}}, sizes});
    }
    return {};
  }

  const Kernel &one_, &two_;
  std::set<TensorId> accessed_;
  std::vector<std::pair<DynamicExtent::Walk, Pair>> walks_;
  std::vector<std::pair<DynamicExtent::Dimension, Pair>> dimensions_;
  std::vector<std::pair<DynamicExtent::Bound, Pair>> bounds_;
  std::vector<std::pair<DynamicExtent::Literal, Pair>> literals_;
};

// Whether an index that data gives is one of a dimension that grows.
bool indexed_by_data(const Kernel& kernel, const DynamicExtent& extent) {
  auto grows = [&](const Access& a) {
    return std::any_of(extent.dimensions.begin(), extent.dimensions.end(), [&](const auto& d) {
      return d.tensor == a.tensor && std::any_of(a.index.begin(), a.index.end(),
                                                 [](const Index& i) { return i.value >= 0; });
    });
  };
  for (const KernelStage& stage : kernel.stages) {
    for (const Piece& piece : stage.contraction.pieces) {
      bool any = std::any_of(piece.loads.begin(), piece.loads.end(), grows) ||
                 std::any_of(piece.stores.begin(), piece.stores.end(), grows);
      if (any) return true;
    }
  }
  return false;
}

// Whether an index of a dimension that grows is not integral by its form alone.
bool indexed_by_fractions(const Kernel& kernel, const DynamicExtent& extent) {
  auto fraction = [&](const Access& a) {
    return std::any_of(extent.dimensions.begin(), extent.dimensions.end(), [&](const auto& d) {
      return d.tensor == a.tensor && !a.index[d.dimension].affine.is_integral();
    });
  };
  for (const KernelStage& stage : kernel.stages) {
    for (const Piece& piece : stage.contraction.pieces) {
      bool any = std::any_of(piece.loads.begin(), piece.loads.end(), fraction) ||
                 std::any_of(piece.stores.begin(), piece.stores.end(), fraction);
      if (any) return true;
    }
  }
  return false;
}

// What lowering asks about domains, which is to have one answer for all sizes. (Whether a sum has
// a term decides nothing: without one it is 0.)
std::vector<bool> answers(const Kernel& kernel) {
  std::vector<bool> all;
  for (const KernelStage& stage : kernel.stages) {
    const Contraction& c = stage.contraction;
    bool zero_if_empty = c.aggregation == Aggregation::sum && !c.fill;
    all.push_back(covers_output(c, kernel.tensors));
    for (const Piece& piece : c.pieces) {
      all.push_back(zero_if_empty || surely_nonempty(piece));
      all.push_back(stores_all_parallel_dims(c, piece));
    }
  }
  return all;
}
// The least size of those that have the typical one's answers, as all up to the largest have: a
// window may be all outside of what is shorter. nullopt: there are others beside them.
std::optional<int64_t> least_alike(const ClassKernel& of) {
  std::vector<bool> expected = answers(of.kernel);
  auto [least, typical, most] = of.span;
  auto alike = [&](int64_t n) { return answers(with_size(of.kernel, of.extent, n)) == expected; };
  if (of.extent.bounds.empty())
    return alike(least) && alike(most) ? std::optional(least) : std::nullopt;
  if (most - least > kMostSizesLookedAt) return std::nullopt;
  int64_t n = most;
  while (n >= least && alike(n)) --n;
  return n < typical ? std::optional(n + 1) : std::nullopt;
}

std::string why_not(const ClassKernel& of) {
  for (const KernelStage& stage : of.kernel.stages) {
    const Contraction& c = stage.contraction;
    bool whole = stage.attach.valid() || covers_output(c, of.kernel.tensors);
    if (!whole || c.fill || c.pieces.empty()) return "cells that no point stores";
  }
  for (const auto& w : of.extent.walks) {
    if (w.size.factor < 0 || w.size.at(1) < 1) return "a loop that is empty at small sizes";
  }
  for (const auto& d : of.extent.dimensions) {
    if (d.size.factor < 0 || d.size.at(1) < 1) return "a tensor that is empty at small sizes";
  }
  if (indexed_by_data(of.kernel, of.extent)) return "an index that data gives into what grows";
  if (indexed_by_fractions(of.kernel, of.extent)) return "fractions as indices of what grows";
  return "";
}

// Of the size that the extent is; where it is none of them, of any.
const Instances& instances_of(const Pair& extent, const AllInstances& all) {
  auto is = [&](const Instances& i) {
    return i.span.typical == extent.one && i.other == extent.two;
  };
  auto at = std::find_if(all.begin(), all.end(), is);
  return at == all.end() ? all.front() : *at;
}

}  // namespace

ClassFound for_instances(const Kernel& typical, const Kernel& other, const Target& target,
                         const AllInstances& all) {
  if (is_gpu(target)) return {std::nullopt, "code for a GPU"};
  ClassKernel found{canonical(typical), {}, 0, {}};
  found.kernel.name = typical.name;
  found.kernel.shapes.clear();
  Kernel second = canonical(other);
  Differences differences(found.kernel, second);
  std::string why = differences.collect();
  if (!why.empty()) return {std::nullopt, why};
  Pair extent;
  std::optional<DynamicExtent> open = differences.grown(extent, why);
  if (!open) return {std::nullopt, why};
  found.extent = std::move(*open);
  found.size = extent.one;
  const Instances& of = instances_of(extent, all);
  // The extent grows with the program's size.
  int64_t apart = of.span.typical - of.other;
  if (extent.apart() % apart != 0 || extent.apart() / apart < 1) {
    return {std::nullopt, "an extent that does not grow with the size"};
  }
  auto at = [&](int64_t n) {
    int64_t moved = extent.apart() / apart * (n - of.span.typical);
    return std::max<int64_t>(1, extent.one + moved);
  };
  found.span = {at(of.span.least), extent.one, at(of.span.most)};
  Kernel there = with_size(found.kernel, found.extent, extent.two);
  if (!alike(there, second)) {
    return {std::nullopt, "another kernel at another size"};
  }
  why = why_not(found);
  if (!why.empty()) return {std::nullopt, why};
  std::optional<int64_t> least = least_alike(found);
  if (!least) return {std::nullopt, "a domain of another form at another size"};
  found.extent.least = *least;  // smaller ones were not looked at
  if (!complete(found)) return {std::nullopt, "more elements than indices hold"};
  return {std::move(found), {}};
}

}  // namespace tile
