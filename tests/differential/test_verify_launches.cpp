// The guard over launches and their memory plan catches each way in which a sequence can be wrong.
#include <gtest/gtest.h>

#include "core/support/diagnostic.h"
#include "runtime/engine/launch/verify_launches.h"

namespace tile {
namespace {

// X -> A -> B -> C -> O, and O also reads A; each of 16 floats.
constexpr TensorId kX(0), kA(1), kB(2), kC(3), kO(4);
constexpr size_t kBytes = 256;  // of a place: more than the 64 bytes of a tensor

Launch launch(const std::vector<TensorId>& reads, TensorId write) {
  Launch l;
  for (TensorId id : reads) {
    l.arguments.push_back(id);
    l.nest.change().buffers.emplace_back();
  }
  l.arguments.push_back(write);
  l.nest.change().buffers.emplace_back().written = true;
  return l;
}

Executable chain() {
  Executable e;
  for (const char* name : {"X", "A", "B", "C", "O"}) {
    BoundTensor t;
    t.name = name;
    t.shape = {16};
    e.program.tensors.push_back(t);
  }
  e.program.tensors.edit(kX).role = TensorRole::input;
  e.program.tensors.edit(kO).role = TensorRole::output;
  e.program.inputs = {kX};
  e.program.outputs = {kO};
  e.launches = {launch({kX}, kA), launch({kA}, kB), launch({kB}, kC), launch({kC, kA}, kO)};
  e.places = {{Place::Kind::input, 0},
              {Place::Kind::arena, 0},
              {Place::Kind::arena, kBytes},
              {Place::Kind::arena, 2 * kBytes},
              {Place::Kind::output, 0}};
  e.arena_bytes = 3 * kBytes;
  return e;
}

std::string broken(const Executable& e) {
  try {
    verify_launches(e);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

TEST(VerifyLaunches, AChainIsRight) { EXPECT_EQ(broken(chain()), ""); }

TEST(VerifyLaunches, ReadsBeforeWrites) {
  Executable e = chain();
  std::swap(e.launches[1], e.launches[2]);
  EXPECT_EQ(broken(e), "launches: B is read before it is written");
  e = chain();
  e.launches.erase(e.launches.begin() + 2);
  EXPECT_EQ(broken(e), "launches: C is read before it is written");
  e = chain();  // two launches that need each other
  e.launches[1] = launch({kA, kC}, kB);
  EXPECT_EQ(broken(e), "launches: C is read before it is written");
}

TEST(VerifyLaunches, AViewIsItsSource) {
  Executable e = chain();
  BoundTensor view;
  view.name = "V";
  view.shape = {4, 4};
  view.view_of = kB;
  TensorId v = e.program.tensors.add(view);
  e.places.push_back(e.places[kB]);
  e.launches[2] = launch({v}, kC);
  EXPECT_EQ(broken(e), "");
  e.launches[1] = launch({v}, kB);
  EXPECT_EQ(broken(e), "launches: V is read before it is written");
  e = chain();
  e.program.tensors.push_back(view);
  e.places.push_back(e.places[kB]);
  e.launches[2] = launch({kB, v}, kC);
  EXPECT_EQ(broken(e), "");
  e.launches[1].arguments = {v, kB};
  EXPECT_NE(broken(e), "");
}

TEST(VerifyLaunches, AViewIsWhereItsSourceIs) {
  Executable e = chain();
  e.program.tensors.edit(kC).view_of = kB;
  EXPECT_EQ(broken(e), "launches: C is not where its source is");
}

struct OtherCode : Code {
  Takes given;
  std::span<const std::byte> object() const override { return {}; }
  size_t workspace_bytes() const override { return 0; }
  const Takes* takes() const override { return &given; }
};

// What code says of itself counts; what is made from a record has no nests.
TEST(VerifyLaunches, LaunchesGiveWhatTheirCodeTakes) {
  auto with_code = [](std::vector<bool> written, size_t parameters) {
    auto code = std::make_shared<OtherCode>();
    code->given = {std::move(written), parameters};
    Executable e = chain();
    e.launches[3].nest = {};
    e.launches[3].code = code;
    return broken(e);
  };
  EXPECT_EQ(with_code({false, false, true}, 0), "");
  EXPECT_EQ(with_code({false, true}, 0), "launches: a kernel takes another number of arguments");
  EXPECT_EQ(with_code({false, false, true}, 1), "launches: a kernel takes other parameters");
  EXPECT_EQ(with_code({false, true, true}, 0), "launches: A is written again");
  EXPECT_NE(with_code({false, false, false}, 0), "");
  Executable e = chain();
  e.launches[3].nest = {};
  EXPECT_EQ(broken(e), "launches: a launch without buffers");
}

TEST(VerifyLaunches, NothingIsWrittenTwice) {
  Executable e = chain();
  e.launches.push_back(launch({kX}, kA));
  EXPECT_EQ(broken(e), "launches: A is written again");
  e = chain();
  e.launches[1] = launch({kA}, kX);
  EXPECT_EQ(broken(e), "launches: X is written again");
}

TEST(VerifyLaunches, ResultsHavePlacesOfTheirOwn) {
  Executable e = chain();
  e.launches.pop_back();
  EXPECT_EQ(broken(e), "launches: O is never written");
  e = chain();
  e.places[kC] = e.places[kO];
  EXPECT_EQ(broken(e), "launches: a result that is made by none or several");
  e = chain();
  e.program.outputs.push_back(kC);
  EXPECT_EQ(broken(e), "launches: a result that is made by none or several");
  e.copies = {{kC, 1}};
  EXPECT_EQ(broken(e), "");
}

TEST(VerifyLaunches, LiveTensorsShareNoMemory) {
  Executable e = chain();
  e.places[kC].at = e.places[kB].at;  // both of launch 2
  EXPECT_EQ(broken(e), "launches: C shares memory with a tensor that is live");
  e = chain();
  e.places[kC].at = e.places[kA].at + 60;  // its last element
  EXPECT_EQ(broken(e), "launches: C shares memory with a tensor that is live");
  e.places[kC].at = e.places[kA].at + 64;
  EXPECT_EQ(broken(e), "");
  e = chain();
  e.launches[3] = launch({kC}, kO);  // A is dead after launch 1
  e.places[kC].at = e.places[kA].at;
  EXPECT_EQ(broken(e), "");
  e.copies = {{kA, 1}};  // and now lives to the end
  e.program.outputs.push_back(kA);
  EXPECT_EQ(broken(e), "launches: C shares memory with a tensor that is live");
  e = chain();
  e.densified = {{0, kBytes + 8}};  // an input's dense copy lives as long as the run
  e.places[kX] = {Place::Kind::arena, kBytes + 8};
  EXPECT_EQ(broken(e), "launches: B shares memory with a tensor that is live");
}

TEST(VerifyLaunches, TheArenaHoldsAll) {
  Executable e = chain();
  e.arena_bytes = 2 * kBytes + 63;
  EXPECT_EQ(broken(e), "launches: C ends behind the arena");
  e = chain();
  e.places[kB] = {};
  EXPECT_EQ(broken(e), "launches: B has no place");
}

}  // namespace
}  // namespace tile
