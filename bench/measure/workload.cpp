#include "bench/measure/workload.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "bench/measure/header.h"
#include "bench/measure/training.h"
#include "core/autodiff/differentiate.h"
#include "core/simplify/expr.h"
#include "runtime/cli/files.h"
#include "runtime/engine/parameters.h"

namespace tile::bench {
namespace {

namespace fs = std::filesystem;

// Only the gradient itself: what of the forward program it does not need is dropped.
Program gradient_only(const Program& program, const Workload& workload) {
  Program derived = differentiate(program, workload.gradient_of, {workload.gradient_input});
  derived.outputs = {derived.outputs.back()};
  derived.output_spans = {derived.output_spans.back()};
  return derived;
}

}  // namespace

std::vector<Case> read_cases(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, error)) {
    if (language_of_suffix(entry.path().string())) files.push_back(entry.path().string());
  }
  if (error || files.empty()) fail(Stage::run, "file", {}, "no workloads in " + folder);
  std::sort(files.begin(), files.end());
  std::vector<Case> cases;
  for (const std::string& file : files) {
    auto source = std::make_shared<Source>(Source{file, cli::read_text(file)});
    for (Case& c : cases_in(source, *language_of_suffix(file))) {
      c.folder = fs::path(file).parent_path().filename().string();
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

std::vector<Case> chosen(const std::vector<Case>& cases, const std::vector<std::string>& names,
                         const std::string& filter) {
  for (const std::string& name : names) {
    bool known =
        std::any_of(cases.begin(), cases.end(), [&](const Case& c) { return c.name == name; });
    if (!known) {
      fail(Stage::run, "argument", {}, "there is no benchmark " + name,
           "tile-bench list names them");
    }
  }
  std::vector<Case> list;
  for (const Case& c : cases) {
    bool named = names.empty() || std::find(names.begin(), names.end(), c.name) != names.end();
    bool found = c.name.find(filter) != std::string::npos || c.folder == filter;
    if (named && found) list.push_back(c);
  }
  return list;
}

std::string default_folder() {
  std::error_code error;
  fs::path program = fs::read_symlink("/proc/self/exe", error);
  fs::path installed = program.parent_path().parent_path() / "share/tile/workloads";
  return !error && fs::is_directory(installed) ? installed.string() : TILE_WORKLOADS;
}

Program program_of(const Case& c) {
  if (c.workload->optimiser) return training_step(*c.workload).program;
  Program program = parse(c.workload->language, c.workload->source);
  return c.workload->gradient_of.empty() ? program : gradient_only(program, *c.workload);
}

std::shared_ptr<LoadedProgram> load(const std::shared_ptr<Engine>& engine, const Case& c) {
  return std::make_shared<LoadedProgram>(engine, std::make_shared<Program>(program_of(c)));
}

std::vector<std::string> input_names(const Program& program, const Case& c) {
  std::vector<std::string> names;
  for (TensorId id : program.inputs) {
    names.push_back(program.tensors[id].name);
  }
  if (!c.workload->gradient_of.empty()) names.back() = "seed";
  return names;
}

namespace {

// The inputs of the program that a training step is of.
std::vector<std::string> forward_inputs(const Workload& workload) {
  std::vector<std::string> names;
  if (!workload.optimiser) return names;
  Program forward = parse(workload.language, workload.source);
  for (TensorId id : forward.inputs) names.push_back(forward.tensors[id].name);
  return names;
}

// `floats`: what it is where the case gives no type.
InputType type_of(const Program& program, const Case& c, size_t input, const std::string& name,
                  DType floats) {
  if (auto it = c.shapes.find(name); it != c.shapes.end()) return it->second;
  const tile::Tensor& declared = program.tensors[program.inputs[input]];
  std::map<std::string, int64_t, std::less<>> sizes;
  for (const auto& [size, value] : c.shapes) {
    if (value.shape.size() == 1) sizes[size] = value.shape.front();
  }
  Shape shape;
  for (const Expr& dim : declared.dims) {
    if (std::optional<int64_t> size = value_at(dim, sizes)) shape.push_back(*size);
  }
  if (!declared.ranked || shape.size() != declared.dims.size()) {
    fail(Stage::run, "file", {}, c.workload->source->name + ": no shape of " + name + " is given",
         "add --shape " + name + "=…, or a line of shapes in the file's header");
  }
  return {floats, shape};
}

}  // namespace

std::vector<InputType> input_types(const Program& program, const Case& c) {
  std::vector<InputType> types;
  InputDefaults defaults = input_defaults(program);
  std::vector<std::string> names = input_names(program, c), forward = forward_inputs(*c.workload);
  for (size_t i = 0; i < names.size(); ++i) {
    bool optimisers = c.workload->optimiser != nullptr &&
                      std::find(forward.begin(), forward.end(), names[i]) == forward.end();
    DType floats = optimisers ? c.workload->optimiser->floats : c.workload->floats;
    bool left_out = defaults[i] && c.shapes.count(names[i]) == 0;
    types.push_back(left_out ? InputType{defaults[i]->type, defaults[i]->shape}
                             : type_of(program, c, i, names[i], floats));
  }
  return types;
}

std::vector<InputLayout> layouts(const LoadedProgram& program, const Case& c) {
  std::vector<InputLayout> list;
  for (InputType& type : input_types(program.program(), c)) list.push_back({std::move(type), {}});
  return list;
}

}  // namespace tile::bench
