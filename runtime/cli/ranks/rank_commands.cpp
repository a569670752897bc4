#include "runtime/cli/ranks/rank_commands.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "backends/cuda/cuda_backend.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/conform.h"
#include "runtime/cli/filter_picture.h"
#include "runtime/cli/npy/npy.h"
#include "runtime/cli/tensor_file.h"
#include "runtime/ranks/rank_mesh.h"

namespace tile::cli {
namespace {

bool is_array(const std::string& target) { return target.ends_with(".npy"); }

// Where an input's elements come from: a file of which boxes are read, or a tensor that is whole.
struct Given {
  std::string file;
  HostTensor whole;
  InputType type;
};

Given given_input(const LoadedProgram& program, size_t i, const std::string& value,
                  const std::optional<HostTensor>& parameter) {
  Given given;
  std::optional<InputType> boxes;
  if (!value.empty() || !parameter) boxes = type_of_boxes(value);
  if (boxes && !boxes->shape.empty()) {
    given.file = value;
    given.type = *boxes;
    return given;
  }
  bool left_out = value.empty() && parameter;
  given.whole = left_out ? *parameter : read_tensor(value, input_name(program, i));
  if (gives_picture(value)) {
    given.whole = picture_for_input(std::move(given.whole), input_name(program, i));
  }
  given.type = layouts_of({given.whole})[0].type;  // with its value, where it sets a size
  return given;
}

// The options with the GPU that this process is to have: where none is numbered, processes of one
// machine have one each, as their launcher numbers them there.
Options on_own_gpu(Options options) {
  if (options.backend != "cuda" && options.backend != "auto") return options;
  int gpus = cuda::gpu_count();
  if (gpus < 2 || make_engine(options)->session() == nullptr) return options;
  // Of Open MPI, MPICH, SLURM and torchrun.
  for (const char* name :
       {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "LOCAL_RANK"}) {
    const char* text = std::getenv(name);
    if (text == nullptr) continue;
    int rank = 0;
    auto [end, error] = std::from_chars(text, text + std::strlen(text), rank);
    if (error != std::errc() || *end != '\0' || rank < 0) continue;
    options.backend = "cuda:" + std::to_string(rank % gpus);
    break;
  }
  return options;
}

class ProcessRun {
 public:
  ProcessRun(const RunArguments& arguments, const Options& options, std::shared_ptr<RankMesh> mesh)
      : arguments_(arguments), options_(options), mesh_(std::move(mesh)) {}

  int run() {
    Asked asked = program_of(arguments_, on_own_gpu(options_));
    program_ = asked.program;
    if (mesh_->rank() == 0) print_warnings(*program_, nullptr, options_, asked.written.get());
    take_inputs(asked);
    for (const MeshProgram::Part& part : on_mesh_->outputs()) {
      check_output_shape(output_name(*program_, outputs_.size()), part.whole, arguments_);
      outputs_.emplace_back(part.type, part.boxes[mesh_->rank()].shape());
    }
    std::vector<uint64_t> ns;
    for (int i = 0; i < std::max(1, arguments_.repeat); ++i) ns.push_back(timed_run());
    write_outputs();
    if (ns.size() > 1) report(mesh_->largest(ns, "times of the runs"));
    return 0;
  }

 private:
  void take_inputs(const Asked& asked) {
    std::vector<std::string> values =
        values_by_input(*program_, arguments_.in, "--in", arguments_.gradient_of);
    std::vector<std::optional<HostTensor>> parameters = parameters_of(*program_, arguments_.param);
    std::vector<Given> given;
    MeshProgramOptions what;
    what.layouts = arguments_.mesh.layouts;
    what.layouts_name = "--layout";
    what.overlap = *overlap_named(arguments_.mesh.overlap);
    for (size_t i = 0; i < values.size(); ++i) {
      given.push_back(given_input(*program_, i, values[i], parameters[i]));
      what.inputs.push_back(given.back().type);
    }
    if (asked.forward) check_seed(*asked.forward, arguments_.gradient_of, what.inputs);
    on_mesh_ = located(source(), [&] {
      return std::make_unique<MeshProgram>(
          program_->engine(), std::make_shared<const Program>(program_->program()), mesh_, what);
    });
    for (size_t i = 0; i < given.size(); ++i) inputs_.push_back(part_of(given[i], i));
    mesh_->meet("reading of the inputs");  // an output may go to a file that another rank reads
  }

  HostTensor part_of(const Given& given, size_t i) const {
    const MeshProgram::Part& part = on_mesh_->inputs()[i];
    const Box& box = part.boxes[mesh_->rank()];
    if (given.file.empty()) return on_mesh_->part_of_input(given.whole, i);
    require_memory(given.file, part.type, box);  // for zeros, too
    bool zeros = tile::part_of(mesh_->mesh(), part.partial, mesh_->rank()) != 0;
    return zeros || box.empty() ? HostTensor(part.type, box.shape())
                                : read_box(given.file, box, input_name(*program_, i));
  }

  const SourcePtr& source() const { return program_->program().source; }

