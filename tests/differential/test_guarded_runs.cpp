// The guarded runs of the other tests show what they are there for: faults are put into executables
// that are right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/executors/guarded_run.h"
#include "tests/executors/layouts.h"
#include "tests/executors/run_backends.h"

namespace tile::test {
namespace {

using testing::HasSubstr;

HostTensor numbers(const Shape& shape) { return integers(shape, 3); }

std::shared_ptr<const Executable> compiled_text(const std::string& text, const Shape& shape,
                                                std::vector<int64_t> strides) {
  return loaded(test_engine("cpu"), text)
      ->executable({InputLayout{{DType::f32, shape, std::nullopt}, std::move(strides)}});
}

// What a guarded run says of the executable; empty: nothing.
std::string said(const Executable& e, const std::vector<HostTensor>& inputs) {
  try {
    run_guarded(e, inputs);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

constexpr const char* kTwice = "function (A[N, M]) -> (O) { O = A * 2; }";

TEST(GuardedRuns, WhatIsRightPasses) {
  EXPECT_EQ(said(*compiled_text(kTwice, {5, 7}, {}), {numbers({5, 7})}), "");
  EXPECT_EQ(said(*compiled_text(kTwice, {5, 7}, {-9, 1}), {numbers({5, 7})}), "");
}

TEST(GuardedRuns, AReadBesideAnInputIsSeen) {
  Executable e = *compiled_text(kTwice, {5, 7}, {9, 1});
  e.inputs[0].strides.clear();
  EXPECT_THAT(said(e, {numbers({5, 7})}), HasSubstr("input A f32[5, 7] of 140 bytes is touched"));
}

TEST(GuardedRuns, AReadInFrontOfAnInputIsSeen) {
  Executable e = *compiled_text(kTwice, {1, 4096}, {0, -1});
  e.inputs[0].strides.clear();
  EXPECT_THAT(said(e, {numbers({1, 4096})}), HasSubstr("bytes before its start"));
}

TEST(GuardedRuns, AWriteToAnInputIsSeen) {
  Executable e = *compiled_text(kTwice, {5, 7}, {});
  std::swap(e.launches.at(0).arguments.at(0), e.launches[0].arguments.at(1));
  e.call = call_plan(e);
  EXPECT_THAT(said(e, {numbers({5, 7})}), HasSubstr("where it is only read"));
}

TEST(GuardedRuns, AnOutputThatNobodyWritesIsSeen) {
  Executable e = *compiled_text(kTwice, {5, 7}, {});
  e.launches.clear();
  e.call = call_plan(e);
  EXPECT_THAT(said(e, {numbers({5, 7})}), HasSubstr("output O depends on"));
}

// A temporary is read that a kernel left out has not made.
TEST(GuardedRuns, ATemporaryThatNobodyWritesIsSeen) {
  const char* text =
      "function (A[N, M]) -> (O) { B = argsort(A, 1); C = gather(A, reshape(B, 35)); O = C * 2; }";
  std::shared_ptr<const Executable> whole = compiled_text(text, {5, 7}, {});
  ASSERT_GT(whole->launches.size(), 1u);
  EXPECT_EQ(said(*whole, {numbers({5, 7})}), "");
  Executable e = *whole;
  e.launches.erase(e.launches.begin());
  e.call = call_plan(e);
  EXPECT_NE(said(e, {numbers({5, 7})}), "");
}

TEST(GuardedRuns, ATemporaryThatIsTooSmallIsSeen) {
  const char* text = "function (A[N, M]) -> (O) { B = sort(A, 1); O = B * 2; }";
  std::shared_ptr<const Executable> whole = compiled_text(text, {50, 70}, {});
  Executable e = *whole;
  for (TensorId id : e.program.tensors.ids()) {
    if (e.program.tensors[id].name == "B") e.program.tensors.edit(id).shape = {50, 60};
  }
  EXPECT_THAT(said(e, {numbers({50, 70})}), HasSubstr("temporary B of 12000 bytes is touched"));
}

TEST(Layouts, ValuesAreThoseThatTheLayoutHolds) {
  HostTensor x = numbers({3, 4});
  int shared = 0, strided = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Laid apart = random_layouts(seed, {{x.type, x.shape, std::nullopt}}, {x}, Sharing::no);
    EXPECT_EQ(apart.inputs[0].bytes, x.bytes) << described(apart.layouts[0]);
    strided += apart.layouts[0].strides.empty() ? 0 : 1;
    Laid any = random_layouts(seed, {{x.type, x.shape, std::nullopt}}, {x}, Sharing::yes);
    shared += any.inputs[0].bytes == x.bytes ? 0 : 1;
  }
  EXPECT_GT(strided, 100);
  EXPECT_GT(shared, 20);
}

}  // namespace
}  // namespace tile::test
