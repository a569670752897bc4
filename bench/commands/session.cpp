#include "bench/commands/session.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <set>

#include "bench/measure/accuracy.h"
#include "bench/peers/python.h"
#include "bench/report/trust.h"
#include "core/kernel/forms/tensor_core_gemm.h"
#include "core/target/target.h"

namespace tile::bench {
namespace {

constexpr double kCopiedBytes = 1 << 16;  // less is a call's cost

Traffic traffic_of(const Work& work) { return {work.bytes - work.written, work.written}; }

std::string number_text(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

// The cases of a suite one after the other, so that it is done before the next one begins.
void by_suite(std::vector<Case>& cases) {
  std::map<std::string, size_t> order;
  for (const Case& c : cases) order.try_emplace(c.workload->suite, order.size());
  std::stable_sort(cases.begin(), cases.end(), [&](const Case& a, const Case& b) {
    return order[a.workload->suite] < order[b.workload->suite];
  });
}

std::string device_of(const Engine& engine) { return is_gpu(engine.target()) ? "cuda" : "cpu"; }

}  // namespace

Session::Session(const Request& request)
    : request_(request),
      engine_(cli::make_engine(request.engine)),
      cases_(chosen(read_cases(request.folder), request.names, request.filter)),
      ceilings_(request.quick) {
  if (cases_.empty())
    fail(Stage::run, "argument", {}, "no benchmark is chosen",
         "tile-bench list names them all; --filter takes a part of a name");
  choose_device(request);
  threads_ = engine_->target().threads;
  bool gpu = is_gpu(engine_->target());
  std::string device = device_of(*engine_);
  choose_sizes(request);
  if (cases_.empty()) fail(Stage::run, "argument", {}, "no benchmark of these sizes is chosen");
  by_suite(cases_);
  if (!request.peers) return;
  if (!gpu) peers_ = make_peers(threads_);
  Precision precision = engine_->target().precision;
  const std::vector<std::string>& wanted = request.peer_names;
  for (auto& peer : make_python_peers(cases_, threads_, device, precision, wanted))
    peers_.push_back(std::move(peer));
  if (wanted.empty()) return;
  std::erase_if(peers_, [&](const auto& peer) {
    return std::find(wanted.begin(), wanted.end(), peer->name()) == wanted.end();
  });
}

// What is chosen of this machine's device, or, where no backend is named and all of it belongs to
// CPUs, of the CPU.
void Session::choose_device(const Request& request) {
  auto elsewhere = [&](const Case& c) {
    const std::vector<std::string>& on = c.workload->devices;
    return std::find(on.begin(), on.end(), device_of(*engine_)) == on.end();
  };
  bool none = std::all_of(cases_.begin(), cases_.end(), elsewhere);
  if (none && request.engine.backend == "auto" && is_gpu(engine_->target())) {
    cli::Options cpu = request.engine;
    cpu.backend = "cpu";
    engine_ = cli::make_engine(cpu);
  }
  std::erase_if(cases_, elsewhere);
  if (!cases_.empty()) return;
  fail(Stage::run, "argument", {},
       "no benchmark of this device (" + device_of(*engine_) + ") is chosen",
       "tile-bench list names the benchmarks, --backend chooses the device");
}

void Session::choose_sizes(const Request& request) {
  if (request.small) {
    // Each program once, whatever its cases.
    std::set<const Workload*> seen;
    std::erase_if(cases_, [&](const Case& c) {
      return c.workload->small.empty() || !seen.insert(c.workload.get()).second;
    });
    for (Case& c : cases_) c.shapes = c.workload->small;
  } else if (request.quick) {
    const std::vector<std::string>& names = request.names;
    std::erase_if(cases_, [&](const Case& c) {
      return c.full && std::find(names.begin(), names.end(), c.name) == names.end();
    });
  }
}

Context Session::context() {
  Context context{engine_->device(), threads_, &ceilings_, {}};
  if (is_gpu(engine_->target())) {
    context.device_gflops = 2 * threads_ * engine_->target().fma_per_ns;
    context.device_gbps = device_copy();
  }
  if (!request_.peers) return context;
  for (const auto& peer : peers_)
    context.peers.push_back(peer->name() + ": " + peer->description());
  if (is_gpu(engine_->target())) return context;  // the libraries linked in are of the host
  for (const std::string& missing : missing_peers(peers_)) context.peers.push_back(missing);
  return context;
}

const std::shared_ptr<Engine>& Session::engine_of(const Workload& workload) {
  Precision precision = workload.precision.value_or(engine_->target().precision);
  if (precision == engine_->target().precision) return engine_;
  std::shared_ptr<Engine>& engine = others_[precision];
  if (!engine) {
    cli::Options options = request_.engine;
    options.precision = to_string(precision);
    engine = cli::make_engine(options);
  }
  return engine;
}

Prepared Session::prepare(const Case& c) { return Prepared(engine_of(*c.workload), c); }

// How many times faster than f32's multiply-adds this CPU's instructions are that multiply packed
// neighbours of the types of the first two inputs.
double Session::neighbours_advantage(const Prepared& prepared) const {
  const Target& target = engine_->target();
  auto rate = [&](DType type) {
    if (type == DType::bf16) return std::max(target.dot_bf16_per_ns, target.tiles.bf16_per_ns);
    if (type == DType::i16) return target.dot_i16_per_ns;
    bool byte = type == DType::i8 || type == DType::u8;
    return byte ? std::max(target.dot_i8_per_ns, target.tiles.i8_per_ns) : 0;
  };
  const std::vector<Tensor>& inputs = prepared.inputs();
  if (inputs.size() < 2) return 1;
  double both = std::min(rate(inputs[0].type()), rate(inputs[1].type()));
  return std::max(1.0, both / target.fma_per_ns);
}

double Session::ceiling(const Prepared& prepared) {
  if (is_gpu(engine_->target())) return device_ceiling(prepared);
  const Work& work = prepared.work();
  if (prepared.what().workload->measure == Measure::gflops) {
    return ceilings_.gflops(threads_) * neighbours_advantage(prepared);
  }
  return ceilings_.gbps(traffic_of(work), threads_);
}

// What a processor or its memory can do differs from second to second where others use the machine
// too, and what a copy takes from process to process: the ceiling takes turns with the contenders.
// Null where it does not.
std::unique_ptr<PlainWork> Session::plain_work(const Prepared& prepared) const {
  if (is_gpu(engine_->target())) return nullptr;
  if (prepared.what().workload->measure == Measure::gflops) return plain_multiply_adds(threads_);
  const Work& work = prepared.work();
  if (work.bytes < kCopiedBytes) return nullptr;
  return plain_traffic(traffic_of(work), threads_);
}

// Arithmetic as the device's data sheet has it; bandwidth as a copy in its memory reaches it.
double Session::device_ceiling(const Prepared& prepared) {
  const Target& target = prepared.executable().engine->target();
  if (prepared.what().workload->measure == Measure::gflops) {
    DType type = prepared.inputs().front().type();
    double rate = std::max(tensor_core_rate(type, target), target.fma_per_ns);
    return 2 * target.gpu.multiprocessors * rate;
  }
  return device_copy();
}

double Session::device_copy() {
  if (device_copy_gbps_ == 0) device_copy_gbps_ = device_copy_gbps(*engine_->session());
  return device_copy_gbps_;
}

// Peers that have the case; those that fail, now or at the first call, are named in the result.
std::vector<Session::Opponent> Session::opponents(const Prepared& prepared, Result& result) {
  std::vector<Opponent> list;
  for (const auto& peer : peers_) {
    std::vector<Tensor> outputs;
    for (const Tensor& t : prepared.outputs()) outputs.emplace_back(InputType{t.type(), t.shape()});
    try {
      Calls calls = peer->prepare(prepared.what(), prepared.inputs(), outputs);
      if (!calls) continue;
      calls(1);
      outputs.erase(outputs.begin() + static_cast<std::ptrdiff_t>(peer->computed()), outputs.end());
      list.push_back({peer->name(), peer.get(), std::move(outputs), std::move(calls)});
    } catch (const std::exception& failure) {
      result.failed_peers.push_back({peer->name(), failure.what()});
    }
  }
  return list;
}

// Where it is, and how far the peers are from each other: who is alone is wrong, and where all are
// apart, rounding is.
std::string Session::where_else(const Prepared& prepared, const Prepared::Difference& off,
                                const std::vector<Opponent>& others) {
  std::string text = " in " + off.output;
  for (size_t i = 0; i < others.size(); ++i) {
    for (size_t j = i + 1; j < others.size(); ++j) {
      Prepared::Difference between = prepared.differences(others[i].outputs, others[j].outputs);
      text += ", " + others[i].name + "'s and " + others[j].name + "'s by " +
              number_text(between.most) + " in " + between.output;
    }
  }
  return text;
}

// Every peer's result, or the interpreter's where there is no peer.
void Session::check(Prepared& prepared, const std::vector<Opponent>& others, Result& result) const {
  if (!request_.check) return;
  prepared.run();
  prepared.fetch();
  double tolerance = tolerance_of(prepared);
  std::string with, differs;
  for (const Opponent& other : others) {
    with += (with.empty() ? "" : ", ") + other.name;
    Prepared::Difference off = prepared.differences(prepared.outputs(), other.outputs);
    if (off.most <= tolerance || !differs.empty()) continue;
    differs = "the result differs from " + other.name + "'s by " + number_text(off.most) +
              where_else(prepared, off, others);
  }
  if (others.empty()) {
    std::optional<double> off = difference_from_reference(prepared);
    if (!off) return;
    with = "interpreter";
    if (*off > tolerance)
      differs = "the result differs from the interpreter's by " + number_text(*off);
  }
  if (!differs.empty()) result.checked_in_f64 = check_in_f64(prepared, others, differs);
  result.checked_with = with;
}

// Where contenders differ: how far each is from f64's results, and how far those move. Only of
// training in f32, whose steps are not smooth, may it be more than is tolerated.
std::string Session::check_in_f64(const Prepared& prepared, const std::vector<Opponent>& others,
                                  const std::string& differs) {
  const Workload& workload = *prepared.what().workload;
  if (!workload.optimiser || workload.floats != DType::f32) {
    fail(Stage::run, "mismatch", {}, differs);
  }
  Exact exact(prepared);
  double moved = exact.moved().most, limit = limit_of(prepared, moved);
  double farthest = 0;
  std::string text;
  auto add = [&](const std::string& name, const std::vector<Tensor>& outputs) {
    double off = exact.off(outputs).most;
    farthest = std::max(farthest, off);
    text += name + " " + number_text(off) + ", ";
  };
  add("tile", prepared.outputs());
  for (const Opponent& other : others) add(other.name, other.outputs);
  text += "moved " + number_text(moved);
  if (farthest <= limit) return text;
  fail(Stage::run, "mismatch", {}, differs + "; from f64's: " + text);
}

Result Session::time(Prepared& prepared, const std::string& name, const Times* measured) {
  Result result;
  result.name = name;
  const Workload& workload = *prepared.what().workload;
  result.suite = workload.suite;
  result.target_geomean = workload.target_geomean;
  result.target_worst = workload.target_worst;
  result.measure = workload.measure;
  result.work = prepared.work();
  result.compile_ms = prepared.compile_ms();
  result.schedules = prepared.schedules();
  result.temporary_bytes = static_cast<double>(prepared.temporary_bytes());
  for (const Tensor& t : prepared.outputs()) {
    result.output_bytes += static_cast<double>(t.bytes());
  }
  result.distinct_kernels = prepared.distinct_kernels();
  std::vector<Opponent> others;
  if (measured == nullptr) others = opponents(prepared, result);
  progress_.show(name + ": checking");
  check(prepared, others, result);
  if (measured != nullptr) {
    result.times = *measured;
    time_ceiling(prepared, result);
  } else {
    while (!time_in_turns(prepared, others, result)) {
    }
  }
  for (size_t i = 0; i < others.size(); ++i) {
    result.peers[i].allocated_bytes = others[i].peer->allocated_bytes();
  }
  if (result.ceiling == 0) result.ceiling = ceiling(prepared);
  progress_.clear();
  if (!is_gpu(engine_->target())) {
    result.untrusted = distrust(workload, prepared.inputs().front().type(), result);
  }
  return result;
}

void Session::keep_ceiling(const Prepared& prepared, double amount, Times times,
                           Result& result) const {
  bool arithmetic = prepared.what().workload->measure == Measure::gflops;
  result.ceiling_work = amount * (arithmetic ? neighbours_advantage(prepared) : 1);
  result.ceiling = result.ceiling_work / times.median();
  result.ceiling_times = std::move(times);
}

void Session::time_ceiling(const Prepared& prepared, Result& result) {
  std::unique_ptr<PlainWork> best = plain_work(prepared);
  if (!best) return;
  Calls calls = [&](int64_t count) { return best->nanoseconds(count); };
  std::vector<Times> times = interleave({{"ceiling", calls}}, request_.timing);
  keep_ceiling(prepared, best->amount(), std::move(times.front()), result);
}

// False: a peer failed at it. It is named in the result and no longer among the others.
bool Session::time_in_turns(Prepared& prepared, std::vector<Opponent>& others, Result& result) {
  std::optional<size_t> timed;  // whose turn it is, none: ours
  std::vector<Contender> contenders{{"tile", [&, calls = prepared.calls()](int64_t count) {
                                       timed.reset();
                                       return calls(count);
                                     }}};
  for (size_t i = 0; i < others.size(); ++i) {
    contenders.push_back({others[i].name, [&, i](int64_t count) {
                            timed = i;
                            return others[i].calls(count);
                          }});
  }
  std::unique_ptr<PlainWork> best = plain_work(prepared);
  if (best) {
    contenders.push_back({"ceiling", [&](int64_t count) {
                            timed.reset();
                            return best->nanoseconds(count);
                          }});
  }
  try {
    std::vector<Times> times = interleave(contenders, request_.timing, [&](int round) {
      progress_.show(result.name + ": round " + std::to_string(round + 1) + " of " +
                     std::to_string(request_.timing.rounds));
    });
    result.times = std::move(times[0]);
    for (size_t i = 0; i < others.size(); ++i) {
      result.peers.push_back({others[i].name, std::move(times[i + 1]), {}});
    }
    if (best) keep_ceiling(prepared, best->amount(), std::move(times.back()), result);
  } catch (const Failure& failure) {
    if (!timed) throw;
    result.failed_peers.push_back({others[*timed].name, failure.what()});
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(*timed));
    return false;
  }
  return true;
}

std::vector<double> Session::tune(Prepared& prepared, double budget_ms) {
  using Clock = std::chrono::steady_clock;
  const std::string& name = prepared.what().name;
  double work = prepared.what().workload->measure == Measure::gflops ? prepared.work().operations
                                                                     : prepared.work().bytes;
  bool one_kernel = prepared.executable().launches.size() == 1;
  double best_possible = ceiling(prepared);
  std::vector<double> curve;
  auto start = Clock::now();
  auto report = [&](const std::string& kernel, size_t tried, size_t total, double best_ns) {
    if (one_kernel) curve.push_back(best_ns);
    double spent = std::chrono::duration<double>(Clock::now() - start).count();
    char text[200];
    std::snprintf(text, sizeof text, "%s: kernel %s, candidate %zu of %zu, best %s", name.c_str(),
                  kernel.c_str(), tried, total, time_text(best_ns).c_str());
    std::string line = text;
    // The work of a program is not divided among its kernels.
    if (one_kernel) {
      std::snprintf(text, sizeof text, " (%.1f %% of the ceiling)",
                    100 * work / best_ns / best_possible);
      line += text;
    }
    double left = spent / static_cast<double>(tried) * static_cast<double>(total - tried);
    std::snprintf(text, sizeof text, ", at most %.1f s left for it", left);
    progress_.show(line + text);
  };
  prepared.tune(budget_ms, report);
  progress_.clear();
  return curve;
}

}  // namespace tile::bench
