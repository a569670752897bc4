// What the tests of bind and of the reference interpreter share: a Tile text run on small tensors.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/interpret/interpret.h"
#include "core/ir/bound.h"
#include "core/ir/scalar.h"
#include "core/language/tile/tile.h"
#include "core/passes/bind/bind.h"

namespace tile::test {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

using Values = std::vector<double>;

inline HostTensor tensor(DType type, Shape shape, const Values& values) {
  HostTensor t(type, std::move(shape));
  EXPECT_EQ(t.count(), static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    t.set(static_cast<int64_t>(i), real_scalar(values[i], type));
  }
  return t;
}
inline HostTensor floats(Shape shape, const Values& values) {
  return tensor(DType::f32, std::move(shape), values);
}
inline HostTensor vector_of(DType type, const Values& values) {
  return tensor(type, {static_cast<int64_t>(values.size())}, values);
}
inline HostTensor vector_of(const Values& values) { return vector_of(DType::f32, values); }

inline Values values_of(const HostTensor& t) {
  Values values;
  for (int64_t i = 0; i < t.count(); ++i) values.push_back(convert(t.at(i), DType::f64).f);
  return values;
}

inline std::vector<InputType> types_of(const std::vector<HostTensor>& inputs) {
  std::vector<InputType> types;
  for (const HostTensor& t : inputs) types.push_back({t.type, t.shape});
  return types;
}

inline BoundProgram bind_text(const std::string& text, const std::vector<InputType>& types) {
  auto source = std::make_shared<const Source>(Source{"test.tile", text});
  BoundProgram program = tile::bind(parse_tile(source), types);
  verify(program);
  return program;
}

// The first output.
inline HostTensor run(const std::string& text, const std::vector<HostTensor>& inputs) {
  BoundProgram program = bind_text(text, types_of(inputs));
  return interpret(program, inputs).outputs.at(0);
}
inline Values values(const std::string& text, const std::vector<HostTensor>& inputs) {
  return values_of(run(text, inputs));
}

// The rendered error of bind or of the run; empty without one.
inline std::string error_of_run(const std::string& text, const std::vector<HostTensor>& inputs) {
  try {
    run(text, inputs);
  } catch (const Failure& failure) {
    return render(failure.diagnostic(), Source{"test.tile", text});
  }
  return "";
}
inline std::string error_of_bind(const std::string& text, const std::vector<InputType>& types) {
  try {
    bind_text(text, types);
  } catch (const Failure& failure) {
    return render(failure.diagnostic(), Source{"test.tile", text});
  }
  return "";
}

}  // namespace tile::test
