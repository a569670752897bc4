#include "errors.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "engine.h"

namespace tilejit {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kBetweenSignals = std::chrono::milliseconds(20);

struct Watch {
  Clock::time_point asked{};
  bool raised = false;
};
thread_local Watch watch;
unsigned long main_thread = 0;

// Calls under way, until their threads have the GIL again or have stopped for good.
std::atomic<int> calls{0};
std::atomic<bool> ending{false};
constexpr auto kLastCalls = std::chrono::seconds(10);

void end() {
  ending = true;
  PyThreadState* state = PyEval_SaveThread();
  auto last = Clock::now() + kLastCalls;
  while (calls != 0 && Clock::now() < last) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  PyEval_RestoreThread(state);
}

bool is_too_late() { return ending && PyThread_get_thread_ident() != main_thread; }

[[noreturn]] void stay() {
  --calls;
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

[[noreturn]] void raise(const nb::object& exception) {
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
  throw nb::python_error();
}

}  // namespace

nb::handle Helper::get() {
  if (found_ == nullptr) {
    found_ = nb::object(nb::module_::import_(module_).attr(name_)).release().ptr();
  }
  return found_;
}

void note_main_thread() {
  nb::object thread = nb::module_::import_("threading").attr("main_thread")();
  main_thread = nb::cast<unsigned long>(thread.attr("ident"));
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&end));
}

Released::Released() {
  ++calls;
  state_ = PyEval_SaveThread();
  if (is_too_late()) stay();
}

Released::~Released() {
  if (is_too_late()) stay();
  PyEval_RestoreThread(state_);
  --calls;
}

void check(tile_error* error) {
  if (watch.raised) {
    watch.raised = false;
    tile_error_free(error);
    throw nb::python_error();
  }
  if (error == nullptr) return;
  static Helper make("tilejit._errors", "make");
  nb::object exception =
      make.get()(static_cast<int>(tile_error_stage(error)), tile_error_code(error),
                 tile_error_message(error), tile_error_line(error), tile_error_column(error),
                 tile_error_rendered(error), tile_error_json(error));
  tile_error_free(error);
  raise(exception);
}

void raise_argument(const std::string& message) {
  static Helper make("tilejit._errors", "argument");
  raise(make.get()(message));
}

void raise_type(const std::string& message) {
  PyErr_SetString(PyExc_TypeError, message.c_str());
  throw nb::python_error();
}

const char* c_text(const std::string& text, const char* what) {
  size_t at = text.find('\0');
  if (at == std::string::npos) return text.c_str();
  raise_argument(std::string(what) + " has a NUL character at " + std::to_string(at) +
                 ", where the library's texts end");
}

int interrupted(void* log) {
  if (watch.raised || is_too_late()) return 1;
  Clock::time_point now = Clock::now();
  if (now - watch.asked < kBetweenSignals) return 0;
  watch.asked = now;
  if (PyThread_get_thread_ident() != main_thread) return 0;
  nb::gil_scoped_acquire gil;
  static_cast<LogQueue*>(log)->drain();
  watch.raised = PyErr_CheckSignals() != 0;  // its exception stays set for check()
  return watch.raised ? 1 : 0;
}

}  // namespace tilejit
