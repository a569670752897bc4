// Nests of matrix tiles: what the leaf needs to know is read off their copies and stores.
#include <algorithm>
#include <set>

#include "backends/cuda/matrix_source.h"
#include "backends/cuda/printer.h"
#include "core/support/checked.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {

using nest::LoopKind;

// The statements of a grid loop that multiplies matrices.
struct MatrixParts {
  std::vector<const nest::For*> tile_values;  // loops of one iteration that name values
  const nest::For* steps = nullptr;
  std::vector<const nest::For*> step_values;
  const nest::Copy* a = nullptr;
  const nest::Copy* b = nullptr;
  const nest::Copy* a_rest = nullptr;
  const nest::Copy* b_rest = nullptr;
  const nest::MatrixTile* multiply = nullptr;
  std::vector<const nest::For*> cell_values;
  const nest::For* rows = nullptr;
  const nest::For* columns = nullptr;
  const nest::If* guard = nullptr;
  const nest::Block* cell = nullptr;  // what is done under the guard
};

namespace {

const nest::For* only_loop(const nest::Block& block) {
  return block.size() == 1 ? std::get_if<nest::For>(&block[0].what) : nullptr;
}

// Enters loops of one iteration.
const nest::Block& values_before(const nest::Block& block, std::vector<const nest::For*>& values) {
  const nest::Block* inside = &block;
  for (const nest::For* f = only_loop(*inside);
       f != nullptr && f->kind == LoopKind::serial && f->extent.is_constant(1);
       f = only_loop(*inside)) {
    values.push_back(f);
    inside = &f->body;
  }
  return *inside;
}

void take_steps(const nest::For& steps, MatrixParts& parts) {
  parts.steps = &steps;
  std::vector<const nest::Copy*> copies;
  for (const nest::Statement& s : values_before(steps.body, parts.step_values)) {
    if (const auto* copy = std::get_if<nest::Copy>(&s.what)) copies.push_back(copy);
    if (const auto* m = std::get_if<nest::MatrixTile>(&s.what)) parts.multiply = m;
  }
  for (const nest::Copy* copy : copies) {
    if (parts.multiply != nullptr && copy->to == parts.multiply->a) parts.a = copy;
    if (parts.multiply != nullptr && copy->to == parts.multiply->b) parts.b = copy;
    if (parts.multiply != nullptr && copy->to == parts.multiply->a_rest) parts.a_rest = copy;
    if (parts.multiply != nullptr && copy->to == parts.multiply->b_rest) parts.b_rest = copy;
  }
}

void take_cells(const nest::For& rows, MatrixParts& parts) {
  const nest::For* columns = only_loop(rows.body);
  if (columns == nullptr || columns->kind != LoopKind::thread) return;
  parts.rows = &rows;
  parts.columns = columns;
  parts.cell_values.clear();
  parts.cell = &values_before(columns->body, parts.cell_values);
  parts.guard = nullptr;
  if (parts.cell->size() != 1) return;
  const auto* guard = std::get_if<nest::If>(&parts.cell->front().what);
  if (guard == nullptr || !guard->otherwise.empty() || !guard->predicate.results.empty()) return;
  parts.guard = guard;
  parts.cell = &guard->then;
}

std::optional<MatrixParts> matrix_parts(const nest::For& grid) {
  MatrixParts parts;
  for (const nest::Statement& s : values_before(grid.body, parts.tile_values)) {
    const auto* loop = std::get_if<nest::For>(&s.what);
    if (loop == nullptr) continue;
    if (loop->pipeline > 0) take_steps(*loop, parts);
    if (loop->kind == LoopKind::thread) take_cells(*loop, parts);  // the last finishes the tile
  }
  bool whole =
      parts.steps != nullptr && parts.a != nullptr && parts.b != nullptr && parts.rows != nullptr;
  return whole ? std::optional(parts) : std::nullopt;
}

MatrixType matrix_type(DType type) {
  return type == DType::f16    ? MatrixType::f16
         : type == DType::bf16 ? MatrixType::bf16
                               : MatrixType::tf32;
}

// The dimensions of a buffer that a tensor map has.
std::vector<size_t> mapped(const nest::Buffer& b, const std::vector<size_t>& order) {
  std::vector<size_t> result;
  std::copy_if(order.begin(), order.end(), std::back_inserter(result),
               [&](size_t d) { return b.shape[d] > 1; });
  return result;
}

TensorMap tensor_map(const nest::Buffer& b, int argument, const std::vector<size_t>& dimensions,
                     const std::vector<int64_t>& limit, const std::vector<int64_t>& box,
                     const std::vector<int64_t>& stride) {
  TensorMap map;
  map.argument = argument;
  map.type = b.type;
  map.swizzle_bytes = 128;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    size_t d = dimensions[i];
    map.sizes.push_back(static_cast<uint64_t>(limit[d]));
    if (i > 0) {
      map.strides_bytes.push_back(static_cast<uint64_t>(b.strides[d]) * byte_size(b.type));
    }
    map.box.push_back(static_cast<uint32_t>((box[d] - 1) * stride[d] + 1));
    map.element_strides.push_back(static_cast<uint32_t>(stride[d]));
  }
  // Rows that begin inside a line of the cache share it with their neighbours.
  bool lines = std::all_of(map.strides_bytes.begin(), map.strides_bytes.end(),
                           [](uint64_t bytes) { return bytes % 128 == 0; });
  map.l2_promotion = lines ? 256 : 128;
  return map;
}

}  // namespace

