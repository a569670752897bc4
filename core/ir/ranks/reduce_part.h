// What an exchange does to elements: boxes copied out of tensors and into them, and values that
// come several times combined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ir/operation.h"
#include "core/ir/ranks/rank_program.h"

namespace tile {

// Of a dense row-major tensor with `elements` of `width` bytes; `part` has one element for each
// cell of the box, in row-major order.
void copy_out(const std::byte* elements, const Shape& shape, const Box& box, size_t width,
              std::byte* part);
void copy_in(const std::byte* part, const Shape& shape, const Box& box, size_t width,
             std::byte* elements);

// What an aggregation makes of two values.
Op operation_of(Aggregation aggregation);

// Puts the parts that one rank receives into the exchange's result, in the order of `receives`.
class PartReducer {
 public:
  // The exchange and the result's declaration must outlive this. Throws Overflow.
  PartReducer(const Exchange& exchange, const BoundTensor& result);
  void receive(const Box& box, const std::byte* part, std::byte* elements);

 private:
  void combine(const std::byte* part, size_t cells, std::byte* row) const;
  const Exchange& exchange_;
  const BoundTensor& result_;
  std::vector<uint8_t> set_;  // cells that have a value, where a reduction needs to know: 1
};

}  // namespace tile
