// Meshes of GPUs through the C interface: an engine for each rank, boxes in the GPUs' memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>

#include "tests/cuda_runtime/ranks/fake_gpus.h"
#include "tile/tile.h"

namespace tile::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr size_t kRanks = 2;
constexpr int64_t kSize = 8;
constexpr const char* kProduct =
    "function (A[M, L], B[L, N]) -> (C) {\n  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n}";

std::string text_of(tile_error* error) {
  if (error == nullptr) return "";
  std::string text = std::string(tile_error_code(error)) + ": " + tile_error_message(error);
  tile_error_free(error);
  return text;
}

// What one rank has: rows of A and C, all of B, gathered from columns.
struct Rank {
  tile_engine* engine = nullptr;
  tile_program* program = nullptr;
  tile_mesh* mesh = nullptr;
  tile_executable* executable = nullptr;
  alignas(16) std::array<float, kSize * kSize / kRanks> a{}, b{}, c{};
  std::array<DLTensor, 3> tensors{};
};

class MeshesOfGpus : public OnFakeGpus {
 protected:
  void SetUp() override {
    OnFakeGpus::SetUp();
    std::array<tile_engine*, kRanks> engines{};
    for (size_t r = 0; r < kRanks; ++r) {
      std::string backend = "cuda:" + std::to_string(r);
      tile_engine_options options{};
      options.struct_size = sizeof options;
      options.backend = backend.c_str();
      options.cache_mode = "off";
      ASSERT_EQ(text_of(tile_engine_create(&options, &ranks_[r].engine)), "");
      ASSERT_EQ(text_of(tile_program_parse(ranks_[r].engine, "tile", nullptr, kProduct,
                                           std::strlen(kProduct), &ranks_[r].program)),
                "");
      engines[r] = ranks_[r].engine;
    }
    tile_mesh_options options{};
    options.struct_size = sizeof options;
    options.axes = "x=2";
    options.timeout_seconds = 10;
    std::array<tile_mesh*, kRanks> meshes{};
    ASSERT_EQ(text_of(tile_mesh_create_local_on(engines.data(), &options, meshes.data(), kRanks)),
              "");
    for (size_t r = 0; r < kRanks; ++r) ranks_[r].mesh = meshes[r];
  }
  void TearDown() override {
    for (Rank& rank : ranks_) {
      tile_executable_free(rank.executable);
      tile_mesh_free(rank.mesh);
      tile_program_free(rank.program);
      tile_engine_free(rank.engine);
    }
    OnFakeGpus::TearDown();
  }

