// Runs a nest one iteration after another, checking every index. Names are resolved to slots once,
// so that thousands of test programs run in seconds.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>

#include "core/ir/analysis/evaluate_body.h"
#include "core/nest/launch_extent.h"
#include "core/nest/races.h"

namespace tile::nest {
namespace {

// An expression over numbered variables: the linear part directly, anything else by the tree.
struct SlotExpr {
  bool linear = false;
  std::vector<std::pair<size_t, int64_t>> terms;
  int64_t constant = 0;
  Expr general;
};

class Machine final : private Leaves {
 public:
  Machine(const Nest& nest, const std::vector<HostTensor*>& arguments,
          const std::vector<int64_t>& parameters)
      : nest_(nest), races_(nest) {
    internal_check(arguments.size() == nest.argument_count(), "nest: number of arguments");
    internal_check(parameters.size() == nest.launch_parameter_count(),
                   "nest: number of parameters");
    size_t next = 0;
    std::map<std::string, int64_t> given;
    for (const Parameter& p : nest.parameters) {
      if (!p.from.valid()) given[p.name] = parameters[next++];
    }
    for (size_t i = 0; i < nest.buffers.size(); ++i) {
      shapes_.push_back(nest.buffers[i].shape);
      if (nest.buffers[i].extent) shapes_[i][0] = first_extent(nest, nest.buffers[i], parameters);
      if (i < arguments.size()) {
        internal_check(arguments[i]->count() == element_count(shapes_[i]),
                       "nest: an argument's number of elements");
        internal_check(arguments[i]->type == nest.buffers[i].type, "nest: an argument's type");
        thread_.memory.push_back(arguments[i]);
      } else {
        thread_.memory.push_back(nullptr);
      }
    }
    thread_.own.resize(nest.buffers.size());
    for (const Parameter& p : nest.parameters) {
      variable(slot(p.name)) =
          p.from.valid() ? arguments[p.from.index()]->at(0).i : given.at(p.name);
    }
  }

  void run() { block(nest_.body); }
  NestCounts counts;

 private:
  // What a thread has for itself: its variables and private buffers (those of others are shared).
  struct Thread {
    std::vector<int64_t> values;
    IdVector<BufferId, HostTensor*> memory;
    IdVector<BufferId, std::shared_ptr<HostTensor>> own;
    // Asynchronous stores that have not happened yet: they do as late as they may.
    struct Late {
      BufferId buffer;
      HostTensor* to = nullptr;
      int64_t at = 0;
      Scalar value;
      int64_t group = 0;
    };
    std::vector<Late> late;
    int64_t group = 0;
    uint32_t number = 0;  // among the block's, from 1
  };

  size_t slot(const std::string& name) {
    return slots_.try_emplace(name, slots_.size()).first->second;
  }
  int64_t& variable(size_t slot) {
    if (thread_.values.size() <= slot) thread_.values.resize(slots_.size());
    return thread_.values[slot];
  }

  const SlotExpr& resolved(const Expr& e) {
    auto [it, added] = expressions_.try_emplace(e.node());
    SlotExpr& s = it->second;
    if (!added) return s;
    s.general = e;
    if (std::optional<LinearForm> form = linear_form(e)) {
      s.linear = true;
      s.constant = form->constant;
      for (const auto& [name, factor] : form->terms) s.terms.emplace_back(slot(name), factor);
    }
    return s;
  }

  int64_t number(const Expr& e) {
    const SlotExpr& s = resolved(e);
    if (s.linear) {
      int64_t sum = s.constant;
      for (auto [at, factor] : s.terms) sum += factor * variable(at);
      return sum;
    }
    std::optional<int64_t> v = evaluate(s.general, [&](std::string_view name) {
      auto it = slots_.find(std::string(name));
      return it == slots_.end() ? std::nullopt : std::optional<int64_t>(variable(it->second));
    });
    internal_check(v.has_value(), "nest: an expression without a value");
    return *v;
  }

