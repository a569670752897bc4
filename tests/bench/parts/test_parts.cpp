#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <sstream>
#include <thread>
#include <tuple>

#include "backends/cpu/probe/probe_loops.h"
#include "bench/commands/program_file.h"
#include "bench/commands/session.h"
#include "bench/report/report.h"
#include "bench/report/trust.h"
#include "core/interpret/interpret.h"
#include "core/language/language.h"
#include "core/passes/bind/bind.h"

namespace tile::bench {
namespace {

std::shared_ptr<Engine> reference_engine() {
  EngineOptions options;
  options.backend = "reference";
  return Engine::create(options);
}

Prepared prepared(const std::string& text, std::map<std::string, InputType> shapes) {
  auto workload = std::make_shared<Workload>();
  workload->source = std::make_shared<Source>(Source{"test.tile", text});
  workload->kind = "test";
  return Prepared(reference_engine(), {"test", workload, std::move(shapes)});
}

// The interpreter visits the points one by one.
double visited(Prepared& p) {
  std::vector<HostTensor> inputs;
  for (const Tensor& t : p.inputs()) inputs.emplace_back(t.type(), t.shape());
  return static_cast<double>(interpret(p.executable().bound, inputs).points);
}

TEST(Work, OfAProduct) {
  Prepared p =
      prepared("function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
               {{"A", {DType::f32, {3, 4}}}, {"B", {DType::f32, {4, 5}}}});
  EXPECT_EQ(p.work().points, 3 * 4 * 5);
  EXPECT_EQ(p.work().operations, 2 * 3 * 4 * 5);
  EXPECT_EQ(p.work().bytes, 4 * (3 * 4 + 4 * 5 + 3 * 5));
}

TEST(Work, CountsValidPointsOnly) {
  Prepared p = prepared(
      "function (I[H, W, C], K[Y, X, C]) -> (O) {"
      "  O[y, x: H, W] = +(I[y + j - 1, x + i - 1, c] * K[j, i, c]); }",
      {{"I", {DType::f32, {7, 5, 2}}}, {"K", {DType::f32, {3, 3, 2}}}});
  double rows = 3 * 7 - 2, columns = 3 * 5 - 2;
  EXPECT_EQ(p.work().points, rows * columns * 2);
  EXPECT_EQ(p.work().points, visited(p));
  EXPECT_EQ(p.work().operations, 2 * p.work().points);
}

TEST(Work, OfATriangleAndOfFractions) {
  Prepared triangle = prepared("function (X[N]) -> (O) { O[i: N] = +(X[j]), i - j < N; }",
                               {{"X", {DType::f32, {9}}}});
  EXPECT_EQ(triangle.work().points, visited(triangle));
  Prepared halves =
      prepared("function (X[N]) -> (O) { O[2 * i: 2 * N] = +(X[(i + 2 * j) / 3]), j < 4; }",
               {{"X", {DType::f32, {9}}}});
  EXPECT_EQ(halves.work().points, visited(halves));
}

// An MFG filter whose body adds a pixel and multiplies, in a loop of so many iterations.
Work work_of_loop(const std::string& length) {
  std::string text =
      "@param_i32 radius(SLIDER, label=\"Radius\", min=1, max=9, init=2)\n"
      "def result_f32 |x, y| { reduce(init=1.0, 0..<" +
      length + ") |i, m| { m*sin(m + input_f32(x, y)) } }\n";
  auto source = std::make_shared<Source>(Source{"loop.mfg", text});
  Program program = parse(Language::mfg, source);
  std::vector<InputType> types(program.inputs.size(), InputType{DType::i32, {}});
  for (size_t i = 0; i < types.size(); ++i) {
    if (!program.tensors[program.inputs[i]].parameter) types[i] = {DType::f32, {6, 5}};
  }
  return work_of(tile::bind(program, types), reference_engine()->target());
}

TEST(Work, OfLoopsInsideIsOfEachIteration) {
  Work ten = work_of_loop("10"), hundred = work_of_loop("100");
  EXPECT_EQ(ten.points, 30);
  EXPECT_GE(ten.operations, 30 * 10 * 2) << "a product and a sum at least";
  EXPECT_NEAR(hundred.operations / ten.operations, 10, 0.5);
  Work open = work_of_loop("radius");
  EXPECT_EQ(open.operations, 0) << "nobody knows how many there are";
  EXPECT_TRUE(open.counted);
}

// What is too large to count is too large for the interpreter too.
TEST(Work, TooLargeToCountIsNotInterpreted) {
  Prepared p = prepared("function (X[N]) -> (O) { O[i: N] = +(X[j]), i - j < N; }",
                        {{"X", {DType::f32, {int64_t{1} << 22}}}});
  EXPECT_FALSE(p.work().counted);
  EXPECT_EQ(p.work().points, 0);
  EXPECT_EQ(difference_from_reference(p), std::nullopt);
}

TEST(Cases, AreReadFromTheirHeaders) {
  std::vector<Case> cases = read_cases(default_folder());
  std::vector<Case> one = chosen(cases, {"matmul_64"}, "");
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].shapes.at("A").shape, (Shape{64, 64}));
  EXPECT_EQ(one[0].workload->kind, "matrix_product");
  EXPECT_EQ(chosen(cases, {}, "matmul_13x21").size(), 1U);
  EXPECT_TRUE(one[0].workload->constants.empty());
  EXPECT_EQ(chosen(cases, {"layer_7x512"}, "")[0].workload->constants,
            std::vector<std::string>{"K"});
  EXPECT_THROW(chosen(cases, {"no such benchmark"}, ""), Failure);
}

