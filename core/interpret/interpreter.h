// The state of one run of the reference interpreter: whoever owns it executes the statements.
#pragma once

#include <map>
#include <vector>

#include "core/interpret/evaluator.h"
#include "core/interpret/interpret.h"
#include "core/interpret/points.h"

namespace tile {

class Interpreter {
 public:
  // The program must outlive this. Throws Failure: the tensors need too much memory.
  Interpreter(const BoundProgram& program, const std::vector<HostTensor>& inputs,
              const InterpretOptions& options, bool with_magnitudes);
  Interpreter(Interpreter&&) = default;

  void execute(const BoundStatement& statement);
  // A view's is that of its source, under the source's shape.
  HostTensor& tensor(TensorId id) { return tensors_[program_.tensors[id].view_of.value_or(id)]; }
  // Of the outputs, after all statements.
  Interpretation collect();

 private:
  // The cells of one output while a contraction runs. A value takes the 8 bytes that its type needs
  // of a Scalar.
  struct Cells {
    DType type = DType::none;
    std::vector<int64_t> bits;
    std::vector<bool> covered;
    std::vector<double> magnitudes;

    Scalar value(size_t at) const;
    void set(size_t at, const Scalar& value);
  };

  void allocate(const std::vector<HostTensor>& inputs);
  void check_memory(int64_t limit) const;
  Span place_of(TensorId id) const;
  void contract(const Contraction& contraction);
  void repeat(const BoundRepeat& r);
  std::map<TensorId, Cells> empty_cells(const Contraction& contraction) const;
  void aggregate(const Contraction& contraction, TensorId output, Cells& cells, int64_t cell,
                 const Scalar& value);
  [[noreturn]] void overlap(const Contraction& contraction, TensorId output) const;
  void finish(const Contraction& contraction, TensorId id, const Cells& cells);
  HostTensor magnitude(TensorId id, const HostTensor& output) const;

  const BoundProgram& program_;
  const InterpretOptions options_;
  IdVector<TensorId, HostTensor> tensors_;  // empty for views
  Elements elements_;
  std::map<TensorId, std::vector<double>> magnitudes_;
  WorkMeter meter_;
  bool with_magnitudes_;
  bool in_order_;
  int64_t points_ = 0;
};

}  // namespace tile
