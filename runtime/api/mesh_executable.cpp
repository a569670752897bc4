#include "runtime/api/mesh_executable.h"

#include "core/ir/ranks/reduce_part.h"
#include "core/ir/text.h"
#include "runtime/api/options.h"
#include "runtime/engine/launch/dlpack_types.h"
#include "runtime/engine/launch/shared_memory.h"

namespace tile::api {
namespace {

std::vector<LiveExecutable::Output> described(const std::vector<MeshProgram::Part>& parts,
                                              size_t rank, const Engine& engine) {
  std::vector<LiveExecutable::Output> all;
  DLDevice device = device_of(engine);
  for (const MeshProgram::Part& part : parts) {
    Shape shape = part.boxes[rank].shape();
    all.push_back({part.type, shape, dense_strides(shape), device});
  }
  return all;
}

std::vector<MeshExecutable::Box> boxes_of(const std::vector<MeshProgram::Part>& parts,
                                          size_t rank) {
  std::vector<MeshExecutable::Box> boxes;
  for (const MeshProgram::Part& part : parts) boxes.push_back({part.boxes[rank].lo, part.whole});
  return boxes;
}

void check_tensor(const TensorView& view, const LiveExecutable::Output& expected,
                  const Argument& argument) {
  auto bad = [&](const std::string& why) {
    fail(Stage::run, "argument", {}, text_of(argument) + " " + why,
         "tile_executable_input and tile_executable_output describe a rank's boxes");
  };
  bool here = expected.device.device_type != kDLCPU && view.device == expected.device.device_id;
  if (view.memory != Memory::host && !here)
    bad("is in memory that this rank's engine does not use");
  if (view.type != expected.type || view.shape != expected.shape) {
    bad("is " + text_of(view.type, view.shape) + ", expected this rank's box, " +
        text_of(expected.type, expected.shape));
  }
  if (!view.strides.empty()) bad("is not dense");
}

void check_tensors(const MeshExecutable& e, const std::vector<TensorView>& inputs,
                   const std::vector<TensorView>& outputs) {
  const Program& program = *e.program().source();
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_tensor(inputs[i], e.inputs()[i], input_of(program, i));
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    Argument argument = output_of(program, o);
    check_tensor(outputs[o], e.outputs()[o], argument);
    bool shared = false;
    for (const TensorView& input : inputs) shared = shared || shares_memory(outputs[o], input);
    for (size_t p = 0; p < o; ++p) shared = shared || shares_memory(outputs[o], outputs[p]);
    if (shared) {
      fail(Stage::run, "overlap", {},
           text_of(argument) + " shares memory with another tensor of the run");
    }
  }
}

// An empty tensor has an address too.
void give_address(std::vector<TensorView>& views) {
  static std::byte nothing[kHostAlignment];
  for (TensorView& view : views) {
    if (view.data == nullptr) view.data = nothing;
  }
}

void check_options(const tile_run_options& o) {
  if (o.stream == nullptr && o.workspace == nullptr) return;
  fail(Stage::run, "argument", {}, "a run on a mesh takes neither a stream nor a workspace");
}

void run_views(const MeshExecutable& e, std::vector<TensorView> inputs,
               std::vector<TensorView> outputs, const tile_run_options& o) {
  check_options(o);
  check_tensors(e, inputs, outputs);
  give_address(inputs);
  give_address(outputs);
  RankMesh& mesh = *e.program().mesh();
  std::unique_lock<std::mutex> entered = mesh.enter();
  const EngineOptions& engine = e.program().engine()->options();
  bool asked = o.cancel != nullptr;
  CallControl control(Stage::run, asked                   ? polled(o.cancel, o.cancel_user)
                                  : engine.cancels_runs() ? engine.cancelled
                                                          : nullptr);
  Controlled now(&control, &engine.limits);
  e.program().run(inputs, outputs);
}

}  // namespace

MeshExecutable::MeshExecutable(std::unique_ptr<const MeshProgram> program,
                               const InputDefaults& defaults)
    : program_(std::move(program)), ranges_(parameter_ranges(*program_->source())) {
  size_t rank = program_->mesh()->rank();
  inputs_ = described(program_->inputs(), rank, *program_->engine());
  outputs_ = described(program_->outputs(), rank, *program_->engine());
  input_boxes_ = boxes_of(program_->inputs(), rank);
  output_boxes_ = boxes_of(program_->outputs(), rank);
  for (size_t i = 0; i < defaults.size(); ++i) {
    defaults_.push_back(defaults[i] ? std::optional(program_->part_of_input(*defaults[i], i))
                                    : std::nullopt);
  }
}

std::shared_ptr<const MeshExecutable> compiled_on_mesh(LoadedProgram& loaded,
                                                       const std::vector<TensorView>& inputs,
                                                       const tile_compile_options& options) {
  tile_mesh& mesh = *options.mesh;
  if (options.constant_count != 0) {
    fail(Stage::run, "argument", {}, "programs on a mesh have no constants");
  }
  if (mesh.engine != loaded.engine()) {
    fail(Stage::run, "argument", {}, "the mesh was created with another engine");
  }
  std::unique_lock<std::mutex> entered = mesh.mesh->enter();
  MeshProgramOptions what;
  if (options.layouts != nullptr) what.layouts = options.layouts;
  if (options.overlap != nullptr) {
    std::optional<Overlap> overlap = overlap_named(options.overlap);
    if (!overlap) {
      fail(Stage::run, "argument", {}, "no such overlap: " + std::string(options.overlap),
           "it is auto, always or never");
    }
    what.overlap = *overlap;
  }
  for (const InputLayout& layout : loaded.layouts_of(inputs)) what.inputs.push_back(layout.type);
  auto source = std::make_shared<const Program>(loaded.program());
  auto program = std::make_unique<const MeshProgram>(loaded.engine(), source, mesh.mesh, what);
  return std::make_shared<const MeshExecutable>(std::move(program), loaded.defaults());
}

tile_error* run_on_mesh(const MeshExecutable& e, const DLTensor* const* inputs, size_t input_count,
                        DLTensor* const* outputs, size_t output_count,
                        const tile_run_options* options) {
  const Program& program = *e.program().source();
  return guarded(program.source.get(), [&] {
    if (output_count != e.outputs().size() || (output_count != 0 && outputs == nullptr)) {
      if (output_count == e.outputs().size()) fail(Stage::run, "argument", {}, "outputs is NULL");
      refuse_count("output", names_of(program, program.outputs), output_count, output_count);
    }
    std::vector<TensorView> views;
    for (size_t o = 0; o < output_count; ++o) {
      views.push_back(view_of(outputs[o], output_of(program, o), true));
    }
    std::vector<TensorView> given = input_views(program, e.defaults(), inputs, input_count, true);
    if (e.ranges() != nullptr) e.ranges()->look_at(*e.program().engine(), given);
    run_views(e, std::move(given), std::move(views), given_options(options));
  });
}

}  // namespace tile::api
