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
                const std::string& layouts, const std::string& layouts_name, const Link& link) {
  auto text = std::make_shared<const Source>(Source{layouts_name, layouts});
  Division result;
  // Ranks exchange within the steps of a loop.
  result.program = tile::bind(with_repeats_written_out(program), inputs);
  check_assignments(result.program);
  Distribution distribution = in_text(text, [&] {
    WrittenLayouts written =
        layouts.empty() ? spread_layouts(result.program, mesh) : parse_layouts(text, mesh);
    return distribution_of(result.program, mesh, written);
  });
  PartitionOptions options;
  options.link = link;
  result.parts = partition(result.program, std::move(distribution), options);
  return result;
}

}  // namespace tile
