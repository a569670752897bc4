// The classes Program and Executable as Python sees them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "errors.h"
#include "program.h"

namespace tilejit {
namespace {

// Calls are a slot of the type, not a method: nothing stands between the interpreter and them.
template <class Call>
PyObject* guarded(const Call& call) noexcept {
  try {
    return call().release().ptr();
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::bad_cast&) {
    PyErr_SetString(PyExc_TypeError, "an argument is of a type that nothing here takes");
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

// What `self` holds, unless `__init__` has not run.
template <class T>
T* made(PyObject* self) {
  if (!nb::inst_ready(self)) raise_type("the object has not been initialized");
  return nb::inst_ptr<T>(self);
}

PyObject* call_program(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&] { return made<Program>(self)->call(args, kwargs, nullptr); });
}

PyObject* call_executable(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    const Executable& e = *made<Executable>(self);
    return nb::inst_ptr<Program>(e.program)->call(args, kwargs, e.plan);
  });
}

PyObject* call_unchecked(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    nb::handle program = made<Unchecked>(self)->program;
    return nb::inst_ptr<Program>(program)->call(args, kwargs, nullptr, Program::Caller::framework);
  });
}

bool is_true(PyObject* object, PyObject* name) {
  nb::object value = nb::steal(PyObject_GetAttr(object, name));
  if (!value.is_valid()) throw nb::python_error();
  return value.ptr() == Py_True;
}

enum class Way : uint8_t { direct, gradients, dispatcher };

Way way_of(const Eager& e, PyObject* args) {
  static PyObject* gradient = PyUnicode_InternFromString("requires_grad");
  static Helper enabled("torch", "is_grad_enabled");
  if (static_cast<size_t>(PyTuple_Size(args)) < e.tensors) return Way::dispatcher;
  bool wanted = false;
  for (size_t i = 0; i < e.tensors; ++i) {
    PyObject* tensor = PyTuple_GetItem(args, static_cast<Py_ssize_t>(i));
    if (!e.knows(Py_TYPE(tensor))) return Way::dispatcher;
    wanted = wanted || is_true(tensor, gradient);
  }
  if (!wanted || !nb::cast<bool>(enabled.get()())) return Way::direct;
  static PyObject* on_cpu = PyUnicode_InternFromString("is_cpu");
  for (size_t i = 0; i < e.tensors; ++i) {
    PyObject* tensor = PyTuple_GetItem(args, static_cast<Py_ssize_t>(i));
    if (!is_true(tensor, on_cpu)) return Way::dispatcher;
  }
  return Way::gradients;
}

// NotImplemented where PyTorch's dispatcher has to see the call; None, which no call gives, where
// its gradients have to.
PyObject* call_eager(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> nb::object {
    const Eager& e = *made<Eager>(self);
    Way way = way_of(e, args);
    if (way == Way::dispatcher) return nb::borrow(Py_NotImplemented);
    if (way == Way::gradients) return nb::none();
    return nb::inst_ptr<Program>(e.program)->call(args, kwargs, nullptr, Program::Caller::eager);
  });
}

// What an object holds of Python's, for the collector of cycles.
void holds(const Program& p, auto visit) { p.visit(visit); }
void holds(const Executable& e, auto visit) { visit(e.program); }
void holds(const Unchecked& u, auto visit) { visit(u.program); }
void holds(const Eager& e, auto visit) {
  visit(e.program);
  visit(e.types);
}

template <class T>
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<PyObject*>(Py_TYPE(self)));
  if (!nb::inst_ready(self)) return 0;
  int result = 0;
  holds(*nb::inst_ptr<T>(self), [&](const nb::object& held) {
    if (result == 0 && held.is_valid()) result = visit(held.ptr(), arg);
  });
  return result;
}

int clear_program(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<Program>(self)->forget_constants();
  return 0;
}

PyType_Slot unchecked_slots[] = {{Py_tp_call, reinterpret_cast<void*>(call_unchecked)},
                                 {Py_tp_traverse, reinterpret_cast<void*>(traverse<Unchecked>)},
                                 {0, nullptr}};
