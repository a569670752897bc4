// The way from a program to launches: bind, passes, group, schedule, lower, partition, code.
#include <algorithm>
#include <new>

#include "core/fusion/group.h"
#include "core/fusion/step_order.h"
#include "core/kernel/narrow_arguments.h"
#include "core/lower/lower.h"
#include "core/nest/passes/nest_passes.h"
#include "core/passes/bind/bind.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/search/dynamic_extent.h"
#include "core/schedule/space/remembered_schedules.h"
#include "core/support/choices.h"
#include "runtime/engine/cache/executable_record.h"
#include "runtime/engine/compile_bound.h"
#include "runtime/engine/constants.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/inspect/gdb.h"
#include "runtime/engine/inspect/names.h"
#include "runtime/engine/inspect/pass_list.h"
#include "runtime/engine/inspect/pass_times.h"
#include "runtime/engine/inspect/pass_trace.h"
#include "runtime/engine/inspect/program_warnings.h"
#include "runtime/engine/known_launches.h"
#include "runtime/engine/launch/device_run.h"
#include "runtime/engine/launch/donations.h"
#include "runtime/engine/launch/input_strides.h"
#include "runtime/engine/launch/memory_plan.h"
#include "runtime/engine/parameter_ranges.h"
#include "runtime/engine/records/ranking.h"
#include "runtime/engine/size_class.h"
#include "runtime/engine/steps/known_blocks.h"

