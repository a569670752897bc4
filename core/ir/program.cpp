#include "core/ir/program.h"

#include <array>

namespace tile {
namespace {

constexpr auto kFunctions = std::to_array<Function>(
    {Function::shape, Function::index, Function::reshape, Function::gather, Function::scatter,
     Function::transpose, Function::concat, Function::slice, Function::argmax, Function::argmin,
     Function::sort, Function::argsort, Function::cumsum, Function::prng_uniform, Function::sum_to,
     Function::reshape_like, Function::unslice, Function::permute_along});

}  // namespace

std::string_view to_string(Aggregation aggregation) {
  switch (aggregation) {
    case Aggregation::sum:
      return "+";
    case Aggregation::product:
      return "*";
    case Aggregation::max:
      return ">";
    case Aggregation::min:
      return "<";
    case Aggregation::assign:
      return "=";
  }
  return "?";
}

std::string_view to_string(Function function) {
  switch (function) {
    case Function::shape:
      return "shape";
    case Function::index:
      return "index";
    case Function::reshape:
      return "reshape";
    case Function::gather:
      return "gather";
    case Function::scatter:
      return "scatter";
    case Function::transpose:
      return "transpose";
    case Function::concat:
      return "concat";
    case Function::slice:
      return "slice";
    case Function::argmax:
      return "argmax";
    case Function::argmin:
      return "argmin";
    case Function::sort:
      return "sort";
    case Function::argsort:
      return "argsort";
    case Function::cumsum:
      return "cumsum";
    case Function::prng_uniform:
      return "prng_uniform";
    case Function::sum_to:
      return "sum_to";
    case Function::reshape_like:
      return "reshape_like";
    case Function::unslice:
      return "unslice";
    case Function::permute_along:
      return "permute_along";
  }
  return "?";
}

std::span<const Function> whole_tensor_functions() { return kFunctions; }

std::optional<Function> find_whole_tensor_function(std::string_view name) {
  for (Function f : kFunctions) {
    if (to_string(f) == name) return f;
  }
  return std::nullopt;
}

std::optional<TensorId> Program::find(std::string_view name) const {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name == name) return static_cast<TensorId>(i);
  }
  return std::nullopt;
}

}  // namespace tile
