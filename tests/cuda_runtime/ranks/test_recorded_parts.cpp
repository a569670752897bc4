// How parts of exchanges go between GPUs within recordings: pushed or fetched, with as few words as
// may be, and never before they are there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <sstream>
#include <thread>

#include "core/interpret/interpret.h"
#include "core/passes/bind/bind.h"
#include "tests/cuda_runtime/ranks/fake_gpus.h"
#include "tests/random/agreement/agreement.h"
#include "tests/ranks/device_ranks.h"

namespace tile::test {
namespace {

using ::testing::Each;
using Steps = std::vector<std::string>;

constexpr size_t kParts = 3, kBytes = 64;
constexpr int kRuns = 3;
constexpr double kTimeout = 30;

class RecordedParts : public OnFakeGpus {
 protected:
  static void agree(LinkedPeers& peers) {
    peers.say(1);
    while (!peers.said()) std::this_thread::yield();
  }
  static void wait_for(const std::function<bool()>& is_over) {
    while (!is_over()) std::this_thread::yield();
  }

  // One rank's recording of as many exchanges in pieces, of two ranks.
  struct Recorded {
    Recorded(Engine& gpu, RankMesh& mesh)
        : peers(*mesh.device()->peers()),
          session(*gpu.session()),
          source(session, kParts * kBytes, nullptr),
          result(session, kParts * kBytes, nullptr) {
      session.synchronize(nullptr);
    }
    LinkedPeers& peers;
    DeviceSession& session;
    DeviceMemory source, result;
    std::unique_ptr<RecordingLink> link;
    std::unique_ptr<Recording> recording;
  };
  // `more`: of each exchange, whether its group goes on.
  static std::unique_ptr<Recorded> recorded(Engine& gpu, RankMesh& mesh, bool pushes,
                                            std::array<bool, kParts> more) {
    auto made = std::make_unique<Recorded>(gpu, mesh);
    size_t other = 1 - mesh.rank();
    std::vector<LinkPart> sent, received;
    for (size_t k = 0; k < kParts; ++k) {
      sent.push_back({other, made->source.data() + k * kBytes, kBytes});
      sent.back().more = more[k];
      received.push_back({other, made->result.data() + k * kBytes, kBytes});
    }
    agree(made->peers);
    RecordingLink& link = *(made->link = made->peers.recording(kParts));
    if (pushes) {
      link.land(received);
      std::optional<std::vector<std::byte*>> there;
      wait_for([&] { return (there = link.landings(sent)).has_value(); });
      for (size_t k = 0; k < kParts; ++k) sent[k].to = (*there)[k];
    }
    if (mesh.rank() == 0) fake_driver().trace(1);
    mesh.meet("test");
    made->recording = link.record([&](void*) {
      for (size_t k = 0; k < kParts; ++k) link.mark();
      for (size_t k = 0; k < kParts; ++k) {
        LinkExchange what{{}, {&sent[k], 1}, {&received[k], 1}, {}};
        link.start(what, {LinkLane::beside, true, pushes, more[k]});
        wait_for([&] { return link.is_given(); });
      }
      for (size_t k = 0; k < kParts; ++k) link.await(k);
    });
    return made;
  }

  // What each of two ranks gives its streams for a recording, whose runs bring what they are to.
  std::array<Steps, 2> steps_of(bool pushes, std::array<bool, kParts> more) {
    std::array<Steps, 2> steps;
    auto errors = errors_of("x=2", kTimeout, [&](const auto& gpu, const auto& mesh) {
      mesh->connect(gpu);
      size_t rank = mesh->rank();
      std::unique_ptr<Recorded> made = recorded(*gpu, *mesh, pushes, more);
      steps[rank] = orders_left_out();
      for (int run = 0; run < kRuns; ++run) {
        std::vector<unsigned char> given(kParts * kBytes), got(kParts * kBytes);
        for (size_t i = 0; i < given.size(); ++i) given[i] = value(rank, run, i);
        made->session.copy_in(made->source.data(), given.data(), given.size(), nullptr);
        agree(made->peers);
        made->link->run(*made->recording);
        wait_for([&] { return made->link->progress().done == kParts; });
        made->session.copy_out(got.data(), made->result.data(), got.size(), nullptr);
        for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], value(1 - rank, run, i));
      }
    });
    fake_driver().trace(0);
    EXPECT_THAT(errors, Each(""));
    return steps;
  }
  static unsigned char value(size_t rank, int run, size_t i) {
    return static_cast<unsigned char>(static_cast<size_t>(run) * 71 + rank * 29 + i);
  }
  // What this thread gave streams, but for events.
  static Steps orders_left_out() {
    Steps steps;
    std::istringstream lines(fake_driver().traced());
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("record") && !line.starts_with("wait")) steps.push_back(line);
    }
    return steps;
  }
};

