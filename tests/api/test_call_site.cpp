// Calls that come again: what the tensors of a call must have in common with those of the call
// before to be run at once, and that everything else is an error or gets an executable of its own.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tile/tile.h"

namespace {

constexpr size_t kMost = 400;  // elements of a tensor

// Storage for any shape of up to kMost elements.
struct Tensor {
  std::vector<float> data = std::vector<float>(kMost);
  std::vector<int64_t> shape;
  DLTensor dl{};
  explicit Tensor(std::vector<int64_t> s, float value = 0) : shape(std::move(s)) {
    data.assign(kMost, value);
    dl.data = data.data();
    dl.device = {kDLCPU, 0};
    dl.ndim = static_cast<int32_t>(shape.size());
    dl.dtype = {kDLFloat, 32, 1};
    dl.shape = shape.data();
  }
  Tensor(const Tensor&) = delete;
};

class CallSite : public testing::Test {
 protected:
  void SetUp() override {
    tile_engine_options options{};
    options.struct_size = sizeof options;
    options.backend = "cpu";
    options.cache_mode = "off";
    ASSERT_EQ(tile_engine_create(&options, &engine_), nullptr);
  }
  void TearDown() override {
    tile_program_free(program_);
    tile_engine_free(engine_);
  }

  void parse(const std::string& text) {
    tile_program_free(program_);
    tile_error* error =
        tile_program_parse(engine_, "tile", "call.tile", text.data(), text.size(), &program_);
    ASSERT_EQ(error, nullptr) << tile_error_rendered(error);
  }
  // The code of the call's error; empty without one.
  std::string run(const std::vector<const DLTensor*>& inputs, std::vector<DLTensor*> outputs,
                  const tile_run_options* options = nullptr) {
    tile_error* error = tile_program_run(program_, inputs.data(), inputs.size(), outputs.data(),
                                         outputs.size(), options);
    std::string code = error == nullptr ? "" : tile_error_code(error);
    tile_error_free(error);
    return code;
  }
  tile_engine_statistics statistics() {
    tile_engine_statistics s{};
    s.struct_size = sizeof s;
    EXPECT_EQ(tile_engine_statistics_get(engine_, &s), nullptr);
    return s;
  }

