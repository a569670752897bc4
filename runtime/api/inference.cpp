// What a program's outputs are, before anything is compiled: as expressions over the inputs' sizes,
// and for given inputs.
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/passes/bind/bind.h"
#include "core/passes/bind/symbolic_shapes.h"
#include "runtime/api/handles.h"
#include "runtime/engine/launch/dlpack_types.h"

using namespace tile;
using namespace tile::api;
using Json = nlohmann::ordered_json;

struct tile_inference {
  std::vector<LiveExecutable::Output> outputs;
};

namespace {

const char* spelling(ExprKind kind) {
  switch (kind) {
    case ExprKind::add:
      return "+";
    case ExprKind::sub:
    case ExprKind::neg:
      return "-";
    case ExprKind::mul:
      return "*";
    case ExprKind::exact_div:
    case ExprKind::trunc_div:
      return "/";
    case ExprKind::trunc_mod:
      return "%";
    case ExprKind::floor_div:
      return "floordiv";
    case ExprKind::floor_mod:
      return "mod";
    case ExprKind::min:
      return "min";
    case ExprKind::max:
      return "max";
    case ExprKind::less:
      return "<";
    case ExprKind::equal:
      return "==";
    case ExprKind::select:
      return "?:";
    case ExprKind::constant:
    case ExprKind::variable:
      break;
  }
  throw InternalError("signature: no operation");
}

Json size_of(const Expr& e) {
  if (e.is_constant()) return e.value();
  if (e.kind() == ExprKind::variable) return e.name();
  Json list = Json::array({spelling(e.kind())});
  for (const Expr& arg : e.args()) list.push_back(size_of(arg));
  return list;
}

Json sizes_of(const std::optional<SymbolicShape>& shape) {
  if (!shape) return nullptr;
  Json list = Json::array();
  for (const Expr& size : *shape) list.push_back(size_of(size));
  return list;
}

Json input_of(const Tensor& input, const std::optional<SymbolicShape>& shape) {
  Json json{{"name", input.name}, {"dims", sizes_of(shape)}, {"type", nullptr}};
  if (input.type) json["type"] = to_string(*input.type);
  if (!input.parameter) return json;
  const RuntimeParameter& parameter = *input.parameter;
  json["type"] = to_string(parameter.type);
  json["default"] = parameter.init;
  if (parameter.min) json["min"] = *parameter.min;
  if (parameter.max) json["max"] = *parameter.max;
  if (!parameter.label.empty()) json["label"] = parameter.label;
  return json;
}

std::string signature_of(const Program& program) {
  IdVector<TensorId, std::optional<SymbolicShape>> shapes = symbolic_shapes(program);
  Json json{{"inputs", Json::array()}, {"outputs", Json::array()}};
  for (TensorId id : program.inputs) {
    json["inputs"].push_back(input_of(program.tensors[id], shapes[id]));
  }
  for (TensorId id : program.outputs) {
    json["outputs"].push_back({{"name", program.tensors[id].name}, {"dims", sizes_of(shapes[id])}});
  }
  // Labels may hold any bytes.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<LiveExecutable::Output> inferred(const LoadedProgram& loaded,
                                             std::span<const TensorView> inputs) {
  std::vector<InputType> types;
  for (InputLayout& layout : loaded.layouts_of(inputs)) types.push_back(std::move(layout.type));
  BoundProgram bound = tile::bind(loaded.program(), types);
  std::vector<LiveExecutable::Output> outputs;
  for (TensorId id : bound.outputs) {
    const BoundTensor& t = bound.tensors[id];
    std::vector<int64_t> strides = dense_strides(t.shape);
    outputs.push_back({t.type, t.shape, std::move(strides), device_of(*loaded.engine())});
  }
  return outputs;
}

}  // namespace

namespace tile::api {

char* duplicate(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

void describe(const LiveExecutable::Output& output, DLTensor& description) {
  description = {};
  description.device = output.device;
  description.ndim = static_cast<int32_t>(output.shape.size());
  description.dtype = dl_type(output.type);
  // DLPack has no const; these belong to the handle and are only read.
  description.shape = const_cast<int64_t*>(output.shape.data());
  description.strides = const_cast<int64_t*>(output.strides.data());
}

}  // namespace tile::api

extern "C" {

tile_error* tile_program_signature(const tile_program* program, char** json) {
  REQUIRE(json);
  *json = nullptr;
  REQUIRE(program);
  return guarded(source_of(program),
                 [&] { *json = duplicate(signature_of(program->loaded->program())); });
}

tile_error* tile_program_infer(tile_program* program, const DLTensor* const* inputs,
                               size_t input_count, tile_inference** inference) {
  REQUIRE(inference);
  *inference = nullptr;
  REQUIRE(program);
  const LoadedProgram& loaded = *program->loaded;
  return timed(source_of(program), *loaded.engine(), Stage::bind, [&] {
    std::vector<TensorView> views = input_views(loaded, inputs, input_count, false);
    auto made = std::make_unique<tile_inference>();
    made->outputs = inferred(loaded, views);
    *inference = made.release();
  });
}

tile_error* tile_inference_output(const tile_inference* inference, size_t i,
                                  DLTensor* description) {
  REQUIRE(inference);
  REQUIRE(description);
  if (i >= inference->outputs.size()) return argument_error("no such output");
  describe(inference->outputs[i], *description);
  return nullptr;
}

void tile_inference_free(tile_inference* inference) { delete inference; }

}  // extern "C"
