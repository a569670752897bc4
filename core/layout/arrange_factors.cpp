// Copies a factor of a matrix product to where tiles of it can be fetched fast: with its dimensions
// in another order, in a wider type, with an element for each pair of an output and a tap (of a
// convolution with few channels), or, for three products of tf32, in two parts. The product reads
// the copy. Done where the model finds that it pays.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/matrix_types.h"
#include "core/ir/analysis/plain_contraction.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/argument_layout.h"
#include "core/kernel/collapse.h"
#include "core/kernel/coverage.h"
#include "core/kernel/forms/gpu_forms.h"
#include "core/kernel/forms/tensor_core_gemm.h"
#include "core/layout/factor_copies.h"
#include "core/layout/layout.h"
#include "core/layout/unfold_rows.h"
#include "core/layout/unfold_taps.h"
#include "core/schedule/cost/estimate.h"
#include "core/schedule/cost/tensor_core_gemm_rank.h"
#include "core/schedule/space/candidates.h"
#include "core/target/target.h"

namespace tile {
namespace {

using Statements = std::vector<BoundStatement>;

constexpr double kWorthwhile = 0.9;    // of the time without copies: the model is no better
constexpr double kCopyShare = 0.55;    // of the memory rate that a copy reaches
constexpr double kMostCopying = 0.15;  // of a product's least time
constexpr double kSplitShare = 1.5;    // of a copy's time: twice as much is written

bool plain(const Access& access) {
  return std::all_of(access.index.begin(), access.index.end(),
                     [](const Index& i) { return is_plain_index(i) && i.affine.is_integral(); });
}

// A sum of the products of two loads' elements, in f32, or of bytes.
bool is_product(const Contraction& c) {
  bool sum =
      c.accumulator == DType::f32 || c.accumulator == DType::i32 || c.accumulator == DType::u32;
  bool form = is_plain_contraction(c) && c.aggregation == Aggregation::sum && sum;
  if (!form || c.pieces[0].loads.size() != 2) return false;
  const Piece& piece = c.pieces[0];
  if (piece.parallel_dims == piece.iterators.size()) return false;
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
  Arranger(BoundProgram& program, const Target& target, Statements& made)
      : program_(program), copies_(program), target_(target), made_(made) {}

  // The statements that stand behind the product.
  Statements run(Contraction& c) {
    arrange(c);
    return std::move(behind_);
  }

 private:
  void arrange(Contraction& c) {
    if (!is_product(c) || point_count(c.pieces[0]) < 1 << 20) return;
    DType type = tensor(c.pieces[0].loads[0].tensor).type,
          other = tensor(c.pieces[0].loads[1].tensor).type;
    bool matrix = tensor_core_rate(type, target_) > 0;
    bool alike =
        type == other || (is_byte(type) && is_byte(other)) || (is_f8(type) && is_f8(other));
    if (!alike) return;
    if (is_float(c.accumulator) == is_byte(type)) return;
    if (is_f8(type) && widened_for_steps(c)) return;
    if (matrix && type == DType::f32 && target_.precision == Precision::tf32x3) {
      split_for_steps(c);
    } else if (matrix) {
      if (!transposed_for_steps(c)) unfolded(c);
    } else if (type == DType::f32) {
      grouped(c);
    }
  }

  const BoundTensor& tensor(TensorId id) const { return program_.tensors[id]; }
  // Of a copy: read once, written once and read again.
  double copy_ns(int64_t bytes) const {
    double rate = target_.dram_bytes_per_ns * target_.gpu.multiprocessors;
    return target_.gpu.launch_ns + 2 * static_cast<double>(bytes) / (kCopyShare * rate);
  }

  // The model's time of the product as a kernel of its own; on tensor cores where it can be.
  double product_ns(const Contraction& c) const {
    Kernel kernel;
    kernel.tensors = program_.tensors;
    KernelStage stage;
    stage.contraction = c;
    kernel.stages.push_back(std::move(stage));
    for (const Access& a : c.pieces[0].loads) {
      if (!contains(kernel.reads, a.tensor)) kernel.reads.push_back(a.tensor);
    }
    kernel.writes = c.outputs;
    collapse(kernel);
    Target target = target_;
    const Contraction& merged = kernel.stages[0].contraction;
    if (covers_output(merged, kernel.tensors)) {
      std::optional<tensor_cores::Product> product = tensor_cores::product_of(
          merged.pieces[0], merged, kernel, target_, argument_layouts(kernel));
      if (product) {
        std::vector<tensor_cores::Ranked> tiles =
            tensor_cores::ranked_tiles(*product, merged.pieces[0], kernel, target_);
        if (!tiles.empty()) return tiles[0].nanoseconds;
      }
    }
    target.gpu.matrix_per_ns = 0;
    return estimate(analytic_schedule(kernel, target), kernel, target);
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
  bool take_if_faster(Contraction& c,
                      const std::function<double(Contraction&, Statements&)>& change) {
    size_t before = program_.tensors.size();
    Contraction other = c;
    Statements copies;
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

  // wgmma takes tf32, bytes and f8 with neighbours in k only.
  bool transposed_for_steps(Contraction& c) {
    const Piece& piece = c.pieces[0];
    DType type = tensor(piece.loads[0].tensor).type;
    if (type != DType::f32 && byte_size(type) != 1) return false;
    for (size_t u = piece.parallel_dims; u < piece.iterators.size(); ++u) {
      std::optional<size_t> a = only_dimension(piece.loads[0], u),
                            b = only_dimension(piece.loads[1], u);
      if (piece.box[u] < kWideBytes || !a || !b) continue;
      // Taking it replaces the pieces.
      bool taken = take_if_faster(c, [&](Contraction& other, Statements& made) {
        double ns = -1;
        for (auto [i, d] : {std::pair{size_t{0}, *a}, {size_t{1}, *b}}) {
          Access& load = other.pieces[0].loads[i];
          if (d + 1 == load.index.size()) continue;
          const BoundTensor& t = tensor(load.tensor);
          ns = std::max(ns, 0.0) + copy_ns(bytes_of(t.shape, t.type));
          load = copies_.reordered(load, moved_last(load.index.size(), d), made);
        }
        return ns;
      });
      if (taken) return true;
    }
    return false;
  }

  // f8 whose sums are to be those of f32 are multiplied as f16, which has all of their values: made
  // so once, and not by each tile that reads them, they come by bulk copies.
  bool widened_for_steps(Contraction& c) {
    bool short_sums =
        tensor_core_rate(DType::f8e4m3, target_) > 0 && target_.precision == Precision::tf32;
    if (short_sums || target_.gpu.matrix_per_ns <= 0 || c.accumulator != DType::f32) return false;
    return take_if_faster(c, [&](Contraction& other, Statements& made) {
      Piece& p = other.pieces[0];
      double ns = 0;
      std::map<TensorId, TensorId> copies;
      for (Access& load : p.loads) {
        TensorId source = load.tensor;
        if (auto known = copies.find(source); known != copies.end()) {
          load.tensor = known->second;
          continue;
        }
        ns += copy_ns(bytes_of(tensor(source).shape, DType::f16));
        load = copies_.converted(load, DType::f16, made);
        copies[source] = load.tensor;
      }
      p.body = product_of_halves();
      return ns;
    });
  }
  static Body product_of_halves() {
    Body b;
    NodeId x = b.cast(b.load(0, DType::f16), DType::f32),
           y = b.cast(b.load(1, DType::f16), DType::f32);
    b.results = {b.operation(Op::mul, {x, y}, DType::f32)};
    return b;
  }

  // wgmma reads both factors from memory, so that each becomes two of tf32 there, neighbours in k.
  void split_for_steps(Contraction& c) {
    if (!target_.features.starts_with("sm_90a")) return;
    const Piece& piece = c.pieces[0];
    for (size_t u = piece.parallel_dims; u < piece.iterators.size(); ++u) {
      std::optional<size_t> a = only_dimension(piece.loads[0], u),
                            b = only_dimension(piece.loads[1], u);
      if (piece.box[u] < kWideBytes || !a || !b) continue;
      bool taken = take_if_faster(c, [&](Contraction& other, Statements& made) {
        Piece& p = other.pieces[0];
        double ns = 0;
        for (auto [i, d] : {std::pair{size_t{0}, *a}, {size_t{1}, *b}}) {
          Access from = p.loads[i];
          auto [high, rest] = copies_.in_parts(from, moved_last(from.index.size(), d), made);
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

  // A factor whose dimensions of rows and terms alternate: no loop walks them as one, and addresses
  // cost as much as products. With its dimensions in groups the product is one of plain matrices.
  void grouped(Contraction& c) {
    Kernel kernel;
    kernel.tensors = program_.tensors;
    const Piece& piece = c.pieces[0];
    std::optional<gpu::MatrixForm> form = gpu::matrix_form(piece, c, kernel);
    if (!form || form->m.iterators.empty() || form->n.iterators.empty()) return;
    std::vector<std::pair<size_t, std::vector<size_t>>> copies;  // load and order of dimensions
    double ns = 0;
    for (size_t i = 0; i < 2; ++i) {
      const Access& load = piece.loads[i];
      bool rows = moves_with(load, form->m.iterators.back());
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
      load = copies_.reordered(load, order, made_);
    }
  }
  // The dimensions in the order of the groups' iterators, each of which is one dimension's index.
  static std::optional<std::vector<size_t>> order_of(
      const Access& load, const std::vector<const gpu::FlatIndex*>& groups) {
    std::vector<size_t> order;
    for (const gpu::FlatIndex* group : groups) {
      for (size_t u : group->iterators) {
        std::optional<size_t> d = only_dimension(load, u);
        if (!d || !(load.index[*d].affine == iterator_affine(u))) return std::nullopt;
        order.push_back(*d);
      }
    }
    return order.size() == load.index.size() ? std::optional(order) : std::nullopt;
  }

  // The factors as matrices: one whose rows hold the taps of a term, or both with rows that hold
  // the terms of one output.
  void unfolded(Contraction& c) {
    bool strict = target_.strict_skip && is_float(c.accumulator);
    if (!c.pieces[0].constraints.empty() && strict) return;
    bool any_order = byte_size(tensor(c.pieces[0].loads[0].tensor).type) == 2;
    bool taken = any_order && take_if_faster(c, [&](Contraction& other, Statements& made) {
                   behind_.clear();
                   if (!unfold_rows(other, copies_, made, behind_)) return -1.0;
                   return alone_ns_of(made) + alone_ns_of(behind_);
                 });
    if (taken) return;
    behind_.clear();
    take_if_faster(c, [&](Contraction& other, Statements& made) {
      return unfold_taps(other.pieces[0], copies_, made) ? alone_ns_of(made) : -1.0;
    });
  }
  // A copy of windows may read far slower than it writes.
  double alone_ns_of(const Statements& copies) const {
    return std::accumulate(copies.begin(), copies.end(), 0.0,
                           [&](double ns, const BoundStatement& copy) {
                             return ns + alone_ns(std::get<Contraction>(copy), program_, target_);
                           });
  }

  BoundProgram& program_;
  FactorCopies copies_;
  const Target& target_;
  Statements& made_;
  Statements behind_;
};

}  // namespace

void arrange_factors(BoundProgram& program, const Target& target) {
  if (!is_gpu(target)) return;
  Statements statements;
  for (BoundStatement& statement : program.statements) {
    Statements behind;
    if (Contraction* c = std::get_if<Contraction>(&statement)) {
      behind = Arranger(program, target, statements).run(*c);
    }
    statements.push_back(std::move(statement));
    std::move(behind.begin(), behind.end(), std::back_inserter(statements));
  }
  program.statements = std::move(statements);
}

}  // namespace tile
