#include "program.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "errors.h"

namespace tilejit {
namespace {

constexpr size_t kPlans = 64;
// With more bytes than this a run is long enough to be asked for signals.
constexpr size_t kLong = size_t{1} << 20;

// "out" and "stream" are not inputs.
PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

bool is_text(nb::handle object, PyObject* text) {
  return object.ptr() == text || PyUnicode_Compare(object.ptr(), text) == 0;
}

std::string text_of(nb::handle name) { return nb::cast<std::string>(nb::str(name)); }

// "2: A, B"
std::string listed(const nb::tuple& names) {
  std::string all = std::to_string(nb::len(names));
  for (size_t i = 0; i < nb::len(names); ++i) all += (i == 0 ? ": " : ", ") + text_of(names[i]);
  return all;
}

using OwnedInference = std::unique_ptr<tile_inference, void (*)(tile_inference*)>;

Program::Handle owned(tile_program* handle) { return {handle, tile_program_free}; }

std::vector<const char*> pointers(const std::vector<std::string>& names) {
  std::vector<const char*> result;
  for (const std::string& name : names) result.push_back(c_text(name, "a name"));
  return result;
}

}  // namespace

Plan::~Plan() { tile_executable_free(executable); }

void Plan::add_output(const DLTensor& t) {
  outputs.push_back({std::vector<int64_t>(t.shape, t.shape + t.ndim), t.dtype, t.device});
}

Program::Program(nb::object engine, const std::string& text, std::string language, std::string name)
    : engine_object_(std::move(engine)),
      engine_(nb::cast<const Engine*>(engine_object_)),
      language_(std::move(language)),
      name_(std::move(name)) {
  const char* language_text = c_text(language_, "language");
  const char* name_text = c_text(name_, "name");
  tile_program* handle = nullptr;
  released(*engine_, [&] {
    return tile_program_parse(engine_->get(), language_text, name_text, text.data(), text.size(),
                              &handle);
  });
  program_ = owned(handle);
  describe();
}

Program::Program(const Program& parent, Handle handle, std::string language)
    : engine_object_(parent.engine_object_),
      engine_(parent.engine_),
      program_(std::move(handle)),
      language_(std::move(language)),
      name_(parent.name_),
      own_gradient_(parent.own_gradient_) {
  describe();
  for (size_t i = 0; i < parent.constants_.size(); ++i) {
    if (!parent.is_constant(i)) continue;
    for (size_t own = 0; own < inputs_.size(); ++own) {
      if (inputs_[own].name != parent.inputs_[i].name) continue;
      constants_[own] = parent.constants_[i];
      has_constants_ = true;
    }
  }
}

// What calls need to know of the program.
void Program::describe() {
  nb::object told = signature();
  for (nb::handle input : nb::iter(told["inputs"])) {
    nb::object type = input["type"];
    std::string name = text_of(input["name"]), number = std::to_string(inputs_.size());
    inputs_.push_back({name, type.is_none() ? "" : text_of(type),
                       nb::cast<bool>(input.attr("__contains__")("default")),
                       "input " + name + " (" + number + ")"});
    names_.push_back(nb::steal(interned(inputs_.back().name.c_str())));
  }
  for (nb::handle output : nb::iter(told["outputs"])) {
    std::string number = std::to_string(outputs_.size());
    outputs_.push_back(text_of(output["name"]));
    output_texts_.push_back("output " + outputs_.back() + " (" + number + ")");
  }
  constants_.resize(inputs_.size());
  for (bool defaults : {false, true}) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].has_default == defaults) order_.push_back(i);
    }
  }
}

nb::object taken_json(char* json) {
  nb::str text(json);
  tile_string_free(json);
  static Helper loads("json", "loads");
  return loads.get()(text);
}

nb::object Program::signature() const {
  char* json = nullptr;
  check(tile_program_signature(program_.get(), &json));
  return taken_json(json);
}

nb::object Program::warnings() const {
  char* json = nullptr;
  check(tile_program_warnings(program_.get(), &json));
  return taken_json(json);
}

nb::str Program::text() const { return nb::str(tile_program_text(program_.get())); }

