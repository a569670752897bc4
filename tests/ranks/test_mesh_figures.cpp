// The figures by which layouts are chosen: measured once, the same on all ranks, and kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "core/language/tile/tile.h"
#include "runtime/ranks/mesh_figures.h"
#include "runtime/ranks/rank_mesh.h"
#include "runtime/transport/local_transport.h"
#include "tests/cache/cache_directory.h"

namespace tile::test {
namespace {

using ::testing::HasSubstr;

using MeshFigures = CacheDirectory;

std::shared_ptr<Engine> engine_in(const std::string& directory, bool deterministic = false) {
  EngineOptions options;
  options.backend = "cpu";
  options.cache_dir = directory;
  options.cache_mode = directory.empty() ? "off" : "rw";
  options.deterministic = deterministic;
  return Engine::create(options);
}

// Of each rank.
template <class Result, class Work>
std::vector<Result> on_ranks(const Mesh& mesh, const Work& work) {
  auto ends = local_transports(mesh.ranks(), 30);
  std::vector<Result> results(ends.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ends.size(); ++r) {
    threads.emplace_back([&, r] { results[r] = work(r, std::move(ends[r])); });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::vector<ChoiceOptions> figures_on(const Mesh& mesh,
                                      const std::vector<std::shared_ptr<Engine>>& engines) {
  return on_ranks<ChoiceOptions>(mesh, [&](size_t r, std::unique_ptr<Transport> end) {
    return figures_of(*engines[r % engines.size()], mesh, *end, Linking::none);
  });
}

TEST_F(MeshFigures, AllRanksHaveTheSame) {
  Mesh mesh = mesh_of("x=2, y=3, z=1", "mesh");
  std::vector<ChoiceOptions> all = figures_on(mesh, {engine_in("")});
  ASSERT_EQ(all[0].links.axes.size(), 3u);
  for (const ChoiceOptions& one : all) {
    EXPECT_EQ(one.links.axes, all[0].links.axes);
    EXPECT_EQ(one.rates.multiply_adds_per_ns, all[0].rates.multiply_adds_per_ns);
  }
  for (size_t axis : {0, 1}) {
    EXPECT_GT(all[0].links.axes[axis].latency_ns, 0);
    EXPECT_GT(all[0].links.axes[axis].bytes_per_ns, 0);
  }
}

TEST_F(MeshFigures, RankZeroKeepsThemAndAllTakeThem) {
  Mesh mesh = mesh_of("x=2", "mesh");
  std::vector<std::shared_ptr<Engine>> engines{engine_in(directory_ + "/zero"),
                                               engine_in(directory_ + "/one")};
  std::vector<ChoiceOptions> first = figures_on(mesh, engines);
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(directory_ + "/zero")) {
    std::string name = file.path().filename();
    if (name.starts_with("mesh-")) files.push_back(file.path());
  }
  ASSERT_EQ(files.size(), 1u);
  // What is in the file holds, not what would be measured now.
  std::ifstream in(files[0]);
  std::string kept(std::istreambuf_iterator<char>(in), {});
  size_t at = kept.find("\"latency_ns\": ") + 14;
  kept.replace(at, kept.find(',', at) - at, "77777.0");
  std::ofstream(files[0]) << kept;
  for (const ChoiceOptions& one : figures_on(mesh, engines)) {
    EXPECT_EQ(one.links.axes[0].latency_ns, 77777);
    EXPECT_EQ(one.links.axes[0].bytes_per_ns, first[0].links.axes[0].bytes_per_ns);
  }
  std::ofstream(files[0]) << "{\"axes\": 3";
  std::vector<ChoiceOptions> again = figures_on(mesh, engines);
  EXPECT_NE(again[0].links.axes[0].latency_ns, 77777);
  EXPECT_EQ(again[0].links.axes, again[1].links.axes);
}

TEST_F(MeshFigures, FilesThatNoMachineWroteAreNone) {
  auto directory = opened("cache");
  std::vector<Link> links{{2000, 10}, {5000, 1}};
  EXPECT_TRUE(store_links(directory.get(), "here", links));
  EXPECT_EQ(load_links(directory.get(), "here", 2), links);
  EXPECT_EQ(load_links(directory.get(), "there", 2), std::nullopt);
  EXPECT_EQ(load_links(directory.get(), "here", 3), std::nullopt);
  EXPECT_EQ(load_links(nullptr, "here", 2), std::nullopt);
  EXPECT_FALSE(store_links(nullptr, "here", links));
  links[0].bytes_per_ns = -1;
  EXPECT_TRUE(store_links(directory.get(), "here", links));
  EXPECT_EQ(load_links(directory.get(), "here", 2), std::nullopt);
}

TEST_F(MeshFigures, DeterministicEnginesMeasureNothing) {
  Mesh mesh = mesh_of("x=2", "mesh");
  for (const ChoiceOptions& one : figures_on(mesh, {engine_in(""), engine_in("", true)})) {
    EXPECT_TRUE(one.links.axes.empty());
  }
}

TEST_F(MeshFigures, AllRanksChooseTheSame) {
  Mesh mesh = mesh_of("x=2, y=2", "mesh");
  auto source = std::make_shared<const Program>(parse_tile(
      std::make_shared<const Source>(Source{"test.tile",
                                            "function (A[M, L], B[L, N]) -> (D) {"
                                            "  C[i, j: M, N] = +(A[i, k] * B[k, j]);  D = tanh(C);"
                                            "}"})));
  std::shared_ptr<Engine> engine = engine_in("");
  using Boxes = std::vector<std::vector<Box>>;
  std::vector<Boxes> boxes = on_ranks<Boxes>(mesh, [&](size_t, std::unique_ptr<Transport> end) {
    auto ranks = std::make_shared<RankMesh>(mesh, std::move(end));
    MeshProgramOptions what{{{DType::f32, {300, 200}}, {DType::f32, {200, 100}}}, "auto"};
    MeshProgram program(engine, source, ranks, what);
    return Boxes{program.inputs()[0].boxes, program.inputs()[1].boxes, program.outputs()[0].boxes};
  });
  for (const Boxes& one : boxes) EXPECT_EQ(one, boxes[0]);
}

TEST_F(MeshFigures, WhatATextLeavesOpen) {
  Program source =
      parse_tile(std::make_shared<const Source>(Source{"test.tile",
                                                       "function (A[M, L], B[L, N]) -> (C) {"
                                                       "  C[i, j: M, N] = +(A[i, k] * B[k, j]);"
                                                       "}"}));
  std::vector<InputType> types{{DType::f32, {512, 512}}, {DType::f32, {512, 512}}};
  Mesh mesh = mesh_of("x=4", "mesh");
  auto division = [&](const std::string& layouts) {
    return divide(source, types, mesh, layouts, "layouts");
  };
  auto layout = [&](const Division& d, size_t tensor) {
    return to_string(d.parts.distribution.layouts[TensorId(tensor)], "T", mesh);
  };
  // Nothing is named: inputs and outputs are spread.
  for (const char* text : {"", " # nothing\n"}) {
    Division spread = division(text);
    EXPECT_TRUE(spread.choice.has_value());
    for (size_t t : {0, 1, 2}) EXPECT_EQ(layout(spread, t), "T[x, *]") << t;
  }
  // All are open: nothing moves.
  Division open = division("auto");
  EXPECT_EQ(open.choice->cost.exchange_ns, 0);
  EXPECT_TRUE(open.parts.exchanges.empty());
  // Others follow what is named, or are chosen.
  Division follows = division("C[*, x] follow");
  EXPECT_FALSE(follows.choice.has_value());
  EXPECT_EQ(layout(follows, 0), "T[*, *]");
  EXPECT_EQ(layout(follows, 1), "T[*, x]");
  EXPECT_TRUE(division("C[*, x]").choice.has_value());
  EXPECT_FALSE(division("follow").choice.has_value());
  try {
    division("auto follow");
    FAIL() << "auto and follow";
  } catch (const FailureInText& failure) {
    EXPECT_THAT(failure.diagnostic().message, HasSubstr("is said twice"));
  }
}

}  // namespace
}  // namespace tile::test
