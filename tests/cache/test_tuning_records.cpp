// Tuning records: lines that travel between builds and machines, and what is wrong with lines.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "core/kernel/canonical.h"
#include "core/schedule/space/candidates.h"
#include "core/target/rates.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/records/processor_key.h"
#include "runtime/engine/records/record_set.h"
#include "tests/cache/cache_directory.h"
#include "tests/executors/run_backends.h"
#include "tests/support/sanitized.h"
#include "tests/support/schedule_kernels.h"

namespace tile {
namespace {

namespace fs = std::filesystem;

class TuningRecordFiles : public test::CacheDirectory {
 protected:
  TuningRecords records(const std::string& folder, const std::string& processor = "here") {
    return TuningRecords(opened(folder), true, processor,
                         [this](const std::string& line) { lines_.push_back(line); });
  }
  fs::path file(const std::string& folder, const std::string& processor = "here") const {
    return fs::path(directory_) / folder / records_file(processor);
  }
  static TuningRecord record(const std::string& schedule, double ns, const std::string& host,
                             int64_t time = 1) {
    TuningRecord r{"kernel", schedule, ns};
    r.host = host;
    r.time = time;
    return r;
  }
};

TEST_F(TuningRecordFiles, LinesComeBackAsTheyWere) {
  TuningRecord r = record("a \"schedule\"\n", 81.25, "höst", 1780000000000);
  r.samples = 20;
  r.spread = 0.0125;
  r.name = "C";
  r.version = "0.2.0";
  RecordLine line = parse_line(to_line(r, "a processor"));
  ASSERT_EQ(line.kind, RecordLine::Kind::record);
  EXPECT_EQ(line.processor, "a processor");
  EXPECT_EQ(line.record.schedule, r.schedule);
  EXPECT_EQ(line.record.ns, r.ns);
  EXPECT_EQ(line.record.samples, 20);
  EXPECT_EQ(line.record.spread, r.spread);
  EXPECT_EQ(line.record.host, r.host);
  EXPECT_EQ(line.record.time, r.time);
  EXPECT_FALSE(line.record.refuted);
  r.refuted = true;
  EXPECT_TRUE(parse_line(to_line(r, "a processor")).record.refuted);
}

TEST_F(TuningRecordFiles, EveryDamagedByteMakesALineNone) {
  std::string good = to_line(record("schedule", 5, "host"), "here");
  for (size_t at = 0; at < good.size(); ++at) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_NE(parse_line(damaged).kind, RecordLine::Kind::record) << at;
    EXPECT_NE(parse_line(good.substr(0, at)).kind, RecordLine::Kind::record) << at;
  }
}

// A line with the sum that its text needs.
std::string sealed(const std::string& text) { return text + ",\"sum\":\"" + digest(text) + "\"}"; }
std::string unsealed(const std::string& line) { return line.substr(0, line.rfind(",\"sum\":")); }

// Bytes that the process has had at most.
int64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

TEST_F(TuningRecordFiles, OfNestedValuesNothingIsMade) {
  std::string good = to_line(record("schedule", 5, "host"), "here");
  EXPECT_EQ(parse_line(sealed(unsealed(good))).kind, RecordLine::Kind::record);
  constexpr size_t kDeep = 4'000'000;
  int64_t before = peak_bytes();
  for (const char* opens : {"[", "{\"a\":", "[[],"}) {
    std::string deep;
    while (deep.size() < kDeep) deep += opens;
    for (const std::string& start : {unsealed(good), std::string("{\"device\":\"\"")}) {
      EXPECT_EQ(parse_line(sealed(start + ",\"more\":" + deep)).kind, RecordLine::Kind::damaged);
    }
  }
  EXPECT_EQ(parse_line(sealed(unsealed(good) + ",\"more\":[1,[2]]")).kind,
            RecordLine::Kind::record);
  std::string nested = sealed(unsealed(good) + ",\"host\":[\"host\"]");
  EXPECT_NE(parse_line(nested).kind, RecordLine::Kind::record);
  // AddressSanitizer keeps what is freed for a while.
  if (!test::kSanitized) {
    EXPECT_LT(peak_bytes() - before, int64_t{100} << 20);
  }
}

TEST_F(TuningRecordFiles, ATextLongerThanAnyRecordIsDamage) {
  std::string name(size_t{17} << 20, 'x');
  EXPECT_EQ(parse_line(to_line(record(name, 5, "host"), "here")).kind, RecordLine::Kind::damaged);
}

TEST_F(TuningRecordFiles, RefutedIsTrueOrNothing) {
  std::string good = unsealed(to_line(record("schedule", 5, "host"), "here"));
  EXPECT_TRUE(parse_line(sealed(good + ",\"refuted\":true")).record.refuted);
  for (const char* other : {"false", "null", "0", "\"true\"", "[true]"}) {
    EXPECT_FALSE(parse_line(sealed(good + ",\"refuted\":" + other)).record.refuted) << other;
  }
}

// A set knows a record's cell without looking at all others.
TEST_F(TuningRecordFiles, AHundredThousandOfOneKernel) {
  RecordSet set;
  constexpr int kMany = 100'000;
  std::clock_t start = std::clock();
  for (int i = 0; i < kMany; ++i) {
    set.add("here", record("a schedule with the number " + std::to_string(i), 5, "host"));
  }
  size_t known = 0;
  for (const TuningRecord& r : set.of("here").at("kernel")) known += set.has("here", r) ? 1 : 0;
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 10);
  EXPECT_EQ(known, size_t{kMany});
  // The latest of a cell counts.
  set.add("here", record("a schedule with the number 7", 3, "host", 2));
  set.add("here", record("a schedule with the number 7", 9, "host", 1));
  EXPECT_EQ(set.size(), size_t{kMany});
  EXPECT_EQ(set.of("here").at("kernel").at(7).ns, 3);
  EXPECT_FALSE(set.has("here", record("a schedule with the number 7", 3, "host", 3)));
  EXPECT_FALSE(set.has("there", record("a schedule with the number 7", 3, "host")));
}

