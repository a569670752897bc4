// What an overlap saves and costs one rank.
#pragma once

#include "core/distribute/overlap/overlap.h"

namespace tile {

class OverlapModel {
 public:
  OverlapModel(const Mesh& mesh, size_t rank, const OverlapOptions& options)
      : mesh_(mesh), rank_(rank), options_(options) {}

  // Until the rank has sent and received its parts.
  double exchange_ns(const Exchange& what, DType type) const;
  // Of a contraction of the rank's program.
  double compute_ns(const BoundProgram& program, const Contraction& c) const;
  // Of cells that an exchange copies on the rank itself.
  double copy_ns(const Box& box, DType type) const;
  // Whether work is enough to give an exchange to another thread.
  bool is_worth_a_thread(double beside_ns) const;
  // `hidden`: of the exchange, beside the inner cells; `copied`: what the rank need not copy;
  // `edge`: of the other cells, which so many kernels compute.
  bool is_worth(double hidden, double copied, double edge, size_t kernels) const;

 private:
  const Mesh& mesh_;
  size_t rank_;
  const OverlapOptions& options_;
};

}  // namespace tile
