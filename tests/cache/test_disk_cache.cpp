// The disk cache: what it stores comes back, and any fault is a miss.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/schedule/space/candidates.h"
#include "runtime/engine/cache/disk_cache.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/records/tuning_records.h"
#include "runtime/engine/tuning/machine_rates.h"
#include "tests/cache/cache_directory.h"
#include "tests/executors/run_backends.h"
#include "tests/support/random_schedule.h"
#include "tests/support/schedule_kernels.h"

namespace tile {
namespace {

namespace fs = std::filesystem;

class Disk : public test::CacheDirectory {
 protected:
  DiskCache cache(CacheMode mode = CacheMode::read_write) {
    CacheOptions options;
    options.directory = directory_ + "/cache";
    options.mode = mode;
    options.log = [this](const std::string& line) { lines_.push_back(line); };
    return DiskCache(std::move(options));
  }
  static std::vector<std::byte> bytes(const std::string& text) {
    std::vector<std::byte> result(text.size());
    std::transform(text.begin(), text.end(), result.begin(),
                   [](char c) { return static_cast<std::byte>(c); });
    return result;
  }
  fs::path only_entry() const {
    for (const auto& entry : fs::directory_iterator(directory_ + "/cache")) return entry.path();
    return {};
  }
};

TEST_F(Disk, StoresAndReads) {
  cache().write("key", bytes("payload"));
  EXPECT_EQ(cache().read("key"), bytes("payload"));
  EXPECT_EQ(cache().read("other"), std::nullopt);
  cache().write("key", bytes(""));
  EXPECT_EQ(cache().read("key"), bytes(""));
  EXPECT_EQ(summarize_cache(*opened("cache")).entries, 1U);
  EXPECT_EQ(clear_cache(*opened("cache")), 1U);
  EXPECT_EQ(cache().read("key"), std::nullopt);
  EXPECT_TRUE(lines_.empty());
}

TEST_F(Disk, DirectoryIsPrivate) {
  cache().write("key", bytes("payload"));
  struct stat info{};
  ASSERT_EQ(stat((directory_ + "/cache").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
  chmod((directory_ + "/cache").c_str(), 0755);
  EXPECT_EQ(cache().read("key"), std::nullopt) << "a directory open to others is not used";
  EXPECT_EQ(lines_.size(), 1U);
}

TEST_F(Disk, EveryDamagedByteIsAMissAndALine) {
  cache().write("key", bytes("payload"));
  fs::path path = only_entry();
  std::ifstream in(path, std::ios::binary);
  std::string good((std::istreambuf_iterator<char>(in)), {});
  for (size_t at = 0; at < good.size(); ++at) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    std::ofstream(path, std::ios::binary) << damaged;
    lines_.clear();
    EXPECT_EQ(cache().read("key"), std::nullopt) << "byte " << at;
    EXPECT_EQ(lines_.size(), 1U) << "byte " << at;
  }
  for (size_t size : {size_t{0}, size_t{5}, size_t{32}, good.size() - 1}) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << good.substr(0, size);
    EXPECT_EQ(cache().read("key"), std::nullopt) << "cut to " << size;
  }
  std::ofstream(path, std::ios::binary | std::ios::trunc) << good;
  EXPECT_EQ(cache().read("key"), bytes("payload"));
}

TEST_F(Disk, ReadOnlyWritesNothing) {
  cache(CacheMode::read_only).write("key", bytes("payload"));
  EXPECT_EQ(cache().read("key"), std::nullopt);
}

TEST_F(Disk, AnUnusableDirectoryIsOnlySlow) {
  std::ofstream(directory_ + "/cache") << "a file";
  DiskCache broken = cache();
  broken.write("key", bytes("payload"));
  EXPECT_EQ(broken.read("key"), std::nullopt);
  EXPECT_EQ(lines_.size(), 1U);
}

TEST_F(Disk, ModesAreParsed) {
  EXPECT_EQ(parse_cache_mode("rw"), CacheMode::read_write);
  EXPECT_EQ(parse_cache_mode("ro"), CacheMode::read_only);
  EXPECT_EQ(parse_cache_mode("off"), CacheMode::off);
  EXPECT_EQ(parse_cache_mode("verify"), CacheMode::verify);
  EXPECT_EQ(parse_cache_mode("yes"), std::nullopt);
}

// Kernels come back from disk in another engine, run the same, and a damaged entry is compiled
// anew.
TEST_F(Disk, KernelsAreReused) {
  auto make = [&](const std::string& mode) {
    EngineOptions options;
    options.backend = "cpu";
    options.cache_dir = directory_ + "/cache";
    options.cache_mode = mode;
    return Engine::create(std::move(options));
  };
  test::RandomCase drawn = test::random_case(7);
  std::shared_ptr<Engine> first = make("rw");
  auto expected = test::run_code(*test::compiled(first, drawn), drawn.inputs);
  uint64_t kernels = first->kernels().compiled;
  ASSERT_GT(kernels, 0U);
  std::shared_ptr<Engine> second = make("rw");
  auto got = test::run_code(*test::compiled(second, drawn), drawn.inputs);
  EXPECT_EQ(second->kernels().compiled, 0U);
  EXPECT_EQ(second->kernels().disk_hits, kernels);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].bytes, expected[i].bytes);
  std::shared_ptr<Engine> verifying = make("verify");
  test::compiled(verifying, drawn);
  EXPECT_EQ(verifying->kernels().compiled, kernels) << "verify compiles and compares";
  for (const auto& entry : fs::directory_iterator(directory_ + "/cache")) {
    std::ofstream(entry.path(), std::ios::binary | std::ios::trunc) << "garbage";
  }
  std::shared_ptr<Engine> third = make("rw");
  got = test::run_code(*test::compiled(third, drawn), drawn.inputs);
  EXPECT_EQ(third->kernels().compiled, kernels);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].bytes, expected[i].bytes);
}

