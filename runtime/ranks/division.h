// From a program, a mesh and layouts as texts to the programs of ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/distribute/choice/choice.h"
#include "core/distribute/partition.h"
#include "core/ir/program.h"
#include "core/support/failure_in_text.h"

namespace tile {

// "x=2,y=4"; `name` is what errors call the text. Throws FailureInText.
Mesh mesh_of(const std::string& text, const std::string& name);

struct Division {
  BoundProgram program;
  PartitionedProgram parts;
  std::optional<Choice> choice;  // none where unnamed tensors follow
};
// `layouts` as parse_layouts takes them. What they do not name is chosen by the figures, or follows
// what they name if they say so. Where they name nothing, and do not say `auto`, the inputs and
// outputs are spread over the mesh. Throws Failure in the program's text, and FailureInText.
Division divide(const Program& program, const std::vector<InputType>& inputs, const Mesh& mesh,
                const std::string& layouts, const std::string& layouts_name,
                const ChoiceOptions& figures = {});

}  // namespace tile