  template <class Work>
  std::vector<std::string> on_each(const Work& work) {
    std::vector<std::string> errors(kRanks);
    std::vector<std::thread> threads;
    for (size_t r = 0; r < kRanks; ++r) {
      threads.emplace_back([&, r] { errors[r] = text_of(work(ranks_[r])); });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

  static tile_error* compile(Rank& rank) {
    int64_t whole[2] = {kSize, kSize};
    DLTensor a{nullptr, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, whole, nullptr, 0};
    const DLTensor* inputs[2] = {&a, &a};
    tile_compile_options options{};
    options.struct_size = sizeof options;
    options.mesh = rank.mesh;
    options.layouts = "A[x, *] B[*, x] C[x, *]";
    return tile_program_compile_with(rank.program, inputs, 2, &options, &rank.executable);
  }

  // A[i, j] = i + j, B[i, j] = i - j; B's box is columns.
  void fill(DLDevice (*device)(size_t rank)) {
    for (size_t r = 0; r < kRanks; ++r) {
      Rank& rank = ranks_[r];
      constexpr auto kPart = static_cast<size_t>(kSize) / kRanks;
      for (size_t i = 0; i < rank.a.size(); ++i) {
        rank.a[i] = static_cast<float>(r * kPart + i / kSize + i % kSize);
        rank.b[i] = static_cast<float>(i / kPart) - static_cast<float>(r * kPart + i % kPart);
        rank.c[i] = -1;
      }
      rank.tensors[0] = {rank.a.data(), device(r), 2, {kDLFloat, 32, 1}, rows_, nullptr, 0};
      rank.tensors[1] = {rank.b.data(), device(r), 2, {kDLFloat, 32, 1}, columns_, nullptr, 0};
      rank.tensors[2] = {rank.c.data(), device(r), 2, {kDLFloat, 32, 1}, rows_, nullptr, 0};
    }
  }
  static tile_error* run(Rank& rank) {
    const DLTensor* inputs[2] = {&rank.tensors[0], &rank.tensors[1]};
    DLTensor* outputs[1] = {&rank.tensors[2]};
    return tile_executable_run(rank.executable, inputs, 2, outputs, 1, nullptr);
  }
  void expect_product() {
    for (size_t r = 0; r < kRanks; ++r) {
      for (size_t i = 0; i < ranks_[r].c.size(); ++i) {
        auto row = static_cast<float>(r * kSize / kRanks + i / kSize);
        float sum = 0;
        for (int k = 0; k < kSize; ++k) {
          auto at = static_cast<float>(k);
          sum += (row + at) * (at - static_cast<float>(i % kSize));
        }
        ASSERT_EQ(ranks_[r].c[i], sum) << "rank " << r << ", element " << i;
      }
    }
  }

  std::array<Rank, kRanks> ranks_;
  int64_t rows_[2] = {kSize / kRanks, kSize}, columns_[2] = {kSize, kSize / kRanks};
};

DLDevice own_gpu(size_t rank) { return {kDLCUDA, static_cast<int32_t>(rank)}; }
DLDevice other_gpu(size_t rank) { return {kDLCUDA, static_cast<int32_t>(1 - rank)}; }
DLDevice host(size_t) { return {kDLCPU, 0}; }

TEST_F(MeshesOfGpus, BoxesAreUsedInTheGpusMemory) {
  ASSERT_THAT(on_each(compile), Each(""));
  for (size_t r = 0; r < kRanks; ++r) {
    DLTensor description{};
    ASSERT_EQ(text_of(tile_executable_input(ranks_[r].executable, 1, &description)), "");
    EXPECT_EQ(description.device.device_type, kDLCUDA);
    EXPECT_EQ(description.device.device_id, static_cast<int32_t>(r));
  }
  int in = fake_driver().calls("cuMemcpyHtoDAsync"), out = fake_driver().calls("cuMemcpyDtoHAsync");
  for (int i = 0; i < 2; ++i) {
    fill(own_gpu);
    ASSERT_THAT(on_each(run), Each(""));
    expect_product();
  }
  EXPECT_EQ(fake_driver().calls("cuMemcpyHtoDAsync"), in);
  EXPECT_EQ(fake_driver().calls("cuMemcpyDtoHAsync"), out);
  EXPECT_EQ(fake_nccl().calls("ncclSend"), 2) << "of the first run; the second one is recorded";
}

TEST_F(MeshesOfGpus, BoxesMayBeInTheHostsMemory) {
  ASSERT_THAT(on_each(compile), Each(""));
  fill(host);
  ASSERT_THAT(on_each(run), Each(""));
  expect_product();
}

TEST_F(MeshesOfGpus, BoxesOfAnotherGpuAreRefused) {
  ASSERT_THAT(on_each(compile), Each(""));
  fill(other_gpu);
  EXPECT_THAT(on_each(run), Each(HasSubstr("memory that this rank's engine does not use")));
  fill(own_gpu);
  ASSERT_THAT(on_each(run), Each(""));
  expect_product();
}

TEST_F(MeshesOfGpus, WithoutNcclPartsGoThroughTheHost) {
  setenv("TILE_NCCL", "off", 1);
  ASSERT_THAT(on_each(compile), Each(""));
  fill(own_gpu);
  ASSERT_THAT(on_each(run), Each(""));
  expect_product();
  EXPECT_EQ(fake_nccl().calls("ncclSend"), 0);
}

}  // namespace
}  // namespace tile::test
