// Prints nests that blocks of a streamed axis pass by. Fragments are spread over the registers of
// warps. Of tensor cores: a warp has 16 rows, a lane two of them, and of each eight columns two
// neighbours; where threads multiply: print_stream_threads.cpp. Shared buffers are lines of 128
// bytes, swizzled, in blocks of as many elements.
#include <algorithm>

#include "backends/cuda/matrix/matrix_source.h"
#include "backends/cuda/matrix/stream_source.h"
#include "backends/cuda/print/stream_layout.h"
#include "core/support/checked.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {

using nest::LoopKind;
using nest::Scope;

namespace {

constexpr size_t kMostMaps =
    4;  // tensor maps of one kernel that a launch takes beside the product's

std::string number(int64_t n) { return std::to_string(n); }

template <class Statement>
const Statement* find_statement(const nest::Block& block,
                                const std::function<bool(const Statement&)>& such) {
  for (const nest::Statement& s : block) {
    const auto* what = std::get_if<Statement>(&s.what);
    if (what != nullptr && such(*what)) return what;
    const nest::Block* inside = nullptr;
    if (const auto* loop = std::get_if<nest::For>(&s.what)) inside = &loop->body;
    const Statement* found = inside == nullptr ? nullptr : find_statement(*inside, such);
    if (found != nullptr) return found;
  }
  return nullptr;
}

// The stores of a block, inside conditions too.
void find_stores(const nest::Block& block, std::vector<const nest::Store*>& found) {
  for (const nest::Statement& s : block) {
    if (const auto* store = std::get_if<nest::Store>(&s.what)) found.push_back(store);
    if (const auto* test = std::get_if<nest::If>(&s.what)) {
      find_stores(test->then, found);
      find_stores(test->otherwise, found);
    }
    if (const auto* loop = std::get_if<nest::For>(&s.what)) find_stores(loop->body, found);
  }
}
int64_t bytes_in_lines(const nest::Buffer& b) {
  int64_t bytes = b.shape[1] * static_cast<int64_t>(byte_size(b.type));
  return b.shape[0] * ceil_div(bytes, kStreamLineBytes) * kStreamLineBytes;
}

}  // namespace

std::vector<const nest::Store*> stores_in(const nest::Block& block) {
  std::vector<const nest::Store*> found;
  find_stores(block, found);
  return found;
}

// Copies run ahead of a loop that does more with its fragments than to multiply into them.
bool Printer::is_stream_kernel(const nest::For& grid) {
  return find_statement<nest::For>(grid.body, [](const nest::For& loop) {
           return loop.pipeline > 0 &&
                  std::any_of(loop.body.begin(), loop.body.end(), [](const nest::Statement& s) {
                    const auto* inner = std::get_if<nest::For>(&s.what);
                    return inner != nullptr && inner->kind == LoopKind::thread;
                  });
         }) != nullptr;
}

Printer::StreamLayout Printer::stream_layout(const nest::For& grid) const {
  StreamLayout l;
  l.loop =
      find_statement<nest::For>(grid.body, [](const nest::For& loop) { return loop.pipeline > 0; });
  internal_check(l.loop != nullptr, "cuda: a stream without a loop over blocks");
  l.stages = l.loop->pipeline;
  const auto* product =
      find_statement<nest::MatrixTile>(grid.body, [](const auto&) { return true; });
  l.rows = buffer(product->sum).shape[0];
  l.by_threads = product->unrounded;
  if (l.by_threads) place_exchange(grid.body, l);
  l.threads = l.rows / l.warp_rows() * target_.gpu.warp_size;
  l.groups =
      !l.by_threads && target_.features.starts_with("sm_90a") && l.rows % kStreamGroupRows == 0;
  l.type = std::string(memory_type(buffer(product->a).type));
  auto place = [&](const nest::Copy& c, int64_t& bytes, std::vector<const nest::Copy*>& list) {
    l.at[c.to] = bytes;
    bytes += bytes_in_lines(buffer(c.to));
    list.push_back(&c);
  };
  for (const nest::Statement& s : l.loop->body) {
    const auto* c = std::get_if<nest::Copy>(&s.what);
    if (c == nullptr) continue;
    if (buffer(c->to).shape.size() > 1) {
      place(*c, l.stage_bytes, l.steps);
    } else {
      l.values[c->to].copy = c;
    }
  }
  place_values(l);
  l.parts = sums_in_parts(l.loop->body);
  find_statement<nest::Copy>(grid.body, [&](const nest::Copy& c) {
    bool later = l.at.contains(c.to) || l.values.contains(c.to);
    if (!later) place(c, l.once_bytes, l.once);
    return false;
  });
  auto boxes = [&](const nest::Copy* c) { return is_bulk_copy(*c); };
  l.bulk = l.groups && l.once.size() + l.steps.size() <= kMostMaps &&
           std::all_of(l.once.begin(), l.once.end(), boxes) &&
           std::all_of(l.steps.begin(), l.steps.end(), boxes);
  return l;
}

