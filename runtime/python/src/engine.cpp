#include "engine.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstring>

namespace tilejit {
namespace {

const char* text_or_null(const std::optional<std::string>& text, const char* what) {
  return text ? c_text(*text, what) : nullptr;
}

// Levels of Python's logging.
int logging_level(tile_log_level level) {
  return level == TILE_LOG_ERROR ? 40 : level == TILE_LOG_WARNING ? 30 : 20;
}

}  // namespace

void LogQueue::add(void* self, tile_log_level level, const char* message) noexcept {
  auto& queue = *static_cast<LogQueue*>(self);
  try {
    std::lock_guard lock(queue.mutex_);
    queue.messages_.emplace_back(level, message);
    queue.waiting_.store(true, std::memory_order_relaxed);
  } catch (...) {  // without memory a message is lost
  }
}

void LogQueue::hand_on() {
  std::vector<std::pair<tile_log_level, std::string>> messages;
  {
    std::lock_guard lock(mutex_);
    messages.swap(messages_);
    waiting_.store(false, std::memory_order_relaxed);
  }
  static Helper log("tilejit._support", "log");
  for (const auto& [level, message] : messages) log.get()(logging_level(level), message);
}

void* DeviceMemory::allocate(void* self, size_t bytes, size_t, void* stream) noexcept {
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject* made = PyObject_CallFunction(static_cast<DeviceMemory*>(self)->allocate_.ptr(), "KK",
                                         static_cast<unsigned long long>(bytes),
                                         reinterpret_cast<unsigned long long>(stream));
  void* memory = made == nullptr ? nullptr : PyLong_AsVoidPtr(made);
  Py_XDECREF(made);
  // What was raised becomes the library's error of code "memory".
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  PyGILState_Release(state);
  return memory;
}

void DeviceMemory::release(void* self, void* memory, size_t, void*) noexcept {
  // Of an interpreter that is gone memory is not given back: the process ends.
  if (Py_IsInitialized() == 0) return;
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject* done = PyObject_CallFunction(static_cast<DeviceMemory*>(self)->release_.ptr(), "K",
                                         reinterpret_cast<unsigned long long>(memory));
  Py_XDECREF(done);
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  PyGILState_Release(state);
}

Engine::Engine(const EngineOptions& o) : log_(new LogQueue), backend_(o.backend) {
  tile_engine_options options{};
  options.struct_size = sizeof options;
  options.backend = c_text(o.backend, "backend");
  options.features = text_or_null(o.features, "features");
  options.threads = o.threads;
  options.memory_limit = o.memory_limit;
  options.cache_dir = text_or_null(o.cache_dir, "cache_dir");
  options.cache_mode = text_or_null(o.cache_mode, "cache_mode");
  options.deterministic = o.deterministic ? 1 : 0;
  options.log = &LogQueue::add;
  options.log_user = log_;
  options.cancel = &interrupted;
  options.cancel_user = log_;
  options.precision = text_or_null(o.precision, "precision");
  options.cache_limit = o.cache_limit;
  options.memory_cache_limit = o.memory_cache_limit;
  options.limit_compile_ms = o.limit_compile_ms;
  options.cancel_spares_runs = 1;
  tile_allocator allocator{};
  if (!o.device_memory.is_none()) {
    if (!PyTuple_Check(o.device_memory.ptr()) || PyTuple_Size(o.device_memory.ptr()) != 2) {
      raise_type("device_memory is a pair of functions");
    }
    nb::tuple functions = nb::cast<nb::tuple>(o.device_memory);
    device_memory_ = new DeviceMemory(functions[0], functions[1]);
    allocator = {sizeof allocator, &DeviceMemory::allocate, &DeviceMemory::release, device_memory_};
    options.device_allocator = &allocator;
  }
  if (o.backend.starts_with("cuda")) {
    static Helper load("tilejit._support", "load_nvrtc");
    load.get()();
  }
  released(*this, [&] { return tile_engine_create(&options, &engine_); });
  on_device_ = std::strncmp(tile_engine_device(engine_), "cuda", 4) == 0;
}

Engine::~Engine() { tile_engine_free(engine_); }

nb::dict Engine::statistics() const {
  tile_engine_statistics s{};
  s.struct_size = sizeof s;
  check(tile_engine_statistics_get(engine_, &s));
  nb::dict result;
  result["binds"] = s.binds;
  result["executable_hits"] = s.executable_hits;
  result["kernels_compiled"] = s.kernels_compiled;
  result["kernel_hits"] = s.kernel_hits;
  result["kernel_disk_hits"] = s.kernel_disk_hits;
  result["temporary_bytes"] = s.temporary_bytes;
  result["constant_bytes"] = s.constant_bytes;
  result["cached_bytes"] = s.cached_bytes;
  result["evictions"] = s.evictions;
  return result;
}

void bind_engine(nb::module_& module) {
  nb::class_<Engine>(module, "Engine", nb::is_weak_referenceable(),
                     "What compiles and runs programs on one device, with its caches and limits; 0 "
                     "and None leave the choice to the library.")
      .def(
          "__init__",
          [](Engine* self, nb::args args, nb::kwargs kwargs) {
            static Helper checked("tilejit._support", "engine_options");
            nb::tuple o = nb::cast<nb::tuple>(checked.get()(*args, **kwargs));
            using Text = std::optional<std::string>;
            EngineOptions options;
            options.backend = nb::cast<std::string>(o[0]);
            options.threads = nb::cast<int>(o[1]);
            options.cache_dir = nb::cast<Text>(o[2]);
            options.cache_mode = nb::cast<Text>(o[3]);
            options.cache_limit = nb::cast<size_t>(o[4]);
            options.memory_cache_limit = nb::cast<size_t>(o[5]);
            options.memory_limit = nb::cast<size_t>(o[6]);
            options.features = nb::cast<Text>(o[7]);
            options.precision = nb::cast<Text>(o[8]);
            options.deterministic = nb::cast<bool>(o[9]);
            options.limit_compile_ms = nb::cast<uint64_t>(o[10]);
            options.device_memory = nb::borrow(o[11]);
            new (self) Engine(options);
          },
          nb::sig("def __init__(self, backend: str = 'cpu', *, threads: int = 0, "
                  "cache_dir: str | os.PathLike[str] | None = None, cache_mode: str | None = None, "
                  "cache_limit: int = 0, memory_cache_limit: int = 0, memory_limit: int = 0, "
                  "features: str | None = None, precision: str | None = None, "
                  "deterministic: bool = False, limit_compile_ms: int = 0, "
                  "device_memory: tuple | None = None) -> None"),
          "device_memory: a pair of functions, (bytes, stream) -> address and (address), that take "
          "memory of a GPU in the order of a CUDA stream and give it back; None: the library's "
          "own.")
      .def_prop_ro(
          "device", [](const Engine& e) { return tile_engine_device(e.get()); },
          "The device in words.")
      .def_prop_ro("backend", &Engine::backend, "\"cpu\", \"cuda\", \"cuda:1\" … or \"reference\".")
      .def_prop_ro("statistics", &Engine::statistics,
                   "What was compiled and found, as counts; bytes held.")
      .def(
          "synchronize",
          [](const Engine& e) {
            released(e, [&] { return tile_engine_synchronize(e.get(), nullptr); });
          },
          "Waits for the work on the device and raises what failed in it.")
      .def("__repr__", [](const Engine& e) {
        return "<tilejit.Engine " + std::string(tile_engine_device(e.get())) + ">";
      });
}

}  // namespace tilejit
