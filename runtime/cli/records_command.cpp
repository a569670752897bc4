#include "runtime/cli/records_command.h"

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/cli/arguments.h"
#include "runtime/cli/files.h"
#include "runtime/engine/cache/disk_cache.h"
#include "runtime/engine/records/processor_key.h"
#include "runtime/engine/records/record_set.h"
#include "runtime/engine/tuning/record_race.h"

namespace tile::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLargestFile = size_t{1} << 30;  // bytes
constexpr size_t kRaced = 6;                      // schedules of a kernel that a merge races
constexpr int kRaces = 4;  // of one kernel: whoever led may have been refuted

// The directory of the store; null where there is none yet.
std::shared_ptr<const PrivateDirectory> store_directory() {
  std::string path = default_cache_directory(), why;
  if (path.empty()) return nullptr;
  auto directory = PrivateDirectory::open(path, false, why);
  std::error_code none;
  bool there = std::filesystem::exists(std::filesystem::symlink_status(path, none));
  if (!directory && there) {
    fail(Stage::run, "file", {}, "the store of records cannot be used: " + why,
         "tile doctor says more; TILE_CACHE_DIR names another one");
  }
  return directory;
}

void say_taken(const std::string& file, const RecordSet::Taken& taken) {
  std::cerr << file << ": " << taken.records << " records";
  if (taken.earlier != 0) std::cerr << ", " << taken.earlier << " of an earlier format taken";
  if (taken.left != 0) std::cerr << ", " << taken.left << " of an earlier format do not apply here";
  if (taken.later != 0) std::cerr << ", " << taken.later << " of a later format passed over";
  if (taken.damaged != 0) std::cerr << ", " << taken.damaged << " damaged lines passed over";
  std::cerr << "\n";
}

