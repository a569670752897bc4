// Whether a result of a tile can leave the block as boxes: read off its store.
#include <algorithm>
#include <map>
#include <optional>

#include "backends/cuda/matrix/matrix_parts.h"
#include "core/support/checked.h"

namespace tile::cuda {
namespace {

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

  std::optional<BoxedResult> run() const {
    if (boxed_ == nullptr) return std::nullopt;
    BoxedResult r;
    r.store = boxed_;
    std::vector<int64_t> ones(limit_.size(), 1);
    r.map = tensor_map(target(), boxed_->target.buffer, dimensions_, limit_, box_, ones);
    for (size_t d : dimensions_) r.index.push_back(index(d));
    return r;
  }

 private:
  // The index of a dimension over the tile's variables, `row` and `column`.
  Expr index(size_t d) const { return substitute(boxed_->target.index[d], cells_); }
  const nest::Buffer& target() const { return nest_.buffers[boxed_->target.buffer]; }

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
                b.type == DType::i32 || b.type == DType::u32 || b.type == DType::i8 ||
                b.type == DType::u8;
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
    std::optional<size_t> inner;
    for (size_t d = 0; d < rank; ++d) {
      if (distance(d, 0, 1) != 0) {
        if (inner || b.strides[d] != 1) return false;
        inner = d;
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
    if (!inner) return false;
    std::sort(rows.begin(), rows.end());
    std::vector<size_t> order{*inner};
    for (auto [first, d] : rows) order.push_back(d);
    for (size_t d = 0; d < rank; ++d) {
      if (std::find(order.begin(), order.end(), d) == order.end()) order.push_back(d);
    }
    dimensions_ = mapped(b, order);
    return dimensions_.size() <= 5 && is_box(order, *inner, rows.size());
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

}  // namespace

std::optional<BoxedResult> boxed_result(const nest::Nest& nest, const MatrixParts& parts,
                                        int64_t columns) {
  return MatrixResult(nest, parts, columns).run();
}

}  // namespace tile::cuda
