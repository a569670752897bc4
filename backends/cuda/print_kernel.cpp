// Kernels and statements.
#include <algorithm>

#include "backends/cuda/prelude.h"
#include "backends/cuda/printer.h"
#include "core/support/checked.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {

using nest::LoopKind;
using nest::Scope;

namespace {

// Threads that one iteration of the enclosing grid loop needs.
int64_t threads_in(const nest::Block& block) {
  int64_t most = 1;
  for (const nest::Statement& s : block) {
    if (const auto* loop = std::get_if<nest::For>(&s.what)) {
      int64_t inside = threads_in(loop->body);
      if (loop->kind == LoopKind::thread) inside = checked_mul(inside, loop->extent.value());
      most = std::max(most, inside);
    } else if (const auto* condition = std::get_if<nest::If>(&s.what)) {
      most = std::max({most, threads_in(condition->then), threads_in(condition->otherwise)});
    }
  }
  return most;
}

bool synchronises(const nest::Block& block) {
  return std::any_of(block.begin(), block.end(), [](const nest::Statement& s) {
    if (const auto* loop = std::get_if<nest::For>(&s.what)) return synchronises(loop->body);
    if (const auto* condition = std::get_if<nest::If>(&s.what)) {
      return synchronises(condition->then) || synchronises(condition->otherwise);
    }
    return std::holds_alternative<nest::Sync>(s.what);
  });
}

int64_t bytes_of(const nest::Buffer& b) {
  return checked_mul(element_count(b.shape), static_cast<int64_t>(byte_size(b.type)));
}
size_t aligned_up(size_t offset, size_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

}  // namespace

Printer::Printer(const nest::Nest& nest, const Target& target) : nest_(nest), target_(target) {
  for (size_t i = 0; i < nest.buffers.size(); ++i) names_.push_back("b" + std::to_string(i));
  for (size_t i = 0; i < nest.parameters.size(); ++i) {
    const nest::Parameter& p = nest.parameters[i];
    Interval range{p.lo, p.hi};
    variables_[p.name] = {(range.narrow() ? "p" : "q") + std::to_string(i), range};
    ranges_.set(p.name, p.lo, p.hi);
  }
}

CudaSource Printer::run() {
  place_workspace();
  for (const nest::Statement& s : nest_.body) {
    if (std::holds_alternative<nest::Alloc>(s.what)) continue;
    const auto* grid = std::get_if<nest::For>(&s.what);
    internal_check(grid != nullptr && grid->kind == LoopKind::grid,
                   "cuda: a top-level statement that is no grid loop");
    kernel(*grid);
  }
  source_.text = std::string(prelude()) + text_;
  return std::move(source_);
}

void Printer::line(const std::string& text) {
  text_.append(static_cast<size_t>(2 * indent_), ' ');
  text_ += text + "\n";
}
void Printer::open(const std::string& text) {
  line(text);
  ++indent_;
}
void Printer::close(const std::string& after) {
  --indent_;
  line("}" + after);
}

void Printer::place_workspace() {
  for (const nest::Statement& s : nest_.body) {
    const auto* alloc = std::get_if<nest::Alloc>(&s.what);
    if (alloc == nullptr) continue;
    const nest::Buffer& b = buffer(alloc->buffer);
    internal_check(b.scope == Scope::workspace, "cuda: a private buffer outside the kernels");
    if (workspace_.contains(alloc->buffer)) continue;
    workspace_[alloc->buffer] = source_.workspace_bytes;
    source_.workspace_bytes =
        aligned_up(source_.workspace_bytes + static_cast<size_t>(bytes_of(b)), 256);
  }
}

void Printer::place_shared(const nest::Block& statements, size_t& bytes) {
  for (const nest::Statement& s : statements) {
    if (const auto* loop = std::get_if<nest::For>(&s.what)) place_shared(loop->body, bytes);
    if (const auto* condition = std::get_if<nest::If>(&s.what)) {
      // A block takes one way: both use the same memory.
      size_t other = bytes;
      place_shared(condition->then, bytes);
      place_shared(condition->otherwise, other);
      bytes = std::max(bytes, other);
    }
    const auto* alloc = std::get_if<nest::Alloc>(&s.what);
    if (alloc == nullptr || buffer(alloc->buffer).scope != Scope::shared) continue;
    if (shared_.contains(alloc->buffer)) continue;
    const nest::Buffer& b = buffer(alloc->buffer);
    bytes = aligned_up(bytes, std::max<size_t>(16, static_cast<size_t>(b.alignment)));
    shared_[alloc->buffer] = bytes;
    bytes += static_cast<size_t>(bytes_of(b));
  }
}

std::string Printer::parameters() const {
  std::string text;
  for (size_t i = 0; i < nest_.argument_count(); ++i) {
    const nest::Buffer& b = nest_.buffers[i];
    text += (b.written ? "" : "const ") + std::string(memory_type(b.type)) + "* __restrict__ " +
            names_[i] + ", ";
  }
  text += "u8* __restrict__ workspace";
  for (size_t i = 0; i < nest_.parameters.size(); ++i) {
    text += ", long long q" + std::to_string(i);
  }
  return text;
}

std::string Printer::signature(const std::string& name, int threads) const {
  return "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(threads) + ") " + name +
         "(" + parameters() + ") {";
}

