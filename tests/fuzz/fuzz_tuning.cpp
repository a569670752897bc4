// Any text as lines of tuning records, and as a fleet's files: they are none, or kernels and
// schedules that are parsed or refused with an error, ranked and merged; a schedule that is legal
// for a kernel is lowered.
#include <memory>
#include <string>

#include "core/kernel/kernel.h"
#include "core/kernel/schedule.h"
#include "core/lower/lower.h"
#include "core/nest/nest.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/search/schedule_transfer.h"
#include "core/support/checked.h"
#include "runtime/engine/fleet/fleet_files.h"
#include "runtime/engine/records/record_set.h"
#include "tests/fuzz/file_target.h"

namespace {

using namespace tile;

constexpr const char* kProcessor = "fuzz";

constexpr const char* kKernel = R"(kernel C
stage attach -1 global
reads [0, 1]
writes [2]
program
tensor A: f32 [20, 40] input
tensor B: f32 [40, 30] input
tensor C: f32 [20, 30] output
inputs []
outputs []
contraction [C] + f32 normalized {
  piece [i, j, k] box [20, 30, 40] parallel 2 {
    store C[i, j]
    load A[i, k]
    load B[k, j]
    body { %0:f32 = load 0; %1:f32 = load 1; %2:f32 = mul %0 %1; yield %2 }
  }
}
)";

Kernel kernel_of(const std::string& text) {
  return parse_kernel(std::make_shared<const Source>(Source{"tuning record", text}));
}

Target target() {
  Target t;
  t.vector_bits = 256;
  t.threads = 2;
  return t;
}

// As the engine reads what tuning found: whatever is wrong with a text is an exception.
void use(const std::string& kernel_text, const std::string& schedule_text) {
  static const Kernel own = kernel_of(kKernel);
  static const Target here = target();
  try {
    Schedule schedule = parse_schedule(schedule_text);
    if (print(parse_schedule(print(schedule))) != print(schedule))
      fuzz::fault("printing a schedule");
    if (illegal(schedule, own, here).empty()) nest::verify(lower(own, schedule, here));
    Kernel other = kernel_of_key(kernel_text);
    std::string key = record_key(other);
    if (record_key(kernel_of_key(key)) != key) fuzz::fault("the key of a key's kernel");
    distance(own, other);
    resized(schedule, other, own);
  } catch (const InternalError& error) {
    fuzz::fault(error.what());
  } catch (const Failure&) {
  } catch (const Overflow&) {
  }
}

// What is taken comes back from what is written, in whatever order.
void use_lines(const std::string& text) {
  RecordSet set;
  set.add(text, "target", kProcessor);
  RecordSet again;
  again.add(set.text());
  if (again.text() != set.text()) fuzz::fault("writing records");
  for (const std::string& processor : set.processors()) {
    for (const auto& [kernel, records] : set.of(processor)) {
      std::vector<RankedSchedule> ranking = ranked(records, "fuzz");
      near_ties(ranking, 4);
      for (const RankedSchedule& r : ranking) {
        describe(r, processor);
        use(kernel, r.record.schedule);
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  use_lines(text);
  // As a record whose digest is right, so that what is behind it is reached.
  size_t cut = text.find('\n' + std::string("---\n"));
  std::string kernel = text.substr(0, cut);
  std::string schedule = cut == std::string::npos ? "" : text.substr(cut + 5);
  if (cut != std::string::npos) use(kernel, schedule);
  use_lines(to_line(TuningRecord{kernel, schedule, 1}, kProcessor));
  if (std::optional<FleetPlan> plan = parse_plan(text)) parse_plan(to_text(*plan));
  parse_time(text);
  return 0;
}
