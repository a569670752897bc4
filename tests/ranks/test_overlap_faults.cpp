// Failures while a halo is on its way: what is told, and memory that the transport may still touch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "runtime/ranks/rank_executable.h"
#include "runtime/transport/plugin_transport.h"
#include "tests/distribute/sharded_run.h"
#include "tests/ranks/watched_memory.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kTimeout = 0.2;
constexpr const char* kSilent = "rank: rank 1 of 2 was silent for 0.2 s in the halo of A";

// What an exchange of rank 0 is given.
struct Call {
  tile_received_part received;
  std::function<bool()> is_over, rest;  // rest: none where nothing computes
  tile_transport_fault& fault;
};

// The end of rank 0 of two, whose exchanges do what a test says.
struct Wire {
  std::function<int(const Call&)> exchange;
  std::vector<std::string> told;         // to rank 1
  std::vector<std::thread::id> threads;  // that made exchanges
  std::atomic<size_t> begun{0}, over{0};

  std::unique_ptr<PluginTransport> end(bool one_thread = false) {
    tile_transport table{};
    table.ranks = 2;
    table.state = this;
    table.exchange = make_exchange;
    table.tell = [](void* state, size_t, const void* notice, size_t bytes) {
      static_cast<Wire*>(state)->told.emplace_back(static_cast<const char*>(notice), bytes);
    };
    table.hear = [](void*, double, size_t*, void*) { return -1; };
    table.close = [](void*) {};
    table.one_thread = one_thread ? 1 : 0;
    return std::make_unique<PluginTransport>(table, kTimeout);
  }

 private:
  static int make_exchange(void* state, const tile_sent_part*, size_t,
                           const tile_received_part* received, size_t count, double,
                           int (*poll)(void*), int (*rest)(void*), void* user,
                           tile_transport_fault* fault) {
    auto& self = *static_cast<Wire*>(state);
    EXPECT_EQ(count, 1U);
    self.threads.push_back(std::this_thread::get_id());
    fault->rank = 1;
    ++self.begun;
    Call call{received[0], [&] { return poll != nullptr && poll(user) != 0; }, nullptr, *fault};
    if (rest != nullptr) call.rest = [&] { return rest(user) != 0; };
    int end = self.exchange(call);
    ++self.over;
    return end;
  }
};

// Until the run gives up.
int wait_for_end(const std::function<bool()>& is_over) {
  auto begin = std::chrono::steady_clock::now();
  while (!is_over()) {
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(20)) {
      ADD_FAILURE() << "nobody gives up";
      return TILE_EXCHANGE_SILENT;
    }
    std::this_thread::yield();
  }
  return TILE_EXCHANGE_CANCELLED;
}

// Work on its own thread goes on, or is over, once the other thread makes the exchange; there it
// never is.
class OnceUnderWay final : public Control {
 public:
  OnceUnderWay(Wire& wire, bool is_over) : wire_(wire), is_over_(is_over) {}
  bool is_over() noexcept override {
    if (std::this_thread::get_id() != own_) return false;
    while (wire_.begun == before_) std::this_thread::yield();
    return is_over_;
  }
  Failure reason(Span) const override {
    Diagnostic why;
    why.stage = Stage::run;
    why.code = "cancelled";
    why.message = "enough";
    return Failure(why);
  }

 private:
  Wire& wire_;
  bool is_over_;
  size_t before_ = wire_.begun;
  std::thread::id own_ = std::this_thread::get_id();
};

class FaultsBesideOverlap : public testing::Test {
 protected:
  // Rank 0's half of a stencil whose halo travels.
  void make(const std::string& backend) {
    EngineOptions options;
    options.backend = backend;
    options.cache_mode = "off";
    options.threads = 1;
    options.host_allocator = memory_.allocator();
    engine_ = Engine::create(options);
    auto text = std::make_shared<const Source>(
        Source{"blur.tile", "function (A[N]) -> (O) {\n  O[i: N - 4] = +(A[i + j]), j < 5;\n}"});
    auto source = std::make_shared<const Program>(parse_tile(text));
    BoundProgram program = tile::bind(*source, {{DType::f32, {400}}});
    PartitionedProgram parts = divided(program, "x=2", "A[x] O[x(200, 196)]");
    OverlappedProgram own = overlapped(parts, 0, {Overlap::always, {}, {}});
    ASSERT_TRUE(own.travels[0].travels);
    executable_ = std::make_unique<RankExecutable>(engine_, source, std::move(own.program), 0,
                                                   std::vector<std::string>{"halo of A"});
  }

  // What the run throws; empty: nothing.
  std::string failure_of_run(Transport& transport) {
    std::vector<HostTensor> inputs{HostTensor(DType::f32, {200})};
    for (int64_t i = 0; i < 200; ++i) inputs[0].set(i, real_scalar(double(i), DType::f32));
    outputs_.assign(1, HostTensor(DType::f32, {200}));
    try {
      executable_->run(transport, nullptr, views_of(inputs), views_of(outputs_));
    } catch (const Failure& failure) {
      return failure.diagnostic().code + ": " + failure.diagnostic().message;
    }
    return "";
  }

