// Recognising products whose operands can be copied as boxes.
#include "core/kernel/forms/tensor_core_gemm.h"

#include <algorithm>

#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/matrix_types.h"
#include "core/kernel/argument_layout.h"
#include "core/kernel/forms/tensor_core_steps.h"
#include "core/support/checked.h"

namespace tile::tensor_cores {
namespace {

constexpr size_t kMostDimensions = 5;  // of a tensor map

bool is_cast(const Node& n) { return n.kind == NodeKind::operation && n.op == Op::cast; }

// Whether a conversion keeps what is summed in type `sum`: of integers the lowest 32 bits.
bool keeps_sums(DType to, DType sum) {
  return is_float(sum) ? to == sum : is_integer(to) && bit_width(to) >= 32;
}

// The load of which a factor is a conversion that keeps what is summed in type `sum`: also through
// narrower integers that hold all values of the load. Null: it is something else.
const Node* factor(const Body& body, NodeId id, DType sum) {
  std::vector<DType> types;
  for (; is_cast(body[id]); id = body[id].args[0]) types.push_back(body[id].type);
  const Node& load = body[id];
  if (load.kind != NodeKind::load) return nullptr;
  auto keeps = [&](DType to) {
    bool holds = is_integer(load.type) && is_integer(to) && promote(load.type, to) == to;
    return keeps_sums(to, sum) || (!is_float(sum) && holds);
  };
  return std::all_of(types.begin(), types.end(), keeps) ? &load : nullptr;
}

bool is_sum(const Contraction& c) {
  bool type = c.accumulator == DType::f32 || c.accumulator == DType::f64 ||
              c.accumulator == DType::i32 || c.accumulator == DType::u32;
  return c.aggregation == Aggregation::sum && type && c.outputs.size() == 1;
}

// The node is, in the type of the sum, the product of two loads; of those loads, in this order, if
// they are given.
bool is_product(const Body& body, NodeId id, DType sum,
                std::optional<std::pair<size_t, size_t>> loads = std::nullopt) {
  while (is_cast(body[id]) && keeps_sums(body[id].type, sum)) id = body[id].args[0];
  const Node& root = body[id];
  if (root.kind != NodeKind::operation || root.op != Op::mul) return false;
  if (!keeps_sums(root.type, sum)) return false;
  const Node* a = factor(body, root.args[0], sum);
  const Node* b = factor(body, root.args[1], sum);
  if (a == nullptr || b == nullptr || a->slot == b->slot) return false;
  return !loads || *loads == std::pair(a->slot, b->slot);
}

// wgmma takes them with neighbours in k only.
bool needs_k_inside(DType type) { return type == DType::f32 || byte_size(type) == 1; }

// Loads 2 and 3 are what rounding left of 0 and 1: 0 * 1 + (2 * 1 + 0 * 3).
bool is_split_product(const Piece& piece) {
  const Body& body = piece.body;
  auto is_add = [&](const Node& n) {
    return n.kind == NodeKind::operation && n.op == Op::add && n.type == DType::f32;
  };
  const Node& root = body[body.results[0]];
  if (piece.loads.size() != 4 || !is_add(root) || !is_add(body[root.args[1]])) return false;
  const Node& small = body[root.args[1]];
  auto product = [&](NodeId id, size_t a, size_t b) {
    return is_product(body, id, DType::f32, {{a, b}});
  };
  return product(root.args[0], 0, 1) && product(small.args[0], 2, 1) &&
         product(small.args[1], 0, 3);
}

// The same box at another place of the tensor, which no iterator moves.
bool is_beside(const tile::Access& a, const tile::Access& b) {
  if (a.tensor != b.tensor) return false;
  for (size_t d = 0; d < a.index.size(); ++d) {
    Affine distance = b.index[d].affine - a.index[d].affine;
    bool fixed = distance.is_constant() && b.index[d].affine.is_constant();
    if (!(a.index[d].affine == b.index[d].affine) && !fixed) return false;
  }
  return true;
}

bool plain_indices(const tile::Access& access) {
  return std::all_of(access.index.begin(), access.index.end(),
                     [](const Index& i) { return is_plain_index(i) && i.affine.is_integral(); });
}

class Recogniser {
 public:
  Recogniser(const Piece& piece, const Contraction& c, const Kernel& kernel, const Target& target,
             const ArgumentLayouts& layouts, bool bulk)
      : piece_(piece),
        c_(c),
        kernel_(kernel),
        target_(target),
        layouts_(layouts),
        factors_(piece_, layouts) {
    p_.bulk = bulk;
    p_.box = piece.box;
  }

