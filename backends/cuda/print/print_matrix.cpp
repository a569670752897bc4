// Prints nests of matrix tiles: what the leaves need to know is read off their copies and stores.
#include <algorithm>

#include "backends/cuda/matrix/matrix_parts.h"
#include "backends/cuda/matrix/matrix_source.h"
#include "backends/cuda/print/printer.h"
#include "core/support/checked.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

MatrixType matrix_type(DType type) {
  switch (type) {
    case DType::f16:
      return MatrixType::f16;
    case DType::bf16:
      return MatrixType::bf16;
    case DType::i8:
      return MatrixType::s8;
    case DType::u8:
      return MatrixType::u8;
    case DType::f64:
      return MatrixType::f64;
    case DType::f8e4m3:
      return MatrixType::e4m3;
    case DType::f8e5m2:
      return MatrixType::e5m2;
    default:
      return MatrixType::tf32;
  }
}

}  // namespace

bool Printer::is_matrix_kernel(const nest::For& grid) { return matrix_parts(grid).has_value(); }

std::string Printer::captured(const std::function<void()>& print) {
  std::string before = std::move(text_);
  text_.clear();
  print();
  std::swap(before, text_);
  return before;
}

// Declares the values that loops of one iteration name; their variables stay known.
std::string Printer::named_values(const std::vector<const nest::For*>& values) {
  return captured([&] {
    for (const nest::For* value : values) {
      VariableText v = loop_variable(*value, "i");
      line("const " + typed(v) + " = " + expression(value->begin).text + ";");
      variables_[value->variable] = v;
      ranges_.set(value->variable, value->begin, value->begin);
    }
  });
}

std::string Printer::parameter_values() {
  return captured([&] {
    for (size_t i = 0; i < nest_.parameters.size(); ++i) {
      const VariableText& v = variables_.at(nest_.parameters[i].name);
      if (v.range.narrow()) line("const int " + v.name + " = (int)q" + std::to_string(i) + ";");
    }
    workspace_pointers();
  });
}

void Printer::known(const nest::For& loop, const std::string& name) {
  Interval begin = interval(loop.begin, variables_);
  Interval end = interval(loop.begin + loop.extent - 1, variables_);
  variables_[loop.variable] = {name, {begin.lo, std::max(begin.lo, end.hi)}};
  ranges_.set(loop.variable, loop.begin, simplify(loop.begin + loop.extent - 1, ranges_));
}

std::string Printer::coordinate(const Expr& e) const {
  ExpressionText t = expression(simplify(e, ranges_));
  return t.wide ? "(int)" + t.text : t.text;
}

MatrixOperand Printer::matrix_operand(const nest::Copy& copy, bool k_major, int64_t depth,
                                      const char* name, CudaKernel& kernel) {
  const nest::Buffer& from = buffer(copy.from);
  internal_check(!written_.contains(copy.from), "cuda: a bulk copy of what the kernel writes");
  std::vector<size_t> order(copy.order.rbegin(), copy.order.rend());
  std::vector<size_t> dimensions = mapped(from, order);
  MatrixOperand operand;
  operand.map = name;
  operand.k_major = k_major;
  std::vector<int64_t> box = copy.extent;
  size_t inner = dimensions[0];
  std::vector<size_t> others;  // dimensions of rows beside the inner one
  if (!k_major) {
    // The order ends with k and then the rows: blocks of 64 of them are boxes of their own.
    int64_t rows = box[inner];
    for (size_t i = 1; rows < element_count(buffer(copy.to).shape) / depth; ++i) {
      others.push_back(dimensions[i]);
      rows *= box[dimensions[i]];
    }
    for (size_t d : others) box[d] = 1;
    box[inner] = 64;
  } else {
    // Rows behind the tensor's last cost a bulk copy more than others.
    size_t last = 0;
    for (size_t i = 1; i < dimensions.size(); ++i) last = box[dimensions[i]] > 1 ? i : last;
    size_t d = dimensions[last];
    bool whole = last > 0 && copy.origin[d].is_constant(0) && copy.stride[d] == 1;
    if (whole) box[d] = std::clamp<int64_t>(copy.limit[d], 1, box[d]);
  }
  kernel.maps.push_back(tensor_map(from, copy.from, dimensions, copy.limit, box, copy.stride));
  kernel.maps.back().tf32 = from.type == DType::f32;
  int64_t cells = 1;
  for (size_t d : dimensions) cells *= box[d];
  int64_t blocks = k_major ? 1 : element_count(buffer(copy.to).shape) / depth / 64;
  for (int64_t block = 0; block < blocks; ++block) {
    std::vector<Expr> at = copy.origin;
    int64_t chunks = copy.extent[inner] / 64, rest = k_major ? 0 : block / chunks;
    if (!k_major) at[inner] = at[inner] + Expr(block % chunks * 64);
    for (size_t d : others) {
      at[d] = at[d] + Expr(rest % copy.extent[d] * copy.stride[d]);
      rest /= copy.extent[d];
    }
    MatrixBox b;
    b.offset = block * depth * 128;
    for (size_t d : dimensions) b.coordinates.push_back(coordinate(at[d]));
    operand.boxes.push_back(std::move(b));
  }
  operand.bytes = blocks * cells * static_cast<int64_t>(byte_size(from.type));
  return operand;
}

