// A record of tuning that memory does not suffice to read is no record that cannot be read: at each
// allocation that fails, a search for records of like kernels ends in std::bad_alloc, or finds
// them.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>

#include "core/schedule/search/search.h"
#include "core/schedule/space/candidates.h"
#include "runtime/engine/engine.h"
#include "tests/faults/failing_allocations.h"
#include "tests/support/schedule_kernels.h"

namespace {

using namespace tile;

enum class Outcome { found, short_of_memory, lost };

Outcome searched(Engine& engine, const Kernel& kernel, long refused) {
  test::arm_allocations(refused, test::Refuse::one);
  Outcome outcome = Outcome::short_of_memory;
  try {
    size_t found = engine.kernels().transferred_schedules(kernel, engine.target(), 1).size();
    outcome = found == 1 ? Outcome::found : Outcome::lost;
  } catch (const std::bad_alloc&) {
  }
  test::disarm_allocations();
  return outcome;
}

int checked(const std::string& folder) {
  EngineOptions options;
  options.backend = "cpu";
  options.cache_dir = folder + "/cache";
  std::shared_ptr<Engine> engine = Engine::create(options);
  Kernel known = testing::matrix_product(20, 30, 40), other = testing::matrix_product(21, 30, 44);
  Schedule schedule = analytic_schedule(known, engine->target());
  engine->kernels().remember_schedule(known, engine->target(), print(schedule), 100);
  if (searched(*engine, other, 0) != Outcome::found) return 1;
  test::arm_allocations(0, test::Refuse::one);
  engine->kernels().transferred_schedules(other, engine->target(), 1);
  long allocations = test::disarm_allocations(), lost = 0;
  for (long refused = 1; refused <= allocations; ++refused)
    lost += searched(*engine, other, refused) == Outcome::lost ? 1 : 0;
  std::printf("%ld allocations, %ld of which lose the record\n", allocations, lost);
  return allocations == 0 || lost != 0;
}

}  // namespace

int main() {
  std::string folder = (std::filesystem::temp_directory_path() / "tile-records-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 2;
  int status = checked(folder);
  std::filesystem::remove_all(folder);
  return status;
}
