#include "bench/measure/work.h"

#include <optional>

#include "core/ir/analysis/operation_count.h"
#include "core/pipeline/pipeline.h"

namespace tile::bench {
namespace {

double bytes_of(const BoundProgram& program, const std::vector<TensorId>& ids) {
  double bytes = 0;
  for (TensorId id : ids) {
    const BoundTensor& t = program.tensors[id];
    bytes += static_cast<double>(element_count(t.shape)) * static_cast<double>(byte_size(t.type));
  }
  return bytes;
}

// Nothing: they are not known.
using Operations = std::optional<double>;

// Adds the points of a contraction; its operations. Throws Failure (code "limit").
Operations count(const Contraction& contraction, double& all_points) {
  Operations sum = 0;
  for (const Piece& piece : contraction.pieces) {
    double points = count_points(piece);
    all_points += points;
    Operations of_point = operations_with_folds(contraction, piece);
    sum = sum && of_point ? Operations(*sum + points * *of_point) : std::nullopt;
  }
  return sum;
}

// Of a program that is repeated, for each time.
Operations count(const BoundRepeat& repeat, const Target& target) {
  double operations = work_of(*repeat.step, target).operations;
  return operations == 0 ? std::nullopt : Operations(operations * double(repeat.trips));
}

Operations count(const BoundStatement& statement, const Target& target, double& points) {
  if (const auto* c = std::get_if<Contraction>(&statement)) return count(*c, points);
  if (const auto* r = std::get_if<BoundRepeat>(&statement)) return count(*r, target);
  return 0;
}

}  // namespace

Work work_of(BoundProgram program, const Target& target) {
  Work work;
  work.written = bytes_of(program, program.outputs);
  work.bytes = bytes_of(program, program.inputs) + work.written;
  run_pipeline(program, target);
  Operations operations = 0;
  for (const BoundStatement& statement : program.statements) {
    try {
      Operations more = count(statement, target, work.points);
      operations = operations && more ? Operations(*operations + *more) : std::nullopt;
    } catch (const Failure&) {
      work.points = 0;
      work.counted = false;
      return work;
    }
  }
  work.operations = operations.value_or(0);
  return work;
}

}  // namespace tile::bench
