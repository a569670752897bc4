#include "backends/trace.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace tile::trace {

constinit std::atomic<unsigned> sinks{kNone};

namespace {

constexpr size_t kMostEvents = size_t{4} << 20;  // some hundred megabytes; later spans are counted
constexpr int kGpuPid = 1 << 24;                 // above Linux's largest process: GPUs' tracks

struct Event {
  const char* category;
  std::string name;
  int64_t begin_ns, end_ns;
  int process, thread;
};

// Never destroyed: threads may still add while the process ends.
struct State {
  std::mutex mutex;
  std::FILE* file = nullptr;
  std::vector<Event> events;
  size_t dropped = 0;
  int64_t start_ns = 0;
  std::map<std::pair<int, const void*>, int> streams;  // their numbers
};
State& state() {
  static State& all = *new State;
  return all;
}

// NVTX's C interface of version 1 to 3 (nvToolsExt.h).
struct Nvtx {
  int (*push)(const char*) = nullptr;
  int (*pop)() = nullptr;
};
Nvtx& nvtx() {
  static Nvtx& functions = *new Nvtx;
  return functions;
}

void append_escaped(std::string& out, std::string_view text) {
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", byte);
      out += code.data();
    } else {
      out += c;
    }
  }
}

// Microseconds with three digits, whatever the process's locale.
std::string microseconds(int64_t ns) {
  std::string digits = std::to_string(1000 + ns % 1000);
  return std::to_string(ns / 1000) + "." + digits.substr(1);
}

std::string metadata(const char* what, int process, int thread, std::string_view name) {
  std::string out = "{\"ph\":\"M\",\"name\":\"" + std::string(what) +
                    "\",\"pid\":" + std::to_string(process) + ",\"tid\":" + std::to_string(thread) +
                    ",\"args\":{\"name\":\"";
  append_escaped(out, name);
  return out + "\"}}";
}

std::string json_of(const Event& e, int64_t start_ns) {
  std::string out = "{\"ph\":\"X\",\"cat\":\"" + std::string(e.category) + "\",\"name\":\"";
  append_escaped(out, e.name);
  out += "\",\"ts\":" + microseconds(e.begin_ns < start_ns ? 0 : e.begin_ns - start_ns);
  out += ",\"dur\":" + microseconds(e.end_ns < e.begin_ns ? 0 : e.end_ns - e.begin_ns);
  return out + ",\"pid\":" + std::to_string(e.process) + ",\"tid\":" + std::to_string(e.thread) +
         "}";
}

bool put(std::FILE* file, const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), file) == text.size();
}

bool write(State& s) {
  int process = getpid();
  bool good = put(s.file, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"dropped\":\"" +
                              std::to_string(s.dropped) + "\"},\"traceEvents\":[\n" +
                              metadata("process_name", process, process, "Tile JIT"));
  std::set<int> gpus;
  for (const auto& [key, number] : s.streams) {
    int gpu = kGpuPid + key.first;
    if (gpus.insert(gpu).second) {
      good &=
          put(s.file, ",\n" + metadata("process_name", gpu, 0, "GPU " + std::to_string(key.first)));
    }
    good &= put(s.file,
                ",\n" + metadata("thread_name", gpu, number, "stream " + std::to_string(number)));
  }
  for (const Event& e : s.events) good &= put(s.file, ",\n" + json_of(e, s.start_ns));
  good &= put(s.file, "\n]}\n");
  return std::fclose(std::exchange(s.file, nullptr)) == 0 && good;
}

void keep(State& s, Event event) {
  if (s.file == nullptr) return;
  if (s.events.size() < kMostEvents) {
    s.events.push_back(std::move(event));
  } else {
    ++s.dropped;
  }
}

// A thread's number costs a system call.
int this_thread() {
  [[gnu::tls_model("initial-exec")]] constinit thread_local int number = 0;
  if (number == 0) number = gettid();
  return number;
}

}  // namespace

int64_t now_ns() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

void start_by_environment() {
  static std::once_flag once;
  std::call_once(once, [] {
    const char* path = std::getenv("TILE_TRACE");
    if (path != nullptr && *path != 0) start(path);
    const char* ranges = std::getenv("TILE_NVTX");
    if (ranges != nullptr && std::string_view(ranges) == "1") start_nvtx();
  });
}

bool start(const std::string& path) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (s.file != nullptr) return false;
  s.file = std::fopen(path.c_str(), "we");
  if (s.file == nullptr) return false;
  s.events.clear();
  s.streams.clear();
  s.dropped = 0;
  s.start_ns = now_ns();
  sinks.fetch_or(kFile, std::memory_order_relaxed);
  static std::once_flag once;
  std::call_once(once, [] { std::atexit([] { finish(); }); });
  return true;
}

bool finish() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  sinks.fetch_and(~unsigned{kFile}, std::memory_order_relaxed);
  return s.file == nullptr || write(s);
}

bool start_nvtx() {
  void* library = nullptr;
  for (const char* name : {"libnvToolsExt.so.1", "libnvToolsExt.so"}) {
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) return false;
  auto push = reinterpret_cast<int (*)(const char*)>(dlsym(library, "nvtxRangePushA"));
  auto pop = reinterpret_cast<int (*)()>(dlsym(library, "nvtxRangePop"));
  if (push == nullptr || pop == nullptr) return false;
  nvtx() = {push, pop};
  sinks.fetch_or(kNvtx, std::memory_order_release);
  return true;
}

void add(const char* category, std::string_view name, int64_t begin_ns, int64_t end_ns) {
  State& s = state();
  Event event{category, std::string(name), begin_ns, end_ns, getpid(), this_thread()};
  std::lock_guard lock(s.mutex);
  keep(s, std::move(event));
}

void add_on_stream(Stream on, std::string_view name, int64_t begin_ns, int64_t end_ns) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  auto next = static_cast<int>(s.streams.size());
  int number = s.streams.try_emplace({on.gpu, on.stream}, next).first->second;
  keep(s, {"gpu", std::string(name), begin_ns, end_ns, kGpuPid + on.gpu, number});
}

// What cannot be kept for lack of memory is left out: a trace must not end what it looks at.
void Scope::begin(const char* category, std::string_view name) noexcept {
  try {
    name_ = name;
  } catch (const std::bad_alloc&) {
    return;
  }
  category_ = category;
  range_ = (sinks.load(std::memory_order_acquire) & kNvtx) != 0;
  if (range_) nvtx().push(name_.c_str());
  begin_ns_ = now_ns();
}

void Scope::end() noexcept {
  int64_t end_ns = now_ns();
  if (range_) nvtx().pop();
  if ((sinks.load(std::memory_order_relaxed) & kFile) == 0) return;
  try {
    add(category_, name_, begin_ns_, end_ns);
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace tile::trace
