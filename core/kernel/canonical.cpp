#include "core/kernel/canonical.h"

#include <optional>
#include <string>
#include <vector>

#include "core/support/diagnostic.h"

namespace tile {
namespace {

// "a" … "z", "ba" …: no digits, which outline() (schedule/search/schedule_transfer.h) leaves out.
std::string letters(size_t number) {
  std::string text(1, static_cast<char>('a' + number % 26));
  return number < 26 ? text : letters(number / 26) + text;
}

// Numbers tensors as they come; what a view shows comes before the view.
class Numbering {
 public:
  explicit Numbering(const BoundTensors& from) : from_(from), numbers_(from.size()) {}

  void take(TensorId& id) { id = number(id); }
  // What the program called them, in the order of their numbers here.
  const std::vector<TensorId>& origins() const { return origins_; }
  const BoundTensors& tensors() const { return made_; }

 private:
  TensorId number(TensorId id, size_t views = 0) {
    internal_check(from_.contains(id) && views <= from_.size(),
                   "kernel: a tensor that is not there");
    std::optional<TensorId>& known = numbers_[id];
    if (known) return *known;
    BoundTensor tensor = from_[id];
    if (tensor.view_of) tensor.view_of = number(*tensor.view_of, views + 1);
    tensor.name = "T_" + letters(made_.size());
    known = made_.add(std::move(tensor));
    origins_.push_back(id);
    return *known;
  }

  const BoundTensors& from_;
  IdVector<TensorId, std::optional<TensorId>> numbers_;
  BoundTensors made_;
  std::vector<TensorId> origins_;
};

void take(Numbering& numbering, Contraction& c) {
  c.span = {};
  for (TensorId& id : c.outputs) numbering.take(id);
  for (Piece& piece : c.pieces) {
    for (size_t i = 0; i < piece.iterators.size(); ++i) piece.iterators[i] = "x_" + letters(i);
    for (Access& a : piece.stores) numbering.take(a.tensor);
    for (Access& a : piece.loads) numbering.take(a.tensor);
  }
  if (c.fill) numbering.take(*c.fill);
}

}  // namespace

Kernel canonical(const Kernel& kernel) {
  Kernel result = kernel;
  const BoundTensors& before = kernel.tensors;
  Numbering numbering(before);
  result.name = "K";
  for (TensorId& id : result.reads) numbering.take(id);
  for (KernelStage& stage : result.stages) take(numbering, stage.contraction);
  for (TensorId& id : result.writes) numbering.take(id);
  result.tensors = numbering.tensors();
  result.shapes.clear();
  result.begins.clear();
  for (TensorId id : numbering.origins()) {
    if (kernel.shapes.empty()) break;
    result.shapes.push_back(kernel.shapes.contains(id) ? kernel.shapes[id] : Shape{});
  }
  return result;
}

std::optional<BoundProgram> canonical(const BoundProgram& program) {
  BoundProgram result = program;
  Numbering numbering(program.tensors);
  for (TensorId& id : result.inputs) numbering.take(id);
  for (BoundStatement& statement : result.statements) {
    auto* c = std::get_if<Contraction>(&statement);
    if (c == nullptr) return std::nullopt;
    take(numbering, *c);
  }
  for (TensorId& id : result.outputs) numbering.take(id);
  result.tensors = numbering.tensors();
  return result;
}

}  // namespace tile
