// The executable record: what a warm process needs of a compiled program, so that it goes from the
// program's text to code without binding, scheduling or lowering it again. Stored in the disk cache
// beside the kernels, which it names by their keys.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/engine/executable.h"

namespace tile {

// What a record depends on: the program as it will be bound, types, shapes and strides of its
// inputs, target, code generator, tuning records, passes that are left out. Empty where no records
// are kept.
std::string record_key(Engine& engine, const Program& program,
                       const std::vector<InputLayout>& inputs);

// Fills launches, places and sizes of an executable whose source and inputs are set. False: there
// is no record that can be used, and the executable is as before.
bool load_record(Executable& executable, const std::string& key);
void save_record(const Executable& executable, const std::string& key);

// The bytes of a record, and back: false for what none holds, which may be anything. Inputs of the
// executable are set; what is read then fits them and lies within its own memory. Kernels are not
// looked for.
std::vector<std::byte> packed_record(const Executable& executable);
bool unpack_record(std::span<const std::byte> bytes, Executable& executable);

}  // namespace tile
