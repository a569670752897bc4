#include "runtime/engine/fleet/fleet_files.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/engine/records/tuning_record.h"

namespace tile {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPlan = "plan 1", kTimes = ".times", kRecords = ".jsonl";
constexpr size_t kLargestFile = size_t{1} << 28;  // bytes of one worker's
constexpr size_t kMostSchedules = 100000;

std::optional<std::string> text_of(const PrivateDirectory& directory, const std::string& name) {
  std::string why;
  auto bytes = directory.read(name, kLargestFile, why);
  if (!bytes) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

std::string sum_of(const FleetPlan& plan) {
  std::string all = plan.processor + "\n" + plan.kernel + "\n" + std::to_string(plan.chunk);
  for (const std::string& s : plan.schedules) all += "\n" + s;
  return digest(all);
}

}  // namespace

std::string to_text(const FleetPlan& plan) {
  Json json;
  json["tile"] = kPlan;
  json["processor"] = plan.processor;
  json["kernel"] = plan.kernel;
  json["chunk"] = plan.chunk;
  json["schedules"] = plan.schedules;
  json["sum"] = sum_of(plan);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<FleetPlan> parse_plan(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  FleetPlan plan;
  try {
    if (!json.is_object() || json.at("tile") != kPlan) return std::nullopt;
    plan.processor = json.at("processor").get<std::string>();
    plan.kernel = json.at("kernel").get<std::string>();
    plan.chunk = json.at("chunk").get<size_t>();
    plan.schedules = json.at("schedules").get<std::vector<std::string>>();
    bool sound = plan.chunk > 0 && plan.chunk <= kMostSchedules && !plan.schedules.empty() &&
                 plan.schedules.size() <= kMostSchedules && json.at("sum") == sum_of(plan);
    if (!sound) return std::nullopt;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
  return plan;
}

std::string to_line(const FleetTime& time) {
  Json json;
  json["kernel"] = time.kernel;
  json["schedule"] = time.schedule;
  if (std::isfinite(time.ns)) json["ns"] = time.ns;
  return json.dump() + "\n";
}

std::optional<FleetTime> parse_time(std::string_view line) {
  Json json = Json::parse(line, nullptr, false);
  FleetTime time;
  try {
    if (!json.is_object()) return std::nullopt;
    time.kernel = json.at("kernel").get<std::string>();
    time.schedule = json.at("schedule").get<std::string>();
    if (json.contains("ns")) time.ns = json.at("ns").get<double>();
  } catch (const Json::exception&) {
    return std::nullopt;
  }
  return time.ns > 0 ? std::optional(time) : std::nullopt;
}

void FleetTimes::refresh() {
  for (const PrivateDirectory::Entry& e : directory_.entries()) {
    if (!e.name.ends_with(kTimes) || read_[e.name] == e.bytes) continue;
    std::optional<std::string> text = text_of(directory_, e.name);
    if (!text) continue;
    std::string_view rest = std::string_view(*text).substr(std::min(text->size(), read_[e.name]));
    // What has no end yet comes again.
    while (rest.find('\n') != std::string_view::npos) {
      std::string_view line = rest.substr(0, rest.find('\n'));
      if (std::optional<FleetTime> time = parse_time(line)) add(*time);
      rest.remove_prefix(line.size() + 1);
    }
    read_[e.name] = text->size() - rest.size();
  }
}

std::string times_file(const std::string& worker) { return worker + std::string(kTimes); }
std::string fleet_records_file(const std::string& worker) { return worker + std::string(kRecords); }

std::string fleet_records(const PrivateDirectory& directory) {
  std::string all;
  for (const PrivateDirectory::Entry& e : directory.entries()) {
    if (!e.name.ends_with(kRecords)) continue;
    std::optional<std::string> text = text_of(directory, e.name);
    if (text) all += *text + (text->ends_with('\n') ? "" : "\n");
  }
  return all;
}

}  // namespace tile
