// What happened when, for people with a profiler: spans of time on threads and GPU streams, written
// to a file in Chrome's trace format (which Perfetto reads) and told to NVIDIA's tools as NVTX
// ranges. Off by default; then a span costs one relaxed load. Thread safe.
//
// The environment starts it with the first engine: TILE_TRACE=FILE, TILE_NVTX=1.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace tile::trace {

enum Sink : unsigned { kNone = 0, kFile = 1, kNvtx = 2 };
extern constinit std::atomic<unsigned> sinks;

inline bool is_on() { return sinks.load(std::memory_order_relaxed) != kNone; }
inline bool is_kept() { return (sinks.load(std::memory_order_relaxed) & kFile) != 0; }

// What the environment asks for, once in the process.
void start_by_environment();
// Keeps spans from now on for this file, which finish() or the end of the process writes. False
// where the file cannot be opened for writing, or another one is being kept.
bool start(const std::string& path);
// Writes the file and keeps no more spans. False where it could not be written.
bool finish();
// Opens NVIDIA's tools extension; false where the library is not there.
bool start_nvtx();

// Nanoseconds of the trace's clock.
int64_t now_ns();
// A span on the calling thread, or on a GPU's stream, in Chrome's categories.
void add(const char* category, std::string_view name, int64_t begin_ns, int64_t end_ns);
struct Stream {
  int gpu = 0;
  const void* stream = nullptr;
};
void add_on_stream(Stream on, std::string_view name, int64_t begin_ns, int64_t end_ns);

// The time between construction and destruction; `name` is copied.
class Scope {
 public:
  Scope(const char* category, std::string_view name) {
    if (is_on()) [[unlikely]] {
      begin(category, name);
    }
  }
  // The name is made only where it is asked for.
  template <class Name>
    requires std::is_invocable_r_v<std::string, Name>
  Scope(const char* category, const Name& name) {
    if (is_on()) [[unlikely]] {
      begin(category, name());
    }
  }
  ~Scope() {
    if (category_ != nullptr) [[unlikely]]
      end();
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  void begin(const char* category, std::string_view name) noexcept;
  void end() noexcept;
  const char* category_ = nullptr;
  bool range_ = false;  // of NVTX
  int64_t begin_ns_ = 0;
  std::string name_;
};

}  // namespace tile::trace
