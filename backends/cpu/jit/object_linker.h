// Links an object of this library's own making without LLVM: what saved executables are loaded
// with, where a linker's session would take longer than all the rest.
#pragma once

#include <memory>
#include <span>
#include <string>

namespace tile::cpu {

// Code in memory, found by its symbols; its memory goes with it.
class LinkedCode {
 public:
  virtual ~LinkedCode() = default;
  // The address of a function; throws Failure (compile, "backend") where there is none.
  virtual void* address(const std::string& symbol) = 0;
};

// An ELF object for this processor (System V ABI, AMD64 supplement) that has code and constants
// only, refers to itself and to a few functions of the C library, and whose relocations are those
// of position-independent code of the small model. Null for anything else, damaged bytes and
// another processor's objects included. What it reads is checked; what the code does is not. Throws
// std::bad_alloc. Thread safe.
std::unique_ptr<LinkedCode> link_object(std::span<const char> object);

}  // namespace tile::cpu