// What tuning found is used by the next engine, and a record that does not parse is ignored.
TEST_F(Disk, TunedSchedulesAreReused) {
  auto make = [&] {
    EngineOptions options;
    options.backend = "cpu";
    options.cache_dir = directory_ + "/cache";
    options.cache_mode = "rw";
    options.log = [this](LogLevel, const std::string& line) { lines_.push_back(line); };
    return Engine::create(std::move(options));
  };
  auto product = [&](const std::shared_ptr<Engine>& engine) {
    auto program = test::loaded(
        engine, "function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }");
    std::vector<InputLayout> layouts{{{DType::f32, {40, 50}}, {}}, {{DType::f32, {50, 60}}, {}}};
    return program->executable(layouts);
  };
  std::shared_ptr<Engine> first = make();
  std::shared_ptr<const Executable> e = product(first);
  Schedule other = random_schedule(*e->launches[0].kernel, first->target(), 5);
  ASSERT_NE(print(other), print(e->launches[0].schedule));
  first->kernels().remember_schedule(*e->launches[0].kernel, first->target(), print(other), 10);
  EXPECT_EQ(print(product(make())->launches[0].schedule), print(other));
  std::shared_ptr<Engine> spoiled = make();
  spoiled->kernels().remember_schedule(*e->launches[0].kernel, first->target(), "nonsense", 5);
  EXPECT_EQ(print(product(spoiled)->launches[0].schedule), print(other)) << "the next best";
  EXPECT_EQ(lines_.size(), 1U);
}

// Merging two files with cat: of equal kernels the fastest record counts; a damaged line and
// another device's records are no records.
TEST_F(Disk, TuningRecordsAreMergedByConcatenation) {
  auto records = [&](const std::string& folder, const std::string& identity) {
    return TuningRecords(opened(folder), true, identity, {});
  };
  std::string one = "one", two = "two";
  records(one, "here").add({"kernel a", "slow", 20});
  records(one, "here").add({"kernel b", "only", 7});
  records(two, "here").add({"kernel a", "fast \"quoted\"", 10});
  fs::path file = fs::directory_iterator(directory_ + "/one")->path();
  std::ifstream other(directory_ + "/two/" + file.filename().string());
  std::ofstream(file, std::ios::app)
      << "{\"device\":\"damaged\n"
      << other.rdbuf() << to_line({"kernel b", "elsewhere", 1}, "there") << "\n";
  TuningRecords merged = records(one, "here");
  EXPECT_EQ(merged.find("kernel a"), "fast \"quoted\"");
  EXPECT_EQ(merged.find("kernel b"), "only");
  EXPECT_EQ(merged.find("kernel c"), std::nullopt);
  EXPECT_EQ(records("none", "here").find("kernel a"), std::nullopt);
}

MachineRates some_rates() {
  MachineRates rates;
  rates.fma_per_ns = {{128, 31.5}, {256, 65}, {512, 130}};
  rates.l1_bytes_per_ns = 350;
  rates.l2_bytes_per_ns = 210;
  rates.l3_bytes_per_ns = 90;
  rates.dram_bytes_per_ns = 20;
  rates.all_fma_per_ns = 255;
  rates.all_l2_bytes_per_ns = 400;
  rates.all_l3_bytes_per_ns = 150;
  rates.all_dram_bytes_per_ns = 27;
  rates.l3_bytes = 16 << 20;
  rates.threads = 2;
  return rates;
}

TEST_F(Disk, MeasuredRatesAreKept) {
  MachineRates rates = some_rates();
  auto folder = opened("rates");
  std::string why;
  auto load = [&](const char* identity) {
    why.clear();
    return load_rates(folder.get(), identity, why);
  };
  EXPECT_EQ(load("here"), std::nullopt);
  EXPECT_EQ(why, "");
  ASSERT_TRUE(store_rates(folder.get(), "here", rates));
  EXPECT_EQ(load("here"), rates);
  EXPECT_EQ(load("there"), std::nullopt);
  fs::path file = fs::directory_iterator(directory_ + "/rates")->path();
  for (const char* text : {"", "rates", "[1]", "{\"identity\":\"here\"}", "{\"identity\":7}",
                           "{\"identity\":\"here\",\"l1_bytes_per_ns\":[]}"}) {
    std::ofstream(file, std::ios::trunc) << text;
    EXPECT_EQ(load("here"), std::nullopt) << text;
    EXPECT_NE(why, "") << text;
  }
  EXPECT_FALSE(store_rates(nullptr, "here", rates));
  EXPECT_EQ(load_rates(nullptr, "here", why), std::nullopt);
}