// What one cell's stores do, and whether one of them can leave the block as boxes.
class MatrixResult {
 public:
  MatrixResult(const nest::Nest& nest, const MatrixParts& parts, int64_t columns)
      : nest_(nest), parts_(parts), own_columns_(columns) {
    for (const nest::Statement& s : *parts.cell) {
      const auto* store = std::get_if<nest::Store>(&s.what);
      if (store == nullptr) return;
      stores_.push_back(store);
    }
    if (!stores_.empty() && find_box(*stores_.back())) boxed_ = stores_.back();
  }

  const nest::Store* boxed() const { return boxed_; }
  // Only the fragment is read and only the boxed result is made: cells outside do no harm.
  bool pure() const {
    return boxed_ != nullptr && stores_.size() == 1 &&
           std::all_of(boxed_->loads.begin(), boxed_->loads.end(),
                       [&](const nest::Access& a) { return a.buffer == parts_.multiply->sum; });
  }
  std::vector<size_t> dimensions() const { return dimensions_; }
  TensorMap map() const {
    std::vector<int64_t> ones(limit_.size(), 1);
    return tensor_map(target(), boxed_->target.buffer, dimensions_, limit_, box_, ones);
  }
  // The index of a dimension over the tile's variables, `row` and `column`.
  Expr index(size_t d) const { return substitute(boxed_->target.index[d], cells_); }

 private:
  const nest::Buffer& target() const {
    return nest_.buffers[static_cast<size_t>(boxed_->target.buffer)];
  }

  bool find_box(const nest::Store& store) {
    boxed_ = &store;
    bool found = suits() && name_cells() && find_limits() && find_shape();
    boxed_ = nullptr;
    return found;
  }

  bool suits() const {
    const nest::Buffer& b = target();
    size_t size = byte_size(b.type);
    bool type = b.type == DType::f16 || b.type == DType::bf16 || b.type == DType::f32 ||
                b.type == DType::i32 || b.type == DType::u32;
    bool plain =
        type && boxed_->kind == nest::StoreKind::assign && b.scope == nest::Scope::argument;
    if (!plain) return false;
    for (size_t d = 0; d < b.shape.size(); ++d) {
      if (d < boxed_->target.values.size() && boxed_->target.values[d] >= 0) return false;
      if (!linear_form(boxed_->target.index[d])) return false;
      bool inner = b.strides[d] == 1 || b.shape[d] == 1;
      if (!inner && b.strides[d] * static_cast<int64_t>(size) % 16 != 0) return false;
    }
    return true;
  }

