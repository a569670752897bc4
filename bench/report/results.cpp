#include "bench/report/results.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "bench/report/json_file.h"
#include "runtime/cli/files.h"

namespace tile::bench {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

[[noreturn]] void unreadable(const std::string& path, const std::string& why) {
  fail(Stage::run, "file", {}, path + ": " + why);
}

Json parsed(const std::string& path, const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("context") || !json.contains("benchmarks")) {
    unreadable(path, "not a file of tile-bench results");
  }
  return json;
}

double number(const Json& entry, const char* key) {
  auto it = entry.find(key);
  return it != entry.end() && it->is_number() ? it->get<double>() : 0;
}

std::string words(const Json& entry, const char* key) {
  auto it = entry.find(key);
  return it != entry.end() && it->is_string() ? it->get<std::string>() : "";
}

// "peer_NAME_time", the median.
std::optional<std::string> peer_of(const std::string& key) {
  constexpr std::string_view kStart = "peer_", kEnd = "_time", kLeast = "_min_time";
  if (!key.starts_with(kStart) || !key.ends_with(kEnd) || key.ends_with(kLeast)) return {};
  return key.substr(kStart.size(), key.size() - kStart.size() - kEnd.size());
}

Row row_of(const Json& entry) {
  Row row;
  row.name = words(entry, "name");
  row.suite = words(entry, "suite");
  row.error = words(entry, "error_message");
  row.untrusted = words(entry, "untrusted_because");
  row.measure = entry.contains("gbps") ? "gbps" : "gflops";
  row.median = number(entry, "real_time");
  row.least = number(entry, "min_time");
  row.low = number(entry, "quartile_low");
  row.high = number(entry, "quartile_high");
  row.operations = number(entry, "operations");
  row.bytes = number(entry, "bytes");
  row.rate = number(entry, row.measure.c_str());
  row.ceiling = number(entry, "ceiling");
  row.share = number(entry, "share_of_ceiling");
  row.target_geomean = number(entry, "target_geomean");
  row.target_worst = number(entry, "target_worst");
  if (entry.contains("tuning")) row.tuning = entry["tuning"].get<std::vector<double>>();
  if (entry.contains("launches")) row.launches = kernels_of(entry["launches"]);
  row.beside = words(entry, "beside");
  row.compile_ms = number(entry, "compile_ms");
  row.temporary_bytes = number(entry, "temporary_bytes");
  for (const auto& [key, value] : entry.items()) {
    std::optional<std::string> peer = peer_of(key);
    if (!peer || !value.is_number()) continue;
    std::string start = "peer_" + *peer;
    row.peers.push_back({*peer, value.get<double>(), number(entry, (start + "_ratio").c_str()),
                         number(entry, (start + "_share_of_ceiling").c_str())});
  }
  return row;
}

void read_ceilings(const Json& context, Results& results) {
  for (const Json& c : context.value("ceilings", Json::array())) {
    if (static_cast<int>(number(c, "threads")) != results.threads) continue;
    results.fma_gflops = number(c, "fma_gflops");
    results.copy_gbps = number(c, "copy_gbps");
    results.read_gbps = number(c, "read_gbps");
  }
}

Results results_of(const std::string& path, const std::string& text) {
  Json json = parsed(path, text);
  const Json& context = json["context"];
  Results results;
  results.path = path;
  results.device = words(context, "device");
  results.date = words(context, "date");
  results.threads = static_cast<int>(number(context, "threads"));
  read_ceilings(context, results);
  for (const Json& peer : context.value("peers", Json::array())) {
    results.peers.push_back(peer.get<std::string>());
  }
  for (const Json& entry : json["benchmarks"]) results.rows.push_back(row_of(entry));
  return results;
}

// What two parts of one run must share.
bool same_setting(const Json& a, const Json& b) {
  return a["device"] == b["device"] && a["threads"] == b["threads"] && a["peers"] == b["peers"] &&
         a["library_build_type"] == b["library_build_type"];
}

}  // namespace

