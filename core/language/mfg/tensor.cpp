// Reads of tensors, plainly and through samplers, and the methods of tensors.
#include <algorithm>

#include "core/language/idioms/mfg_idioms.h"
#include "core/language/mfg/elaborate.h"

namespace tile::mfg {

std::optional<TensorUse> Elaborator::find_tensor(std::string_view name) {
  if (const Binding* local = find_local(name)) {
    const auto* use = std::get_if<TensorUse>(local);
    return use != nullptr ? std::optional(*use) : std::nullopt;
  }
  const Global* global = find_global(name);
  if (global == nullptr) return std::nullopt;
  if (const auto* tensor = std::get_if<TensorInfo>(global)) {
    if (tensor->rank == 0) return std::nullopt;
    TensorUse use;
    use.global = tensor;
    return use;
  }
  const auto* let = std::get_if<GlobalLet>(global);
  bool sampler = let != nullptr && at(let->statement->value).kind == SyntaxKind::sampler;
  if (!sampler) return std::nullopt;
  return std::get<TensorUse>(global_binding(*let, name));
}

TensorUse Elaborator::tensor_named(std::string_view name, Span span) {
  if (std::optional<TensorUse> tensor = find_tensor(name)) return *tensor;
  bool known = find_local(name) != nullptr || find_global(name) != nullptr;
  fail(Stage::parse, known ? "type" : "name", span,
       known ? "expected a tensor, but '" + std::string(name) + "' is none"
             : "unknown tensor '" + std::string(name) + "'",
       known ? "" : "inputs are named input_u8, input_u16, input_f32; functions have no prefix");
}

std::vector<Value> Elaborator::index_values(const TensorUse& tensor, const Syntax& call) {
  std::vector<Value> values = arguments(call);
  if (static_cast<int>(values.size()) != tensor.rank()) {
    fail(Stage::parse, "arity", call.span,
         "expected " + std::to_string(tensor.rank()) +
             (tensor.rank() == 1 ? " index" : " indices") + " of the tensor '" +
             std::string(call.text) + "', found " + std::to_string(values.size()));
  }
  for (const Value& v : values) {
    if (!v.type.tuple) continue;
    fail(Stage::parse, "type", call.span,
         "expected a number as an index of '" + std::string(call.text) + "', found " +
             to_string(v.type),
         "*t puts the components of t in its place");
  }
  return values;
}

std::vector<Ref> Elaborator::integer_indices(const std::vector<Value>& values, const Syntax& call) {
  std::vector<Ref> index;
  for (const Value& v : values) {
    if (!is_integer(v.type.parts[0])) {
      fail(Stage::parse, "type", call.span,
           "expected integer indices of '" + std::string(call.text) + "', found " +
               to_string(v.type),
           "cast with i32(…), or use a sampler with normalised coordinates");
    }
    index.push_back(arithmetic_.convert(v.part(0), DType::i32).ref);
  }
  return index;
}

Value Elaborator::read(const TensorUse& tensor, const Syntax& call) {
  std::vector<Value> values = index_values(tensor, call);
  if (tensor.coordinates == Coordinates::pixel) {
    return read_pixel(tensor, integer_indices(values, call));
  }
  return read_normalized(tensor, values);
}

Value Elaborator::read_pixel(const TensorUse& tensor, const std::vector<Ref>& index) {
  Value value = read_addressed(tensor, index);
  if (tensor.address != AddressMode::border) return value;
  Ref known = inside(tensor, index);
  for (size_t i = 0; i < value.parts.size(); ++i) {
    value.parts[i] = frames_.select(known, value.parts[i], tensor.border->parts[i]);
  }
  return value;
}

// Coordinates over [0, 1]; texel i has its centre at (i + 0.5) / extent.
Value Elaborator::read_normalized(const TensorUse& tensor, const std::vector<Value>& coordinates) {
  std::vector<Ref> low;
  std::vector<Part> fractions;
  bool linear = tensor.coordinates == Coordinates::linear;
  for (size_t d = 0; d < coordinates.size(); ++d) {
    Part u = arithmetic_.widen(coordinates[d].part(0), DType::f32);
    Part size{extent(tensor, static_cast<int>(d)), DType::i32};
    Part position = arithmetic_.promoted_operation(Op::mul, u, size);
    if (linear) {
      position = arithmetic_.promoted_operation(Op::sub, position, arithmetic_.real(0.5));
    }
    Part whole = arithmetic_.operation(Op::floor, position, DType::f32);
    fractions.push_back(arithmetic_.promoted_operation(Op::sub, position, whole));
    low.push_back(arithmetic_.convert(whole, DType::i32).ref);
  }
  return linear ? interpolated(tensor, low, fractions) : read_pixel(tensor, low);
}

// Between 2 texels, or 4; in f32, then cast to the element type.
Value Elaborator::interpolated(const TensorUse& tensor, const std::vector<Ref>& low,
                               const std::vector<Part>& fractions) {
  std::vector<Value> taps;
  size_t count = size_t{1} << low.size();
  for (size_t tap = 0; tap < count; ++tap) {
    std::vector<Ref> index = low;
    for (size_t d = 0; d < low.size(); ++d) {
      if ((tap >> d & 1) == 0) continue;
      index[d] = frames_.operation(Op::add, {low[d], frames_.integer(1)}, DType::i32);
    }
    taps.push_back(to_floats(read_pixel(tensor, index)));
  }
  for (size_t d = 0; d < low.size(); ++d) {
    std::vector<Value> mixed;
    for (size_t i = 0; i + 1 < taps.size(); i += 2) {
      mixed.push_back(arithmetic_.map(
          taps[i], taps[i + 1],
          [&](Part a, Part b) {
            Part step = arithmetic_.promoted_operation(Op::sub, b, a);
            Part part = arithmetic_.promoted_operation(Op::mul, step, fractions[d]);
            return arithmetic_.promoted_operation(Op::add, a, part);
          },
          frames_.span()));
    }
    taps = std::move(mixed);
  }
  std::vector<Part> parts;
  for (size_t i = 0; i < taps[0].parts.size(); ++i) {
    parts.push_back(arithmetic_.convert(taps[0].part(i), tensor.element().parts[i]));
  }
  Value value = tuple_value(parts);
  value.type.tuple = tensor.element().tuple;
  return value;
}

// Indices outside are forced into the range.
Value Elaborator::read_addressed(const TensorUse& tensor, const std::vector<Ref>& index) {
  return tensor.local ? read_local(*tensor.local, index) : read_global(*tensor.global, index);
}

Value Elaborator::read_global(const TensorInfo& tensor, const std::vector<Ref>& index) {
  std::vector<Ref> order(index.rbegin(), index.rend());  // the tensor's dimensions are y, x
  Value value{tensor.element, {}};
  for (size_t i = 0; i < tensor.element.size(); ++i) {
    Frames::AccessKey key;
    key.tensor = tensor.ids.size() == 1 ? tensor.ids[0] : tensor.ids[i];
    bool component = tensor.element.tuple && tensor.ids.size() == 1;
    if (component) key.component = static_cast<int>(i);
    key.rank = tensor.rank;
    Ref element = frames_.load(frames_.access(key), order, tensor.element.parts[i]);
    DType held = compute_type(tensor.element.parts[i]);
    value.parts.push_back(limited(key.tensor, frames_.cast(element, held)));
  }
  return value;
}

// A parameter's value, forced into its declared range, which then bounds indices made of it.
Ref Elaborator::limited(TensorId tensor, Ref value) {
  const auto& parameter = out_.tensors[tensor].parameter;
  if (!parameter) return value;
  DType type = parameter->type;
  auto limit = [&](double at) {
    return is_float(type) ? frames_.real(at) : frames_.integer(static_cast<int64_t>(at));
  };
  if (parameter->min) value = frames_.operation(Op::max, {value, limit(*parameter->min)}, type);
  if (parameter->max) value = frames_.operation(Op::min, {value, limit(*parameter->max)}, type);
  return value;
}

Ref Elaborator::extent(const TensorUse& tensor, int dimension) {
  auto d = static_cast<size_t>(dimension);
  return tensor.local ? frames_.integer(tensor.local->extents[d])
                      : frames_.size(tensor.global->extents[d]);
}

Ref Elaborator::inside(const TensorUse& tensor, const std::vector<Ref>& index) {
  std::optional<Ref> all;
  auto both = [&](Ref condition) {
    all = all ? frames_.operation(Op::logical_and, {*all, condition}, DType::bool_) : condition;
  };
  for (size_t d = 0; d < index.size(); ++d) {
    both(frames_.operation(Op::ge, {index[d], frames_.integer(0)}, DType::bool_));
    Ref size = extent(tensor, static_cast<int>(d));
    both(frames_.operation(Op::lt, {index[d], size}, DType::bool_));
  }
  return *all;
}

Value Elaborator::method(const Syntax& node) {
  TensorUse tensor = tensor_named(node.text, node.span);
  if (node.member == "sum") return tensor_sum(tensor, node);
  if (node.block < 0 && node.member == "extent") return extent_method(tensor, node);
  if (node.block < 0 && node.member == "is_inside") {
    std::vector<Ref> index = integer_indices(index_values(tensor, node), node);
    return scalar_value({frames_.truth(inside(tensor, index)), DType::i32});
  }
  if (node.member == "for_each") {
    fail(Stage::parse, "type", node.span, "expected a value, but for_each returns none",
         "for_each stands on a line of its own");
  }
  fail(Stage::parse, "name", node.span,
       "a tensor has no method '" + std::string(node.member) + "'" +
           (node.block < 0 ? "" : " that takes a block"),
       member_hint(node.member).empty() ? "methods are extent, is_inside, sum and for_each"
                                        : std::string(member_hint(node.member)));
}

// T.extent(d), or T.extent() for all of them.
Value Elaborator::extent_method(const TensorUse& tensor, const Syntax& node) {
  std::vector<Part> parts;
  for (int d = 0; d < tensor.rank(); ++d) parts.push_back({extent(tensor, d), DType::i32});
  std::vector<Value> args = arguments(node);
  if (args.empty()) return parts.size() == 1 ? scalar_value(parts[0]) : tuple_value(parts);
  std::optional<Scalar> which;
  if (args.size() == 1 && !args[0].type.tuple) which = frames_.constant(args[0].parts[0]);
  if (!which || is_float(which->type) || which->i < 0 || which->i >= tensor.rank()) {
    fail(Stage::parse, "type", node.span,
         "expected the number of a dimension, 0" + std::string(tensor.rank() == 2 ? " or 1" : "") +
             ", as the argument of extent");
  }
  return scalar_value(parts[static_cast<size_t>(which->i)]);
}

TensorUse Elaborator::make_sampler(const Syntax& node) {
  TensorUse use = tensor_named(node.text, node.span);
  use.address = AddressMode::none;
  use.coordinates = Coordinates::pixel;
  use.border.reset();
  for (SyntaxId id : node.args) {
    const Syntax& arg = at(id);
    if (arg.kind != SyntaxKind::named) {
      fail(Stage::parse, "syntax", arg.span,
           "expected address=…, coord=… or border_value=… as an argument of sampler");
    }
    const Syntax& value = at(arg.args[0]);
    std::string_view word = value.kind == SyntaxKind::enumerator ? value.text : "";
    if (arg.text == "border_value") {
      use.border = expression(arg.args[0]);
    } else if (arg.text == "address" && word == "None") {
      use.address = AddressMode::none;
    } else if (arg.text == "address" && word == "ClampToEdge") {
      use.address = AddressMode::clamp;
    } else if (arg.text == "address" && word == "ClampToBorderValue") {
      use.address = AddressMode::border;
    } else if (arg.text == "coord" && word == "Pixel") {
      use.coordinates = Coordinates::pixel;
    } else if (arg.text == "coord" && word == "NormalizedNearest") {
      use.coordinates = Coordinates::nearest;
    } else if (arg.text == "coord" && word == "NormalizedLinear") {
      use.coordinates = Coordinates::linear;
    } else {
      fail(Stage::parse, "name", arg.span, "unknown setting of a sampler",
           "address is .None, .ClampToEdge or .ClampToBorderValue; coord is .Pixel, "
           ".NormalizedNearest or .NormalizedLinear");
    }
  }
  if (use.address == AddressMode::border && !use.border) {
    fail(Stage::parse, "arity", node.span, "expected border_value=… with .ClampToBorderValue");
  }
  if (use.border && use.border->type != use.element()) {
    fail(Stage::parse, "type", node.span,
         "expected a border_value of the tensor's element type " + to_string(use.element()) +
             ", found " + to_string(use.border->type));
  }
  return use;
}

}  // namespace tile::mfg
