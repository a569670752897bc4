// What a run is refused with: the tensor by its name and position, what was given, what was
// expected and why, and a hint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "programs.h"

namespace tile::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Tensor {
  explicit Tensor(std::vector<int64_t> extents, uint8_t bits = 32)
      : shape(std::move(extents)), memory(256) {
    dl = {memory.data(),
          {kDLCPU, 0},
          static_cast<int32_t>(shape.size()),
          {kDLFloat, bits, 1},
          shape.data(),
          nullptr,
          0};
  }
  std::vector<int64_t> shape;
  std::vector<double> memory;
  DLTensor dl;
};

class RunErrors : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    tile_engine_options options = options_of(GetParam());
    ASSERT_EQ(tile_engine_create(&options, &engine_), nullptr);
  }
  void TearDown() override {
    tile_executable_free(executable_);
    tile_program_free(program_);
    tile_engine_free(engine_);
  }
  void compile(const std::string& text, const std::vector<Tensor*>& inputs) {
    ASSERT_EQ(said(tile_program_parse(engine_, "tile", "p", text.data(), text.size(), &program_)),
              "");
    ASSERT_EQ(
        said(tile_program_compile(program_, pointers(inputs).data(), inputs.size(), &executable_)),
        "");
  }
  static std::vector<const DLTensor*> pointers(const std::vector<Tensor*>& tensors) {
    std::vector<const DLTensor*> all;
    for (Tensor* t : tensors) all.push_back(t == nullptr ? nullptr : &t->dl);
    return all;
  }
  // "argument: the message; hint: the hint"
  static std::string said(tile_error* error) {
    if (error == nullptr) return "";
    std::string rendered = tile_error_rendered(error), text = tile_error_code(error);
    text += std::string(": ") + tile_error_message(error);
    size_t hint = rendered.find("hint: ");
    if (hint != std::string::npos) text += "; " + rendered.substr(hint);
    tile_error_free(error);
    return text;
  }
  std::string run(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) {
    std::vector<DLTensor*> written;
    for (Tensor* t : outputs) written.push_back(&t->dl);
    return said(tile_executable_run(executable_, pointers(inputs).data(), inputs.size(),
                                    written.data(), written.size(), nullptr));
  }

  tile_engine* engine_ = nullptr;
  tile_program* program_ = nullptr;
  tile_executable* executable_ = nullptr;
  Tensor a_{{2, 3}}, b_{{3, 4}}, c_{{2, 4}};
};

TEST_P(RunErrors, ShapesSayWhereTheirSizesComeFrom) {
  compile(kProduct, {&a_, &b_});
  ASSERT_EQ(run({&a_, &b_}, {&c_}), "");
  Tensor wide({2, 5}), tall({7, 3}), flat({6}), both({7, 5});
  EXPECT_THAT(run({&wide, &b_}, {&c_}),
              AllOf(HasSubstr("argument: input A (0) is f32[2, 5], expected f32[2, 3]: L=3 from "
                              "input B (1); hint: "),
                    HasSubstr("compile the program for other shapes and types")));
  EXPECT_THAT(run({&a_, &wide}, {&c_}),
              HasSubstr("input B (1) is f32[2, 5], expected f32[3, 4]: L=3 from input A (0), N=4 "
                        "when it was compiled"));
  EXPECT_THAT(run({&tall, &b_}, {&c_}), HasSubstr("expected f32[2, 3]: M=2 when it was compiled"));
  EXPECT_THAT(run({&flat, &b_}, {&c_}),
              HasSubstr("input A (0) is f32[6], expected f32[2, 3]: A is declared with 2 dim"));
  EXPECT_THAT(run({&both, &b_}, {&c_}),
              HasSubstr("M=2 when it was compiled, L=3 from input B (1)"));
}

TEST_P(RunErrors, TypesMemoryAndOutputs) {
  compile(kProduct, {&a_, &b_});
  Tensor wide({3, 4}, 64), turned({4, 2});
  EXPECT_THAT(run({&a_, &wide}, {&c_}),
              HasSubstr("argument: input B (1) is f64[3, 4], expected f32[3, 4]; hint: "));
  EXPECT_THAT(run({&a_, &b_}, {&turned}),
              HasSubstr("output C (0) is f32[4, 2], expected f32[2, 4], which follows from the "
                        "inputs; hint: give it the memory of f32[2, 4]"));
  Tensor nothing({2, 4});
  nothing.dl.data = nullptr;
  EXPECT_THAT(run({&a_, &b_}, {&nothing}), HasSubstr("output C (0) has a null data pointer"));
  int64_t columns[] = {1, 2};
  a_.dl.strides = columns;
  EXPECT_THAT(
      run({&a_, &b_}, {&c_}),
      HasSubstr("input A (0) has strides [1, 2]; the executable was compiled for one that is "
                "dense; hint: "));
}

TEST_P(RunErrors, TensorsThatAreMissingOrTooMany) {
  compile(kProduct, {&a_, &b_});
  EXPECT_EQ(run({&a_}, {&c_}),
            "argument: input B (1) is missing: 1 is given, the program has 2: A, B");
  EXPECT_EQ(run({&a_, &b_, &a_}, {&c_}),
            "argument: too many inputs: 3 are given, the program has 2: A, B");
  EXPECT_EQ(run({&a_, nullptr}, {&c_}), "argument: input B (1) is NULL");
  EXPECT_EQ(run({&a_, &b_}, {}),
            "argument: output C (0) is missing: 0 are given, the program has 1: C");
  EXPECT_EQ(run({&a_, &b_}, {&c_, &c_}),
            "argument: too many outputs: 2 are given, the program has 1: C");
}

TEST_P(RunErrors, OverlapsNameBoth) {
  Tensor a({6}), b({6}), o({6}), p({6});
  compile("function (A[N], B[N]) -> (O, P) { O = A + B; P = A - B; }", {&a, &b});
  o.dl.data = a.memory.data() + 1;
  EXPECT_EQ(run({&a, &b}, {&o, &p}),
            "overlap: output O (0) overlaps input A (0); hint: give O memory of its own\n");
  o.dl.data = p.dl.data;
  EXPECT_THAT(run({&a, &b}, {&o, &p}), HasSubstr("output P (1) overlaps output O (0); hint: "));
}

INSTANTIATE_TEST_SUITE_P(Backends, RunErrors, testing::Values("cpu", "reference"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace tile::test