  std::optional<Product> run() {
    if (!is_sum(c_) || !take_form() || !types()) return std::nullopt;
    roles_ = classify(piece_, c_, kernel_.tensors).roles;
    if (!supported_roles()) return std::nullopt;
    bool swapped = columns_are_m();
    p_.a.load = swapped ? 1 : 0;
    p_.b.load = swapped ? 0 : 1;
    for (Operand* o : {&p_.a, &p_.b}) o->type = layout_of(access(*o)).type;
    Role row = swapped ? Role::n : Role::m, column = swapped ? Role::m : Role::n;
    if (!layout(p_.a, row) || !layout(p_.b, column)) return std::nullopt;
    bool strict = target_.strict_skip && is_float(p_.sum);
    if (!choose_steps(p_, piece_, factors_, {inner_[0], inner_[1]}, strict)) return std::nullopt;
    bool k_inside = p_.a.k_inside && p_.b.k_inside;
    if (p_.bulk && needs_k_inside(p_.a.type) && !k_inside) return std::nullopt;
    if (!boxes(p_.a) || !boxes(p_.b) || !conditions_are_limits()) return std::nullopt;
    if (extent(p_.a) < kLeastExtent || extent(p_.b) < kLeastExtent) return std::nullopt;
    collect_rest(row, column);
    for (const tile::Access& a : piece_.loads) {
      const ArgumentLayout& b = layout_of(a);
      for (size_t d = 0; d < b.shape.size(); ++d) {
        if (b.shape[d] == 1 || d == factors_.inner_dimension(a)) continue;
        int64_t bytes = b.strides[d] * static_cast<int64_t>(byte_size(b.type));
        if (bytes != 0) p_.alignment = std::min(p_.alignment, bytes & -bytes);
      }
    }
    for (size_t i = 0; i < p_.k.size(); ++i) {
      p_.steps = checked_mul(p_.steps, ceil_div(box(p_.k[i]), p_.k_tile[i]));
    }
    for (IteratorId u : p_.around) p_.steps = checked_mul(p_.steps, box(u));
    return p_;
  }

 private:
  const tile::Access& access(const Operand& o) const { return piece_.loads[o.load]; }
  const ArgumentLayout& layout_of(const tile::Access& a) const { return factors_.layout_of(a); }
  const BoundTensor& tensor(TensorId id) const { return kernel_.tensors[id]; }
  int64_t box(IteratorId iterator) const { return piece_.box[iterator]; }
  static int64_t coefficient(const Index& index, IteratorId iterator) {
    return Factors::coefficient(index, iterator);
  }

  // Of a split product the two first loads stand for all.
  bool take_form() {
    p_.sum = c_.accumulator;
    if (piece_.loads.size() == 2) return is_product(piece_.body, piece_.body.results[0], p_.sum);
    if (!p_.bulk || p_.sum != DType::f32 || !is_split_product(piece_)) return false;
    for (size_t i = 0; i < 2; ++i) {
      const tile::Access& a = piece_.loads[i];
      if (!tensor(a.tensor).tf32_parts || !is_beside(a, piece_.loads[i + 2])) return false;
    }
    piece_.loads.resize(2);
    piece_.body = {};
    Body& b = piece_.body;
    b.results = {b.operation(Op::mul, {b.load(0, DType::f32), b.load(1, DType::f32)}, DType::f32)};
    p_.split = true;
    return true;
  }

  bool types() {
    for (const tile::Access& a : piece_.loads) {
      if (!layouts_.contains(a.tensor) || layout_of(a).split) return false;
      if (!plain_indices(a)) return false;
    }
    DType a = layout_of(piece_.loads[0]).type, b = layout_of(piece_.loads[1]).type;
    if (!tensor_cores_multiply(a, b, p_.sum) || tensor_core_rate(a, target_) <= 0) return false;
    // A step of f64 is of few elements: with more there are fewer barriers.
    bool wide = p_.bulk || p_.sum == DType::f64;
    p_.depth = (wide ? kRowBytes : kThreadRowBytes) / static_cast<int64_t>(byte_size(a));
    if (p_.sum == DType::f64) return !p_.bulk;
    p_.short_sums = p_.bulk && is_f8(a);
    if (is_f8(a)) return !p_.bulk || target_.precision == Precision::tf32;
    if (a != DType::f32) return true;
    // Threads split factors in registers, where wgmma does not read both from.
    bool threes = target_.precision == Precision::tf32x3;
    if (p_.bulk && threes != p_.split) return false;
    p_.split = threes;
    return target_.precision != Precision::f32;
  }

