#include "core/schedule/space/remembered_schedules.h"

#include "core/kernel/canonical.h"

namespace tile {
namespace {

thread_local constinit RememberedSchedules* innermost = nullptr;

}  // namespace

RememberedSchedules::RememberedSchedules(const Target& target, size_t statements)
    : target_(target), remembers_(statements >= kRepeatsParts), before_(innermost) {
  innermost = this;
}
RememberedSchedules::~RememberedSchedules() { innermost = before_; }

RememberedSchedules* RememberedSchedules::of(const Target& target) {
  bool asked = innermost != nullptr && innermost->remembers_ && &innermost->target_ == &target;
  return asked ? innermost : nullptr;
}

std::string RememberedSchedules::key_of(const Kernel& kernel) { return print(canonical(kernel)); }

}  // namespace tile