// Every case binds and its work can be counted: a wrong shape in a header would show here.
TEST(Cases, AllBind) {
  auto engine = reference_engine();
  for (const Case& c : read_cases(default_folder())) {
    if (c.full) continue;  // another size of what binds
    SCOPED_TRACE(c.name);
    auto program = load(engine, c);
    auto executable = program->executable(layouts(*program, c));
    EXPECT_NO_THROW({
      Work work = work_of(executable->bound, engine->target());
      EXPECT_GT(work.operations + work.bytes, 0);
    });
  }
}

TEST(Tensors, DifferenceIsRelativeToTheLargest) {
  Tensor a({DType::f32, {4}}), b({DType::f32, {4}});
  fill(a, 1);
  fill(b, 1);
  EXPECT_EQ(difference(a, b), 0);
  b.elements<float>()[2] = 8;
  a.elements<float>()[2] = 10;
  EXPECT_EQ(difference(a, b), 0.25);
  a.elements<float>()[2] = NAN;
  EXPECT_GT(difference(a, b), 1);
}

TEST(Timing, InterleavesAndCounts) {
  std::string order;
  int calls = 0;
  auto first = [&] {
    order += order.empty() || order.back() != 'a' ? "a" : "";
    ++calls;
  };
  auto second = [&] { order += order.back() != 'b' ? "b" : ""; };
  std::vector<Times> times =
      interleave({{"a", timed(first)}, {"b", timed(second)}}, {3, 0.001, 1000, 0});
  ASSERT_EQ(times.size(), 2U);
  EXPECT_EQ(times[0].real.size(), 3U);
  EXPECT_THAT(order, testing::EndsWith("ababab"));
  EXPECT_GE(calls, times[0].iterations + 3);  // and one warm call a round
  EXPECT_LE(times[0].least(), times[0].median());
}

