// What an overlap saves and costs one rank.
#pragma once

#include <vector>

#include "core/distribute/overlap/overlap.h"

namespace tile {

// A contraction in parts: inner cells that are computed before some exchanges' results are there,
// and borders behind them.
struct DividedContraction {
  const Contraction& what;
  const Box& inner;
  const std::vector<Box>& edges;
  std::vector<const Exchange*> exchanges;  // of whose results only the edges read any cell
};

class OverlapModel {
 public:
  OverlapModel(const Mesh& mesh, size_t rank, const OverlapOptions& options)
      : mesh_(mesh), rank_(rank), options_(options) {}

  // Until the rank has sent and received its parts.
  double exchange_ns(const Exchange& what, DType type) const;
  // Of a contraction of the rank's program.
  double compute_ns(const BoundProgram& program, const Contraction& c) const;
  double inner_ns(const BoundProgram& program, const DividedContraction& parts) const;
  // Whether so much work beside exchanges is enough to give them to another thread.
  bool is_worth_a_thread(double hidden) const;
  // `hidden`: of the exchanges' time, beside the inner cells.
  bool is_worth(const BoundProgram& program, const DividedContraction& parts, double hidden) const;

 private:
  double copy_ns(const Box& box, const BoundTensor& tensor) const;
  double saved_ns(const BoundProgram& program, const Exchange& what) const;
  double edge_ns(const BoundProgram& program, const DividedContraction& parts,
                 const Box& edge) const;

  const Mesh& mesh_;
  size_t rank_;
  const OverlapOptions& options_;
};

}  // namespace tile
