#include "runtime/cli/mesh_commands.h"

#include "core/distribute/spread.h"
#include "core/ir/repeat.h"
#include "core/passes/bind/bind.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/conform.h"

namespace tile::cli {

Divided divided(const LoadedProgram& program, const std::vector<InputLayout>& inputs,
                const MeshArguments& arguments) {
  auto mesh_text = std::make_shared<const Source>(Source{"--mesh", arguments.mesh});
  auto layout_text = std::make_shared<const Source>(Source{"--layout", arguments.layouts});
  const SourcePtr& source = program.program().source;
  Mesh mesh = located(mesh_text, [&] { return parse_mesh(mesh_text); });
  Divided result;
  result.program = located(source, [&] {
    std::vector<InputType> types;
    for (const InputLayout& input : inputs) types.push_back(input.type);
    // Ranks exchange within the steps of a loop.
    BoundProgram bound = tile::bind(with_repeats_written_out(program.program()), types);
    check_assignments(bound);
    return bound;
  });
  Distribution distribution = located(layout_text, [&] {
    WrittenLayouts written = arguments.layouts.empty() ? spread_layouts(result.program, mesh)
                                                       : parse_layouts(layout_text, mesh);
    return distribution_of(result.program, mesh, written);
  });
  PartitionOptions options;
  options.link = arguments.link;
  result.parts =
      located(source, [&] { return partition(result.program, std::move(distribution), options); });
  return result;
}

LocalMesh mesh_for(const LoadedProgram& program, const std::vector<HostTensor>& inputs,
                   const MeshArguments& arguments) {
  Divided parts = divided(program, layouts_of(inputs), arguments);
  return located(program.program().source, [&] {
    auto source = std::make_shared<const Program>(program.program());
    return LocalMesh(program.engine(), source, parts.program, std::move(parts.parts));
  });
}

int command_conform(const std::vector<std::string>& files, const std::string& filter,
                    const MeshArguments& mesh, const Options& options) {
  if (mesh.mesh.empty()) return conform(files, filter, options);
  return conform(files, filter, options,
                 [&](LoadedProgram& program, const std::vector<HostTensor>& inputs) {
                   return mesh_for(program, inputs, mesh).run(inputs);
                 });
}

}  // namespace tile::cli
