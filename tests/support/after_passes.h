// Programs as the passes leave them.
#pragma once

#include "core/fusion/group.h"
#include "core/pipeline/pipeline.h"
#include "tests/support/run_tile.h"
#include "tests/support/schedule_kernels.h"
#include "tests/support/step_runner.h"

namespace tile::test {

// After all passes, once small integers gave the same by the definition and by the nests.
inline BoundProgram after_passes(const std::string& text, const std::vector<Shape>& shapes,
                                 const Target& target) {
  std::vector<InputType> types;
  std::vector<HostTensor> inputs;
  for (const Shape& shape : shapes) {
    types.push_back({DType::f32, shape});
    HostTensor t(DType::f32, shape);
    for (int64_t i = 0; i < t.count(); ++i) {
      t.set(i, real_scalar(static_cast<double>(i * 7 % 5 - 2), DType::f32));
    }
    inputs.push_back(std::move(t));
  }
  BoundProgram program = bind_text(text, types);
  Interpretation expected = interpret(program, inputs);
  run_pipeline(program, target, {});
  StepRunner runner(program, inputs);
  for (const Step& step : group(program, target)) runner.run(step, 0, target);
  EXPECT_EQ(runner.outputs()[0].bytes, expected.outputs[0].bytes) << print(program);
  return program;
}

}  // namespace tile::test