  bool supported_roles() const {
    for (size_t u = 0; u < roles_.size(); ++u) {
      bool alone = roles_[u] == Role::outer || roles_[u] == Role::reduction;
      if (alone && piece_.box[u] != 1) return false;
    }
    return true;
  }

  // Columns are what neighbours in the output differ in.
  bool columns_are_m() const {
    const std::vector<Index>& index = piece_.stores[0].index;
    for (size_t d = index.size(); d-- > 0;) {
      for (size_t u = 0; u < piece_.parallel_dims; ++u) {
        if (piece_.box[u] == 1 || index[d].affine.coefficient(u).is_zero()) continue;
        if (roles_[u] == Role::m) return true;
        if (roles_[u] == Role::n) return false;
      }
    }
    return false;
  }

  bool mappable(const tile::Access& a, size_t inner) const {
    if (!p_.bulk) return true;
    const ArgumentLayout& b = layout_of(a);
    auto size = static_cast<int64_t>(byte_size(b.type));
    size_t rank = 0;
    for (size_t d = 0; d < b.shape.size(); ++d) {
      if (b.shape[d] == 1) continue;
      ++rank;
      if (d == inner) continue;
      if (b.strides[d] <= 0 || checked_mul(b.strides[d], size) % 16 != 0) return false;
    }
    return rank <= kMostDimensions;
  }

  // Whether neighbours in memory differ in k or in a row; the inner iterator.
  bool layout(Operand& o, Role own) {
    const tile::Access& a = access(o);
    std::optional<size_t> inner = factors_.inner_dimension(a);
    if (!inner || !mappable(a, *inner)) return false;
    const Index& index = a.index[*inner];
    IteratorId best;
    for (IteratorId u : roles_.ids()) {
      bool suits = factors_.has_terms(u) || roles_[u] == own;
      if (suits && coefficient(index, u) == 1 && (!best.valid() || box(u) > box(best))) best = u;
    }
    if (!best.valid()) return false;
    o.k_inside = !piece_.is_parallel(best);
    inner_[o.load] = best;
    for (size_t u = 0; u < piece_.parallel_dims; ++u) {
      if (roles_[u] == own) o.iterators.push_back(IteratorId(u));
    }
    order_by_output(o.iterators);
    if (!o.k_inside) {  // neighbours in memory are neighbours in the tile
      auto it = std::find(o.iterators.begin(), o.iterators.end(), best);
      std::rotate(it, it + 1, o.iterators.end());
    }
    return true;
  }

  // By the distance of neighbours in the output, greatest first.
  void order_by_output(std::vector<IteratorId>& iterators) const {
    const std::vector<Index>& index = piece_.stores[0].index;
    std::vector<int64_t> dense = dense_strides(tensor(c_.outputs[0]).shape);
    auto distance = [&](IteratorId u) {
      int64_t sum = 0;
      for (size_t d = 0; d < index.size(); ++d) sum += dense[d] * coefficient(index[d], u);
      return std::abs(sum);
    };
    std::stable_sort(iterators.begin(), iterators.end(),
                     [&](IteratorId u, IteratorId v) { return distance(u) > distance(v); });
  }

  // Which iterators a box can span, and where the cells of k end.
  bool boxes(Operand& o) {
    const tile::Access& a = access(o);
    o.limit = layout_of(a).shape;
    std::optional<size_t> inner = factors_.inner_dimension(a);
    std::vector<bool> spanned(a.index.size(), false);
    for (size_t i = 0; i < p_.k.size(); ++i) {
      size_t d = *Factors::only_dimension(a, p_.k[i]);
      spanned[d] = spanned[d] || p_.k_tile[i] > 1;
      if (!factors_.alone(a.index[d], p_.k[i])) continue;
      int64_t last = coefficient(a.index[d], p_.k[i]) * (box(p_.k[i]) - 1);
      o.limit[d] = std::min(o.limit[d], a.index[d].affine.constant.num() + last + 1);
    }
    for (size_t i = o.iterators.size(); i-- > 0;) {  // the innermost first
      IteratorId u = o.iterators[i];
      std::optional<size_t> d = Factors::only_dimension(a, u);
      bool fits = d && !spanned[*d];
      int64_t step = fits ? coefficient(a.index[*d], u) : 0;
      fits =
          fits && step >= 1 && step <= (d == inner ? 1 : kMostStride) && layout_of(a).shape[*d] > 1;
      if (fits) spanned[*d] = true;
      o.most.insert(o.most.begin(), fits ? kMostSpan / step + 1 : 1);
    }
    return o.k_inside || o.most.back() > 1;
  }

