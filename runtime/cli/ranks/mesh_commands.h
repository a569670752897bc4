// Programs on a mesh of ranks: what --mesh and --layout ask for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/distribute/partition.h"
#include "runtime/cli/session.h"
#include "runtime/ranks/division.h"
#include "runtime/ranks/local_mesh.h"
#include "runtime/transport/transport.h"

namespace tile::cli {

struct MeshArguments {
  std::string mesh;     // "x=2,y=4"; empty: none
  std::string layouts;  // "A[x,*] B[*,y]"; empty: inputs and outputs are spread over the mesh
  Link link;
  std::string overlap = "auto";  // see overlap_named
  bool explains = false;         // other choices are told, too
  std::string transport;         // "mpi" or a path: ranks are processes; empty: threads
  double timeout_seconds = kRankTimeoutSeconds;
};

// The bound program of these inputs and its parts. Errors in the mesh and the layouts are thrown as
// Located in their own texts.
Division divided(const LoadedProgram& program, const std::vector<InputLayout>& inputs,
                 const MeshArguments& arguments);

// What the arguments say of exchanges that travel while ranks compute.
OverlapOptions overlap_of(const std::shared_ptr<Engine>& engine, const MeshArguments& arguments);
// The programs of all ranks as they are run.
std::vector<RankProgram> overlapped_ranks(const std::shared_ptr<Engine>& engine,
                                          const PartitionedProgram& parts,
                                          const MeshArguments& arguments);

// What travels while ranks compute, for a reader.
std::string explained_overlap(const LoadedProgram& program, const Division& division,
                              const MeshArguments& arguments);

// The parts of a program on a mesh of this process. `ranks`: null for ranks of its own.
LocalMesh mesh_for(const LoadedProgram& program, Division parts, const MeshArguments& arguments,
                   std::shared_ptr<LocalRanks> ranks = nullptr);
// The same of these inputs.
LocalMesh mesh_for(const LoadedProgram& program, const std::vector<HostTensor>& inputs,
                   const MeshArguments& arguments, std::shared_ptr<LocalRanks> ranks = nullptr);

}  // namespace tile::cli
