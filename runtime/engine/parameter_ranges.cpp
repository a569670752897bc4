#include "runtime/engine/parameter_ranges.h"

#include <sstream>
#include <string>

#include "runtime/engine/engine.h"

namespace tile {
namespace {

std::string short_text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

double element_at(const void* data, DType type, int64_t i) {
  const auto* bytes = static_cast<const std::byte*>(data);
  return convert(load_element(bytes + i * static_cast<int64_t>(byte_size(type)), type), DType::f64)
      .f;
}

// As the program forces it: a bound of an integer is cut to one. NaN stays what it is.
double forced(double value, const RuntimeParameter& p) {
  auto bound = [&](double at) { return convert(real_scalar(at, p.type), DType::f64).f; };
  if (p.min && value < bound(*p.min)) value = bound(*p.min);
  if (p.max && value > bound(*p.max)) value = bound(*p.max);
  return value;
}

std::string range_text(const RuntimeParameter& p) {
  if (!p.max) return "at least " + short_text(*p.min);
  if (!p.min) return "at most " + short_text(*p.max);
  return short_text(*p.min) + " to " + short_text(*p.max);
}

}  // namespace

ParameterRanges::ParameterRanges(const Program& program) : source_(program.source) {
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Tensor& t = program.tensors[program.inputs[i]];
    if (!t.parameter || (!t.parameter->min && !t.parameter->max)) continue;
    ranged_.push_back({i, *t.parameter, t.name, t.span,
                       std::make_unique<std::atomic<const Diagnostic*>>(nullptr)});
  }
}

ParameterRanges::~ParameterRanges() {
  for (const Ranged& r : ranged_) delete r.told->load();
}

bool ParameterRanges::has_news(void* const* inputs) const {
  for (const Ranged& r : ranged_) {
    for (size_t c = 0; c < r.parameter.init.size(); ++c) {
      double value = element_at(inputs[r.input], r.parameter.type, static_cast<int64_t>(c));
      bool outside = value < forced(value, r.parameter) || value > forced(value, r.parameter);
      if (outside && r.told->load(std::memory_order_acquire) == nullptr) return true;
    }
  }
  return false;
}

void ParameterRanges::look_at(const Engine& engine, std::span<const TensorView> inputs) {
  for (const Ranged& r : ranged_) {
    const TensorView& view = inputs[r.input];
    if (view.data == nullptr || view.memory != Memory::host) continue;
    const RuntimeParameter& p = r.parameter;
    int64_t stride = view.strides.empty() ? 1 : view.strides[0];
    for (int64_t c = 0; c < element_count(view.shape); ++c) {
      double value = element_at(view.data, p.type, c * stride);
      double used = forced(value, p);
      if (!(value < used) && !(value > used)) continue;
      std::string which = p.init.size() > 1 ? "component " + std::to_string(c) + " of " : "";
      tell(engine, r,
           {Stage::run, "range",
            which + "the parameter " + r.name + " is " + short_text(value) +
                ", outside of its range, " + range_text(p) + ": " + short_text(used) + " is used",
            "give a value within the range, or change min and max in the program", r.span,
            Severity::warning});
      break;
    }
  }
}

// The first one to tell keeps the warning.
void ParameterRanges::tell(const Engine& engine, const Ranged& ranged, Diagnostic warning) const {
  if (ranged.told->load(std::memory_order_acquire) != nullptr) return;
  auto made = std::make_unique<const Diagnostic>(std::move(warning));
  const Diagnostic* none = nullptr;
  if (!ranged.told->compare_exchange_strong(none, made.get())) return;
  const Diagnostic& kept = *made.release();
  if (engine.options().log) engine.log(LogLevel::warning, render(kept, *source_));
}

std::vector<Diagnostic> ParameterRanges::warnings() const {
  std::vector<Diagnostic> list;
  for (const Ranged& r : ranged_) {
    if (const Diagnostic* told = r.told->load(std::memory_order_acquire)) list.push_back(*told);
  }
  return list;
}

std::shared_ptr<ParameterRanges> parameter_ranges(const Program& program) {
  for (TensorId id : program.inputs) {
    const std::optional<RuntimeParameter>& p = program.tensors[id].parameter;
    if (p && (p->min || p->max)) return std::make_shared<ParameterRanges>(program);
  }
  return nullptr;
}

}  // namespace tile
