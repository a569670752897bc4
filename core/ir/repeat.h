// Statements that repeat a program: see Repeat in program.h.
#pragma once

#include <functional>

#include "core/ir/program.h"

namespace tile {

// Every tensor that the statement reads or makes becomes `to` of it.
void rename_tensors(Statement& statement, const std::function<TensorId(TensorId)>& to);

// The statements from number `first` on, which are taken out of `program` together with their
// tensors, as the step of a repeat: a program whose first input is `state`, which no statement
// makes, and whose output is `next`. `operands` gets the tensors that stay and that the statements
// read, in the order of the step's further inputs. Tensors from `state` on are theirs.
Program take_out_step(Program& program, size_t first, TensorId state, TensorId next,
                      std::vector<TensorId>& operands);

// The program with the statements of each trip in place of its repeats: for passes over symbolic
// programs that look into statements. Tensors are in the order of statements, as ever; those that
// `program` has keep their names. Throws Failure (compile, "limit") for more statements than
// programs may have.
Program with_repeats_written_out(const Program& program);

}  // namespace tile
