#include "core/kernel/forms/dot_products.h"

#include <algorithm>

#include "core/ir/analysis/accesses.h"

namespace tile {
namespace {

// The load that a factor converts; nullopt: it is something else.
std::optional<size_t> factor(const Body& body, NodeId id) {
  const Node& n = body[id];
  if (n.kind != NodeKind::operation || n.op != Op::cast) return std::nullopt;
  const Node& load = body[n.args[0]];
  if (load.kind != NodeKind::load || !load.args.empty()) return std::nullopt;
  return load.slot;
}

bool fits_i16(DType t) { return t == DType::i8 || t == DType::u8 || t == DType::i16; }

std::optional<DotForm> of_types(size_t a, size_t b, DType left, DType right, int64_t group) {
  if (left == DType::bf16 || right == DType::bf16) {
    if (left != right || group != 2) return std::nullopt;
    return DotForm{Op::dot2_bf16, Op::pack2, 2, a, b, left, right, std::nullopt};
  }
  if (group == 2 && fits_i16(left) && fits_i16(right)) {
    return DotForm{Op::dot2_i16, Op::pack2, 2, a, b, DType::i16, DType::i16, std::nullopt};
  }
  if (right == DType::u8) {
    std::swap(a, b);
    std::swap(left, right);
  }
  if (group != 4 || left != DType::u8 || right != DType::i8) return std::nullopt;
  return DotForm{Op::dot4_u8i8, Op::pack4, 4, a, b, left, right, std::nullopt};
}

// Of bytes of one sign: `sum` is the load whose elements are added up too.
DotForm of_equal_signs(size_t sum, size_t flipped, DType type) {
  bool is_signed = type == DType::i8;
  size_t x = is_signed ? flipped : sum, y = is_signed ? sum : flipped;
  return DotForm{Op::dot4_u8i8, Op::pack4, 4, x, y, type, type, flipped};
}

// Whether the access moves with an iterator along which the result is contiguous: its lanes are
// then shared by the other access's rows.
bool along_result(const Access& access, const Piece& piece) {
  const Access& store = piece.stores[0];
  for (size_t u = 0; u < piece.parallel_dims && !store.index.empty(); ++u) {
    bool contiguous = !store.index.back().affine.coefficient(u).is_zero();
    if (contiguous && moves_with(access, u)) return true;
  }
  return false;
}

}  // namespace

std::optional<std::pair<size_t, size_t>> product_of_loads(const Piece& piece,
                                                          const Contraction& c) {
  if (c.aggregation != Aggregation::sum || piece.body.results.size() != 1) return std::nullopt;
  const Node& root = piece.body[piece.body.results[0]];
  bool product = root.kind == NodeKind::operation && root.op == Op::mul;
  if (!product || root.type != c.accumulator) return std::nullopt;
  std::optional<size_t> a = factor(piece.body, root.args[0]);
  std::optional<size_t> b = factor(piece.body, root.args[1]);
  if (!a || !b || a == b) return std::nullopt;
  return std::pair(*a, *b);
}

std::optional<DotForm> dot_form(const Piece& piece, const Contraction& c,
                                const BoundTensors& tensors, int64_t group) {
  std::optional<std::pair<size_t, size_t>> loads = product_of_loads(piece, c);
  if (!loads) return std::nullopt;
  auto [a, b] = *loads;
  auto type = [&](size_t load) { return tensors[piece.loads[load].tensor].type; };
  bool real = type(a) == DType::bf16;
  if (c.accumulator != (real ? DType::f32 : DType::i32)) return std::nullopt;
  size_t left = a, right = b;
  bool equal = type(a) == type(b) && (type(a) == DType::i8 || type(a) == DType::u8);
  if (group != 4 || !equal) return of_types(left, right, type(a), type(b), group);
  // A point that a condition leaves out would have to be left out of the other load's sums too.
  if (!piece.constraints.empty()) return std::nullopt;
  if (along_result(piece.loads[left], piece)) std::swap(left, right);
  return of_equal_signs(right, left, type(a));
}

bool packs_along(const DotForm& form, const Piece& piece, IteratorId iterator) {
  if (!piece.box.contains(iterator) || piece.is_parallel(iterator)) return false;
  bool free = !is_constrained(piece, iterator);
  auto moves = [&](size_t load) {
    bool some = false;
    for (const Index& index : piece.loads[load].index) {
      const Rational factor = index.affine.coefficient(iterator);
      if (index.value >= 0 || !index.affine.is_integral()) return false;
      some = some || !factor.is_zero();
    }
    return some;
  };
  return free && moves(form.x) && moves(form.y);
}

double dot_per_ns(const DotForm& form, const Target& target) {
  if (form.dot == Op::dot2_bf16) return target.dot_bf16_per_ns;
  return form.dot == Op::dot2_i16 ? target.dot_i16_per_ns : target.dot_i8_per_ns;
}

int64_t dot_group(const PieceSchedule& schedule) {
  if (schedule.reduce.empty() || schedule.reduce.back().binding != Binding::dot) return 1;
  for (const std::vector<Loop>* loops : {&schedule.reduce, &schedule.outer}) {
    size_t end = loops->size() - (loops == &schedule.reduce ? 1 : 0);
    for (size_t i = end; i-- > 0;) {
      if ((*loops)[i].iterator == schedule.reduce.back().iterator) return (*loops)[i].step;
    }
  }
  return 1;
}

size_t packed_loops(const Packing& packing, const PieceSchedule& schedule) {
  bool neighbours = dot_group(schedule) > 1 && !packing.order.empty() &&
                    packing.order.back().iterator == schedule.reduce.back().iterator &&
                    packing.order.back().step == 1;
  return packing.order.size() - (neighbours ? 1 : 0);
}

}  // namespace tile
