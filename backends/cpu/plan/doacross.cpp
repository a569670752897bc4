#include "backends/cpu/plan/doacross.h"

#include <algorithm>
#include <set>

#include "core/simplify/simplify.h"

namespace tile::cpu {
namespace {

using nest::For;

struct Use {
  nest::BufferId buffer;
  bool written = false;
  Expr first;  // the index of dimension 0
};

void collect(const nest::Access& a, bool written, std::vector<Use>& uses) {
  bool plain = !a.index.empty() && a.values.empty();
  uses.push_back({a.buffer, written, plain ? a.index.front() : Expr::variable("?")});
}

void collect(const nest::Block& block, std::vector<Use>& uses) {
  for (const nest::Statement& s : block) {
    if (const auto* f = std::get_if<For>(&s.what)) {
      collect(f->body, uses);
    } else if (const auto* i = std::get_if<nest::If>(&s.what)) {
      for (const nest::Access& a : i->loads) collect(a, false, uses);
      collect(i->then, uses);
      collect(i->otherwise, uses);
    } else if (const auto* store = std::get_if<nest::Store>(&s.what)) {
      for (const nest::Access& a : store->loads) collect(a, false, uses);
      collect(store->target, true, uses);
    }
  }
}

struct Loop {
  const For* loop = nullptr;
  std::vector<Use> uses;

  explicit Loop(const nest::Statement& s) : loop(std::get_if<For>(&s.what)) {
    if (loop != nullptr) collect(loop->body, uses);
  }
  bool turns(nest::LoopKind kind) const {
    return loop != nullptr && loop->kind == kind && loop->begin.is_constant(0) &&
           loop->extent.is_constant();
  }
  bool touches(nest::BufferId buffer) const {
    return std::any_of(uses.begin(), uses.end(), [&](const Use& u) { return u.buffer == buffer; });
  }
  // All uses of the buffer are in the element of the turn or, where `next`, of the one behind it.
  bool stays(nest::BufferId buffer, bool next) const {
    Expr turn = Expr::variable(loop->variable);
    return std::all_of(uses.begin(), uses.end(), [&](const Use& u) {
      if (u.buffer != buffer) return true;
      Expr away = simplify(u.first - turn, Ranges{});
      return away.is_constant(0) ? !(next && u.written) : next && away.is_constant(1);
    });
  }
};

std::set<nest::BufferId> written_by(const Loop& l) {
  std::set<nest::BufferId> written;
  for (const Use& u : l.uses) {
    if (u.written) written.insert(u.buffer);
  }
  return written;
}

}  // namespace

bool begins_doacross(const nest::Nest& nest, size_t first) {
  if (first + 3 > nest.body.size()) return false;
  Loop a(nest.body[first]), link(nest.body[first + 1]), b(nest.body[first + 2]);
  if (!a.turns(nest::LoopKind::parallel) || !link.turns(nest::LoopKind::serial)) return false;
  if (!b.turns(nest::LoopKind::parallel) || a.loop->extent != link.loop->extent) return false;
  int64_t more = b.loop->extent.value() - a.loop->extent.value();
  if (more != 0 && more != 1) return false;
  for (nest::BufferId buffer : written_by(a)) {
    bool near = a.stays(buffer, false) && link.stays(buffer, false) && !b.touches(buffer);
    if (!near && (link.touches(buffer) || b.touches(buffer))) return false;
  }
  for (nest::BufferId buffer : written_by(link)) {
    if (a.touches(buffer) || !link.stays(buffer, true) || !b.stays(buffer, false)) return false;
  }
  std::set<nest::BufferId> made = written_by(b);
  return std::none_of(made.begin(), made.end(), [&](nest::BufferId buffer) {
    return a.touches(buffer) || link.touches(buffer);
  });
}

}  // namespace tile::cpu