PyType_Slot eager_slots[] = {{Py_tp_call, reinterpret_cast<void*>(call_eager)},
                             {Py_tp_traverse, reinterpret_cast<void*>(traverse<Eager>)},
                             {0, nullptr}};
PyType_Slot program_slots[] = {{Py_tp_call, reinterpret_cast<void*>(call_program)},
                               {Py_tp_traverse, reinterpret_cast<void*>(traverse<Program>)},
                               {Py_tp_clear, reinterpret_cast<void*>(clear_program)},
                               {0, nullptr}};
PyType_Slot executable_slots[] = {{Py_tp_call, reinterpret_cast<void*>(call_executable)},
                                  {Py_tp_traverse, reinterpret_cast<void*>(traverse<Executable>)},
                                  {0, nullptr}};

using Emitter = tile_error* (*)(const tile_executable*, const char*, char**);

nb::str text_from(const Engine& engine, const tile_executable* executable, const char* stage,
                  Emitter emitter) {
  char* text = nullptr;
  released(engine, [&] { return emitter(executable, stage, &text); });
  std::unique_ptr<char, void (*)(char*)> owned(text, tile_string_free);
  return nb::str(text);
}

nb::object explained(const Engine& engine, const tile_executable* executable) {
  Emitter emitter = [](const tile_executable* e, const char*, char** text) {
    return tile_executable_explain(e, text);
  };
  static Helper make("tilejit._support", "Explanation");
  return make.get()(text_from(engine, executable, nullptr, emitter));
}

void tune(const Engine& engine, tile_executable* executable, double seconds) {
  released(engine, [&] { return tile_executable_tune(executable, 1000 * seconds); });
}

nb::tuple spec_of(const Plan& plan) {
  static Helper spec("tilejit._support", "Spec");
  nb::list all;
  for (const Plan::Output& output : plan.outputs) {
    nb::list shape;
    for (int64_t size : output.shape) shape.append(size);
    all.append(spec.get()(nb::tuple(shape), name_of(output.type)));
  }
  return nb::tuple(all);
}

const Engine& engine_of(const Executable& e) { return nb::cast<Program*>(e.program)->engine(); }

// Arguments of a wrong type are refused in words: nanobind's own error is a table of signatures.
std::string text_argument(nb::handle value, const char* what) {
  static Helper check("tilejit._support", "text_argument");
  return nb::cast<std::string>(check.get()(value, what));
}

using Names = std::vector<std::string>;
Names names_argument(nb::handle value, const char* what) {
  static Helper check("tilejit._support", "names_argument");
  return nb::cast<Names>(check.get()(value, what));
}

double number_argument(nb::handle value, const char* what) {
  static Helper check("tilejit._support", "number_argument");
  return nb::cast<double>(check.get()(value, what));
}

void bind_properties(nb::class_<Program>& cls) {
  cls.def_prop_ro("engine", &Program::engine_object, "The engine that compiles and runs it.")
      .def_prop_ro("handle", &Program::handle,
                   "The address of the C interface's tile_program, valid while this object lives.")
      .def_prop_ro("language", &Program::language, "\"tile\", \"mfg\" or \"lift\".")
      .def_prop_ro("name", &Program::name, "What errors call the text.")
      .def_prop_ro("text", &Program::text, "The program as text of its language.")
      .def_prop_ro("inputs", &Program::input_names,
                   "The names of the inputs in the order of a call; those with defaults come last.")
      .def_prop_ro("outputs", &Program::output_names, "The names of the outputs.")
      .def_prop_ro("signature", &Program::signature,
                   "Inputs and outputs with their sizes, types and defaults, before any size is "
                   "known.")
      .def_prop_ro("warnings", &Program::warnings,
                   "What the text alone shows to be valid but surely not meant: a list of dicts.")
      .def_prop_ro("constants", &Program::constants, "The arrays that bind() has fixed, by name.");
}