nb::tuple Program::input_names() const {
  nb::list names;
  for (size_t i : order_) {
    if (!is_constant(i)) names.append(names_[i]);
  }
  return nb::tuple(names);
}

nb::tuple Program::output_names() const {
  nb::list names;
  for (const std::string& name : outputs_) names.append(name);
  return nb::tuple(names);
}

nb::dict Program::constants() const {
  nb::dict result;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (is_constant(i)) result[names_[i]] = constants_[i];
  }
  return result;
}

size_t Program::number_of(nb::handle name) const {
  for (size_t i = 0; i < names_.size(); ++i) {
    if (is_text(name, names_[i].ptr())) return i;
  }
  return names_.size();
}

// The arrays may be released only when the program no longer has them.
void Program::forget_constants() {
  std::vector<nb::object> released(constants_.size());
  std::swap(constants_, released);
}

void Program::place(nb::handle args, Inputs& inputs) const {
  auto count = static_cast<size_t>(PyTuple_Size(args.ptr()));
  size_t next = 0;
  for (size_t a = 0; a < count; ++a, ++next) {
    while (next < order_.size() && is_constant(order_[next])) ++next;
    if (next == order_.size()) {
      raise_type(std::to_string(count) + " inputs given, but the program takes " +
                 listed(input_names()));
    }
    nb::handle object(PyTuple_GetItem(args.ptr(), static_cast<Py_ssize_t>(a)));
    size_t i = order_[next];
    if (!object.is_none() || !inputs_[i].has_default) inputs.objects[i] = object;
  }
}

void Program::place_named(nb::handle kwargs, Inputs& inputs) const {
  static PyObject *out = interned("out"), *stream = interned("stream");
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(kwargs.ptr(), &at, &key, &value) != 0) {
    if (is_text(key, out)) {
      if (value != Py_None) inputs.out = value;
      continue;
    }
    if (is_text(key, stream)) {
      if (value != Py_None) inputs.stream = value;
      continue;
    }
    size_t i = number_of(key);
    if (i == inputs_.size()) {
      raise_type("the program has no input " + text_of(key) + "; it takes " +
                 listed(input_names()));
    }
    if (is_constant(i)) raise_type(inputs_[i].text + " is bound");
    if (inputs.objects[i].is_valid()) raise_type(inputs_[i].text + " is given twice");
    inputs.objects[i] = value;
  }
}

void Program::distribute(nb::handle args, nb::handle kwargs, Inputs& inputs) const {
  place(args, inputs);
  if (kwargs.is_valid()) place_named(kwargs, inputs);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs.objects[i].is_valid() || is_constant(i) || inputs_[i].has_default) continue;
    raise_type(inputs_[i].text + " is missing: the program takes " + listed(input_names()));
  }
}

// Layouts as numbers. Strides matter to executables alone, which constants have.
void Program::make_key(const Inputs& inputs, std::vector<int64_t>& key) const {
  key.clear();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const DLTensor* t = inputs.tensors[i];
    if (t == nullptr) {
      key.push_back(-1);
      continue;
    }
    key.push_back(t->dtype.code | t->dtype.bits << 8 | int64_t{t->ndim} << 32);
    key.insert(key.end(), t->shape, t->shape + t->ndim);
    if (inputs_[i].has_default) {  // a parameter's value may set a size
      bool host = t->ndim == 0 && t->device.device_type == kDLCPU && t->data != nullptr;
      int64_t value = 0;
      size_t bytes = std::min<size_t>(t->dtype.bits / 8, sizeof value);
      if (host) std::memcpy(&value, static_cast<char*>(t->data) + t->byte_offset, bytes);
      key.push_back(value);
    }
    bool strided = has_constants_ && t->strides != nullptr;
    if (strided) key.insert(key.end(), t->strides, t->strides + t->ndim);
  }
}

