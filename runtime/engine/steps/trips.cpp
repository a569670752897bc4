#include "runtime/engine/steps/trips.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "backends/trace.h"
#include "runtime/engine/engine.h"

namespace tile {

std::vector<GivenInTime> given_in_time(std::span<void* const> tensors, size_t inputs,
                                       std::span<const Feed> feeds, std::span<void* const> spare,
                                       int64_t trips) {
  std::vector<GivenInTime> given;
  for (void* tensor : tensors) given.push_back({tensor, {tensor, tensor}});
  for (size_t o = 0; o < spare.size(); ++o) {
    if (spare[o] == nullptr) continue;
    void* last = tensors[inputs + o];
    GivenInTime& output = given[inputs + o];
    for (int64_t parity : {0, 1}) {
      output.by_parity[parity] = (trips - 1 - parity) % 2 == 0 ? last : spare[o];
    }
    output.first = output.by_parity[0];
  }
  for (const Feed& feed : feeds) {
    const GivenInTime& from = given[inputs + feed.output];
    given[feed.input].by_parity[0] = from.by_parity[1];
    given[feed.input].by_parity[1] = from.by_parity[0];
  }
  return given;
}

namespace {

class BlockedRun {
 public:
  BlockedRun(const Trips& loop, const TimeTiles& tiles) : loop_(loop), tiles_(tiles) {
    const EngineOptions& options = loop.step.engine->options();
    launching_.threads = options.threads;
    launching_.control = loop.control;
    launching_.pool = loop.step.engine->pool();
    size_t first = 0;
    for (const Launch& launch : loop.step.launches) {
      arguments_.push_back(loop.step.call.arguments.data() + first);
      first += launch.arguments.size();
    }
  }

  void run(int64_t first, int64_t count) {
    trace::Scope span("launch", [&] {
      return std::to_string(count) + " trips in blocks: " + print(tiles_, loop_.blocks.turns);
    });
    for (size_t phase = 0; phase < tiles_.phases(); ++phase) {
      auto piece = [&](int64_t number) { do_piece(phase, number, first, count); };
      loop_.step.engine->backend().run_parallel(tiles_.pieces(phase), piece, launching_);
      if (is_over()) throw loop_.control->reason({});
    }
  }

 private:
  bool is_over() const { return loop_.control != nullptr && loop_.control->is_over(); }

  void do_piece(size_t phase, int64_t piece, int64_t first, int64_t count) const {
    int64_t turns = loop_.blocks.turns;
    for (int64_t trip = 0; trip < count && !is_over(); ++trip) {
      for (int64_t turn = 0; turn < turns; ++turn) {
        for (size_t k = 0; k < loop_.blocks.launches.size(); ++k) {
          if (loop_.blocks.launches[k].turn != turn) continue;
          do_launch(k, first + trip, phase, piece, trip * turns + turn);
        }
      }
    }
  }

  void do_launch(size_t k, int64_t trip, size_t phase, int64_t piece, int64_t turn) const {
    std::array<void*, CallPlan::kMost> pointers;
    size_t count = loop_.step.launches[k].arguments.size();
    for (size_t i = 0; i < count; ++i) pointers[i] = pointer(arguments_[k][i], trip);
    const Code& code = *loop_.blocks.launches[k].code;
    std::span<void* const> all{pointers.data(), count};
    IterationSpan rows = span_of(tiles_, phase, piece, turn, 0);
    const TiledDimension& first = tiles_.dimensions[0];
    if (tiles_.dimensions.size() == 1) {
      each_part(rows, first,
                [&](int64_t begin, int64_t end) { code.run_iterations(all, begin, end); });
      return;
    }
    const TiledDimension& second = tiles_.dimensions[1];
    IterationSpan columns = span_of(tiles_, phase, piece, turn, 1);
    each_part(rows, first, [&](int64_t begin, int64_t end) {
      each_part(columns, second, [&](int64_t from, int64_t to) {
        do_rows(code, all, {begin, end}, {from, to}, second.iterations);
      });
    });
  }

  // Rows of `width` iterations, of each the columns.
  static void do_rows(const Code& code, std::span<void* const> pointers, IterationSpan rows,
                      IterationSpan columns, int64_t width) {
    if (columns.begin == 0 && columns.end == width) {
      code.run_iterations(pointers, rows.begin * width, rows.end * width);
      return;
    }
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      code.run_iterations(pointers, row * width + columns.begin, row * width + columns.end);
    }
  }

  // The parts of a span that are inside the dimension: what is beyond an end is at the other one.
  template <class F>
  static void each_part(const IterationSpan& span, const TiledDimension& d, const F& f) {
    auto part = [&](int64_t begin, int64_t end) {
      if (begin < end) f(begin, end);
    };
    part(std::max<int64_t>(0, span.begin), std::min(span.end, d.iterations));
    if (span.begin < 0) part(span.begin + d.iterations, d.iterations);
    if (span.end > d.iterations) part(0, span.end - d.iterations);
  }

  void* pointer(const CallPlan::Argument& argument, int64_t trip) const {
    using Base = CallPlan::Argument::Base;
    if (argument.base == Base::given) return loop_.given[argument.at].at(trip);
    if (argument.base == Base::arena) return loop_.arena + argument.at;
    return reinterpret_cast<void*>(argument.at);
  }

  const Trips& loop_;
  const TimeTiles& tiles_;
  LaunchOptions launching_;
  std::vector<const CallPlan::Argument*> arguments_;  // of each launch
};

void tell(const Trips& loop) {
  const Executable& step = loop.step;
  if (step.engine->options().log) {
    step.engine->log(LogLevel::info, "a loop's steps: " + print(loop.blocks));
  }
}

}  // namespace

void run_in_blocks(const Trips& loop, const TimeTiles& tiles, int64_t first, int64_t count) {
  BlockedRun(loop, tiles).run(first, count);
}

void run_trips(const Trips& loop, int64_t first, int64_t trips) {
  WayRace& race = *loop.blocks.race;
  const int64_t group = loop.blocks.trips_at_a_time();
  for (bool begun = false; first < trips; begun = true) {
    // What a run begins with meets memory that nobody has touched.
    bool timed = begun && trips - first >= group;
    size_t way = timed ? race.next(group, trips - first) : race.chosen();
    const TimeTiles* tiles = way == 0 ? nullptr : &loop.blocks.tiles[way - 1];
    int64_t most = tiles == nullptr ? group : tiles->turns / loop.blocks.turns;
    int64_t count = std::min(most, trips - first);
    auto begin = std::chrono::steady_clock::now();
    if (tiles == nullptr || count < 2) {
      loop.plain(first, count);
    } else {
      run_in_blocks(loop, *tiles, first, count);
    }
    std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    if (!timed) {
      race.untimed(count);
    } else if (race.ran(way, count, took.count())) {
      tell(loop);
    }
    first += count;
  }
}

}  // namespace tile
