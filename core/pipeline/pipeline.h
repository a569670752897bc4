// The tensor-level passes in order, and the runner that verifies, shows and can skip each; and the
// rows of the stages whose steps the runtime takes by itself. The tables of the other stages are in
// core/fusion/group.h, core/nest/passes/nest_passes.h and backends/code_passes.h.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "core/ir/bound.h"
#include "core/support/pass.h"
#include "core/target/target.h"

namespace tile {

struct Pass : PassInfo {
  void (*run)(BoundProgram&, const Target&) = nullptr;
};
std::span<const Pass> passes();

struct PipelineOptions {
  PassOptions passes = {};
  // Called after each pass with its name and the program.
  std::function<void(std::string_view pass, const BoundProgram& program)> after = {};
  // What the passes make is verified behind the last one alone: of a program whose passes have
  // been verified one by one at another size.
  bool verified_at_end = false;
};
// Brings a freshly bound program into normal form, ready for group().
void run_pipeline(BoundProgram& program, const Target& target, const PipelineOptions& options = {});

// From text to a bound program.
inline constexpr PassInfo kParse{PassStage::front_end, "parse", false,
                                 "reads the text in its language"};
inline constexpr PassInfo kDifferentiate{PassStage::front_end, "differentiate", false,
                                         "adds gradients, where they are asked for"};
inline constexpr PassInfo kBind{PassStage::front_end, "bind", false,
                                "gives every tensor its shape and type"};
inline constexpr PassInfo kCheckAssignments{PassStage::front_end, "check-assignments", false,
                                            "finds cells that two points assign"};
// Of all kernels, once programs are divided.
inline constexpr PassInfo kNarrowArguments{PassStage::fusion, "narrow-arguments", true,
                                           "gives kernels the parts of tensors that they read, so "
                                           "that steps written out share their code"};
// From a kernel to its loop nest.
inline constexpr PassInfo kChooseSchedule{
    PassStage::lowering, "choose-schedule", false,
    "takes the schedule that tuning found or that the cost model finds best"};
inline constexpr PassInfo kTileTime{
    PassStage::lowering, "tile-time", true,
    "makes blocks for several trips of a loop at a time, which runs take where they are faster"};
inline constexpr PassInfo kLower{PassStage::lowering, "lower", false,
                                 "writes the loop nest of a kernel and its schedule"};

}  // namespace tile
