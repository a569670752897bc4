// What tuning found: one JSON line for each kernel and device, in a file for each kind of device.
// Files of several machines or runs are merged with `cat`: of equal kernels the fastest record
// counts. A line that cannot be read is no record.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/engine/cache/private_directory.h"

namespace tile {

struct TuningRecord {
  std::string kernel;    // print(Kernel)
  std::string schedule;  // print(Schedule)
  double ns = 0;
};

class TuningRecords {
 public:
  // `directory` null: records are kept in memory only. `identity`: all that a record depends on
  // beside the kernel (target, code generator); other records in the file are passed over.
  TuningRecords(std::shared_ptr<const PrivateDirectory> directory, bool writable,
                std::string identity, std::function<void(const std::string&)> log);

  // Thread safe. The fastest schedule on record.
  std::optional<std::string> find(const std::string& kernel);
  // Records of other kernels whose text differs from this one's in numbers alone, by their text.
  std::vector<TuningRecord> similar(const std::string& kernel);
  // Replaces what this process knew of the kernel; the line is appended in one write.
  void add(const TuningRecord& record);
  // Changes with the file, and with what this process alone knows.
  std::string stamp();

 private:
  void load();
  void take(std::string_view line);
  std::shared_ptr<const PrivateDirectory> directory_;
  std::string name_;  // of the file
  bool writable_;
  std::string identity_;
  std::function<void(const std::string&)> log_;
  std::mutex mutex_;
  bool loaded_ = false;
  uint64_t unwritten_ = 0;  // records of this process that are in no file
  std::unordered_map<std::string, TuningRecord> best_;  // by the kernel's text
};

// One line without its end, and back; nullopt: not a record.
std::string to_json_line(const TuningRecord& record, std::string_view identity);
std::optional<TuningRecord> parse_json_line(std::string_view line, std::string_view identity);

}  // namespace tile
