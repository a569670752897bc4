#include "core/distribute/spread.h"

#include <algorithm>

namespace tile {
namespace {

// Tensors whose last dimension counts the components of tuples.
std::vector<bool> tuples_of(const BoundProgram& program) {
  std::vector<bool> tuples(program.tensors.size(), false);
  for (const BoundStatement& statement : program.statements) {
    const auto* c = std::get_if<Contraction>(&statement);
    if (c != nullptr && c->outputs.size() > 1) tuples[c->outputs[0].index()] = true;
  }
  return tuples;
}

WrittenLayout spread(const Shape& shape, size_t dims, const Mesh& mesh) {
  WrittenLayout layout;
  layout.dims.resize(shape.size());
  std::vector<int64_t> lengths(shape.begin(), shape.begin() + static_cast<ptrdiff_t>(dims));
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    auto longest = std::max_element(lengths.begin(), lengths.end());
    int64_t parts = mesh.axes[axis].size;
    if (longest == lengths.end() || *longest < parts) continue;
    layout.dims[static_cast<size_t>(longest - lengths.begin())].axes.push_back(axis);
    *longest /= parts;
  }
  return layout;
}

}  // namespace

WrittenLayouts spread_layouts(const BoundProgram& program, const Mesh& mesh, Unnamed others) {
  WrittenLayouts layouts;
  layouts.unnamed = others;
  std::vector<bool> tuples = tuples_of(program);
  for (const std::vector<TensorId>* list : {&program.inputs, &program.outputs}) {
    for (TensorId id : *list) {
      const BoundTensor& tensor = program.tensors[id];
      if (tensor.view_of || tensor.constant) continue;
      size_t dims = tensor.shape.size() - (tuples[id.index()] ? 1 : 0);
      layouts.tensors[tensor.name] = spread(tensor.shape, dims, mesh);
    }
  }
  return layouts;
}

}  // namespace tile
