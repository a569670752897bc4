#include "core/interpret/interpret.h"

#include <new>

#include "core/interpret/interpreter.h"
#include "core/support/checked.h"

namespace tile {

Interpretation interpret(const BoundProgram& program, const std::vector<HostTensor>& inputs,
                         const InterpretOptions& options, bool with_magnitudes) {
  try {
    Interpreter run(program, inputs, options, with_magnitudes);
    for (const BoundStatement& statement : program.statements) run.execute(statement);
    return run.collect();
  } catch (const std::bad_alloc&) {
    fail(Stage::compile, "limit", {}, "the program needs more memory than there is");
  } catch (const Overflow&) {
    fail(Stage::compile, "limit", {}, "an index or a size does not fit in 64 bits");
  }
}

}  // namespace tile
