#include "runtime/engine/records/tuning_record.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/ir/text.h"
#include "core/kernel/canonical.h"

namespace tile {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kStart = R"({"tile":"tuning )";
constexpr std::string_view kVersion = R"({"tile":"tuning 2","for":")";
constexpr std::string_view kEarlier = R"({"device":")";
constexpr std::string_view kSum = R"(,"sum":")";
constexpr std::string_view kFixed = "fixed ";

// The last field is of all text before it.
std::string sealed(std::string text) {
  text.pop_back();  // the brace
  std::string sum = digest(text);
  return text + std::string(kSum) + sum + "\"}";
}
bool is_sealed(std::string_view line) {
  constexpr size_t kDigits = 16, kEnd = 2;
  size_t tail = kSum.size() + kDigits + kEnd;
  if (line.size() < tail) return false;
  std::string_view text = line.substr(0, line.size() - tail);
  std::string_view rest = line.substr(text.size());
  return rest.starts_with(kSum) && rest.ends_with("\"}") &&
         rest.substr(kSum.size(), kDigits) == digest(text);
}

bool text_at(const Json& json, const char* key, std::string& to) {
  auto at = json.find(key);
  if (at == json.end() || !at->is_string()) return false;
  to = at->get<std::string>();
  return true;
}
bool number_at(const Json& json, const char* key, double& to) {
  auto at = json.find(key);
  if (at == json.end() || !at->is_number()) return false;
  to = at->get<double>();
  return std::isfinite(to) && to >= 0;
}

// The numbers of a text may be any.
void require_tensors(const Kernel& kernel, const std::vector<int64_t>& fixed) {
  const BoundTensors& tensors = kernel.tensors;
  bool sound = true;
  for (const auto* list : {&kernel.reads, &kernel.writes}) {
    for (TensorId id : *list) sound = sound && tensors.contains(id);
  }
  for (int64_t i : fixed) {
    sound = sound && i >= 0 && static_cast<size_t>(i) < tensors.size();
  }
  // What a view shows was there before it.
  for (TensorId id : tensors.ids()) {
    const std::optional<TensorId>& of = tensors[id].view_of;
    sound = sound && (!of || (of->valid() && of->number() < id.number()));
  }
  if (!sound) fail(Stage::run, "file", {}, "the kernel on record names tensors that are not there");
}

// A record is one object of texts and numbers: of what is nested in it nothing is made. Discarded:
// no JSON, or too long to be a record.
Json flat(std::string_view line) {
  constexpr size_t kLongest = size_t{1} << 24;  // bytes; kernels' texts have some thousand
  if (line.size() > kLongest) return Json::value_t::discarded;
  auto keep = [](int depth, Json::parse_event_t event, Json&) {
    bool begins =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    return depth == 0 || !begins;
  };
  return Json::parse(line, keep, false);
}

constexpr double kLargest = 1e18;  // of a number that becomes an integer

bool take(const Json& json, RecordLine& line) {
  TuningRecord& r = line.record;
  double samples = 0, time = 0;
  bool whole = text_at(json, "processor", line.processor) && text_at(json, "kernel", r.kernel) &&
               text_at(json, "schedule", r.schedule) && text_at(json, "host", r.host) &&
               text_at(json, "name", r.name) && text_at(json, "version", r.version) &&
               number_at(json, "ns", r.ns) && number_at(json, "spread", r.spread) &&
               number_at(json, "samples", samples) && number_at(json, "time", time);
  if (!whole || r.ns <= 0 || samples < 1 || samples > kLargest || time > kLargest) return false;
  r.samples = static_cast<int64_t>(samples);
  r.time = static_cast<int64_t>(time);
  auto refuted = json.find("refuted");
  r.refuted = refuted != json.end() && *refuted == true;
  return true;
}

bool take_earlier(const Json& json, RecordLine& line) {
  TuningRecord& r = line.record;
  r.host = "unknown";
  return text_at(json, "identity", line.processor) && text_at(json, "kernel", r.kernel) &&
         text_at(json, "schedule", r.schedule) && number_at(json, "ns", r.ns) && r.ns > 0;
}

}  // namespace

std::string digest(std::string_view text) {
  char buffer[17];
  std::snprintf(buffer, sizeof buffer, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  return buffer;
}

std::string short_name(const TuningRecord& record, std::string_view processor) {
  std::string text = std::string(processor) + "\n" + record.kernel + "\n" + record.schedule;
  return digest(text).substr(0, 8);
}

std::string record_key(const Kernel& kernel) {
  Kernel plain = canonical(kernel);
  std::string fixed;
  for (size_t i = 0; i < plain.tensors.size(); ++i) {
    if (plain.tensors[i].fixed) fixed += (fixed.empty() ? "" : " ") + std::to_string(i);
  }
  std::string text = print(plain);
  return fixed.empty() ? text : std::string(kFixed) + fixed + "\n" + text;
}

Kernel kernel_of_key(const std::string& key) {
  std::vector<int64_t> fixed;
  std::string text = key;
  if (text.starts_with(kFixed)) {
    size_t end = std::min(text.find('\n'), text.size() - 1);
    std::string list = "[" + text.substr(kFixed.size(), end - kFixed.size()) + "]";
    for (char& c : list) c = c == ' ' ? ',' : c;
    TextReader in(std::make_shared<Source>(Source{"tuning record", list}));
    fixed = in.integers();
    text.erase(0, end + 1);
  }
  Kernel kernel = parse_kernel(std::make_shared<Source>(Source{"tuning record", text}));
  require_tensors(kernel, fixed);
  for (int64_t i : fixed) kernel.tensors.edit(static_cast<size_t>(i)).fixed = true;
  return kernel;
}

std::string to_line(const TuningRecord& record, std::string_view processor) {
  Json json;
  json["tile"] = "tuning 2";
  json["for"] = digest(processor);
  json["processor"] = processor;
  json["name"] = record.name;
  json["kernel"] = record.kernel;
  json["schedule"] = record.schedule;
  json["ns"] = record.ns;
  json["samples"] = record.samples;
  json["spread"] = record.spread;
  json["host"] = record.host;
  json["version"] = record.version;
  json["time"] = record.time;
  if (record.refuted) json["refuted"] = true;
  return sealed(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

bool may_be_for(std::string_view line, std::string_view processor_digest) {
  return !line.starts_with(kVersion) || line.substr(kVersion.size()).starts_with(processor_digest);
}

RecordLine parse_line(std::string_view line) {
  RecordLine result;
  using Kind = RecordLine::Kind;
  if (line.starts_with(kEarlier)) {
    Json json = flat(line);
    if (json.is_object() && take_earlier(json, result)) result.kind = Kind::earlier;
    return result;
  }
  if (!line.starts_with(kVersion)) {
    if (line.starts_with(kStart)) result.kind = Kind::later;
    return result;
  }
  if (!is_sealed(line)) return result;
  Json json = flat(line);
  if (json.is_object() && take(json, result)) result.kind = Kind::record;
  return result;
}

}  // namespace tile
