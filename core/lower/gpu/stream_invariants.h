// Elements of tensors that all cells of one row, or of one column, of a stream's block read: a
// row's are loaded once, before the loop over blocks, and held in registers, as is what costs a
// division or more and is made of them alone; a block of columns brings its own to shared memory,
// as far as there is room. Private to core/lower/gpu.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/lower/gpu/stream_tile.h"

namespace tile::lowering {

class StreamInvariants {
 public:
  // `room`: bytes of shared memory that the block leaves.
  StreamInvariants(Frame& frame, const GpuStream& g, int64_t room)
      : frame_(frame), g_(g), room_(room) {}

  // Replaces the loads in the loop over blocks by loads of what buffers() hold, and puts the copies
  // of columns at the head of its body.
  void take_out(nest::For& steps);
  // What is done before the loop.
  const nest::Block& before() const { return before_; }
  const std::vector<nest::BufferId>& buffers() const { return buffers_; }

 private:
  struct Taken {
    nest::Access from, to;
  };
  // A dear value of rows, as a body on elements that are held.
  struct Made {
    Body body;
    std::vector<nest::Access> loads;
    nest::Access to;
  };
  void visit(nest::Block& block);
  void replace(nest::Access& load);
  void replace_values(nest::Store& store);
  nest::Access value_of_row(const nest::Store& store, NodeId value);
  bool is_of_row(const nest::Access& a) const;
  // Nothing: each cell reads another element, or the elements have no fixed distance.
  std::optional<nest::Access> of_row(const nest::Access& load);
  std::optional<nest::Access> of_column(const nest::Access& load);
  nest::BufferId add(const char* name, nest::Scope scope, Shape shape);

  Frame& frame_;
  const GpuStream& g_;
  int64_t room_;
  std::string step_;  // the loop's variable
  std::vector<Taken> taken_;
  std::vector<Made> made_;
  nest::Block before_, copies_;
  std::vector<nest::BufferId> buffers_;
};

}  // namespace tile::lowering