TEST_F(TuningRecordFiles, NumbersThatNoTimeIsAreDamage) {
  using Bad = std::tuple<double, int64_t, double>;
  for (auto [ns, samples, spread] : {Bad{0, 1, 0}, Bad{-1, 1, 0}, Bad{5, 0, 0}, Bad{5, 1, -1}}) {
    TuningRecord r = record("schedule", ns, "host");
    r.samples = samples;
    r.spread = spread;
    EXPECT_EQ(parse_line(to_line(r, "here")).kind, RecordLine::Kind::damaged);
  }
}

TEST_F(TuningRecordFiles, WhatIsNoRecordIsPassedOverWithOneLine) {
  records("one").add(record("good", 5, "host"));
  std::ofstream(file("one"), std::ios::app)
      << "{\"device\":\"1\",\"kernel\":\"k\",\"schedule\":\"s\",\"ns\":1,\"identity\":\"i\"}\n"
      << "{\"tile\":\"tuning 3\",\"for\":\"x\"}\nnoise\n\nmore noise\n";
  EXPECT_EQ(records("one").find("kernel"), "good");
  EXPECT_EQ(lines_.size(), 3U) << "damaged, later, earlier";
  lines_.clear();
  TuningRecords again = records("one");
  again.find("kernel");
  again.find("kernel");
  EXPECT_EQ(lines_.size(), 3U) << "the file was read once";
}

// A writer that is killed leaves half a line: the next one's line is its own.
TEST_F(TuningRecordFiles, AppendingBehindHalfALine) {
  records("one").add(record("first", 5, "host"));
  std::string line = to_line(record("second", 4, "host"), "here");
  std::ofstream(file("one"), std::ios::app) << line.substr(0, line.size() / 2);
  records("one").add(record("third", 3, "host"));
  EXPECT_EQ(records("one").all().size(), 2U);
  EXPECT_EQ(records("one").find("kernel"), "third");
}

