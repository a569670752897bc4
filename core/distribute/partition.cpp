#include "core/distribute/partition.h"

#include <algorithm>

#include "core/distribute/partitioner.h"
#include "core/ir/analysis/uses.h"
#include "core/support/checked.h"
#include "core/support/control.h"

namespace tile {

TensorLayout without(const TensorLayout& layout, const std::vector<size_t>& axes,
                     const Mesh& mesh) {
  auto named = [&](size_t axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); };
  TensorLayout rest = layout;
  rest.partial.clear();
  for (DimLayout& dim : rest.dims) {
    size_t kept = 0;
    while (kept < dim.axes.size() && !named(dim.axes[kept])) ++kept;
    if (kept == dim.axes.size()) continue;
    std::vector<size_t> first(dim.axes.begin(), dim.axes.begin() + static_cast<ptrdiff_t>(kept));
    std::vector<size_t> last(dim.axes.begin() + static_cast<ptrdiff_t>(kept), dim.axes.end());
    size_t step = parts_of(mesh, last);
    DimLayout coarse{first, {}};
    for (size_t p = 0; p < dim.starts.size() && !first.empty(); p += step) {
      coarse.starts.push_back(dim.starts[p]);
    }
    dim = std::move(coarse);
  }
  return rest;
}

std::vector<bool> needed_statements(const BoundProgram& program) {
  IdVector<TensorId, bool> wanted(program.tensors.size());
  for (TensorId id : program.outputs) wanted[storage_of(program, id)] = true;
  std::vector<bool> needed(program.statements.size());
  for (size_t i = program.statements.size(); i-- > 0;) {
    const BoundStatement& statement = program.statements[i];
    for (TensorId id : written_by(statement)) needed[i] = needed[i] || wanted[id];
    if (!needed[i]) continue;
    for (TensorId id : read_by(statement)) wanted[storage_of(program, id)] = true;
  }
  return needed;
}

Partitioner::Partitioner(const BoundProgram& program, Distribution distribution,
                         const PartitionOptions& options)
    : program_(program),
      d_(std::move(distribution)),
      options_(options),
      ranks_(d_.mesh, program.source, options.links),
      stored_(program.tensors.size()) {}

PartitionedProgram Partitioner::run() {
  declare_inputs();
  std::vector<bool> needed = needed_statements(program_);
  for (size_t i = 0; i < program_.statements.size(); ++i) {
    if (needed[i]) statement(program_.statements[i]);
  }
  declare_outputs();
  PartitionedProgram result;
  for (const std::vector<TensorId>* list : {&program_.inputs, &program_.outputs}) {
    for (TensorId id : *list) {
      (list == &program_.inputs ? result.inputs : result.outputs).push_back(stored_[id]->boxes);
    }
  }
  result.ranks = std::move(ranks_.programs());
  result.exchanges = std::move(ranks_.exchanges());
  result.statements = std::move(statements_);
  result.distribution = std::move(d_);
  verify(result.ranks);
  return result;
}

void Partitioner::declare_inputs() {
  for (TensorId id : program_.tensors.ids()) {
    const BoundTensor& tensor = at(id);
    bool input =
        std::find(program_.inputs.begin(), program_.inputs.end(), id) != program_.inputs.end();
    if (!input && !tensor.constant) continue;
    std::vector<Box> boxes = boxes_of(d_.layouts[id], tensor.shape, d_.mesh);
    TensorId local = ranks_.declare(tensor.name, tensor.type, tensor.role, boxes);
    for (size_t r = 0; r < ranks_.ranks(); ++r) {
      ranks_.edit(r, local).constant = tensor.constant;
      ranks_.edit(r, local).fixed = tensor.fixed;
    }
    store(id, local, d_.layouts[id]);
  }
  for (TensorId id : program_.inputs) ranks_.add_input(stored_[id]->local);
}

void Partitioner::declare_outputs() {
  for (TensorId id : program_.outputs) ranks_.add_output(stored(id).local);
}