// Every file of records in the store. What is wrong with one is told.
RecordSet store() {
  RecordSet records;
  size_t earlier = 0;
  std::shared_ptr<const PrivateDirectory> directory = store_directory();
  if (!directory) return records;
  for (const PrivateDirectory::Entry& e : directory->entries()) {
    earlier += is_earlier_records_file(e.name) ? 1 : 0;
    if (!is_records_file(e.name)) continue;
    std::string why;
    auto bytes = directory->read(e.name, kLargestFile, why);
    if (!why.empty()) std::cerr << e.name << ": " << why << "\n";
    if (!bytes) continue;
    RecordSet::Taken taken =
        records.add({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
    if (taken.damaged + taken.later != 0) say_taken(e.name, taken);
  }
  if (earlier != 0) {
    std::cerr << earlier << " files of an earlier format in " << directory->path()
              << " are not read: `tile records import " << directory->path()
              << "/tuning-*.jsonl` takes what applies here\n";
  }
  return records;
}

// This machine, as records know it.
struct Here {
  explicit Here(const Options& options) : engine(make_engine(options)) {
    if (engine->is_reference()) {
      fail(Stage::run, "argument", {}, "the reference interpreter has no records");
    }
    target = earlier_target(engine->target(), engine->skipped_passes());
  }
  TuningRecords& records() const { return engine->kernels().records(engine->target()); }
  const std::string& processor() const { return records().processor(); }
  std::shared_ptr<Engine> engine;
  std::string target;
};

RecordSet read_files(const std::vector<std::string>& files, const Here& here) {
  RecordSet records;
  for (const std::string& file : files) {
    say_taken(file, records.add(read_text(file, kLargestFile), here.target, here.processor()));
  }
  return records;
}

void write_to(const std::string& file, const std::string& text) {
  if (file == "-") {
    std::cout << text;
  } else {
    write_text(file, text);
  }
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A processor's key is longer than a name.
std::string shown(const std::string& processor) {
  std::string text;
  constexpr size_t kPart = 64;
  for (size_t at = 0; at < processor.size(); at += kPart) {
    text += printable(std::string_view(processor).substr(at, kPart));
  }
  return text;
}

Json json_of(const RankedSchedule& r, const std::string& processor) {
  Json j;
  j["record"] = short_name(r.record, processor);
  j["processor"] = processor;
  j["kernel"] = r.record.name;
  j["ns"] = r.ns;
  j["hosts"] = r.hosts;
  j["samples"] = r.samples;
  j["spread"] = r.record.spread;
  j["confirmed"] = r.confirmed;
  j["host"] = r.record.host;
  j["version"] = r.record.version;
  j["time"] = r.record.time;
  j["schedule"] = r.record.schedule;
  j["kernel_text"] = r.record.kernel;
  return j;
}

int list(const RecordSet& records, const RecordsArguments& arguments, const std::string& only) {
  Json json = Json::array();
  for (const std::string& processor : records.processors()) {
    if (!only.empty() && processor != only) continue;
    if (!arguments.json) std::cout << shown(processor) << "\n";
    for (const auto& [kernel, known] : records.of(processor)) {
      std::vector<RankedSchedule> ranking = ranked(known, host_name());
      if (!arguments.all && ranking.size() > 1) ranking.resize(1);
      for (const RankedSchedule& r : ranking) {
        if (arguments.json) {
          json.push_back(json_of(r, processor));
        } else {
          std::cout << "  kernel " << printable(r.record.name) << ", record "
                    << describe(r, processor) << "\n";
        }
      }
    }
  }
  if (arguments.json) {
    std::cout << text_of(json) << "\n";
  } else if (records.size() == 0) {
    std::cout << "there are no records\n";
  }
  return 0;
}

// One line for each schedule that was raced, and one for each wrong claim.
void print(const KernelVerdict& v, const std::string& processor) {
  std::cout << "kernel " << printable(v.name);
  if (!v.failed.empty()) {
    std::cout << ": not raced: " << v.failed << "\n";
    return;
  }
  std::cout << ", by the model " << time_text(v.pick_ns) << "\n";
  for (const auto& s : v.schedules) {
    std::cout << "  record " << short_name(s.claimed.record, processor) << ": claims "
              << time_text(s.claimed.ns) << ", ";
    std::cout << (s.unusable.empty() ? "takes " + time_text(s.measured_ns)
                                     : "cannot be used: " + s.unusable)
              << (s.claimed.record.schedule == v.best ? ", the best\n" : "\n");
  }
  for (const TuningRecord& r : v.wrong) {
    std::cout << "  wrong: " << short_name(r, processor) << " says that it takes "
              << time_text(r.ns) << " on " << printable(r.host) << "\n";
  }
}

Json json_of(const KernelVerdict& v, const std::string& processor) {
  Json j;
  j["kernel"] = v.name;
  if (!v.failed.empty()) j["failed"] = v.failed;
  j["pick_ns"] = v.pick_ns;
  Json schedules = Json::array();
  for (const auto& s : v.schedules) {
    Json one;
    one["record"] = short_name(s.claimed.record, processor);
    one["claimed_ns"] = s.claimed.ns;
    if (s.unusable.empty()) one["ns"] = s.measured_ns;
    if (!s.unusable.empty()) one["unusable"] = s.unusable;
    one["best"] = s.claimed.record.schedule == v.best;
    schedules.push_back(std::move(one));
  }
  j["schedules"] = std::move(schedules);
  Json wrong = Json::array();
  for (const TuningRecord& r : v.wrong) {
    wrong.push_back({{"record", short_name(r, processor)}, {"host", r.host}, {"ns", r.ns}});
  }
  j["wrong"] = std::move(wrong);
  return j;
}

// Races each kernel's contested schedules, or all of them, and adds what came of it.
std::vector<KernelVerdict> race(const Here& here, RecordSet& records, bool all) {
  std::vector<KernelVerdict> verdicts;
  std::string host = host_name();
  auto kernels = records.of(here.processor());
  for (const auto& [kernel, known] : kernels) {
    std::vector<RankedSchedule> chosen = ranked(known, host);
    if (!all) chosen = near_ties(chosen, kRaced);
    // What one host alone says of one schedule is for `verify`.
    if (!all && chosen.size() < 2) continue;
    std::set<std::string> raced;
    for (int round = 0; round < kRaces && !chosen.empty(); ++round) {
      const std::vector<TuningRecord>& now = records.of(here.processor()).at(kernel);
      verdicts.push_back(raced_again(here.engine, kernel, chosen, now));
      for (const TuningRecord& r : TuningRecords::completed(verdicts.back().records)) {
        records.add(here.processor(), r);
      }
      for (const RankedSchedule& s : chosen) raced.insert(s.record.schedule);
      chosen = further_ties(ranked(records.of(here.processor()).at(kernel), host), kRaced, raced);
    }
  }
  return verdicts;
}

int import_files(const RecordsArguments& arguments, const Options& options) {
  Here here(options);
  if (!here.engine->kernels().writes()) {
    fail(Stage::run, "argument", {}, "TILE_CACHE says that nothing is stored",
         "set it to rw, or leave it out");
  }
  RecordSet given = read_files(arguments.files, here), known = store();
  if (given.size() == 0) {
    fail(Stage::run, "file", {}, "there is no record to import in " + listed(arguments.files),
         "`tile records export` writes files of records");
  }
  RecordSet fresh;
  size_t count = 0;
  for (const std::string& processor : given.processors()) {
    for (const auto& [kernel, list] : given.of(processor)) {
      for (const TuningRecord& r : list) {
        if (known.has(processor, r)) continue;
        ++count;
        fresh.add(processor, r);
        known.add(processor, r);
      }
    }
  }
  std::vector<KernelVerdict> verdicts;
  if (arguments.race) {
    // Of the kernels that something new is said about.
    RecordSet contested;
    for (const auto& [kernel, list] : fresh.of(here.processor())) {
      for (const TuningRecord& r : known.of(here.processor()).at(kernel)) {
        contested.add(here.processor(), r);
      }
    }
    verdicts = race(here, contested, false);
    for (const auto& [kernel, list] : contested.of(here.processor())) {
      for (const TuningRecord& r : list) {
        if (!known.has(here.processor(), r)) fresh.add(here.processor(), r);
      }
    }
  }
  for (const KernelVerdict& v : verdicts) print(v, here.processor());
  std::string why = "there is no cache directory";
  auto directory = PrivateDirectory::open(default_cache_directory(), true, why);
  if (!directory) fail(Stage::run, "file", {}, "the records cannot be stored: " + why);
  for (const std::string& processor : fresh.processors()) {
    if (!directory->append(records_file(processor), fresh.text_of(processor), why)) {
      fail(Stage::run, "file", {}, "the records cannot be stored: " + why);
    }
  }
  std::cout << count << " records are new, of " << given.size() << "\n";
  return 0;
}

int merge_files(const RecordsArguments& arguments, const Options& options) {
  Here here(options);
  RecordSet records = read_files(arguments.files, here);
  if (arguments.race) {
    for (const KernelVerdict& v : race(here, records, false)) print(v, here.processor());
  }
  write_to(arguments.to, records.text());
  if (arguments.to != "-") std::cout << records.size() << " records in " << arguments.to << "\n";
  return 0;
}

// 1 where a claim is wrong. What the races said is stored: refuted claims no longer count.
int verify_records(const RecordsArguments& arguments, const Options& options) {
  Here here(options);
  RecordSet records = arguments.files.empty() ? store() : read_files(arguments.files, here);
  std::vector<KernelVerdict> verdicts = race(here, records, true);
  Json json = Json::array();
  size_t wrong = 0;
  for (const KernelVerdict& v : verdicts) {
    wrong += v.wrong.size();
    if (arguments.json) {
      json.push_back(json_of(v, here.processor()));
    } else {
      print(v, here.processor());
    }
    if (arguments.files.empty()) here.records().add(v.records);
  }
  if (arguments.json) {
    std::cout << text_of(json) << "\n";
  } else {
    std::cout << verdicts.size() << " kernels raced, " << wrong << " claims are wrong\n";
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int command_records(const RecordsArguments& arguments, const Options& options) {
  const std::string& action = arguments.action;
  if (action == "import") return import_files(arguments, options);
  if (action == "merge") return merge_files(arguments, options);
  if (action == "verify") return verify_records(arguments, options);
  std::string only;
  if (arguments.here) only = Here(options).processor();
  if (action == "export") {
    RecordSet records = store();
    write_to(arguments.to, only.empty() ? records.text() : records.text_of(only));
    return 0;
  }
  if (arguments.files.empty()) return list(store(), arguments, only);
  return list(read_files(arguments.files, Here(options)), arguments, only);
}

}  // namespace tile::cli