  tile_engine* engine_ = nullptr;
  tile_program* program_ = nullptr;
};

const char* kSum = "function (A, B) -> (O) { O = A + B; }";

// An output that is wrong in one dimension is an error whichever one it is.
TEST_F(CallSite, EveryExtentOfEveryRankIsCompared) {
  for (size_t rank = 0; rank <= 7; ++rank) {
    std::vector<int64_t> shape(rank, 2);
    parse(kSum);
    Tensor a(shape, 1), b(shape, 2), o(shape);
    for (int call = 0; call < 3; ++call) {
      o.data.assign(kMost, 0);
      EXPECT_EQ(run({&a.dl, &b.dl}, {&o.dl}), "") << rank;
      for (size_t i = 0; i < size_t{1} << rank; ++i) ASSERT_EQ(o.data[i], 3) << rank;
    }
    for (size_t d = 0; d < rank; ++d) {
      o.shape[d] = 1;
      EXPECT_EQ(run({&a.dl, &b.dl}, {&o.dl}), "argument") << rank << " " << d;
      o.shape[d] = 2;
      EXPECT_EQ(run({&a.dl, &b.dl}, {&o.dl}), "") << rank;
    }
  }
}

TEST_F(CallSite, OtherInputsGetAnotherExecutable) {
  parse("function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }");
  Tensor a({2, 3}, 1), b({3, 2}, 2), c({2, 2});
  EXPECT_EQ(run({&a.dl, &b.dl}, {&c.dl}), "");
  EXPECT_EQ(run({&a.dl, &b.dl}, {&c.dl}), "");
  EXPECT_EQ(c.data[3], 6);
  uint64_t binds = statistics().binds, hits = statistics().executable_hits;
  EXPECT_EQ(hits, 1U);
  a.shape[1] = b.shape[0] = 4;
  EXPECT_EQ(run({&a.dl, &b.dl}, {&c.dl}), "");
  EXPECT_EQ(c.data[3], 8);
  EXPECT_EQ(statistics().binds, binds + 1);
  // Both at once, in turns: each is found.
  for (int64_t inner : {3, 4, 3, 4}) {
    a.shape[1] = b.shape[0] = inner;
    EXPECT_EQ(run({&a.dl, &b.dl}, {&c.dl}), "");
    EXPECT_EQ(c.data[3], 2.0F * static_cast<float>(inner));
  }
  EXPECT_EQ(statistics().binds, binds + 1);
  EXPECT_EQ(statistics().executable_hits, hits + 4);
}

TEST_F(CallSite, DenseStridesAreNone) {
  parse(kSum);
  Tensor a({1, 3, 1, 2}, 1), b({1, 3, 1, 2}, 2), o({1, 3, 1, 2});
  EXPECT_EQ(run({&a.dl, &b.dl}, {&o.dl}), "");
  uint64_t binds = statistics().binds;
  int64_t dense[] = {77, 2, -5, 1}, apart[] = {0, 4, 0, 2};
  a.dl.strides = o.dl.strides = dense;
  EXPECT_EQ(run({&a.dl, &b.dl}, {&o.dl}), "");
  EXPECT_EQ(statistics().binds, binds);
  a.dl.strides = apart;
  a.data[10] = 5;  // the last element
  EXPECT_EQ(run({&a.dl, &b.dl}, {&o.dl}), "");
  EXPECT_EQ(o.data[5], 7);
  EXPECT_EQ(statistics().binds, binds + 1);
  a.dl.strides = nullptr;
  o.dl.strides = apart;
  EXPECT_EQ(run({&a.dl, &b.dl}, {&o.dl}), "");
  EXPECT_EQ(o.data[10], 3);
}

TEST_F(CallSite, ByteOffsetsCount) {
  parse(kSum);
  Tensor a({2}, 1), b({2}, 2), o({2});
  EXPECT_EQ(run({&a.dl, &b.dl}, {&o.dl}), "");
  a.data[2] = 8;
  a.dl.byte_offset = o.dl.byte_offset = sizeof(float);
  EXPECT_EQ(run({&a.dl, &b.dl}, {&o.dl}), "");
  EXPECT_EQ(std::vector<float>(o.data.begin(), o.data.begin() + 3), (std::vector<float>{3, 3, 10}));
}

// What the first call of a program refuses, later ones refuse too.
TEST_F(CallSite, WrongTensorsAreErrorsEveryTime) {
  const std::vector<std::pair<const char*, std::function<void(DLTensor&)>>> kFaults = {
      {"no shape", [](DLTensor& t) { t.shape = nullptr; }},
      {"no data", [](DLTensor& t) { t.data = nullptr; }},
      {"complex type", [](DLTensor& t) { t.dtype = {5, 64, 1}; }},
      {"lanes", [](DLTensor& t) { t.dtype.lanes = 2; }},
      {"rank", [](DLTensor& t) { t.ndim = 1; }},
      {"device", [](DLTensor& t) { t.device.device_type = kDLCUDA; }},
  };
  parse("function (A[N, M], B[N, M]) -> (O) { O[i, j: N, M] = =(A[i, j] + B[i, j]); }");
  Tensor a({2, 2}, 1), b({2, 2}, 2), o({2, 2});
  for (int call = 0; call < 2; ++call) {
    for (const auto& [name, spoil] : kFaults) {
      DLTensor bad_input = b.dl, bad_output = o.dl;
      spoil(bad_input);
      spoil(bad_output);
      EXPECT_NE(run({&a.dl, &bad_input}, {&o.dl}), "") << name;
      EXPECT_NE(run({&a.dl, &b.dl}, {&bad_output}), "") << name;
    }
    EXPECT_EQ(run({&a.dl, nullptr}, {&o.dl}), "argument");
    EXPECT_EQ(run({&a.dl, &b.dl}, {nullptr}), "argument");
    EXPECT_EQ(run({&a.dl}, {&o.dl}), "argument");
    EXPECT_EQ(run({&a.dl, &b.dl}, {}), "argument");
    EXPECT_EQ(run({&a.dl, &b.dl}, {&o.dl}), "");
    tile_error* error = tile_program_run(program_, nullptr, 2, nullptr, 1, nullptr);
    EXPECT_NE(error, nullptr);
    tile_error_free(error);
  }
}

TEST_F(CallSite, OverlapsAreErrorsEveryTime) {
  parse("function (A, B) -> (O, P) { O = A + B; P = A - B; }");
  Tensor a({4}, 1), b({4}, 2), o({4}), p({4});
  EXPECT_EQ(run({&a.dl, &b.dl}, {&o.dl, &p.dl}), "");
  for (Tensor* other : {&a, &b, &o}) {
    DLTensor at = p.dl;
    for (int shift : {-3, 0, 3}) {              // elements: some are shared
      if (shift == 0 && other != &o) continue;  // in place (test_donations.cpp)
      at.data = other->data.data() + 8 + shift;
      DLTensor moved = other->dl;
      moved.data = other->data.data() + 8;
      std::vector<const DLTensor*> inputs = {other == &a ? &moved : &a.dl,
                                             other == &b ? &moved : &b.dl};
      EXPECT_EQ(run(inputs, {other == &o ? &moved : &o.dl, &at}), "overlap") << shift;
    }
    at.data = other->data.data() + 4;  // side by side
    EXPECT_EQ(run({&a.dl, &b.dl}, {&o.dl, &at}), "");
    EXPECT_EQ(run({&a.dl, &b.dl}, {&o.dl, &p.dl}), "");
    EXPECT_EQ(p.data[3], -1);
  }
}

// Tensors that the code takes in another order than the caller gives them, or not at all.
TEST_F(CallSite, OrderOfTensors) {
  const std::vector<std::pair<std::string, float>> kBodies = {{"B[i] - A[i]", 9},
                                                              {"C[i] - A[i]", 99},
                                                              {"C[i] - B[i]", 90},
                                                              {"A[i] - C[i]", -99},
                                                              {"C[i] + A[i] - B[i]", 91}};
  for (const auto& [body, expected] : kBodies) {
    parse("function (A[N], B[N], C[N]) -> (O) { O[i: N] = =(" + body + "); }");
    Tensor x({3}, 1), y({3}, 10), z({3}, 100), o({3});
    for (int call = 0; call < 3; ++call) {
      o.data.assign(kMost, 0);
      EXPECT_EQ(run({&x.dl, &y.dl, &z.dl}, {&o.dl}), "");
      EXPECT_EQ(o.data[2], expected) << body;
    }
  }
}

TEST_F(CallSite, OptionsAreReadEveryTime) {
  parse(kSum);
  Tensor a({2}, 1), b({2}, 2), o({2});
  tile_run_options options{};
  int polls = 0;
  for (int call = 0; call < 2; ++call) {
    options.struct_size = 0;
    EXPECT_EQ(run({&a.dl, &b.dl}, {&o.dl}, &options), "argument");
    options.struct_size = sizeof options;
    EXPECT_EQ(run({&a.dl, &b.dl}, {&o.dl}, &options), "");
  }
  options.cancel = [](void* user) {
    ++*static_cast<int*>(user);
    return 1;
  };
  options.cancel_user = &polls;
  EXPECT_EQ(run({&a.dl, &b.dl}, {&o.dl}, &options), "cancelled");
  EXPECT_GE(polls, 1);
  EXPECT_EQ(run({&a.dl, &b.dl}, {&o.dl}), "");
}

}  // namespace
