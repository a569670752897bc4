// Values of run-time parameters that lie outside of the range that the program declares: it forces
// them into it, and who gave them is told.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/ir/program.h"
#include "core/support/diagnostic.h"

namespace tile {

struct TensorView;
class Engine;

// Of the executables of a program for one set of shapes. Thread safe: runs look at their values at
// once. Of each parameter the first such value is told of, not each run of a loop.
class ParameterRanges {
 public:
  explicit ParameterRanges(const Program& program);
  ~ParameterRanges();
  ParameterRanges(const ParameterRanges&) = delete;
  ParameterRanges& operator=(const ParameterRanges&) = delete;

  // Whether one of the values is outside and not yet told of; dense inputs in the host's memory.
  bool has_news(void* const* inputs) const;
  // Tells the engine's log of values that are outside. Those in a device's memory are not looked
  // at, which would wait for it.
  void look_at(const Engine& engine, std::span<const TensorView> inputs);
  // Of all runs so far, in the order of the inputs; of stage run and severity warning.
  std::vector<Diagnostic> warnings() const;

 private:
  struct Ranged {
    size_t input = 0;
    RuntimeParameter parameter;
    std::string name;
    Span span;
    std::unique_ptr<std::atomic<const Diagnostic*>> told;
  };
  void tell(const Engine& engine, const Ranged& ranged, Diagnostic warning) const;

  SourcePtr source_;
  std::vector<Ranged> ranged_;
};

// Null where no parameter has a range.
std::shared_ptr<ParameterRanges> parameter_ranges(const Program& program);

}  // namespace tile
