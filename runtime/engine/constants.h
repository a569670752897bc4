// Inputs declared constant: copies of their elements, taken when a program is compiled, and what
// its kernels read of them packed.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "runtime/engine/executable.h"
#include "runtime/engine/launch/host_memory.h"

namespace tile {

// Memory of the host that an engine's constants take, counted in its statistics: aligned to cache
// lines, zero at first.
class ConstantMemory {
 public:
  ConstantMemory(std::shared_ptr<Engine> engine, size_t bytes);
  ~ConstantMemory();
  ConstantMemory(const ConstantMemory&) = delete;
  ConstantMemory& operator=(const ConstantMemory&) = delete;
  std::byte* data() const { return memory_.data(); }
  size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<Engine> engine_;
  size_t bytes_;
  HostMemory memory_;
};

// Copies the inputs with these numbers: dense in the host's memory or, with the strides given, in
// that of the engine's device. Throws Failure (run: "argument" for a number that is none, or
// elements that the engine cannot read; "memory").
std::vector<ConstantInput> copied_constants(const std::shared_ptr<Engine>& engine,
                                            const Program& program,
                                            std::span<const TensorView> inputs,
                                            std::span<const size_t> numbers);
// Null: that input is none.
const ConstantInput* constant_at(const Executable& executable, size_t input);

// Gives the executable's launches, whose code is there, their packed copies: each is made once for
// all executables of the engine that read the same constant in the same order.
void prepare_copies(Executable& executable);
// Of the host, that the executable's constants take, packed copies included.
size_t constant_bytes(const Executable& executable);

}  // namespace tile