namespace tile {
namespace {

StepLoop compiled_loop(const Executable& around, const BoundRepeat& repeat,
                       const PassOptions& passes);

// Why a schedule on record cannot be used for the kernel; empty: it is in `schedule`.
std::string unusable(const std::string& text, const Kernel& kernel, const Target& target,
                     Schedule& schedule) {
  try {
    schedule = parse_schedule(text);
    return illegal(schedule, kernel, target);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& failure) {  // its text is not of this version, or of nobody's
    return failure.what();
  }
}

// What tuning found earlier for this kind of processor: the best of the records that fit.
bool take_tuned(Engine& engine, const Kernel& kernel, Launch& launch) {
  if (engine.options().deterministic) return false;
  const Target& target = engine.target();
  for (RankedSchedule& tuned : engine.kernels().tuned_schedules(kernel, target)) {
    std::string why = unusable(tuned.record.schedule, kernel, target, launch.schedule);
    if (why.empty()) {
      launch.record = std::make_shared<const RankedSchedule>(std::move(tuned));
      return true;
    }
    engine.log(LogLevel::warning, "tuned schedule of " + kernel.name + " ignored: " + why);
  }
  return false;
}

// A nest that is ready for code, of what make() lowers.
template <class Make>
nest::Nest lowered_by(const Executable& e, const PassOptions& passes, const Make& make) {
  nest::Nest nest;
  run_pass(kLower, passes, [&] { nest = make(); }, [&] { return print(nest); });
  nest = nest::run_passes(std::move(nest), e.engine->target(), passes);
  if (!is_gpu(e.engine->target())) nest.source = gdb::lines_of(e.source->source);
  return nest;
}

std::vector<PrepackedCopy> without_code(const Executable& e, std::vector<Prepacking> list,
                                        const PassOptions& passes) {
  std::vector<PrepackedCopy> copies;
  for (Prepacking& p : list) {
    PrepackedCopy copy;
    copy.source = p.source;
    copy.nest = lowered_by(e, passes, [&] { return std::move(p.nest); });
    const nest::Buffer& made = copy.nest.buffers.at(1);
    copy.bytes = static_cast<size_t>(element_count(made.shape)) * byte_size(made.type);
    copies.push_back(std::move(copy));
  }
  return copies;
}

// What all launches of an executable are made with.
struct LaunchParts {
  const PassOptions& passes;
  const Strides& strides;  // strides_of() the executable, looked for once
  KnownLaunches& known;
};

nest::Nest lowered(const Executable& e, const Kernel& kernel, const Schedule& schedule,
                   const PassOptions& passes, const Strides& strides) {
  const Target& target = e.engine->target();
  return lowered_by(e, passes, [&] { return lower(kernel, schedule, target, strides); });
}
std::vector<PrepackedCopy> copies_for(const Executable& e, const Kernel& kernel,
                                      const Schedule& schedule, const PassOptions& passes,
                                      const Strides& strides) {
  const Target& target = e.engine->target();
  return without_code(e, prepackings(kernel, schedule, target, strides), passes);
}

ClassForm class_form(const Executable& e, const ClassKernel& kernel, const Schedule& schedule,
                     const PassOptions& passes) {
  const Target& target = e.engine->target();
  return {lowered_by(e, passes, [&] { return lower(kernel, schedule, target); }), "",
          without_code(e, prepackings(kernel.kernel, schedule, target), passes)};
}

// About what it takes in memory: a nest some times its text.
size_t memory_of(const ClassForm& form) {
  constexpr size_t kTimes = 8;
  size_t bytes = kTimes * form.key.size();
  for (const PrepackedCopy& p : form.prepared) bytes += kTimes * print(p.nest, true).size();
  return bytes;
}

// The kernel's schedule; with the kernel of its class where that is to run.
ClassProgram::Found choose_schedule(const Executable& e, const Kernel& kernel, const StepAt& at,
                                    const Strides& strides, Launch& launch) {
  if (take_tuned(*e.engine, kernel, launch)) return {};
  ClassProgram::Found of =
      at.found != nullptr ? *at.found : class_of(e, kernel, strides, at.number);
  std::optional<Schedule> shared = of.step ? schedule_of(*e.engine, *of.step) : std::nullopt;
  if (of.step && !shared) of = {nullptr, 0, "no schedule that serves all sizes"};
  launch.schedule = shared ? std::move(*shared) : own_schedule(e, kernel);
  launch.own_code_because = std::move(of.why_not);
  return of;
}

void take_class(const Executable& e, const ClassStep& of, Launch& launch,
                const PassOptions& passes) {
  const Target& target = e.engine->target();
  auto make = [&] {
    ClassForm form = class_form(e, of.kernel, launch.schedule, passes);
    form.key = e.engine->kernels().key_of(*form.nest, target);
    return form;
  };
  // Who watches sees the form made, and with lines it is this program's alone.
  auto form = passes.observer != nullptr || gdb::is_on()
                  ? std::make_shared<const ClassForm>(make())
                  : e.engine->size_classes().forms.get(of.key, make, memory_of);
  launch.nest = form->nest;
  launch.key = form->key;
  launch.prepared = form->prepared;
  // The form's tensors have the class's numbers.
  std::vector<TensorId> of_class = arguments_of(of.kernel.kernel);
  for (PrepackedCopy& p : launch.prepared) {
    auto at = std::find(of_class.begin(), of_class.end(), p.source) - of_class.begin();
    p.source = launch.arguments.at(static_cast<size_t>(at));
  }
}

Launch launch_of(Executable& e, Kernel given, const StepAt& at, const LaunchParts& with) {
  Launch launch;
  const Kernel& kernel = launch.kernel.emplace(std::move(given));
  launch.arguments = arguments_of(kernel);
  launch.begins = argument_begins(kernel);
  std::string text = with.known.text_of(kernel, with.strides);
  if (with.known.take(text, launch)) return launch;
  ClassProgram::Found of_class;
  run_pass(
      kChooseSchedule, with.passes,
      [&] { of_class = choose_schedule(e, kernel, at, with.strides, launch); },
      [&] { return "# " + kernel.name + "\n" + print(launch.schedule); });
  if (of_class.step) {
    take_class(e, *of_class.step, launch, with.passes);
    launch.parameters = {of_class.extent};
    return launch;
  }
  launch.nest = lowered(e, kernel, launch.schedule, with.passes, with.strides);
  launch.prepared = copies_for(e, kernel, launch.schedule, with.passes, with.strides);
  with.known.keep(text, e, launch);
  return launch;
}
Launch launch_of(Executable&, const Sort& sort, const StepAt&, const LaunchParts&) {
  Launch launch;
  launch.sort = sort;
  launch.arguments = {sort.source, sort.result};
  return launch;
}
Launch launch_of(Executable& e, const Scatter& scatter, const StepAt&, const LaunchParts& with) {
  const Target& target = e.engine->target();
  Launch launch;
  launch.nest = lowered_by(e, with.passes, [&] {
    return lower_scatter(scatter, e.program.tensors, target, with.strides);
  });
  launch.arguments = {scatter.updates, scatter.indices, scatter.result};
  return launch;
}

// The step is a program by itself: its kernels know nothing of the loop.
Launch launch_of(Executable& e, const BoundRepeat& repeat, const StepAt&, const LaunchParts& with) {
  Launch launch;
  launch.loop = compiled_loop(e, repeat, with.passes);
  launch.arguments = repeat.operands;
  launch.arguments.push_back(repeat.result);
  return launch;
}

}  // namespace

nest::Nest lowered(const Executable& e, const Kernel& kernel, const Schedule& schedule) {
  return lowered(e, kernel, schedule, pass_options(*e.engine), strides_of(e));
}
nest::Nest lowered(const Executable& e, const Kernel& kernel, const SharedForm& form) {
  const Target& target = e.engine->target();
  return lowered_by(e, pass_options(*e.engine),
                    [&] { return lower(kernel, form, target, strides_of(e)); });
}
std::vector<PrepackedCopy> copies_for(const Executable& e, const Kernel& kernel,
                                      const Schedule& schedule) {
  return copies_for(e, kernel, schedule, pass_options(*e.engine), strides_of(e));
}

void take_constants(const Engine& engine, const std::vector<InputLayout>& inputs,
                    BoundProgram& program) {
  // Kernels of a GPU read the inputs where they are.
  for (size_t i = 0; i < inputs.size() && !is_gpu(engine.target()); ++i) {
    program.tensors.edit(program.inputs[i]).fixed = inputs[i].constant;
  }
}

PassOptions pass_options(const Engine& engine, PassObserver* observer) {
  return {engine.options().skip_passes, observer};
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
  e->ranges = parameter_ranges(*program);
  e->in_blocks = std::make_shared<KnownBlocks>();
  e->inputs = inputs;
  return e;
}

// Of an executable whose inputs are not the program's.
void forget_parameters(Executable& e) {
  e.defaults.assign(e.inputs.size(), std::nullopt);
  e.ranges = nullptr;
}

// Where in the program's text a step begins.
Span place_of(const Step& step) {
  if (const auto* kernel = std::get_if<Kernel>(&step)) return kernel->stages[0].contraction.span;
  return std::visit([](const auto& s) { return s.span; }, statement_of(step));
}

void make_launches(Executable& e, PassObserver* observer) {
  Engine& engine = *e.engine;
  PassOptions passes = pass_options(engine, observer);
  e.program = e.bound;
  if (engine.is_reference()) {
    e.donations = donations_of(e);
    return check_memory_limit(e, Stage::compile);
  }
  take_constants(engine, e.inputs, e.program);
  RememberedSchedules remembered(engine.target(), e.program.statements.size());
  SizedSteps sized = steps_of_sizes(e, passes);
  drop_unfit_output_strides(e);
  KnownLaunches known(e, passes);
  const Strides strides = strides_of(e);
  for (Step& step : sized.steps) {
    Span where = place_of(step);
    checkpoint_at(where);
    StepAt at = sized.at(e.launches.size());
    auto launch = [&](auto& s) { return launch_of(e, std::move(s), at, {passes, strides, known}); };
    e.launches.push_back(std::visit(launch, step));
    e.launches.back().where = where;
  }
  make_codes(e);
  run_pass(kPlanLaunches, observer, [&] {
    plan_memory(e);
    tell_names(e);
    e.donations = donations_of(e);
    prepare_copies(e);
    e.call = call_plan(e);
    if (engine.session() != nullptr) prepare_device(e);
  });
}

// As it was before its launches. Choices of its class of sizes are not for it.
void begin_again(Executable& e) {
  std::shared_ptr<Executable> before = blank(e.engine, e.source, e.inputs, e.own_code, e.constants);
  before->bound = std::move(e.bound);
  before->defaults = std::move(e.defaults);
  before->ranges = std::move(e.ranges);
  before->pass_times = std::move(e.pass_times);
  before->output_strides = std::move(e.output_strides);
  e = std::move(*before);
}

// The way from the bound program to launches. The observer may be null. What does not fit into the
// engine's memory is made again with choices that store less.
void compile_bound_of(Executable& e, PassObserver* observer) {
  try {
    return make_launches(e, observer);
  } catch (const Failure& failure) {
    const Diagnostic& why = failure.diagnostic();
    bool again = why.stage == Stage::compile && why.code == "memory" && !space_first() &&
                 !e.engine->is_reference();
    if (!again) throw;
  }
  SpaceFirst now;
  begin_again(e);
  make_launches(e, observer);
}

// The step takes dense inputs, and is for these sizes alone.
StepLoop compiled_loop(const Executable& around, const BoundRepeat& repeat,
                       const PassOptions& passes) {
  const BoundProgram& step = *repeat.step;
  std::vector<InputLayout> inputs;
  for (TensorId id : step.inputs)
    inputs.push_back({{step.tensors[id].type, step.tensors[id].shape}, {}});
  std::shared_ptr<Executable> e = blank(around.engine, around.source, inputs, true, {});
  forget_parameters(*e);
  e->bound = step;
  e->pass_times = around.pass_times;
  compile_bound_of(*e, passes.observer);
  e->pass_times = nullptr;
  StepLoop loop{e, repeat.trips, nullptr};
  const Feed state{0, 0};
  run_pass(
      kTileTime, passes, [&] { loop.blocks = steps_in_blocks(*e, {&state, 1}, loop.trips); },
      [&] { return loop.blocks ? print(*loop.blocks) + "\n" : "each trip by itself\n"; });
  return loop;
}

// The whole way from the source. The watcher may be null.
void compile_stages_of(Executable& e, PassObserver* watcher) {
  PassTrace traced(watcher);
  PassObserver* observer = traced.observer();
  PassOptions passes = pass_options(*e.engine, observer);
  auto bound_text = [&] { return print(e.bound); };
  ++e.engine->statistics.binds;
  run_pass(kBind, passes, [&] { e.bound = tile::bind(*e.source, types_of(e.inputs)); }, bound_text);
  run_pass(kCheckAssignments, passes, [&] { check_assignments(e.bound); }, bound_text);
  compile_bound_of(e, observer);
}

// The same with the times of the passes, which are added to those before; null: none were.
void compile_timed(Executable& e, const PassTimes* before) {
  e.pass_times = std::make_shared<PassTimes>();
  if (before != nullptr) e.pass_times->add(*before);
  PassClock clock(*e.pass_times);
  e.pass_times->add_total(timed_ns([&] { compile_stages_of(e, &clock); }));
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
                                    std::vector<ConstantInput> constants, const PassTimes* before,
                                    std::shared_ptr<const ClassProgram> sizes) {
  // A call that nobody watches is the engine's to cancel.
  CallControl control(Stage::compile,
                      current_control() == nullptr ? engine->options().cancelled : nullptr,
                      engine->options().compile_seconds);
  Controlled now(&control, &engine->options().limits);
  // Which sizes come first is not to matter.
  if (engine->options().deterministic) own_code = true;
  std::shared_ptr<Executable> e = blank(engine, program, inputs, own_code, std::move(constants));
  if (!own_code) e->sizes = std::move(sizes);
  std::string key = engine->is_reference() ? "" : record_key(*engine, *program, inputs);
  trace::Scope span("compile", "compile");
  // A record has no names.
  if (key.empty() || names_are_wanted() || !load_record(*e, key)) {
    engine->options().time_passes ? compile_timed(*e, before) : compile_stages_of(*e, nullptr);
    // Nor is code with lines for who asks for none.
    if (!key.empty() && !gdb::is_on()) save_record(*e, key);
  }
  log_warnings(*e);
  uint64_t bytes = e->arena_bytes + e->workspace_bytes;
  uint64_t seen = engine->statistics.temporary_bytes;
  while (bytes > seen && !engine->statistics.temporary_bytes.compare_exchange_weak(seen, bytes)) {
  }
  return e;
}

std::shared_ptr<const Executable> compile_bound(const std::shared_ptr<Engine>& engine,
                                                const std::shared_ptr<const Program>& source,
                                                BoundProgram bound, BoundStrides given) {
  CallControl control(Stage::compile,
                      current_control() == nullptr ? engine->options().cancelled : nullptr,
                      engine->options().compile_seconds);
  Controlled now(&control, &engine->options().limits);
  std::shared_ptr<Executable> e =
      blank(engine, source, layouts_of_inputs(bound, given.inputs), true, {});
  forget_parameters(*e);
  e->bound = std::move(bound);
  e->output_strides = std::move(given.outputs);
  compile_bound_of(*e, nullptr);
  return e;
}

void require_program(const Executable& executable) {
  if (!executable.saved) return;
  fail(Stage::run, "argument", {}, "an executable that was loaded has no program to look into",
       "compile the program for that");
}

std::shared_ptr<Executable> with_own_code(const Executable& executable) {
  require_program(executable);
  std::shared_ptr<Executable> e =
      blank(executable.engine, executable.source, executable.inputs, true, executable.constants);
  compile_stages_of(*e, nullptr);
  e->pass_times = executable.pass_times;
  return e;
}

std::shared_ptr<Executable> compile_stages(const Executable& executable, PassObserver* observer) {
  require_program(executable);
  std::shared_ptr<Executable> e = blank(executable.engine, executable.source, executable.inputs,
                                        executable.own_code, executable.constants);
  e->sizes = executable.sizes;
  compile_stages_of(*e, observer);
  e->pass_times = executable.pass_times;
  share_races(executable, *e);
  return e;
}

}  // namespace tile