void Printer::stream_kernel(const nest::For& grid) {
  Variables variables = variables_;
  Ranges ranges = ranges_;
  StreamLayout l = stream_layout(grid);
  stream_ = &l;
  in_thread_ = true;
  CudaKernel k;
  k.name = "tile_" + number(static_cast<int64_t>(source_.kernels.size()));
  k.grid = simplify(grid.extent, ranges_);
  l.kernel = &k;
  share_tiles(grid, k);
  int64_t barriers = l.bulk ? 16 * l.stages + 16 + 8 * multiplying_groups(l) : 0;
  k.block = static_cast<int>(l.threads + (l.bulk ? kStreamGroupThreads : 0));
  k.shared_bytes = static_cast<size_t>(l.bytes() + barriers + kStreamLineBytes * 8);
  std::string before = std::move(text_);
  text_.clear();
  ++indent_;
  line("extern __shared__ __align__(1024) unsigned char shared_memory[];");
  line("const u32 base = (stream_address(shared_memory) + 1023) & ~1023u;");
  if (!l.values.empty()) {
    line("unsigned char* const values = shared_memory + (base - stream_address(shared_memory)) + " +
         number(l.values_at()) + ";");
  }
  line("const int lane = threadIdx.x % 32, warp = threadIdx.x / 32" +
       std::string(l.bulk ? " - 4" : "") + ";");
  if (l.by_threads) {
    place_lanes();
  } else {
    line("int first_row = warp * 16 + lane / 4, first_column = lane % 4 * 2;");
  }
  if (l.groups) {
    line("int group_rows = warp / 4 * " + number(kStreamGroupRows * kStreamLineBytes) + ";");
  }
  if (l.resident == 0) line("const int tile = blockIdx.x;");
  text_ += parameter_values();
  if (l.bulk) set_up_barriers();
  l.indices_at = text_.size();
  known(grid, "tile");
  stream_block(grid.body);
  if (l.resident > 0) close();
  if (l.divided) close();
  close();
  std::string inside = std::move(text_);
  // The maps, which are parameters, are known when all has been printed.
  std::string given = parameters();
  for (size_t m = 0; m < k.maps.size(); ++m) {
    given += ", const __grid_constant__ TensorMap map_" + std::to_string(m);
  }
  before += stream_functions(l);
  text_ = before + "extern \"C\" __global__ void __launch_bounds__(" + number(k.block) + ", 1) " +
          k.name + "(" + given + ") {\n" + inside;
  stream_ = nullptr;
  in_thread_ = false;
  variables_ = std::move(variables);
  ranges_ = std::move(ranges);
  source_.kernels.push_back(std::move(k));
}

// The functions that the kernel calls and no kernel before it.
std::string Printer::stream_functions(const StreamLayout& l) {
  std::string text;
  auto once = [&](bool& known, bool wanted, const std::string& functions) {
    if (wanted && !known) text += functions;
    known = known || wanted;
  };
  once(stream_prelude_, true, stream_prelude());
  once(stream_groups_, l.groups, stream_group_prelude());
  once(stream_threads_, l.by_threads, stream_threads_prelude());
  once(matrix_prelude_, l.bulk, matrix_prelude());
  for (const auto& [columns, name] : l.functions) {
    if (!stream_functions_.insert(name).second) continue;
    text += stream_group_functions(name, columns, l.type);
  }
  return text;
}

