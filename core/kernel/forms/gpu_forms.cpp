#include "core/kernel/forms/gpu_forms.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "core/ir/analysis/accesses.h"
#include "core/kernel/coverage.h"
#include "core/kernel/forms/scan.h"

namespace tile::gpu {
namespace {

const BoundTensor& tensor_of(const Kernel& kernel, TensorId id) { return kernel.tensors[id]; }

FlatIndex flat(std::vector<size_t> iterators, const Piece& piece,
               const std::vector<const Access*>& accesses, const Kernel& kernel) {
  auto key = [&](size_t u) {
    int64_t most = 0;
    for (const Access* a : accesses) most = std::max(most, std::abs(stride_of(*a, u, kernel)));
    bool moves = most != 0;
    return std::pair(moves, -most);  // those that move nothing are slowest
  };
  std::stable_sort(iterators.begin(), iterators.end(),
                   [&](size_t a, size_t b) { return key(a) < key(b); });
  FlatIndex f;
  for (size_t u : iterators) f.count = checked_mul(f.count, std::max<int64_t>(piece.box[u], 0));
  if (!iterators.empty()) f.fastest = piece.box[iterators.back()];
  f.iterators = std::move(iterators);
  return f;
}

using Iterators = std::set<size_t>;

void collect(const Affine& form, Iterators& used) {
  for (size_t u = 0; u < form.coefficients.size(); ++u) {
    if (!form.coefficients[u].is_zero()) used.insert(u);
  }
}

// The iterators and loads below a node; false for a fold, whose region is not looked into.
bool below(const Piece& piece, NodeId root, Iterators& used, std::vector<const Access*>& loads) {
  const Node& node = piece.body[root];
  if (node.kind == NodeKind::fold || node.kind == NodeKind::component) return false;
  if (node.kind == NodeKind::index) used.insert(node.slot);
  if (node.kind == NodeKind::load) {
    const Access& access = piece.loads[node.slot];
    for (const Index& index : access.index) collect(index.affine, used);
    loads.push_back(&access);
  }
  return std::all_of(node.args.begin(), node.args.end(),
                     [&](NodeId arg) { return below(piece, arg, used, loads); });
}

bool within(const Iterators& used, const Iterators& all) {
  return std::includes(all.begin(), all.end(), used.begin(), used.end());
}

// Neighbours along k are closer in memory than those along the parallel dimensions.
bool along_k(const FlatIndex& k, const FlatIndex& parallel_dims,
             const std::vector<const Access*>& loads, const Kernel& kernel) {
  if (loads.empty() || k.iterators.empty()) return false;
  if (parallel_dims.iterators.empty()) return true;
  auto stride = [&](size_t u) {
    int64_t s = std::abs(stride_of(*loads[0], u, kernel));
    return s == 0 ? int64_t{1} << 40 : s;
  };
  return stride(k.iterators.back()) < stride(parallel_dims.iterators.back());
}

}  // namespace

int64_t stride_of(const Access& access, size_t iterator, const Kernel& kernel) {
  const Shape& shape = tensor_of(kernel, access.tensor).shape;
  std::vector<int64_t> strides = dense_strides(shape);
  Rational sum = 0;
  for (size_t d = 0; d < access.index.size(); ++d) {
    if (access.index[d].value < 0) {
      sum += access.index[d].affine.coefficient(iterator) * Rational(strides[d]);
    }
  }
  return sum.num() / sum.den();
}

FlatIndex flat_parallel_dims(const Piece& piece, const Kernel& kernel) {
  std::vector<size_t> list;
  for (size_t u = 0; u < piece.parallel_dims; ++u) list.push_back(u);
  return flat(std::move(list), piece, {&piece.stores[0]}, kernel);
}

FlatIndex flat_reductions(const Piece& piece, const Kernel& kernel) {
  std::vector<size_t> list;
  for (size_t u = piece.parallel_dims; u < piece.box.size(); ++u) list.push_back(u);
  std::vector<const Access*> loads;
  for (const Access& a : piece.loads) loads.push_back(&a);
  return flat(std::move(list), piece, loads, kernel);
}

bool may_be_empty(const Piece& piece, const Contraction& c) {
  bool zero_if_empty = c.aggregation == Aggregation::sum && !c.fill;
  return !zero_if_empty && !surely_nonempty(piece);
}

namespace {

// By how many elements of the output the closest of these iterators steps.
int64_t least_stride(const std::vector<size_t>& list, const Piece& piece, const Kernel& kernel) {
  int64_t least = int64_t{1} << 60;
  for (size_t u : list) {
    int64_t s = std::abs(stride_of(piece.stores[0], u, kernel));
    if (s != 0 && piece.box[u] > 1) least = std::min(least, s);
  }
  return least;
}

// Gives each factor the conditions that it knows, and the cells those that no term decides; false:
// another one.
bool take_conditions(MatrixForm& f, const Piece& piece, const Iterators& of_x,
                     const Iterators& of_y) {
  for (size_t i = 0; i < piece.constraints.size(); ++i) {
    Iterators used;
    collect(piece.constraints[i].form, used);
    bool in_x = within(used, of_x), in_y = within(used, of_y);
    if (!in_x && !in_y) {
      if (*used.rbegin() >= piece.parallel_dims) return false;
      f.cell_conditions.push_back(i);
    }
    if (in_x) f.x_conditions.push_back(i);
    if (in_y) f.y_conditions.push_back(i);
    f.skips = f.skips || in_x != in_y;
  }
  return true;
}

}  // namespace

std::optional<MatrixForm> matrix_form(const Piece& piece, const Contraction& c,
                                      const Kernel& kernel) {
  bool sum = c.aggregation == Aggregation::sum && c.outputs.size() == 1 &&
             piece.parallel_dims < piece.box.size();
  if (!sum || c.accumulator == DType::bool_) return std::nullopt;
  const Node& root = piece.body[piece.body.results[0]];
  bool product =
      root.kind == NodeKind::operation && root.op == Op::mul && root.type == c.accumulator;
  if (!product || may_be_empty(piece, c)) return std::nullopt;
  MatrixForm f;
  f.x = root.args[0];
  f.y = root.args[1];
  Iterators x, y;
  std::vector<const Access*> x_loads, y_loads;
  if (!below(piece, f.x, x, x_loads) || !below(piece, f.y, y, y_loads)) return std::nullopt;
  std::vector<size_t> batch, m, n, k;
  for (size_t u = 0; u < piece.box.size(); ++u) {
    bool in_x = x.contains(u), in_y = y.contains(u);
    bool parallel_dim = u < piece.parallel_dims;
    (!parallel_dim ? k : in_x == in_y ? batch : in_x ? m : n).push_back(u);
  }
  if (m.empty() && n.empty()) return std::nullopt;
  // The output is written along n.
  if (least_stride(m, piece, kernel) < least_stride(n, piece, kernel)) {
    std::swap(f.x, f.y);
    std::swap(x, y);
    std::swap(x_loads, y_loads);
    std::swap(m, n);
  }
  std::vector<const Access*> stores{&piece.stores[0]}, loads = x_loads;
  loads.insert(loads.end(), y_loads.begin(), y_loads.end());
  f.batch = flat(batch, piece, stores, kernel);
  f.m = flat(m, piece, stores, kernel);
  f.n = flat(n, piece, stores, kernel);
  f.k = flat(k, piece, loads, kernel);
  Iterators common(batch.begin(), batch.end());
  common.insert(k.begin(), k.end());
  Iterators of_x = common, of_y = common;
  of_x.insert(m.begin(), m.end());
  of_y.insert(n.begin(), n.end());
  if (!take_conditions(f, piece, of_x, of_y)) return std::nullopt;
  f.x_along_k = along_k(f.k, f.m, x_loads, kernel);
  f.y_along_k = along_k(f.k, f.n, y_loads, kernel);
  return f;
}

bool copies_factor(bool first, const MatrixForm& form, const Piece& piece, const Contraction& c,
                   const Kernel& kernel, const Target& target) {
  const Node& node = piece.body[first ? form.x : form.y];
  if (node.kind != NodeKind::load || (first ? form.x_along_k : form.y_along_k)) return false;
  const Access& load = piece.loads[node.slot];
  bool plain = std::all_of(load.index.begin(), load.index.end(),
                           [](const Index& index) { return is_plain_index(index); });
  DType type = kernel.tensors[load.tensor].type;
  if (!plain || type != c.accumulator || byte_size(type) < 4) return false;
  if (!form.skips || !is_float(type) || !target.strict_skip) return true;
  // A condition of the other factor alone makes that zero, which no infinity may meet.
  const std::vector<size_t>& own = first ? form.x_conditions : form.y_conditions;
  const std::vector<size_t>& other = first ? form.y_conditions : form.x_conditions;
  return std::all_of(other.begin(), other.end(),
                     [&](size_t i) { return std::find(own.begin(), own.end(), i) != own.end(); });
}

bool scans_lines(const Piece& piece, const Contraction& c, const Kernel& kernel) {
  std::optional<ScanForm> form = scan_form(piece, c);
  if (!form || form->offset < 0 || c.outputs.size() != 1) return false;
  int64_t cells = piece.box[form->parallel_dim], values = piece.box[form->reduction];
  if (form->suffix && values > cells + form->offset) return false;
  for (const Access& load : piece.loads) {
    if (std::abs(stride_of(load, form->reduction, kernel)) == 1) return true;
  }
  return false;
}

std::optional<TransposeForm> transpose_form(const Piece& piece, const Kernel& kernel) {
  bool plain = piece.parallel_dims == piece.box.size() && piece.constraints.empty() &&
               piece.parallel_dims >= 2;
  if (!plain) return std::nullopt;
  FlatIndex parallel_dims = flat_parallel_dims(piece, kernel);
  TransposeForm f;
  f.written = parallel_dims.iterators.back();
  bool neighbours = std::all_of(piece.stores.begin(), piece.stores.end(), [&](const Access& store) {
    return std::abs(stride_of(store, f.written, kernel)) == 1;
  });
  if (!neighbours) return std::nullopt;
  auto reads = [&](size_t i) {
    int64_t all = 0;
    for (const KernelStage& stage : kernel.stages) {
      for (const Piece& p : stage.contraction.pieces) {
        all += std::count_if(p.loads.begin(), p.loads.end(),
                             [&](const Access& a) { return a.tensor == piece.loads[i].tensor; });
      }
    }
    return all;
  };
  for (size_t i = 0; i < piece.loads.size(); ++i) {
    const Access& load = piece.loads[i];
    bool affine = std::all_of(load.index.begin(), load.index.end(),
                              [](const Index& index) { return is_plain_index(index); });
    if (!affine || reads(i) != 1) continue;
    int64_t across = std::abs(stride_of(load, f.written, kernel));
    for (size_t u = 0; u < piece.parallel_dims; ++u) {
      bool along = u != f.written && std::abs(stride_of(load, u, kernel)) == 1;
      if (!along || across < 8 || piece.box[u] < 8 || piece.box[f.written] < 8) continue;
      f.load = i;
      f.read = u;
      std::vector<size_t> rest;
      for (size_t o : parallel_dims.iterators) {
        if (o != f.read && o != f.written) rest.push_back(o);
      }
      f.rest = flat(std::move(rest), piece, {&piece.stores[0]}, kernel);
      return f;
    }
  }
  return std::nullopt;
}

int64_t shared_bytes(const SimtGemm& g, DType type) {
  return g.stages * g.k * (g.m + g.n + 8) * static_cast<int64_t>(byte_size(type)) + 64;
}

}  // namespace tile::gpu
