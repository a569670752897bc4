#include "backends/cpu/plan/plan.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "backends/cpu/plan/doacross.h"
#include "core/support/checked.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kUnrollLimit = 512;
constexpr int64_t kLaneLimit = 256;
// Of all tensors: what cores can count on of the last cache level is far below what virtual
// machines report, and not all of it is found again.
constexpr int64_t kStreamedBytes = 24 << 20;
constexpr int64_t kNearResult = 4 << 20;  // up to it cores' own caches may hold a result

bool is_parallel(const nest::Statement& s) {
  const auto* f = std::get_if<nest::For>(&s.what);
  return f != nullptr && f->kind == nest::LoopKind::parallel;
}

std::vector<Entry> divide(const nest::Nest& nest) {
  const nest::Block& body = nest.body;
  std::vector<Entry> entries;
  for (size_t i = 0; i < body.size(); ++i) {
    if (begins_doacross(nest, i)) {
      for (size_t k = 0; k < 3; ++k) entries.push_back({i + k, i + k + 1, true, k == 0});
      i += 2;
      continue;
    }
    bool parallel = is_parallel(body[i]);
    const auto* alloc = std::get_if<nest::Alloc>(&body[i].what);
    bool begins = alloc != nullptr && nest.buffers[alloc->buffer].scope != nest::Scope::fragment;
    if (!parallel && !entries.empty() && !entries.back().parallel) {
      entries.back().last = i + 1;
    } else if (parallel || !begins) {  // a buffer's life may begin outside of functions
      entries.push_back({i, i + 1, parallel, false});
    }
  }
  return entries;
}

void collect_used(const nest::Block& block, std::set<nest::BufferId>& used);
void collect_used(const std::vector<nest::Access>& accesses, std::set<nest::BufferId>& used) {
  for (const nest::Access& a : accesses) used.insert(a.buffer);
}
// What a matrix product or a tile register's move reads and writes in memory.
void collect_used(const nest::Statement& s, std::set<nest::BufferId>& used) {
  if (const auto* m = std::get_if<nest::MatrixTile>(&s.what)) {
    used.insert({m->sum, m->a, m->b});
  } else if (const auto* move = std::get_if<nest::MatrixMove>(&s.what)) {
    used.insert(move->fragment);
    if (move->kind != nest::MatrixMove::Kind::zero) used.insert(move->buffer);
  }
  if (const auto* f = std::get_if<nest::For>(&s.what)) {
    collect_used(f->body, used);
  } else if (const auto* i = std::get_if<nest::If>(&s.what)) {
    collect_used(i->loads, used);
    collect_used(i->then, used);
    collect_used(i->otherwise, used);
  } else if (const auto* store = std::get_if<nest::Store>(&s.what)) {
    collect_used(store->loads, used);
    used.insert(store->target.buffer);
  }
}
void collect_used(const nest::Block& block, std::set<nest::BufferId>& used) {
  for (const nest::Statement& s : block) collect_used(s, used);
}

int64_t bytes_of(const nest::Buffer& b) {
  int64_t last = 0;
  for (size_t d = 0; d < b.shape.size(); ++d) {
    if (b.shape[d] == 0) return 0;
    last = checked_add(last, checked_mul(b.shape[d] - 1, b.strides[d]));
  }
  return checked_mul(checked_add(last, 1), static_cast<int64_t>(byte_size(b.type)));
}

int64_t reserve(int64_t& total, const nest::Buffer& b) {
  int64_t alignment = std::max(kAlignment, b.alignment);
  int64_t offset = checked_mul(ceil_div(total, alignment), alignment);
  total = checked_add(offset, bytes_of(b));
  return offset;
}

// In how many functions each buffer occurs.
IdVector<nest::BufferId, int> count_uses(const nest::Nest& nest,
                                         const std::vector<Entry>& entries) {
  IdVector<nest::BufferId, int> uses(nest.buffers.size());
  for (const Entry& e : entries) {
    std::set<nest::BufferId> used;
    for (size_t i = e.first; i < e.last; ++i) collect_used(nest.body[i], used);
    for (nest::BufferId b : used) ++uses[b];
  }
  return uses;
}

