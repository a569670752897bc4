// `tile devices` and `tile cache`.
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/support/bytes_text.h"
#include "runtime/cli/commands.h"
#include "runtime/engine/cache/disk_cache.h"
#include "runtime/engine/tuning/machine_rates.h"

namespace tile::cli {
namespace {

using Json = nlohmann::ordered_json;

// What stands at the cache's place; nothing is made.
struct CacheState {
  std::string path, why = "no home directory";
  bool missing = false;
  std::shared_ptr<const PrivateDirectory> directory;  // null: see `why`
};
CacheState cache_state() {
  CacheState state;
  state.path = default_cache_directory();
  if (state.path.empty()) return state;
  std::error_code none;
  state.missing = !std::filesystem::exists(std::filesystem::symlink_status(state.path, none));
  if (state.missing) {
    state.why = "it is made when it is needed";
  } else {
    state.directory = PrivateDirectory::open(state.path, false, state.why);
  }
  return state;
}

std::string cache_json(const CacheState& state) {
  Json j = {{"directory", state.path}, {"usable", state.missing || state.directory != nullptr}};
  CacheSummary summary;
  if (state.directory) summary = summarize_cache(*state.directory);
  if (!state.missing && !state.directory) j["why"] = state.why;
  j["entries"] = summary.entries;
  j["bytes"] = summary.bytes;
  j["unfinished"] = summary.leftovers;
  j["limit_bytes"] = default_cache_limit().value_or(kCacheLimit);
  return j.dump(2) + "\n";
}

}  // namespace

int command_cache(const std::string& action, bool json) {
  CacheState state = cache_state();
  bool usable = state.missing || state.directory;
  if (action == "clear" && state.directory) {
    size_t removed = clear_cache(*state.directory);
    if (!json) std::cout << removed << " entries removed from " << state.path << "\n";
    if (!json) return 0;
  }
  if (json) {
    std::cout << cache_json(state);
    return usable ? 0 : 1;
  }
  if (state.missing) {
    std::cout << state.path << ": 0 entries, 0 bytes (" << state.why << ")\n";
    return 0;
  }
  if (!usable) {
    std::cout << "the disk cache is not used: " << state.why << "\n";
    return 1;
  }
  CacheSummary summary = summarize_cache(*state.directory);
  std::cout << state.path << ": " << summary.entries << " entries, " << summary.bytes << " bytes";
  if (summary.leftovers != 0) std::cout << ", " << summary.leftovers << " of unfinished writes";
  std::cout << ", limit " << default_cache_limit().value_or(kCacheLimit) << "\n";
  return 0;
}

namespace {

struct Device {
  std::string backend;
  std::shared_ptr<Engine> engine;  // null: not available
  std::string why;
};

Device device_of(const std::string& backend, Options options) {
  options.backend = backend;
  try {
    return {backend, make_engine(options), ""};
  } catch (const Failure& failure) {  // no GPU, or nothing to compile for it with
    return {backend, nullptr, failure.what()};
  }
}

std::vector<Device> all_devices(const Options& options) {
  std::vector<Device> devices = {device_of("cuda", options)};
  for (int ordinal = 1; devices.back().engine; ++ordinal) {
    Device next = device_of("cuda:" + std::to_string(ordinal), options);
    if (!next.engine) break;
    devices.push_back(std::move(next));
  }
  for (const char* name : {"cpu", "reference"}) devices.push_back(device_of(name, options));
  return devices;
}

// What decides about programs, in a line; every field of the target is in the JSON.
std::string text_of(const Target& t) {
  if (is_gpu(t)) {
    return std::to_string(t.gpu.multiprocessors) + " multiprocessors, compute capability " +
           std::to_string(t.gpu.capability / 10) + "." + std::to_string(t.gpu.capability % 10) +
           ", " + bytes_text(static_cast<size_t>(t.gpu.shared_per_block)) +
           " of shared memory for a block";
  }
  return "caches: " + bytes_text(static_cast<size_t>(t.l1_bytes)) + ", " +
         bytes_text(static_cast<size_t>(t.l2_bytes)) + ", " +
         bytes_text(static_cast<size_t>(t.l3_bytes));
}

std::string text_of(const Device& device) {
  if (!device.engine) return device.backend + ": not available: " + device.why + "\n";
  const Engine& engine = *device.engine;
  std::string text = engine.device() + "\n";  // most begin with their backend
  if (!text.starts_with(device.backend + ":")) text.insert(0, device.backend + ": ");
  if (engine.is_reference()) return text;
  text += "  " + text_of(engine.target()) + "\n";
  if (engine.rates()) return text + "  " + describe(*engine.rates()) + "\n";
  return is_gpu(engine.target()) ? text : text + "  rates: not measured (--measure)\n";
}

Json json_of(const MachineRates& rates) {
  Json j = {{"threads", rates.threads},
            {"l1_bytes_per_ns", rates.l1_bytes_per_ns},
            {"l2_bytes_per_ns", rates.l2_bytes_per_ns},
            {"l3_bytes_per_ns", rates.l3_bytes_per_ns},
            {"dram_bytes_per_ns", rates.dram_bytes_per_ns},
            {"all_fma_per_ns", rates.all_fma_per_ns},
            {"all_l2_bytes_per_ns", rates.all_l2_bytes_per_ns},
            {"all_l3_bytes_per_ns", rates.all_l3_bytes_per_ns},
            {"all_dram_bytes_per_ns", rates.all_dram_bytes_per_ns}};
  for (const auto& [bits, rate] : rates.fma_per_ns) {
    j["fma_per_ns"][std::to_string(bits)] = rate;
  }
  return j;
}

Json json_of(const Device& device) {
  Json j = {{"backend", device.backend}, {"available", device.engine != nullptr}};
  if (!device.engine) {
    j["why"] = device.why;
    return j;
  }
  const Engine& engine = *device.engine;
  j["device"] = engine.device();
  if (engine.is_reference()) return j;
  const Target& t = engine.target();
  j["features"] = t.features;
  j["threads"] = t.threads;
  j["vector_bits"] = t.vector_bits;
  j["l1_bytes"] = t.l1_bytes;
  j["l2_bytes"] = t.l2_bytes;
  j["l3_bytes"] = t.l3_bytes;
  j["fma_per_ns"] = t.fma_per_ns;
  j["dram_bytes_per_ns"] = t.dram_bytes_per_ns;
  j["matrix_tiles"] = t.tiles.count;
  if (is_gpu(t)) {
    j["multiprocessors"] = t.gpu.multiprocessors;
    j["compute_capability"] = t.gpu.capability;
    j["shared_bytes_per_block"] = t.gpu.shared_per_block;
  }
  j["target"] = to_string(t);
  if (engine.rates()) j["measured"] = json_of(*engine.rates());
  return j;
}

}  // namespace

int command_devices(const Options& options, bool json) {
  std::vector<Device> devices = all_devices(options);
  Json list = Json::array();
  for (const Device& device : devices) {
    if (!json) std::cout << text_of(device);
    if (json) list.push_back(json_of(device));
  }
  if (json) std::cout << Json{{"devices", list}}.dump(2) << "\n";
  return 0;
}

}  // namespace tile::cli
