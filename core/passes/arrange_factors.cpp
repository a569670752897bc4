// Copies a factor of a matrix product to where tiles of it can be fetched fast: with its dimensions
// in another order, with an element for each pair of an output and a tap (of a convolution with
// few channels), or, for three products of tf32, in two parts. The product reads the copy. Done
// where the model finds that it pays.
#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "core/passes/substitution.h"
#include "core/passes/tensor_passes.h"
#include "core/passes/uses.h"
#include "core/schedule/collapse.h"
#include "core/schedule/tensor_cores.h"

namespace tile {
namespace {

constexpr int64_t kWide = 16;  // bytes of one access, and what rows of a copy are a multiple of
constexpr int64_t kMostBytes = 1 << 30;  // of a copy
constexpr size_t kMostRank = 5;          // that bulk copies take
constexpr double kWorthwhile = 0.9;      // of the time without copies: the model is no better
constexpr double kCopyShare = 0.55;      // of the memory rate that a copy reaches
constexpr double kMostCopying = 0.15;    // of a product's least time
constexpr double kSplitShare = 1.5;      // of a copy's time: twice as much is written

bool moves(const Access& access, size_t unknown) {
  return std::any_of(access.index.begin(), access.index.end(),
                     [&](const Index& i) { return !i.affine.coefficient(unknown).is_zero(); });
}

// The dimension that the unknown alone moves along, with step 1; nullopt: another form.
std::optional<size_t> only_dimension(const Access& access, size_t unknown) {
  std::optional<size_t> found;
  for (size_t d = 0; d < access.index.size(); ++d) {
    const Affine& form = access.index[d].affine;
    if (form.coefficient(unknown).is_zero()) continue;
    if (found || !(form.coefficient(unknown) == Rational(1))) return std::nullopt;
    found = d;
  }
  return found;
}

bool plain(const Access& access) {
  return std::all_of(access.index.begin(), access.index.end(), [](const Index& i) {
    return i.value < 0 && i.boundary == Boundary::in_range && i.affine.is_integral();
  });
}

// A sum of the products of two loads' elements, in f32.
bool is_product(const Contraction& c) {
  bool form = c.normalized && c.pieces.size() == 1 && c.outputs.size() == 1 && !c.fill &&
              c.aggregation == Aggregation::sum && c.accumulator == DType::f32;
  if (!form || c.pieces[0].loads.size() != 2) return false;
  const Piece& piece = c.pieces[0];
  if (piece.owners == piece.unknowns.size()) return false;
  if (!plain(piece.loads[0]) || !plain(piece.loads[1])) return false;
  const Node& root = piece.body[piece.body.results[0]];
  if (root.kind != NodeKind::operation || root.op != Op::mul) return false;
  size_t loads = 0;
  bool casts = true;
  for (const Node& node : piece.body.nodes) {
    loads += node.kind == NodeKind::load ? 1 : 0;
    casts = casts && (node.kind == NodeKind::load || &node == &root ||
                      (node.kind == NodeKind::operation && node.op == Op::cast));
  }
  return loads == 2 && casts;
}

class Arranger {
 public:
  Arranger(BoundProgram& program, const Target& target, std::vector<BoundStatement>& made)
      : program_(program), target_(target), made_(made) {}

  void run(Contraction& c) {
    if (!is_product(c) || point_count(c.pieces[0]) < 1 << 20) return;
    DType type = tensor(c.pieces[0].loads[0].tensor).type;
    bool matrix = tensor_cores::rate(type, target_) > 0;
    if (type != tensor(c.pieces[0].loads[1].tensor).type) return;
    if (matrix && type == DType::f32 && target_.precision == Precision::tf32x3) {
      split_for_steps(c);
    } else if (matrix) {
      if (!transposed_for_steps(c)) unfolded(c);
    } else if (type == DType::f32) {
      grouped(c);
    }
  }

