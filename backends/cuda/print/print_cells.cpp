// The ends of tiles of products: two neighbouring cells of a row at once, so that elements that are
// neighbours in memory are read and written as one.
#include <algorithm>

#include "backends/cuda/matrix/matrix_parts.h"
#include "backends/cuda/print/printer.h"

namespace tile::cuda {
namespace {

constexpr const char* kPair = "pair";  // cells in columns 2 * pair and behind it
constexpr const char* kCell = "cell";  // which of the two

bool in_tile(const Expr& e, const MatrixParts& parts) {
  return uses_variable(e, kPair) || uses_variable(e, kCell) ||
         uses_variable(e, parts.rows->variable);
}

// What the stores of two cells do, over `pair`, `cell` and the tile's row.
class PairedCells {
 public:
  PairedCells(const nest::Nest& nest, const MatrixParts& parts, const Variables& variables,
              const Ranges& ranges)
      : nest_(nest), parts_(parts), variables_(variables), ranges_(ranges) {
    places_[parts.columns->variable] = Expr(2) * Expr::variable(kPair) + Expr::variable(kCell);
    for (const nest::For* value : parts.cell_values) {
      places_[value->variable] = substitute(value->begin, places_);
    }
  }

  // Under a condition that is the same of both cells. Nothing where they need more than their
  // places.
  std::optional<nest::Block> guarded() {
    if (!take_cells()) return std::nullopt;
    nest::If test;
    for (const Expr& e : ends()) {
      Expr first = simplify(substitute(e, {{kCell, Expr(0)}}), ranges_);
      Expr step = simplify(e - first, ranges_);
      bool same =
          step.is_constant(0) || (step == -Expr::variable(kCell) && multiple_of(first + 1, 2));
      if (!same) return std::nullopt;
      test.nonnegative.push_back(first);
    }
    if (test.nonnegative.empty()) return cells_;
    test.then = std::move(cells_);
    nest::Block block;
    block.push_back({std::move(test)});
    return block;
  }

  // Of cells whose result is only taken where they exist: what others load is moved to where
  // elements are.
  std::optional<nest::Block> clamped() {
    if (!take_cells() || cells_.size() != 1) return std::nullopt;
    for (nest::Access& load : std::get<nest::Store>(cells_[0].what).loads) {
      if (load.buffer == parts_.multiply->sum) continue;
      const Shape& shape = nest_.buffers[load.buffer].shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        if (!clamp(load.index[d], shape[d])) return std::nullopt;
      }
    }
    return std::move(cells_);
  }

 private:
  Expr placed(const Expr& e) const { return simplify(substitute(e, places_), ranges_); }

  bool take_cells() {
    cells_ = *parts_.cell;
    for (nest::Statement& s : cells_) {
      auto* store = std::get_if<nest::Store>(&s.what);
      if (store == nullptr) return false;
      for (const Node& n : store->body.nodes) {
        if (n.kind == NodeKind::size || n.kind == NodeKind::fold) return false;
      }
      for (Expr& index : store->target.index) index = placed(index);
      for (nest::Access& load : store->loads) {
        for (Expr& index : load.index) index = placed(index);
      }
    }
    return true;
  }

  std::vector<Expr> ends() const {
    std::vector<Expr> list;
    if (parts_.guard == nullptr) return list;
    for (const Expr& e : parts_.guard->nonnegative) list.push_back(placed(e));
    return list;
  }

  // What may lie outside is bounded by an end of the tile's cells. Both cells of a pair are inside,
  // or none.
  bool clamp(Expr& index, int64_t size) const {
    Interval all = interval(index, variables_);
    if (all.lo >= 0 && all.hi < size) return true;
    for (const Expr& end : ends()) {
      Expr last = simplify(index + end, ranges_);
      if (in_tile(last, parts_)) continue;
      bool both = uses_variable(index, kCell);
      if (both && !multiple_of(simplify(last + 1, ranges_), 2)) return false;
      Expr cell = both ? Expr::variable(kCell) : Expr(0);
      index = min(simplify(index - cell, ranges_), both ? last - 1 : last) + cell;
      return true;
    }
    return false;
  }

  const nest::Nest& nest_;
  const MatrixParts& parts_;
  const Variables& variables_;
  const Ranges& ranges_;
  std::map<std::string, Expr> places_;
  nest::Block cells_;
};

}  // namespace

// Statements with `row`, `pair` and the array `value` in scope; `boxed`: what is stored leaves as
// boxes, which end where the tensor does.
std::string Printer::pair_of_cells(const MatrixParts& parts, bool boxed) {
  int64_t columns = parts.columns->extent.value();
  variables_[kPair] = {kPair, {0, columns / 2 - 1}};
  variables_[kCell] = {kCell, {0, 1}};
  ranges_.set(kPair, 0, columns / 2 - 1);
  ranges_.set(kCell, 0, 1);
  PairedCells cells(nest_, parts, variables_, ranges_);
  std::optional<nest::Block> both = boxed ? cells.clamped() : std::nullopt;
  if (!both) both = cells.guarded();
  lane_ = kCell;
  std::string text = both ? captured([&] { pairs_of(std::move(*both)); }) : each_cell(parts);
  lane_.clear();
  return text;
}

// The stores are done for both cells together.
void Printer::pairs_of(nest::Block cells) {
  if (auto* test = std::get_if<nest::If>(&cells[0].what)) {
    open("if (" + conditions(*test) + ") {");
    pairs_of(std::move(test->then));
    return close();
  }
  nest::For both;
  both.variable = kCell;
  both.extent = 2;
  both.kind = nest::LoopKind::vector;
  both.body = std::move(cells);
  statement(both);
}

std::string Printer::each_cell(const MatrixParts& parts) {
  return "#pragma unroll\nfor (int cell = 0; cell < 2; ++cell) {\n"
         "const int column = 2 * pair + cell;\n" +
         guarded_cell(parts) + "}\n";
}

}  // namespace tile::cuda
