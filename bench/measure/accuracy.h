// What results of f32 are held against: the same case in f64, and how far its results move when its
// inputs change by as much as f32's roundings add up to. Training has steps that are not smooth: a
// sum within its rounding of zero passes relu in one order of summation and not in another, which
// moves the gradients of whole layers. So does such a change of inputs.
#pragma once

#include "bench/measure/prepared.h"

namespace tile::bench {

// f64 in place of f32 for every input.
Case in_f64(const Case& c);
// Floats as f64; integers as they are.
std::vector<Tensor> in_f64(const std::vector<Tensor>& tensors);

class Exact {
 public:
  // Of a case that has its inputs. Throws Failure.
  explicit Exact(const Prepared& f32);

  const Prepared& prepared() const { return prepared_; }
  // How far a contender's results, of any type, are from f64's.
  Prepared::Difference off(const std::vector<Tensor>& results) const;
  // How far f64's move: the most of some changes of the inputs.
  Prepared::Difference moved() const;

 private:
  void run_with_changed_inputs(uint32_t seed) const;

  Prepared prepared_;
  std::vector<Tensor> inputs_, results_;
  double change_;  // of an input at most, relative
};

// The most that results of f32 may be from f64's, which moved so far: what the workload tolerates,
// or a few times as far as those move.
double limit_of(const Prepared& f32, double moved);

}  // namespace tile::bench
