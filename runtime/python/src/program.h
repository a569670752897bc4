// Programs that are called with arrays.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine.h"
#include "inline_array.h"
#include "tensors.h"
#include "tile/tile.h"

namespace tilejit {

// The object that a text of JSON is; frees the text.
nb::object taken_json(char* json);

// What a program's outputs are for inputs of one layout; with constants also their executable.
struct Plan {
  ~Plan();
  void add_output(const DLTensor& description);

  struct Output {
    std::vector<int64_t> shape;
    DLDataType type;
    DLDevice device;
  };
  std::vector<int64_t> key;
  std::vector<Output> outputs;
  tile_executable* executable = nullptr;
};

// The inputs of a call, in the order of the program.
struct Inputs {
  explicit Inputs(size_t count) : objects(count), arguments(count), tensors(count) {
    for (const DLTensor*& tensor : tensors) tensor = nullptr;
  }
  void set(size_t i) { tensors[i] = &arguments[i].tensor(); }

  InlineArray<nb::handle, 8> objects;  // null: left out
  InlineArray<Argument, 4> arguments;
  InlineArray<const DLTensor*, 8> tensors;  // null: left out
  nb::handle out, stream;
};

class Program {
 public:
  Program(nb::object engine, const std::string& text, std::string language, std::string name);
  using Handle = std::shared_ptr<tile_program>;
  // Another program made of `parent`; constants stay where the names are.
  Program(const Program& parent, Handle handle, std::string language);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Who makes a call: anybody, who is refused tensors that require grad; what takes care of
  // gradients itself; or that for PyTorch's tensors in host memory, which is given NotImplemented
  // where one is of another kind.
  enum class Caller : uint8_t { anybody, framework, eager };
  // `fixed`: the plan of an executable, or null.
  nb::object call(nb::handle args, nb::handle kwargs, const std::shared_ptr<Plan>& fixed,
                  Caller caller = Caller::anybody);
  std::unique_ptr<Program> bound(const nb::kwargs& constants) const;
  // Of the only output where `of` is left out; of all inputs without a default where `wrt` is.
  std::unique_ptr<Program> gradient(std::optional<std::string> of,
                                    std::optional<std::vector<std::string>> wrt) const;
  std::unique_ptr<Program> with_gradient(const std::string& of, const Program& gradient) const;
  std::unique_ptr<Program> with_outputs(const std::vector<std::string>& names) const;
  nb::object infer(nb::handle args, nb::handle kwargs);
  // An executable for such inputs: arrays, or anything with a shape and an element type.
  std::shared_ptr<Plan> compiled(nb::handle args, nb::handle kwargs);

  const Engine& engine() const { return *engine_; }
  nb::object engine_object() const { return engine_object_; }
  // The tile_program*, for modules that call it without Python; valid while this lives.
  uintptr_t handle() const { return reinterpret_cast<uintptr_t>(program_.get()); }
  const std::string& language() const { return language_; }
  const std::string& name() const { return name_; }
  nb::str text() const;
  nb::tuple input_names() const;
  nb::tuple output_names() const;
  nb::object signature() const;
  nb::object warnings() const;
  nb::dict constants() const;
  bool has_own_gradient() const { return own_gradient_; }
  // Calls `visit` for each object of Python's that this holds.
  void visit(auto visit) const {
    visit(engine_object_);
    for (const nb::object& constant : constants_) visit(constant);
  }
  // Of a program that nothing can reach any more.
  void forget_constants();
  std::string only_output() const;

 private:
  void describe();
  bool is_constant(size_t i) const { return i < constants_.size() && constants_[i].is_valid(); }
  size_t number_of(nb::handle name) const;
  bool read_input(Inputs& inputs, size_t i, Caller caller) const;
  void distribute(nb::handle args, nb::handle kwargs, Inputs& inputs) const;
  void place(nb::handle args, Inputs& inputs) const;
  void place_named(nb::handle kwargs, Inputs& inputs) const;
  void make_key(const Inputs& inputs, std::vector<int64_t>& key) const;
  std::shared_ptr<Plan> plan_for(Inputs& inputs);
  std::shared_ptr<Plan> new_plan(Inputs& inputs);
  tile_executable* compile(Inputs& inputs);
  void run(const Plan* plan, const Inputs& inputs, DLTensor* const* outputs, size_t bytes) const;
  nb::object run_into(const Plan* plan, const Inputs& inputs, size_t bytes) const;
  nb::object run_new(const Plan& plan, const Inputs& inputs, size_t bytes) const;
  void* stream_of(const Inputs& inputs, bool& wait) const;

  nb::object engine_object_;
  const Engine* engine_ = nullptr;
  Handle program_;
  std::string language_, name_;
  bool own_gradient_ = false;
  bool has_constants_ = false;
  std::vector<InputDeclaration> inputs_;
  std::vector<nb::object> names_;  // of the inputs, interned
  std::vector<size_t> order_;      // of positional arguments: those without defaults first
  std::vector<std::string> outputs_;
  std::vector<std::string> output_texts_;     // "output O (0)"
  std::vector<nb::object> constants_;         // by input; empty or without elements: none
  std::vector<std::shared_ptr<Plan>> plans_;  // the latest first
};

// A program compiled for inputs of one layout.
struct Executable {
  nb::object program;
  std::shared_ptr<Plan> plan;
};

// A program called by what takes care of gradients itself.
struct Unchecked {
  nb::object program;
};

// A program called on PyTorch's tensors where neither its dispatcher nor its gradients have to see
// it: the first `tensors` arguments are of one of `types`, in host memory, and want no gradient.
struct Eager {
  bool knows(const PyTypeObject* type) const {
    return std::find(known.begin(), known.end(), type) != known.end();
  }

  nb::object program;
  size_t tensors;
  nb::tuple types;
  std::vector<PyTypeObject*> known;  // what `types` holds
};

void bind_program(nb::module_& module);
void bind_executable(nb::module_& module);

}  // namespace tilejit
