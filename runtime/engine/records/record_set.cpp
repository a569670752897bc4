#include "runtime/engine/records/record_set.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <new>
#include <optional>

#include "core/target/rates.h"

namespace tile {
namespace {

// The record as this version knows it; nullopt where it is about another machine, or its kernel's
// text is not one of this version.
std::optional<TuningRecord> converted(const ReadRecords::Line& line, const std::string& target) {
  size_t behind_build = line.processor.find('\n');
  if (target.empty() || behind_build == std::string::npos) return std::nullopt;
  if (line.processor.substr(behind_build + 1) != target) return std::nullopt;
  try {
    Kernel kernel = kernel_of_key(line.record.kernel);
    TuningRecord record = line.record;
    record.kernel = record_key(kernel);
    record.name = kernel.name;
    record.version = "0.1";
    record.time = 1;  // before all others
    return record;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {  // the text of another version
    return std::nullopt;
  }
}

}  // namespace

void RecordSet::add(const std::string& processor, const TuningRecord& record) {
  std::vector<TuningRecord>& list = records_[processor][record.kernel];
  Cells& cells = cells_[processor][record.kernel];
  auto [cell, fresh] = cells.try_emplace({record.schedule, record.host}, list.size());
  if (fresh) {
    list.push_back(record);
  } else if (record.time >= list[cell->second].time) {
    list[cell->second] = record;
  }
}

const RecordSet::Cells* RecordSet::cells_of(const std::string& processor,
                                            const std::string& kernel) const {
  auto kernels = cells_.find(processor);
  if (kernels == cells_.end()) return nullptr;
  auto cells = kernels->second.find(kernel);
  return cells == kernels->second.end() ? nullptr : &cells->second;
}

RecordSet::Taken RecordSet::add(std::string_view text, const std::string& target,
                                const std::string& processor) {
  Taken taken;
  ReadRecords read = read_records(text);
  auto take = [&](const std::string& of, const TuningRecord& record) {
    taken.fresh += has(of, record) ? 0 : 1;
    ++taken.records;
    add(of, record);
  };
  for (const ReadRecords::Line& line : read.lines) take(line.processor, line.record);
  for (const ReadRecords::Line& line : read.earlier) {
    std::optional<TuningRecord> record = converted(line, target);
    ++(record ? taken.earlier : taken.left);
    if (record) take(processor, *record);
  }
  taken.later = read.later;
  taken.damaged = read.damaged;
  return taken;
}

const std::map<std::string, std::vector<TuningRecord>>& RecordSet::of(
    const std::string& processor) const {
  static const std::map<std::string, std::vector<TuningRecord>> none;
  auto at = records_.find(processor);
  return at == records_.end() ? none : at->second;
}

bool RecordSet::has(const std::string& processor, const TuningRecord& record) const {
  const Cells* cells = cells_of(processor, record.kernel);
  if (cells == nullptr) return false;
  auto cell = cells->find({record.schedule, record.host});
  return cell != cells->end() && of(processor).at(record.kernel)[cell->second].time >= record.time;
}

std::vector<std::string> RecordSet::processors() const {
  std::vector<std::string> list;
  for (const auto& [processor, kernels] : records_) list.push_back(processor);
  return list;
}

size_t RecordSet::size() const {
  size_t count = 0;
  for (const auto& [processor, kernels] : records_) {
    for (const auto& [kernel, list] : kernels) count += list.size();
  }
  return count;
}

std::string RecordSet::text_of(const std::string& processor) const {
  std::string text;
  for (const auto& [kernel, list] : of(processor)) {
    for (const TuningRecord& r : list) text += to_line(r, processor) + "\n";
  }
  return text;
}

std::string RecordSet::text() const {
  std::string text;
  for (const auto& [processor, kernels] : records_) text += text_of(processor);
  return text;
}

std::string earlier_target(const Target& target, const std::string& skipped_passes) {
  std::string text = to_string(without_rates(target));
  return skipped_passes.empty() ? text : text + "\nwithout " + skipped_passes;
}

std::string printable(std::string_view text) {
  constexpr size_t kMost = 64;
  constexpr unsigned char kSpace = 0x20, kDelete = 0x7f;
  std::string result(text.substr(0, kMost));
  for (char& c : result) {
    auto code = static_cast<unsigned char>(c);
    if (code < kSpace || code == kDelete) c = '?';
  }
  return result;
}

std::string time_text(double nanoseconds) {
  constexpr std::array<const char*, 4> kUnits = {"ns", "us", "ms", "s"};
  constexpr double kStep = 1000;
  size_t unit = 0;
  while (nanoseconds >= kStep && unit + 1 < kUnits.size()) {
    nanoseconds /= kStep;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g %s", nanoseconds, kUnits[unit]);
  return text.data();
}

std::string describe(const RankedSchedule& ranked, const std::string& processor) {
  const TuningRecord& r = ranked.record;
  std::array<char, 32> day{}, spread{};
  constexpr int64_t kSecond = 1000;  // milliseconds
  std::time_t seconds = r.time / kSecond;
  std::tm parts{};
  if (gmtime_r(&seconds, &parts) != nullptr) std::strftime(day.data(), day.size(), "%F", &parts);
  // Two digits, and no exponent where a busy machine's samples lie far apart.
  const double percent = 100 * r.spread;
  std::snprintf(spread.data(), spread.size(), percent < 99.5 ? "%.2g" : "%.0f", percent);
  std::string samples = std::to_string(ranked.samples);
  samples +=
      ranked.samples == 1 ? " sample" : " samples within " + std::string(spread.data()) + " %";
  std::string host = printable(r.host);
  std::string where = ranked.hosts == 1
                          ? "on " + host
                          : "on " + std::to_string(ranked.hosts) + " hosts, one is " + host;
  return short_name(r, processor) + ": " + time_text(ranked.ns) + " (" + samples + " " + where +
         ", tile " + printable(r.version) + ", " + day.data() + ")";
}

}  // namespace tile
