#include "core/ir/ranks/reduce_part.h"

#include <array>
#include <cstring>

#include "core/ir/ranks/combine_row.h"
#include "core/ir/scalar.h"

namespace tile {
namespace {

// Calls visit(row, cells) with the position in the tensor of each run of neighbouring cells of the
// box, in row-major order.
template <class Visit>
void for_each_row(const Shape& shape, const Box& box, const Visit& visit) {
  if (box.empty()) return;
  size_t dims = box.dims();
  size_t cells = dims == 0 ? 1 : static_cast<size_t>(box.hi[dims - 1] - box.lo[dims - 1]);
  std::vector<int64_t> at = box.lo;
  while (true) {
    int64_t position = 0;
    for (size_t d = 0; d < dims; ++d) position = position * shape[d] + at[d];
    visit(static_cast<size_t>(position), cells);
    size_t d = dims < 2 ? 0 : dims - 1;
    while (d > 0 && ++at[d - 1] == box.hi[d - 1]) {
      at[d - 1] = box.lo[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

}  // namespace

void copy_out(const std::byte* elements, const Shape& shape, const Box& box, size_t width,
              std::byte* part) {
  for_each_row(shape, box, [&](size_t row, size_t cells) {
    std::memcpy(part, elements + row * width, cells * width);
    part += cells * width;
  });
}

void copy_in(const std::byte* part, const Shape& shape, const Box& box, size_t width,
             std::byte* elements) {
  for_each_row(shape, box, [&](size_t row, size_t cells) {
    std::memcpy(elements + row * width, part, cells * width);
    part += cells * width;
  });
}

Op operation_of(Aggregation aggregation) {
  switch (aggregation) {
    case Aggregation::product:
      return Op::mul;
    case Aggregation::max:
      return Op::max;
    case Aggregation::min:
      return Op::min;
    default:
      return Op::add;
  }
}

PartReducer::PartReducer(const Exchange& exchange, const BoundTensor& result)
    : exchange_(exchange), result_(result) {
  if (exchange.reduction) set_.resize(static_cast<size_t>(element_count(result.shape)));
}

void PartReducer::combine(const std::byte* part, size_t cells, std::byte* row) const {
  Op op = operation_of(*exchange_.reduction);
  if (combine_row(op, result_.type, part, cells, row)) return;
  DType type = compute_type(result_.type);
  size_t width = byte_size(result_.type);
  for (size_t i = 0; i < cells; ++i, part += width, row += width) {
    std::array<Scalar, 2> pair{convert(load_element(row, result_.type), type),
                               convert(load_element(part, result_.type), type)};
    store_element(row, convert(evaluate(op, type, pair), result_.type));
  }
}

void PartReducer::receive(const Box& box, const std::byte* part, std::byte* elements) {
  size_t width = byte_size(result_.type);
  if (!exchange_.reduction) return copy_in(part, result_.shape, box, width, elements);
  for_each_row(result_.shape, box, [&](size_t row, size_t cells) {
    for (size_t cell = row, end = row + cells; cell < end;) {
      // Runs of cells of which all have a value, or none.
      uint8_t* first = &set_[cell];
      bool has = *first != 0;
      const void* other = std::memchr(first, has ? 0 : 1, end - cell);
      size_t run = other == nullptr
                       ? end - cell
                       : static_cast<size_t>(static_cast<const uint8_t*>(other) - first);
      std::byte* at = elements + cell * width;
      if (has) {
        combine(part, run, at);
      } else {
        std::memcpy(at, part, run * width);
        std::memset(first, 1, run);
      }
      cell += run;
      part += run * width;
    }
  });
}

}  // namespace tile
