#include "bench/measure/work.h"

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

// Adds the points and operations of a contraction. Throws Failure (code "limit").
void count(const Contraction& contraction, Work& work) {
  for (const Piece& piece : contraction.pieces) {
    double points = count_points(piece);
    work.points += points;
    work.operations += points * operations_per_point(contraction, piece);
  }
}

}  // namespace

Work work_of(BoundProgram program, const Target& target) {
  Work work;
  work.written = bytes_of(program, program.outputs);
  work.bytes = bytes_of(program, program.inputs) + work.written;
  run_pipeline(program, target);
  for (const BoundStatement& statement : program.statements) {
    const auto* contraction = std::get_if<Contraction>(&statement);
    if (contraction == nullptr) continue;
    try {
      count(*contraction, work);
    } catch (const Failure&) {
      work.points = work.operations = 0;
      work.counted = false;
      return work;
    }
  }
  return work;
}

}  // namespace tile::bench