// One word says that all parts are there, and one that all were copied.
TEST_F(RecordedParts, AGroupThatIsFetchedHasOneWord) {
  for (unsigned late : {0U, 1U, 2U}) {
    fake_driver().late(late);
    for (const Steps& steps : steps_of(false, {true, true, false})) {
      EXPECT_EQ(std::ranges::count(steps, "copy beside"), 3);
      EXPECT_EQ(std::ranges::count(steps, "signals beside"), 2);
    }
  }
  fake_driver().late(0);
}

// Those that end one piece and begin the next are one piece of work.
TEST_F(RecordedParts, PartsOfNoGroupHaveTheirOwnWords) {
  for (unsigned late : {0U, 1U, 2U}) {
    fake_driver().late(late);
    for (const Steps& steps : steps_of(false, {false, false, false})) {
      EXPECT_EQ(std::ranges::count(steps, "signals beside"), 4);
    }
    for (const Steps& steps : steps_of(false, {true, false, false})) {
      EXPECT_EQ(std::ranges::count(steps, "signals beside"), 3);
    }
  }
  fake_driver().late(0);
}

// Kernels of the sender's write them, and nobody waits for a part but once for all.
TEST_F(RecordedParts, PartsThatArePushedHaveOneWord) {
  for (unsigned late : {0U, 1U, 2U}) {
    fake_driver().late(late);
    for (const Steps& steps : steps_of(true, {false, false, false})) {
      EXPECT_EQ(std::ranges::count(steps, "launch beside"), 3);
      EXPECT_EQ(std::ranges::count(steps, "copy beside"), 0);
      EXPECT_EQ(std::ranges::count(steps, "signals beside"), 1);
    }
  }
  fake_driver().late(0);
}

// A rank that has said that it runs and then fails may free its memory: another one that has not
// begun does not begin any more.
TEST_F(RecordedParts, NobodyBeginsOnceARankHasFailed) {
  auto errors = errors_of("x=2", kTimeout, [&](const auto& gpu, const auto& mesh) {
    mesh->connect(gpu);
    auto made = recorded(*gpu, *mesh, true, {false, false, false});
    agree(made->peers);
    if (mesh->rank() == 0) {
      EXPECT_TRUE(made->link->abort(kTimeout));
    }
    mesh->meet("test");
    if (mesh->rank() == 1) {
      int graphs = fake_driver().calls("cuGraphLaunch");
      made->link->run(*made->recording);
      EXPECT_EQ(fake_driver().calls("cuGraphLaunch"), graphs);
      EXPECT_EQ(made->link->progress().done, 0U);
    }
    mesh->meet("test");
  });
  fake_driver().trace(0);
  EXPECT_THAT(errors, Each(""));
}

// And one that has begun is waited for.
TEST_F(RecordedParts, ARankThatFailsWaitsForWhoHasBegun) {
  std::atomic<bool> over = false;
  auto errors = errors_of("x=2", kTimeout, [&](const auto& gpu, const auto& mesh) {
    mesh->connect(gpu);
    auto made = recorded(*gpu, *mesh, true, {false, false, false});
    agree(made->peers);
    if (mesh->rank() == 1) made->link->run(*made->recording);
    mesh->meet("test");
    if (mesh->rank() == 0) {
      EXPECT_FALSE(made->link->abort(0.01));
      EXPECT_TRUE(made->link->abort(kTimeout));
      EXPECT_TRUE(over);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      over = true;
      EXPECT_TRUE(made->link->abort(kTimeout));
    }
  });
  fake_driver().trace(0);
  EXPECT_THAT(errors, Each(""));
}

// Exchanges are cut into pieces, and layouts chosen, by what copies and messages do.
TEST_F(RecordedParts, GpusThatReachEachOtherAreTakenForFaster) {
  double rates[2] = {0, 0};
  for (int reach : {0, 1}) {
    fake_driver().peers(reach);
    auto errors = errors_of("x=2", kTimeout, [&](const auto& gpu, const auto& mesh) {
      mesh->connect(gpu);
      double rate = mesh->figures(*gpu).links.any.bytes_per_ns;
      if (mesh->rank() == 0) rates[reach] = rate;
    });
    EXPECT_THAT(errors, Each(""));
  }
  EXPECT_GT(rates[1], rates[0]);
}

class DividedProduct : public RecordedParts {
 protected:
  static constexpr int64_t kSize = 32;
  static constexpr const char* kProduct =
      "function (A[M, L], B[L, N]) -> (C) {\n  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n}";

