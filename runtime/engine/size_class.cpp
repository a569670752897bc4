#include "runtime/engine/size_class.h"

#include <algorithm>
#include <map>

#include "core/kernel/canonical.h"
#include "core/passes/bind/bind.h"
#include "core/schedule/space/candidates.h"
#include "core/support/choices.h"
#include "core/support/control.h"
#include "runtime/engine/compile_bound.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/input_strides.h"

namespace tile {
namespace {

bool same_but_extents(const InputLayout& a, const InputLayout& b) {
  return a.type.type == b.type.type && a.type.shape.size() == b.type.shape.size() &&
         a.type.value == b.type.value && a.constant == b.constant && a.strides.empty() &&
         b.strides.empty();
}

}  // namespace

// Extents that were equal and still are count as one size.
std::optional<SizeClass> size_class_of(const std::vector<InputLayout>& first,
                                       const std::vector<InputLayout>& now) {
  if (first.size() != now.size()) return std::nullopt;
  SizeClass found{now, now, {}, {}};
  std::map<std::pair<int64_t, int64_t>, SizeSpan> spans;  // by what it was and what it is
  for (size_t i = 0; i < now.size(); ++i) {
    if (!same_but_extents(first[i], now[i])) return std::nullopt;
    found.key += "\n" + std::to_string(static_cast<int>(now[i].type.type));
    if (now[i].constant) found.key += " constant";
    for (size_t d = 0; d < now[i].type.shape.size(); ++d) {
      int64_t was = first[i].type.shape[d], is = now[i].type.shape[d];
      found.key += " " + std::to_string(was);
      if (was == is) continue;
      if (is < 1) return std::nullopt;
      SizeSpan span = span_of(is);
      spans[{was, is}] = span;
      found.typical[i].type.shape[d] = span.typical;
      found.other[i].type.shape[d] = span.typical - 1;
      found.key += "to" + std::to_string(span.most);
    }
    if (now[i].type.value) found.key += " value " + std::to_string(*now[i].type.value);
  }
  if (spans.empty()) return std::nullopt;
  for (const auto& [size, span] : spans) found.sizes.push_back({span, span.typical - 1});
  return found;
}

namespace {

// nullopt: the program cannot be bound there.
std::optional<BoundProgram> bound_at(const Engine& engine, const Program& program,
                                     const std::vector<InputLayout>& inputs) {
  try {
    BoundProgram bound = tile::bind(program, types_of(inputs));
    check_assignments(bound);
    take_constants(engine, inputs, bound);
    return bound;
  } catch (const Failure&) {
    checkpoint_at({});  // of the time that is over, not of the sizes
    return std::nullopt;
  }
}

}  // namespace

ClassProgram class_program(const Engine& engine, const Program& program, const SizeClass& sizes) {
  std::optional<BoundProgram> typical = bound_at(engine, program, sizes.typical),
                              other = bound_at(engine, program, sizes.other);
  if (!typical || !other) return {};
  return class_program(std::move(*typical), std::move(*other), sizes.sizes, engine.target(),
                       pass_options(engine));
}

ClassProgram::Found class_of(const Executable& e, const Kernel& kernel, const Strides& strides,
                             size_t number) {
  bool dense = std::all_of(kernel.reads.begin(), kernel.reads.end(),
                           [&](TensorId id) { return strides[id].empty(); });
  if (e.own_code) return {};
  if (!dense) return {nullptr, 0, "inputs with strides"};
  if (e.sizes) return e.sizes->step_of(number, kernel);
  std::optional<ClassKernel> found = for_class_of_sizes(kernel, e.engine->target());
  if (!found) return {};
  int64_t extent = found->size;
  return {std::make_shared<const ClassStep>(class_step(std::move(*found))), extent, {}};
}

namespace {

constexpr size_t kScheduleBytes = 2 << 10;
size_t memory_of_schedule(const std::optional<Schedule>& schedule) {
  return schedule ? kScheduleBytes : 0;
}

}  // namespace

SizedSteps steps_of_sizes(Executable& executable, const PassOptions& passes) {
  std::optional<RepeatedChoices> as_its_class;
  if (executable.sizes) as_its_class.emplace(executable.sizes->choices);
  std::vector<TensorId> strided;
  for (size_t i = 0; i < executable.inputs.size(); ++i) {
    if (!executable.inputs[i].strides.empty()) strided.push_back(executable.program.inputs[i]);
  }
  for (size_t o = 0; o < executable.output_strides.size(); ++o) {
    if (!executable.output_strides[o].empty()) strided.push_back(executable.program.outputs[o]);
  }
  const Target& target = executable.engine->target();
  SizedSteps made;
  // Who watches sees all passes.
  if (executable.sizes && !executable.sizes->idle.empty() && passes.observer == nullptr) {
    PassOptions fewer = passes;
    const std::vector<std::string>& idle = executable.sizes->idle;
    fewer.skip.insert(fewer.skip.end(), idle.begin(), idle.end());
    made.steps = steps_of(executable.program, target, fewer, strided);
    if (executable.sizes->is_whole(made.steps, made.found)) return made;
    made.found.clear();
    executable.program = executable.bound;
    take_constants(*executable.engine, executable.inputs, executable.program);
    as_its_class.reset();
    as_its_class.emplace(executable.sizes->choices);
  }
  made.steps = steps_of(executable.program, target, passes, strided);
  return made;
}

std::optional<Schedule> schedule_of(Engine& engine, const ClassStep& of) {
  auto make = [&] { return class_schedule(of.kernel, engine.target()); };
  return *engine.size_classes().schedules.get(of.key, make, memory_of_schedule);
}

Schedule own_schedule(const Executable& e, const Kernel& kernel) {
  Engine& engine = *e.engine;
  auto make = [&] { return std::optional(analytic_schedule(kernel, engine.target())); };
  if (!e.sizes) return *make();
  return **engine.size_classes().schedules.get("own " + key_of(canonical(kernel)), make,
                                               memory_of_schedule);
}

}  // namespace tile
