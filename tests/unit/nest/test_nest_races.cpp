// The interpreter of nests refuses accesses that no barrier orders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/nest/nest.h"

namespace tile::nest {
namespace {

using ::testing::HasSubstr;

// What a block of 4 threads, of 2, does with arguments of 8 elements and 8 shared ones; empty where
// nothing is wrong.
std::string complaint(const std::string& thread, const std::string& loop = "grid") {
  std::string threads = loop == "grid" ? "  thread t from [0] extent [4] {\n" + thread + "  }\n"
                                       : "  serial t from [0] extent [4] {\n" + thread + "  }\n";
  std::string text =
      "nest tested\nargument A: f32 [8] strides [1] written\n"
      "argument B: f32 [8] strides [1] written\n" +
      std::string(loop == "grid" ? "shared s: f32 [8] strides [1]\n" : "") + loop +
      " b from [0] extent [2] {\n" + (loop == "grid" ? "  alloc s\n" : "") + threads + "}\n";
  Nest nest = parse_nest(std::make_shared<const Source>(Source{"test", text}));
  verify(nest);
  HostTensor a(DType::f32, {8}), b(DType::f32, {8});
  try {
    interpret(nest, {&a, &b});
  } catch (const InternalError& error) {
    return error.what();
  }
  return {};
}

std::string copy(const std::string& to, const std::string& from) {
  return "assign " + to + " (" + from + ") { %0:f32 = load 0; yield %0 }\n";
}

TEST(NestRaces, AreNotWhereThereAreBarriers) {
  EXPECT_EQ(complaint(copy("s[t]", "A[4*b + t]") + "sync\n" + copy("B[4*b + t]", "s[3 - t]")), "");
  EXPECT_EQ(complaint(copy("B[4*b + t]", "A[4*b + 3 - t]") + "sync\n" +
                      copy("A[4*b + t]", "B[4*b + 3 - t]")),
            "");
  EXPECT_EQ(complaint(copy("B[4*b + t]", "A[t]")), "");
}

TEST(NestRaces, BetweenThreads) {
  EXPECT_THAT(complaint(copy("s[t]", "A[4*b + t]") + copy("B[4*b + t]", "s[3 - t]")),
              HasSubstr("no barrier between"));
  EXPECT_THAT(complaint(copy("s[t]", "A[4*b + t]") + copy("B[4*b + t]", "s[3 - t]") + "sync\n"),
              HasSubstr("no barrier between"));
  EXPECT_THAT(complaint(copy("B[4*b + t]", "A[4*b + 3 - t]") + copy("A[4*b + t]", "B[4*b + t]")),
              HasSubstr("no barrier between"));
  EXPECT_THAT(complaint(copy("B[4*b]", "A[t]")), HasSubstr("stored twice"));
}

// One thread stores a statistic, and all read it.
TEST(NestRaces, AStatisticInGlobalMemory) {
  std::string store = "if [-t] {\n" + copy("A[b]", "B[4*b]") + "}\n";
  std::string read = copy("B[4*b + t]", "A[b]");
  EXPECT_EQ(complaint(store + "sync\n" + read), "");
  EXPECT_THAT(complaint(store + read), HasSubstr("no barrier between"));
}

TEST(NestRaces, BetweenIterationsOfIndependentLoops) {
  for (const char* loop : {"grid", "parallel"}) {
    EXPECT_EQ(complaint(copy("B[4*b + t]", "A[t]"), loop), "");
    EXPECT_THAT(complaint(copy("B[t]", "A[t]"), loop), HasSubstr("another iteration"));
    EXPECT_THAT(complaint(copy("B[4*b + t]", "B[t]"), loop), HasSubstr("another iteration"));
  }
}

TEST(NestRaces, AsynchronousStoresThatAreNotWaitedFor) {
  std::string ahead = "assign asynchronous s[t] (A[4*b + t]) { %0:f32 = load 0; yield %0 }\n";
  std::string read = copy("B[4*b + t]", "s[3 - t]");
  EXPECT_EQ(complaint(ahead + "sync\n" + read), "");
  EXPECT_THAT(complaint(ahead + "sync pending 1\n" + read + "sync\n"), HasSubstr("waited for"));
}

}  // namespace
}  // namespace tile::nest
