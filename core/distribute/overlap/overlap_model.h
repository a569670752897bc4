// What an overlap saves and costs one rank.
#pragma once

#include <vector>

#include "core/distribute/overlap/interior.h"
#include "core/distribute/overlap/overlap.h"

namespace tile {

// A contraction in parts: inner cells that are computed before some exchanges' results are there,
// and borders behind them.
struct DividedContraction {
  const Contraction& what;
  const Box& inner;
  const std::vector<Box>& edges;
  std::vector<const Exchange*> exchanges;  // of whose results only the edges read any cell
  const ArrivedCells& arrived;             // that edges, too, read where they are
};

// The time of one rank that computes pieces and sends or receives them, one after the other.
struct PieceTimes {
  std::vector<double> exchange_ns;  // of each piece
  std::vector<double> computed_ns;  // of what each piece serves, or what makes it
  double own_ns = 0;                // of what serves the rank itself
};

class OverlapModel {
 public:
  OverlapModel(const Mesh& mesh, size_t rank, const OverlapOptions& options)
      : mesh_(mesh), rank_(rank), options_(options) {}

  bool is_of_device() const { return options_.on_device; }
  // Until the rank has sent and received its parts.
  double exchange_ns(const Exchange& what, DType type) const;
  // Of a contraction of the rank's program.
  double compute_ns(const BoundProgram& program, const Contraction& c) const;
  double inner_ns(const BoundProgram& program, const DividedContraction& parts) const;
  // Whether so much work beside exchanges is enough to give them to another thread.
  bool is_worth_a_thread(double hidden) const;
  // That what the rank has is not copied to the exchange's result.
  double own_copy_ns(const BoundProgram& program, const Exchange& what) const;
  // Of a contraction as one kernel, and of its part for a box of a tensor of that shape.
  double whole_ns(const BoundProgram& program, const Contraction& c) const;
  double part_ns(const BoundProgram& program, const Contraction& part, const Box& box,
                 const Shape& whole) const;
  // Own first, then what each piece brings; or piece by piece, then own.
  double gather_ns(const PieceTimes& times) const;
  double scatter_ns(const PieceTimes& times) const;
  // `hidden`: of the exchanges' time, beside the inner cells.
  bool is_worth(const BoundProgram& program, const DividedContraction& parts, double hidden) const;

 private:
  double copy_ns(const Box& box, const BoundTensor& tensor) const;
  // Where kernels do not write with strides: what they write is copied.
  double strided_ns(const BoundTensor& result, const Box& box, const Shape& whole) const;
  // What a part takes beside its cells.
  double part_overhead_ns(const BoundTensor& result, const Box& box, const Shape& whole) const;
  double edge_ns(const BoundProgram& program, const DividedContraction& parts,
                 const Box& edge) const;

  const Mesh& mesh_;
  size_t rank_;
  const OverlapOptions& options_;
};

}  // namespace tile
