// Races between records: a kernel's text is enough, and a lie is found with a clock, too.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "runtime/engine/records/processor_key.h"
#include "runtime/engine/records/tuning_records.h"
#include "runtime/engine/tuning/record_race.h"
#include "tests/executors/run_backends.h"
#include "tests/support/schedule_kernels.h"

namespace tile::test {
namespace {

TuningRecord claim(const Kernel& kernel, const Schedule& schedule, const std::string& host,
                   double ns) {
  TuningRecord r{record_key(kernel), print(schedule), ns};
  r.host = host;
  r.name = "C";
  r.time = 1;
  return r;
}

// Of the candidates the one with the most scalar code: without a vector loop.
Schedule slow_schedule(const Kernel& kernel, const Target& target) {
  Schedule slow = analytic_schedule(kernel, target);
  PieceSchedule& piece = slow.stages[0][0];
  piece.outer = {{IteratorId(0), 1, Binding::serial}, {IteratorId(1), 1, Binding::serial}};
  piece.reduce = {{IteratorId(2), 1, Binding::serial}};
  piece.tile = {};
  piece.packings = {};
  EXPECT_EQ(illegal(slow, kernel, target), "");
  return slow;
}

TEST(RecordRace, ALieIsFoundAndRefuted) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  Kernel kernel = testing::matrix_product(96, 96, 96);
  Schedule good = analytic_schedule(kernel, engine->target());
  Schedule slow = slow_schedule(kernel, engine->target());
  // The truth about the good one, from a first race.
  std::vector<TuningRecord> known{claim(kernel, good, "a", 1)};
  KernelVerdict first = raced_again(engine, record_key(kernel), ranked(known, "me"), known);
  ASSERT_EQ(first.failed, "");
  ASSERT_GT(first.schedules.at(0).measured_ns, 0);
  double truth = first.schedules[0].measured_ns;
  known.clear();
  for (const char* host : {"a", "b", "c", "d"}) known.push_back(claim(kernel, good, host, truth));
  known.push_back(claim(kernel, slow, "liar", truth / 2));
  std::vector<RankedSchedule> all = ranked(known, "me");
  KernelVerdict verdict = raced_again(engine, record_key(kernel), all, known);
  // On a busy machine the spread of the times may cover the lie.
  for (int i = 0; i < 9 && verdict.wrong.empty(); ++i) {
    verdict = raced_again(engine, record_key(kernel), all, known);
  }
  ASSERT_EQ(verdict.wrong.size(), 1U);
  EXPECT_EQ(verdict.wrong[0].host, "liar");
  std::vector<TuningRecord> after = known;
  for (TuningRecord r : verdict.records) {
    if (r.host.empty()) r.host = "me";
    if (r.time == 0) r.time = 2;
    after.push_back(r);
  }
  EXPECT_EQ(ranked(after, "me")[0].record.schedule, print(good));
}

// Texts of kernels come from files: none may end the process, or take all memory.
TEST(RecordRace, WhatIsNoKernelIsNotRaced) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  Kernel kernel = testing::matrix_product(8, 8, 8);
  Schedule pick = analytic_schedule(kernel, engine->target());
  std::string text = record_key(kernel);
  std::string huge = text;
  for (size_t at = 0; (at = huge.find("[8, 8", at)) != std::string::npos; at += 20) {
    huge.replace(at, 5, "[80000000, 80000000");
  }
  std::vector<TuningRecord> known{claim(kernel, pick, "a", 1)};
  std::vector<RankedSchedule> one = ranked(known, "me");
  for (const std::string& bad : {std::string("noise"), std::string(), "fixed 99\n" + text,
                                 std::string("fixed 1"), text.substr(0, text.size() / 2), huge}) {
    try {
      EXPECT_NE(raced_again(engine, bad, one, known).failed, "") << bad;
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.diagnostic().code, "memory") << bad;
    }
  }
  one[0].record.schedule = "noise";
  KernelVerdict verdict = raced_again(engine, text, one, known);
  EXPECT_EQ(verdict.failed, "");
  EXPECT_NE(verdict.schedules[0].unusable, "");
  EXPECT_GT(verdict.pick_ns, 0);
}

TEST(RecordRace, ARaceLeavesItsVerdictLast) {
  Kernel kernel = testing::matrix_product(8, 8, 8);
  std::vector<TuningRecord> records = records_of_race(
      kernel, "verdict", {10, 11, 12},
      {{"once", {1}}, {"tie", {9.9, 12}}, {"slow", {20, 22, 21}}, {"verdict", {10}}}, false);
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records.back().schedule, "verdict");
  EXPECT_EQ(records.back().ns, 10);
  EXPECT_EQ(records.back().samples, 3);
  EXPECT_NEAR(records.back().spread, 0.1, 1e-9);
  EXPECT_EQ(records[0].schedule, "tie");
  EXPECT_EQ(records[0].ns, 10) << "a lead within the noise is none";
  EXPECT_EQ(records_of_race(kernel, "v", {3, 9, 5}, {}, true)[0].ns, 5) << "a GPU's median";
}

TEST(RecordRace, TuningLeavesRecordsOfThisHost) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  std::shared_ptr<LoadedProgram> program = loaded(
      engine, "function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }");
  std::vector<InputLayout> layouts{{{DType::f32, {64, 48}}, {}}, {{DType::f32, {48, 80}}, {}}};
  std::shared_ptr<const Executable> e = tuned(*program->executable(layouts), 50);
  TuningRecords& records = engine->kernels().records(engine->target());
  std::vector<TuningRecord> all = records.all();
  ASSERT_FALSE(all.empty());
  for (const TuningRecord& r : all) {
    EXPECT_EQ(r.host, host_name());
    EXPECT_GT(r.ns, 0);
    EXPECT_GE(r.samples, 1);
    EXPECT_NE(r.version, "");
  }
  const Launch& launch = e->launches.at(0);
  ASSERT_NE(launch.record, nullptr);
  EXPECT_EQ(launch.record->record.schedule, print(launch.schedule));
  // The record of it is among them; of near ties another may lead.
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const TuningRecord& r) {
    return r.kernel == record_key(*launch.kernel) && r.schedule == print(launch.schedule);
  }));
}

}  // namespace
}  // namespace tile::test