// Statements of the block.
void Printer::stream_block(const nest::Block& statements) {
  for (size_t i = 0; i < statements.size(); ++i) {
    const nest::Statement& s = statements[i];
    if (const auto* alloc = std::get_if<nest::Alloc>(&s.what)) {
      if (stream_->bulk && !stream_->divided) divide_groups();
      stream_fragment(alloc->buffer);
    } else if (const auto* copy = std::get_if<nest::Copy>(&s.what)) {
      bool once =
          std::find(stream_->once.begin(), stream_->once.end(), copy) != stream_->once.end();
      if (once && !stream_->bulk) stream_fill(*copy, "base");
    } else if (const auto* multiply = std::get_if<nest::MatrixTile>(&s.what)) {
      bool fresh = i > 0 && clears(statements[i - 1], multiply->sum);
      stream_multiply(*multiply, fresh);
    } else if (const auto* test = std::get_if<nest::If>(&s.what)) {
      open("if (" + conditions(*test) + ") {");
      stream_block(test->then);
      close(" else {");
      ++indent_;
      stream_block(test->otherwise);
      close();
    } else {
      const auto& loop = std::get<nest::For>(s.what);
      if (stream_->groups && is_product(statements, i)) continue;
      std::string odd = odd_statement(s);
      if (odd.empty()) {
        stream_loop(loop);
        continue;
      }
      size_t end = usual_run(statements, i, odd);
      either_run({statements.begin() + static_cast<std::ptrdiff_t>(i),
                  statements.begin() + static_cast<std::ptrdiff_t>(end)},
                 odd);
      i = end - 1;
    }
  }
}

// The statement sets every element of the fragment to zero.
bool Printer::clears(const nest::Statement& s, nest::BufferId fragment) {
  const auto* loop = std::get_if<nest::For>(&s.what);
  if (loop == nullptr || loop->kind != LoopKind::thread) return false;
  std::vector<const nest::Store*> stores = stores_in(loop->body);
  if (stores.size() != 1 || stores[0]->target.buffer != fragment) return false;
  const Body& body = stores[0]->body;
  const Node& root = body[body.results[0]];
  return stores[0]->kind == nest::StoreKind::assign && root.kind == NodeKind::real &&
         root.real == 0;
}

void Printer::stream_loop(const nest::For& loop) {
  if (&loop == stream_->loop) return stream_steps(loop);
  if (loop.kind == LoopKind::thread) return stream_rows(loop);
  internal_check(loop.extent.is_constant(1), "cuda: a loop of a stream of another kind");
  VariableText v = loop_variable(loop, "i");
  line("const " + typed(v) + " = " + expression(loop.begin).text + ";");
  variables_[loop.variable] = v;
  if (v.range.narrow()) ranges_.set(loop.variable, v.range.lo, v.range.hi);
  stream_block(loop.body);
}

bool Printer::is_row_fragment(nest::BufferId id) const {
  return buffer(id).scope == Scope::fragment && buffer(id).shape[1] == 1;
}

// A row's elements are in four lanes; values of rows in each of them.
void Printer::stream_fragment(nest::BufferId id) {
  const nest::Buffer& b = buffer(id);
  if (b.scope != Scope::fragment) return;
  const std::string& name = names_[id];
  int64_t rows = stream_->lane_rows;
  if (is_row_fragment(id)) return line("float " + name + "[" + number(rows) + "];");
  line((is_narrow(b.type) ? "u32 " : "float ") + name + "[" +
       number(b.shape[1] * rows / (is_narrow(b.type) ? 8 : 4)) + "];");
}

void Printer::stream_steps(const nest::For& loop) {
  std::string first = fresh("g"), end = fresh("g");
  line("const int " + first + " = " + expression(loop.begin).text + ";");
  line("const int " + end + " = " + expression(simplify(loop.begin + loop.extent, ranges_)).text +
       ";");
  known(loop, "step");
  stream_->bulk ? bulk_turns(loop, first, end) : stream_turns(loop, first, end);
  for (nest::BufferId id : stream_->parts) {
    line("for (int h = 0; h < " + number(stream_->lane_rows) + "; ++h) " + names_[id] +
         "[h] = " + of_row("stream_sum") + "(" + names_[id] + "[h]);");
  }
}

// Sums of rows begin with zero, whose parts are zeros.
std::set<nest::BufferId> Printer::sums_in_parts(const nest::Block& body) const {
  std::set<nest::BufferId> sums, others;
  for (const nest::Store* s : stores_in(body)) {
    nest::BufferId id = s->target.buffer;
    if (s->kind == nest::StoreKind::add && is_row_fragment(id)) {
      sums.insert(id);
    } else if (s->kind != nest::StoreKind::multiply) {
      others.insert(id);
    }
    for (const nest::Access& load : s->loads) others.insert(load.buffer);
  }
  for (nest::BufferId id : others) sums.erase(id);
  return sums;
}

