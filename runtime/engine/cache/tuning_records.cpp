#include "runtime/engine/cache/tuning_records.h"

#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/schedule/search/schedule_transfer.h"

namespace tile {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLargestFile = size_t{1} << 30;

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

TuningRecords::TuningRecords(std::shared_ptr<const PrivateDirectory> directory, bool writable,
                             std::string identity, std::function<void(const std::string&)> log)
    : directory_(std::move(directory)),
      name_("tuning-" + hex(identity) + ".jsonl"),
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
  std::string why;
  std::optional<std::vector<std::byte>> file;
  if (directory_) file = directory_->read(name_, kLargestFile, why);
  if (file) {
    std::string_view text(reinterpret_cast<const char*>(file->data()), file->size());
    while (!text.empty()) {
      std::string_view line = text.substr(0, text.find('\n'));
      take(line);
      text.remove_prefix(std::min(text.size(), line.size() + 1));
    }
  }
  loaded_ = true;
  if (!why.empty() && log_) log_("tuning records " + name_ + " ignored: " + why);
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
  std::optional<PrivateDirectory::Entry> file;
  if (directory_) file = directory_->entry(name_);
  return std::to_string(file ? file->bytes : 0) + " " + std::to_string(unwritten_);
}

void TuningRecords::add(const TuningRecord& record) {
  std::lock_guard lock(mutex_);
  load();
  best_[record.kernel] = record;
  if (!directory_ || !writable_) {
    ++unwritten_;
    return;
  }
  std::string why;
  bool written = directory_->append(name_, to_json_line(record, identity_) + "\n", why);
  if (!written && log_) log_("the tuning record could not be appended to " + name_ + ": " + why);
}

}  // namespace tile