  bool name_cells() {
    for (const nest::For* value : parts_.cell_values) {
      Expr begin = substitute(value->begin, cells_);
      std::vector<std::string> used;
      collect_variables(begin, used);
      for (const std::string& name : used) {
        if (name != parts_.rows->variable && name != parts_.columns->variable) return false;
      }
      cells_[value->variable] = begin;
    }
    return true;
  }

  // A guard must be the end of one dimension: there boxes end too.
  bool find_limits() {
    limit_ = target().shape;
    if (parts_.guard == nullptr) return true;
    for (const Expr& e : parts_.guard->nonnegative) {
      bool known = false;
      for (size_t d = 0; d < limit_.size() && !known; ++d) {
        std::optional<LinearForm> sum = linear_form(e + boxed_->target.index[d]);
        if (!sum || !sum->terms.empty()) continue;
        known = true;
        limit_[d] = std::min(limit_[d], sum->constant + 1);
      }
      if (!known) return false;
    }
    return true;
  }

  // How far dimension d is from the tile's first cell.
  int64_t distance(size_t d, int64_t row, int64_t column) const {
    auto at = [&](int64_t r, int64_t c) {
      return *evaluate(index(d), [&](std::string_view name) -> std::optional<int64_t> {
        return name == parts_.rows->variable ? r : name == parts_.columns->variable ? c : 0;
      });
    };
    return at(row, column) - at(0, 0);
  }

  // 64 rows and 128 bytes of columns must be a box of the result.
  bool find_shape() {
    const nest::Buffer& b = target();
    size_t rank = b.shape.size();
    columns_ = 128 / static_cast<int64_t>(byte_size(b.type));
    if (own_columns_ % columns_ != 0) return false;
    box_.assign(rank, 1);
    std::vector<std::pair<int64_t, size_t>> rows;  // by the first row that moves the dimension
    int inner = -1;
    for (size_t d = 0; d < rank; ++d) {
      if (distance(d, 0, 1) != 0) {
        if (inner >= 0 || b.strides[d] != 1) return false;
        inner = static_cast<int>(d);
        box_[d] = columns_;
        continue;
      }
      int64_t first = 0;
      for (int64_t r = 1; r < 64; ++r) {
        int64_t at = distance(d, r, 0);
        if (at != 0 && first == 0) first = r;
        box_[d] = std::max(box_[d], at + 1);
      }
      if (first > 0) rows.emplace_back(first, d);
    }
    if (inner < 0) return false;
    std::sort(rows.begin(), rows.end());
    std::vector<size_t> order{static_cast<size_t>(inner)};
    for (auto [first, d] : rows) order.push_back(d);
    for (size_t d = 0; d < rank; ++d) {
      if (std::find(order.begin(), order.end(), d) == order.end()) order.push_back(d);
    }
    dimensions_ = mapped(b, order);
    return dimensions_.size() <= 5 && is_box(order, static_cast<size_t>(inner), rows.size());
  }

  bool is_box(const std::vector<size_t>& order, size_t inner, size_t rows) const {
    int64_t product = 1;
    for (size_t i = 1; i <= rows; ++i) product *= box_[order[i]];
    if (product != 64) return false;
    int64_t all_rows = parts_.rows->extent.value(), all_columns = parts_.columns->extent.value();
    for (int64_t r = 0; r < all_rows; ++r) {
      int64_t first = r / 64 * 64, rest = r % 64;
      if (distance(inner, r, 0) != 0) return false;
      for (size_t i = 1; i < order.size(); ++i) {
        int64_t digit = rest % box_[order[i]];
        rest /= box_[order[i]];
        if (distance(order[i], r, 0) != distance(order[i], first, 0) + digit) return false;
      }
    }
    for (int64_t c = 0; c < all_columns; ++c) {
      for (size_t d : order) {
        int64_t before = distance(d, 0, c / columns_ * columns_);
        if (distance(d, 0, c) != before + (d == inner ? c % columns_ : 0)) return false;
      }
    }
    return true;
  }