void bind_derived(nb::class_<Program>& cls) {
  cls.def("bind", &Program::bound, nb::arg("constants"),
          "The program in which the inputs named stay the same: they are copied once for each "
          "layout of the others.")
      .def(
          "grad",
          [](const Program& self, nb::object of, nb::object wrt) {
            std::optional<std::string> output;
            std::optional<Names> inputs;
            if (!of.is_none()) output = text_argument(of, "grad: of");
            if (!wrt.is_none()) inputs = names_argument(wrt, "grad: wrt");
            return self.gradient(std::move(output), std::move(inputs));
          },
          nb::arg("of") = nb::none(), nb::arg("wrt") = nb::none(),
          "The program that also gives the gradients of output `of` by the inputs `wrt`; its last "
          "input is the gradient of that output.")
      .def(
          "with_gradient",
          [](const Program& self, nb::object of, nb::object gradient) {
            static Helper check("tilejit._support", "program_argument");
            nb::object program = check.get()(gradient, "with_gradient: gradient");
            return self.with_gradient(text_argument(of, "with_gradient: of"),
                                      *nb::cast<const Program*>(program));
          },
          nb::arg("of").none(), nb::arg("gradient").none(),
          "The program whose gradient of output `of` is the program `gradient`.")
      .def(
          "with_outputs",
          [](const Program& self, nb::args names) {
            return self.with_outputs(names_argument(names, "with_outputs: the names"));
          },
          nb::arg("names"),
          "The program with these outputs alone; what they do not need is not computed.");
}

// Inputs of these may be described by anything with a shape and an element type.
void bind_compilation(nb::class_<Program>& cls) {
  cls.def(
         "infer",
         [](Program& self, nb::args args, nb::kwargs kwargs) { return self.infer(args, kwargs); },
         nb::arg("inputs"), nb::arg("named"),
         "Shapes and element types of the outputs for such inputs, without compiling.")
      .def(
          "compile",
          [](nb::handle_t<Program> self, nb::args args, nb::kwargs kwargs) {
            Program* program = nb::cast<Program*>(self);
            return Executable{nb::borrow(self), program->compiled(args, kwargs)};
          },
          nb::arg("inputs"), nb::arg("named"),
          "The executable for inputs of such shapes, types and layouts.")
      .def(
          "tune",
          [](nb::handle_t<Program> self, nb::args args, nb::object duration, nb::kwargs kwargs) {
            double seconds = number_argument(duration, "tune: seconds");
            Program* program = nb::cast<Program*>(self);
            std::shared_ptr<Plan> plan = program->compiled(args, kwargs);
            tune(program->engine(), plan->executable, seconds);
            return Executable{nb::borrow(self), std::move(plan)};
          },
          nb::arg("inputs"), nb::arg("seconds").none() = 1.0, nb::arg("named"),
          "Races schedules for such inputs; the winners are kept on disk.");
}

void bind_inspection(nb::class_<Program>& cls) {
  cls.def(
         "explain",
         [](Program& self, nb::args args, nb::kwargs kwargs) {
           std::shared_ptr<Plan> plan = self.compiled(args, kwargs);
           return explained(self.engine(), plan->executable);
         },
         nb::arg("inputs"), nb::arg("named"), "What each kernel became for such inputs, and why.")
      .def(
          "emit",
          [](Program& self, nb::object stage, nb::args args, nb::kwargs kwargs) {
            std::string name = text_argument(stage, "emit: the stage");
            std::shared_ptr<Plan> plan = self.compiled(args, kwargs);
            return text_from(self.engine(), plan->executable, c_text(name, "stage"),
                             tile_executable_emit);
          },
          nb::arg("stage").none(), nb::arg("inputs"), nb::arg("named"),
          "The text of a stage: program, bound, reduced, kernels, schedule, nest, llvm or asm.");
}

