#include "runtime/api/options.h"

#include <cstdint>
#include <limits>
#include <string>

#include "runtime/api/handles.h"
#include "runtime/engine/launch/host_memory.h"

namespace tile::api {
namespace {

void take_limit(uint64_t given, int64_t& limit) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  if (given != 0) limit = static_cast<int64_t>(std::min(given, kMost));
}

std::vector<std::string> skipped_passes(const tile_engine_options& o) {
  if (o.skip_pass_count != 0 && o.skip_passes == nullptr) {
    fail(Stage::run, "argument", {}, "skip_passes is NULL");
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < o.skip_pass_count; ++i) {
    names.emplace_back(o.skip_passes[i] == nullptr ? "" : o.skip_passes[i]);
  }
  return names;
}

Allocator allocator_of(const tile_allocator* given, const char* what) {
  if (given == nullptr) return {};
  tile_allocator all = given_options(given);
  if (all.allocate == nullptr || all.release == nullptr) {
    fail(Stage::run, "argument", {}, std::string(what) + " lacks one of its two functions");
  }
  return {all.allocate, all.release, all.user};
}

}  // namespace

std::function<bool()> polled(tile_cancel_callback cancel, void* user) {
  if (cancel == nullptr) return {};
  return [cancel, user] { return cancel(user) != 0; };
}

EngineOptions engine_options(const tile_engine_options& o) {
  EngineOptions options;
  auto text = [](const char* s) { return std::string(s == nullptr ? "" : s); };
  if (o.backend != nullptr) options.backend = o.backend;
  options.features = text(o.features);
  options.threads = o.threads;
  options.memory_limit = o.memory_limit;
  options.cache_dir = text(o.cache_dir);
  options.cache_mode = text(o.cache_mode);
  options.cache_limit = o.cache_limit;
  options.memory_cache_limit = o.memory_cache_limit;
  options.strict_skip = o.strict_skip != 0;
  options.deterministic = o.deterministic != 0;
  if (o.log != nullptr) {
    options.log = [log = o.log, user = o.log_user](LogLevel level, const std::string& message) {
      try {
        log(user, static_cast<tile_log_level>(level), message.c_str());
      } catch (...) {  // a host in C++ that does not keep its word: the message is lost
      }
    };
  }
  options.cancelled = polled(o.cancel, o.cancel_user);
  options.cancel_spares_runs = o.cancel_spares_runs != 0;
  options.host_allocator = allocator_of(o.host_allocator, "host_allocator");
  options.device_allocator = allocator_of(o.device_allocator, "device_allocator");
  options.parallel_for = {o.parallel_for, o.parallel_for_user};
  options.skip_passes = skipped_passes(o);
  options.time_passes = o.time_passes != 0;
  if (o.precision != nullptr) options.precision = o.precision;
  if (o.limit_compile_ms == UINT64_MAX) {
    options.compile_seconds = CallControl::kForever;
  } else if (o.limit_compile_ms != 0) {
    options.compile_seconds = 1e-3 * static_cast<double>(o.limit_compile_ms);
  }
  take_limit(o.limit_nodes, options.limits.nodes);
  take_limit(o.limit_code, options.limits.code);
  take_limit(o.limit_points, options.limits.points);
  take_limit(o.limit_nesting, options.limits.nesting);
  return options;
}

std::vector<size_t> constants_of(const tile_compile_options& options, size_t inputs) {
  if (options.constant_count != 0 && options.constants == nullptr) {
    fail(Stage::run, "argument", {}, "constants is NULL");
  }
  std::vector<size_t> numbers;
  for (size_t i = 0; i < options.constant_count; ++i) {
    numbers.push_back(options.constants[i]);
    if (numbers.back() < inputs) continue;
    fail(Stage::run, "argument", {},
         "input " + std::to_string(numbers.back()) + " is declared constant; the program has " +
             std::to_string(inputs));
  }
  return numbers;
}

std::byte* workspace_of(const Executable& e, const tile_run_options& options) {
  if (options.workspace == nullptr || e.engine->is_reference()) return nullptr;
  size_t needed = e.arena_bytes + e.workspace_bytes;
  size_t alignment = workspace_alignment(*e.engine);
  if (options.workspace_size < needed) {
    fail(Stage::run, "argument", {},
         "a workspace of " + std::to_string(options.workspace_size) + " bytes; the run needs " +
             std::to_string(needed),
         "tile_executable_workspace_size tells how many");
  }
  if (reinterpret_cast<uintptr_t>(options.workspace) % alignment != 0) {
    fail(Stage::run, "argument", {},
         "the workspace is not aligned to " + std::to_string(alignment) + " bytes");
  }
  return static_cast<std::byte*>(options.workspace);
}

}  // namespace tile::api