 private:
  const BoundTensor& tensor(TensorId id) const { return program_.tensors[static_cast<size_t>(id)]; }
  int64_t bytes_of(const Shape& shape, DType type) const {
    return checked_mul(element_count(shape), static_cast<int64_t>(byte_size(type)));
  }
  // Of a copy: read once, written once and read again.
  double copy_ns(int64_t bytes) const {
    double rate = target_.dram_bytes_per_ns * target_.gpu.multiprocessors;
    return target_.gpu.launch_ns + 2 * static_cast<double>(bytes) / (kCopyShare * rate);
  }

  TensorId add(const std::string& name, DType type, Shape shape,
               std::optional<TensorId> view_of = {}) {
    BoundTensor t;
    t.name = name;
    t.type = type;
    t.shape = std::move(shape);
    t.view_of = view_of;
    program_.tensors.push_back(std::move(t));
    return static_cast<TensorId>(program_.tensors.size()) - 1;
  }
  std::string fresh_name(const std::string& of) const {
    std::string name = of;
    auto taken = [&](const BoundTensor& t) { return t.name == name; };
    for (int i = 1; std::any_of(program_.tensors.begin(), program_.tensors.end(), taken); ++i) {
      name = of + std::to_string(i);
    }
    return name;
  }

  // The model's time of the product as a kernel of its own; on tensor cores where it can be.
  double product_ns(const Contraction& c) const {
    Kernel kernel;
    kernel.tensors = program_.tensors;
    KernelStage stage;
    stage.contraction = c;
    kernel.stages.push_back(std::move(stage));
    for (const Access& a : c.pieces[0].loads) {
      if (std::find(kernel.reads.begin(), kernel.reads.end(), a.tensor) == kernel.reads.end()) {
        kernel.reads.push_back(a.tensor);
      }
    }
    kernel.writes = c.outputs;
    collapse(kernel);
    Target target = target_;
    lowering::Frame frame = lowering::make_frame(kernel, target, {});
    const Contraction& merged = kernel.stages[0].contraction;
    if (lowering::covers_output(merged, kernel.tensors)) {
      std::optional<tensor_cores::Product> product =
          tensor_cores::product_of(merged.pieces[0], merged, frame);
      if (product) {
        std::vector<tensor_cores::Ranked> tiles =
            tensor_cores::ranked_tiles(*product, merged.pieces[0], kernel, target_);
        if (!tiles.empty()) return tiles[0].nanoseconds;
      }
    }
    target.gpu.matrix_per_ns = 0;
    return estimate(analytic_schedule(kernel, target), kernel, target);
  }

  // A statement that sets `to`, of which every unknown is a dimension, to a factor's elements;
  // zero where the last unknown is `limit` or more.
  Contraction copied(TensorId to, const Access& from, std::vector<std::string> names,
                     std::optional<int64_t> limit = {}) const {
    Piece piece;
    piece.unknowns = std::move(names);
    piece.box = tensor(to).shape;
    piece.owners = piece.box.size();
    Access store;
    store.tensor = to;
    for (size_t u = 0; u < piece.owners; ++u) store.index.push_back({unknown_affine(u)});
    piece.stores = {std::move(store)};
    piece.loads = {from};
    Body& b = piece.body;
    NodeId value = b.cast(b.load(0, tensor(to).type), DType::f32);
    if (limit) {
      auto last = static_cast<int>(padded_);
      NodeId inside = b.operation(
          Op::lt, {b.index(last, DType::i64), b.integer(*limit, DType::i64)}, DType::bool_);
      value = b.operation(Op::select, {inside, value, b.real(0, DType::f32)}, DType::f32);
    }
    b.results = {value};
    Contraction c;
    c.outputs = {to};
    c.accumulator = DType::f32;
    c.normalized = true;
    c.pieces = {std::move(piece)};
    return c;
  }

