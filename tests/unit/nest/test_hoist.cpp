// Values that a loop does not change leave it; results stay the same, bit for bit.
#include <gtest/gtest.h>

#include "core/nest/nest.h"

namespace tile::nest {
namespace {

Nest nest_of(const std::string& text) {
  Nest nest = parse_nest(std::make_shared<const Source>(Source{"n", text}));
  verify(nest);
  return nest;
}

std::vector<double> run(const Nest& nest) {
  HostTensor x(DType::f32, {2, 6}), v(DType::f32, {2}), y(DType::f32, {2, 6});
  for (int64_t i = 0; i < x.count(); ++i) x.set(i, real_scalar(static_cast<double>(i), DType::f32));
  v.set(0, real_scalar(3, DType::f32));
  v.set(1, real_scalar(7, DType::f32));
  interpret(nest, {&x, &v, &y});
  std::vector<double> values;
  for (int64_t i = 0; i < y.count(); ++i) values.push_back(y.at(i).f);
  return values;
}

const std::string kHead =
    "nest n\nargument x: f32 [2, 6] strides [6, 1]\nargument v: f32 [2] strides [1]\n"
    "argument y: f32 [2, 6] strides [6, 1] written\n";
const std::string kScaled =
    "%0:f32 = load 0; %1:f32 = load 1; %2:f32 = real 1; %3:f32 = div %2 %1; %4:f32 = mul %0 %3; "
    "yield %4 }\n";

size_t depth_of(const std::string& text, const std::string& word) {
  size_t at = text.find(word), begin = text.rfind('\n', at) + 1;
  return text.find_first_not_of(' ', begin) - begin;
}

TEST(Hoist, ADivisionLeavesTheLoop) {
  Nest nest = nest_of(kHead +
                      "serial i from [0] extent [2] {\n serial j from [0] extent [3] {\n"
                      " vector l from [0] extent [2] width 2 {\n assign y[i, 2*j + l] (x[i, 2*j + "
                      "l], v[i]) { " +
                      kScaled + "}\n}\n}\n");
  Nest hoisted = hoist(nest);
  verify(hoisted);
  std::string text = print(hoisted);
  EXPECT_LT(depth_of(text, "div"), depth_of(text, "mul"));
  EXPECT_EQ(depth_of(text, "div"), depth_of(text, "serial j"));
  EXPECT_EQ(run(hoisted), run(nest));
}

TEST(Hoist, AValueForEachUnrolledIteration) {
  Nest nest = nest_of(kHead +
                      "serial j from [0] extent [6] {\n unrolled i from [0] extent [2] {\n"
                      " assign y[i, j] (x[i, j], v[i]) { " +
                      kScaled + "}\n}\n");
  Nest hoisted = hoist(nest);
  verify(hoisted);
  EXPECT_EQ(hoisted.buffers.back().shape, (std::vector<int64_t>{2}));
  EXPECT_LT(print(hoisted).find("div"), print(hoisted).find("serial j"));
  EXPECT_EQ(run(hoisted), run(nest));
}

TEST(Hoist, WhatTheLoopWritesOrGuardsStays) {
  std::string own = kHead +
                    "serial i from [0] extent [2] {\n serial j from [0] extent [6] {\n"
                    " assign y[i, j] (x[i, j], y[i, 0]) { " +
                    kScaled + "}\n}\n";
  EXPECT_EQ(print(hoist(nest_of(own))), print(nest_of(own)));
  std::string guarded = kHead +
                        "serial j from [0] extent [6] {\n if [1 - j] {\n"
                        " assign y[0, j] (x[0, j], v[0]) { " +
                        kScaled + "}\n}\n";
  EXPECT_EQ(print(hoist(nest_of(guarded))), print(nest_of(guarded)));
}

}  // namespace
}  // namespace tile::nest
