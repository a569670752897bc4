// What the tensors of a run are refused for: each error names one by its name and its position, and
// says what was given, what was expected and why.
#include <algorithm>

#include "core/ir/text.h"
#include "runtime/engine/arguments/argument.h"
#include "runtime/engine/constants.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/donations.h"
#include "runtime/engine/launch/shared_memory.h"
#include "runtime/engine/launch/strided_copy.h"

namespace tile {
namespace {

constexpr const char* kAsCompiled =
    "an executable takes what it was compiled for: compile the program for other shapes and types";

[[noreturn]] void refuse(const Argument& argument, const std::string& why,
                         const std::string& hint = "") {
  fail(Stage::run, "argument", {}, text_of(argument) + " " + why, hint);
}

// Host memory serves every engine, a device's memory the engine of that device.
void check_memory(const Engine& engine, const Argument& argument, const TensorView& given) {
  if (given.memory == Memory::host) return;
  std::string what = "is in the memory of GPU " + std::to_string(given.device);
  if (engine.session() == nullptr) {
    refuse(argument, what + ", which this engine does not reach",
           "make the engine with backend cuda");
  }
  if (given.device != engine.ordinal()) {
    std::string own = std::to_string(engine.ordinal()), other = std::to_string(given.device);
    refuse(argument, what + "; this engine runs on GPU " + own,
           "copy it to GPU " + own + ", or make an engine with backend cuda:" + other);
  }
}

// Another input than `i` that has the size, and where: "input B (1)"; empty: none.
std::string other_with(const Program& program, size_t i, const std::string& size) {
  for (size_t other = 0; other < program.inputs.size(); ++other) {
    const Tensor& t = program.tensors[program.inputs[other]];
    bool has = std::any_of(t.dims.begin(), t.dims.end(), [&](const Expr& dim) {
      return dim.kind() == ExprKind::variable && dim.name() == size;
    });
    if (other != i && t.ranked && has) return text_of(input_of(program, other));
  }
  return "";
}

// "K=3 from input B (1)": where the expected sizes of an input come from that are not the given
// ones; empty where the program says nothing of them.
std::string origin_of_sizes(const Program& program, size_t i, const Shape& given,
                            const Shape& expected) {
  if (i >= program.inputs.size()) return "";  // loaded from its saved form
  const Tensor& declared = program.tensors[program.inputs[i]];
  if (!declared.ranked || declared.dims.size() != expected.size()) return "";
  if (given.size() != expected.size()) {
    return declared.name + " is declared with " + std::to_string(expected.size()) + " dimensions";
  }
  std::string why;
  for (size_t d = 0; d < expected.size(); ++d) {
    if (given[d] == expected[d]) continue;
    const Expr& dim = declared.dims[d];
    why += (why.empty() ? "" : ", ") + to_string(dim);
    if (dim.is_constant()) {
      why += " is what the program says";
      continue;
    }
    why += "=" + std::to_string(expected[d]);
    bool named = dim.kind() == ExprKind::variable;
    std::string other = named ? other_with(program, i, dim.name()) : "";
    why += other.empty() ? " when it was compiled" : " from " + other;
  }
  return why;
}

void check_data(const Argument& argument, const TensorView& given, const BoundTensor& expected) {
  if (given.data != nullptr || element_count(expected.shape) == 0) return;
  refuse(argument, "has a null data pointer",
         "give it the memory of " + text_of(expected.type, expected.shape));
}

std::string mismatch(const TensorView& given, const BoundTensor& expected) {
  return "is " + text_of(given.type, given.shape) + ", expected " +
         text_of(expected.type, expected.shape);
}

void check_input(const Executable& e, size_t i, const TensorView& given) {
  const BoundTensor& expected = e.bound.tensors[e.bound.inputs[i]];
  Argument argument = input_of(e.bound, i);
  if (given.type != expected.type || given.shape != expected.shape) {
    std::string why =
        e.source == nullptr ? "" : origin_of_sizes(*e.source, i, given.shape, expected.shape);
    refuse(argument, mismatch(given, expected) + (why.empty() ? "" : ": " + why), kAsCompiled);
  }
  check_data(argument, given, expected);
  check_memory(*e.engine, argument, given);
  if (given.strides != e.inputs[i].strides) {
    auto text = [](const std::vector<int64_t>& strides) {
      return strides.empty() ? "is dense" : "has strides " + print_integers(strides);
    };
    refuse(argument,
           text(given.strides) + "; the executable was compiled for one that " +
               text(e.inputs[i].strides),
           "compile the program for tensors that lie so, or give a copy");
  }
  const std::optional<int64_t>& value = e.inputs[i].type.value;
  if (!value || given.memory != Memory::host) return;
  int64_t now = load_element(static_cast<const std::byte*>(given.data), given.type).i;
  if (now == *value) return;
  refuse(argument,
         "sets a size and is " + std::to_string(now) + ", expected " + std::to_string(*value) +
             ", which the executable was compiled for",
         "compile the program with this value, too");
}

// Of an input declared constant what a run is given, if anything, must be what was declared.
void check_constant(const ConstantInput& constant, const Argument& argument,
                    const TensorView& given, const BoundTensor& expected) {
  if (given.data == nullptr) return;
  bool same =
      given.data == constant.given && given.type == expected.type && given.shape == expected.shape;
  if (same) return;
  refuse(argument, "was declared constant and is another tensor here",
         "leave it out (NULL), or compile for the other tensor");
}

void check_output(const Executable& e, size_t o, const TensorView& given) {
  const BoundTensor& expected = e.output(o);
  Argument argument = output_of(e.bound, o);
  if (given.type != expected.type || given.shape != expected.shape) {
    refuse(argument, mismatch(given, expected) + ", which follows from the inputs",
           "give it the memory of " + text_of(expected.type, expected.shape));
  }
  check_data(argument, given, expected);
  check_memory(*e.engine, argument, given);
  if (!shares_with_itself(given)) return;
  fail(Stage::run, "overlap", {},
       text_of(argument) + " has strides " + print_integers(given.strides) +
           ", with which several of its elements are the same memory",
       "dense strides are " + print_integers(dense_strides(expected.shape)));
}

[[noreturn]] void refuse_overlap(const Argument& output, const Argument& other,
                                 const std::string& why = "") {
  fail(Stage::run, "overlap", {}, text_of(output) + " overlaps " + text_of(other),
       why + "give " + std::string(output.name) + " memory of its own");
}

// An output is in no input's memory, unless that one is donated whole.
void check_overlap(const Executable& e, const Donation& pair, const TensorView& input,
                   const TensorView& output) {
  if (!shares_memory(output, input)) return;
  bool whole = input.data == output.data && input.strides.empty() && output.strides.empty() &&
               byte_count(input) == byte_count(output);
  if (whole && may_donate(e, pair.input, pair.output)) return;
  Argument from = input_of(e.bound, pair.input), to = output_of(e.bound, pair.output);
  std::string why;
  if (whole) {
    why = "elements of " + std::string(from.name) + " may be read after those of " +
          std::string(to.name) + " in their places are written: ";
  }
  refuse_overlap(to, from, why);
}

void check_counts(const BoundProgram& program, size_t inputs, size_t outputs) {
  auto check = [&](const char* kind, size_t given, const std::vector<TensorId>& ids) {
    if (given != ids.size()) refuse_count(kind, names_of(program, ids), given, given);
  };
  check("input", inputs, program.inputs);
  check("output", outputs, program.outputs);
}

}  // namespace

void check_tensors(const Executable& e, std::span<const TensorView> inputs,
                   std::span<const TensorView> outputs) {
  check_counts(e.bound, inputs.size(), outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (const ConstantInput* constant = constant_at(e, i)) {
      check_constant(*constant, input_of(e.bound, i), inputs[i],
                     e.bound.tensors[e.bound.inputs[i]]);
    } else {
      check_input(e, i, inputs[i]);
    }
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    check_output(e, o, outputs[o]);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (constant_at(e, i) == nullptr) check_overlap(e, {i, o}, inputs[i], outputs[o]);
    }
    for (size_t p = 0; p < o; ++p) {
      if (shares_memory(outputs[o], outputs[p])) {
        refuse_overlap(output_of(e.bound, o), output_of(e.bound, p));
      }
    }
  }
}

}  // namespace tile
