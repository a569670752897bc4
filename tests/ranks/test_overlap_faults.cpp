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

// The end of rank 0 of two, whose exchanges do what a test says.
struct Wire {
  std::function<int(const tile_received_part&, const std::function<bool()>& is_over,
                    tile_transport_fault&)>
      exchange;
  std::vector<std::string> told;         // to rank 1
  std::vector<std::thread::id> threads;  // that made exchanges
  std::atomic<bool> under_way{false};

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
                           int (*poll)(void*), void* user, tile_transport_fault* fault) {
    auto& self = *static_cast<Wire*>(state);
    EXPECT_EQ(count, 1U);
    self.threads.push_back(std::this_thread::get_id());
    fault->rank = 1;
    self.under_way = true;
    int end =
        self.exchange(received[0], [&] { return poll != nullptr && poll(user) != 0; }, *fault);
    self.under_way = false;
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

// Work on its own thread is over once the exchange is under way; on the transport's it never is.
class OverOnceUnderWay final : public Control {
 public:
  explicit OverOnceUnderWay(Wire& wire) : wire_(wire) {}
  bool is_over() noexcept override {
    if (std::this_thread::get_id() != own_) return false;
    while (!wire_.under_way) std::this_thread::yield();
    return true;
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
    OverlappedProgram own =
        overlapped(parts.ranks[0], 0, parts.distribution.mesh, {Overlap::always, {}, {}});
    ASSERT_TRUE(own.travels[0].travels);
    executable_ = std::make_unique<RankExecutable>(engine_, source, std::move(own.program),
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
  make("cpu");
  wire_.exchange = [](const tile_received_part& part, const auto&, tile_transport_fault&) {
    return deliver(part);
  };
  auto end = wire_.end();
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(failure_of_run(*end), "");
    expect_values();
  }
  ASSERT_EQ(wire_.threads.size(), 2U);
  EXPECT_NE(wire_.threads[0], std::this_thread::get_id());
  EXPECT_EQ(wire_.threads[0], wire_.threads[1]) << "the thread stays";
}

TEST_F(FaultsBesideOverlap, ATableOfOneThreadIsCalledByThatAlone) {
  make("cpu");
  wire_.exchange = [](const tile_received_part& part, const auto&, tile_transport_fault&) {
    return deliver(part);
  };
  auto end = wire_.end(true);
  EXPECT_EQ(failure_of_run(*end), "");
  expect_values();
  EXPECT_THAT(wire_.threads, ElementsAre(std::this_thread::get_id()));
  wire_.exchange = [](const auto&, const auto&, tile_transport_fault&) {
    return int{TILE_EXCHANGE_SILENT};
  };
  EXPECT_EQ(failure_of_run(*end), "rank: rank 1 of 2 was silent for 0.2 s in the halo of A");
}

// The message may come long after the run has failed: its memory stays.
TEST_F(FaultsBesideOverlap, MemoryStaysForAMessageThatCannotBeCalledBack) {
  make("cpu");
  tile_received_part place{};
  wire_.exchange = [&](const tile_received_part& part, const auto&, tile_transport_fault& fault) {
    place = part;
    fault.in_flight = 1;
    return int{TILE_EXCHANGE_SILENT};
  };
  auto end = wire_.end();
  EXPECT_EQ(failure_of_run(*end), "rank: rank 1 of 2 was silent for 0.2 s in the halo of A");
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
  wire_.exchange = [](const auto&, const auto&, tile_transport_fault&) {
    return int{TILE_EXCHANGE_SILENT};
  };
  auto end = wire_.end();
  EXPECT_EQ(failure_of_run(*end), "rank: rank 1 of 2 was silent for 0.2 s in the halo of A");
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
    wire_.exchange = [&](const tile_received_part& part, const auto& is_over,
                         tile_transport_fault& fault) {
      place = part;
      int result = wait_for_end(is_over);
      std::memset(part.data, 0, part.bytes);
      fault.in_flight = in_flight ? 1 : 0;
      return result;
    };
    auto end = wire_.end();
    OverOnceUnderWay control(wire_);
    {
      Controlled now(&control);
      EXPECT_EQ(failure_of_run(*end), "cancelled: enough");
    }
    EXPECT_FALSE(wire_.under_way);
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