  // `values` are those that the access's index values number.
  int64_t offset(const Access& a, std::span<const Scalar> values) {
    const Buffer& b = nest_.buffers[a.buffer];
    const Shape& shape = shapes_[a.buffer];
    int64_t flat = 0;
    for (size_t d = 0; d < a.index.size(); ++d) {
      int by_value = d < a.values.size() ? a.values[d] : -1;
      int64_t i = by_value >= 0 ? values[static_cast<size_t>(by_value)].i : number(a.index[d]);
      if (i < 0 || i >= shape[d]) {
        throw InternalError("nest " + nest_.name + ": index " + std::to_string(i) + " of " +
                            b.name + " dimension " + std::to_string(d) + " is outside [0, " +
                            std::to_string(shape[d]) + ")");
      }
      flat = flat * shape[d] + i;
    }
    return flat;
  }
  HostTensor& memory(BufferId buffer) {
    HostTensor* t = thread_.memory[buffer];
    internal_check(t != nullptr, "nest: a buffer used before its alloc");
    return *t;
  }

  Scalar value(const Node& node) override {
    internal_check(node.kind == NodeKind::size, "nest: an index node");
    return integer_scalar(number(node.expr), node.type);
  }
  bool load(const Node& node, std::span<const Scalar> operands, Scalar& element) override {
    const Access& a = (*loads_)[node.slot];
    int64_t at = offset(a, operands);
    races_.load(a.buffer, at);
    element = memory(a.buffer).at(at);
    return true;
  }
  void iterate(const Node& fold, int64_t counter) override {
    if (fold.expr.kind() == ExprKind::variable) variable(slot(fold.expr.name())) = counter;
  }
  IdVector<NodeId, Scalar> body_values(const Body& body, const std::vector<Access>& loads) {
    IdVector<NodeId, Scalar> nodes;
    loads_ = &loads;
    evaluate_body(body, *this, nodes);
    return nodes;
  }

