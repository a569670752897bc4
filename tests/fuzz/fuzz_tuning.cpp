// Any text as a tuning record: it is none, or a kernel and a schedule that are parsed or refused
// with an error; a schedule that is legal for a kernel is lowered.
#include <memory>
#include <string>

#include "core/kernel/kernel.h"
#include "core/kernel/schedule.h"
#include "core/lower/lower.h"
#include "core/nest/nest.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/search/schedule_transfer.h"
#include "core/support/checked.h"
#include "runtime/engine/cache/tuning_records.h"
#include "tests/fuzz/file_target.h"

namespace {

using namespace tile;

constexpr const char* kIdentity = "fuzz";

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
    Kernel other = kernel_of(kernel_text);
    distance(own, other);
    resized(schedule, other, own);
  } catch (const InternalError& error) {
    fuzz::fault(error.what());
  } catch (const Failure&) {
  } catch (const Overflow&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  if (auto record = parse_json_line(text, kIdentity)) use(record->kernel, record->schedule);
  // Without the line around them, so that the texts are reached.
  size_t cut = text.find('\n' + std::string("---\n"));
  if (cut != std::string::npos) use(text.substr(0, cut), text.substr(cut + 5));
  return 0;
}
