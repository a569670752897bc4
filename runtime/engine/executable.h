// Executable: a program compiled for one set of input types, shapes and strides, ready to run.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "core/ir/bound.h"
#include "core/kernel/kernel.h"
#include "core/kernel/schedule.h"
#include "core/nest/nest.h"
#include "core/schedule/search/parametric_tiling.h"
#include "core/support/copy_on_write.h"
#include "runtime/engine/concurrency/epoch.h"
#include "runtime/engine/launch/call_plan.h"
#include "runtime/engine/parameters.h"

namespace tile {

struct ClassProgram;
class ConstantMemory;
class DeviceConstants;
class DeviceMemory;
class DeviceReplays;
class Engine;
class KnownBlocks;
class OwnCode;
class ParameterRanges;
class PassTimes;
struct StepsInBlocks;
struct RankedSchedule;
// The type, shape and strides that an input is compiled for. Strides are in elements; empty: dense
// row-major.
struct InputLayout {
  InputType type;
  std::vector<int64_t> strides;
  bool constant = false;  // the same elements in every run
};

enum class Memory : uint8_t { host, device };

// Elements of one input or output at run time; strides in elements, empty: dense row-major.
struct TensorView {
  void* data = nullptr;
  DType type = DType::f32;
  Shape shape;
  std::vector<int64_t> strides;
  Memory memory = Memory::host;
  int device = 0;  // whose memory
};

// An input declared constant: a copy of its elements, which runs read in place of what they are
// given.
struct ConstantInput {
  size_t input = 0;
  const void* given = nullptr;  // the caller's elements: a run may name them again
  TensorView copy;              // of the layout compiled for
  std::shared_ptr<const ConstantMemory> host;
  std::shared_ptr<const DeviceMemory> device;
};

// Where a tensor's elements are during a run.
struct Place {
  enum class Kind : uint8_t { none, input, output, arena, constant } kind = Kind::none;
  // Number of the input or output, byte offset in the arena, or the id of the tensor of the program
  // that holds the constant's elements.
  size_t at = 0;
};

// What a launch's code reads of a constant input instead of packing it: made when the program is
// compiled or its record is loaded.
struct PrepackedCopy {
  TensorId source;
  std::shared_ptr<const Code> code;  // that makes it
  std::string key;                   // of that code in the kernel cache
  size_t bytes = 0;
  std::shared_ptr<const ConstantMemory> copy;
  nest::Nest nest;  // for emit and explain
};

// A statement that repeats a program: the executable of one step, and how often it runs.
struct Executable;
struct StepLoop {
  std::shared_ptr<const Executable> step;
  int64_t trips = 1;
  std::shared_ptr<const StepsInBlocks> blocks;  // another way to run it; null: there is none
};

// One launch: a kernel's code, a sort or a loop, with the tensors that it is given in order.
struct Launch {
  std::shared_ptr<const Code> code;
  std::string key;  // of the code in the kernel cache
  std::vector<TensorId> arguments;
  // Of each argument, in bytes: where in its tensor the part begins that the code is given. Empty:
  // all are whole.
  std::vector<size_t> begins;
  std::vector<PrepackedCopy> prepared;  // further arguments
  std::vector<int64_t> parameters;      // of the code: the extent of a kernel for a class of sizes
  // Why the kernel does not share its code with other sizes of the program, in words; empty where
  // it does or nothing is known of other sizes.
  std::string own_code_because;
  std::optional<Sort> sort;
  std::optional<StepLoop> loop;  // its arguments: the operands, then the result
  Span where;                    // in the program's text; made from a record: its beginning
  // For emit and explain: which step of the program it came from.
  std::optional<Kernel> kernel;
  Schedule schedule;
  // The record that tuning left of the schedule; null: the model chose it.
  std::shared_ptr<const RankedSchedule> record;
  CopyOnWrite<nest::Nest> nest;  // sizes of a class have one
};

// A final copy for outputs that share storage with an input, a view or another output.
struct OutputCopy {
  TensorId from;
  size_t output = 0;
};

// An output that a run may be given in the memory of an input: no element of the input is read
// after the output's element in its place is written.
struct Donation {
  size_t input = 0, output = 0;
  friend bool operator==(const Donation&, const Donation&) = default;
};

// Immutable once it is made: runs under way keep it while tuning puts another in its place (see
// LiveExecutable).
struct Executable : Retirable, std::enable_shared_from_this<Executable> {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<const Program> source;    // the program as parsed
  InputDefaults defaults;                   // of its inputs
  std::shared_ptr<ParameterRanges> ranges;  // of its inputs, shared with copies; null: none has one
  std::vector<InputLayout> inputs;
  // Of the outputs, in elements, as launches write them where a run is given them; empty: dense.
  // Without an element for each output all are dense.
  std::vector<std::vector<int64_t>> output_strides;
  std::vector<ConstantInput> constants;  // those of the inputs that are constant
  BoundProgram bound;                    // as bound: what the reference backend runs
  BoundProgram program;                  // after the tensor-level passes
  std::vector<Launch> launches;
  IdVector<TensorId, Place> places;  // of the tensors of `program`, views resolved
  CallPlan call;                     // of all this; empty for the reference interpreter
  std::vector<OutputCopy> copies;
  // Inputs whose strides a view or a sort cannot take: copied densely into the arena first.
  std::vector<std::pair<size_t, size_t>> densified;  // input, arena offset
  // Made from its record: the programs have no statements, the launches neither kernel nor nest
  // (see compile_stages).
  bool restored = false;
  bool saved = false;  // from its saved form: its program is not there
  std::vector<Donation> donations;
  // No kernel serves a class of sizes: all are compiled for these ones.
  bool own_code = false;
  // Of the class of sizes that its own are in; null: nothing is known of it.
  std::shared_ptr<const ClassProgram> sizes;
  // Counts its runs until it is to have code of its own; null: nobody counts.
  std::shared_ptr<const OwnCode> own_code_later;
  // Of runs of several steps, shared with copies; null: there are none.
  std::shared_ptr<KnownBlocks> in_blocks;
  size_t arena_bytes = 0;      // temporaries
  size_t workspace_bytes = 0;  // the largest of the launches, after the temporaries