void Partitioner::statement(const BoundStatement& statement) {
  checkpoint_at(std::visit([](const auto& s) { return s.span; }, statement));
  exchanges_before_ = ranks_.exchanges().size();
  if (const auto* c = std::get_if<Contraction>(&statement)) {
    contraction(*c);
  } else if (const auto* s = std::get_if<Sort>(&statement)) {
    sort(*s);
  } else {
    scatter(std::get<Scatter>(statement));
  }
}

// Every rank sorts whole lines.
void Partitioner::sort(const Sort& sort) {
  const BoundTensor& result = at(sort.result);
  TensorLayout computed = computed_layout(sort.result);
  internal_check(computed.partial.empty(), "partition: partial sums of a sort");
  computed.dims[static_cast<size_t>(sort.axis)] = {};
  std::vector<Box> boxes = boxes_of(computed, result.shape, d_.mesh);
  TensorId source = exact(sort.source, boxes, sort.span);
  bool stays = computed == d_.layouts[sort.result];
  TensorId to =
      stays ? declare_result(sort.result, boxes)
            : ranks_.declare(result.name + ".whole", result.type, TensorRole::temporary, boxes);
  for (size_t r = 0; r < ranks_.ranks(); ++r) {
    Sort local = sort;
    local.source = source;
    local.result = to;
    ranks_.add(r, local);
  }
  store_computed(sort.result, computed, to, sort.span);
  summarize(sort.result, computed, {}, sort.span);
}

// Every rank adds all updates to its part of each row: the rows that indices name are kept whole.
void Partitioner::scatter(const Scatter& scatter) {
  const BoundTensor& result = at(scatter.result);
  TensorLayout computed = computed_layout(scatter.result);
  internal_check(computed.partial.empty(), "partition: partial sums of a scatter");
  computed.dims[0] = {};
  std::vector<Box> boxes = boxes_of(computed, result.shape, d_.mesh);
  const Shape& index_shape = at(scatter.indices).shape;
  std::vector<Box> all_indices(ranks_.ranks(), whole_box(index_shape));
  std::vector<Box> updates(ranks_.ranks(), whole_box(at(scatter.updates).shape));
  for (size_t r = 0; r < ranks_.ranks(); ++r) {
    for (size_t d = 1; d < result.shape.size(); ++d) {
      updates[r].lo[index_shape.size() + d - 1] = boxes[r].lo[d];
      updates[r].hi[index_shape.size() + d - 1] = boxes[r].hi[d];
    }
  }
  Scatter local = scatter;
  local.updates = exact(scatter.updates, updates, scatter.span);
  local.indices = exact(scatter.indices, all_indices, scatter.span);
  bool stays = computed == d_.layouts[scatter.result];
  local.result =
      stays ? declare_result(scatter.result, boxes)
            : ranks_.declare(result.name + ".whole", result.type, TensorRole::temporary, boxes);
  for (size_t r = 0; r < ranks_.ranks(); ++r) ranks_.add(r, local);
  store_computed(scatter.result, computed, local.result, scatter.span);
  summarize(scatter.result, computed, {}, scatter.span);
}

void Partitioner::summarize(TensorId result, const TensorLayout& computed,
                            const std::vector<ReductionCut>& cuts, Span span) {
  StatementSummary summary;
  summary.result = at(result).name;
  summary.computed = computed;
  summary.cuts = cuts;
  summary.span = span;
  summary.first_exchange = exchanges_before_;
  summary.exchanges = ranks_.exchanges().size() - exchanges_before_;
  double cells = 0, parts = 1;
  for (const Box& box : boxes_of(computed, at(result).shape, d_.mesh)) {
    cells += static_cast<double>(box.count());
  }
  for (const ReductionCut& cut : cuts) {
    parts *= static_cast<double>(parts_of(d_.mesh, cut.parts.axes));
  }
  auto once = static_cast<double>(element_count(at(result).shape));
  if (once > 0) summary.times = cells / once / parts;
  statements_.push_back(std::move(summary));
}

PartitionedProgram partition(const BoundProgram& program, Distribution distribution,
                             const PartitionOptions& options) {
  return Partitioner(program, std::move(distribution), options).run();
}

}  // namespace tile