  // The access through a copy whose dimensions are `order` of the tensor's; the copy is made too.
  Access reordered(const Access& from, const std::vector<size_t>& order,
                   std::vector<BoundStatement>& made) {
    const BoundTensor& t = tensor(from.tensor);
    Shape shape;
    for (size_t d : order) shape.push_back(t.shape[d]);
    Access read, result;
    read.tensor = from.tensor;
    read.index.resize(order.size());
    std::vector<std::string> names;
    for (size_t i = 0; i < order.size(); ++i) {
      read.index[order[i]].affine = unknown_affine(i);
      result.index.push_back(from.index[order[i]]);
      names.push_back("d" + std::to_string(i));
    }
    result.tensor = add(fresh_name(t.name + "_arranged"), t.type, std::move(shape));
    made.emplace_back(copied(result.tensor, read, std::move(names)));
    return result;
  }
  static std::vector<size_t> moved_last(size_t rank, size_t dimension) {
    std::vector<size_t> order(rank);
    std::iota(order.begin(), order.end(), size_t{0});
    auto at = order.begin() + static_cast<std::ptrdiff_t>(dimension);
    std::rotate(at, at + 1, order.end());
    return order;
  }

  // Takes what `change` makes of the product, with its copies, if that is faster than the product
  // alone. The tensors of a rejected change go.
  bool take_if_faster(
      Contraction& c,
      const std::function<double(Contraction&, std::vector<BoundStatement>&)>& change) {
    size_t before = program_.tensors.size();
    Contraction other = c;
    std::vector<BoundStatement> copies;
    double copying = change(other, copies);
    bool taken = copying >= 0 && copying + product_ns(other) < kWorthwhile * product_ns(c);
    if (!taken) {
      program_.tensors.resize(before);
      return false;
    }
    c = std::move(other);
    for (BoundStatement& s : copies) made_.push_back(std::move(s));
    return true;
  }

  // wgmma takes tf32 with neighbours in k only.
  bool transposed_for_steps(Contraction& c) {
    const Piece& piece = c.pieces[0];
    if (tensor(piece.loads[0].tensor).type != DType::f32) return false;
    for (size_t u = piece.owners; u < piece.unknowns.size(); ++u) {
      std::optional<size_t> a = only_dimension(piece.loads[0], u),
                            b = only_dimension(piece.loads[1], u);
      if (piece.box[u] < kWide || !a || !b) continue;
      // Taking it replaces the pieces.
      bool taken = take_if_faster(c, [&](Contraction& other, std::vector<BoundStatement>& made) {
        double ns = -1;
        for (auto [i, d] : {std::pair{size_t{0}, *a}, {size_t{1}, *b}}) {
          Access& load = other.pieces[0].loads[i];
          if (d + 1 == load.index.size()) continue;
          const BoundTensor& t = tensor(load.tensor);
          ns = std::max(ns, 0.0) + copy_ns(bytes_of(t.shape, t.type));
          load = reordered(load, moved_last(load.index.size(), d), made);
        }
        return ns;
      });
      if (taken) return true;
    }
    return false;
  }