ResultsFile::ResultsFile(std::string path, bool resume, const Context& context)
    : path_(std::move(path)) {
  Json now = Json::parse(context_json(context));
  context_ = now.dump();
  if (!resume || path_.empty() || path_ == "-" || !fs::exists(path_)) return;
  Json before = parsed(path_, cli::read_text(path_));
  if (!same_setting(before["context"], now)) {
    unreadable(path_, "a run of another machine, build, thread count or set of peers");
  }
  for (const Json& entry : before["benchmarks"]) {
    // What failed, or is not to be trusted, is measured again.
    bool good = !entry.contains("error_message") && entry.value("trusted", true);
    if (good) entries_.emplace_back(words(entry, "name"), entry.dump());
  }
}

bool ResultsFile::has(const std::string& name) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const auto& e) { return e.first == name; });
}

void ResultsFile::add(const Result& result) {
  entries_.emplace_back(result.name, entry_json(result));
  failed_ = failed_ || !result.error.empty();
  if (path_ != "-") write();
}

void ResultsFile::finish() const { write(); }

void ResultsFile::write() const {
  if (!path_.empty()) replace_file(path_, text());
}

std::string ResultsFile::text() const {
  Json json;
  json["context"] = Json::parse(context_);
  json["benchmarks"] = Json::array();
  for (const auto& [name, entry] : entries_) json["benchmarks"].push_back(Json::parse(entry));
  return json.dump(2) + "\n";
}

Results ResultsFile::results() const { return results_of(path_, text()); }

const Row::Peer* Row::best_peer() const {
  auto best = std::min_element(peers.begin(), peers.end(),
                               [](const Peer& a, const Peer& b) { return a.ratio < b.ratio; });
  return best == peers.end() ? nullptr : &*best;
}

double Row::ratio() const {
  const Peer* best = best_peer();
  return best == nullptr ? 0 : best->ratio;
}

const Row* Results::find(const std::string& name) const {
  auto it = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == name; });
  return it == rows.end() ? nullptr : &*it;
}

Results read_results(const std::string& path) { return results_of(path, cli::read_text(path)); }

bool Suite::met() const {
  constexpr double kAtTheCeiling = 0.95;
  if (geomean == 0) return false;
  bool each = std::all_of(rows.begin(), rows.end(), [&](const Row* row) {
    return row->ratio() == 0 || row->ratio() >= target_worst || row->share >= kAtTheCeiling;
  });
  return (geomean >= target_geomean || share_geomean >= kAtTheCeiling) && each;
}

std::vector<Suite> suites(const Results& results) {
  std::vector<Suite> list;
  for (const Row& row : results.rows) {
    if (!row.error.empty()) continue;
    auto at =
        std::find_if(list.begin(), list.end(), [&](const Suite& s) { return s.name == row.suite; });
    if (at == list.end()) at = list.insert(list.end(), Suite{row.suite});
    at->rows.push_back(&row);
    if (!row.untrusted.empty()) ++at->untrusted;
    at->target_geomean = std::max(at->target_geomean, row.target_geomean);
    at->target_worst = std::max(at->target_worst, row.target_worst);
    if (row.ratio() > 0 && (at->worst == nullptr || row.ratio() < at->worst->ratio()))
      at->worst = &row;
  }
  for (Suite& suite : list) {
    double ratios = 0, shares = 0;
    int compared = 0;
    for (const Row* row : suite.rows) {
      shares += std::log(std::max(row->share, 1e-9));
      if (row->ratio() <= 0) continue;
      ratios += std::log(row->ratio());
      ++compared;
    }
    suite.share_geomean = std::exp(shares / static_cast<double>(suite.rows.size()));
    if (compared > 0) suite.geomean = std::exp(ratios / compared);
  }
  return list;
}

}  // namespace tile::bench
