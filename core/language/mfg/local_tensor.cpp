// Local tensors: arrays that belong to one pixel, kept as one value for each cell. Reading or
// changing a cell at a computed index selects among all cells.
#include <algorithm>

#include "core/language/mfg/elaborate.h"

namespace tile::mfg {

std::vector<int64_t> Elaborator::constant_bounds(const DefinitionSyntax& d) {
  std::vector<int64_t> extents;
  for (SyntaxId id : *d.bounds) {
    Value v = expression(id);
    std::optional<Scalar> size;
    if (!v.type.tuple && is_integer(v.type.parts[0])) size = frames_.constant(v.parts[0]);
    if (!size || size->i < 1) {
      fail(Stage::parse, "bounds", at(id).span,
           "expected a positive constant as a size of the local tensor '" +
               std::string(d.name.text) + "'");
    }
    extents.push_back(size->i);
  }
  return extents;
}

void Elaborator::check_cells(size_t cells, Span span) const {
  if (cells <= kMaxLocalCells) return;
  fail(Stage::parse, "limit", span,
       "a local tensor has at most " + std::to_string(kMaxLocalCells) +
           " numbers, components counted",
       "use a smaller table, or a tensor outside with @bounds");
}

void Elaborator::define_local(const DefinitionSyntax& d) {
  if (d.reduce >= 0) {
    define_local_reduce(d);
    return;
  }
  if (!d.literal.empty()) {
    define_local_literal(d);
    return;
  }
  if (!d.bounds) {
    fail(Stage::parse, "bounds", d.name.span,
         "expected @bounds before the definition of '" + std::string(d.name.text) + "'");
  }
  auto local = std::make_shared<LocalTensor>();
  local->name = d.name.text;
  local->extents = constant_bounds(d);
  local->depth = frames_.depth();
  size_t cells = 1;
  for (int64_t extent : local->extents) {
    cells = std::min<size_t>(kMaxLocalCells + 1, cells * static_cast<size_t>(std::min<int64_t>(
                                                             extent, kMaxLocalCells + 1)));
  }
  check_cells(cells, d.bounds_span);
  if (local->extents.size() > 2 || block_at(d.block).parameters.size() != local->extents.size()) {
    fail(Stage::parse, "arity", d.bounds_span,
         "expected " + std::to_string(block_at(d.block).parameters.size()) +
             " sizes (1 or 2) in @bounds for the block of '" + local->name + "', found " +
             std::to_string(local->extents.size()));
  }
  std::vector<std::optional<Ref>> keys(2);
  for (size_t cell = 0; cell < cells; ++cell) {
    auto at_cell = static_cast<int64_t>(cell);
    std::vector<Value> index = {scalar_value(arithmetic_.integer(at_cell % local->extents[0]))};
    if (local->extents.size() == 2) {
      index.push_back(scalar_value(arithmetic_.integer(at_cell / local->extents[0])));
    }
    counters_.push_back(frames_.integer(at_cell));
    Value v = run_block(d.block, block_arguments(d.block, index, "@bounds"));
    counters_.pop_back();
    local->element = v.type;
    local->cells.insert(local->cells.end(), v.parts.begin(), v.parts.end());
    check_cells(cells * v.parts.size(), d.bounds_span);
  }
  TensorUse use;
  use.local = std::move(local);
  bind(d.name, std::move(use));
}

// One value for each position of the dimension that is left; a value where none is.
void Elaborator::define_local_reduce(const DefinitionSyntax& d) {
  Reduction r = reduction(at(d.reduce));
  if (r.tensor.rank() == 1) {
    bind(d.name, reduce_along(r, std::nullopt));
    return;
  }
  if (!r.tensor.local) {
    fail(Stage::parse, "type", at(d.reduce).span,
         "expected a local tensor, but '" + r.tensor.name() + "' stands outside the block",
         "define its reduction outside too");
  }
  auto local = std::make_shared<LocalTensor>();
  local->name = d.name.text;
  local->extents = {r.tensor.local->extents[r.dimension == 0 ? 1 : 0]};
  local->element = r.init->type;
  local->depth = frames_.depth();
  for (int64_t i = 0; i < local->extents[0]; ++i) {
    Value v = reduce_along(r, frames_.integer(i));
    local->cells.insert(local->cells.end(), v.parts.begin(), v.parts.end());
    check_cells(local->cells.size(), d.name.span);
  }
  TensorUse use;
  use.local = std::move(local);
  bind(d.name, std::move(use));
}

void Elaborator::define_local_literal(const DefinitionSyntax& d) {
  auto local = std::make_shared<LocalTensor>();
  local->name = d.name.text;
  local->depth = frames_.depth();
  auto count = static_cast<int64_t>(d.literal.size());
  local->extents = {count};
  if (d.rows > 0) local->extents = {count / d.rows, d.rows};
  local->element = scalar_type(at(d.literal[0]).type);
  check_cells(d.literal.size(), d.name.span);
  for (SyntaxId id : d.literal) {
    if (at(id).type != local->element.parts[0]) {
      fail(Stage::parse, "type", at(id).span,
           "expected a tensor literal of one type, found i32, u32 or f32 mixed");
    }
    local->cells.push_back(expression(id).parts[0]);
  }
  TensorUse use;
  use.local = std::move(local);
  bind(d.name, std::move(use));
}

// y * width + x with both forced into range.
Ref Elaborator::cell_number(const LocalTensor& tensor, const std::vector<Ref>& index) {
  std::vector<Part> clamped;
  for (size_t d = 0; d < index.size(); ++d) {
    clamped.push_back(arithmetic_.clamp({index[d], DType::i32}, arithmetic_.integer(0),
                                        arithmetic_.integer(tensor.extents[d] - 1)));
  }
  if (clamped.size() == 1) return clamped[0].ref;
  Part row =
      arithmetic_.promoted_operation(Op::mul, clamped[1], arithmetic_.integer(tensor.extents[0]));
  return arithmetic_.promoted_operation(Op::add, row, clamped[0]).ref;
}

Value Elaborator::read_local(const LocalTensor& tensor, const std::vector<Ref>& index) {
  Ref cell = cell_number(tensor, index);
  size_t parts = tensor.element.size(), count = tensor.cells.size() / parts;
  Value value{tensor.element, {}};
  auto begin = tensor.cells.begin();
  if (std::optional<Scalar> known = frames_.constant(cell)) {
    auto first = begin + static_cast<ptrdiff_t>(static_cast<size_t>(known->i) * parts);
    value.parts.assign(first, first + static_cast<ptrdiff_t>(parts));
    return value;
  }
  value.parts.assign(begin, begin + static_cast<ptrdiff_t>(parts));
  for (size_t c = 1; c < count; ++c) {
    Ref here =
        frames_.operation(Op::eq, {cell, frames_.integer(static_cast<int64_t>(c))}, DType::bool_);
    for (size_t p = 0; p < parts; ++p) {
      value.parts[p] = frames_.select(here, tensor.cells[c * parts + p], value.parts[p]);
    }
  }
  return value;
}

// mut! T(i, j) += value
void Elaborator::mutate(const StatementSyntax& s) {
  const Syntax& target = at(s.target);
  TensorUse use = tensor_named(target.text, target.span);
  if (!use.local || use.address != AddressMode::none) {
    fail(Stage::parse, "type", target.span,
         "expected a local tensor after mut!, but '" + std::string(target.text) + "' is none",
         "local tensors are defined inside a tensor's block");
  }
  LocalTensor& local = *use.local;
  if (local.depth != frames_.depth()) {
    fail(Stage::parse, "type", s.span,
         "mut! changes '" + local.name + "' inside a loop that is not a for_each",
         "the values of rsum and reduce have no side effects");
  }
  std::vector<Ref> index = integer_indices(index_values(use, target), target);
  Value amount = expression(s.value);
  Value old = read_local(local, index);
  Value sum = arithmetic_.map(
      old, amount, [&](Part a, Part b) { return arithmetic_.binary("+", a, b, s.span); }, s.span);
  if (sum.type != local.element) {
    fail(Stage::parse, "type", s.span,
         "expected a sum of the element type " + to_string(local.element) + ", found " +
             to_string(sum.type));
  }
  Ref cell = cell_number(local, index);
  size_t parts = local.element.size();
  for (size_t c = 0; c * parts < local.cells.size(); ++c) {
    Ref here =
        frames_.operation(Op::eq, {cell, frames_.integer(static_cast<int64_t>(c))}, DType::bool_);
    for (size_t p = 0; p < parts; ++p) {
      Ref& slot = local.cells[c * parts + p];
      slot = frames_.select(here, sum.parts[p], slot);
    }
  }
}

}  // namespace tile::mfg
