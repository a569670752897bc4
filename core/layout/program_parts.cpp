#include "core/layout/program_parts.h"

#include <algorithm>
#include <numeric>

#include "core/fusion/group.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/canonical.h"
#include "core/schedule/cost/estimate.h"
#include "core/schedule/space/candidates.h"

namespace tile::layout {
namespace {

constexpr size_t kMostBetween = 16;  // statements between users that are looked at with them

bool needed_outside(const StatementUses& uses, TensorId id, const std::vector<size_t>& list) {
  if (!uses.is_inner(id)) return true;
  const std::vector<size_t>& readers = uses.readers(id);
  bool made_here = uses.maker(id).has_value();
  bool outside = std::any_of(readers.begin(), readers.end(), [&](size_t r) {
    return !std::binary_search(list.begin(), list.end(), r);
  });
  return outside || (made_here && readers.empty());
}

}  // namespace

std::vector<BoundStatement> with(const BoundProgram& program, const Instead& instead,
                                 const std::vector<size_t>& list) {
  std::vector<BoundStatement> made;
  for (size_t i : list) {
    auto other = instead.find(i);
    if (other == instead.end()) {
      made.push_back(program.statements[i]);
    } else {
      made.insert(made.end(), other->second.begin(), other->second.end());
    }
  }
  return made;
}
std::vector<BoundStatement> with(const BoundProgram& program, const Instead& instead) {
  std::vector<size_t> all(program.statements.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return with(program, instead, all);
}

std::vector<size_t> around(const BoundProgram& program, const StatementUses& uses,
                           const ScoreRegion& region) {
  std::set<size_t> own = region.cells;
  own.insert(region.users.begin(), region.users.end());
  std::set<size_t> ends = own;
  for (size_t user : region.users) {
    for (TensorId id : written_by(program.statements[user])) {
      ends.insert(uses.readers(id).begin(), uses.readers(id).end());
    }
  }
  std::set<TensorId> follow;
  std::vector<size_t> after;
  for (size_t i = *own.begin(); i <= *ends.rbegin(); ++i) {
    const BoundStatement& s = program.statements[i];
    std::vector<TensorId> reads = read_by(s);
    bool follows = own.contains(i) || std::any_of(reads.begin(), reads.end(), [&](TensorId id) {
                     return follow.contains(storage_of(program, id));
                   });
    if (!follows) continue;
    for (TensorId id : written_by(s)) follow.insert(id);
    after.push_back(i);
  }
  std::set<TensorId> wanted;
  std::set<size_t> all;
  for (auto i = after.rbegin(); i != after.rend(); ++i) {
    std::vector<TensorId> made = written_by(program.statements[*i]);
    bool leads = ends.contains(*i) || std::any_of(made.begin(), made.end(),
                                                  [&](TensorId id) { return wanted.contains(id); });
    if (!leads) continue;
    all.insert(*i);
    for (TensorId id : read_by(program.statements[*i])) wanted.insert(storage_of(program, id));
  }
  if (all.size() > ends.size() + kMostBetween) all = own;
  return {all.begin(), all.end()};
}

BoundProgram part(const BoundProgram& program, const StatementUses& uses,
                  const std::vector<size_t>& list, const Instead& instead) {
  BoundProgram p;
  p.source = program.source;
  p.tensors = program.tensors;
  p.statements = with(program, instead, list);
  std::set<TensorId> made, given;
  for (const BoundStatement& s : p.statements) {
    for (TensorId id : read_by(s)) {
      TensorId from = storage_of(program, id);
      bool comes = !made.contains(from) && !program.tensors[from].constant;
      if (comes && given.insert(from).second) p.inputs.push_back(from);
    }
    for (TensorId id : written_by(s)) made.insert(id);
  }
  for (TensorId id : made) {
    if (needed_outside(uses, id, list)) p.outputs.push_back(id);
  }
  return p;
}

Price kernel_price(const BoundProgram& program, const Target& target) {
  Price total;
  for (const Step& step : group(program, target)) {
    const Kernel* k = std::get_if<Kernel>(&step);
    if (k == nullptr) continue;
    total += {estimate(analytic_schedule(*k, target), *k, target), stored_bytes(*k)};
  }
  return total;
}

std::string text_of(const BoundProgram& part) {
  std::optional<BoundProgram> own = canonical(part);
  return own ? print(*own) : std::string();
}

}  // namespace tile::layout
