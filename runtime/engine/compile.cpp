// The way from a program to launches: bind, passes, group, schedule, lower, partition, code.
#include <algorithm>
#include <new>

#include "core/fusion/group.h"
#include "core/lower/lower.h"
#include "core/nest/passes/nest_passes.h"
#include "core/passes/bind/bind.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "runtime/engine/cache/executable_record.h"
#include "runtime/engine/concurrency/parallel_for.h"
#include "runtime/engine/constants.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/inspect/program_warnings.h"
#include "runtime/engine/launch/device_run.h"
#include "runtime/engine/launch/input_strides.h"
#include "runtime/engine/launch/memory_plan.h"

namespace tile {
namespace {

std::vector<InputType> types_of(const std::vector<InputLayout>& inputs) {
  std::vector<InputType> types;
  for (const InputLayout& layout : inputs) types.push_back(layout.type);
  return types;
}

// What tuning found earlier on this machine. A record that does not fit is as good as none.
std::optional<Schedule> tuned_schedule(Engine& engine, const Kernel& kernel) {
  const Target& target = engine.target();
  if (engine.options().deterministic) return std::nullopt;
  std::optional<std::string> tuned = engine.kernels().tuned_schedule(kernel, target);
  if (!tuned) return std::nullopt;
  try {
    Schedule schedule = parse_schedule(*tuned);
    std::string why = illegal(schedule, kernel, target);
    if (why.empty()) return schedule;
    engine.log(LogLevel::warning, "tuned schedule of " + kernel.name + " ignored: " + why);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& failure) {  // its text is not of this version, or of nobody's
    engine.log(LogLevel::warning,
               "tuned schedule of " + kernel.name + " ignored: " + failure.what());
  }
  return std::nullopt;
}

std::vector<PrepackedCopy> without_code(std::vector<Prepacking> list, const Target& target) {
  std::vector<PrepackedCopy> copies;
  for (Prepacking& p : list) {
    PrepackedCopy copy;
    copy.source = p.source;
    copy.nest = nest::run_passes(std::move(p.nest), target);
    const nest::Buffer& made = copy.nest.buffers.at(1);
    copy.bytes = static_cast<size_t>(element_count(made.shape)) * byte_size(made.type);
    copies.push_back(std::move(copy));
  }
  return copies;
}

ClassForm class_form(const ClassKernel& kernel, const Schedule& schedule, const Target& target) {
  return {nest::run_passes(lower(kernel, schedule, target), target),
          without_code(prepackings(kernel.kernel, schedule, target), target)};
}

// What the choice and the form of a class depend on.
std::string class_key(const ClassKernel& kernel) {
  std::string key = print(kernel.kernel) + "\nfixed";
  for (const BoundTensor& t : kernel.kernel.tensors) key += t.fixed ? " 1" : " 0";
  return key;
}

// About what they take in memory: a nest some times its text.
constexpr size_t kScheduleBytes = 2 << 10;
size_t memory_of(const ClassForm& form) {
  constexpr size_t kTimes = 8;
  size_t bytes = kTimes * print(form.nest, true).size();
  for (const PrepackedCopy& p : form.prepared) bytes += kTimes * print(p.nest, true).size();
  return bytes;
}

// The kernel for the class of sizes that this one is in, where its schedule serves them all.
bool take_class(const Executable& e, const Kernel& kernel, Launch& launch) {
  Strides strides = strides_of(e);
  bool dense = std::all_of(kernel.reads.begin(), kernel.reads.end(),
                           [&](TensorId id) { return strides[static_cast<size_t>(id)].empty(); });
  const Target& target = e.engine->target();
  std::optional<ClassKernel> found;
  if (dense) found = for_class_of_sizes(kernel, target);
  if (!found) return false;
  SizeClasses& classes = e.engine->size_classes();
  std::string key = class_key(*found);
  auto choices = classes.schedules.get(
      key, [&] { return class_schedules(*found, target); },
      [](const std::vector<Schedule>& all) { return all.size() * kScheduleBytes; });
  if (choices->empty()) return false;
  launch.schedule = best_for_size(*choices, *found, target);
  auto form = classes.forms.get(
      key + "\n" + print(launch.schedule),
      [&] { return class_form(*found, launch.schedule, target); }, memory_of);
  launch.nest = form->nest;
  launch.prepared = form->prepared;
  launch.parameters = {found->size};
  return true;
}

Launch launch_of(Executable& e, const Kernel& kernel) {
  Launch launch;
  launch.kernel = kernel;
  launch.arguments = arguments_of(kernel);
  std::optional<Schedule> tuned = tuned_schedule(*e.engine, kernel);
  if (!tuned && !e.own_code && take_class(e, kernel, launch)) return launch;
  launch.schedule = tuned ? std::move(*tuned) : analytic_schedule(kernel, e.engine->target());
  launch.nest = lowered(e, kernel, launch.schedule);
  launch.prepared = copies_for(e, kernel, launch.schedule);
  return launch;
}
Launch launch_of(Executable&, const Sort& sort) {
  Launch launch;
  launch.sort = sort;
  launch.arguments = {sort.source, sort.result};
  return launch;
}
Launch launch_of(Executable& e, const Scatter& scatter) {
  const Target& target = e.engine->target();
  Launch launch;
  launch.nest =
      nest::run_passes(lower_scatter(scatter, e.program.tensors, target, strides_of(e)), target);
  launch.arguments = {scatter.updates, scatter.indices, scatter.result};
  return launch;
}

// The model counts registers, but only the compiler knows: where its first choice spills, the first
// of the next ones that does not. If all do, the first choice stays.
void drop_spilling(const Executable& e, Launch& launch) {
  constexpr size_t kChoices = 6;
  if (!launch.code || !launch.code->spills() || !launch.kernel || !launch.parameters.empty())
    return;
  for (Schedule& schedule : candidates(*launch.kernel, e.engine->target(), kChoices)) {
    if (schedule == launch.schedule) continue;
    Launch other = launch;
    other.nest = lowered(e, *launch.kernel, schedule);
    other.prepared = copies_for(e, *launch.kernel, schedule);
    other.schedule = std::move(schedule);
    make_code(e, other);
    if (other.code->spills()) continue;
    launch = std::move(other);
    return;
  }
}

void make_codes(Executable& e) {
  parallel_for(e.launches.size(), [&](size_t i) {
    make_code(e, e.launches[i]);
    drop_spilling(e, e.launches[i]);
  });
}

}  // namespace

nest::Nest lowered(const Executable& e, const Kernel& kernel, const Schedule& schedule) {
  const Target& target = e.engine->target();
  return nest::run_passes(lower(kernel, schedule, target, strides_of(e)), target);
}
nest::Nest lowered(const Executable& e, const Kernel& kernel, const SharedForm& form) {
  const Target& target = e.engine->target();
  return nest::run_passes(lower(kernel, form, target, strides_of(e)), target);
}
std::vector<PrepackedCopy> copies_for(const Executable& e, const Kernel& kernel,
                                      const Schedule& schedule) {
  const Target& target = e.engine->target();
  return without_code(prepackings(kernel, schedule, target, strides_of(e)), target);
}

void make_code(const Executable& e, Launch& launch) {
  if (launch.sort) return;
  KernelCache& kernels = e.engine->kernels();
  const Target& target = e.engine->target();
  launch.key = kernels.key_of(launch.nest, target);
  launch.code = kernels.get(launch.key, launch.nest, target);
  for (PrepackedCopy& p : launch.prepared) {
    p.key = kernels.key_of(p.nest, target);
    p.code = kernels.get(p.key, p.nest, target);
  }
}

namespace {

std::shared_ptr<Executable> blank(const std::shared_ptr<Engine>& engine,
                                  const std::shared_ptr<const Program>& program,
                                  const std::vector<InputLayout>& inputs, bool own_code,
                                  std::vector<ConstantInput> constants) {
  auto e = std::make_shared<Executable>();
  e->constants = std::move(constants);
  e->own_code = own_code;
  e->engine = engine;
  e->source = program;
  e->defaults = input_defaults(*program);
  e->inputs = inputs;
  return e;
}

// Where in the program's text a step begins.
Span place_of(const Step& step) {
  if (const auto* kernel = std::get_if<Kernel>(&step)) return kernel->stages[0].contraction.span;
  if (const auto* sort = std::get_if<Sort>(&step)) return sort->span;
  return std::get<Scatter>(step).span;
}

// The whole way from the source to launches.
void compile_stages_of(Executable& e) {
  Engine& engine = *e.engine;
  ++engine.statistics.binds;
  e.bound = tile::bind(*e.source, types_of(e.inputs));
  check_assignments(e.bound);
  e.program = e.bound;
  if (engine.is_reference()) return check_memory_limit(e, Stage::compile);
  // Kernels of a GPU read the inputs where they are.
  for (size_t i = 0; i < e.inputs.size() && !is_gpu(engine.target()); ++i) {
    e.program.tensors[static_cast<size_t>(e.program.inputs[i])].fixed = e.inputs[i].constant;
  }
  run_pipeline(e.program, engine.target());
  for (const Step& step : group(e.program, engine.target())) {
    checkpoint_at(place_of(step));
    e.launches.push_back(std::visit([&](const auto& what) { return launch_of(e, what); }, step));
    e.launches.back().where = place_of(step);
  }
  make_codes(e);
  plan_memory(e);
  prepare_copies(e);
  e.call = call_plan(e);
  if (engine.session() != nullptr) prepare_device(e);
}

void log_warnings(const Executable& e) {
  if (!e.engine->options().log) return;
  for (const Diagnostic& d : warnings_of(e)) {
    e.engine->log(LogLevel::warning, render(d, *e.source->source));
  }
}

}  // namespace

std::shared_ptr<Executable> compile(const std::shared_ptr<Engine>& engine,
                                    const std::shared_ptr<const Program>& program,
                                    const std::vector<InputLayout>& inputs, bool own_code,
                                    std::vector<ConstantInput> constants) {
  // A call that nobody watches is the engine's to cancel.
  CallControl control(Stage::compile,
                      current_control() == nullptr ? engine->options().cancelled : nullptr,
                      engine->options().compile_seconds);
  Controlled now(&control, &engine->options().limits);
  // Which sizes come first is not to matter.
  if (engine->options().deterministic) own_code = true;
  std::shared_ptr<Executable> e = blank(engine, program, inputs, own_code, std::move(constants));
  std::string key = engine->is_reference() ? "" : record_key(*engine, *program, inputs);
  if (key.empty() || !load_record(*e, key)) {
    compile_stages_of(*e);
    if (!key.empty()) save_record(*e, key);
  }
  log_warnings(*e);
  uint64_t bytes = e->arena_bytes + e->workspace_bytes;
  uint64_t seen = engine->statistics.temporary_bytes;
  while (bytes > seen && !engine->statistics.temporary_bytes.compare_exchange_weak(seen, bytes)) {
  }
  return e;
}

std::shared_ptr<Executable> compile_stages(const Executable& executable) {
  std::shared_ptr<Executable> e = blank(executable.engine, executable.source, executable.inputs,
                                        executable.own_code, executable.constants);
  compile_stages_of(*e);
  return e;
}

}  // namespace tile