// The second part of an operand is the same box at another place of the tensor.
void Printer::add_rest(MatrixOperand& operand, const nest::Copy& rest) {
  const nest::Buffer& from = buffer(rest.from);
  internal_check(operand.boxes.size() == 1, "cuda: parts of a factor in several boxes");
  MatrixBox box;
  box.offset = element_count(buffer(rest.to).shape) * static_cast<int64_t>(byte_size(from.type));
  std::vector<size_t> order(rest.order.rbegin(), rest.order.rend());
  for (size_t d : mapped(from, order)) box.coordinates.push_back(coordinate(rest.origin[d]));
  operand.boxes.push_back(std::move(box));
  operand.bytes *= 2;
}

// Of a block that finishes `columns` of a tile.
MatrixEpilogue Printer::matrix_epilogue(const MatrixParts& parts, int64_t columns,
                                        CudaKernel& kernel) {
  std::optional<BoxedResult> result = boxed_result(nest_, parts, columns);
  MatrixEpilogue e;
  e.value_type = std::string(memory_type(buffer(parts.multiply->sum).type));
  known(*parts.rows, "row");
  known(*parts.columns, "column");
  if (result) {
    const nest::Buffer& b = buffer(result->store->target.buffer);
    e.result_type = std::string(memory_type(b.type));
    e.result_bytes = static_cast<int64_t>(byte_size(b.type));
    e.map = "map_c";
    kernel.maps.push_back(result->map);
    for (const Expr& index : result->index) e.coordinates.push_back(coordinate(index));
    replaced_[result->store->target.buffer] = "result";
  }
  replaced_[parts.multiply->sum] = "value";
  e.cells = pair_of_cells(parts, result.has_value());
  replaced_.clear();
  return e;
}

void Printer::matrix_kernel(const nest::For& grid) {
  MatrixParts parts = *matrix_parts(grid);
  Variables variables = variables_;
  Ranges ranges = ranges_;
  in_thread_ = true;
  CudaKernel k;
  k.name = "tile_" + std::to_string(source_.kernels.size());
  const nest::Buffer& a = buffer(parts.multiply->a);
  int64_t depth = a.shape[parts.multiply->a_transposed ? 0 : 1];
  known(grid, "tile");
  // No bulk copy serves f64, which wgmma does not multiply.
  bool bulk = depth * static_cast<int64_t>(byte_size(a.type)) == 128 && a.type != DType::f64;
  bulk ? bulk_kernel(grid, parts, k) : mma_kernel(grid, parts, k);
  in_thread_ = false;
  variables_ = std::move(variables);
  ranges_ = std::move(ranges);
  source_.kernels.push_back(std::move(k));
}