// The copies of one turn into a stage, and the loop behind them.
void Printer::stream_turns(const nest::For& loop, const std::string& first,
                           const std::string& end) {
  const StreamLayout& l = *stream_;
  std::string ahead = number(l.stages - 1), stages = number(l.stages);
  std::string part = "const u32 part = base + " + number(l.once_bytes) + " + slot * " +
                     number(l.stage_bytes) + ";";
  open("auto fill = [&](const int step, const u32 slot) {");
  line(part);
  for (const nest::Copy* c : l.steps) stream_fill(*c, "part");
  fill_values(0, l.threads);
  close(";");
  line("#pragma unroll");
  open("for (int i = 0; i < " + ahead + "; ++i) {");
  line("if (" + first + " + i < " + end + ") fill(" + first + " + i, i);");
  line("stream_commit();");
  close();
  line("u32 slot = 0, next = " + ahead + ";");
  line("#pragma unroll 1");
  open("for (int step = " + first + "; step < " + end + "; ++step) {");
  line("stream_wait<" + number(l.stages - 2) + ">();");
  if (l.groups) line("copies_visible();");
  line("__syncthreads();");
  line("if (step + " + ahead + " < " + end + ") fill(step + " + ahead + ", next);");
  line("stream_commit();");
  line(part);
  name_values();
  stream_exponentials_ = true;
  stream_block(loop.body);
  stream_exponentials_ = false;
  line("if (++slot == " + stages + ") slot = 0;");
  line("if (++next == " + stages + ") next = 0;");
  close();
}

// 16 bytes at a time, each thread its own: asynchronously in pieces of as many bytes as are
// aligned; elements that are not, or that are no neighbours in memory, one by one.
void Printer::stream_fill(const nest::Copy& copy, const std::string& part) {
  const nest::Buffer& to = buffer(copy.to);
  const nest::Buffer& from = buffer(copy.from);
  auto size = static_cast<int64_t>(byte_size(to.type));
  int64_t chunk = kStreamChunkBytes / size, lines = to.shape[0], chunks = to.shape[1] / chunk;
  int64_t stride = from.strides[copy.order.back()];
  const std::string most = number(chunk), block = number(kStreamLineBytes / size);
  ThreadCopy how = thread_copy(copy, true, to.shape[1]);
  line("#pragma unroll");
  open("for (int q = threadIdx.x; q < " + number(lines * chunks) +
       "; q += " + number(stream_->threads) + ") {");
  // Lanes that follow each other take neighbours in memory: of a line, or else of several.
  std::string line_and_at = "const int line = q / " + number(chunks) + ", at = q % " +
                            number(chunks) + " * " + most + ";";
  if (stride != 1) {
    line_and_at = "const int line = q % " + number(lines) + ", at = q / " + number(lines) + " * " +
                  most + ";";
  }
  line(line_and_at);
  line(how.place);
  bool columns =
      std::find(stream_->steps.begin(), stream_->steps.end(), &copy) != stream_->steps.end();
  bool ordered = stream_->by_threads && columns;
  line("const int to_line = " + std::string(ordered ? "stream_line(line)" : "line") + ";");
  line("const u32 to = " + part + " + " + number(stream_->at.at(copy.to)) + " + at / " + block +
       " * " + number(lines * kStreamLineBytes) + " + to_line * 128 + (at % " + block + " / " +
       most + " ^ to_line % 8) * 16;");
  if (how.alignment < 4 || stride != 1) {
    bool narrow = is_narrow(to.type);
    const std::string element = "from[i * " + number(stride) + "ll]";
    line("union { " + std::string(narrow ? "u16 e[8]" : "f32 e[4]") + "; u32 w[4]; } chunk;");
    line("#pragma unroll");
    line("for (int i = 0; i < " + most + "; ++i) chunk.e[i] = inside && i < left ? " + element +
         (narrow ? ".bits : (u16)0;" : " : 0.0f;"));
    line("stream_store(to, chunk.w);");
  } else {
    int64_t bytes = std::min<int64_t>(how.alignment, kStreamChunkBytes), elements = bytes / size;
    line("#pragma unroll");
    open("for (int i = 0; i < " + most + "; i += " + number(elements) + ") {");
    line("const int take = inside ? min(max(left - i, 0), " + number(elements) + ") * " +
         number(size) + " : 0;");
    line("stream_copy<" + number(bytes) + ">(to + " + number(size) +
         " * i, take > 0 ? from + i : " + how.base + ", take);");
    close();
  }
  close();
}

}  // namespace tile::cuda
