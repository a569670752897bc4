#include "runtime/ranks/division.h"

#include "core/distribute/spread.h"
#include "core/ir/repeat.h"
#include "core/passes/bind/bind.h"

namespace tile {
namespace {

template <class Work>
auto in_text(const SourcePtr& text, Work&& work) {
  try {
    return work();
  } catch (const Failure& failure) {
    throw FailureInText(failure.diagnostic(), text);
  }
}

}  // namespace

Mesh mesh_of(const std::string& text, const std::string& name) {
  auto source = std::make_shared<const Source>(Source{name, text});
  return in_text(source, [&] { return parse_mesh(source); });
}

Division divide(const Program& program, const std::vector<InputType>& inputs, const Mesh& mesh,
                const std::string& layouts, const std::string& layouts_name,
                const ChoiceOptions& figures) {
  auto text = std::make_shared<const Source>(Source{layouts_name, layouts});
  Division result;
  // Ranks exchange within the steps of a loop.
  result.program = tile::bind(with_repeats_written_out(program), inputs);
  check_assignments(result.program);
  Distribution distribution = in_text(text, [&] {
    WrittenLayouts written = parse_layouts(text, mesh);
    if (written.names_nothing()) written = spread_layouts(result.program, mesh, written.unnamed);
    if (written.unnamed == Unnamed::follow) return distribution_of(result.program, mesh, written);
    result.choice =
        choose_layouts(result.program, named_layouts(result.program, mesh, written), figures);
    return result.choice->distribution;
  });
  PartitionOptions options;
  options.links = figures.links;
  result.parts = partition(result.program, std::move(distribution), options);
  return result;
}

}  // namespace tile