void Printer::bulk_kernel(const nest::For& grid, const MatrixParts& parts, CudaKernel& k) {
  const nest::Buffer& a = buffer(parts.multiply->a);
  const nest::Buffer& sum = buffer(parts.multiply->sum);
  MatrixLeaf leaf;
  leaf.name = k.name;
  leaf.a_type = matrix_type(a.type);
  leaf.b_type = matrix_type(buffer(parts.multiply->b).type);
  leaf.tile_m = sum.shape[0];
  leaf.tile_n = sum.shape[1];
  leaf.depth = a.shape[parts.multiply->a_transposed ? 0 : 1];
  leaf.stages = parts.steps->pipeline;
  // Where blocks have several tiles, and two fit into registers, finishing one hides behind the
  // products of the next; smaller tiles change turns too often.
  leaf.cluster = parts.steps->cluster;
  leaf.split = parts.multiply->split;
  leaf.short_sums = is_f8(leaf.a_type);
  leaf.in_turn = !leaf.split && !leaf.short_sums && leaf.tile_m * leaf.tile_n == 128 * 128 &&
                 grid.extent.is_constant() && grid.extent.value() > target_.gpu.multiprocessors &&
                 leaf.cluster == 1 && parts.steps->extent.is_constant();
  leaf.consumers = leaf.tile_m == 64 && !leaf.in_turn ? 1 : 2;
  leaf.tile_variables = parameter_values() + named_values(parts.tile_values);
  leaf.tiles = expression(grid.extent).text;
  known(*parts.steps, "step");
  leaf.steps = expression(parts.steps->extent).text;
  leaf.step_variables = named_values(parts.step_values);
  leaf.a = matrix_operand(*parts.a, !parts.multiply->a_transposed, leaf.depth, "map_a", k);
  leaf.b = matrix_operand(*parts.b, parts.multiply->b_transposed, leaf.depth, "map_b", k);
  if (leaf.split) {
    add_rest(leaf.a, *parts.a_rest);
    add_rest(leaf.b, *parts.b_rest);
  }
  if (parts.part != nullptr) {
    leaf.whole = conditions(*parts.whole);
    leaf.part = conditions(*parts.part);
    nest::Access first{parts.kept->buffer, {parts.kept->index[0], Expr(0), Expr(0)}, {}};
    leaf.part_sums = names_[first.buffer] + " + (" + expression(offset(first)).text + ")";
  }
  leaf.epilogue = matrix_epilogue(parts, leaf.tile_n / leaf.cluster, k);
  leaf.parameters = parameters();
  for (const char* map : {"map_a", "map_b", "map_c"}) {
    bool used = map != std::string("map_c") || !leaf.epilogue.map.empty();
    if (used) leaf.parameters += std::string(", const __grid_constant__ TensorMap ") + map;
  }
  Expr blocks = leaf.cluster > 1 ? Expr(leaf.cluster) * grid.extent
                                 : min(grid.extent, Expr(target_.gpu.multiprocessors));
  k.grid = simplify(blocks, ranges_);
  k.block = static_cast<int>(matrix_threads(leaf));
  k.shared_bytes = static_cast<size_t>(matrix_shared_bytes(leaf));
  if (!matrix_prelude_) text_ = matrix_prelude() + text_;
  matrix_prelude_ = true;
  text_ += matrix_source(leaf);
}

