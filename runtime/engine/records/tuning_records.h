// What tuning found for one kind of processor: a file of records (tuning_record.h) in the cache
// directory, which every program of this user shares, whatever its build.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/engine/cache/private_directory.h"
#include "runtime/engine/records/ranking.h"

namespace tile {

// "records-….jsonl"
std::string records_file(std::string_view processor);
bool is_records_file(std::string_view name);
// Of the first format: "tuning-….jsonl", one for each build. They are not read; `tile records
// import` takes what applies.
bool is_earlier_records_file(std::string_view name);

// Lines of a text of records, as they come. What is no record is counted.
struct ReadRecords {
  struct Line {
    TuningRecord record;
    std::string processor;
  };
  std::vector<Line> lines, earlier;
  size_t later = 0, damaged = 0;
};
// `only`: of this processor; empty: of all. Other processors' lines are then not looked at.
ReadRecords read_records(std::string_view text, std::string_view only = {});

// Thread safe.
class TuningRecords {
 public:
  // `directory` null: records are kept in memory only. `processor`: see processor_key(); other
  // records in the file are passed over.
  TuningRecords(std::shared_ptr<const PrivateDirectory> directory, bool writable,
                std::string processor, std::function<void(const std::string&)> log);

  const std::string& processor() const { return processor_; }

  // Whether there is none of any kernel, in files neither.
  bool empty();
  // By the kernel's text, the best first; what other processes have written meanwhile counts.
  std::vector<RankedSchedule> ranking(const std::string& kernel);
  // The schedule of the first of them.
  std::optional<std::string> find(const std::string& kernel);
  // The best records of other kernels whose text differs from this one's in numbers alone, by their
  // text.
  std::vector<TuningRecord> similar(const std::string& kernel);
  // Every record, by kernel.
  std::vector<TuningRecord> all();
  // The records with what they leave empty of host, version and time. Of schedules with equal times
  // the latest record speaks (ranking.h): each of these is a millisecond later than the one before
  // it.
  static std::vector<TuningRecord> completed(std::span<const TuningRecord> records);
  // Appended in one write, each completed.
  void add(std::span<const TuningRecord> records);
  void add(const TuningRecord& record) { add(std::span(&record, 1)); }
  // Changes with the file, and with what this process alone knows.
  std::string stamp();

 private:
  struct Stamp {
    size_t bytes = 0;
    int64_t seconds = 0, nanoseconds = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  Stamp stamp_of_file() const;
  void load();
  void take(std::string_view text);
  void keep(const TuningRecord& record);
  std::shared_ptr<const PrivateDirectory> directory_;
  std::string processor_, name_;  // name of the file
  bool writable_;
  std::function<void(const std::string&)> log_;
  std::mutex mutex_;
  std::optional<Stamp> loaded_;
  uint64_t unwritten_ = 0;           // records of this process that are in no file
  std::vector<TuningRecord> alone_;  // these
  std::unordered_map<std::string, std::vector<TuningRecord>> known_;  // by the kernel's text
};

}  // namespace tile
