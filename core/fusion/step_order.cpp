#include "core/fusion/step_order.h"

#include <algorithm>

#include "core/ir/analysis/uses.h"

namespace tile {
namespace {

void add_once(std::vector<TensorId>& list, TensorId id) {
  if (!contains(list, id)) list.push_back(id);
}

bool share(const std::vector<TensorId>& a, const std::vector<TensorId>& b) {
  return std::any_of(a.begin(), a.end(), [&](TensorId id) { return contains(b, id); });
}

// Tensors that the program does not have are a kernel's own, and no views.
TensorId storage(const BoundProgram& program, TensorId id) {
  return program.tensors.contains(id) ? storage_of(program, id) : id;
}

// Of a statement, or of a kernel's contraction.
template <class Statement>
void add_statement(StepUse& use, const Statement& statement, const BoundProgram& program) {
  for (TensorId id : read_by(statement)) {
    TensorId from = storage(program, id);
    if (!contains(use.makes, from)) add_once(use.reads, from);
  }
  for (TensorId id : written_by(statement)) add_once(use.makes, id);
}

}  // namespace

BoundStatement statement_of(const Step& step) {
  if (const auto* sort = std::get_if<Sort>(&step)) return *sort;
  if (const auto* scatter = std::get_if<Scatter>(&step)) return *scatter;
  return std::get<BoundRepeat>(step);
}

StepUse use_of(const Step& step, const BoundProgram& program) {
  StepUse use;
  if (const Kernel* k = std::get_if<Kernel>(&step)) {
    for (const KernelStage& s : k->stages) add_statement(use, s.contraction, program);
  } else {
    add_statement(use, statement_of(step), program);
  }
  return use;
}

const StepUse& OpenSteps::use(size_t i, const BoundProgram& program) const {
  if (!uses_[i]) uses_[i] = use_of(*steps_[i], program);
  return *uses_[i];
}

namespace {

// The places that are left between the members for a step made of all of them, both ends included.
struct Room {
  size_t first = 0, last = 0;
};
Room room(const OpenSteps& steps, const std::vector<size_t>& members, const BoundProgram& program) {
  Room room{members.front(), members.back()};
  for (size_t k = members.front() + 1; k < members.back(); ++k) {
    if (!steps[k] || std::binary_search(members.begin(), members.end(), k)) continue;
    const StepUse& between = steps.use(k, program);
    for (size_t m : members) {
      const StepUse& member = steps.use(m, program);
      if (m < k && share(member.makes, between.reads)) room.last = std::min(room.last, k);
      if (m > k && share(between.makes, member.reads)) room.first = std::max(room.first, k);
    }
  }
  return room;
}

}  // namespace

bool can_stand(const OpenSteps& steps, const std::vector<size_t>& members, size_t at,
               const BoundProgram& program) {
  auto [first, last] = room(steps, members, program);
  return first <= at && at <= last;
}

std::optional<size_t> common_place(const OpenSteps& steps, const std::vector<size_t>& members,
                                   const BoundProgram& program) {
  auto [first, last] = room(steps, members, program);
  for (size_t m : members) {
    if (first <= m && m <= last) return m;
  }
  return std::nullopt;
}

std::optional<std::vector<size_t>> steps_behind(const OpenSteps& steps,
                                                const std::vector<size_t>& members,
                                                const BoundProgram& program) {
  std::vector<size_t> behind;
  std::vector<TensorId> by_members, by_behind;
  for (size_t k = members.front(); k <= members.back(); ++k) {
    if (!steps[k]) continue;
    const StepUse& use = steps.use(k, program);
    bool member = std::binary_search(members.begin(), members.end(), k);
    bool waits = share(by_behind, use.reads);
    if (member && waits) return std::nullopt;
    waits = waits || (!member && share(by_members, use.reads));
    if (waits) behind.push_back(k);
    if (!member && !waits) continue;
    std::vector<TensorId>& made = member ? by_members : by_behind;
    made.insert(made.end(), use.makes.begin(), use.makes.end());
  }
  return behind;
}

}  // namespace tile