// The buffers that some statement reads or updates.
void collect_read(const nest::Block& block, std::set<nest::BufferId>& read) {
  for (const nest::Statement& s : block) {
    if (const auto* f = std::get_if<nest::For>(&s.what)) {
      collect_read(f->body, read);
    } else if (const auto* i = std::get_if<nest::If>(&s.what)) {
      collect_used(i->loads, read);
      collect_read(i->then, read);
      collect_read(i->otherwise, read);
    } else if (const auto* store = std::get_if<nest::Store>(&s.what)) {
      collect_used(store->loads, read);
      if (store->kind != nest::StoreKind::assign) read.insert(store->target.buffer);
    } else {
      collect_used(s, read);
    }
  }
}

void place_all(const nest::Nest& nest, Plan& result) {
  IdVector<nest::BufferId, int> uses = count_uses(nest, result.entries);
  IdVector<nest::BufferId, std::optional<CellLayout>> cells = cell_layouts(nest);
  std::set<nest::BufferId> read;
  collect_read(nest.body, read);
  int64_t touched = 0;  // bytes of all tensors
  for (const nest::Buffer& b : nest.buffers) {
    if (b.scope == nest::Scope::argument) touched = checked_add(touched, std::abs(bytes_of(b)));
  }
  for (nest::BufferId id : nest.buffers.ids()) {
    const nest::Buffer& b = nest.buffers[id];
    Place place;
    place.non_temporal = b.scope == nest::Scope::argument && !b.read_soon && !read.contains(id) &&
                         touched >= kStreamedBytes && bytes_of(b) >= kNearResult;
    if (b.scope == nest::Scope::workspace || (b.scope != nest::Scope::argument && uses[id] > 1)) {
      place = {Home::workspace, reserve(result.workspace_bytes, b), {}};
    } else if (b.scope == nest::Scope::registers && cells[id]) {
      place = {Home::cells, 0, *cells[id]};
    } else if (b.scope == nest::Scope::fragment) {
      place = {Home::tiles, 0, {}};
    } else if (b.scope != nest::Scope::argument) {
      place = {Home::scratch, reserve(result.scratch_bytes, b), {}};
    }
    result.places.push_back(place);
  }
}

}  // namespace

Plan plan(const nest::Nest& nest) {
  Plan result;
  result.entries = divide(nest);
  try {
    place_all(nest, result);
    result.long_loops = long_loops(nest);
  } catch (const Overflow&) {
    fail(Stage::compile, "limit", {}, "kernel " + nest.name + " needs more memory than exists");
  }
  return result;
}

bool writes_out(const nest::For& loop) {
  return loop.kind == nest::LoopKind::unrolled && loop.extent.is_constant() &&
         loop.extent.value() <= kUnrollLimit;
}

unsigned lanes_of(const nest::For& loop) {
  if (loop.width > kLaneLimit) {
    fail(Stage::compile, "limit", {}, "a vector loop of " + std::to_string(loop.width) + " lanes");
  }
  return std::bit_ceil(static_cast<unsigned>(loop.width));
}

std::set<nest::BufferId> stored_buffers(const nest::Block& block) {
  std::set<nest::BufferId> stored;
  for (const nest::Statement& s : block) {
    if (const auto* f = std::get_if<nest::For>(&s.what)) {
      stored.merge(stored_buffers(f->body));
    } else if (const auto* i = std::get_if<nest::If>(&s.what)) {
      stored.merge(stored_buffers(i->then));
      stored.merge(stored_buffers(i->otherwise));
    } else if (const auto* store = std::get_if<nest::Store>(&s.what)) {
      stored.insert(store->target.buffer);
    } else if (const auto* begins = std::get_if<nest::Alloc>(&s.what)) {
      stored.insert(begins->buffer);
    } else if (const auto* move = std::get_if<nest::MatrixMove>(&s.what)) {
      if (move->kind == nest::MatrixMove::Kind::store) stored.insert(move->buffer);
    }
  }
  return stored;
}

}  // namespace tile::cpu
