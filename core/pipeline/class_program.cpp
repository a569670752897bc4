#include "core/pipeline/class_program.h"

#include <algorithm>
#include <initializer_list>

#include "core/fusion/group.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/alike.h"
#include "core/kernel/canonical.h"
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

bool ClassProgram::is_whole(const std::vector<Step>& now, std::vector<Found>& found) const {
  found.assign(now.size(), {});
  if (now.size() != steps.size()) return false;
  for (size_t i = 0; i < now.size(); ++i) {
    const auto* kernel = std::get_if<Kernel>(&now[i]);
    if (kernel == nullptr) {
      if (steps[i] || fixed[i]) return false;
      continue;
    }
    found[i] = step_of(i, *kernel);
    if (!found[i].step && !(fixed[i] && alike(*fixed[i], *kernel))) return false;
  }
  return true;
}

namespace {

// Which optional passes leave a program and its steps as they were.
class IdlePasses final : public PassObserver {
 public:
  explicit IdlePasses(const BoundProgram& program) : last_(print(program)) {}
  void ends(const PassInfo& pass, const PassText& text) override {
    std::string now = text ? text() : "";
    if (pass.optional && now == last_) names_.emplace_back(pass.name);
    last_ = std::move(now);
  }
  bool has(const std::string& name) const {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::string last_;
  std::vector<std::string> names_;
};

}  // namespace

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
  IdlePasses idle(typical), idle_at_other(other);
  auto watched = [&](IdlePasses& by) { return PassOptions{passes.skip, &by, passes.verify_each}; };
  {
    RecordedChoices record(made.choices);
    first = steps_of(typical, target, watched(idle));
  }
  {
    RepeatedChoices repeat(made.choices);
    second = steps_of(other, target, watched(idle_at_other));
  }
  if (first.size() != second.size()) return made;
  bool all_known = true;
  for (size_t i = 0; i < first.size(); ++i) {
    made.steps.emplace_back();
    made.why_not.emplace_back();
    made.fixed.emplace_back();
    const auto *one = std::get_if<Kernel>(&first[i]), *two = std::get_if<Kernel>(&second[i]);
    made.why_not.back() = "no loops";
    if (one == nullptr || two == nullptr) {
      all_known = all_known && first[i].index() == second[i].index();
      continue;
    }
    ClassFound found = for_instances(*one, *two, target, sizes);
    if (found.kernel) {
      made.steps.back() = std::make_shared<const ClassStep>(class_step(std::move(*found.kernel)));
    } else if (Kernel same = canonical(*one); alike(same, canonical(*two))) {
      made.fixed.back() = std::make_shared<const Kernel>(std::move(same));
    } else {
      all_known = false;
    }
    made.why_not.back() = std::move(found.why_not);
  }
  for (const std::string& name : idle.names()) {
    if (all_known && idle_at_other.has(name)) made.idle.push_back(name);
  }
  return made;
}

size_t memory_of(const ClassProgram& program) {
  constexpr size_t kTimes = 16;  // a kernel takes several times its text
  size_t bytes = sizeof(ClassProgram);
  for (const auto& choice : program.choices.choices) bytes += 2 * choice.question.size() + 64;
  for (const auto& step : program.steps) bytes += step ? kTimes * step->key.size() : 0;
  for (const auto& kernel : program.fixed) bytes += kernel ? kTimes * print(*kernel).size() : 0;
  return bytes;
}

}  // namespace tile