  // wgmma reads both factors from memory, so that each becomes two of tf32 there, neighbours in k.
  void split_for_steps(Contraction& c) {
    if (!target_.features.starts_with("sm_90a")) return;
    const Piece& piece = c.pieces[0];
    for (size_t u = piece.owners; u < piece.unknowns.size(); ++u) {
      std::optional<size_t> a = only_dimension(piece.loads[0], u),
                            b = only_dimension(piece.loads[1], u);
      if (piece.box[u] < kWide || !a || !b) continue;
      bool taken = take_if_faster(c, [&](Contraction& other, std::vector<BoundStatement>& made) {
        Piece& p = other.pieces[0];
        double ns = 0;
        for (auto [i, d] : {std::pair{size_t{0}, *a}, {size_t{1}, *b}}) {
          Access from = p.loads[i];
          auto [high, rest] = in_parts(from, moved_last(from.index.size(), d), made);
          const BoundTensor& t = tensor(from.tensor);
          ns += kSplitShare * copy_ns(bytes_of(t.shape, t.type));
          p.loads[i] = std::move(high);
          p.loads.push_back(std::move(rest));
        }
        p.body = sum_of_parts();
        return ns;
      });
      if (taken) return;
    }
  }
  // 0 * 1 + (2 * 1 + 0 * 3), where 2 and 3 are what is left of 0 and 1.
  static Body sum_of_parts() {
    Body b;
    NodeId loads[4];
    for (int i = 0; i < 4; ++i) loads[i] = b.load(i, DType::f32);
    auto product = [&](int x, int y) {
      return b.operation(Op::mul, {loads[x], loads[y]}, DType::f32);
    };
    NodeId large = product(0, 1), left = product(2, 1), right = product(0, 3);
    NodeId small = b.operation(Op::add, {left, right}, DType::f32);
    b.results = {b.operation(Op::add, {large, small}, DType::f32)};
    return b;
  }

  // The accesses to both parts of a copy with the dimensions `order`; rows are whole accesses.
  std::pair<Access, Access> in_parts(const Access& from, const std::vector<size_t>& order,
                                     std::vector<BoundStatement>& made) {
    const BoundTensor source = tensor(from.tensor);
    Contraction copy;
    Piece piece;
    Access read, high;
    read.tensor = from.tensor;
    read.index.resize(order.size());
    Shape shape;
    for (size_t i = 0; i < order.size(); ++i) {
      bool last = i + 1 == order.size();
      int64_t extent = source.shape[order[i]], each = kWide / 4;
      piece.unknowns.push_back("d" + std::to_string(i));
      piece.box.push_back(last ? ceil_div(extent, each) * each : extent);
      if (last) shape.push_back(2);
      shape.push_back(piece.box.back());
      read.index[order[i]].affine = unknown_affine(i);
      if (piece.box.back() != extent) read.index[order[i]].boundary = Boundary::constant;
      if (last) high.index.push_back({constant_affine(0)});
      high.index.push_back(from.index[order[i]]);
    }
    high.tensor = add(fresh_name(source.name + "_parts"), DType::f32, std::move(shape));
    program_.tensors.back().tf32_parts = true;
    Access rest = high, store = high, store_rest;
    rest.index[order.size() - 1].affine = constant_affine(1);
    for (size_t i = 0, u = 0; i < store.index.size(); ++i) {
      if (i + 1 != order.size()) store.index[i].affine = unknown_affine(u++);
    }
    store_rest = store;
    store_rest.index[order.size() - 1].affine = constant_affine(1);
    piece.owners = piece.box.size();
    piece.stores = {store, store_rest};
    piece.loads = {std::move(read)};
    piece.body = split_value();
    copy.outputs = {high.tensor, high.tensor};
    copy.accumulator = DType::f32;
    copy.normalized = true;
    copy.pieces = {std::move(piece)};
    made.emplace_back(std::move(copy));
    return {std::move(high), std::move(rest)};
  }
  // A value x in the 11 bits of tf32, and the rest: with c = (2^13 + 1) x, c - (c - x) is x
  // rounded. Where c could overflow, x is scaled first. Of an infinity both are NaN.
  static Body split_value() {
    constexpr double kScale = 0x1p-20, kLarge = 0x1p100;
    Body b;
    auto operation = [&](Op op, NodeId x, NodeId y) { return b.operation(op, {x, y}, DType::f32); };
    auto choose = [&](NodeId large, NodeId yes, NodeId no) {
      return b.operation(Op::select, {large, yes, no}, DType::f32);
    };
    NodeId x = b.load(0, DType::f32);
    NodeId large = b.operation(
        Op::gt, {b.operation(Op::abs, {x}, DType::f32), b.real(kLarge, DType::f32)}, DType::bool_);
    NodeId scaled = choose(large, operation(Op::mul, x, b.real(kScale, DType::f32)), x);
    NodeId c = operation(Op::mul, scaled, b.real(0x1p13 + 1, DType::f32));
    NodeId rounded = operation(Op::sub, c, operation(Op::sub, c, scaled));
    NodeId high =
        choose(large, operation(Op::mul, rounded, b.real(1 / kScale, DType::f32)), rounded);
    b.results = {high, operation(Op::sub, x, high)};
    return b;
  }