  // Of the passes that made it; null where its engine does not measure them.
  std::shared_ptr<PassTimes> pass_times;

  // On a device with memory of its own.
  std::shared_ptr<const DeviceConstants> device_constants;
  std::shared_ptr<DeviceReplays> replays;  // null where there is one kernel only

  const BoundTensor& output(size_t i) const { return bound.tensors[bound.outputs[i]]; }
};

struct RunOptions {
  void* stream = nullptr;
  Control* control = nullptr;  // ends it early; null: nothing does
  bool recorded = true;        // whether a device may do it as one recording
  // Of arena_bytes + workspace_bytes, aligned to 64, on a device to 256: where temporaries are.
  // Null: from the engine's allocator, else in memory that the thread, or the session, keeps for
  // the next run.
  std::byte* memory = nullptr;
  // Gets the nanoseconds of each launch, in order; the launches then wait for each other.
  std::vector<double>* profile = nullptr;
};

// Compiles for the given layouts. `own_code`: for these sizes alone, which run a little faster than
// a kernel for the class of sizes that they are in. `constants`: of the inputs whose layouts say
// so. `before`: the times of what made the program, for an engine that measures them; may be null.
// `sizes`: of the class of sizes that these ones are in; null where nothing is known of it. Throws
// Failure.
std::shared_ptr<Executable> compile(const std::shared_ptr<Engine>& engine,
                                    const std::shared_ptr<const Program>& program,
                                    const std::vector<InputLayout>& inputs, bool own_code = false,
                                    std::vector<ConstantInput> constants = {},
                                    const PassTimes* before = nullptr,
                                    std::shared_ptr<const ClassProgram> sizes = nullptr);

// Throws Failure (run, "argument") for an executable that was loaded from its saved form.
void require_program(const Executable& executable);
// The executable compiled anew, with everything that its stages made; where code is cached nothing
// is generated. The observer, which may be null, is told of all passes from kBind to the last over
// nests, and of the nests of each kernel one after the other; what kernels for classes of sizes
// share is then made again, too.
std::shared_ptr<Executable> compile_stages(const Executable& executable,
                                           PassObserver* observer = nullptr);

// The executable compiled anew with code for its sizes alone, whatever is on record.
std::shared_ptr<Executable> with_own_code(const Executable& executable);

// The verified nest of one of the executable's kernels under a schedule, for its inputs' strides.
nest::Nest lowered(const Executable& executable, const Kernel& kernel, const Schedule& schedule);
nest::Nest lowered(const Executable& executable, const Kernel& kernel, const SharedForm& form);
// What such a nest reads packed before all runs, without code.
std::vector<PrepackedCopy> copies_for(const Executable& executable, const Kernel& kernel,
                                      const Schedule& schedule);
// Gives the launch's nests their code. The observer may be null.
void make_code(const Executable& executable, Launch& launch, PassObserver* observer = nullptr);

// Thread safe for distinct outputs. A constant input may be any tensor: its copy is read. Throws
// Failure of stage run. Tensors must fit the executable
// (checked by the caller: see check_tensors).
void run(const Executable& executable, std::span<const TensorView> inputs,
         std::span<const TensorView> outputs, const RunOptions& options = {});
// Types, shapes, strides, null pointers and overlap of the tensors of a run; a constant input is
// the tensor that was declared, or has a null pointer. Throws Failure.
void check_tensors(const Executable& executable, std::span<const TensorView> inputs,
                   std::span<const TensorView> outputs);

// Text of a stage: program, bound, reduced (and each pass of the tensor level by its name),
// kernels, schedule, nest, llvm, asm, cuda, ptx, sass; "after:" and the name of any pass: what it
// made. Throws Failure for an unknown one.
std::string emit(const Executable& executable, std::string_view stage);
// The text after every pass that changed it, each under a heading.
std::string changes(const Executable& executable);
// A line for each kernel, then what each is and why.
std::string explain(const Executable& executable);

// The executable with what wins a race of schedules for each kernel. Throws Failure.
using TuningProgress =
    std::function<void(const std::string& kernel, size_t tried, size_t total, double best_ns)>;
std::shared_ptr<const Executable> tuned(const Executable& executable, double budget_ms,
                                        const TuningProgress& progress = {});

}  // namespace tile