void Printer::kernel(const nest::For& grid) {
  if (is_matrix_kernel(grid)) return matrix_kernel(grid);
  CudaKernel k;
  k.name = "tile_" + std::to_string(source_.kernels.size());
  k.block = static_cast<int>(threads_in(grid.body));
  if (k.block > target_.gpu.threads_per_block) {
    fail(Stage::compile, "block", {}, "a block of " + std::to_string(k.block) + " threads", "");
  }
  block_ = k.block;
  shared_.clear();
  place_shared(grid.body, k.shared_bytes);
  if (static_cast<int64_t>(k.shared_bytes) > target_.gpu.shared_per_block) {
    fail(Stage::compile, "shared", {},
         "a block with " + std::to_string(k.shared_bytes) + " bytes of shared memory", "");
  }
  std::vector<const nest::For*> chain{&grid};
  auto next = [&]() -> const nest::For* {
    const nest::Block& inside = chain.back()->body;
    const auto* loop = inside.size() == 1 ? std::get_if<nest::For>(&inside[0].what) : nullptr;
    return loop != nullptr && loop->kind == LoopKind::grid ? loop : nullptr;
  };
  while (const nest::For* inner = next()) chain.push_back(inner);
  k.grid = 1;
  for (const nest::For* loop : chain) k.grid = k.grid * max(loop->extent, Expr(0));
  k.grid = simplify(k.grid, ranges_);
  open(signature(k.name, k.block));
  if (k.shared_bytes > 0) line("extern __shared__ __align__(1024) unsigned char shared_memory[];");
  for (size_t i = 0; i < nest_.parameters.size(); ++i) {
    const VariableText& v = variables_.at(nest_.parameters[i].name);
    if (v.range.narrow()) line("const int " + v.name + " = (int)q" + std::to_string(i) + ";");
  }
  for (auto [id, at] : workspace_) {
    std::string type(memory_type(buffer(id).type));
    line(type + "* const " + names_[static_cast<size_t>(id)] + " = (" + type + "*)(workspace + " +
         std::to_string(at) + "ull);");
  }
  for (auto [id, at] : shared_) {
    std::string type(memory_type(buffer(id).type));
    line(type + "* const " + names_[static_cast<size_t>(id)] + " = (" + type +
         "*)(shared_memory + " + std::to_string(at) + ");");
  }
  std::string rest = "blockIdx.x";
  std::function<void(size_t)> enter = [&](size_t i) {
    if (i == chain.size()) return block(chain.back()->body);
    const nest::For& loop = *chain[i];
    VariableText v = loop_variable(loop, "g");
    Expr inner = 1;
    for (size_t j = i + 1; j < chain.size(); ++j) inner = inner * chain[j]->extent;
    std::string value = "(int)blockIdx.x";
    if (i + 1 < chain.size()) value = "(" + value + " / " + expression(inner).text + ")";
    if (i > 0) value = "(" + value + " % " + expression(loop.extent).text + ")";
    line("const " + typed(v) + " = " + value + " + " + expression(loop.begin).text + ";");
    with_variable(loop.variable, v, loop.begin, loop.extent, [&] { enter(i + 1); });
  };
  enter(0);
  std::string barrier = "__syncthreads();\n";  // behind the last thread loop nothing waits
  if (text_.ends_with(barrier)) text_.erase(text_.rfind('\n', text_.size() - 2) + 1);
  close();
  source_.kernels.push_back(std::move(k));
}

