#include "runtime/ranks/collectives.h"

#include <algorithm>

#include "runtime/ranks/rank_memory.h"

namespace tile {
namespace {

// Where parts begin in a tensor, by the rank that they come from or go to.
std::optional<std::vector<size_t>> begins(const std::vector<Exchange::Part>& parts,
                                          const Shape& shape, size_t ranks, size_t cells) {
  if (parts.size() != ranks) return std::nullopt;
  std::vector<size_t> first(ranks, SIZE_MAX);
  for (const Exchange::Part& part : parts) {
    std::optional<size_t> run = first_of_run(shape, part.box);
    if (!run || static_cast<size_t>(part.box.count()) != cells) return std::nullopt;
    first[static_cast<size_t>(part.rank)] = *run;
  }
  bool each_once = std::ranges::find(first, SIZE_MAX) == first.end();
  return each_once ? std::optional(first) : std::nullopt;
}

bool are_alike(const std::vector<size_t>& first) {
  return std::ranges::adjacent_find(first, std::not_equal_to()) == first.end();
}
// One behind the other, with nothing around them.
bool are_side_by_side(const std::vector<size_t>& first, size_t cells, int64_t all) {
  for (size_t r = 0; r < first.size(); ++r) {
    if (first[r] != r * cells) return false;
  }
  return static_cast<size_t>(all) == first.size() * cells;
}

// Of one rank's program.
std::optional<Collective> collective_of(const RankProgram& rank, size_t e, size_t ranks) {
  const Exchange& what = rank.exchanges[e].what;
  const BoundTensor& source = rank.program.tensors[what.source];
  const BoundTensor& result = rank.program.tensors[what.result];
  if (what.sends.empty() || source.type != result.type) return std::nullopt;
  auto cells = static_cast<size_t>(what.sends[0].box.count());
  if (cells == 0) return std::nullopt;
  auto sends = begins(what.sends, source.shape, ranks, cells);
  auto receives = begins(what.receives, result.shape, ranks, cells);
  if (!sends || !receives) return std::nullopt;
  int64_t given = element_count(source.shape), got = element_count(result.shape);
  if (!what.reduction) {
    bool gathers = are_alike(*sends) && are_side_by_side(*receives, cells, got);
    return gathers ? std::optional(Collective{LinkCollective::Kind::all_gather, cells})
                   : std::nullopt;
  }
  bool in_any_order = ranks == 2 || is_integer(result.type);
  bool of_all = are_alike(*receives) && static_cast<size_t>(got) == cells;
  if (*what.reduction != Aggregation::sum || !in_any_order || !of_all) return std::nullopt;
  if (!LinkCollective::adds(result.type)) return std::nullopt;
  if (are_side_by_side(*sends, cells, given)) {
    return Collective{LinkCollective::Kind::reduce_scatter, cells};
  }
  if (are_alike(*sends) && static_cast<size_t>(given) == cells) {
    return Collective{LinkCollective::Kind::all_reduce, cells};
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::optional<Collective>> collectives_of(const std::vector<RankProgram>& ranks) {
  std::vector<std::optional<Collective>> all;
  for (size_t e = 0; e < ranks[0].exchanges.size(); ++e) {
    std::optional<Collective> first = collective_of(ranks[0], e, ranks.size());
    for (size_t r = 1; r < ranks.size() && first; ++r) {
      std::optional<Collective> other = collective_of(ranks[r], e, ranks.size());
      bool same = other && other->kind == first->kind && other->elements == first->elements;
      if (!same) first.reset();
    }
    all.push_back(ranks.size() > 1 ? first : std::nullopt);
  }
  return all;
}

}  // namespace tile
