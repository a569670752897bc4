// Prefetches of far operands: while a register tile is reduced, the lines that the next tile will
// read. The processor's own prefetcher begins anew with each row of a tile, and at each page. Of
// operands of which each step of a reduction reads further lines: those of a later step. And of far
// results: while a row is stored, its lines further on, or those of a later row pages apart.
#include <algorithm>
#include <cstdlib>

#include "backends/cpu/emit/emitter.h"

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

Form FunctionEmitter::offset_of(const nest::Access& a) {
  const nest::Buffer& b = nest_.buffers[static_cast<size_t>(a.buffer)];
  Form sum;
  for (size_t d = 0; d < a.index.size(); ++d) sum = sum + indices_.form(a.index[d]) * b.strides[d];
  return sum;
}

// Elements that the access moves by when the variable, which is bound to `at`, grows by one; 0
// where that is not a number.
int64_t FunctionEmitter::move_of(const nest::Access& a, const std::string& variable,
                                 const Form& at) {
  Form here = offset_of(a);
  indices_.bind(variable, at + Form{{}, 1});
  Form move = offset_of(a) - here;
  indices_.bind(variable, at);
  return move.is_constant() ? move.constant : 0;
}

// Calls `visit` for each store, as often as written-out loops repeat it; false where the body is
// not one of register tiles whose life began inside the loop with this number or further in.
bool FunctionEmitter::visit_stores(const nest::Block& body, size_t loop,
                                   const std::function<void(const nest::Store&)>& visit) {
  for (const nest::Statement& s : body) {
    if (const auto* store = std::get_if<nest::Store>(&s.what)) {
      auto begun = begun_.find(store->target.buffer);
      if (begun == begun_.end() || begun->second < loop) return false;
      visit(*store);
      continue;
    }
    const auto* f = std::get_if<nest::For>(&s.what);
    bool lanes = f != nullptr && f->kind == nest::LoopKind::vector;
    if (f == nullptr || (!lanes && !writes_out(*f))) return false;
    Form begin = indices_.form(f->begin);
    int64_t count = lanes ? 1 : f->extent.value();
    bool known = true;
    for (int64_t i = 0; i < count && known; ++i) {
      indices_.bind(f->variable, begin + Form{{}, i});
      known = visit_stores(f->body, loop, visit);
    }
    indices_.unbind(f->variable);
    if (!known) return false;
  }
  return true;
}

Key FunctionEmitter::Line::key() const {
  Key key{static_cast<uint64_t>(buffer)};
  append(key, offset);
  return key;
}

// Of the loop `f`, whose variable is bound to `at`: what the next tile reads along with this
// iteration.
FunctionEmitter::FarLines FunctionEmitter::lines_ahead(const nest::For& f, const Form& at) {
  const TileLoop tile = loops_.back();
  FarLines result;
  std::map<Key, Line> next;
  std::set<Key> present;
  auto read = [&](const nest::Access& a) {
    const nest::Buffer& b = nest_.buffers[static_cast<size_t>(a.buffer)];
    if (!is_far(b) || !a.values.empty()) return;
    auto size = static_cast<int64_t>(byte_size(b.type));
    int64_t step = std::abs(move_of(a, f.variable, at)) * size;
    int64_t move = move_of(a, tile.variable, tile.at);
    if (step == 0 || step >= kLine || kLine % step != 0 || std::abs(move) * size < kLine) return;
    Line here{a.buffer, offset_of(a)}, there{a.buffer, here.offset + Form{{}, move}};
    present.insert(here.key());
    next.try_emplace(there.key(), there);
    result.period = std::min(result.period, kLine / step);
  };
  bool known = visit_stores(f.body, loops_.size(), [&](const nest::Store& s) {
    for (const nest::Access& a : s.loads) read(a);
  });
  for (const Key& here : present) next.erase(here);
  if (!known || next.size() > kMostLines) return result;
  for (const auto& [key, line] : next) result.lines.push_back(line);
  return result;
}

void FunctionEmitter::prefetch_next_tile(const nest::For& f, const Form& at, llvm::Value* i) {
  bool far = std::any_of(nest_.buffers.begin(), nest_.buffers.end(), is_far);
  if (!far || loops_.empty()) return;
  FarLines ahead = lines_ahead(f, at);
  if (ahead.lines.empty()) return;
  llvm::Value* within_line =
      ir_.CreateAnd(i, ir_.getInt64(static_cast<uint64_t>(ahead.period - 1)));
  conditional(ir_.CreateIsNull(within_line), [&] {
    for (const Line& line : ahead.lines) memory_.prefetch(line.buffer, line.offset);
  });
}