  void block(const Block& statements) {
    for (const Statement& s : statements) {
      std::visit([&](const auto& what) { statement(what); }, s.what);
    }
  }
  void statement(const For& f) {
    if (f.kind == LoopKind::thread && has_barrier(f.body)) {
      in_lockstep(f);
      return;
    }
    int64_t begin = number(f.begin), extent = number(f.extent);
    internal_check(f.kind != LoopKind::vector || extent <= f.width, "nest: more than width lanes");
    bool tasks = f.kind == LoopKind::grid || f.kind == LoopKind::parallel;
    uint32_t outer = races_.thread();
    bool threads = f.kind == LoopKind::thread;
    if (tasks) races_.begin_tasks(depth_++ == 0);
    if (threads && outer == 0) races_.barrier();
    size_t at = slot(f.variable);
    for (int64_t i = 0; i < extent; ++i) {
      variable(at) = begin + i;
      if (tasks) races_.begin_task();
      if (threads) races_.be_thread(inner_thread(outer, extent, i));
      block(f.body);
    }
    if (tasks) races_.end_tasks(--depth_ == 0);
    if (!threads) return;
    races_.be_thread(outer);
    if (outer == 0) races_.barrier();
  }
  // The number of a thread of a loop inside what thread `outer` does, from 1.
  static uint32_t inner_thread(uint32_t outer, int64_t extent, int64_t i) {
    int64_t before = outer == 0 ? 0 : (outer - 1) * extent;
    return static_cast<uint32_t>(before + i + 1);
  }
  bool holds(const If& i) {
    ++counts.guards;
    bool all = std::all_of(i.nonnegative.begin(), i.nonnegative.end(),
                           [&](const Expr& e) { return number(e) >= 0; });
    if (!all || i.predicate.results.empty()) return all;
    IdVector<NodeId, Scalar> nodes = body_values(i.predicate, i.loads);
    return is_true(nodes[i.predicate.results[0]]);
  }
  void statement(const If& i) { block(holds(i) ? i.then : i.otherwise); }
  void statement(const Store& s) {
    IdVector<NodeId, Scalar> nodes = body_values(s.body, s.loads);
    HostTensor& target = memory(s.target.buffer);
    int64_t at = offset(s.target, nodes);
    Scalar result = nodes[s.body.results[0]];
    ++counts.stores;
    if (s.asynchronous && lockstep_) {
      races_.begin_store(s.target.buffer, at);
      thread_.late.push_back({s.target.buffer, &target, at, result, thread_.group});
      return;
    }
    races_.store(s.target.buffer, at);
    if (s.kind == StoreKind::fma) {
      Scalar operands[3] = {result, nodes[s.body.results[1]], target.at(at)};
      result = evaluate(Op::fma, target.type, operands);
      ++counts.multiply_adds;
    } else if (s.kind != StoreKind::assign) {
      result = combine(s.kind, target.at(at), result);
      const Node& root = s.body[s.body.results[0]];
      bool product = root.kind == NodeKind::operation && root.op == Op::mul;
      if (s.kind == StoreKind::add && product) ++counts.multiply_adds;
    }
    target.set(at, result);
  }
  // Narrow accumulators wrap as memory does: the operation runs in the compute type.
  static Scalar combine(StoreKind kind, const Scalar& old, const Scalar& value) {
    Op op = kind == StoreKind::add        ? Op::add
            : kind == StoreKind::multiply ? Op::mul
            : kind == StoreKind::max      ? Op::max
                                          : Op::min;
    return combine_values(op, old, value);
  }
  void statement(const Alloc& a) {
    const Buffer& b = nest_.buffers[a.buffer];
    std::shared_ptr<HostTensor>& own = thread_.own[a.buffer];
    if (!own) own = std::make_shared<HostTensor>(b.type, b.shape);
    // Whatever was there is gone: reading it before a store shows as nonsense.
    std::fill(own->bytes.begin(), own->bytes.end(), std::byte{0x7f});
    thread_.memory[a.buffer] = own.get();
    races_.forget(a.buffer);
  }
  void statement(const Copy& c) {
    HostTensor& to = memory(c.to);
    HostTensor& from = memory(c.from);
    const std::vector<int64_t>& shape = nest_.buffers[c.from].shape;
    std::vector<int64_t> origin, at(shape.size(), 0);
    const Scalar zero{to.type, 0, 0};
    for (const Expr& e : c.origin) origin.push_back(number(e));
    for (int64_t cell = 0, cells = to.count(); cell < cells; ++cell) {
      int64_t flat = 0;
      bool inside = true;
      for (size_t d = 0; d < shape.size(); ++d) {
        int64_t i = origin[d] + c.stride[d] * at[d];
        inside = inside && i >= 0 && i < c.limit[d];
        flat = flat * shape[d] + i;
      }
      if (inside) races_.load(c.from, flat);
      races_.store(c.to, cell);
      to.set(cell, inside ? from.at(flat) : zero);
      for (size_t k = c.order.size(); k-- > 0;) {
        size_t d = c.order[k];
        if (++at[d] < c.extent[d]) break;
        at[d] = 0;
      }
    }
  }
  // To the nearest, ties away from zero.
  static float round_to_tf32(float value) {
    if (!std::isfinite(value)) return value;
    return std::bit_cast<float>((std::bit_cast<uint32_t>(value) + 0x1000U) & 0xffffe000U);
  }
  // The values that a tensor core multiplies: an f32 is rounded to tf32, and `rest` gets what that
  // leaves.
  static std::vector<float> operand(const HostTensor& t, std::vector<float>& rest) {
    std::vector<float> values;
    for (int64_t i = 0, n = t.count(); i < n; ++i) {
      auto value = static_cast<float>(t.at(i).f);
      values.push_back(t.type == DType::f32 ? round_to_tf32(value) : value);
      rest.push_back(round_to_tf32(value - values.back()));
    }
    return values;
  }
  int64_t place(BufferId buffer, const MatrixPart& p, const std::vector<int64_t>& origin, int64_t i,
                int64_t j) const {
    const Shape& shape = shapes_[buffer];
    int64_t flat = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t at = origin[d] + i * p.row[d] + j * p.column[d];
      internal_check(at >= 0 && at < shape[d], "nest: a part of a matrix outside its buffer");
      flat = flat * shape[d] + at;
    }
    return flat;
  }
  std::vector<int64_t> origin_of(const MatrixPart& p) {
    std::vector<int64_t> origin;
    for (const Expr& e : p.origin) origin.push_back(number(e));
    return origin;
  }
  // Factor number `at` of those that a u32 has.
  static Scalar unpacked(uint64_t bits, int64_t at, DType type) {
    bits >>= at * bit_width(type);
    if (type == DType::bf16) {
      return real_scalar(std::bit_cast<float>(static_cast<uint32_t>(bits << 16)), type);
    }
    bits &= 0xff;
    bool negative = type == DType::i8 && bits > 127;
    return integer_scalar(static_cast<int64_t>(bits) - (negative ? 256 : 0), type);
  }
  // Rows (of a) or columns (of b) of `terms` factors each.
  std::vector<Scalar> factors(BufferId buffer, const MatrixPart& p, DType type, int64_t lines,
                              int64_t terms, bool down) {
    const HostTensor& from = memory(buffer);
    std::vector<int64_t> origin = origin_of(p);
    int64_t together = from.type == DType::u32 ? packed_factors(type) : 1;
    std::vector<Scalar> all;
    for (int64_t line = 0; line < lines; ++line) {
      for (int64_t k = 0; k < terms; ++k) {
        int64_t group = k / together;
        Scalar s = from.at(down ? place(buffer, p, origin, group, line)
                                : place(buffer, p, origin, line, group));
        if (from.type == DType::u32) s = unpacked(static_cast<uint64_t>(s.i), k % together, type);
        all.push_back(s);
      }
    }
    return all;
  }
  void multiply_parts(const MatrixTile& m) {
    HostTensor& sum = memory(m.sum);
    int64_t rows = sum.shape[0], columns = sum.shape[1];
    std::vector<Scalar> a = factors(m.a, m.a_part, m.a_type, rows, m.terms, false);
    std::vector<Scalar> b = factors(m.b, m.b_part, m.b_type, columns, m.terms, true);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        Scalar old = sum.at(i * columns + j);
        auto real = static_cast<float>(old.f);
        auto whole = static_cast<uint32_t>(old.i);
        for (int64_t k = 0; k < m.terms; ++k) {
          const Scalar& x = a[static_cast<size_t>(i * m.terms + k)];
          const Scalar& y = b[static_cast<size_t>(j * m.terms + k)];
          if (sum.type == DType::f32) real += static_cast<float>(x.f) * static_cast<float>(y.f);
          if (sum.type == DType::i32) whole += static_cast<uint32_t>(x.i * y.i);
        }
        sum.set(i * columns + j, sum.type == DType::f32
                                     ? real_scalar(real, DType::f32)
                                     : integer_scalar(static_cast<int32_t>(whole), DType::i32));
      }
    }
    counts.multiply_adds += rows * columns * m.terms;
  }
  void statement(const MatrixMove& m) {
    HostTensor& tile = memory(m.fragment);
    int64_t columns = tile.shape[1];
    std::vector<int64_t> origin = origin_of(m.part);
    for (int64_t cell = 0, cells = tile.count(); cell < cells; ++cell) {
      if (m.kind == MatrixMove::Kind::zero) {
        tile.set(cell, Scalar{tile.type, 0, 0});
        continue;
      }
      int64_t at = place(m.buffer, m.part, origin, cell / columns, cell % columns);
      HostTensor& other = memory(m.buffer);
      bool load = m.kind == MatrixMove::Kind::load;
      (load ? tile : other).set(load ? cell : at, (load ? other : tile).at(load ? at : cell));
    }
  }
  // Of f64 or f32 as they are, or of bytes, whose sums wrap.
  void multiply_exactly(const MatrixTile& m) {
    HostTensor& sum = memory(m.sum);
    const HostTensor& a = memory(m.a);
    const HostTensor& b = memory(m.b);
    int64_t rows = sum.shape[0], columns = sum.shape[1], depth = a.count() / rows;
    for (int64_t cell = 0; cell < rows * columns; ++cell) {
      int64_t i = cell / columns, j = cell % columns;
      Scalar total = sum.at(cell);
      for (int64_t k = 0; k < depth; ++k) {
        Scalar x = a.at(m.a_transposed ? k * rows + i : i * depth + k);
        Scalar y = b.at(m.b_transposed ? j * depth + k : k * columns + j);
        total = is_float(sum.type) ? real_scalar(std::fma(x.f, y.f, total.f), sum.type)
                                   : integer_scalar(total.i + x.i * y.i, sum.type);
      }
      sum.set(cell, total);
    }
    counts.multiply_adds += rows * columns * depth;
  }
  void statement(const MatrixTile& m) {
    if (m.terms > 0) return multiply_parts(m);
    if (memory(m.sum).type != DType::f32 || m.unrounded) return multiply_exactly(m);
    HostTensor& sum = memory(m.sum);
    std::vector<float> a_rest, b_rest;
    std::vector<float> a = operand(memory(m.a), a_rest), b = operand(memory(m.b), b_rest);
    if (m.a_rest.valid()) {
      std::vector<float> nothing;
      a_rest = operand(memory(m.a_rest), nothing);
      b_rest = operand(memory(m.b_rest), nothing);
    }
    int64_t rows = sum.shape[0], columns = sum.shape[1];
    int64_t depth = static_cast<int64_t>(a.size()) / rows;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        auto total = static_cast<float>(sum.at(i * columns + j).f);
        for (int64_t k = 0; k < depth; ++k) {
          auto x = static_cast<size_t>(m.a_transposed ? k * rows + i : i * depth + k);
          auto y = static_cast<size_t>(m.b_transposed ? j * depth + k : k * columns + j);
          if (m.split) total += a_rest[x] * b[y] + a[x] * b_rest[y];
          total += a[x] * b[y];
        }
        sum.set(i * columns + j, real_scalar(total, DType::f32));
      }
    }
    counts.multiply_adds += rows * columns * depth;
  }
  void statement(const Sync&) { throw InternalError("nest: a barrier outside of threads"); }

  // Threads with barriers: each runs to its next barrier before the next thread moves, so that a
  // missing barrier shows: the first threads read what the last ones have not written yet.

  bool has_barrier(const Block& statements) {
    auto [known, added] = barriers_.try_emplace(&statements, false);
    if (!added) return known->second;
    bool found = std::any_of(statements.begin(), statements.end(),
                             [&](const Statement& s) { return has_barrier(s); });
    return barriers_[&statements] = found;
  }
  bool has_barrier(const Statement& s) {
    if (const auto* f = std::get_if<For>(&s.what)) return has_barrier(f->body);
    if (const auto* i = std::get_if<If>(&s.what)) {
      return has_barrier(i->then) || has_barrier(i->otherwise);
    }
    return std::holds_alternative<Sync>(s.what);
  }

  // Where a thread stands in a block, and in the loop whose body that is.
  struct Frame {
    const Block* block = nullptr;
    size_t at = 0;
    const For* loop = nullptr;
    int64_t next = 0, end = 0;
  };
  struct Waiting {
    Thread thread;
    std::vector<Frame> frames;
    const Statement* barrier = nullptr;
  };

  void in_lockstep(const For& f) {
    std::vector<Waiting> threads;
    split(f, threads);
    races_.barrier();
    Thread outside = thread_;
    lockstep_ = true;
    while (!threads.empty()) {
      for (Waiting& w : threads) {
        std::swap(thread_, w.thread);
        races_.be_thread(thread_.number);
        w.barrier = run_to_barrier(w.frames);
        std::swap(thread_, w.thread);
        internal_check(w.barrier == threads[0].barrier, "nest: threads wait at different barriers");
      }
      if (threads[0].barrier == nullptr) {
        threads.clear();
        break;
      }
      int64_t pending = std::get<Sync>(threads[0].barrier->what).pending;
      for (Waiting& w : threads) end_group(w.thread, pending);
      races_.barrier();
    }
    lockstep_ = false;
    races_.be_thread(0);
    races_.barrier();
    thread_ = std::move(outside);
  }
  void end_group(Thread& thread, int64_t pending) {
    int64_t due = thread.group++ - pending;
    auto first = std::stable_partition(thread.late.begin(), thread.late.end(),
                                       [&](const Thread::Late& l) { return l.group > due; });
    for (auto it = first; it != thread.late.end(); ++it) {
      it->to->set(it->at, it->value);
      races_.end_store(it->buffer, it->at, thread.number);
    }
    thread.late.erase(first, thread.late.end());
  }

  // One thread for each iteration of the nested thread loops.
  void split(const For& f, std::vector<Waiting>& threads) {
    int64_t begin = number(f.begin), extent = number(f.extent);
    const For* inner = f.body.size() == 1 ? std::get_if<For>(&f.body[0].what) : nullptr;
    for (int64_t i = 0; i < extent; ++i) {
      variable(slot(f.variable)) = begin + i;
      if (inner != nullptr && inner->kind == LoopKind::thread) {
        split(*inner, threads);
        continue;
      }
      threads.push_back({thread_, {{&f.body, 0, nullptr, 0, 0}}, nullptr});
      threads.back().thread.number = static_cast<uint32_t>(threads.size());
      for (size_t b = 0; b < nest_.buffers.size(); ++b) {
        if (is_private(b)) threads.back().thread.own[b].reset();
      }
    }
  }
  bool is_private(size_t buffer) const {
    Scope scope = nest_.buffers[buffer].scope;
    return scope == Scope::scratch || scope == Scope::registers;
  }

  // The barrier that the current thread has come to; null: it is done.
  const Statement* run_to_barrier(std::vector<Frame>& frames) {
    while (!frames.empty()) {
      Frame& f = frames.back();
      if (f.at == f.block->size()) {
        next_iteration(frames);
        continue;
      }
      const Statement& s = (*f.block)[f.at++];
      if (std::holds_alternative<Sync>(s.what)) return &s;
      if (has_barrier(s)) {
        enter(s, frames);
      } else {
        std::visit([&](const auto& what) { statement(what); }, s.what);
      }
    }
    return nullptr;
  }
  void next_iteration(std::vector<Frame>& frames) {
    Frame& f = frames.back();
    if (f.loop == nullptr || f.next >= f.end) {
      frames.pop_back();
      return;
    }
    variable(slot(f.loop->variable)) = f.next++;
    f.at = 0;
  }
  void enter(const Statement& s, std::vector<Frame>& frames) {
    if (const auto* i = std::get_if<If>(&s.what)) {
      frames.push_back({holds(*i) ? &i->then : &i->otherwise, 0, nullptr, 0, 0});
      return;
    }
    const For& f = std::get<For>(s.what);
    internal_check(f.kind != LoopKind::thread, "nest: a thread loop among a thread's statements");
    int64_t begin = number(f.begin), extent = number(f.extent);
    frames.push_back({&f.body, f.body.size(), &f, begin, begin + extent});
  }

  const Nest& nest_;
  IdVector<BufferId, Shape> shapes_;  // in this launch
  std::map<std::string, size_t> slots_;
  std::map<const ExprNode*, SlotExpr> expressions_;
  std::map<const Block*, bool> barriers_;
  Thread thread_;
  bool lockstep_ = false;  // threads with barriers are running
  Races races_;
  int depth_ = 0;  // of loops whose iterations are independent
  const std::vector<Access>* loads_ = nullptr;
};

}  // namespace

void interpret(const Nest& nest, const std::vector<HostTensor*>& arguments,
               const std::vector<int64_t>& parameters, NestCounts* counts) {
  Machine machine(nest, arguments, parameters);
  machine.run();
  if (counts != nullptr) *counts = machine.counts;
}

}  // namespace tile::nest
