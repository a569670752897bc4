// Launches of independent loops: every iteration runs once, and up to three loops divide nothing.
#include <gtest/gtest.h>

#include "core/lower/launch/gpu_launch.h"
#include "core/lower/launch/nest_builders.h"
#include "core/nest/passes/interior.h"
#include "core/simplify/simplify.h"

namespace tile::gpu {
namespace {

using lowering::statement;

// A nest that adds one to cell [v0, v1…] for each iteration.
nest::Nest counting(const std::vector<int64_t>& counts, bool& divides) {
  nest::Nest nest;
  nest.name = "count";
  nest::Buffer cells;
  cells.name = "cells";
  cells.type = DType::i32;
  cells.shape = counts;
  cells.strides = dense_strides(counts);
  cells.written = true;
  nest.buffers.push_back(cells);
  divides = false;
  nest.body =
      tiled_launch(counts, {4, DType::f32}, h200_target(), [&](const std::vector<Expr>& values) {
        nest::Store store;
        store.target = {nest::BufferId(0), values, {}};
        store.kind = nest::StoreKind::add;
        store.body.results = {store.body.integer(1, DType::i32)};
        for (const Expr& value : values) divides = divides || nest::has_choices(value);
        return nest::Block{statement(std::move(store))};
      });
  return nest;
}

void expect_each_once(const std::vector<int64_t>& counts) {
  SCOPED_TRACE(::testing::PrintToString(counts));
  bool divides = false;
  nest::Nest nest = counting(counts, divides);
  nest::verify(nest);
  EXPECT_FALSE(divides);
  HostTensor cells(DType::i32, counts);
  nest::interpret(nest, {&cells});
  for (int64_t i = 0; i < cells.count(); ++i) ASSERT_EQ(cells.at(i).i, 1) << i;
}

TEST(GpuTiles, EveryIterationRunsOnce) {
  for (const std::vector<int64_t>& counts : std::vector<std::vector<int64_t>>{{1},
                                                                              {1, 1},
                                                                              {257},
                                                                              {3, 5},
                                                                              {1, 70, 1},
                                                                              {33, 129},
                                                                              {7, 7, 31},
                                                                              {2, 1, 3, 5},
                                                                              {65, 2, 9},
                                                                              {3, 4, 5, 6},
                                                                              {2, 3, 2, 7, 11},
                                                                              {300, 1, 2}}) {
    expect_each_once(counts);
  }
}

// A launch has few blocks along its second and third dimension.
TEST(GpuTiles, MostBlocksAreAlongTheFirstDimension) {
  bool divides = false;
  nest::Nest nest = counting({100'000'000, 3}, divides);
  std::vector<int64_t> extents;
  const nest::Block* inside = &nest.body;
  for (const auto* loop = std::get_if<nest::For>(&inside->front().what);
       loop != nullptr && loop->kind == nest::LoopKind::grid;
       loop = std::get_if<nest::For>(&inside->front().what)) {
    extents.push_back(loop->extent.value());
    inside = &loop->body;
  }
  ASSERT_FALSE(extents.empty());
  for (size_t i = 0; i + 1 < extents.size(); ++i) EXPECT_LE(extents[i], 65535);
  EXPECT_GT(extents.back(), 65535);
}

// Neighbouring threads take neighbours in memory, even where other shapes fill warps better: eleven
// threads of 16 bytes read whole lines, one of them half of a sector.
TEST(GpuTiles, ThreadsBesideEachOtherShareLines) {
  nest::Block launch = tiled_launch({16, 24, 48, 11}, {8, DType::bf16}, h200_target(),
                                    [](const std::vector<Expr>&) { return nest::Block(); });
  int64_t along = 0;
  for (const nest::Block* inside = &launch; !inside->empty();) {
    const auto& loop = std::get<nest::For>(inside->front().what);
    if (loop.kind == nest::LoopKind::thread) along = loop.extent.value();
    inside = &loop.body;
  }
  EXPECT_EQ(along, 11);
}

// Blocks use their warps whatever the extents.
TEST(GpuTiles, FewThreadsHaveNoWork) {
  for (const std::vector<int64_t>& counts : std::vector<std::vector<int64_t>>{
           {1080, 480}, {1000, 7, 7}, {999, 67}, {512, 131}, {64, 56, 14}, {5000, 3}, {301, 257}}) {
    bool divides = false;
    nest::Nest nest = counting(counts, divides);
    int64_t threads = 1;
    for (const nest::Block* inside = &nest.body; inside != nullptr;) {
      const auto* loop = std::get_if<nest::For>(&inside->front().what);
      if (loop != nullptr) threads *= loop->extent.value();
      inside = loop != nullptr ? &loop->body : nullptr;
    }
    EXPECT_LT(static_cast<double>(threads), 1.25 * static_cast<double>(element_count(counts)))
        << ::testing::PrintToString(counts);
  }
}

}  // namespace
}  // namespace tile::gpu
