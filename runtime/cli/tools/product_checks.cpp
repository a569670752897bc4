#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "runtime/cli/session.h"
#include "runtime/cli/tensor_file.h"
#include "runtime/cli/tools/checks.h"
#include "runtime/engine/cache/disk_cache.h"

extern char** environ;

namespace tile::cli {
namespace {

Finding cache() {
  const char* mode = std::getenv("TILE_CACHE");
  if (mode != nullptr && std::string_view(mode) == "off") {
    return {"cache", Health::slow, "switched off by TILE_CACHE",
            "each process compiles everything anew"};
  }
  std::string path = default_cache_directory(), why;
  if (path.empty()) {
    return {"cache", Health::slow, "there is no home directory to keep it in",
            "set TILE_CACHE_DIR"};
  }
  std::error_code none;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, none))) {
    return {"cache", Health::note, path + " is made when it is needed", ""};
  }
  std::shared_ptr<const PrivateDirectory> directory = PrivateDirectory::open(path, false, why);
  if (!directory) {
    return {"cache", Health::fault, why,
            "chmod 700 it, or set TILE_CACHE_DIR; until then each process compiles everything"};
  }
  CacheSummary s = summarize_cache(*directory);
  std::string found =
      path + ": " + std::to_string(s.entries) + " entries, " + std::to_string(s.bytes) + " bytes";
  if (s.bytes > default_cache_limit().value_or(kCacheLimit)) {
    return {"cache", Health::slow, found + ", more than its limit", "raise TILE_CACHE_LIMIT"};
  }
  return {"cache", Health::good, found, ""};
}

// The variables that the product reads; a misspelt one is the usual reason for "it has no effect".
constexpr auto kVariables = std::to_array<std::string_view>(
    {"TILE_THREADS", "TILE_CACHE", "TILE_CACHE_DIR", "TILE_CACHE_LIMIT", "TILE_CUDA_DRIVER",
     "TILE_NVRTC", "TILE_CUDA_SYNC", "TILE_TRACE", "TILE_NVTX", "TILE_PERF", "TILE_GDB",
     "TILE_BENCH_PYTHON", "TILE_BENCH_LIBRARIES", "TILE_TEST_SEEDS", "TILE_ROOT"});

// A value may be anything; a terminal is given what can be read.
std::string shown(std::string_view text) {
  constexpr size_t kMost = 200;
  constexpr unsigned char kSpace = 0x20, kDelete = 0x7f;
  std::string result(text.substr(0, kMost));
  for (char& c : result) {
    auto code = static_cast<unsigned char>(c);
    if (code < kSpace || code == kDelete) c = '?';
  }
  return text.size() > kMost ? result + "..." : result;
}

std::vector<Finding> variables() {
  std::vector<Finding> all;
  for (char** at = environ; *at != nullptr; ++at) {
    std::string_view text = *at;
    if (!text.starts_with("TILE_")) continue;
    std::string_view name = text.substr(0, text.find('='));
    bool known = std::find(kVariables.begin(), kVariables.end(), name) != kVariables.end();
    all.push_back({"variable", known ? Health::good : Health::note, shown(text),
                   known ? "" : "nothing reads a variable of this name"});
  }
  return all;
}

constexpr const char* kProgram =
    "function (A[M, L], B[L, N]) -> (O) { C[i, j: M, N] = +(A[i, k] * B[k, j]); O = exp(C); }";

// A product with an odd size, so that vectors have remainders, and its exponential.
std::vector<HostTensor> computed(const std::shared_ptr<Engine>& engine) {
  auto source = std::make_shared<Source>(Source{"doctor.tile", kProgram});
  std::shared_ptr<LoadedProgram> program = parsed(engine, Language::tile, source);
  return run_once(*program, {read_tensor("random:17x33"), read_tensor("random:33x19")});
}

// Largest relative difference; the values are sums of 33 products, exponentiated.
constexpr double kTolerance = 1e-3;

Finding computation(const std::string& backend) {
  std::string subject = "computing on " + backend;
  try {
    Options options;
    options.backend = backend;
    std::vector<HostTensor> got = computed(make_engine(options));
    options.backend = "reference";
    std::vector<HostTensor> want = computed(make_engine(options));
    double worst = 0;
    for (int64_t i = 0; i < want[0].count(); ++i) {
      double w = want[0].at(i).f, error = std::abs(got[0].at(i).f - w) / std::max(1.0, std::abs(w));
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    }
    if (worst < kTolerance) return {subject, Health::good, "as the reference", ""};
    return {subject, Health::fault, "other values than the reference interpreter's",
            "report it, with the output of tile doctor --json"};
  } catch (const Failure& failure) {
    return {subject, Health::fault, failure.what(), failure.diagnostic().hint};
  } catch (const std::exception& failure) {  // short of memory, perhaps
    return {subject, Health::fault, failure.what(), ""};
  }
}

// A GPU that the system has and the product cannot use is a fault; none is not.
std::vector<Finding> gpu() {
  std::error_code none;
  bool present = std::filesystem::exists("/dev/nvidia0", none);
  Options options;
  options.backend = "cuda";
  try {
    std::shared_ptr<Engine> engine = make_engine(options);
    std::vector<Finding> all = {{"gpu", Health::good, engine->device(), ""}};
    all.push_back(computation("cuda"));
    return all;
  } catch (const Failure& failure) {
    if (present) return {{"gpu", Health::fault, failure.what(), failure.diagnostic().hint}};
    return {{"gpu", Health::note, "none: " + std::string(failure.what()), ""}};
  } catch (const std::exception& failure) {
    return {{"gpu", Health::fault, failure.what(), ""}};
  }
}

}  // namespace

std::vector<Finding> product_findings() {
  std::vector<Finding> all = {cache()};
  for (Finding& f : gpu()) all.push_back(std::move(f));
  all.push_back(computation("cpu"));
  for (Finding& f : variables()) all.push_back(std::move(f));
  return all;
}

}  // namespace tile::cli
