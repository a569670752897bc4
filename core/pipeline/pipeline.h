// The tensor-level passes in order, and the runner that verifies, times, can dump and can skip
// each.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/bound.h"
#include "core/target/target.h"

namespace tile {

struct Pass {
  std::string_view name;
  void (*run)(BoundProgram&, const Target&);
  bool optional;  // may be skipped: the program still compiles
};
std::span<const Pass> passes();

struct PipelineOptions {
  std::vector<std::string> skip;  // names of optional passes
  // Called after each pass with its name and the program; `changed` compares printed texts.
  std::function<void(std::string_view pass, const BoundProgram& program)> after;
};
// Brings a freshly bound program into normal form, ready for group().
void run_pipeline(BoundProgram& program, const Target& target, const PipelineOptions& options = {});

}  // namespace tile
