// How tiles of a product's factors come to a GPU's shared memory. PointerArray outside are clamped
// to the last cells, whose results are not stored; terms outside are staged as zeros in both
// factors.
//
// A condition of the domain that only one factor knows makes that factor zero; a zero times an
// infinity would then not be skipped (rule 4.12), so tiles in which a staged value is not finite
// are multiplied with the conditions tested point by point.
#include <algorithm>

#include "core/lower/gpu/simt_gemm_lowering.h"

namespace tile::lowering {

using gpu::FlatIndex;
using nest::Block;
using nest::LoopKind;

namespace {

Block either(std::vector<Expr> tests, Block value, const std::function<Block()>& otherwise) {
  if (tests.empty()) return value;
  nest::If choice;
  choice.nonnegative = std::move(tests);
  choice.then = std::move(value);
  choice.otherwise = otherwise();
  return {statement(std::move(choice))};
}

}  // namespace

void SimtGemmLowering::operand(Operand& o, NodeId value, bool along, const FlatIndex& parallel_dims,
                               const std::vector<size_t>& conditions, int64_t tile) {
  o.value = value;
  o.along_k = along;
  o.parallel_dims = &parallel_dims;
  o.conditions = &conditions;
  o.tile = tile;
  o.type = c_.contraction.accumulator;
  const FlatIndex& near = along ? form_.k : parallel_dims;
  o.vector = near.fastest % kQuad == 0 ? kQuad : 1;
  o.moves = tile * g_.k / o.vector / threads_;
}

void SimtGemmLowering::make_buffers(Operand& o, const char* name) {
  o.asynchronous = g_.stages > 2 && copies(o);
  if (!o.asynchronous) {
    Shape held{o.moves, o.vector};
    o.held = c_.frame.add_buffer(std::string(name) + "_held", o.type, nest::Scope::registers, held);
  }
  Shape staged{g_.stages, g_.k, o.tile};
  // Padding keeps transposed stores in different banks: of neighbouring threads some hold the next
  // parallel dimensions, the others the same ones of the next four terms.
  if (o.along_k) staged = {g_.stages, g_.k / kQuad, kQuad * o.tile + 2 * kQuad};
  o.staged = c_.frame.add_buffer(std::string(name) + "_tile", o.type, nest::Scope::shared, staged);
}

// Of a tensor in global memory, as gpu::copies_factor says.
bool SimtGemmLowering::copies(const Operand& o) const {
  const Kernel& kernel = c_.frame.kernel;
  if (!gpu::copies_factor(&o == &x_, form_, c_.piece, c_.contraction, kernel, c_.frame.target)) {
    return false;
  }
  const Node& node = c_.piece.body[o.value];
  TensorId tensor = c_.piece.loads[node.slot].tensor;
  auto buffer = c_.frame.buffer_of.find(tensor);
  return buffer != c_.frame.buffer_of.end() &&
         c_.frame.nest.buffers[buffer->second].scope == nest::Scope::argument;
}

// Where the thread's access number q lies in the tile: its term and cell, in units of the vector
// along the direction of neighbours.
Block SimtGemmLowering::moved(const Operand& o, const Expr& thread,
                              const std::function<Block(const Expr& q, const Expr& term,
                                                        const Expr& parallel_dim)>& body) const {
  int64_t near = (o.along_k ? g_.k : o.tile) / o.vector;
  return looped("move", Expr(o.moves), LoopKind::unrolled, [&](const Expr& q) {
    Expr element = tidy(Expr(threads_) * q + thread);
    return bound_to("near_q", floor_mod(element, Expr(near)), [&](const Expr& fast) {
      return bound_to("far_q", floor_div(element, Expr(near)), [&](const Expr& slow) {
        return o.along_k ? body(q, fast, slow) : body(q, slow, fast);
      });
    });
  });
}

nest::Access SimtGemmLowering::held_at(const Operand& o, const Expr& q, const Expr& v) const {
  return {o.held, {q, v}, {}};
}

nest::Access SimtGemmLowering::staged_at(const Operand& o, const Expr& slot, const Expr& term,
                                         const Expr& parallel_dim, const Expr& lane) const {
  if (!o.along_k) return {o.staged, {slot, term, tidy(Expr(o.vector) * parallel_dim + lane)}, {}};
  if (o.vector == kQuad) return in_tile(o, slot, {term, lane}, parallel_dim);
  return in_tile(o, slot, {floor_div(term, Expr(kQuad)), floor_mod(term, Expr(kQuad))},
                 parallel_dim);
}

nest::Access SimtGemmLowering::in_tile(const Operand& o, const Expr& slot, const Term& term,
                                       const Expr& cell) const {
  if (o.along_k) {
    return {o.staged, {slot, term.quad, tidy(Expr(o.tile) * term.place + cell)}, {}};
  }
  return {o.staged, {slot, tidy(Expr(kQuad) * term.quad + term.place), cell}, {}};
}

// Reads the thread's part of a step's tile: into registers, or on its way to the slot of the shared
// tiles.
Block SimtGemmLowering::fetched(const Operand& o, const State& s, const At& at, const Expr& step,
                                const Expr& slot) const {
  int64_t term_vector = o.along_k ? o.vector : 1, parallel_dim_vector = o.along_k ? 1 : o.vector;
  Expr lane = o.vector == 1 ? Expr(0) : Expr::variable("v");
  Expr term_lane = o.along_k ? lane : Expr(0), parallel_dim_lane = o.along_k ? Expr(0) : lane;
  Expr first = tidy(Expr(o.tile) * at.block[&o == &x_ ? 2 : 3]);
  return moved(o, at.thread, [&](const Expr& q, const Expr& term, const Expr& parallel_dim) {
    Expr k = tidy(Expr(g_.k / term_vector) * step + term);
    Expr cells = tidy((parallel_dim_vector > 1 ? divided(first, parallel_dim_vector) : first) +
                      parallel_dim);
    int64_t most = o.parallel_dims->count / parallel_dim_vector - 1;
    if (o.parallel_dims->count % o.tile != 0) cells = min(cells, Expr(most));
    std::vector<Expr> inside;
    int64_t terms = form_.k.count / term_vector;
    if (form_.k.count % g_.k != 0) inside.push_back(tidy(Expr(terms - 1) - k));
    Place to = [&](const Expr& v) {
      return o.asynchronous ? staged_at(o, slot, term, parallel_dim, v) : held_at(o, q, v);
    };
    Block value = bound_to("cell_q", cells, [&](const Expr& cell) {
      return decoded(c_, *o.parallel_dims, s, cell, parallel_dim_vector, parallel_dim_lane, "o",
                     [&](const State& so) {
                       return decoded(c_, form_.k, so, k, term_vector, term_lane, "k",
                                      [&](const State& sk) { return loaded(o, sk, to); });
                     });
    });
    return either(std::move(inside), std::move(value), [&] {
      return vector_lanes("v", o.vector, [&](const Expr& v) { return zero(o, to, v); });
    });
  });
}

Block SimtGemmLowering::zero(const Operand& o, const Place& to, const Expr& lane) const {
  nest::Store store;
  store.target = to(lane);
  store.body.results = {is_float(o.type) ? store.body.real(0, o.type)
                                         : store.body.integer(0, o.type)};
  return {statement(std::move(store))};
}

Block SimtGemmLowering::read(const Operand& o, const State& s, const Place& to,
                             const Expr& lane) const {
  Value value;
  NodeId root = values_.translate(value, c_.piece, o.value, s, {});
  value.body.results = {root};
  nest::Store store;
  store.target = to(lane);
  settle(store, std::move(value));
  store.asynchronous = o.asynchronous;
  return {statement(std::move(store))};
}

// The factor's value, or zero outside its conditions: tested once where the neighbours share
// them.
Block SimtGemmLowering::loaded(const Operand& o, const State& s, const Place& to) const {
  std::vector<Expr> tests = factor_tests(o, s);
  bool by_lane =
      std::any_of(tests.begin(), tests.end(), [](const Expr& e) { return uses_variable(e, "v"); });
  auto value = [&](const Expr& v) { return read(o, s, to, v); };
  auto none = [&](const Expr& v) { return zero(o, to, v); };
  if (!by_lane || o.vector == 1) {
    return either(tests, vector_lanes("v", o.vector, value),
                  [&] { return vector_lanes("v", o.vector, none); });
  }
  return vector_lanes("v", o.vector, [&](const Expr& v) {
    return either(tests, value(v), [&] { return none(v); });
  });
}

std::vector<Expr> SimtGemmLowering::factor_tests(const Operand& o, const State& s) const {
  std::vector<Expr> tests;
  for (size_t i : *o.conditions) {
    std::vector<Expr> more = values_.conditions_at(c_.piece.constraints[i], s);
    tests.insert(tests.end(), more.begin(), more.end());
  }
  return tests;
}

nest::Statement SimtGemmLowering::flag_store(int64_t value, const Expr& slot) const {
  nest::Store store;
  store.target = {flag_, {slot}, {}};
  store.body.results = {store.body.integer(value, DType::i32)};
  return statement(std::move(store));
}

// Zero times a value is not zero where it is infinite or NaN.
Block SimtGemmLowering::flagged(const Operand& o, const Expr& q, const Expr& slot) const {
  nest::If unusual;
  Body& b = unusual.predicate;
  NodeId zero = b.real(0, o.type), sum = zero;
  for (int64_t v = 0; v < o.vector; ++v) {
    unusual.loads.push_back(held_at(o, q, Expr(v)));
    sum = b.operation(Op::fma, {b.load(v, o.type), zero, sum}, o.type);
  }
  b.results = {b.operation(Op::ne, {sum, zero}, DType::bool_)};
  unusual.then = {flag_store(1, slot)};
  return {statement(std::move(unusual))};
}

// Some condition makes the other factor zero, but not this one.
bool SimtGemmLowering::meets_zeros(const Operand& o) const {
  const std::vector<size_t>& other = *(&o == &x_ ? y_ : x_).conditions;
  const std::vector<size_t>& own = *o.conditions;
  return std::any_of(other.begin(), other.end(),
                     [&](size_t i) { return std::find(own.begin(), own.end(), i) == own.end(); });
}

// Writes what the registers hold to a slot of the shared tiles.
Block SimtGemmLowering::staged(const Operand& o, const Expr& slot, const Expr& thread) const {
  if (o.asynchronous) return {};
  return moved(o, thread, [&](const Expr& q, const Expr& term, const Expr& parallel_dim) {
    Block out = vector_lanes("v", o.vector, [&](const Expr& v) {
      return Block{terms_.copied(staged_at(o, slot, term, parallel_dim, v), held_at(o, q, v))};
    });
    if (flag_.valid() && meets_zeros(o)) append(out, flagged(o, q, slot));
    return out;
  });
}

}  // namespace tile::lowering