std::shared_ptr<Plan> Program::plan_for(Inputs& inputs) {
  static thread_local std::vector<int64_t> key;
  make_key(inputs, key);
  for (size_t i = 0; i < plans_.size(); ++i) {
    if (plans_[i]->key != key) continue;
    std::rotate(plans_.begin(), plans_.begin() + static_cast<std::ptrdiff_t>(i),
                plans_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return plans_.front();
  }
  std::vector<int64_t> own = key;
  std::shared_ptr<Plan> plan = new_plan(inputs);  // other threads may come in between
  plan->key = std::move(own);
  plans_.insert(plans_.begin(), plan);
  if (plans_.size() > kPlans) plans_.pop_back();
  return plan;
}

// With constants what is inferred would be compiled at once.
std::shared_ptr<Plan> Program::new_plan(Inputs& inputs) {
  auto plan = std::make_shared<Plan>();
  DLTensor description;
  if (has_constants_) {
    plan->executable = compile(inputs);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      check(tile_executable_output(plan->executable, i, &description));
      plan->add_output(description);
    }
    return plan;
  }
  tile_inference* inference = nullptr;
  released(*engine_, [&] {
    return tile_program_infer(program_.get(), inputs.tensors.data(), inputs.tensors.size(),
                              &inference);
  });
  OwnedInference kept(inference, tile_inference_free);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    check(tile_inference_output(inference, i, &description));
    plan->add_output(description);
  }
  return plan;
}

// The tensors of constants are given here alone.
tile_executable* Program::compile(Inputs& inputs) {
  std::vector<size_t> numbers;
  std::vector<const DLTensor*> tensors(inputs.tensors.begin(), inputs.tensors.end());
  auto held = std::make_unique<Argument[]>(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!is_constant(i)) continue;
    held[i].read(constants_[i], inputs_[i]);
    tensors[i] = &held[i].tensor();
    numbers.push_back(i);
  }
  tile_compile_options options{};
  options.struct_size = sizeof options;
  options.constants = numbers.data();
  options.constant_count = numbers.size();
  tile_executable* executable = nullptr;
  released(*engine_, [&] {
    return tile_program_compile_with(program_.get(), tensors.data(), tensors.size(), &options,
                                     &executable);
  });
  return executable;
}

std::shared_ptr<Plan> Program::compiled(nb::handle args, nb::handle kwargs) {
  Inputs inputs(inputs_.size());
  distribute(args, kwargs, inputs);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs.objects[i].is_valid()) continue;
    inputs.arguments[i].layout(inputs.objects[i], inputs_[i]);
    inputs.set(i);
  }
  auto plan = std::make_shared<Plan>();
  plan->executable = compile(inputs);
  DLTensor description;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    check(tile_executable_output(plan->executable, i, &description));
    plan->add_output(description);
  }
  return plan;
}

nb::object Program::infer(nb::handle args, nb::handle kwargs) {
  Inputs inputs(inputs_.size());
  distribute(args, kwargs, inputs);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    nb::handle object = is_constant(i) ? nb::handle(constants_[i]) : inputs.objects[i];
    if (!object.is_valid()) continue;
    inputs.arguments[i].describe(object, inputs_[i]);
    inputs.set(i);
  }
  tile_inference* inference = nullptr;
  released(*engine_, [&] {
    return tile_program_infer(program_.get(), inputs.tensors.data(), inputs.tensors.size(),
                              &inference);
  });
  OwnedInference kept(inference, tile_inference_free);
  static Helper spec("tilejit._support", "Spec");
  nb::list all;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    DLTensor t;
    check(tile_inference_output(inference, i, &t));
    nb::list shape;
    for (int32_t d = 0; d < t.ndim; ++d) shape.append(t.shape[d]);
    all.append(spec.get()(nb::tuple(shape), name_of(t.dtype)));
  }
  return nb::tuple(all);
}

// The stream of the caller's framework where the engine runs on a device; `wait`: where tensors
// come from a framework whose stream is not known.
void* Program::stream_of(const Inputs& inputs, bool& wait) const {
  wait = false;
  if (inputs.stream.is_valid()) {
    void* given = PyLong_AsVoidPtr(inputs.stream.ptr());
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    return given;
  }
  void* stream = nullptr;
  for (size_t i = 0; engine_->on_device() && i < inputs_.size(); ++i) {
    const DLTensor* t = inputs.tensors[i];
    if (t == nullptr || t->device.device_type != kDLCUDA) continue;
    const ExchangeApi* api = inputs.arguments[i].info().exchange;
    wait = wait || api == nullptr;
    bool found = api != nullptr && stream == nullptr;
    if (found) api->current_stream(t->device.device_type, t->device.device_id, &stream);
  }
  return stream;
}

