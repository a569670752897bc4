#include "runtime/engine/tuning_records.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/schedule/nearest.h"

namespace tile {
namespace {

using Json = nlohmann::ordered_json;

std::string hex(std::string_view text) {
  char buffer[17];
  std::snprintf(buffer, sizeof buffer, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  return buffer;
}

// Lines start with it, so that a reader passes over other devices' records without parsing them.
std::string line_start(std::string_view identity) {
  return R"({"device":")" + hex(identity) + "\"";
}

}  // namespace

std::string to_json_line(const TuningRecord& record, std::string_view identity) {
  Json json;
  json["device"] = hex(identity);
  json["kernel"] = record.kernel;
  json["schedule"] = record.schedule;
  json["ns"] = record.ns;
  json["identity"] = identity;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<TuningRecord> parse_json_line(std::string_view line, std::string_view identity) {
  if (!line.starts_with(line_start(identity))) return std::nullopt;
  Json json = Json::parse(line, nullptr, false);
  auto text = [&](const char* key) { return json.contains(key) && json[key].is_string(); };
  if (!json.is_object() || !text("kernel") || !text("schedule") || !text("identity") ||
      !json.contains("ns") || !json["ns"].is_number() || json["identity"] != identity) {
    return std::nullopt;
  }
  return TuningRecord{json["kernel"], json["schedule"], json["ns"]};
}

TuningRecords::TuningRecords(std::string directory, bool writable, std::string identity,
                             std::function<void(const std::string&)> log)
    : path_(directory.empty() ? "" : directory + "/tuning-" + hex(identity) + ".jsonl"),
      writable_(writable),
      identity_(std::move(identity)),
      log_(std::move(log)) {}

void TuningRecords::take(std::string_view line) {
  std::optional<TuningRecord> record = parse_json_line(line, identity_);
  if (!record) return;
  auto [at, added] = best_.try_emplace(record->kernel, *record);
  if (!added && record->ns < at->second.ns) at->second = std::move(*record);
}

void TuningRecords::load() {
  if (loaded_) return;
  loaded_ = true;
  struct stat info{};
  if (path_.empty() || lstat(path_.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  std::ifstream file(path_, std::ios::binary);
  for (std::string line; std::getline(file, line);) take(line);
}

std::optional<std::string> TuningRecords::find(const std::string& kernel) {
  std::lock_guard lock(mutex_);
  load();
  auto at = best_.find(kernel);
  if (at == best_.end()) return std::nullopt;
  return at->second.schedule;
}

std::vector<TuningRecord> TuningRecords::similar(const std::string& kernel) {
  std::lock_guard lock(mutex_);
  load();
  std::vector<TuningRecord> found;
  std::string wanted = outline(kernel);
  for (const auto& [text, record] : best_) {
    if (text != kernel && outline(text) == wanted) found.push_back(record);
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.kernel < b.kernel; });
  return found;
}

std::string TuningRecords::stamp() {
  std::lock_guard lock(mutex_);
  struct stat info{};
  bool file = !path_.empty() && lstat(path_.c_str(), &info) == 0;
  return std::to_string(file ? info.st_size : 0) + " " + std::to_string(unwritten_);
}

void TuningRecords::add(const TuningRecord& record) {
  std::lock_guard lock(mutex_);
  load();
  best_[record.kernel] = record;
  if (path_.empty() || !writable_) {
    ++unwritten_;
    return;
  }
  std::string line = to_json_line(record, identity_) + "\n";
  int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  bool written =
      file >= 0 && ::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (file >= 0) close(file);
  if (!written && log_) log_("the tuning record could not be appended to " + path_);
}

}  // namespace tile
