// The rows of the table of fusions (group.cpp), private to this room. Each takes the steps as the
// row before has left them.
#pragma once

#include <functional>
#include <vector>

#include "core/fusion/group.h"
#include "core/ir/analysis/statement_uses.h"
#include "core/ir/bound.h"

namespace tile::fusion {

// Completes kernels: what they read and write, and where their results live. What only the steps
// outside of a kernel know is found once, as programs may have tens of thousands of statements.
class Completion {
 public:
  explicit Completion(const BoundProgram& program) : program_(program), uses_(program) {}

  // Where each stage's result is needed outside its own kernel, and the kernel's arguments.
  void complete(Kernel& kernel) const;
  GoneTensors gone;

 private:
  // Where the statement's results are gone: whether the kernel or none reads its operands.
  bool read_inside(const BoundStatement& reader, const Kernel& kernel) const;
  // `reads`: of each stage of the kernel.
  bool needed_outside(TensorId id, const Kernel& kernel,
                      const std::vector<std::vector<TensorId>>& reads) const;

  const BoundProgram& program_;
  const StatementUses uses_;
};

// What the rows share.
struct State {
  State(const BoundProgram& p, const Target& t, const GroupOptions& o)
      : program(p), target(t), options(o), completion(p) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const BoundProgram& program;
  const Target& target;
  const GroupOptions& options;
  Completion completion;
  std::function<void(Kernel&)> complete = [this](Kernel& k) { completion.complete(k); };
  std::vector<Step> steps;
};

// A step for each statement: contractions become kernels of one stage.
void make_kernels(State& state);
// Moves pointwise stages to the register tile of the kernel whose result they read cell by cell:
// what they cost there is their arithmetic, what they save is a pass over memory.
void attach_epilogues(State& state);
// Lists what every kernel reads and writes, and settles where its results live.
void complete_kernels(State& state);

}  // namespace tile::fusion