// Where the 16 bytes from (line, at) of an operand's box begin, and how many elements exist.
ThreadCopy Printer::thread_copy(const nest::Copy& copy, bool k_major, int64_t depth) {
  const nest::Buffer& from = buffer(copy.from);
  ThreadCopy result;
  result.k_major = k_major;
  result.base = names_[copy.from];
  size_t inner = copy.order.back();
  size_t rank = from.shape.size();
  // The variables `line` and `at` as digits of the box's dimensions.
  std::vector<Expr> index = copy.origin;
  Expr line = Expr::variable("line"), at = Expr::variable("at");
  Variables outside = variables_;
  int64_t rows = element_count(buffer(copy.to).shape) / depth;
  variables_["line"] = {"line", {0, std::max(rows, depth)}};
  variables_["at"] = {"at", {0, std::max(rows, depth)}};
  Expr rest = k_major ? line : floor_div(at, Expr(copy.extent[inner]));
  index[inner] = index[inner] + (k_major ? at : floor_mod(at, Expr(copy.extent[inner])));
  int64_t left = k_major ? rows : rows / copy.extent[inner];
  bool rows_done = k_major;  // behind its rows, a transposed operand has dimensions of k
  for (size_t i = rank - 1; i-- > 0;) {
    size_t d = copy.order[i];
    if (copy.extent[d] == 1) continue;
    if (left == 1 && !rows_done) {
      rest = line;
      left = depth;
      rows_done = true;
    }
    Expr digit = left == copy.extent[d] ? rest : floor_mod(rest, Expr(copy.extent[d]));
    rest = floor_div(rest, Expr(copy.extent[d]));
    left /= copy.extent[d];
    index[d] = index[d] + Expr(copy.stride[d]) * digit;
  }
  std::string inside = "true";
  Expr offset = 0;
  const auto chunk = static_cast<int64_t>(16 / byte_size(from.type));
  int64_t common = chunk;
  for (size_t d = 0; d < rank; ++d) {
    offset = offset + Expr(from.strides[d]) * index[d];
    bool divides = multiple_of(simplify(Expr(from.strides[d]) * copy.origin[d], ranges_), chunk);
    for (int64_t g = chunk; g > 0 && !divides; g /= 2) {
      if (!multiple_of(simplify(Expr(from.strides[d]) * copy.origin[d], ranges_), g)) continue;
      common = std::min(common, g);
      break;
    }
    int64_t step = from.strides[d] * copy.stride[d];
    bool moves = d != inner && copy.extent[d] > 1 && step != 0;  // not where elements are shared
    if (moves) common = std::min<int64_t>(common, step & -step);
    std::string text = expression(index[d]).text;
    inside += " && " + text + " >= 0";
    if (d != inner) inside += " && " + text + " < " + std::to_string(copy.limit[d]);
  }
  result.alignment = common * static_cast<int64_t>(byte_size(from.type));
  std::string type(memory_type(from.type));
  result.place = "const " + type + "* const from = " + result.base + " + " +
                 expression(offset).text + ";\nconst bool inside = " + inside +
                 ";\nconst int left = (int)(" + std::to_string(copy.limit[inner]) + " - " +
                 expression(index[inner]).text + ");\n";
  variables_ = std::move(outside);
  return result;
}

std::string Printer::direct_cell(const MatrixParts& parts) {
  known(*parts.rows, "row");
  known(*parts.columns, "column");
  replaced_[parts.multiply->sum] = "value";
  std::string cell = guarded_cell(parts);
  replaced_.clear();
  return cell;
}

std::string Printer::guarded_cell(const MatrixParts& parts) {
  std::string values = named_values(parts.cell_values);  // whose names the cell uses
  return values +
         captured([&] { parts.guard != nullptr ? statement(*parts.guard) : block(*parts.cell); });
}

void Printer::mma_kernel(const nest::For& grid, const MatrixParts& parts, CudaKernel& k) {
  const nest::Buffer& a = buffer(parts.multiply->a);
  const nest::Buffer& sum = buffer(parts.multiply->sum);
  MmaLeaf leaf;
  leaf.name = k.name;
  leaf.a_type = matrix_type(a.type);
  leaf.b_type = matrix_type(buffer(parts.multiply->b).type);
  leaf.value_type = std::string(memory_type(sum.type));
  leaf.split = parts.multiply->split;
  leaf.tile_m = sum.shape[0];
  leaf.tile_n = sum.shape[1];
  leaf.depth = a.shape[parts.multiply->a_transposed ? 0 : 1];
  leaf.stages = parts.steps->pipeline;
  leaf.tile_variables = parameter_values() + named_values(parts.tile_values);
  known(*parts.steps, "step");
  leaf.steps = expression(parts.steps->extent).text;
  leaf.step_variables = named_values(parts.step_values);
  leaf.a = thread_copy(*parts.a, !parts.multiply->a_transposed, leaf.depth);
  leaf.b = thread_copy(*parts.b, parts.multiply->b_transposed, leaf.depth);
  leaf.cell = direct_cell(parts);
  leaf.parameters = parameters();
  k.grid = simplify(grid.extent, ranges_);
  k.block = static_cast<int>(mma_threads(leaf));
  k.shared_bytes = static_cast<size_t>(mma_shared_bytes(leaf));
  if (!mma_prelude_) text_ = mma_prelude() + text_;
  mma_prelude_ = true;
  text_ += mma_source(leaf);
}

}  // namespace tile::cuda