  // The four cells of rank 1 that rank 0 needs.
  static int deliver(const tile_received_part& part) {
    const float cells[] = {200, 201, 202, 203};
    EXPECT_EQ(part.bytes, sizeof cells);
    std::memcpy(part.data, cells, sizeof cells);
    return TILE_EXCHANGE_DONE;
  }
  void expect_values() const {
    for (int64_t i = 0; i < 200; ++i) EXPECT_EQ(outputs_[0].at(i).f, double(5 * i + 10)) << i;
  }

  WatchedMemory memory_;
  Wire wire_;
  std::shared_ptr<Engine> engine_;
  std::unique_ptr<RankExecutable> executable_;
  std::vector<HostTensor> outputs_;
};

TEST_F(FaultsBesideOverlap, WithoutOneTheOtherThreadMakesTheExchange) {
  make("reference");
  wire_.exchange = [](const Call& call) { return deliver(call.received); };
  auto end = wire_.end();
  for (int run = 0; run < 2; ++run) {
    OnceUnderWay control(wire_, false);
    Controlled now(&control);
    EXPECT_EQ(failure_of_run(*end), "");
    expect_values();
  }
  ASSERT_EQ(wire_.threads.size(), 2U);
  EXPECT_NE(wire_.threads[0], std::this_thread::get_id());
  EXPECT_EQ(wire_.threads[0], wire_.threads[1]) << "the thread stays";
}

// It rests until nothing is computed any more.
TEST_F(FaultsBesideOverlap, AnExchangeLeavesTheProcessorToTheComputation) {
  make("reference");
  wire_.exchange = [&](const Call& call) {
    EXPECT_TRUE(call.rest);
    while (call.rest && call.rest()) {
    }
    return deliver(call.received);
  };
  auto end = wire_.end();
  OnceUnderWay control(wire_, false);
  Controlled now(&control);
  EXPECT_EQ(failure_of_run(*end), "");
  expect_values();
  wire_.exchange = [&](const Call& call) {
    EXPECT_FALSE(call.rest);
    return deliver(call.received);
  };
  float cells[4];
  ReceivedPart part{1, reinterpret_cast<std::byte*>(cells), sizeof cells};
  end->exchange({}, {&part, 1}, "numbers");
}

TEST_F(FaultsBesideOverlap, ATableOfOneThreadIsCalledByThatAlone) {
  make("cpu");
  wire_.exchange = [](const Call& call) { return deliver(call.received); };
  auto end = wire_.end(true);
  EXPECT_EQ(failure_of_run(*end), "");
  expect_values();
  EXPECT_THAT(wire_.threads, ElementsAre(std::this_thread::get_id()));
  wire_.exchange = [](const Call&) { return int{TILE_EXCHANGE_SILENT}; };
  EXPECT_EQ(failure_of_run(*end), kSilent);
}

// The message may come long after the run has failed: its memory stays.
TEST_F(FaultsBesideOverlap, MemoryStaysForAMessageThatCannotBeCalledBack) {
  make("cpu");
  tile_received_part place{};
  wire_.exchange = [&](const Call& call) {
    place = call.received;
    call.fault.in_flight = 1;
    return int{TILE_EXCHANGE_SILENT};
  };
  auto end = wire_.end();
  EXPECT_EQ(failure_of_run(*end), kSilent);
  EXPECT_THAT(wire_.told, ElementsAre(HasSubstr("rank 1 of 2 was silent")));
  executable_.reset();
  end.reset();
  deliver(place);  // the process would end here if the memory were released
  EXPECT_EQ(memory_.live(), 1U);
  engine_.reset();
  deliver(place);
}

TEST_F(FaultsBesideOverlap, MemoryGoesWhereNothingIsOnItsWayAnyMore) {
  make("cpu");
  wire_.exchange = [](const Call&) { return int{TILE_EXCHANGE_SILENT}; };
  auto end = wire_.end();
  EXPECT_EQ(failure_of_run(*end), kSilent);
  executable_.reset();
  EXPECT_EQ(memory_.live(), 0U);
}

// The exchange is given up before its memory goes, and the other rank is told what failed.
TEST_F(FaultsBesideOverlap, AComputationThatFailsGivesUpTheExchange) {
  for (bool in_flight : {false, true}) {
    make("reference");
    wire_.told.clear();
    size_t before = memory_.live();
    tile_received_part place{};
    wire_.exchange = [&](const Call& call) {
      place = call.received;
      int result = wait_for_end(call.is_over);
      std::memset(place.data, 0, place.bytes);
      call.fault.in_flight = in_flight ? 1 : 0;
      return result;
    };
    auto end = wire_.end();
    {
      OnceUnderWay control(wire_, true);
      Controlled now(&control);
      EXPECT_EQ(failure_of_run(*end), "cancelled: enough");
    }
    EXPECT_EQ(wire_.over, wire_.begun);
    EXPECT_THAT(wire_.told, ElementsAre(HasSubstr("enough")));
    if (!in_flight) {
      EXPECT_EQ(failure_of_run(*end), "rank: the mesh failed before the halo of A");
    }
    executable_.reset();
    EXPECT_EQ(memory_.live(), before + (in_flight ? 1 : 0));
    if (in_flight) std::memset(place.data, 0, place.bytes);
  }
}

}  // namespace
}  // namespace tile::test