  // A factor whose dimensions of rows and terms alternate: no loop walks them as one, and addresses
  // cost as much as products. With its dimensions in groups the product is one of plain matrices.
  void grouped(Contraction& c) {
    Kernel kernel;
    kernel.tensors = program_.tensors;
    const Piece& piece = c.pieces[0];
    std::optional<gpu::MatrixForm> form = gpu::matrix_form(piece, c, kernel);
    if (!form || form->m.unknowns.empty() || form->n.unknowns.empty()) return;
    std::vector<std::pair<size_t, std::vector<size_t>>> copies;  // load and order of dimensions
    double ns = 0;
    for (size_t i = 0; i < 2; ++i) {
      const Access& load = piece.loads[i];
      bool rows = moves(load, form->m.unknowns.back());
      const gpu::FlatIndex& own = rows ? form->m : form->n;
      std::optional<std::vector<size_t>> first = order_of(load, {&form->batch, &own, &form->k}),
                                         second = order_of(load, {&form->batch, &form->k, &own});
      if (!first || !second) return;
      if (std::is_sorted(first->begin(), first->end())) continue;
      if (std::is_sorted(second->begin(), second->end())) continue;
      copies.emplace_back(i, rows ? *first : *second);
      ns += copy_ns(bytes_of(tensor(load.tensor).shape, DType::f32));
    }
    double product = point_count(piece) / (target_.fma_per_ns * target_.gpu.multiprocessors);
    if (copies.empty() || ns > kMostCopying * product) return;
    for (const auto& [i, order] : copies) {
      Access& load = c.pieces[0].loads[i];
      load = reordered(load, order, made_);
    }
  }
  // The dimensions in the order of the groups' unknowns, each of which is one dimension's index.
  static std::optional<std::vector<size_t>> order_of(
      const Access& load, const std::vector<const gpu::FlatIndex*>& groups) {
    std::vector<size_t> order;
    for (const gpu::FlatIndex* group : groups) {
      for (size_t u : group->unknowns) {
        std::optional<size_t> d = only_dimension(load, u);
        if (!d || !(load.index[*d].affine == unknown_affine(u))) return std::nullopt;
        order.push_back(*d);
      }
    }
    return order.size() == load.index.size() ? std::optional(order) : std::nullopt;
  }

  // Both factors as matrices whose rows hold the terms of one output: the reductions become one.
  void unfolded(Contraction& c) {
    if (!c.pieces[0].constraints.empty() && target_.strict_skip) return;
    take_if_faster(c, [&](Contraction& other, std::vector<BoundStatement>& made) {
      while (merge_taps(other.pieces[0])) {
      }
      return unfold(other.pieces[0], made);
    });
  }

  // Two reductions that walk neighbouring dimensions of both factors as one, the second all of its
  // dimension, become one of them; the tensors are seen under other shapes.
  bool merge_taps(Piece& piece) {
    for (size_t u = piece.owners; u < piece.unknowns.size(); ++u) {
      for (size_t v = piece.owners; v < piece.unknowns.size(); ++v) {
        std::optional<size_t> a = joint(piece, 0, u, v), b = joint(piece, 1, u, v);
        if (u == v || !a || !b) continue;
        merge(piece, u, v, *a, *b);
        return true;
      }
    }
    return false;
  }
  std::optional<size_t> joint(const Piece& piece, size_t load, size_t u, size_t v) const {
    const Access& a = piece.loads[load];
    std::optional<size_t> first = only_dimension(a, u), second = only_dimension(a, v);
    if (!first || !second || *second != *first + 1) return std::nullopt;
    bool whole = a.index[*second].affine == unknown_affine(v) &&
                 piece.box[v] == tensor(a.tensor).shape[*second];
    return whole && !constrained(piece, v) ? first : std::nullopt;
  }
  static bool constrained(const Piece& piece, size_t u) {
    return std::any_of(piece.constraints.begin(), piece.constraints.end(),
                       [&](const Constraint& c) { return !c.form.coefficient(u).is_zero(); });
  }