TEST_F(TuningRecordFiles, WritersAtOnceLoseNothing) {
  constexpr int kWriters = 4, kEach = 50;
  std::vector<pid_t> children;
  opened("one");
  for (int w = 0; w < kWriters; ++w) {
    pid_t child = fork();
    if (child == 0) {
      std::string why;
      auto folder = PrivateDirectory::open(directory_ + "/one", false, why);
      TuningRecords mine(folder, true, "here", {});
      for (int i = 0; i < kEach; ++i) {
        mine.add(record("s" + std::to_string(i), 5, "host" + std::to_string(w)));
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) waitpid(child, nullptr, 0);
  EXPECT_EQ(records("one").all().size(), static_cast<size_t>(kWriters * kEach));
  EXPECT_TRUE(lines_.empty());
}

TEST_F(TuningRecordFiles, WhatOthersWriteIsSeen) {
  TuningRecords mine = records("one"), other = records("one");
  EXPECT_EQ(mine.find("kernel"), std::nullopt);
  std::string before = mine.stamp();
  other.add(record("theirs", 5, "other"));
  EXPECT_EQ(mine.find("kernel"), "theirs");
  EXPECT_NE(mine.stamp(), before);
  mine.add(record("own", 4, "other"));
  EXPECT_EQ(other.find("kernel"), "own");
  EXPECT_EQ(records("one", "elsewhere").find("kernel"), std::nullopt);
}

// A race writes its verdict last, within one millisecond of the others.
TEST_F(TuningRecordFiles, OfEqualTimesTheLastOfACallSpeaks) {
  std::vector<TuningRecord> race;
  for (const char* schedule : {"a", "b", "c", "verdict"}) {
    race.push_back(record(schedule, 5, "", 0));
  }
  TuningRecords own = records("one");
  own.add(race);
  EXPECT_EQ(own.ranking("kernel").at(0).record.schedule, "verdict");
  EXPECT_EQ(records("one").ranking("kernel").at(0).record.schedule, "verdict");
}

TEST_F(TuningRecordFiles, AHostsLatestTimeCounts) {
  TuningRecords r = records("one");
  r.add(record("lucky", 50, "host", 1));
  r.add(record("solid", 100, "host", 2));
  EXPECT_EQ(r.find("kernel"), "lucky");
  r.add(record("lucky", 110, "host", 3));
  EXPECT_EQ(r.find("kernel"), "solid");
  TuningRecord refutation = record("solid", 100, "host", 4);
  refutation.refuted = true;
  r.add(refutation);
  EXPECT_EQ(r.find("kernel"), "lucky");
  EXPECT_EQ(records("one").find("kernel"), "lucky");
}

// Of the first format, what is about this machine is taken, whatever its build.
TEST_F(TuningRecordFiles, TheFirstFormatIsImported) {
  Kernel kernel = testing::matrix_product(20, 30, 40);
  Target target;
  std::string about = earlier_target(target, "");
  auto line = [&](const std::string& identity, const std::string& text) {
    auto quoted = [](std::string s) {
      for (size_t at = 0; (at = s.find('\n', at)) != std::string::npos;) s.replace(at, 1, "\\n");
      return "\"" + s + "\"";
    };
    return "{\"device\":\"0\",\"kernel\":" + quoted(text) +
           ",\"schedule\":\"s\",\"ns\":7,\"identity\":" + quoted(identity) + "}\n";
  };
  RecordSet set;
  std::string text = line("llvm 19 build 1\n" + about, print(kernel)) +
                     line("llvm 19 build 2\nanother machine", print(kernel)) +
                     line("llvm 19 build 2\n" + about, "no kernel");
  RecordSet::Taken taken = set.add(text, about, "here");
  EXPECT_EQ(taken.earlier, 1U);
  EXPECT_EQ(taken.left, 2U);
  EXPECT_EQ(set.of("here").count(record_key(kernel)), 1U);
  EXPECT_EQ(RecordSet().add(text).left, 3U);
}

TEST_F(TuningRecordFiles, SetsKeepTheLatestOfEachHost) {
  RecordSet set;
  std::string text =
      to_line(record("s", 5, "a", 2), "x") + "\n" + to_line(record("s", 4, "a", 1), "x") + "\n" +
      to_line(record("s", 6, "b", 1), "x") + "\n" + to_line(record("s", 6, "b", 1), "y") + "\n";
  RecordSet::Taken taken = set.add(text + text);
  EXPECT_EQ(taken.records, 8U);
  EXPECT_EQ(taken.fresh, 3U);
  EXPECT_EQ(set.size(), 3U);
  EXPECT_EQ(set.of("x").at("kernel").front().ns, 5);
  RecordSet again;
  again.add(set.text());
  EXPECT_EQ(again.text(), set.text());
}

// The key names neither the build nor what the cost model assumes.
TEST_F(TuningRecordFiles, ProcessorsAreKnownByWhatTheyAre) {
  std::shared_ptr<Engine> engine = test::test_engine("cpu");
  Target target = engine->target();
  const Backend& backend = engine->backend();
  std::string key = processor_key(backend, target, "");
  EXPECT_EQ(key.find("build"), std::string::npos);
  target.core.page_walk_ns += 1;
  target.class_work_ns += 1;
  target.fma_per_ns += 1;
  EXPECT_EQ(processor_key(backend, target, ""), key);
  EXPECT_NE(processor_key(backend, target, "collapse"), key);
  target.threads += 1;
  EXPECT_NE(processor_key(backend, target, ""), key);
}

// A kernel is the same in any program.
TEST_F(TuningRecordFiles, KernelsAreKnownByWhatTheyAre) {
  std::shared_ptr<Engine> engine = test::test_engine("cpu");
  auto key = [&](const std::string& text, std::vector<Shape> shapes) {
    std::vector<InputLayout> layouts;
    for (Shape& s : shapes) layouts.push_back({{DType::f32, std::move(s)}, {}});
    auto e = compile_stages(*test::loaded(engine, text)->executable(layouts));
    return record_key(*e->launches.back().kernel);
  };
  std::string plain =
      key("function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }",
          {{40, 50}, {50, 60}});
  EXPECT_EQ(key("function (X[M, L], Y[L, N]) -> (Z) { Z[r, c: M, N] = +(X[r, t] * Y[t, c]); }",
                {{40, 50}, {50, 60}}),
            plain);
  EXPECT_NE(key("function (A[M, L], B[N, L]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[j, k]); }",
                {{40, 50}, {60, 50}}),
            plain);
  EXPECT_NE(key("function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }",
                {{40, 50}, {50, 61}}),
            plain);
  Kernel kernel = kernel_of_key(plain);
  verify(kernel);
  EXPECT_EQ(record_key(kernel), plain);
  kernel.tensors.edit(0).fixed = true;
  EXPECT_NE(record_key(kernel), plain);
  EXPECT_EQ(record_key(kernel_of_key(record_key(kernel))), record_key(kernel));
}

// A schedule that cannot be used is passed over for the next best.
TEST_F(TuningRecordFiles, WhatCannotBeUsedIsPassedOver) {
  EngineOptions options;
  options.backend = "cpu";
  options.cache_dir = directory_ + "/cache";
  options.cache_mode = "rw";
  options.log = [this](LogLevel, const std::string& line) { note(line); };
  auto product = [&](const std::shared_ptr<Engine>& engine) {
    auto program = test::loaded(
        engine, "function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }");
    std::vector<InputLayout> layouts{{{DType::f32, {40, 50}}, {}}, {{DType::f32, {50, 60}}, {}}};
    return program->executable(layouts);
  };
  auto engine = Engine::create(options);
  auto e = compile_stages(*product(engine));
  const Kernel& kernel = *e->launches[0].kernel;
  std::vector<Schedule> choices = candidates(kernel, engine->target(), 4);
  ASSERT_GT(choices.size(), 1U);
  const Schedule& other = choices[0] == e->launches[0].schedule ? choices[1] : choices[0];
  Schedule illegal_one = other;
  illegal_one.stages[0][0].outer.clear();
  illegal_one.stages[0][0].tile.clear();
  engine->kernels().remember_schedule(kernel, engine->target(), print(illegal_one), 1);
  engine->kernels().remember_schedule(kernel, engine->target(), "nonsense", 2);
  engine->kernels().remember_schedule(kernel, engine->target(), print(other), 3);
  lines_.clear();
  auto again = compile_stages(*product(Engine::create(options)));
  EXPECT_EQ(again->launches[0].schedule, other);
  ASSERT_NE(again->launches[0].record, nullptr);
  EXPECT_EQ(again->launches[0].record->ns, 3);
  EXPECT_NE(explain(*again).find("tuned, record "), std::string::npos);
}

}  // namespace
}  // namespace tile
