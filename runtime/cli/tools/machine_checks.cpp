#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "core/support/diagnostic.h"
#include "runtime/cli/session.h"
#include "runtime/cli/tools/checks.h"
#include "runtime/engine/tuning/machine_rates.h"

namespace tile::cli {
namespace {

// The first line of a file of the system; empty where there is none.
std::string line_of(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string quantity(double bytes) {
  std::ostringstream text;
  text.precision(3);
  constexpr double kMebi = 1 << 20, kGibi = 1 << 30;
  bytes < kGibi ? text << bytes / kMebi << " MiB" : text << bytes / kGibi << " GiB";
  return text.str();
}

Finding processor(const Engine& engine) {
  const Target& t = engine.target();
  std::string found = t.features.substr(0, t.features.find(' ')) + ", " +
                      std::to_string(t.vector_bits) + "-bit vectors";
  if (t.dot_i8_per_ns > 0 || t.dot_bf16_per_ns > 0) found += ", dot products of narrow types";
  if (t.tiles.count > 0) found += ", matrix tiles (AMX)";
  if (t.vector_bits >= 256) return {"cpu", Health::good, found, ""};
  return {"cpu", Health::slow, found, "products are several times slower than with AVX2"};
}

Finding rates(const Engine& engine) {
  if (!engine.rates()) {
    return {"rates", Health::slow, "not measured: schedules are chosen for a usual machine",
            "tile devices --measure (a third of a second, once)"};
  }
  return {"rates", Health::good, describe(*engine.rates()), ""};
}

// Processors that the system lets the process use in a second, by its control group: "MAX PERIOD".
std::optional<double> quota() {
  std::istringstream text(line_of("/sys/fs/cgroup/cpu.max"));
  double most = 0, period = 0;
  if (!(text >> most >> period) || period <= 0) return std::nullopt;
  return most / period;
}

Finding threads(const Engine& engine) {
  cpu_set_t set;
  CPU_ZERO(&set);
  int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
  auto present = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  int used = engine.target().threads;
  std::string found = std::to_string(used) + " of " + std::to_string(present) + " processors";
  if (allowed > 0 && allowed < present) {
    found += ", " + std::to_string(allowed) + " allowed to this process";
  }
  std::optional<double> most = quota();
  if (most && *most < used) {
    std::ostringstream share;
    share << *most;
    return {"threads", Health::slow,
            found + "; the control group gives the time of " + share.str() + " processors",
            "set TILE_THREADS to that number: more threads wait for each other"};
  }
  bool few = allowed > 0 && used < allowed;
  return {"threads", few ? Health::note : Health::good, found,
          few ? "TILE_THREADS asks for fewer than are allowed" : ""};
}

Finding load() {
  double average[1] = {0};
  if (getloadavg(average, 1) != 1) return {"load", Health::note, "not told by the system", ""};
  auto processors = static_cast<double>(std::max(1u, std::thread::hardware_concurrency()));
  std::ostringstream found;
  found.precision(3);
  found << average[0] << " processes want " << processors << " processors";
  bool busy = average[0] > 0.5 * processors;
  return {"load", busy ? Health::slow : Health::good, found.str(),
          busy ? "times that are measured now, and schedules tuned now, mean little" : ""};
}

Finding governor() {
  std::string name = line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (name.empty()) return {"clock", Health::good, "the system does not tell of a governor", ""};
  bool slow = name == "powersave" &&
              line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver").find("pstate") ==
                  std::string::npos;
  return {"clock", slow ? Health::slow : Health::good, "governor " + name,
          slow ? "the clock stays at its lowest: choose the governor performance" : ""};
}

Finding pages() {
  std::string text = line_of("/sys/kernel/mm/transparent_hugepage/enabled");
  if (text.empty()) return {"pages", Health::note, "the system does not tell of huge pages", ""};
  bool never = text.find("[never]") != std::string::npos;
  return {"pages", never ? Health::slow : Health::good, "transparent huge pages: " + text,
          never ? "large tensors take many more page walks: write madvise there" : ""};
}

Finding limit(const char* subject, int resource, double least, const char* advice) {
  rlimit now{};
  if (getrlimit(resource, &now) != 0) return {subject, Health::note, "not told", ""};
  if (now.rlim_cur == RLIM_INFINITY) return {subject, Health::good, "unlimited", ""};
  auto bytes = static_cast<double>(now.rlim_cur);
  bool low = bytes < least;
  return {subject, low ? Health::note : Health::good, quantity(bytes), low ? advice : ""};
}

Finding memory() {
  auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
  auto all = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * page;
  auto free = static_cast<double>(sysconf(_SC_AVPHYS_PAGES)) * page;
  std::string group = line_of("/sys/fs/cgroup/memory.max");
  std::string found = quantity(all) + ", " + quantity(free) + " free";
  if (!group.empty() && group != "max") {
    found += "; the control group allows " + quantity(std::strtod(group.c_str(), nullptr));
  }
  return {"memory", Health::good, found, ""};
}

Finding build() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return {"build", Health::slow, "made with a sanitizer", "for speed use the preset release"};
#elif !defined(__OPTIMIZE__)
  return {"build", Health::slow, "made without optimisation", "for speed use the preset release"};
#else
  return {"build", Health::good, "optimised", ""};
#endif
}

}  // namespace

std::vector<Finding> machine_findings() {
  constexpr double kStack = 256 << 10, kSpace = double{4} * (1 << 30);
  std::vector<Finding> all = {build()};
  Options options;
  options.backend = "cpu";
  try {
    std::shared_ptr<Engine> engine = make_engine(options);
    all.push_back(processor(*engine));
    all.push_back(rates(*engine));
    all.push_back(threads(*engine));
  } catch (const Failure& failure) {
    all.push_back({"cpu", Health::fault, failure.what(), failure.diagnostic().hint});
  } catch (const std::exception& failure) {  // short of memory, perhaps
    all.push_back({"cpu", Health::fault, failure.what(), ""});
  }
  all.push_back(load());
  all.push_back(governor());
  all.push_back(pages());
  all.push_back(memory());
  all.push_back(limit("address space", RLIMIT_AS, kSpace,
                      "the compiler alone takes some hundred megabytes: ulimit -v unlimited"));
  all.push_back(limit("stack", RLIMIT_STACK, kStack, "deep programs need more: ulimit -s 8192"));
  return all;
}

}  // namespace tile::cli