  uint64_t timed_run() {
    auto start = std::chrono::steady_clock::now();
    located(source(), [&] { on_mesh_->run(views_of(inputs_), views_of(outputs_)); });
    auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::steady_clock::now() - start);
    return static_cast<uint64_t>(ns.count());
  }
  // A run's time is that of its slowest rank.
  void report(const std::vector<uint64_t>& ns) const {
    std::vector<double> ms;
    for (uint64_t one : ns) ms.push_back(static_cast<double>(one) / 1e6);
    if (mesh_->rank() == 0) report_times(ms);
  }

  void write_outputs() {
    for (const WrittenOutput& o : written_outputs(*program_, arguments_)) write(o);
    for (size_t o = 0; arguments_.out.empty() && o < outputs_.size(); ++o) {
      HostTensor whole = on_mesh_->gathered(o, outputs_[o], 0);
      if (mesh_->rank() != 0) continue;
      std::cout << output_name(*program_, o) << ": " << summary(whole) << "\n";
    }
    mesh_->meet("end of the outputs");
  }

  void write(const WrittenOutput& o) {
    if (is_array(o.target) && on_mesh_->outputs()[o.output].partial.empty()) {
      write_box(o.output, o.target);
      return;
    }
    HostTensor whole = on_mesh_->gathered(o.output, outputs_[o.output], 0);
    if (mesh_->rank() == 0) write_output(whole, o.name, o.target, arguments_, options_);
  }

  // Rank 0 makes the file; then every rank writes its box, unless a rank before it has the same.
  void write_box(size_t o, const std::string& file) {
    const MeshProgram::Part& part = on_mesh_->outputs()[o];
    if (mesh_->rank() == 0) create_npy(file, part.type, part.whole);
    mesh_->meet("making of " + file);
    const Box& own = part.boxes[mesh_->rank()];
    auto owner = std::find(part.boxes.begin(), part.boxes.end(), own);
    bool writes = static_cast<size_t>(owner - part.boxes.begin()) == mesh_->rank();
    if (writes && !own.empty()) write_npy_box(file, own, outputs_[o]);
  }

  const RunArguments& arguments_;
  const Options& options_;
  std::shared_ptr<RankMesh> mesh_;
  std::shared_ptr<LoadedProgram> program_;
  std::unique_ptr<MeshProgram> on_mesh_;
  std::vector<HostTensor> inputs_, outputs_;  // this rank's boxes
};

// Errors are told by the transport, when the mesh is gone, too.
std::shared_ptr<PluginTransport> opened(const MeshArguments& mesh) {
  return open_plugin({plugin_path(mesh.transport), mesh.timeout_seconds, nullptr});
}

std::shared_ptr<RankMesh> mesh_over(const std::shared_ptr<PluginTransport>& transport,
                                    const MeshArguments& mesh) {
  return std::make_shared<RankMesh>(mesh_of(mesh.mesh, "--mesh"), transport);
}

// Every rank's outputs on every rank.
std::vector<HostTensor> run_on_whole(LoadedProgram& program, const std::vector<HostTensor>& inputs,
                                     const std::shared_ptr<RankMesh>& mesh,
                                     const MeshArguments& arguments) {
  MeshProgramOptions what;
  for (const InputLayout& layout : layouts_of(inputs)) what.inputs.push_back(layout.type);
  what.layouts = arguments.layouts;
  what.overlap = *overlap_named(arguments.overlap);
  MeshProgram on_mesh(program.engine(), std::make_shared<const Program>(program.program()), mesh,
                      what);
  std::vector<HostTensor> given, outputs, whole;
  for (size_t i = 0; i < inputs.size(); ++i) {
    given.push_back(on_mesh.part_of_input(inputs[i], i));
  }
  for (const MeshProgram::Part& part : on_mesh.outputs()) {
    outputs.emplace_back(part.type, part.boxes[mesh->rank()].shape());
  }
  on_mesh.run(views_of(given), views_of(outputs));
  for (size_t o = 0; o < outputs.size(); ++o) {
    whole.emplace_back();
    for (size_t on = 0; on < mesh->mesh().ranks(); ++on) {
      HostTensor gathered = on_mesh.gathered(o, outputs[o], on);
      if (on == mesh->rank()) whole.back() = std::move(gathered);
    }
  }
  return whole;
}

}  // namespace

int run_on_processes(const RunArguments& arguments, const Options& options) {
  std::shared_ptr<PluginTransport> transport = opened(arguments.mesh);
  return spoken_for(*transport, options, [&] {
    return ProcessRun(arguments, options, mesh_over(transport, arguments.mesh)).run();
  });
}

int conform_on_processes(const std::vector<std::string>& files, const std::string& filter,
                         const MeshArguments& mesh, const Options& options) {
  std::shared_ptr<PluginTransport> transport = opened(mesh);
  return spoken_for(*transport, options, [&] {
    std::shared_ptr<RankMesh> ranks = mesh_over(transport, mesh);
    int status = conform(files, filter, on_own_gpu(options),
                         [&](LoadedProgram& program, const std::vector<HostTensor>& inputs) {
                           return run_on_whole(program, inputs, ranks, mesh);
                         });
    ranks->compare_ends(status == 0 ? "" : "cases fail", "cases");
    return status;
  });
}

}  // namespace tile::cli
