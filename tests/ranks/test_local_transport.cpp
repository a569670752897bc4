// Ranks that are threads of one process: order of parts, and ranks that fail or are silent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/support/diagnostic.h"
#include "runtime/transport/local_transport.h"

namespace tile::test {
namespace {

using ::testing::HasSubstr;

std::string error_of(Transport& end, size_t from) {
  std::byte byte{};
  ReceivedPart part{from, &byte, 1};
  try {
    end.exchange({}, {&part, 1}, "halo of A, a.tile:2");
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.diagnostic().code, "rank");
    EXPECT_EQ(failure.diagnostic().stage, Stage::run);
    return failure.diagnostic().message;
  }
  return "";
}

TEST(LocalTransport, PartsOfTwoRanksArriveInOrder) {
  auto ends = local_transports(2, 30);
  constexpr int kRounds = 200;
  auto work = [&](size_t rank) {
    for (int round = 0; round < kRounds; ++round) {
      std::byte out[2] = {std::byte(round), std::byte(round + 1)}, in[2] = {};
      SentPart sent[2] = {{1 - rank, &out[0], 1}, {1 - rank, &out[1], 1}};
      ReceivedPart received[2] = {{1 - rank, &in[0], 1}, {1 - rank, &in[1], 1}};
      ends[rank]->exchange(sent, received, "test");
      ASSERT_EQ(in[0], out[0]);
      ASSERT_EQ(in[1], out[1]);
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
}

TEST(LocalTransport, ASilentRankIsNamed) {
  auto ends = local_transports(3, 0.05);
  std::string error = error_of(*ends[0], 2);
  EXPECT_THAT(error, HasSubstr("rank 2 of 3 was silent for"));
  EXPECT_THAT(error, HasSubstr("in the halo of A, a.tile:2"));
}

TEST(LocalTransport, WhatARankSentBeforeItFailedIsTaken) {
  auto ends = local_transports(2, 30);
  std::byte byte{};
  SentPart part{0, &byte, 1};
  ends[1]->exchange({&part, 1}, {}, "halo of A, a.tile:2");
  ends[1]->abort("a.npy: cut short");
  EXPECT_EQ(error_of(*ends[0], 1), "");
  EXPECT_THAT(error_of(*ends[0], 1), HasSubstr("a.npy: cut short"));
}

TEST(LocalTransport, ARankThatFailsEndsTheOthers) {
  auto ends = local_transports(2, 30);
  std::string error;
  std::thread waiting([&] { error = error_of(*ends[0], 1); });
  ends[1]->abort("a.npy: cut short");
  waiting.join();
  EXPECT_THAT(error,
              HasSubstr("rank 1 of 2 failed before the halo of A, a.tile:2: a.npy: cut short"));
  EXPECT_THAT(error_of(*ends[0], 1), HasSubstr("failed"));  // for good
}

}  // namespace
}  // namespace tile::test
