// The extension module tilejit._core: the C interface as Python classes.
#include <nanobind/nanobind.h>

#include <exception>
#include <typeinfo>

#include "engine.h"
#include "errors.h"
#include "program.h"

NB_MODULE(_core, module) {
  // What a host keeps in globals when it ends is no leak that its users could mend.
  nanobind::set_leak_warnings(false);
  tilejit::note_main_thread();
  nanobind::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_cast&) {
      PyErr_SetString(PyExc_TypeError, "an argument is of a type that nothing here takes");
    }
  });
  module.doc() = "The C interface of Tile JIT as Python classes.";
  module.def(
      "version", [] { return tile_version(); },
      "The version of the library: 10000 times the major, 100 times the minor, and the patch.");
  tilejit::bind_engine(module);
  tilejit::bind_program(module);
  tilejit::bind_executable(module);
}