  void merge(Piece& piece, size_t u, size_t v, size_t a, size_t b) {
    int64_t inner = piece.box[v];
    // t = inner * u + v takes the place of u: a form f with u times 1 becomes (inner * f)(u = 0) +
    // t.
    for (auto [i, d] : {std::pair{size_t{0}, a}, {size_t{1}, b}}) {
      Access& load = piece.loads[i];
      const BoundTensor t = tensor(load.tensor);
      Affine before = load.index[d].affine;
      for (Constraint& k : piece.constraints) {
        Affine rest = k.form - before;
        if (k.form.coefficient(u).is_zero() || !rest.is_constant()) continue;
        k.lo = (k.lo - rest.constant.num()) * inner;
        k.hi = (k.hi - rest.constant.num()) * inner;
        k.form = joined(before, u, inner);
      }
      Shape shape = t.shape;
      shape[d] *= inner;
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(d) + 1);
      load.tensor =
          add(fresh_name(t.name + "_joined"), t.type, shape, t.view_of.value_or(load.tensor));
      load.index[d].affine = joined(before, u, inner);
      load.index.erase(load.index.begin() + static_cast<std::ptrdiff_t>(d) + 1);
    }
    piece.box[u] *= inner;
    piece.box[v] = 1;
  }
  static Affine joined(const Affine& form, size_t u, int64_t inner) {
    return (form - unknown_affine(u)) * Rational(inner) + unknown_affine(u);
  }

  // Nanoseconds of the copies; less than 0: the factors have another form.
  double unfold(Piece& piece, std::vector<BoundStatement>& made) {
    std::vector<size_t> taps;
    for (size_t u = piece.owners; u < piece.unknowns.size(); ++u) {
      if (piece.box[u] == 1) continue;
      if (!moves(piece.loads[0], u) || !moves(piece.loads[1], u)) return -1;
      taps.push_back(u);
    }
    if (taps.empty()) return -1;
    order_taps(piece, taps);
    DType type = tensor(piece.loads[0].tensor).type;
    int64_t last = piece.box[taps.back()], each = kWide / static_cast<int64_t>(byte_size(type));
    int64_t padded = ceil_div(last, each) * each, terms = padded;
    for (size_t i = 0; i + 1 < taps.size(); ++i) terms = checked_mul(terms, piece.box[taps[i]]);
    std::vector<Access> matrices;
    double ns = 0;
    std::set<size_t> used;  // constraints that a copy keeps
    for (size_t i = 0; i < 2; ++i) {
      std::vector<size_t> owners;
      for (size_t u = 0; u < piece.owners; ++u) {
        if (moves(piece.loads[i], u)) owners.push_back(u);
      }
      if (owners.empty() || owners.size() + 1 > kMostRank) return -1;
      std::optional<Access> matrix = matrix_of(piece, i, owners, taps, padded, terms, used, made);
      if (!matrix) return -1;
      ns += copy_ns(bytes_of(tensor(matrix->tensor).shape, type));
      matrices.push_back(std::move(*matrix));
    }
    if (used.size() != piece.constraints.size()) return -1;
    replace(piece, std::move(matrices), terms);
    return ns;
  }