  // Every condition of the domain says that an operand's index is inside [0, limit): copies make
  // zeros there. A zero times an infinity is not skipped, so that strict programs of reals have
  // none.
  bool conditions_are_limits() {
    bool strict = target_.strict_skip && is_float(p_.sum);
    if (!piece_.constraints.empty() && strict) return false;
    return std::all_of(piece_.constraints.begin(), piece_.constraints.end(),
                       [&](const Constraint& c) { return limits(c, p_.a) || limits(c, p_.b); });
  }
  bool limits(const Constraint& c, Operand& o) const {
    const tile::Access& a = access(o);
    for (size_t d = 0; d < a.index.size(); ++d) {
      Affine rest = c.form - a.index[d].affine;
      if (!rest.is_constant() || !rest.is_integral()) continue;
      if (c.lo - rest.constant.num() > 0) return false;
      o.limit[d] = std::min(o.limit[d], std::max<int64_t>(c.hi - rest.constant.num(), 0));
      return true;
    }
    return false;
  }

  int64_t extent(const Operand& o) const {
    int64_t product = 1;
    for (size_t i = 0; i < o.iterators.size(); ++i) {
      if (o.most[i] > 1) product = checked_mul(product, box(o.iterators[i]));
    }
    return product;
  }

  void collect_rest(Role row, Role column) {
    for (IteratorId u : roles_.ids()) {
      if (!piece_.is_parallel(u)) {
        if (std::find(p_.k.begin(), p_.k.end(), u) == p_.k.end()) p_.around.push_back(u);
      } else if (roles_[u] != row && roles_[u] != column) {
        p_.batch.push_back(u);
      }
    }
  }

  Piece piece_;
  const Contraction& c_;
  const Kernel& kernel_;
  const Target& target_;
  const ArgumentLayouts& layouts_;
  Factors factors_;
  IdVector<IteratorId, Role> roles_;
  IteratorId inner_[2];  // by load: the iterator in which neighbours in memory differ
  Product p_;
};

int64_t tile_extent(const TensorCoreGemm& schedule, const Operand& o) {
  int64_t product = 1;
  for (IteratorId u : o.iterators) {
    product = checked_mul(product, schedule.tile[u]);
  }
  return product;
}

}  // namespace

std::optional<Product> product_of(const Piece& piece, const Contraction& c, const Kernel& kernel,
                                  const Target& target, const ArgumentLayouts& layouts) {
  std::optional<Product> product;
  if (target.gpu.matrix_per_ns <= 0) return product;
  auto recognise = [&](bool bulk) {
    return Recogniser(piece, c, kernel, target, layouts, bulk).run();
  };
  if (target.features.starts_with("sm_90a")) product = recognise(true);
  if (!product && target.gpu.capability >= 80) product = recognise(false);
  return product;
}

int64_t tile_rows(const TensorCoreGemm& schedule, const Product& product) {
  return tile_extent(schedule, product.a);
}
int64_t tile_columns(const TensorCoreGemm& schedule, const Product& product) {
  return tile_extent(schedule, product.b);
}

int64_t tile_count(const TensorCoreGemm& schedule, const Product& product) {
  int64_t tiles = 1;
  for (const std::vector<IteratorId>* list :
       {&product.batch, &product.a.iterators, &product.b.iterators}) {
    for (IteratorId u : *list) {
      tiles = checked_mul(tiles, ceil_div(product.box[u], schedule.tile[u]));
    }
  }
  return tiles;
}
int64_t cut_tiles(const TensorCoreGemm& schedule, const Product& product) {
  return tile_count(schedule, product) % schedule.stream_k;
}

}  // namespace tile::tensor_cores
