#include "runtime/engine/launch/input_strides.h"

#include <algorithm>

#include "core/ir/analysis/uses.h"
#include "core/support/checked.h"
#include "runtime/engine/engine.h"

namespace tile {
namespace {

// Dimensions that are walked as one: of several with strides that fit, innermost last.
struct Run {
  int64_t extent = 1, stride = 0;
};
std::vector<Run> runs_of(const Shape& shape, const std::vector<int64_t>& strides) {
  std::vector<Run> runs;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    int64_t walked = 0;
    bool joins = !runs.empty() && !__builtin_mul_overflow(strides[d], shape[d], &walked) &&
                 runs.back().stride == walked;
    if (!joins) runs.push_back({1, 0});
    runs.back() = {runs.back().extent * shape[d], strides[d]};
  }
  return runs;
}

bool has_strides(const std::vector<InputLayout>& inputs) {
  return std::ranges::any_of(inputs, [](const InputLayout& i) { return !i.strides.empty(); });
}

class Reading {
 public:
  explicit Reading(const Executable& e) : p_(e.program), needs_(e.inputs.size(), false) {
    for (size_t i = 0; i < e.inputs.size(); ++i) inputs_.push_back(&e.inputs[i]);
    for (const BoundStatement& s : p_.statements) {
      bool dense = std::holds_alternative<Sort>(s) || std::holds_alternative<BoundRepeat>(s);
      for (TensorId id : read_by(s)) need(id, dense);
    }
    for (TensorId id : p_.outputs) need(id, true);
  }

  bool densified(size_t input) const { return needs_[input]; }
  // Of a tensor that launches are given where the input is; nullopt: its own are none, or fit none.
  std::optional<std::vector<int64_t>> strides(TensorId id) const {
    std::optional<size_t> input = strided_input(id);
    if (!input) return std::nullopt;
    const InputLayout& layout = *inputs_[*input];
    if (!tensor(id).view_of) return layout.strides;
    return strides_in_shape(layout.type.shape, layout.strides, tensor(id).shape);
  }
  std::optional<size_t> strided_input(TensorId id) const {
    auto at = std::find(p_.inputs.begin(), p_.inputs.end(), storage_of(p_, id));
    auto input = static_cast<size_t>(at - p_.inputs.begin());
    if (at == p_.inputs.end() || inputs_[input]->strides.empty()) return std::nullopt;
    return input;
  }

 private:
  const BoundTensor& tensor(TensorId id) const { return p_.tensors[id]; }
  void need(TensorId id, bool dense) {
    std::optional<size_t> input = strided_input(id);
    if (input && (dense || !strides(id))) needs_[*input] = true;
  }

  const BoundProgram& p_;
  std::vector<const InputLayout*> inputs_;
  std::vector<bool> needs_;
};

}  // namespace

std::optional<std::vector<int64_t>> strides_in_shape(const Shape& from,
                                                     const std::vector<int64_t>& strides,
                                                     const Shape& shape) {
  std::vector<Run> runs = runs_of(from, strides);
  std::vector<int64_t> result(shape.size(), 0);
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    if (runs.empty() || runs.back().extent % shape[d] != 0) return std::nullopt;
    Run& run = runs.back();
    result[d] = run.stride;
    run.extent /= shape[d];
    if (run.extent == 1) {
      runs.pop_back();
    } else {
      run.stride = checked_mul(run.stride, shape[d]);
    }
  }
  return result;
}

std::vector<InputType> types_of(const std::vector<InputLayout>& inputs) {
  std::vector<InputType> types;
  for (const InputLayout& layout : inputs) types.push_back(layout.type);
  return types;
}

std::vector<InputLayout> layouts_of_inputs(const BoundProgram& program,
                                           const std::vector<std::vector<int64_t>>& strides) {
  std::vector<InputLayout> inputs;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const BoundTensor& t = program.tensors[program.inputs[i]];
    inputs.push_back({{t.type, t.shape}, i < strides.size() ? strides[i] : std::vector<int64_t>()});
  }
  return inputs;
}

std::vector<size_t> inputs_to_densify(const Executable& executable) {
  if (!has_strides(executable.inputs)) return {};
  Reading reading(executable);
  std::vector<size_t> list;
  for (size_t i = 0; i < executable.inputs.size(); ++i) {
    if (reading.densified(i)) list.push_back(i);
  }
  return list;
}

// Contractions are kernels' own. What is an output twice, or an input too, is copied, and so is
// what comes from a GPU.
void drop_unfit_output_strides(Executable& executable) {
  const BoundProgram& p = executable.program;
  bool on_gpu = is_gpu(executable.engine->target());
  for (size_t o = 0; o < executable.output_strides.size(); ++o) {
    std::vector<int64_t>& strides = executable.output_strides[o];
    if (strides.empty()) continue;
    TensorId id = p.outputs[o];
    size_t named = 0;
    for (TensorId other : p.outputs) named += storage_of(p, other) == storage_of(p, id);
    bool fits = named == 1 && !on_gpu && !p.tensors[id].view_of && !contains(p.inputs, id) &&
                p.tensors[id].shape.size() == strides.size();
    for (const BoundStatement& s : p.statements) {
      bool plain = std::holds_alternative<Contraction>(s);
      if (contains(written_by(s), id)) fits = fits && plain;
      for (TensorId read : read_by(s)) {
        if (storage_of(p, read) == id) fits = fits && plain && read == id;
      }
    }
    if (!fits) strides.clear();
  }
}

Strides strides_of(const Executable& executable) {
  Strides strides(executable.program.tensors.size());
  for (size_t o = 0; o < executable.output_strides.size(); ++o) {
    strides[executable.program.outputs[o]] = executable.output_strides[o];
  }
  if (!has_strides(executable.inputs)) return strides;
  Reading reading(executable);
  for (size_t i = 0; i < strides.size(); ++i) {
    auto id = TensorId(i);
    std::optional<size_t> input = reading.strided_input(id);
    if (!input || reading.densified(*input)) continue;
    // A view that no statement reads may fit none.
    strides[i] = reading.strides(id).value_or(std::vector<int64_t>{});
  }
  return strides;
}

}  // namespace tile
