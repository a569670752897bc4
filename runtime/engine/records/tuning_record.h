// A tuning record: how long one schedule of one kernel took on one machine. Stored as one line of
// JSON, so that files of records are merged with `cat`:
//
//   {"tile":"tuning 2","for":"…","processor":"…","name":"C","kernel":"…","schedule":"…","ns":81500,
//    "samples":20,"spread":0.01,"host":"…","version":"0.2.0","time":1780000000000,"sum":"…"}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/kernel/kernel.h"

namespace tile {

struct TuningRecord {
  std::string kernel;        // its text: record_key()
  std::string schedule;      // print(Schedule)
  double ns = 0;             // of one run: on a CPU the least of the samples, on a GPU their median
  int64_t samples = 1;       // times that `ns` comes from
  double spread = 0;         // how far half of the samples lie from `ns` at most, as a part of it
  std::string host = {};     // where it was timed
  std::string name = {};     // of the kernel in its program, for people
  std::string version = {};  // of the library that timed it
  int64_t time = 0;          // milliseconds since 1970
  bool refuted = false;      // a race on another machine showed that the time is wrong
};

// The text that a record knows a kernel by: its canonical form, after a line "fixed …" with the
// numbers of inputs that stay the same in every run, where there are some.
std::string record_key(const Kernel& kernel);
// The kernel of such a text. Throws Failure or InternalError for what is none.
Kernel kernel_of_key(const std::string& key);

// Eight digits by which people tell records apart: of processor, kernel and schedule.
std::string short_name(const TuningRecord& record, std::string_view processor);
// Sixteen digits of any text, for names of files.
std::string digest(std::string_view text);

// One line without its end.
std::string to_line(const TuningRecord& record, std::string_view processor);

struct RecordLine {
  enum class Kind : uint8_t {
    record,
    earlier,  // of the first format, which knew builds instead of processors
    later,    // of a format that this version does not know
    damaged,
  };
  Kind kind = Kind::damaged;
  TuningRecord record;
  std::string processor;
};
// Any text. An earlier record has its kernel's text as that version printed it, and as `processor`
// all that it depended on.
RecordLine parse_line(std::string_view line);
// Whether parse_line() could give a record for this processor: cheap.
bool may_be_for(std::string_view line, std::string_view processor_digest);

}  // namespace tile
