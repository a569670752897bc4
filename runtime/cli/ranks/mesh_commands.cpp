#include "runtime/cli/ranks/mesh_commands.h"

#include "core/distribute/overlap/pieces/in_pieces.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/conform.h"
#include "runtime/cli/ranks/rank_commands.h"
#include "runtime/ranks/exchange_names.h"

namespace tile::cli {

Division divided(const LoadedProgram& program, const std::vector<InputLayout>& inputs,
                 const MeshArguments& arguments) {
  return located(program.program().source, [&] {
    std::vector<InputType> types;
    for (const InputLayout& input : inputs) types.push_back(input.type);
    Mesh mesh = mesh_of(arguments.mesh, "--mesh");
    ChoiceOptions figures;
    figures.links.any = arguments.link;
    const Engine& engine = *program.engine();
    if (!engine.options().deterministic) figures.rates = rank_rates(engine.target());
    figures.alternatives = arguments.explains;
    return divide(program.program(), types, mesh, arguments.layouts, "--layout", figures);
  });
}

OverlapOptions overlap_of(const std::shared_ptr<Engine>& engine, const MeshArguments& arguments) {
  OverlapOptions options;
  size_t ranks = mesh_of(arguments.mesh, "--mesh").ranks();
  // Without a GPU here the text is of ranks that have theirs.
  options.on_device = engine->session() != nullptr ? LocalRanks(engine, ranks).is_linked()
                                                   : is_gpu(engine->target());
  options.mode = overlap_on(*engine, *overlap_named(arguments.overlap), options.on_device);
  options.links.any = arguments.link;
  if (!engine->options().deterministic) options.rates = rank_rates(engine->target());
  return options;
}

std::vector<RankProgram> overlapped_ranks(const std::shared_ptr<Engine>& engine,
                                          const PartitionedProgram& parts,
                                          const MeshArguments& arguments) {
  OverlapOptions options = overlap_of(engine, arguments);
  PartitionedProgram pieces = in_pieces(parts, options).parts;
  std::vector<RankProgram> ranks;
  for (size_t r = 0; r < pieces.ranks.size(); ++r) {
    ranks.push_back(overlapped(pieces, r, options).program);
  }
  return ranks;
}

std::string explained_overlap(const LoadedProgram& program, const Division& division,
                              const MeshArguments& arguments) {
  OverlapOptions options = overlap_of(program.engine(), arguments);
  PiecewiseProgram pieces = in_pieces(division.parts, options);
  std::vector<std::vector<Travel>> travels;
  for (size_t r = 0; r < pieces.parts.ranks.size(); ++r) {
    travels.push_back(overlapped(pieces.parts, r, options).travels);
  }
  const Source& source = *program.program().source;
  return explain_pieces(pieces.pieces, exchange_names(division.parts, source)) +
         explain_overlap(travels, exchange_names(pieces.parts, source));
}

LocalMesh mesh_for(const LoadedProgram& program, const std::vector<HostTensor>& inputs,
                   const MeshArguments& arguments, std::shared_ptr<LocalRanks> ranks) {
  return mesh_for(program, divided(program, layouts_of(inputs), arguments), arguments,
                  std::move(ranks));
}

LocalMesh mesh_for(const LoadedProgram& program, Division parts, const MeshArguments& arguments,
                   std::shared_ptr<LocalRanks> ranks) {
  return located(program.program().source, [&] {
    auto source = std::make_shared<const Program>(program.program());
    if (!ranks) {
      ranks = std::make_shared<LocalRanks>(program.engine(), parts.parts.ranks.size());
    }
    return LocalMesh(ranks, source, parts.program, std::move(parts.parts),
                     overlap_of(program.engine(), arguments));
  });
}

int command_conform(const std::vector<std::string>& files, const std::string& filter,
                    const MeshArguments& mesh, const Options& options) {
  if (mesh.mesh.empty()) return conform(files, filter, options);
  if (!mesh.transport.empty()) return conform_on_processes(files, filter, mesh, options);
  // All cases of a file have one engine.
  std::shared_ptr<LocalRanks> ranks;
  std::shared_ptr<Engine> engine;
  return conform(
      files, filter, options, [&](LoadedProgram& program, const std::vector<HostTensor>& inputs) {
        if (engine != program.engine()) {
          engine = program.engine();
          ranks = std::make_shared<LocalRanks>(engine, mesh_of(mesh.mesh, "--mesh").ranks());
        }
        return mesh_for(program, inputs, mesh, ranks).run(inputs);
      });
}

}  // namespace tile::cli
