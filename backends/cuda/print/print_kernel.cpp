// Kernels and statements.
#include <algorithm>

#include "backends/cuda/print/prelude.h"
#include "backends/cuda/print/printer.h"
#include "core/support/checked.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {

using nest::LoopKind;
using nest::Scope;

bool synchronises(const nest::Block& block) {
  return std::any_of(block.begin(), block.end(), [](const nest::Statement& s) {
    if (const auto* loop = std::get_if<nest::For>(&s.what)) return synchronises(loop->body);
    if (const auto* condition = std::get_if<nest::If>(&s.what)) {
      return synchronises(condition->then) || synchronises(condition->otherwise);
    }
    return std::holds_alternative<nest::Sync>(s.what);
  });
}

namespace {

// Thread loops from this one inwards, one directly inside the other.
size_t thread_depth(const nest::For& loop) {
  const auto* inner = loop.body.size() == 1 ? std::get_if<nest::For>(&loop.body[0].what) : nullptr;
  return inner != nullptr && inner->kind == LoopKind::thread ? thread_depth(*inner) + 1 : 1;
}

// Whether no store reads what another writes, and each writes all it writes to one buffer of its
// own or element by element.
bool independent(const nest::Block& stores) {
  std::set<nest::BufferId> written;
  for (const nest::Statement& s : stores) {
    const auto* store = std::get_if<nest::Store>(&s.what);
    if (store == nullptr || store->kind != nest::StoreKind::assign) return false;
    written.insert(store->target.buffer);
  }
  return std::all_of(stores.begin(), stores.end(), [&](const nest::Statement& s) {
    const std::vector<nest::Access>& loads = std::get<nest::Store>(s.what).loads;
    return std::none_of(loads.begin(), loads.end(),
                        [&](const nest::Access& a) { return written.contains(a.buffer); });
  });
}

// The loads that the body makes outside its folds, in order.
std::vector<size_t> slots_of(const Body& body) {
  std::vector<size_t> slots;
  for (const Node& n : body.nodes) {
    size_t slot = n.slot;
    bool known = std::find(slots.begin(), slots.end(), slot) != slots.end();
    if (n.kind == NodeKind::load && !known) slots.push_back(slot);
  }
  return slots;
}

// Of a number that is not negative.
std::string quotient_of(const std::string& number, int64_t by) {
  return by == 1 ? number : "(int)((unsigned)" + number + " / " + std::to_string(by) + "u)";
}
std::string remainder_of(const std::string& number, int64_t by) {
  return "(int)((unsigned)" + number + " % " + std::to_string(by) + "u)";
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
  if (copies_) text_ = std::string(copy_prelude()) + text_;
  if (clusters_) text_ = std::string(cluster_prelude()) + text_;
  source_.text = std::string(prelude()) + text_;
  return std::move(source_);
}

void Printer::line(const std::string& text) {
  text_.append(2 * indent_, ' ');
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

void Printer::block(const nest::Block& statements) {
  std::set<nest::BufferId> outside;
  std::swap(outside, declared_);
  bool ends = ends_kernel_;
  bool together = in_thread_ && statements.size() > 1 && independent(statements);
  if (together) {
    open("{");
    sharing([&] {
      for (const nest::Statement& s : statements) {
        store(std::get<nest::Store>(s.what), nullptr, "");
      }
    });
    close();
  }
  for (size_t i = 0; i < statements.size() && !together; ++i) {
    ends_kernel_ = ends && i + 1 == statements.size();
    std::visit([&](const auto& what) { statement(what); }, statements[i].what);
  }
  ends_kernel_ = ends;
  std::swap(outside, declared_);
}

VariableText Printer::loop_variable(const nest::For& loop, const char* prefix) {
  Interval begin = interval(loop.begin, variables_);
  Interval end = interval(loop.begin + loop.extent - 1, variables_);
  return {fresh(prefix), {begin.lo, std::max(begin.lo, end.hi)}};
}

void Printer::with_variable(const std::string& name, const VariableText& text, const Expr& begin,
                            const Expr& extent, const std::function<void()>& inside) {
  variables_[name] = text;
  ranges_.set(name, begin, simplify(begin + extent - 1, ranges_));
  inside();
  variables_.erase(name);
  ranges_.of.erase(name);
}

void Printer::statement(const nest::For& loop) {
  switch (loop.kind) {
    case LoopKind::thread:
      return loop.blocks ? cluster_loop(loop) : thread_loop(loop);
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
  if (block_dimensions_) {
    static constexpr const char* kDimensions[] = {"(int)threadIdx.x", "(int)threadIdx.y",
                                                  "(int)threadIdx.z"};
    value = kDimensions[thread_depth(loop) - 1];
    open("{");
  } else {
    if (!outermost) value = remainder_of(value, all);
    open(used < all ? "if (" + value + " < " + std::to_string(used) + ") {" : "{");
    value = quotient_of(value, inner);
  }
  VariableText v = loop_variable(loop, "t");
  line("const " + typed(v) + " = " + value + " + " + expression(loop.begin).text + ";");
  int64_t before = inner_threads_;
  inner_threads_ = inner;
  with_variable(loop.variable, v, loop.begin, loop.extent, [&] { block(loop.body); });
  inner_threads_ = before;
  close();
  if (!outermost) return;
  in_thread_ = false;
  if (!ends_kernel_ && cluster_ == nullptr) line("__syncthreads();");
}

void Printer::counted_loop(const nest::For& loop) {
  if (loop.extent.is_constant() && loop.extent.value() <= 0) return;
  ends_kernel_ = ends_kernel_ && loop.extent.is_constant(1);
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
  int turns = loop.extent.is_constant(1) ? 0 : 1;
  loops_ += turns;
  with_variable(loop.variable, v, loop.begin, loop.extent, [&] {
    // What a block computes for all its threads keeps its name.
    bool named = !in_thread_ && loop.extent.is_constant(1) && !linear_form(loop.begin);
    if (named && v.range.narrow()) ranges_.set(loop.variable, v.range.lo, v.range.hi);
    block(loop.body);
  });
  loops_ -= turns;
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
  const auto* first = std::get_if<nest::Store>(&loop.body[0].what);
  if (first->asynchronous) return later_lanes(loop, *first);
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

// Neighbours that are copied asynchronously go as one copy.
void Printer::later_lanes(const nest::For& loop, const nest::Store& what) {
  bool whole = loop.body.size() == 1 && packs(what.target, loop) && packs(what.loads[0], loop);
  if (!whole) return lane_loop(loop, loop.extent);
  auto bytes = static_cast<int64_t>(byte_size(buffer(what.target.buffer).type));
  later(bytes * loop.extent.value(), pack_place(what.target, loop),
        pack_place(what.loads[0], loop));
}

void Printer::later(int64_t bytes, const std::string& to, const std::string& from) {
  line("copy_later<" + std::to_string(bytes) + ">(" + to + ", " + from + ");");
}

// Neighbouring elements are read and written as one access.
void Printer::full_lanes(const nest::For& loop) {
  if (independent(loop.body)) return lanes_together(loop, loop.body);
  for (const nest::Statement& s : loop.body) lanes_together(loop, {s});
}

void Printer::lanes_together(const nest::For& loop, const nest::Block& stores) {
  VariableText v = loop_variable(loop, "l");
  std::string begin = expression(loop.begin).text;
  std::map<std::string, std::string> loaded;  // packs by their places
  std::vector<Lanes> lanes(stores.size());
  std::vector<std::string> packs_made(stores.size());
  open("{");
  for (size_t i = 0; i < stores.size(); ++i) {
    const auto& what = std::get<nest::Store>(stores[i].what);
    lanes[i].loop = &loop;
    lanes[i].element = loop.begin.is_constant(0) ? v.name : v.name + " - " + begin;
    for (size_t slot : slots_of(what.body)) {
      const nest::Access& a = what.loads[slot];
      if (!packs(a, loop)) continue;
      std::string type = pack_type(a.buffer, loop);
      std::string& name = loaded[type + pack_place(a, loop)];
      if (name.empty()) {
        name = fresh("x");
        line("const " + type + " " + name + " = *(const " + type + "*)" + pack_place(a, loop) +
             ";");
      }
      lanes[i].packs[slot] = name;
    }
    bool whole = what.kind == nest::StoreKind::assign && packs(what.target, loop);
    if (!whole) continue;
    packs_made[i] = fresh("y");
    line(pack_type(what.target.buffer, loop) + " " + packs_made[i] + ";");
  }
  line("#pragma unroll");
  open("for (" + typed(v) + " = " + begin + "; " + v.name + " < " +
       expression(loop.begin + loop.extent).text + "; ++" + v.name + ") {");
  with_variable(loop.variable, v, loop.begin, loop.extent, [&] {
    sharing([&] {
      for (size_t i = 0; i < stores.size(); ++i) {
        store(std::get<nest::Store>(stores[i].what), &lanes[i], packs_made[i]);
      }
    });
  });
  close();
  for (size_t i = 0; i < stores.size(); ++i) {
    const auto& what = std::get<nest::Store>(stores[i].what);
    if (packs_made[i].empty()) continue;
    line("*(" + pack_type(what.target.buffer, loop) + "*)" + pack_place(what.target, loop) + " = " +
         packs_made[i] + ";");
  }
  close();
}

std::string Printer::conditions(const nest::If& test) const {
  std::string text;
  for (const Expr& e : test.nonnegative) {
    text += (text.empty() ? "" : " && ") + expression(e).text + " >= 0";
  }
  return text;
}

void Printer::statement(const nest::If& condition) {
  std::string test = conditions(condition);
  if (!condition.predicate.results.empty()) {
    std::string name = fresh("c");
    line("bool " + name + " = " + (test.empty() ? "true" : test) + ";");
    open("if (" + name + ") {");
    NodeValues values = body(condition.predicate, condition.loads, nullptr, nullptr);
    line(name + " = " + print_truth(values[condition.predicate.results[0]]) + ";");
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
  if (!ends_kernel_) line("__syncthreads();");
}

void Printer::statement(const nest::Alloc& alloc) {
  const nest::Buffer& b = buffer(alloc.buffer);
  if (b.scope == Scope::shared) return;
  internal_check(b.scope != Scope::workspace, "cuda: workspace allocated inside a kernel");
  if (!declared_.insert(alloc.buffer).second) return;
  line("__align__(16) " + std::string(memory_type(b.type)) + " " + names_[alloc.buffer] + "[" +
       std::to_string(element_count(b.shape)) + "];");
}

void Printer::statement(const nest::Sync& sync) {
  if (!copies_later_) return barrier();
  internal_check(cluster_ == nullptr, "cuda: asynchronous stores in a cluster");
  line("copy_barrier<" + std::to_string(sync.pending) + ">();");
}
void Printer::statement(const nest::Copy&) {
  throw InternalError("cuda: a bulk copy outside a product on tensor cores");
}
void Printer::statement(const nest::MatrixTile&) {
  throw InternalError("cuda: a matrix tile outside a product on tensor cores");
}
void Printer::statement(const nest::MatrixMove&) {
  throw InternalError("cuda: a tile register of a CPU");
}

CudaSource print_cuda(const nest::Nest& nest, const Target& target) {
  return Printer(nest, target).run();
}

}  // namespace tile::cuda
