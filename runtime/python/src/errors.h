// Errors of the library as Python exceptions, and calls of the library with the interpreter
// released.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>  // without it strings are cast at run time, to nothing

#include <string>

#include "tile/tile.h"

namespace tilejit {

namespace nb = nanobind;

// A function or class of the package's Python half, kept once found.
class Helper {
 public:
  Helper(const char* module, const char* name) : module_(module), name_(name) {}
  nb::handle get();

 private:
  const char* module_;
  const char* name_;
  PyObject* found_ = nullptr;  // for ever: the interpreter may be gone when statics are destroyed
};

// Raises the exception for `error`, which it frees, if there is one; or what a signal handler
// raised meanwhile. Needs the GIL.
void check(tile_error* error);
[[noreturn]] void raise_argument(const std::string& message);
[[noreturn]] void raise_type(const std::string& message);  // TypeError
// As the library takes text, which would end at a NUL character: raises ArgumentError for one.
const char* c_text(const std::string& text, const char* what);

// What engines are given as callback: handles signals where it is asked on the main thread, so that
// Ctrl-C ends long work, and hands on what `log` (a LogQueue) holds. Called without the GIL.
int interrupted(void* log);
// Once, when the module is imported.
void note_main_thread();

// The GIL released while this lives, around a call of the library. When the interpreter ends, calls
// of daemon threads are cancelled and waited for, as the process takes down what they use; the
// threads then stay here: where they took the GIL, Python would unwind them through frames whose
// objects can no longer be released.
class Released {
 public:
  Released();
  ~Released();
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace tilejit
