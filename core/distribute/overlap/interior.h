// What a contraction can compute of its result while some of what it reads is still on its way.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/distribute/needs.h"

namespace tile {

// Cells of a tensor that are there already, in another one.
struct Arrived {
  Box box;  // of the tensor
  TensorId from;
  std::vector<int64_t> at;  // where the box's first cell is there
  std::vector<Box> holes;   // in the box: cells that are not there
};
using ArrivedCells = std::map<TensorId, Arrived>;

// Of one contraction; what it is made of must outlive it.
class Interior {
 public:
  Interior(const BoundProgram& program, const Contraction& c, const ArrivedCells& arrived);

  // A large box of the result whose cells need nothing but what has arrived, if there is one. Cells
  // at the ends of one dimension after another are left out until that is so. Throws Overflow.
  std::optional<Box> box() const;

 private:
  // A way in which some access goes beyond what has arrived.
  struct Excess {
    TensorId tensor;
    size_t dim = 0;
    enum class Side : uint8_t { low, high, rule } side = Side::low;
  };
  std::optional<Excess> first_excess(const Box& box) const;
  bool exceeds(const Box& box, const Excess& excess) const;
  // The largest box that is left of `box` without the excess where one end of one dimension goes.
  std::optional<Box> cut(const Box& box, const Excess& excess) const;
  std::vector<size_t> dims_of(const Excess& excess) const;
  template <class Visit>
  void visit_excesses(const Box& box, const Visit& visit) const;

  const BoundProgram& program_;
  const Contraction& c_;
  const ArrivedCells& arrived_;
  std::vector<PieceImages> images_;
};

// Whether the access means the same in the tensor that the cells have arrived in.
bool has_arrived(const BoundProgram& program, TensorId tensor, const Need& need,
                 const Arrived& arrived);

// The contraction for a box of its result alone, which `part` has. Where all that a load needs is
// among the cells that have arrived it reads them where they are; other loads stay.
Contraction part_of(const BoundProgram& program, const Contraction& c, const Box& box,
                    TensorId part, const std::vector<ArrivedCells>& arrived);

}  // namespace tile