  // Outermost first as the factor that shares indices with owners lies in memory.
  void order_taps(const Piece& piece, std::vector<size_t>& taps) const {
    Kernel kernel;
    kernel.tensors = program_.tensors;
    std::stable_sort(taps.begin(), taps.end(), [&](size_t u, size_t v) {
      return std::abs(gpu::stride_of(piece.loads[0], u, kernel)) >
             std::abs(gpu::stride_of(piece.loads[0], v, kernel));
    });
  }

  // The factor as [owners…, terms], rows padded to whole accesses.
  std::optional<Access> matrix_of(const Piece& piece, size_t number,
                                  const std::vector<size_t>& owners,
                                  const std::vector<size_t>& taps, int64_t padded, int64_t terms,
                                  std::set<size_t>& used, std::vector<BoundStatement>& made) {
    const Access from = piece.loads[number];
    const BoundTensor source = tensor(from.tensor);
    std::vector<Affine> place(piece.unknowns.size(), constant_affine(0));
    Shape shape, seen;
    std::vector<std::string> names;
    for (const std::vector<size_t>* list : {&owners, &taps}) {
      for (size_t u : *list) {
        place[u] = unknown_affine(shape.size());
        shape.push_back(list == &taps && u == taps.back() ? padded : piece.box[u]);
        names.push_back(piece.unknowns[u]);
      }
    }
    for (size_t u : owners) seen.push_back(piece.box[u]);
    seen.push_back(terms);
    if (bytes_of(shape, source.type) > kMostBytes) return std::nullopt;
    bool pads = padded != piece.box[taps.back()];
    Access read = from, result;
    for (size_t d = 0; d < read.index.size(); ++d) {
      bool outside = pads && !from.index[d].affine.coefficient(taps.back()).is_zero();
      for (size_t k = 0; k < piece.constraints.size(); ++k) {
        const Constraint& condition = piece.constraints[k];
        Affine rest = condition.form - from.index[d].affine;
        if (!rest.is_constant() || !rest.is_integral()) continue;
        int64_t shift = rest.constant.num();
        if (condition.lo - shift != 0 || condition.hi - shift != source.shape[d]) continue;
        used.insert(k);
        outside = true;
      }
      if (outside) read.index[d].boundary = Boundary::constant;
      read.index[d].affine = substitute(from.index[d].affine, place);
    }
    TensorId whole = add(fresh_name(source.name + "_unfolded"), source.type, shape);
    padded_ = shape.size() - 1;
    made.emplace_back(
        copied(whole, read, names, pads ? std::optional(piece.box[taps.back()]) : std::nullopt));
    result.tensor = add(fresh_name(source.name + "_matrix"), source.type, seen, whole);
    for (size_t u : owners) result.index.push_back({unknown_affine(u)});
    result.index.push_back({unknown_affine(piece.owners)});
    return result;
  }

  static void replace(Piece& piece, std::vector<Access> matrices, int64_t terms) {
    piece.unknowns.resize(piece.owners);
    piece.unknowns.emplace_back("term");
    piece.box.resize(piece.owners);
    piece.box.push_back(terms);
    piece.constraints.clear();
    piece.loads = std::move(matrices);
    for (Access& store : piece.stores) {
      for (Index& index : store.index) {
        if (index.affine.coefficients.size() > piece.owners) {
          index.affine.coefficients.resize(piece.owners);
        }
      }
    }
  }

  BoundProgram& program_;
  const Target& target_;
  std::vector<BoundStatement>& made_;
  size_t padded_ = 0;  // the unknown of a copy that runs over padding
};

}  // namespace

void arrange_factors(BoundProgram& program, const Target& target) {
  if (!is_gpu(target)) return;
  std::vector<BoundStatement> statements;
  for (BoundStatement& statement : program.statements) {
    if (Contraction* c = std::get_if<Contraction>(&statement)) {
      Arranger(program, target, statements).run(*c);
    }
    statements.push_back(std::move(statement));
  }
  program.statements = std::move(statements);
}

}  // namespace tile