// What is stored counts in later engines, and records of tuning stay good.
TEST_F(Disk, EnginesCountWithStoredRates) {
  EngineOptions options;
  options.backend = "cpu";
  options.cache_dir = directory_ + "/cache";
  options.cache_mode = "rw";
  auto before = Engine::create(options);
  EXPECT_EQ(before->rates(), std::nullopt);
  MachineRates rates = some_rates();
  Target machine = before->backend().target();
  std::string identity = before->backend().identity() + "\n" + machine.features + "\nthreads " +
                         std::to_string(machine.threads);
  ASSERT_TRUE(store_rates(before->kernels().directory().get(), identity, rates));
  auto after = Engine::create(options);
  EXPECT_EQ(after->rates(), rates);
  EXPECT_EQ(after->target().fma_per_ns, rates.fma_per_ns.at(after->target().vector_bits));
  EXPECT_EQ(after->measured_rates(), rates) << "nothing is left to measure";
  Kernel kernel = testing::matrix_product(20, 30, 40);
  Schedule schedule = analytic_schedule(kernel, before->target());
  before->kernels().remember_schedule(kernel, before->target(), print(schedule), 100);
  auto later = Engine::create(options);
  EXPECT_EQ(later->kernels().tuned_schedule(kernel, later->target()), print(schedule));
  Kernel other = testing::matrix_product(21, 30, 44);
  std::vector<Schedule> near = later->kernels().transferred_schedules(other, later->target(), 1);
  ASSERT_EQ(near.size(), 1U);
  EXPECT_TRUE(later->kernels()
                  .transferred_schedules(testing::row_sum(5, 6, false), later->target(), 1)
                  .empty());
}

// What a busy machine showed counts in the process that measured it alone, which says so.
TEST_F(Disk, EnginesMeasureOnceAndKeepWhatIsPlausible) {
  EngineOptions options;
  options.backend = "cpu";
  options.cache_dir = directory_ + "/cache";
  options.cache_mode = "rw";
  options.log = [this](LogLevel, const std::string& line) { lines_.push_back(line); };
  auto before = Engine::create(options);
  MachineRates rates = before->measured_rates();
  EXPECT_EQ(before->measured_rates(), rates) << "measured once";
  EXPECT_EQ(before->rates(), std::nullopt);
  bool was_raised = std::any_of(lines_.begin(), lines_.end(), [](const std::string& line) {
    return line.find("raised") != std::string::npos;
  });
  EXPECT_TRUE(was_raised || plausible(rates));
  EXPECT_EQ(Engine::create(options)->rates(), was_raised ? std::nullopt : std::optional(rates));
}

TEST_F(Disk, StaysBelowItsLimit) {
  CacheOptions options;
  options.directory = directory_ + "/cache";
  options.limit_bytes = 100000;
  DiskCache cache(options);
  std::vector<std::byte> payload(1000);
  for (int i = 0; i < 600; ++i) cache.write("key " + std::to_string(i), payload);
  EXPECT_LE(summarize_cache(*opened("cache")).bytes, options.limit_bytes / 16 * 17 + 1100);
  EXPECT_TRUE(cache.read("key 599"));
  EXPECT_FALSE(cache.read("key 0"));
}

// Of two entries of one age the one that was read stays, whatever the file system keeps of
// accesses.
TEST_F(Disk, WhatIsUsedStays) {
  CacheOptions options;
  options.directory = directory_ + "/cache";
  options.limit_bytes = 100000;
  DiskCache cache(options);
  std::vector<std::byte> payload(1000);
  for (int i = 0; i < 60; ++i) cache.write("key " + std::to_string(i), payload);
  const timespec old[] = {{1000, 0}, {1000, 0}};
  for (const auto& entry : fs::directory_iterator(options.directory)) {
    ASSERT_EQ(utimensat(AT_FDCWD, entry.path().c_str(), old, 0), 0);
  }
  EXPECT_TRUE(cache.read("key 7"));
  for (int i = 60; i < 110; ++i) cache.write("key " + std::to_string(i), payload);
  cache.tidy();
  EXPECT_TRUE(cache.read("key 7"));
  int left = 0;
  for (int i = 0; i < 60; ++i) left += cache.read("key " + std::to_string(i)) ? 1 : 0;
  EXPECT_LT(left, 45) << "what was not used goes first";
}

TEST_F(Disk, LimitsAreParsed) {
  EXPECT_EQ(parse_cache_limit("100"), 100U);
  EXPECT_EQ(parse_cache_limit("3K"), 3072U);
  EXPECT_EQ(parse_cache_limit("500M"), size_t{500} << 20);
  EXPECT_EQ(parse_cache_limit("2G"), size_t{2} << 30);
  for (const char* text : {"", "G", "0", "-1", "1T", "1GB", "1.5G", "99999999999G", "0x10"}) {
    EXPECT_EQ(parse_cache_limit(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace tile
