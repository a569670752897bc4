// What workers of a fleet tell each other, in files of their shared directory.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/engine/cache/private_directory.h"

namespace tile {

// The candidates of one kernel on one kind of processor, as texts, and how many are timed at once.
struct FleetPlan {
  std::string processor, kernel;
  size_t chunk = 1;
  std::vector<std::string> schedules;

  size_t chunks() const { return (schedules.size() + chunk - 1) / chunk; }
};
std::string to_text(const FleetPlan& plan);
// nullopt: the text is no plan, or was damaged.
std::optional<FleetPlan> parse_plan(std::string_view text);

// One candidate's time; infinity: its code is not to be run.
struct FleetTime {
  std::string kernel, schedule;  // digests of their texts
  double ns = std::numeric_limits<double>::infinity();
};
std::string to_line(const FleetTime& time);
std::optional<FleetTime> parse_time(std::string_view line);

// The times of all workers so far.
class FleetTimes {
 public:
  explicit FleetTimes(const PrivateDirectory& directory) : directory_(directory) {}
  // Reads what files have grown since.
  void refresh();
  void add(const FleetTime& time) { times_[time.kernel][time.schedule] = time.ns; }
  // By schedule.
  const std::map<std::string, double>& of(const std::string& kernel) { return times_[kernel]; }

 private:
  const PrivateDirectory& directory_;
  std::map<std::string, size_t> read_;  // bytes of each file
  std::map<std::string, std::map<std::string, double>> times_;
};
std::string times_file(const std::string& worker);
std::string fleet_records_file(const std::string& worker);
// The lines of all workers' records.
std::string fleet_records(const PrivateDirectory& directory);

}  // namespace tile
