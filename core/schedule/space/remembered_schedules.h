// Schedules of the kernels of one program: the layers of a network have the same ones.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/kernel/kernel.h"
#include "core/kernel/schedule.h"
#include "core/schedule/space/candidates.h"
#include "core/target/target.h"

namespace tile {

// While it lives, analytic_schedule() on this thread and for this target, the very object, finds
// the schedule of kernels of one structure and of the same sizes once. The innermost is asked.
class RememberedSchedules {
 public:
  // `statements`: of the program; a short one has few kernels that are like others, and nothing is
  // remembered.
  explicit RememberedSchedules(const Target& target, size_t statements = kRepeatsParts);
  ~RememberedSchedules();
  RememberedSchedules(const RememberedSchedules&) = delete;
  RememberedSchedules& operator=(const RememberedSchedules&) = delete;

  static constexpr size_t kRepeatsParts = 24;
  // The one that lives for this target; null: there is none.
  static RememberedSchedules* of(const Target& target);
  // The schedule on record, else that of make(), which is put there.
  template <class Make>
  Schedule get(const Kernel& kernel, const Make& make) {
    std::string key = key_of(kernel);
    if (auto it = known_.find(key); it != known_.end()) return ++found_, it->second;
    return known_.emplace(std::move(key), make()).first->second;
  }
  // How often a schedule was on record.
  size_t found() const { return found_; }
  // Equal for kernels of one structure and of the same sizes.
  static std::string key_of(const Kernel& kernel);

 private:
  const Target& target_;
  bool remembers_;
  RememberedSchedules* before_;
  std::map<std::string, Schedule> known_;
  size_t found_ = 0;
};

}  // namespace tile