TEST(Timing, WhatTheRoundsShowOfARatioIsAnIntervalOfTheSignTest) {
  auto rounds = [](size_t count) {
    Times of;
    for (size_t i = 1; i <= count; ++i) of.real.push_back(static_cast<double>(i));
    return of;
  };
  // Of n values all but k at each end hold the median, where a binomial of n halves is k or less in
  // at most 2.5 of 100 cases; below six there is no such k and all of them are told.
  const std::vector<std::tuple<size_t, double, double>> known = {
      {1, 1, 1}, {3, 1, 3}, {5, 1, 5}, {6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {15, 4, 12}, {25, 8, 18}};
  for (auto [count, low, high] : known) {
    Times ones;
    ones.real.assign(count, 1.0);
    Between sure = surely_in_turns(rounds(count), ones);
    EXPECT_EQ(sure.low, low) << count;
    EXPECT_EQ(sure.high, high) << count;
  }
}

TEST(Timing, OtherWorkIsToldOfWhereItIsMoreThanMeasuringTakes) {
  EXPECT_EQ(disturbance(2.1, 2), "");
  EXPECT_EQ(disturbance(16, 16), "");
  EXPECT_THAT(disturbance(5.3, 2), testing::HasSubstr("5.3 processes want 2 processors"));
}

TEST(Report, RatioIsTheBestPeersTimeOverOurs) {
  Result r;
  r.times.real = {4, 2, 30};  // the machine was ten times slower in the last round
  EXPECT_EQ(r.ratio_best_peer(), 0);
  r.peers = {{"slow", {{9, 9, 90}, {9}, 1}}, {"fast", {{8, 5, 60}, {6}, 1}}};
  EXPECT_EQ(r.ratio_best_peer(), 2);  // of 2, 2.5 and 2
  EXPECT_EQ(r.ratio_best_peer_least(), 2.5);
}

TEST(Report, TheShareIsOfACeilingThatTookTurns) {
  Result r;
  r.ceiling = 1;
  r.work = {1e9, 2e9, 1e6, 5e5};
  r.times.real = {1e7, 3e7, 1e7};
  EXPECT_EQ(r.share_of_ceiling(), 200);  // of the median
  r.ceiling_work = 1e9;
  r.ceiling_times.real = {4e6, 12e6, 4e6};
  EXPECT_DOUBLE_EQ(r.share_of_ceiling(), 0.8);
}

TEST(Ceilings, PlainWorkIsDoneByAllThreadsEachTime) {
  std::atomic<int64_t> parts[3] = {};
  {
    PlainWork work(3, 6, [&](int thread, int64_t count) { parts[thread] += count; });
    EXPECT_EQ(work.amount(), 6);
    // Where a thread had to wait for its processor they do it again.
    for (int64_t count : {1, 5, 2}) EXPECT_GT(work.nanoseconds(count), 0);
    EXPECT_GE(parts[0], 8);
    for (auto& part : parts) EXPECT_EQ(part, parts[0]);
  }
}

TEST(Ceilings, AThreadThatWaitsForItsProcessorDoesNotCount) {
  constexpr auto kWait = std::chrono::milliseconds(20);
  PlainWork work(2, 1, [&](int thread, int64_t) {
    if (thread == 1) std::this_thread::sleep_for(kWait);  // as one that is not given any
  });
  EXPECT_LT(work.nanoseconds(1), 10e6);
}

// Whatever part of it is written, all of it moves.
TEST(Ceilings, PlainTrafficHasTheReadsAndWritesThatItIsAskedFor) {
  constexpr double kBytes = 1 << 20;
  for (double written : {0.0, 0.25, 0.5, 1.0}) {
    Traffic traffic{kBytes * (1 - written), kBytes * written};
    std::unique_ptr<PlainWork> work = plain_traffic(traffic, 2);
    EXPECT_EQ(work->amount(), kBytes);
    EXPECT_GT(work->nanoseconds(2), 0);
  }
  EXPECT_GT(plain_traffic({10, 0}, 4)->amount(), 0) << "less than its loops take";
}

// A program that reads four bytes for one that it writes is held against a ceiling that does the
// same: a plain copy writes more of its bytes, and what a cache writes it has read first.
TEST(Ceilings, AreOfTheProgramsOwnReadsAndWrites) {
  Ceilings ceilings(true);
  constexpr double kMany = 64 << 20;
  double copied = ceilings.gbps(Traffic::copy(kMany), 1);
  EXPECT_EQ(ceilings.gbps({0.5 * kMany, 0.5 * kMany}, 1), copied) << "measured once";
  EXPECT_NE(ceilings.gbps({0.8 * kMany, 0.2 * kMany}, 1), copied);
  EXPECT_NE(ceilings.gbps({kMany, 0}, 1), copied);
}

TEST(Ceilings, StoresAroundCachesAreCopiesAndZeros) {
  auto store = cpu::probe_loops().store_around_caches;
  if (store == nullptr) GTEST_SKIP() << "this processor has none";
  Tensor from({DType::u8, {192}}), to({DType::u8, {192}});
  auto *source = from.elements<uint8_t>(), *copy = to.elements<uint8_t>();
  std::iota(source, source + 192, uint8_t{1});
  store(copy, source, 192);
  EXPECT_TRUE(std::equal(source, source + 192, copy));
  store(copy, nullptr, 128);
  EXPECT_EQ(std::count(copy, copy + 128, 0), 128);
  EXPECT_TRUE(std::equal(source + 128, source + 192, copy + 128));
}

// However a machine is disturbed, no figure says that something is faster than possible.
TEST(Report, AShareOfMoreThanAllIsNoFigureAndMakesARowUntrusted) {
  EXPECT_EQ(share_text(0.973), "97.3 %");
  EXPECT_EQ(share_text(0.973, 0), "97 %");
  EXPECT_EQ(share_text(1.42), "> 100 %");
  Result r;
  r.name = "copy";
  r.measure = Measure::gbps;
  r.work = {0, 0, 2e6, 1e6};
  r.times = {{1e5}, {1e5}, 1};
  r.ceiling_work = 2e6;
  r.ceiling_times = {{1.42e5}, {1.42e5}, 1};
  r.untrusted = distrust(Workload{}, DType::f32, r);
  EXPECT_THAT(r.untrusted, testing::HasSubstr("faster than what was measured as its ceiling"));
  std::ostringstream row;
  print_row(row, r);
  EXPECT_THAT(row.str(), testing::HasSubstr("> 100 %"));
  EXPECT_THAT(row.str(), testing::Not(testing::HasSubstr("142")));
  EXPECT_THAT(entry_json(r), testing::HasSubstr(R"("trusted":false)"));
  r.ceiling_times.real = {1.05e5};  // two loops at the limit
  EXPECT_EQ(distrust(Workload{}, DType::f32, r), "");
}

TEST(Report, APeerBelowWhatIsKnownOfItMakesARowUntrusted) {
  Workload products;
  products.kind = "matrix_product";
  Result r;
  r.ceiling = 100;
  r.work = {1e9, 2e9, 1e6, 5e5};
  r.times.real = {3e7};
  r.peers = {{"openblas", {{2.5e7}, {2.5e7}, 1}}, {"unknown", {{1e9}, {1e9}, 1}}};
  EXPECT_EQ(distrust(products, DType::f32, r), "");  // 80 % of the ceiling
  r.peers[0].times.real = {1e8};
  EXPECT_THAT(distrust(products, DType::f32, r), testing::HasSubstr("openblas reaches 20 %"));
  EXPECT_EQ(distrust(products, DType::bf16, r), "");
  r.work.bytes = 1e9;  // memory is the limit: nothing is known
  EXPECT_EQ(distrust(products, DType::f32, r), "");
}

}  // namespace
}  // namespace tile::bench