void bind_unchecked(nb::module_& module) {
  nb::class_<Unchecked>(module, "Unchecked", nb::type_slots(unchecked_slots),
                        "A program called by what takes care of gradients itself.")
      .def(
          "__init__",
          [](Unchecked* self, nb::handle_t<Program> program) {
            new (self) Unchecked{nb::borrow(program)};
          },
          nb::arg("program"));
  nb::class_<Eager>(module, "Eager", nb::type_slots(eager_slots),
                    "A program called on PyTorch's tensors where neither its dispatcher nor its "
                    "gradients have to see the call; gives NotImplemented where the dispatcher has "
                    "to, None where gradients have to.")
      .def(
          "__init__",
          [](Eager* self, nb::handle_t<Program> program, size_t tensors, nb::tuple types) {
            std::vector<PyTypeObject*> known;
            for (nb::handle type : types)
              known.push_back(reinterpret_cast<PyTypeObject*>(type.ptr()));
            new (self) Eager{nb::borrow(program), tensors, std::move(types), std::move(known)};
          },
          nb::arg("program"), nb::arg("tensors"), nb::arg("types"));
}

}  // namespace

void bind_program(nb::module_& module) {
  nb::class_<Program> program(
      module, "Program", nb::type_slots(program_slots), nb::is_weak_referenceable(),
      "A program of one of the languages, called with arrays; tilejit.program() makes them.");
  program.def(nb::init<nb::object, const std::string&, std::string, std::string>(),
              nb::arg("engine"), nb::arg("text"), nb::arg("language"), nb::arg("name"));
  bind_properties(program);
  bind_derived(program);
  bind_compilation(program);
  bind_inspection(program);
  program
      .def("__reduce__",
           [](const Program& self) {
             static Helper reduce("tilejit._support", "reduce_program");
             return nb::object(reduce.get()(self.text(), self.language(), self.name(),
                                            self.engine().backend(), self.constants(),
                                            self.has_own_gradient()));
           })
      .def("__repr__", [](const Program& self) {
        static Helper represent("tilejit._support", "represent");
        return nb::object(
            represent.get()(self.input_names(), self.output_names(), self.language(), self.name()));
      });
}

void bind_executable(nb::module_& module) {
  nb::class_<Executable>(
      module, "Executable", nb::type_slots(executable_slots),
      "A program compiled for inputs of one layout; called as the program is, with such inputs.")
      .def_ro("program", &Executable::program, "The program that was compiled.")
      .def_prop_ro(
          "outputs", [](const Executable& e) { return spec_of(*e.plan); },
          "Shapes and element types of the outputs.")
      .def_prop_ro(
          "warnings",
          [](const Executable& e) {
            char* json = nullptr;
            check(tile_executable_warnings(e.plan->executable, &json));
            return taken_json(json);
          },
          "What is valid for these shapes but surely not meant: a list of dicts.")
      .def(
          "explain",
          [](const Executable& e) { return explained(engine_of(e), e.plan->executable); },
          "What each kernel became, and why.")
      .def(
          "emit",
          [](const Executable& e, nb::object stage) {
            std::string name = text_argument(stage, "emit: the stage");
            return text_from(engine_of(e), e.plan->executable, c_text(name, "stage"),
                             tile_executable_emit);
          },
          nb::arg("stage").none(),
          "The text of a stage: program, bound, reduced, kernels, schedule, nest, llvm or asm.")
      .def(
          "tune",
          [](nb::handle_t<Executable> self, nb::object duration) {
            double seconds = number_argument(duration, "tune: seconds");
            const Executable& e = *nb::cast<Executable*>(self);
            tune(engine_of(e), e.plan->executable, seconds);
            return nb::borrow(self);
          },
          nb::arg("seconds").none() = 1.0, "Races schedules; the winners are kept on disk.")
      .def("__repr__", [](const Executable& e) {
        return "<tilejit.Executable of " + nb::cast<std::string>(nb::repr(e.program)) + ">";
      });
  bind_unchecked(module);
}

}  // namespace tilejit
