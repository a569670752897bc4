#include "tests/random/draw/draft.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "core/language/tile/tile.h"
#include "core/passes/bind/bind.h"

namespace tile::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

Scalar Draft::value(DType type, bool powers) {
  if (type == DType::bool_) return integer_scalar(random.percent(70) ? 1 : 0, type);
  if (options.real_values && is_float(type)) {
    if (random.percent(2)) return real_scalar(std::numeric_limits<double>::quiet_NaN(), type);
    if (random.percent(2)) return real_scalar(random.percent(50) ? kInfinity : -kInfinity, type);
    return real_scalar(random.unit() * 4 - 2, type);
  }
  int64_t size = powers ? random.in(1, 2) : random.percent(8) ? 0 : random.in(1, 3);
  bool negative = !is_unsigned_integer(type) && random.percent(40);
  return integer_scalar(negative ? -size : size, type);
}

Known Draft::input(DType type, const Shape& shape, bool powers) {
  std::string name = "I" + std::to_string(result.inputs.size());
  std::string dims;
  bool ranked = random.percent(80), literal = random.percent(10);
  for (size_t d = 0; d < shape.size(); ++d) {
    std::string dim =
        literal ? std::to_string(shape[d]) : "N" + name.substr(1) + "_" + std::to_string(d);
    dims += (d == 0 ? "" : ", ") + dim;
  }
  declarations_ += (declarations_.empty() ? "" : ", ") + name;
  if (ranked) declarations_ += "[" + dims + "]";
  if (ranked && !literal) declared_.emplace_back(name, shape.size());
  HostTensor tensor(type, shape);
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.set(i, value(type, powers));
  for (int64_t size : shape) {
    if (size == 1) feature("size 1");
    if (size == 0) feature("size 0");
    if (size > 1 && size % 2 == 1) feature("odd size");
  }
  feature("type " + std::string(to_string(type)));
  result.types.push_back({type, shape});
  result.inputs.push_back(std::move(tensor));
  return {name, type, shape, powers ? 2.0 : 3.0, powers};
}

std::string Draft::dimension(const Known& tensor, size_t axis) const {
  bool named = std::any_of(declared_.begin(), declared_.end(), [&](const auto& d) {
    return d.first == tensor.name && axis < d.second;
  });
  if (named) return "N" + tensor.name.substr(1) + "_" + std::to_string(axis);
  return std::to_string(tensor.shape[axis]);
}

DType Draft::another_type(DType type) {
  static const std::vector<DType> kOthers = {DType::bool_, DType::i8,     DType::u8,    DType::i32,
                                             DType::i64,   DType::f16,    DType::bf16,  DType::f32,
                                             DType::f64,   DType::f8e4m3, DType::f8e5m2};
  return random.percent(80) ? type : random.pick(kOthers);
}

void Draft::note_bound(DType type, double bound) {
  double digits = type == DType::f64 ? 0x1p53 : 0x1p24;
  if (is_float(type) && bound > digits) inexact();
}

std::string Draft::program(const std::vector<std::string>& outputs) {
  std::string list;
  for (const std::string& name : outputs) list += (list.empty() ? "" : ", ") + name;
  result.text = "function (" + declarations_ + ") -> (" + list + ") {\n" + statements_ + "}\n";
  return result.text;
}

Known Draft::assign(const std::string& name, const std::string& statement, double bound) {
  statements_ += "  " + statement + ";\n";
  auto source = std::make_shared<const Source>(Source{"random.tile", program({name})});
  try {
    BoundProgram bound_program = tile::bind(parse_tile(source), result.types);
    check_assignments(bound_program);
    const BoundTensor& t = bound_program.tensors[bound_program.outputs[0]];
    if (element_count(t.shape) > (options.large ? 1 << 18 : 1 << 12)) throw Redraw();
    note_bound(t.type, bound);
    if (!options.real_values && is_integer(t.type)) {
      bound = std::min(bound, std::ldexp(1.0, bit_width(t.type)));
    }
    return {name, t.type, t.shape, bound, false};
  } catch (const Failure&) {
    throw Redraw();
  }
}

}  // namespace tile::test