  const nest::Nest& nest_;
  const MatrixParts& parts_;
  int64_t own_columns_;
  std::vector<const nest::Store*> stores_;
  const nest::Store* boxed_ = nullptr;
  std::map<std::string, Expr> cells_;
  std::vector<int64_t> limit_, box_;
  std::vector<size_t> dimensions_;
  int64_t columns_ = 0;
};

bool Printer::is_matrix_kernel(const nest::For& grid) { return matrix_parts(grid).has_value(); }

template <class Print>
std::string Printer::captured(const Print& print) {
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
  MatrixResult result(nest_, parts, columns);
  MatrixEpilogue e;
  known(*parts.rows, "row");
  known(*parts.columns, "column");
  if (result.boxed() != nullptr) {
    const nest::Buffer& b = buffer(result.boxed()->target.buffer);
    e.result_type = std::string(memory_type(b.type));
    e.result_bytes = static_cast<int64_t>(byte_size(b.type));
    e.map = "map_c";
    kernel.maps.push_back(result.map());
    for (size_t d : result.dimensions()) e.coordinates.push_back(coordinate(result.index(d)));
    replaced_[result.boxed()->target.buffer] = "result";
  }
  replaced_[parts.multiply->sum] = "value";
  std::string values = named_values(parts.cell_values);
  e.cell = values + captured([&] {
             if (parts.guard != nullptr && !result.pure()) {
               statement(*parts.guard);
             } else {
               block(*parts.cell);
             }
           });
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
  bool bulk = depth * static_cast<int64_t>(byte_size(a.type)) == 128;
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
  leaf.type = matrix_type(a.type);
  leaf.tile_m = sum.shape[0];
  leaf.tile_n = sum.shape[1];
  leaf.depth = a.shape[parts.multiply->a_transposed ? 0 : 1];
  leaf.stages = parts.steps->pipeline;
  // Where blocks have several tiles, and two fit into registers, finishing one hides behind the
  // products of the next; smaller tiles change turns too often.
  leaf.cluster = parts.steps->cluster;
  leaf.split = parts.multiply->split;
  leaf.in_turn = !leaf.split && leaf.tile_m * leaf.tile_n == 128 * 128 &&
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
  result.base = names_[static_cast<size_t>(copy.from)];
  auto inner = static_cast<size_t>(copy.order.back());
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
  for (size_t i = rank - 1; i-- > 0;) {
    auto d = static_cast<size_t>(copy.order[i]);
    if (copy.extent[d] == 1) continue;
    Expr digit = line;  // k of a transposed operand
    if (left > 1) {
      digit = left == copy.extent[d] ? rest : floor_mod(rest, Expr(copy.extent[d]));
      rest = floor_div(rest, Expr(copy.extent[d]));
      left /= copy.extent[d];
    }
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
    if (d != inner && copy.extent[d] > 1) common = std::min<int64_t>(common, step & -step);
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
  std::string values = named_values(parts.cell_values);
  std::string cell = values + captured([&] {
                       if (parts.guard != nullptr) return statement(*parts.guard);
                       block(*parts.cell);
                     });
  replaced_.clear();
  return cell;
}

void Printer::mma_kernel(const nest::For& grid, const MatrixParts& parts, CudaKernel& k) {
  const nest::Buffer& a = buffer(parts.multiply->a);
  const nest::Buffer& sum = buffer(parts.multiply->sum);
  MmaLeaf leaf;
  leaf.name = k.name;
  leaf.type = matrix_type(a.type);
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
