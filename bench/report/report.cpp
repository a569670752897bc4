#include "bench/report/report.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>
#include <ostream>
#include <thread>

#include "bench/report/progress.h"

namespace tile::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMemoryBytes = 256 << 20;  // beyond every cache

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

const char* unit(Measure measure) { return measure == Measure::gflops ? "GFLOP/s" : "GB/s"; }

std::string padded(const std::string& text, size_t width, bool left = false) {
  std::string space(text.size() < width ? width - text.size() : 0, ' ');
  return left ? text + space : space + text;
}

std::string local_time() {
  std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S%z", &parts);
  return text;
}

Json ceilings_json(const Context& context) {
  Json list = Json::array();
  if (context.device_gbps > 0) {
    list.push_back({{"threads", context.threads},
                    {"fma_gflops", context.device_gflops},
                    {"copy_gbps", context.device_gbps},
                    {"read_gbps", context.device_gbps}});
    return list;
  }
  std::vector<int> counts{1};
  if (context.threads > 1) counts.push_back(context.threads);
  for (int threads : counts) {
    list.push_back({{"threads", threads},
                    {"fma_gflops", context.ceilings->gflops(threads)},
                    {"copy_gbps", context.ceilings->gbps(Traffic::copy(kMemoryBytes), threads)},
                    {"read_gbps", context.ceilings->gbps({kMemoryBytes, 0}, threads)}});
  }
  return list;
}

Json context_fields(const Context& context) {
  double load[3] = {0, 0, 0};
  int loads = getloadavg(load, 3);
  Json c;
  c["date"] = local_time();
  c["executable"] = "tile-bench";
  c["num_cpus"] = std::thread::hardware_concurrency();
  c["load_avg"] = Json::array();
  for (int i = 0; i < loads; ++i) c["load_avg"].push_back(load[i]);
#ifdef NDEBUG
  c["library_build_type"] = "release";
#else
  c["library_build_type"] = "debug";
#endif
  c["device"] = context.device;
  c["threads"] = context.threads;
  c["vectors"] = context.device_gbps > 0 ? "" : probe_name();
  c["ceilings"] = ceilings_json(context);
  c["peers"] = context.peers;
  return c;
}

// Each contender's times, a value for each round.
Json rounds_json(const Result& r) {
  Json rounds = {{"tile", r.times.real}};
  for (const PeerResult& peer : r.peers) rounds[peer.name] = peer.times.real;
  if (!r.ceiling_times.real.empty()) rounds["ceiling"] = r.ceiling_times.real;
  return rounds;
}

Json entry(const Result& r) {
  Json e;
  e["name"] = r.name;
  e["run_name"] = r.name;
  e["run_type"] = "iteration";
  e["suite"] = r.suite;
  if (!r.error.empty()) {
    e["error_occurred"] = true;
    e["error_message"] = r.error;
    return e;
  }
  e["repetitions"] = r.times.real.size();
  e["iterations"] = r.times.iterations;
  e["real_time"] = r.times.median();
  e["cpu_time"] = r.times.median_cpu();
  e["time_unit"] = "ns";
  e["min_time"] = r.times.least();
  e["quartile_low"] = r.times.quantile(0.25);
  e["quartile_high"] = r.times.quantile(0.75);
  e["compile_ms"] = r.compile_ms;
  e["schedules"] = r.schedules;
  e["kernels"] = r.schedules.size();
  e["distinct_kernels"] = r.distinct_kernels;
  if (!r.launches.empty()) e["launches"] = to_json(r.launches);
  if (!r.beside.empty()) e["beside"] = r.beside;
  e["temporary_bytes"] = r.temporary_bytes;
  e["allocated_bytes"] = r.temporary_bytes + r.output_bytes;
  e["operations"] = r.work.operations;
  e["bytes"] = r.work.bytes;
  e[r.measure == Measure::gflops ? "gflops" : "gbps"] = r.rate();
  e["ceiling"] = r.ceiling;
  e["share_of_ceiling"] = r.share_of_ceiling();
  e["checked_with"] = r.checked_with;
  if (!r.checked_in_f64.empty()) e["checked_in_f64"] = r.checked_in_f64;
  if (r.target_geomean > 0) {
    e["target_geomean"] = r.target_geomean;
    e["target_worst"] = r.target_worst;
  }
  if (!r.tuning.empty()) e["tuning"] = r.tuning;
  for (const PeerResult& peer : r.peers) {
    e["peer_" + peer.name + "_time"] = peer.times.median();
    e["peer_" + peer.name + "_min_time"] = peer.times.least();
    e["peer_" + peer.name + "_share_of_ceiling"] = r.share_of_ceiling(peer.times);
    e["peer_" + peer.name + "_ratio"] = in_turns(peer.times, r.times);
    if (peer.allocated_bytes) {
      e["peer_" + peer.name + "_allocated_bytes"] = *peer.allocated_bytes;
    }
  }
  for (const Result::FailedPeer& peer : r.failed_peers) {
    e["peer_" + peer.name + "_error"] = peer.reason;
  }
  if (!r.peers.empty()) {
    e["ratio_best_peer"] = r.ratio_best_peer();
    e["ratio_best_peer_min"] = r.ratio_best_peer_least();
  }
  if (!r.peers.empty() || !r.untrusted.empty()) e["trusted"] = r.untrusted.empty();
  if (!r.untrusted.empty()) e["untrusted_because"] = r.untrusted;
  e["rounds"] = rounds_json(r);
  return e;
}

}  // namespace

