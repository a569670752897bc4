// Steps as text, for people.
#include "core/fusion/group.h"

namespace tile {

std::string print(const std::vector<Step>& steps, const BoundProgram& program) {
  auto name = [&](TensorId id) { return program.tensors[id].name; };
  std::string text;
  for (const Step& step : steps) {
    if (!text.empty()) text += "\n";
    if (const auto* kernel = std::get_if<Kernel>(&step)) {
      text += print(*kernel);
    } else if (const auto* sort = std::get_if<Sort>(&step)) {
      text += "sort " + name(sort->result) + " = " + name(sort->source) + " axis " +
              std::to_string(sort->axis) + (sort->indices ? " indices\n" : "\n");
    } else if (const auto* repeat = std::get_if<BoundRepeat>(&step)) {
      text += "repeat " + name(repeat->result) + " = " + std::to_string(repeat->trips) + " of " +
              name(repeat->operands[0]) + "\n";
    } else {
      const auto& scatter = std::get<Scatter>(step);
      text += "scatter " + name(scatter.result) + " = " + name(scatter.updates) + " at " +
              name(scatter.indices) + "\n";
    }
  }
  return text;
}

}  // namespace tile
