// The value of a piece's body, and the cells that it reads and writes, at one point.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/ir/analysis/evaluate_body.h"
#include "core/ir/bound.h"
#include "core/ir/scalar.h"

namespace tile {

// The elements of every tensor of a program; a view shares its source's.
using Elements = IdVector<TensorId, std::byte*>;

class PieceEvaluator final : private Leaves {
 public:
  // The references must outlive the evaluator.
  // `work` counts the iterations of folds.
  PieceEvaluator(const BoundProgram& program, const Elements& elements, const Piece& piece,
                 std::function<void()> work = {});

  // False when an index value is outside its dimension under the in-range rule: the point is then
  // not valid.
  bool evaluate(std::span<const int64_t> x);
  // After evaluate: the results, and the row-major position of each output's cell.
  const Scalar& result(size_t output) const { return values_[piece_.body.results[output]]; }
  int64_t cell(size_t output) const { return cells_[output]; }

 private:
  // A position as one affine form with integer coefficients, where every index allows that.
  struct Address {
    std::vector<int64_t> coefficients;
    int64_t constant = 0;
    int64_t divisor = 1;
  };
  enum class Place : uint8_t { inside, outside, invalid };

  static std::optional<Address> address_of(const Access& access, const Shape& shape);
  // `values`: the operands of the load; a store has none.
  Place locate(const Access& access, const std::optional<Address>& address,
               std::span<const Scalar> values, int64_t& position) const;
  const Shape& shape_of(const Access& access) const {
    return program_.tensors[access.tensor].shape;
  }
  Scalar value(const Node& node) override;
  bool load(const Node& node, std::span<const Scalar> operands, Scalar& element) override;
  void iterate(const Node& fold, int64_t counter) override;

  const BoundProgram& program_;
  const Elements& elements_;
  const Piece& piece_;
  std::function<void()> work_;
  std::span<const int64_t> x_;  // the point
  std::vector<std::optional<Address>> loads_, stores_;
  IdVector<NodeId, Scalar> values_;  // one per node
  std::vector<int64_t> cells_;
};

}  // namespace tile
