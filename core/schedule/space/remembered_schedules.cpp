#include "core/schedule/space/remembered_schedules.h"

#include "core/kernel/canonical.h"
#include "core/kernel/narrow_arguments.h"

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

std::string RememberedSchedules::key_of(const Kernel& kernel) {
  Kernel own = canonical(kernel);
  narrow_arguments(own);
  own.begins.clear();
  return print(own);
}

}  // namespace tile
