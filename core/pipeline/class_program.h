// What the sizes of one class of a program share: the choices that decide its kernels, and which of
// the kernels leave the size to each launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/ir/bound.h"
#include "core/kernel/kernel.h"
#include "core/schedule/search/dynamic_extent.h"
#include "core/support/choices.h"
#include "core/support/pass.h"

namespace tile {

// A kernel for a class of sizes.
struct ClassStep {
  ClassKernel kernel;
  std::string key;  // of what the choice of its schedule and its form depend on
};
ClassStep class_step(ClassKernel kernel);
// What the choice of a kernel's schedule depends on.
std::string key_of(const Kernel& kernel);

struct ClassProgram {
  ChoiceRecord choices;
  // Of each step; null: it does not depend on the size, or in a way that launches cannot give.
  std::vector<std::shared_ptr<const ClassStep>> steps;
  std::vector<std::string> why_not;  // of each step without a class, in words
  // Of each step that is a kernel without a class: the kernel, where it is the same at both sizes.
  std::vector<std::shared_ptr<const Kernel>> fixed;
  // Optional passes that changed nothing at both sizes: a size may do without them where is_whole()
  // holds for what it gets.
  std::vector<std::string> idle;

  // The class that the kernel, step number `number` under these choices, is in, and its extent;
  // without one the reason in words.
  struct Found {
    std::shared_ptr<const ClassStep> step;
    int64_t extent = 0;
    std::string why_not;
  };
  Found step_of(size_t number, const Kernel& kernel) const;
  // Whether the steps are those of the class, one by one; `found`: of each, where a kernel has a
  // class.
  bool is_whole(const std::vector<Step>& steps, std::vector<Found>& found) const;
};

// Brings a bound program into normal form and divides it into steps. `strided`: tensors, such as
// inputs, whose elements are not dense.
std::vector<Step> steps_of(BoundProgram& program, const Target& target, const PassOptions& passes,
                           const std::vector<TensorId>& strided = {});
// Of the program bound at two sizes of the class.
ClassProgram class_program(BoundProgram typical, BoundProgram other, const AllInstances& sizes,
                           const Target& target, const PassOptions& passes);
// About what it takes in memory.
size_t memory_of(const ClassProgram& program);

}  // namespace tile