void Program::run(const Plan* plan, const Inputs& inputs, DLTensor* const* outputs,
                  size_t bytes) const {
  bool wait = false;
  void* stream = stream_of(inputs, wait);
  tile_run_options options{};
  options.struct_size = sizeof options;
  options.stream = stream;
  // A run that may be ended early gives a GPU one kernel at a time, and waits for each.
  bool polled = (bytes >= kLong && !engine_->on_device()) || engine_->is_reference();
  if (polled) {
    options.cancel = &interrupted;
    options.cancel_user = &engine_->log();
  }
  const tile_run_options* given = polled || stream != nullptr ? &options : nullptr;
  const DLTensor* const* in = inputs.tensors.data();
  size_t n = inputs.tensors.size(), m = outputs_.size();
  released(*engine_, [&] {
    tile_error* error = plan != nullptr && plan->executable != nullptr
                            ? tile_executable_run(plan->executable, in, n, outputs, m, given)
                            : tile_program_run(program_.get(), in, n, outputs, m, given);
    if (error == nullptr && wait) error = tile_engine_synchronize(engine_->get(), stream);
    return error;
  });
}

namespace {

// Gradients of PyTorch's that were to read what a tensor held notice that it holds something else.
void note_written(nb::handle tensor) {
  static Helper note("tilejit._support", "torch_written");
  note.get()(tensor);
}

}  // namespace

nb::object Program::run_into(const Plan* plan, const Inputs& inputs, size_t bytes) const {
  size_t count = outputs_.size();
  bool several = PyTuple_Check(inputs.out.ptr()) || PyList_Check(inputs.out.ptr());
  // A list may lose its arrays while the GIL is released.
  nb::object out = several ? nb::steal(PySequence_Tuple(inputs.out.ptr())) : nb::borrow(inputs.out);
  if (!out.is_valid()) throw nb::python_error();
  if (several ? nb::len(out) != count : count != 1) {
    raise_type("out= has " + std::string(several ? std::to_string(nb::len(out)) : "one") +
               " arrays, but the program has " + std::to_string(count) + " outputs");
  }
  InlineArray<Argument, 4> written(count);
  InlineArray<DLTensor*, 8> tensors(count);
  for (size_t i = 0; i < count; ++i) {
    nb::object item = several ? nb::object(out[i]) : nb::borrow(out);
    written[i].write(item, output_texts_[i]);
    written[i].refuse_gradient(item);
    tensors[i] = &written[i].tensor();
    bytes += written[i].bytes();
  }
  run(plan, inputs, tensors.data(), bytes);
  for (size_t i = 0; i < count; ++i) {
    if (written[i].info().kind == Kind::torch) note_written(several ? nb::object(out[i]) : out);
  }
  return nb::borrow(inputs.out);
}

namespace {

// Whose kind results have: the first array's.
const Argument* leader(const Inputs& inputs) {
  const Argument* found = nullptr;
  for (size_t i = 0; i < inputs.tensors.size(); ++i) {
    if (inputs.tensors[i] == nullptr) continue;
    Kind kind = inputs.arguments[i].info().kind;
    if (kind != Kind::number && kind != Kind::buffer) return &inputs.arguments[i];
  }
  return found;
}

}  // namespace

nb::object Program::run_new(const Plan& plan, const Inputs& inputs, size_t bytes) const {
  static const TypeInfo kNumpy{Kind::numpy, nullptr};
  const Argument* like = leader(inputs);
  nb::handle object = like == nullptr
                          ? nb::handle()
                          : inputs.objects[static_cast<size_t>(like - inputs.arguments.data())];
  size_t count = outputs_.size();
  InlineArray<Result, 2> results(count);
  InlineArray<DLTensor*, 8> tensors(count);
  for (size_t i = 0; i < count; ++i) {
    const Plan::Output& output = plan.outputs[i];
    DLTensor t{};
    t.device = like == nullptr ? DLDevice{kDLCPU, 0} : like->tensor().device;
    t.ndim = static_cast<int32_t>(output.shape.size());
    t.dtype = output.type;
    t.shape = const_cast<int64_t*>(output.shape.data());
    results[i].allocate(t, like == nullptr ? kNumpy : like->info(), object);
    tensors[i] = results[i].tensor();
  }
  run(&plan, inputs, tensors.data(), bytes);
  if (count == 1) return results[0].object();
  nb::list all;
  for (size_t i = 0; i < count; ++i) all.append(results[i].object());
  return nb::tuple(all);
}

