#include "runtime/engine/records/tuning_records.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/schedule/search/schedule_transfer.h"
#include "runtime/engine/records/processor_key.h"
#include "tile/tile.h"

namespace tile {
namespace {

constexpr size_t kLargestFile = size_t{1} << 30;
constexpr std::string_view kName = "records-", kEarlierName = "tuning-", kSuffix = ".jsonl";

int64_t milliseconds_now() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

std::string library_version() {
  return std::to_string(TILE_VERSION_MAJOR) + "." + std::to_string(TILE_VERSION_MINOR) + "." +
         std::to_string(TILE_VERSION_PATCH);
}

}  // namespace

std::string records_file(std::string_view processor) {
  return std::string(kName) + digest(processor) + std::string(kSuffix);
}
bool is_records_file(std::string_view name) {
  return name.starts_with(kName) && name.ends_with(kSuffix);
}
bool is_earlier_records_file(std::string_view name) {
  return name.starts_with(kEarlierName) && name.ends_with(kSuffix);
}

ReadRecords read_records(std::string_view text, std::string_view only) {
  ReadRecords found;
  std::string wanted = only.empty() ? "" : digest(only);
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (!only.empty() && !may_be_for(line, wanted))) continue;
    RecordLine read = parse_line(line);
    bool other = !only.empty() && read.processor != only;
    switch (read.kind) {
      case RecordLine::Kind::record:
        if (!other) found.lines.push_back({std::move(read.record), std::move(read.processor)});
        break;
      case RecordLine::Kind::earlier:
        found.earlier.push_back({std::move(read.record), std::move(read.processor)});
        break;
      case RecordLine::Kind::later:
        ++found.later;
        break;
      case RecordLine::Kind::damaged:
        ++found.damaged;
    }
  }
  return found;
}

TuningRecords::TuningRecords(std::shared_ptr<const PrivateDirectory> directory, bool writable,
                             std::string processor, std::function<void(const std::string&)> log)
    : directory_(std::move(directory)),
      processor_(std::move(processor)),
      name_(records_file(processor_)),
      writable_(writable),
      log_(std::move(log)) {}

std::vector<TuningRecord> TuningRecords::completed(std::span<const TuningRecord> records) {
  std::vector<TuningRecord> whole(records.begin(), records.end());
  int64_t time = milliseconds_now();
  for (TuningRecord& r : whole) {
    if (r.host.empty()) r.host = host_name();
    if (r.version.empty()) r.version = library_version();
    if (r.time == 0) r.time = time++;
  }
  return whole;
}

void TuningRecords::keep(const TuningRecord& record) { known_[record.kernel].push_back(record); }

void TuningRecords::take(std::string_view text) {
  ReadRecords read = read_records(text, processor_);
  for (const ReadRecords::Line& line : read.lines) keep(line.record);
  auto tell = [&](size_t count, const char* what) {
    if (count != 0 && log_)
      log_(std::to_string(count) + " " + what + " of " + name_ + " are passed over");
  };
  tell(read.damaged, "damaged lines");
  tell(read.later, "records of a later version's format");
  tell(read.earlier.size(), "records of an earlier version's format");
}

TuningRecords::Stamp TuningRecords::stamp_of_file() const {
  std::optional<PrivateDirectory::Entry> file;
  if (directory_) file = directory_->entry(name_);
  if (!file) return {};
  return {file->bytes, file->written.tv_sec, file->written.tv_nsec};
}

// Again where the file is another than it was. The stamp is taken first: what comes while the file
// is read is read again.
void TuningRecords::load() {
  Stamp now = stamp_of_file();
  if (loaded_ == now) return;
  std::string why;
  std::optional<std::vector<std::byte>> file;
  if (directory_) file = directory_->read(name_, kLargestFile, why);
  known_.clear();
  if (file) take({reinterpret_cast<const char*>(file->data()), file->size()});
  for (const TuningRecord& r : alone_) keep(r);
  loaded_ = now;
  if (!why.empty() && log_) log_("tuning records " + name_ + " ignored: " + why);
}

bool TuningRecords::empty() {
  std::lock_guard lock(mutex_);
  load();
  return known_.empty();
}

std::vector<RankedSchedule> TuningRecords::ranking(const std::string& kernel) {
  std::lock_guard lock(mutex_);
  load();
  auto at = known_.find(kernel);
  if (at == known_.end()) return {};
  return ranked(at->second, host_name());
}

std::optional<std::string> TuningRecords::find(const std::string& kernel) {
  std::vector<RankedSchedule> list = ranking(kernel);
  if (list.empty()) return std::nullopt;
  return list.front().record.schedule;
}

std::vector<TuningRecord> TuningRecords::similar(const std::string& kernel) {
  std::lock_guard lock(mutex_);
  load();
  std::vector<TuningRecord> found;
  std::string wanted = outline(kernel);
  for (const auto& [text, records] : known_) {
    if (text == kernel || outline(text) != wanted) continue;
    std::vector<RankedSchedule> list = ranked(records, host_name());
    if (!list.empty()) found.push_back(std::move(list.front().record));
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.kernel < b.kernel; });
  return found;
}

std::vector<TuningRecord> TuningRecords::all() {
  std::lock_guard lock(mutex_);
  load();
  std::vector<TuningRecord> list;
  for (const auto& [text, records] : known_)
    list.insert(list.end(), records.begin(), records.end());
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.kernel < b.kernel; });
  return list;
}

std::string TuningRecords::stamp() {
  std::lock_guard lock(mutex_);
  Stamp file = stamp_of_file();
  return std::to_string(file.bytes) + " " + std::to_string(file.seconds) + " " +
         std::to_string(file.nanoseconds) + " " + std::to_string(unwritten_);
}

void TuningRecords::add(std::span<const TuningRecord> records) {
  if (records.empty()) return;
  std::lock_guard lock(mutex_);
  load();
  std::string text;
  std::vector<TuningRecord> whole = completed(records);
  for (const TuningRecord& r : whole) {
    keep(r);
    text += to_line(r, processor_) + "\n";
  }
  std::string why;
  if (directory_ && writable_ && directory_->append(name_, text, why)) {
    // Nobody else wrote meanwhile: nothing is to be read again.
    Stamp now = stamp_of_file();
    if (loaded_ && now.bytes == loaded_->bytes + text.size()) loaded_ = now;
    return;
  }
  unwritten_ += whole.size();
  alone_.insert(alone_.end(), whole.begin(), whole.end());
  if (!why.empty() && log_) {
    log_("the tuning record could not be appended to " + name_ + ": " + why);
  }
}

}  // namespace tile
