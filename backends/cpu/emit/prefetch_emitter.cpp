#include "backends/cpu/emit/prefetch_emitter.h"

#include <algorithm>
#include <cstdlib>

namespace tile::cpu {
namespace {

constexpr int64_t kLine = 64;            // bytes
constexpr int64_t kNearBytes = 1 << 20;  // tensors up to it stay in a core's own caches
constexpr size_t kMostLines = 32;        // of one tile
constexpr int64_t kPage = 4096;          // bytes
// Vector operations between a step's prefetches and its reads, and at least for each prefetch.
constexpr int64_t kOperationsAhead = 192, kOperationsPerLine = 4;
constexpr int64_t kRowsAhead = 2;
constexpr int64_t kStoresAhead = 128;  // bytes

int64_t bytes_of(const nest::Buffer& b) {
  auto bytes = static_cast<int64_t>(byte_size(b.type));
  for (int64_t extent : b.shape) bytes *= extent;
  return bytes;
}

bool is_far(const nest::Buffer& b) {
  bool memory = b.scope == nest::Scope::argument || b.scope == nest::Scope::workspace;
  return memory && bytes_of(b) > kNearBytes;
}

}  // namespace

// Calls `visit` for each store, as often as written-out loops repeat it; false where the body is
// not one of register tiles whose life began inside the loop with this number or further in.
bool PrefetchEmitter::visit_stores(const nest::Block& body, size_t loop,
                                   const std::function<void(const nest::Store&)>& visit) {
  for (const nest::Statement& s : body) {
    if (const auto* store = std::get_if<nest::Store>(&s.what)) {
      auto begun = c_.begun.find(store->target.buffer);
      if (begun == c_.begun.end() || begun->second < loop) return false;
      visit(*store);
      continue;
    }
    const auto* f = std::get_if<nest::For>(&s.what);
    bool lanes = f != nullptr && f->kind == nest::LoopKind::vector;
    if (f == nullptr || (!lanes && !writes_out(*f))) return false;
    Form begin = c_.indices.form(f->begin);
    int64_t count = lanes ? 1 : f->extent.value();
    bool known = true;
    for (int64_t i = 0; i < count && known; ++i) {
      c_.indices.bind(f->variable, begin + Form{{}, i});
      known = visit_stores(f->body, loop, visit);
    }
    c_.indices.unbind(f->variable);
    if (!known) return false;
  }
  return true;
}

Key PrefetchEmitter::Line::key() const {
  Key key{static_cast<uint64_t>(buffer.number())};
  append(key, offset);
  return key;
}

// Of the loop `f`, whose variable is bound to `at`: what the next tile reads along with this
// iteration.
PrefetchEmitter::FarLines PrefetchEmitter::lines_ahead(const nest::For& f, const Form& at) {
  const EmitContext::CountedLoop tile = c_.loops.back();
  FarLines result;
  std::map<Key, Line> next;
  std::set<Key> present;
  auto read = [&](const nest::Access& a) {
    const nest::Buffer& b = c_.buffer(a.buffer);
    if (!is_far(b) || !c_.is_place_known(a)) return;
    auto size = static_cast<int64_t>(byte_size(b.type));
    int64_t step = std::abs(c_.move_of(a, f.variable, at)) * size;
    int64_t move = c_.move_of(a, tile.variable, tile.at);
    if (step == 0 || step >= kLine || kLine % step != 0 || std::abs(move) * size < kLine) return;
    Line here{a.buffer, c_.offset_of(a)}, there{a.buffer, here.offset + Form{{}, move}};
    present.insert(here.key());
    next.try_emplace(there.key(), there);
    result.period = std::min(result.period, kLine / step);
  };
  bool known = visit_stores(f.body, c_.loops.size(), [&](const nest::Store& s) {
    for (const nest::Access& a : s.loads) read(a);
  });
  for (const Key& here : present) next.erase(here);
  if (!known || next.size() > kMostLines) return result;
  for (const auto& [key, line] : next) result.lines.push_back(line);
  return result;
}

void PrefetchEmitter::prefetch_next_tile(const nest::For& f, const Form& at, llvm::Value* i) {
  bool far = std::any_of(c_.nest.buffers.begin(), c_.nest.buffers.end(), is_far);
  if (!far || c_.loops.empty()) return;
  FarLines ahead = lines_ahead(f, at);
  if (ahead.lines.empty()) return;
  llvm::Value* within_line =
      c_.ir.CreateAnd(i, c_.ir.getInt64(static_cast<uint64_t>(ahead.period - 1)));
  c_.conditional(c_.ir.CreateIsNull(within_line), [&] {
    for (const Line& line : ahead.lines) c_.memory.prefetch(line.buffer, line.offset);
  });
}

// Of the loop `f`, whose variable is bound to `at`: the lines that an iteration some way on reads
// and those before it do not. None where there is little arithmetic for each.
std::vector<PrefetchEmitter::Line> PrefetchEmitter::lines_later(const nest::For& f,
                                                                const Form& at) {
  std::map<Key, std::pair<Line, int64_t>> lines;  // by place within a line, with their move
  int64_t operations = 0;
  auto read = [&](const nest::Access& a) {
    const nest::Buffer& b = c_.buffer(a.buffer);
    auto size = static_cast<int64_t>(byte_size(b.type));
    // What has been packed is read in the order of memory, and was near not long ago.
    bool far = b.scope == nest::Scope::argument && is_far(b) && c_.is_place_known(a);
    int64_t move = far ? c_.move_of(a, f.variable, at) : 0;
    if (std::abs(move) * size < kLine) return;
    Line line{a.buffer, c_.offset_of(a)}, whole = line;
    whole.offset.constant = floor_div(line.offset.constant * size, kLine);
    lines.try_emplace(whole.key(), line, move);
  };
  bool known = visit_stores(f.body, 0, [&](const nest::Store& s) {
    for (const nest::Access& a : s.loads) read(a);
    ++operations;
  });
  auto count = static_cast<int64_t>(lines.size());
  std::vector<Line> later;
  if (!known || operations < kOperationsPerLine * count) return later;
  int64_t steps = ceil_div(kOperationsAhead, operations);
  for (auto& [key, line] : lines) {
    later.push_back({line.first.buffer, line.first.offset + Form{{}, line.second * steps}});
  }
  return later;
}

void PrefetchEmitter::prefetch_operands(const nest::For& f, const Form& at, llvm::Value* i) {
  if (f.kind != nest::LoopKind::serial || c_.lanes.width != 1) return;
  c_.indices.bind(f.variable, at);
  prefetch_next_tile(f, at, i);
  for (const Line& line : lines_later(f, at)) c_.memory.prefetch(line.buffer, line.offset);
  c_.indices.unbind(f.variable);
}

// What a vector store assigns to far memory that is not streamed: the place of its first lane, if
// the lanes are neighbours.
std::optional<Form> PrefetchEmitter::far_row(const nest::Store& s) {
  bool plain = s.kind == nest::StoreKind::assign && s.target.values.empty() && c_.lanes.width > 1;
  const nest::Buffer& b = c_.buffer(s.target.buffer);
  bool far = is_far(b) && !c_.memory.is_non_temporal(s.target.buffer);
  if (!plain || !far || c_.loops.empty()) return std::nullopt;
  std::optional<Indices::Strided> lanes = c_.indices.strided(c_.offset_of(s.target));
  if (!lanes || lanes->stride != 1) return std::nullopt;
  return lanes->uniform;
}

// Of a running value that a loop stores in each iteration, a page further: the lines that a later
// iteration will store to.
void PrefetchEmitter::prefetch_next_row(const nest::Store& s, const Form& row, int64_t size) {
  bool running = std::any_of(s.loads.begin(), s.loads.end(), [&](const nest::Access& a) {
    auto begun = c_.begun.find(a.buffer);
    bool cells = c_.buffer(a.buffer).scope == nest::Scope::registers;
    return cells && begun != c_.begun.end() && begun->second < c_.loops.size();
  });
  if (!running) return;
  const EmitContext::CountedLoop loop = c_.loops.back();
  int64_t move = c_.move_of(s.target, loop.variable, loop.at);
  if (std::abs(move) * size < kPage) return;
  c_.memory.prefetch(s.target.buffer, row + Form{{}, kRowsAhead * move}, true);
}

// Of a row that the loop around goes along: its lines further on. Stores reach the caches one after
// the other, and each waits for its lines, two where the row begins inside a line.
void PrefetchEmitter::prefetch_along_row(const nest::Store& s, const Form& row, int64_t size) {
  for (size_t l = c_.loops.size(); l-- > 0;) {
    const EmitContext::CountedLoop loop = c_.loops[l];
    int64_t move = c_.move_of(s.target, loop.variable, loop.at) * size;
    if (move == 0) continue;
    if (move > 0 && move <= kStoresAhead) {
      c_.memory.prefetch(s.target.buffer, row + Form{{}, kStoresAhead / size}, true);
    }
    return;
  }
}

void PrefetchEmitter::prefetch_later_stores(const nest::Store& s) {
  std::optional<Form> row = far_row(s);
  if (!row) return;
  auto size = static_cast<int64_t>(byte_size(c_.buffer(s.target.buffer).type));
  prefetch_next_row(s, *row, size);
  prefetch_along_row(s, *row, size);
}

}  // namespace tile::cpu
