// One rank of a mesh, and its part of programs.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/distribute/overlap/overlap.h"
#include "runtime/ranks/device/device_end.h"
#include "runtime/ranks/division.h"
#include "runtime/ranks/mesh_figures.h"
#include "runtime/ranks/rank_executable.h"

namespace tile {

class RankMesh {
 public:
  // Throws Failure (run, "mesh") where the transport has another number of ranks.
  RankMesh(Mesh mesh, std::shared_ptr<Transport> transport);

  const Mesh& mesh() const { return mesh_; }
  size_t rank() const { return transport_->rank(); }
  Transport& transport() { return *transport_; }
  // Calls that exchange anything are made one at a time, in the same order on all ranks. Throws
  // Failure (run, "argument") while another thread is in one.
  std::unique_lock<std::mutex> enter();

  // What all ranks must have been given alike, by its name in errors.
  struct Given {
    std::string name, text;
  };
  // Throws Failure (compile, "agreement") on every rank where one was given something else than
  // rank 0. All ranks together.
  void agree(const std::vector<Given>& given);
  // How a step ended that each rank made for itself, as text; empty: well. Where all ended alike it
  // returns, else the mesh is dead: it throws Failure (run, "rank") on ranks whose text is empty.
  // All ranks together.
  void compare_ends(const std::string& error, const std::string& step);
  // Connects the ranks' devices, once. All ranks together; their engines run what the mesh runs.
  void connect(const std::shared_ptr<Engine>& engine);
  // By which layouts are chosen, the same on all ranks; found once, after connect(). All ranks
  // together.
  const ChoiceOptions& figures(const Engine& engine);
  // What all ranks want, or `never` where they want different things. All ranks together.
  Overlap common_overlap(Overlap own);
  bool is_linked() const { return linking() != Linking::none; }
  Linking linking() const {
    if (!device_ || device_->link() == nullptr) return Linking::none;
    return device_->peers() != nullptr ? Linking::copies : Linking::messages;
  }
  // Of this rank; null where its engine has none, and before connect().
  const std::shared_ptr<DeviceEnd>& device() const { return device_; }
  // Returns when all ranks have come here.
  void meet(const std::string& what);
  // The largest of what all ranks give at each place of a list. All ranks together.
  std::vector<uint64_t> largest(const std::vector<uint64_t>& own, const std::string& what);

 private:
  std::vector<std::array<uint64_t, 2>> told_by_all(std::vector<std::array<uint64_t, 2>> own,
                                                   const std::string& what);

  Mesh mesh_;
  std::shared_ptr<Transport> transport_;
  bool connected_ = false;
  std::shared_ptr<DeviceEnd> device_;
  std::optional<ChoiceOptions> figures_;
  std::mutex mutex_;
};

// What a program is to be on a mesh: global types of its inputs.
struct MeshProgramOptions {
  std::vector<InputType> inputs;
  std::string layouts;
  std::string layouts_name = "<layouts>";  // in errors
  Overlap overlap = Overlap::automatic;
};

// A program on this rank of a mesh.
class MeshProgram {
 public:
  // All ranks together, with the same arguments. Throws Failure, FailureInText; the mesh is then
  // dead on all ranks, unless all of them throw the same.
  MeshProgram(const std::shared_ptr<Engine>& engine, const std::shared_ptr<const Program>& source,
              std::shared_ptr<RankMesh> mesh, const MeshProgramOptions& options);

  // An input or output: the program's own shape, and which box of it each rank has.
  struct Part {
    DType type;
    Shape whole;
    std::vector<Box> boxes;
    // Axes along which ranks have parts of each element, whose sum it is.
    std::vector<size_t> partial;
  };
  const std::vector<Part>& inputs() const { return inputs_; }
  const std::vector<Part>& outputs() const { return outputs_; }
  const std::shared_ptr<RankMesh>& mesh() const { return mesh_; }
  const std::shared_ptr<const Program>& source() const { return executable_->source(); }
  const std::shared_ptr<Engine>& engine() const { return executable_->engine(); }
  // This rank's part of a whole input. Of one that is kept as partial sums the first rank along
  // those axes has all, the others have zeros.
  HostTensor part_of_input(const HostTensor& whole, size_t input) const;

  // This rank's boxes, dense. All ranks together. Throws Failure; the mesh is then dead on all
  // ranks.
  // `given_ns` as RankExecutable::run has it.
  void run(const std::vector<TensorView>& inputs, const std::vector<TensorView>& outputs,
           double* given_ns = nullptr) const;
  // How many exchanges of this rank's program travel while it computes.
  size_t travelling() const;
  // An output put together on one rank of what every rank has of it; elsewhere nothing. All ranks
  // together.
  HostTensor gathered(size_t output, const HostTensor& own, size_t on) const;

 private:
  // `pieces`: what is done with exchanges of all ranks; `overlap`: with this rank's own.
  void compile(const std::shared_ptr<Engine>& engine, const std::shared_ptr<const Program>& source,
               const MeshProgramOptions& options, Overlap pieces, Overlap overlap);

  std::shared_ptr<RankMesh> mesh_;
  std::vector<Part> inputs_, outputs_;
  std::unique_ptr<RankExecutable> executable_;
};

// A rank's part of a whole tensor, see MeshProgram::part_of_input.
HostTensor part_of_whole(const MeshProgram::Part& part, const Mesh& mesh, size_t rank,
                         const HostTensor& whole);
// A tensor from its ranks' parts: replicas are taken once, partial sums added.
HostTensor put_together(const MeshProgram::Part& part, const Mesh& mesh,
                        const std::vector<const std::byte*>& parts);

}  // namespace tile