std::string share_text(double share, int digits) {
  if (share > 1) return "> 100 %";
  char text[64];
  std::snprintf(text, sizeof text, "%.*f %%", digits, 100 * share);
  return text;
}

double Result::share_of_ceiling(const Times& of) const {
  if (ceiling_times.real.empty()) return work_done() / of.median() / ceiling;
  return work_done() / ceiling_work * in_turns(ceiling_times, of);
}

double Result::ratio_best_peer() const {
  if (peers.empty()) return 0;
  double best = std::numeric_limits<double>::infinity();
  for (const PeerResult& peer : peers) best = std::min(best, in_turns(peer.times, times));
  return best;
}

double Result::ratio_best_peer_least() const {
  if (peers.empty()) return 0;
  double best = std::numeric_limits<double>::infinity();
  for (const PeerResult& peer : peers) best = std::min(best, peer.times.least());
  return best / times.least();
}

namespace {

void print_ceilings(std::ostream& out, const Context& context) {
  for (const Json& c : ceilings_json(context)) {
    out << "ceilings, " << c["threads"] << (c["threads"] == 1 ? " thread: " : " threads: ")
        << formatted("%.1f", c["fma_gflops"]) << " GFLOP/s f32 (" << probe_name()
        << " multiply-adds), memory " << formatted("%.1f", c["copy_gbps"]) << " GB/s copied, "
        << formatted("%.1f", c["read_gbps"]) << " GB/s read\n";
  }
}

}  // namespace

void print_header(std::ostream& out, const Context& context) {
  out << context.device << "\n";
  if (context.device_gbps > 0) {
    out << "ceilings: " << formatted("%.1f", context.device_gflops) << " GFLOP/s f32, memory "
        << formatted("%.1f", context.device_gbps) << " GB/s copied\n";
  } else {
    print_ceilings(out, context);
  }
  for (const std::string& peer : context.peers) out << "peer " << peer << "\n";
  out << "\n";
}

void print_columns(std::ostream& out) {
  out << padded("name", 24, true) << padded("least", 10) << padded("median", 10)
      << padded("rate", 16) << padded("of ceiling", 12)
      << "  checked with; peers: least, median (over ours, share)\n";
}

void print_row(std::ostream& out, const Result& r) {
  out << padded(r.name, 24, true);
  if (!r.error.empty()) {
    out << "  failed: " << r.error << "\n";
    return;
  }
  out << padded(time_text(r.times.least()), 10) << padded(time_text(r.times.median()), 10)
      << padded(formatted("%.1f ", r.rate()) + unit(r.measure), 16)
      << padded(share_text(r.share_of_ceiling()), 12) << "  "
      << (r.checked_with.empty() ? "-" : r.checked_with);
  bool memory = std::any_of(r.peers.begin(), r.peers.end(),
                            [](const PeerResult& p) { return p.allocated_bytes.has_value(); });
  if (memory) {
    out << formatted("; %.1f MB with results", (r.temporary_bytes + r.output_bytes) / 1e6);
  }
  for (const PeerResult& peer : r.peers) {
    out << "; " << peer.name << " " << time_text(peer.times.least()) << " "
        << time_text(peer.times.median()) << " ("
        << formatted("%.2fx in turns, ", in_turns(peer.times, r.times))
        << formatted("%.2fx least, ", peer.times.least() / r.times.least())
        << share_text(r.share_of_ceiling(peer.times), 0) << " of ceiling";
    if (peer.allocated_bytes) out << formatted(", %.1f MB", *peer.allocated_bytes / 1e6);
    out << ")";
  }
  for (const Result::FailedPeer& peer : r.failed_peers) {
    out << "; " << peer.name << " failed: " << peer.reason;
  }
  if (!r.untrusted.empty()) out << "; UNTRUSTED: " << r.untrusted;
  out << std::endl;
}

std::string context_json(const Context& context) { return context_fields(context).dump(); }
std::string entry_json(const Result& result) { return entry(result).dump(); }

}  // namespace tile::bench