// False: a tensor that is not for an eager caller, who leaves it to PyTorch to say what it is.
bool Program::read_input(Inputs& inputs, size_t i, Caller caller) const {
  Argument& argument = inputs.arguments[i];
  if (caller == Caller::eager) {
    try {
      argument.read(inputs.objects[i], inputs_[i]);
    } catch (nb::python_error& error) {
      if (argument.info().kind != Kind::torch || !error.matches(PyExc_Exception)) throw;
      return false;
    }
    return argument.tensor().device.device_type == kDLCPU;
  }
  argument.read(inputs.objects[i], inputs_[i]);
  if (caller == Caller::anybody) argument.refuse_gradient(inputs.objects[i]);
  return true;
}

nb::object Program::call(nb::handle args, nb::handle kwargs, const std::shared_ptr<Plan>& fixed,
                         Caller caller) {
  Inputs inputs(inputs_.size());
  distribute(args, kwargs, inputs);
  size_t bytes = 0;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs.objects[i].is_valid()) continue;
    if (!read_input(inputs, i, caller)) return nb::borrow(Py_NotImplemented);
    inputs.set(i);
    bytes += inputs.arguments[i].bytes();
  }
  std::shared_ptr<Plan> plan = fixed;
  bool needed = has_constants_ || !inputs.out.is_valid();
  if (plan == nullptr && needed) plan = plan_for(inputs);
  return inputs.out.is_valid() ? run_into(plan.get(), inputs, bytes)
                               : run_new(*plan, inputs, bytes);
}

std::unique_ptr<Program> Program::bound(const nb::kwargs& constants) const {
  auto made = std::make_unique<Program>(*this, program_, language_);
  for (auto [name, value] : constants) {
    size_t i = made->number_of(name);
    if (i == inputs_.size()) raise_type("the program has no input " + text_of(name));
    Argument().read(value, inputs_[i]);  // refuses what is no array
    made->constants_[i] = nb::borrow(value);
    made->has_constants_ = true;
  }
  return made;
}

std::string Program::only_output() const {
  if (outputs_.size() == 1) return outputs_[0];
  raise_type("the program has " + std::to_string(outputs_.size()) + " outputs: name the one");
}

std::unique_ptr<Program> Program::gradient(std::optional<std::string> of,
                                           std::optional<std::vector<std::string>> wrt) const {
  if (!of) of = only_output();
  if (!wrt) {
    wrt.emplace();
    for (const InputDeclaration& input : inputs_) {
      if (!input.has_default) wrt->push_back(input.name);
    }
  }
  std::vector<const char*> names = pointers(*wrt);
  const char* output = c_text(*of, "of");
  tile_program* handle = nullptr;
  released(*engine_, [&] {
    return tile_program_differentiate(program_.get(), output, names.data(), names.size(), &handle);
  });
  return std::make_unique<Program>(*this, owned(handle), "tile");
}

std::unique_ptr<Program> Program::with_gradient(const std::string& of,
                                                const Program& gradient) const {
  const char* output = c_text(of, "of");
  tile_program* handle = nullptr;
  released(*engine_, [&] {
    return tile_program_with_gradient(program_.get(), output, gradient.program_.get(), &handle);
  });
  auto made = std::make_unique<Program>(*this, owned(handle), language_);
  made->own_gradient_ = true;
  return made;
}

std::unique_ptr<Program> Program::with_outputs(const std::vector<std::string>& wanted) const {
  std::vector<const char*> names = pointers(wanted);
  tile_program* handle = nullptr;
  released(*engine_, [&] {
    return tile_program_with_outputs(program_.get(), names.data(), names.size(), &handle);
  });
  return std::make_unique<Program>(*this, owned(handle), language_);
}

}  // namespace tilejit