  // Runs of a product that come again have the values of the undivided one.
  void expect_values(const DeviceRanks& ranks, const std::string& layouts) {
    Shape shape{kSize, kSize};
    MeshProgramOptions options{{{DType::f32, shape}, {DType::f32, shape}}, layouts};
    options.overlap = Overlap::always;
    std::vector<HostTensor> inputs{ramp(DType::f32, shape), ramp(DType::f32, shape)};
    for (HostTensor& input : inputs) {
      for (size_t i = 0; i < static_cast<size_t>(kSize * kSize); ++i) {
        reinterpret_cast<float*>(input.bytes.data())[i] = static_cast<float>(i % 7) - 3;
      }
    }
    BoundProgram bound = tile::bind(*program_named(kProduct), options.inputs);
    Interpretation expected = interpret(bound, inputs, {}, true);
    for (const auto& outputs : ranks.run(program_named(kProduct), options, inputs, kRuns + 1)) {
      EXPECT_EQ(difference(expected, outputs, true), "");
    }
  }
  std::unique_ptr<DeviceRanks> two() {
    return std::make_unique<DeviceRanks>(
        "x=2", kTimeout, [this](size_t r) { return engine("cuda:" + std::to_string(r)); });
  }
  // What each of two ranks gives its streams while its second run is recorded, but for events.
  std::array<Steps, 2> steps_of(const std::string& layouts) {
    std::array<Steps, 2> steps;
    auto errors = errors_of("x=2", kTimeout, [&](const auto& gpu, const auto& mesh) {
      Shape shape{kSize, kSize};
      MeshProgramOptions what{{{DType::f32, shape}, {DType::f32, shape}}, layouts};
      what.overlap = Overlap::always;
      MeshProgram program(gpu, program_named(kProduct), mesh, what);
      TensorsOnDevice inputs, outputs;
      for (const MeshProgram::Part& part : program.inputs()) {
        Shape own = part.boxes[mesh->rank()].shape();
        inputs.push_back(std::make_unique<TensorOnDevice>(*gpu, part.type, own));
        inputs.back()->set(ramp(part.type, own).bytes.data());
      }
      for (const MeshProgram::Part& part : program.outputs()) {
        outputs.push_back(
            std::make_unique<TensorOnDevice>(*gpu, part.type, part.boxes[mesh->rank()].shape()));
      }
      program.run(views_of(inputs), views_of(outputs));
      mesh->meet("test");
      if (mesh->rank() == 0) fake_driver().trace(1);
      mesh->meet("test");
      program.run(views_of(inputs), views_of(outputs));
      steps[mesh->rank()] = orders_left_out();
    });
    fake_driver().trace(0);
    EXPECT_THAT(errors, Each(""));
    return steps;
  }
};

// Terms for another rank go to where that one adds them up, which waits for one word.
TEST_F(DividedProduct, TermsArePushedToWhoAddsThem) {
  for (const Steps& steps : steps_of("A[*, x] B[x, *] C[x, *]  C: k=x")) {
    EXPECT_EQ(std::ranges::count(steps, "copy beside") + std::ranges::count(steps, "copy"), 0);
    EXPECT_EQ(std::ranges::count(steps, "launch beside"), 1);
    EXPECT_EQ(std::ranges::count(steps, "signals beside"), 1);
  }
  expect_values(*two(), "A[*, x] B[x, *] C[x, *]  C: k=x");
}

// Where one rank has no room for what others push, all ranks fetch; with less room nothing is
// recorded.
TEST_F(DividedProduct, WithLittleRoomPartsAreFetched) {
  constexpr size_t kRoom = size_t{64} << 20, kStep = 2048;  // of a GPU that has 1 GiB
  bool fetched = false;
  for (size_t left = kStep; left <= 8 * kStep; left += kStep) {
    std::unique_ptr<DeviceRanks> ranks = two();
    ranks->on_each([&](size_t r) { ranks->mesh(r)->connect(ranks->engine(r)); });
    auto taken = ranks->mesh(0)->device()->room_for_recording(kRoom - left);
    ASSERT_NE(taken, nullptr);
    int graphs = fake_driver().calls("cuGraphLaunch");
    int signals = fake_driver().calls("cuStreamBatchMemOp");
    expect_values(*ranks, "A[*, x] B[x, *] C[x, *]  C: k=x");
    graphs = fake_driver().calls("cuGraphLaunch") - graphs;
    signals = fake_driver().calls("cuStreamBatchMemOp") - signals;
    EXPECT_EQ(graphs, signals == 0 ? 0 : 2 * kRuns);
    fetched = fetched || signals > 2;
  }
  EXPECT_TRUE(fetched);
}

}  // namespace
}  // namespace tile::test