void Printer::block(const nest::Block& statements) {
  std::set<int> outside;
  std::swap(outside, declared_);
  for (const nest::Statement& s : statements) {
    std::visit([&](const auto& what) { statement(what); }, s.what);
  }
  std::swap(outside, declared_);
}

VariableText Printer::loop_variable(const nest::For& loop, const char* prefix) {
  Interval begin = interval(loop.begin, variables_);
  Interval end = interval(loop.begin + loop.extent - 1, variables_);
  return {fresh(prefix), {begin.lo, std::max(begin.lo, end.hi)}};
}

template <class Inside>
void Printer::with_variable(const std::string& name, const VariableText& text, const Expr& begin,
                            const Expr& extent, const Inside& inside) {
  variables_[name] = text;
  ranges_.set(name, begin, simplify(begin + extent - 1, ranges_));
  inside();
  variables_.erase(name);
  ranges_.of.erase(name);
}

void Printer::statement(const nest::For& loop) {
  switch (loop.kind) {
    case LoopKind::thread:
      return thread_loop(loop);
    case LoopKind::vector:
      return vector_loop(loop);
    case LoopKind::serial:
    case LoopKind::unrolled:
      return counted_loop(loop);
    case LoopKind::grid:
    case LoopKind::parallel:
      break;
  }
  throw InternalError("cuda: a loop that is not allowed inside a kernel");
}

void Printer::thread_loop(const nest::For& loop) {
  bool outermost = !in_thread_;
  int64_t all = outermost ? block_ : inner_threads_;
  int64_t inner = threads_in(loop.body), used = checked_mul(inner, loop.extent.value());
  internal_check(used == all || !synchronises(loop.body), "cuda: a barrier for some threads only");
  in_thread_ = true;
  std::string value = "(int)threadIdx.x";
  if (!outermost) value = "(" + value + " % " + std::to_string(all) + ")";
  if (used < all) {
    open("if (" + value + " < " + std::to_string(used) + ") {");
  } else {
    open("{");
  }
  if (inner > 1) value = "(" + value + " / " + std::to_string(inner) + ")";
  VariableText v = loop_variable(loop, "t");
  line("const " + typed(v) + " = " + value + " + " + expression(loop.begin).text + ";");
  int64_t before = inner_threads_;
  inner_threads_ = inner;
  with_variable(loop.variable, v, loop.begin, loop.extent, [&] { block(loop.body); });
  inner_threads_ = before;
  close();
  if (!outermost) return;
  in_thread_ = false;
  line("__syncthreads();");
}

void Printer::counted_loop(const nest::For& loop) {
  if (loop.extent.is_constant() && loop.extent.value() <= 0) return;
  VariableText v = loop_variable(loop, "k");
  ExpressionText begin = expression(loop.begin);
  if (loop.extent.is_constant(1)) {
    open("{");
    line("const " + typed(v) + " = " + begin.text + ";");
  } else {
    Expr last = simplify(loop.begin + loop.extent, ranges_);
    if (loop.kind == LoopKind::unrolled) line("#pragma unroll");
    open("for (" + typed(v) + " = " + begin.text + "; " + v.name + " < " + expression(last).text +
         "; ++" + v.name + ") {");
  }
  with_variable(loop.variable, v, loop.begin, loop.extent, [&] { block(loop.body); });
  close();
}

void Printer::lane_loop(const nest::For& loop, const Expr& extent) {
  nest::For lanes = loop;
  lanes.extent = extent;
  lanes.kind = extent.is_constant() ? LoopKind::unrolled : LoopKind::serial;
  counted_loop(lanes);
}

