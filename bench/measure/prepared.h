// A case made ready to be timed: compiled, its data in place.
#pragma once

#include <optional>

#include "bench/measure/tensor.h"
#include "bench/measure/timing.h"
#include "bench/measure/work.h"
#include "bench/measure/workload.h"

namespace tile::bench {

class Prepared {
 public:
  // Compiles. Throws Failure.
  Prepared(const std::shared_ptr<Engine>& engine, const Case& c);

  const Case& what() const { return case_; }
  const std::vector<Tensor>& inputs() const { return inputs_; }
  const Tensor& output() const { return outputs_.front(); }
  const std::vector<Tensor>& outputs() const { return outputs_; }
  // Of a step of training: the input whose next value an output is.
  std::optional<size_t> replaced(size_t output) const {
    return output < replaced_.size() ? replaced_[output] : std::nullopt;
  }
  const Executable& executable() const { return *executable_; }
  const Work& work() const { return work_; }
  double compile_ms() const { return compile_ms_; }
  // Beside inputs and outputs.
  size_t temporary_bytes() const;
  // Kernels that have code of their own; others share it.
  size_t distinct_kernels() const;
  // The largest difference of two contenders' outputs, and in which; of weights that a step of
  // training replaces, that of their change. The shorter list counts.
  struct Difference {
    double most = 0;
    std::string output = {};
  };
  Difference differences(const std::vector<Tensor>& got, const std::vector<Tensor>& expected) const;
  // As text, one for each kernel in the order of launches.
  std::vector<std::string> schedules() const;
  void tune(double budget_ms, const TuningProgress& progress) {
    executable_ = tuned(*executable_, budget_ms, progress);
  }
  void run() const { tile::run(*executable_, input_views_, output_views_); }
  // Of run(): on a device with memory of its own the tensors lie there, and the device's time
  // counts.
  Calls calls() const;
  // Of each launch the least nanoseconds of some runs; the launches wait for each other.
  std::vector<double> launch_ns() const;
  // Brings the results of the last run to output(), where a device has them.
  void fetch();

 private:
  struct OnDevice;
  void move_to_device(DeviceSession& session);
  Case case_;
  std::shared_ptr<LoadedProgram> program_;
  std::shared_ptr<const Executable> executable_;
  std::vector<Tensor> inputs_, outputs_;
  std::vector<std::optional<size_t>> replaced_;  // for each output, or empty
  std::vector<TensorView> input_views_, output_views_;
  Work work_;
  double compile_ms_ = 0;
  std::shared_ptr<OnDevice> device_;  // null: tensors are the host's
};

// The difference of two contenders' results that passes for their roundings.
double tolerance_of(const Prepared& prepared);
// The largest relative difference from the reference interpreter; nullopt where that would take
// too long.
std::optional<double> difference_from_reference(Prepared& prepared);

}  // namespace tile::bench
