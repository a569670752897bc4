#include "runtime/engine/parameters.h"

#include <cmath>
#include <cstdlib>
#include <sstream>

namespace tile {
namespace {

[[noreturn]] void refuse(const Tensor& parameter, const std::string& why) {
  fail(Stage::run, "argument", {}, "the parameter " + parameter.name + " " + why);
}

std::string short_text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

}  // namespace

std::optional<Scalar> given_element(double number, DType type) {
  Scalar held = real_scalar(number, type);
  bool changed = !is_float(type) && convert(held, DType::f64).f != number;
  return changed ? std::nullopt : std::optional(held);
}

HostTensor parameter_value(const Tensor& parameter, const std::vector<double>& components) {
  const RuntimeParameter& p = parameter.parameter.value();
  if (components.size() != p.init.size()) {
    refuse(parameter, "has " + std::to_string(p.init.size()) + " components, but " +
                          std::to_string(components.size()) + " are given");
  }
  bool vector = p.init.size() > 1 || !parameter.dims.empty();
  HostTensor value(p.type, vector ? Shape{static_cast<int64_t>(p.init.size())} : Shape{});
  for (size_t c = 0; c < components.size(); ++c) {
    double given = components[c];
    std::optional<Scalar> element = given_element(given, p.type);
    if (!element) {
      refuse(parameter,
             "is " + short_text(given) + ", but holds " + std::string(to_string(p.type)));
    }
    if ((p.min || p.max) && std::isnan(given)) refuse(parameter, "is no number");
    bool below = p.min && given < *p.min, above = p.max && given > *p.max;
    if (below || above) {
      refuse(parameter,
             "is " + short_text(given) + ", which is " +
                 (below ? "less than " + short_text(*p.min) : "more than " + short_text(*p.max)));
    }
    value.set(static_cast<int64_t>(c), *element);
  }
  return value;
}

HostTensor parameter_value(const Tensor& parameter, const std::string& text) {
  std::vector<double> components;
  std::stringstream stream(text);
  std::string part;
  while (std::getline(stream, part, ',')) {
    char* end = nullptr;
    components.push_back(std::strtod(part.c_str(), &end));
    if (part.empty() || *end != '\0') refuse(parameter, "is \"" + text + "\", which is no number");
  }
  return parameter_value(parameter, components);
}

InputDefaults input_defaults(const Program& program) {
  InputDefaults defaults;
  for (TensorId id : program.inputs) {
    const Tensor& input = program.tensors[id];
    defaults.emplace_back();
    if (input.parameter) defaults.back() = parameter_value(input, input.parameter->init);
  }
  return defaults;
}

}  // namespace tile