// Of the loop `f`, whose variable is bound to `at`: the lines that an iteration some way on reads
// and those before it do not. None where there is little arithmetic for each.
std::vector<FunctionEmitter::Line> FunctionEmitter::lines_later(const nest::For& f,
                                                                const Form& at) {
  std::map<Key, std::pair<Line, int64_t>> lines;  // by place within a line, with their move
  int64_t operations = 0;
  auto read = [&](const nest::Access& a) {
    const nest::Buffer& b = nest_.buffers[static_cast<size_t>(a.buffer)];
    auto size = static_cast<int64_t>(byte_size(b.type));
    // What has been packed is read in the order of memory, and was near not long ago.
    bool far = b.scope == nest::Scope::argument && is_far(b) && a.values.empty();
    int64_t move = far ? move_of(a, f.variable, at) : 0;
    if (std::abs(move) * size < kLine) return;
    Line line{a.buffer, offset_of(a)}, whole = line;
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

void FunctionEmitter::prefetch_operands(const nest::For& f, const Form& at, llvm::Value* i) {
  if (f.kind != nest::LoopKind::serial || lanes_.width != 1) return;
  indices_.bind(f.variable, at);
  prefetch_next_tile(f, at, i);
  for (const Line& line : lines_later(f, at)) memory_.prefetch(line.buffer, line.offset);
  indices_.unbind(f.variable);
}

// What a vector store assigns to far memory that is not streamed: the place of its first lane, if
// the lanes are neighbours.
std::optional<Form> FunctionEmitter::far_row(const nest::Store& s) {
  bool plain = s.kind == nest::StoreKind::assign && s.target.values.empty() && lanes_.width > 1;
  const nest::Buffer& b = nest_.buffers[static_cast<size_t>(s.target.buffer)];
  bool far = is_far(b) && !memory_.is_non_temporal(s.target.buffer);
  if (!plain || !far || loops_.empty()) return std::nullopt;
  std::optional<Indices::Strided> lanes = indices_.strided(offset_of(s.target));
  if (!lanes || lanes->stride != 1) return std::nullopt;
  return lanes->uniform;
}

// Of a running value that a loop stores in each iteration, a page further: the lines that a later
// iteration will store to.
void FunctionEmitter::prefetch_next_row(const nest::Store& s, const Form& row, int64_t size) {
  bool running = std::any_of(s.loads.begin(), s.loads.end(), [&](const nest::Access& a) {
    auto begun = begun_.find(a.buffer);
    bool cells = nest_.buffers[static_cast<size_t>(a.buffer)].scope == nest::Scope::registers;
    return cells && begun != begun_.end() && begun->second < loops_.size();
  });
  if (!running) return;
  const TileLoop loop = loops_.back();
  int64_t move = move_of(s.target, loop.variable, loop.at);
  if (std::abs(move) * size < kPage) return;
  memory_.prefetch(s.target.buffer, row + Form{{}, kRowsAhead * move}, true);
}

// Of a row that the loop around goes along: its lines further on. Stores reach the caches one after
// the other, and each waits for its lines, two where the row begins inside a line.
void FunctionEmitter::prefetch_along_row(const nest::Store& s, const Form& row, int64_t size) {
  for (size_t l = loops_.size(); l-- > 0;) {
    const TileLoop loop = loops_[l];
    int64_t move = move_of(s.target, loop.variable, loop.at) * size;
    if (move == 0) continue;
    if (move > 0 && move <= kStoresAhead) {
      memory_.prefetch(s.target.buffer, row + Form{{}, kStoresAhead / size}, true);
    }
    return;
  }
}

void FunctionEmitter::prefetch_later_stores(const nest::Store& s) {
  std::optional<Form> row = far_row(s);
  if (!row) return;
  auto size =
      static_cast<int64_t>(byte_size(nest_.buffers[static_cast<size_t>(s.target.buffer)].type));
  prefetch_next_row(s, *row, size);
  prefetch_along_row(s, *row, size);
}

}  // namespace tile::cpu
