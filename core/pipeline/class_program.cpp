#include "core/pipeline/class_program.h"

#include <initializer_list>

#include "core/fusion/group.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/narrow_arguments.h"
#include "core/pipeline/pipeline.h"

namespace tile {

std::string key_of(const Kernel& kernel) {
  std::string key = print(kernel) + "\nfixed";
  for (const BoundTensor& t : kernel.tensors) key += t.fixed ? " 1" : " 0";
  return key;
}

namespace {

// Which numbers grow, and how: where two sizes have one typical value, kernels of several classes
// are the same there.
std::string text_of(const DynamicExtent& extent) {
  std::string text;
  auto put = [&](std::initializer_list<size_t> place, const Growth& growth) {
    for (size_t number : place) text += " " + std::to_string(number);
    text += ": " + std::to_string(growth.factor) + " " + std::to_string(growth.offset) + ";";
  };
  text += "\nloops";
  for (const auto& w : extent.walks) {
    put({w.of.stage.index(), w.of.piece, w.iterator.index()}, w.size);
  }
  text += "\ndimensions";
  for (const auto& d : extent.dimensions) put({d.tensor.index(), d.dimension}, d.size);
  text += "\nbounds";
  for (const auto& b : extent.bounds) {
    put({b.of.stage.index(), b.of.piece, b.constraint, b.upper ? size_t{1} : size_t{0}}, b.value);
  }
  text += "\nliterals";
  for (const auto& l : extent.literals) {
    put({l.of.stage.index(), l.of.piece, l.node.index()}, l.value);
  }
  return text;
}

}  // namespace

ClassStep class_step(ClassKernel kernel) {
  const SizeSpan& span = kernel.span;
  std::string key = key_of(kernel.kernel) + text_of(kernel.extent) + "\nfrom " +
                    std::to_string(span.least) + " to " + std::to_string(span.most);
  return {std::move(kernel), std::move(key)};
}

ClassProgram::Found ClassProgram::step_of(size_t number, const Kernel& kernel) const {
  if (number >= steps.size()) return {nullptr, 0, "other kernels at the class's typical size"};
  if (!steps[number]) return {nullptr, 0, why_not[number]};
  std::optional<int64_t> extent = extent_in(steps[number]->kernel, kernel);
  if (!extent) return {nullptr, 0, "another kernel at this size"};
  return {steps[number], *extent, {}};
}

std::vector<Step> steps_of(BoundProgram& program, const Target& target, const PassOptions& passes,
                           const std::vector<TensorId>& strided) {
  run_pipeline(program, target, {.passes = passes, .verified_at_end = choices_are_repeated()});
  std::vector<Step> steps = group(program, target, {.passes = passes});
  auto dense = [&](TensorId id) { return !contains(strided, storage_of(program, id)); };
  auto work = [&] {
    for (Step& step : steps) {
      if (auto* kernel = std::get_if<Kernel>(&step)) narrow_arguments(*kernel, dense);
    }
  };
  run_pass(kNarrowArguments, passes, work, [&] { return print(steps, program); });
  return steps;
}

ClassProgram class_program(BoundProgram typical, BoundProgram other, const AllInstances& sizes,
                           const Target& target, const PassOptions& passes) {
  ClassProgram made;
  std::vector<Step> first, second;
  {
    RecordedChoices record(made.choices);
    first = steps_of(typical, target, passes);
  }
  {
    RepeatedChoices repeat(made.choices);
    second = steps_of(other, target, passes);
  }
  if (first.size() != second.size()) return made;
  for (size_t i = 0; i < first.size(); ++i) {
    made.steps.emplace_back();
    made.why_not.emplace_back();
    const auto *one = std::get_if<Kernel>(&first[i]), *two = std::get_if<Kernel>(&second[i]);
    made.why_not.back() = "no loops";
    if (one == nullptr || two == nullptr) continue;
    ClassFound found = for_instances(*one, *two, target, sizes);
    if (found.kernel) {
      made.steps.back() = std::make_shared<const ClassStep>(class_step(std::move(*found.kernel)));
    }
    made.why_not.back() = std::move(found.why_not);
  }
  return made;
}

size_t memory_of(const ClassProgram& program) {
  constexpr size_t kTimes = 16;  // a kernel takes several times its text
  size_t bytes = sizeof(ClassProgram);
  for (const auto& choice : program.choices.choices) bytes += 2 * choice.question.size() + 64;
  for (const auto& step : program.steps) bytes += step ? kTimes * step->key.size() : 0;
  return bytes;
}

}  // namespace tile
