// Records of any processors, from any files: what is listed, exported and merged.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/engine/records/tuning_records.h"

namespace tile {

class RecordSet {
 public:
  struct Taken {
    size_t records = 0;  // lines that are one
    size_t fresh = 0;    // of them what was not known
    size_t earlier = 0;  // of the first format: taken where it is about `target`, else left
    size_t left = 0;
    size_t later = 0, damaged = 0;
  };
  // Adds the lines of a text. `target`: for records of the first format, all that they depended on
  // beside the build (see earlier_target()); they are then of `processor`.
  Taken add(std::string_view text, const std::string& target = "",
            const std::string& processor = "");
  void add(const std::string& processor, const TuningRecord& record);

  // Of one processor, by kernel; the latest of each kernel, schedule and host.
  const std::map<std::string, std::vector<TuningRecord>>& of(const std::string& processor) const;
  // Whether a record of the same kernel, schedule and host, not older, is known.
  bool has(const std::string& processor, const TuningRecord& record) const;
  std::vector<std::string> processors() const;
  size_t size() const;
  // Lines, as in a file of records.
  std::string text() const;
  std::string text_of(const std::string& processor) const;

 private:
  // The place in a kernel's list of each schedule and host: a file may have millions of one kernel.
  using Cells = std::map<std::pair<std::string, std::string>, size_t>;
  const Cells* cells_of(const std::string& processor, const std::string& kernel) const;

  std::map<std::string, std::map<std::string, std::vector<TuningRecord>>> records_;
  std::map<std::string, std::map<std::string, Cells>> cells_;
};

// What records of the first format named beside the build, for this target.
std::string earlier_target(const Target& target, const std::string& skipped_passes);

// For people, on one line: "3fa9c1d2: 81.5 us (20 samples within 1.2 % on 2 hosts, …)".
std::string describe(const RankedSchedule& ranked, const std::string& processor);
// A text of a record, which may be anything, as a terminal may be given it: of printing characters,
// and not long.
std::string printable(std::string_view text);
// "81.5 us"
std::string time_text(double nanoseconds);

}  // namespace tile