void Printer::vector_loop(const nest::For& loop) {
  bool stores = std::all_of(loop.body.begin(), loop.body.end(), [](const nest::Statement& s) {
    return std::holds_alternative<nest::Store>(s.what);
  });
  if (!stores || !in_thread_) return lane_loop(loop, loop.extent);
  if (loop.extent.is_constant()) return full_lanes(loop);
  nest::For full = loop;
  full.extent = loop.width;
  open("if (" + expression(loop.extent).text + " == " + std::to_string(loop.width) + ") {");
  full_lanes(full);
  close(" else {");
  ++indent_;
  lane_loop(loop, loop.extent);
  close();
}

// Statement by statement: neighbouring elements are read and written as one access.
void Printer::full_lanes(const nest::For& loop) {
  VariableText v = loop_variable(loop, "l");
  for (const nest::Statement& s : loop.body) {
    const auto& what = std::get<nest::Store>(s.what);
    Lanes lanes;
    lanes.loop = &loop;
    open("{");
    for (const Node& n : what.body.nodes) {
      if (n.kind != NodeKind::load) continue;
      auto slot = static_cast<size_t>(n.slot);
      const nest::Access& a = what.loads[slot];
      if (lanes.packs.contains(slot) || !packs(a, loop)) continue;
      std::string name = fresh("x"), type = pack_type(a.buffer, loop);
      line("const " + type + " " + name + " = *(const " + type + "*)" + pack_place(a, loop) + ";");
      lanes.packs[slot] = name;
    }
    bool whole = what.kind == nest::StoreKind::assign && packs(what.target, loop);
    std::string pack = whole ? fresh("y") : "";
    if (whole) line(pack_type(what.target.buffer, loop) + " " + pack + ";");
    line("#pragma unroll");
    std::string begin = expression(loop.begin).text;
    open("for (" + typed(v) + " = " + begin + "; " + v.name + " < " +
         expression(loop.begin + loop.extent).text + "; ++" + v.name + ") {");
    lanes.element = loop.begin.is_constant(0) ? v.name : v.name + " - " + begin;
    with_variable(loop.variable, v, loop.begin, loop.extent, [&] { store(what, &lanes, pack); });
    close();
    if (whole) {
      line("*(" + pack_type(what.target.buffer, loop) + "*)" + pack_place(what.target, loop) +
           " = " + pack + ";");
    }
    close();
  }
}

void Printer::statement(const nest::If& condition) {
  std::string test;
  for (const Expr& e : condition.nonnegative) {
    test += (test.empty() ? "" : " && ") + expression(e).text + " >= 0";
  }
  if (!condition.predicate.results.empty()) {
    std::string name = fresh("c");
    line("bool " + name + " = " + (test.empty() ? "true" : test) + ";");
    open("if (" + name + ") {");
    Values values = body(condition.predicate, condition.loads, nullptr, nullptr);
    line(name + " = " + print_truth(values[static_cast<size_t>(condition.predicate.results[0])]) +
         ";");
    close();
    test = name;
  }
  open("if (" + (test.empty() ? "true" : test) + ") {");
  block(condition.then);
  if (!condition.otherwise.empty()) {
    close(" else {");
    ++indent_;
    block(condition.otherwise);
  }
  close();
}

void Printer::statement(const nest::Store& what) {
  if (in_thread_) {
    open("{");
    store(what, nullptr, "");
    close();
    return;
  }
  open("if (threadIdx.x == 0) {");
  store(what, nullptr, "");
  close();
  line("__syncthreads();");
}

void Printer::statement(const nest::Alloc& alloc) {
  const nest::Buffer& b = buffer(alloc.buffer);
  if (b.scope == Scope::shared) return;
  internal_check(b.scope != Scope::workspace, "cuda: workspace allocated inside a kernel");
  if (!declared_.insert(alloc.buffer).second) return;
  line("__align__(16) " + std::string(memory_type(b.type)) + " " +
       names_[static_cast<size_t>(alloc.buffer)] + "[" + std::to_string(element_count(b.shape)) +
       "];");
}

void Printer::statement(const nest::Sync&) { line("__syncthreads();"); }
void Printer::statement(const nest::Copy&) {
  throw InternalError("cuda: a bulk copy outside a product on tensor cores");
}
void Printer::statement(const nest::MatrixTile&) {
  throw InternalError("cuda: a matrix tile outside a product on tensor cores");
}

CudaSource print_cuda(const nest::Nest& nest, const Target& target) {
  return Printer(nest, target).run();
}

}  // namespace tile::cuda
