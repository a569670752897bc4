#include "backends/cpu/probe/host.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <vector>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "backends/cpu/jit/llvm_memory.h"
#include "backends/cpu/probe/cpu_quota.h"
#include "backends/cpu/probe/probe_dot_products.h"
#include "backends/cpu/probe/probe_tiles.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {
namespace {

struct Level {
  std::string_view name;
  std::string_view cpu;
  int vector_bits;
  int vector_registers;
  double fma_per_ns;
  std::vector<const char*> needs;
};
// Rates are those of two units of the full width at 3 GHz; without FMA a pair of operations counts.
std::vector<Level> levels() {
  return {
      {"sse", "x86-64-v2", 128, 16, 12, {"sse4.2", "popcnt", "cx16", "ssse3"}},
      {"avx2", "x86-64-v3", 256, 16, 48, {"avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe"}},
      {"avx512",
       "x86-64-v4",
       512,
       32,
       96,
       {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "fma"}},
  };
}

// What this processor can do.
llvm::StringMap<bool> host_features() {
  prepare_llvm();
  return guarded_llvm([] { return llvm::sys::getHostCPUFeatures(); }, [] {});
}

bool has(const llvm::StringMap<bool>& features, const Level& level) {
  return std::all_of(level.needs.begin(), level.needs.end(),
                     [&](const char* name) { return features.lookup(name); });
}

void apply(const Level& level, Target& target) {
  target.vector_bits = level.vector_bits;
  target.vector_registers = level.vector_registers;
  target.fma_per_ns = level.fma_per_ns;
  // What cores of these kinds load from the second level while they multiply: two thirds of a
  // vector register a cycle; and from the third.
  target.l2_bytes_per_ns = 2 * level.fma_per_ns;
  target.l3_bytes_per_ns = 30;
  target.dot_bf16_per_ns = target.dot_i16_per_ns = target.dot_i8_per_ns = 0;
  target.tiles = {};
}

// "48K" as bytes; 0 if it is no size.
int64_t parse_size(const std::string& text) {
  int64_t n = 0;
  size_t i = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9' && n < int64_t{1} << 40; ++i) {
    n = n * 10 + (text[i] - '0');
  }
  if (i < text.size() && text[i] == 'K') n <<= 10;
  if (i < text.size() && text[i] == 'M') n <<= 20;
  return n;
}

// The first cache is read by virtual addresses, so that a way of it is a page of 4 KiB on x86.
constexpr int64_t kFirstWay = 4096;

void probe_caches(Target& target) {
  for (int i = 0; i < 8; ++i) {
    std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + "/";
    auto word = [&](const char* name) {
      std::string text;
      std::ifstream(folder + name) >> text;
      return text;
    };
    std::string level = word("level");
    int64_t size = parse_size(word("size"));
    if (size <= 0 || word("type") == "Instruction") continue;
    if (level == "1") {
      target.l1_bytes = size;
      // Some virtual machines tell none.
      int64_t ways = parse_size(word("ways_of_associativity"));
      target.core.l1_ways =
          static_cast<double>(ways > 0 ? ways : std::max<int64_t>(size / kFirstWay, 1));
    }
    if (level == "2") target.l2_bytes = size;
    if (level == "3") target.l3_bytes = size;
  }
}

// Of lines that several second caches hold, some are lost to others' (seen with an L3 that does not
// include the second level: a product's threads that all walk 1 MiB took twice as long as with
// copies of their own; with 512 KiB, as long).
constexpr int64_t kPartForAll = 4;
constexpr double kAwakeParallelNanoseconds = 500;  // of helpers that watch for the next job

// What does not change while the process runs.
Target probe() {
  Target target;
  target.parallel_overhead_ns = kAwakeParallelNanoseconds;
  target.device = "cpu";
  target.features = llvm::sys::getHostCPUName().str();
  llvm::StringMap<bool> found = host_features();
  std::vector<std::string> features;
  for (const auto& entry : found) {
    features.push_back((entry.second ? "+" : "-") + entry.first().str());
  }
  std::sort(features.begin(), features.end());
  for (const std::string& f : features) target.features += " " + f;
  for (const Level& level : levels()) {
    if (has(found, level)) apply(level, target);
  }
  probe_dot_products(found, target);
  if (target.vector_bits == 512) target.tiles = host_tiles(found, target.fma_per_ns);
  probe_caches(target);
  target.l2_shared_bytes = target.l2_bytes / kPartForAll;
  return target;
}

}  // namespace

// Once: asking the processor costs a virtual machine tens of microseconds.
Target probe_host() {
  static const Target kHost = probe();
  Target target = kHost;
  target.threads = std::max(1, tbb::this_task_arena::max_concurrency());
  // More threads than the quota would spend it in a part of each period and then stand still
  // together.
  if (int quota = processor_quota()) target.threads = std::min(target.threads, quota);
  return target;
}

namespace {

// The brand string: leaves 80000002 to 80000004 of CPUID (Intel SDM, volume 2, "CPUID").
std::string asked_name() {
#if defined(__x86_64__)
  constexpr unsigned kFirst = 0x80000002, kLast = 0x80000004;
  std::array<unsigned, 12> words{};
  for (unsigned leaf = kFirst; leaf <= kLast; ++leaf) {
    unsigned* at = &words[4 * static_cast<size_t>(leaf - kFirst)];
    if (__get_cpuid(leaf, at, at + 1, at + 2, at + 3) == 0) return "";
  }
  std::array<char, sizeof words + 1> text{};
  std::memcpy(text.data(), words.data(), sizeof words);
  std::string name = text.data();
  name.erase(0, name.find_first_not_of(' '));
  name.erase(name.find_last_not_of(' ') + 1);
  return name;
#else
  return "";
#endif
}

}  // namespace

std::string processor_name() {
  static const std::string kName = asked_name();
  return kName;
}

Target limited_to(const Target& host, std::string_view name) {
  if (name == "native" || name == host.features) return host;
  for (const Level& level : levels()) {
    if (level.name != name && level.cpu != name) continue;
    if (!has(host_features(), level)) {
      fail(Stage::compile, "target", {}, "this CPU has no " + std::string(name));
    }
    Target target = host;
    target.features = level.cpu;
    apply(level, target);
    return target;
  }
  fail(Stage::compile, "target", {}, "unknown CPU target '" + std::string(name) + "'",
       "one of: native, sse, avx2, avx512");
}

}  // namespace tile::cpu
