// Rates of a machine that other work keeps busy: trials during which the thread was put aside, and
// results that no machine has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "backends/cpu/probe/measure_rates.h"
#include "runtime/engine/tuning/machine_rates.h"
#include "tests/cache/cache_directory.h"

namespace tile {
namespace {

namespace fs = std::filesystem;

// Calls that take the given times of the day and of work, the last ones again and again.
class Calls {
 public:
  struct Taken {
    double wall, work;
  };
  explicit Calls(std::vector<Taken> taken) : taken_(std::move(taken)) {}
  double least() {
    return cpu::undisturbed_ns([this] { run(); },
                               {[this] { return wall_; }, [this] { return work_; }});
  }
  size_t made() const { return made_; }

 private:
  void run() {
    const Taken& t = taken_[std::min(made_++, taken_.size() - 1)];
    wall_ += t.wall;
    work_ += t.work;
  }
  std::vector<Taken> taken_;
  double wall_ = 0, work_ = 0;
  size_t made_ = 0;
};

TEST(MachineRates, TrialsThatOthersDisturbedDoNotCount) {
  EXPECT_EQ(Calls({{90, 90}, {70, 70}, {50, 20}, {65, 64}, {80, 80}}).least(), 65);
  // The first call warms up.
  EXPECT_EQ(Calls({{10, 10}, {70, 70}}).least(), 70);
}

TEST(MachineRates, ABusyMachineIsTriedForLonger) {
  std::vector<Calls::Taken> calls(40, {1e6, 1e5});
  calls.push_back({3e5, 3e5});
  EXPECT_EQ(Calls(calls).least(), 3e5);
  Calls never({{1e6, 1e5}});
  EXPECT_TRUE(std::isinf(never.least()));
  EXPECT_LT(never.made(), 200U);
}

MachineRates free_machine() {
  MachineRates r;
  r.fma_per_ns = {{128, 20}, {256, 61}, {512, 120}};
  r.l1_bytes_per_ns = 380;
  r.l2_bytes_per_ns = 240;
  r.l3_bytes_per_ns = 110;
  r.dram_bytes_per_ns = 55;
  r.l3_bytes = 16 << 20;
  r.threads = 2;
  r.all_fma_per_ns = 240;
  r.all_l2_bytes_per_ns = 470;
  r.all_l3_bytes_per_ns = 200;
  r.all_dram_bytes_per_ns = 88;
  return r;
}

TEST(MachineRates, WhatNoMachineHasIsNotPlausible) {
  EXPECT_TRUE(plausible(free_machine()));
  auto spoiled = [](auto change) {
    MachineRates r = free_machine();
    change(r);
    return !plausible(r);
  };
  EXPECT_TRUE(spoiled([](MachineRates& r) { r.fma_per_ns[512] = 10; }));
  EXPECT_TRUE(spoiled([](MachineRates& r) { r.fma_per_ns[128] = 3; }));
  EXPECT_TRUE(spoiled([](MachineRates& r) { r.fma_per_ns[512] = 40; }));
  EXPECT_TRUE(spoiled([](MachineRates& r) { r.l2_bytes_per_ns = 60; }));
  EXPECT_TRUE(spoiled([](MachineRates& r) { r.dram_bytes_per_ns = 0; }));
  EXPECT_TRUE(spoiled([](MachineRates& r) { r.all_fma_per_ns = 90; }));
  EXPECT_TRUE(spoiled([](MachineRates& r) { r.all_dram_bytes_per_ns = 20; }));
  EXPECT_FALSE(spoiled([](MachineRates& r) { r.all_fma_per_ns = 120; })) << "two of one core";
  EXPECT_FALSE(spoiled([](MachineRates& r) { r.threads = 1, r.all_l2_bytes_per_ns = 0; }));
}

TEST(MachineRates, WhatIsTooLowIsRaised) {
  EXPECT_EQ(raised(free_machine()), free_machine());
  auto mended = [](auto change) {
    MachineRates r = free_machine();
    change(r);
    EXPECT_FALSE(plausible(r));
    return plausible(raised(r));
  };
  EXPECT_TRUE(mended([](MachineRates& r) { r.fma_per_ns[512] = 10; }));
  EXPECT_TRUE(mended([](MachineRates& r) { r.fma_per_ns[128] = 3; }));
  EXPECT_TRUE(mended([](MachineRates& r) { r.l1_bytes_per_ns = 9; }));
  EXPECT_TRUE(mended([](MachineRates& r) { r.l2_bytes_per_ns = 60; }));
  EXPECT_TRUE(mended([](MachineRates& r) { r.dram_bytes_per_ns = 500; }));
  EXPECT_TRUE(mended([](MachineRates& r) { r.all_fma_per_ns = 90; }));
  EXPECT_TRUE(mended([](MachineRates& r) { r.threads = 64; }));
  EXPECT_FALSE(mended([](MachineRates& r) { r.l3_bytes_per_ns = 0; })) << "not measured";
  EXPECT_FALSE(mended([](MachineRates& r) { r.all_fma_per_ns = 0; }));
}

class StoredRates : public test::CacheDirectory {
 protected:
  bool store(const MachineRates& rates) { return store_rates(opened("r").get(), "here", rates); }
  std::optional<MachineRates> load() {
    std::string why;
    std::optional<MachineRates> rates = load_rates(opened("r").get(), "here", why);
    EXPECT_EQ(why.empty(), rates.has_value());
    return rates;
  }
};

// A file of an earlier version may hold them.
TEST_F(StoredRates, SpoiledFilesAreNone) {
  ASSERT_TRUE(store(free_machine()));
  EXPECT_EQ(load(), free_machine());
  MachineRates spoiled = free_machine();
  spoiled.fma_per_ns[512] = 10;
  ASSERT_TRUE(store(spoiled));
  EXPECT_EQ(load(), std::nullopt);
}

// What an earlier version did not measure is measured again.
TEST_F(StoredRates, FilesWithoutARateAreNone) {
  MachineRates rates = free_machine();
  rates.tile_bf16_per_ns = 680;
  ASSERT_TRUE(store(rates));
  EXPECT_EQ(load(), rates);
  fs::path file = fs::directory_iterator(directory_ + "/r")->path();
  std::string text, line;
  std::ifstream in(file);
  while (std::getline(in, line)) {
    if (line.find("tile_bf16") == std::string::npos) text += line + "\n";
  }
  std::ofstream(file) << text;
  EXPECT_EQ(load(), std::nullopt);
}

}  // namespace
}  // namespace tile
