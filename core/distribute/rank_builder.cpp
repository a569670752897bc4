#include "core/distribute/rank_builder.h"

#include "core/support/checked.h"
#include "core/support/control.h"

namespace tile {

RankBuilder::RankBuilder(const Mesh& mesh, SourcePtr source, const Links& links)
    : mesh_(mesh), links_(links), programs_(mesh.ranks()) {
  for (RankProgram& rank : programs_) rank.program.source = source;
}

TensorId RankBuilder::declare(const std::string& name, DType type, TensorRole role,
                              const std::vector<Box>& boxes) {
  std::string unique = name;
  for (int n = 2; !names_.insert(unique).second; ++n) unique = name + "." + std::to_string(n);
  TensorId id;
  for (size_t r = 0; r < programs_.size(); ++r) {
    checkpoint();
    BoundTensor tensor;
    tensor.name = unique;
    tensor.type = type;
    tensor.role = role;
    tensor.shape = boxes[r].shape();
    id = programs_[r].program.tensors.add(std::move(tensor));
  }
  return id;
}

void RankBuilder::add_input(TensorId id) {
  for (RankProgram& rank : programs_) rank.program.inputs.push_back(id);
}

void RankBuilder::add_output(TensorId id) {
  for (RankProgram& rank : programs_) rank.program.outputs.push_back(id);
}

void RankBuilder::exchange(const StoredTensor& source, TensorId result,
                           const std::vector<std::vector<NeedPart>>& needs,
                           std::optional<Aggregation> reduction, Span span) {
  std::vector<Transfer> transfers = transfers_of(mesh_, source.boxes, source.layout.partial, needs);
  for (RankProgram& rank : programs_) {
    Exchange exchange;
    exchange.source = source.local;
    exchange.result = result;
    exchange.reduction = reduction;
    exchange.span = span;
    rank.exchanges.push_back({rank.program.statements.size(), std::move(exchange)});
  }
  for (const Transfer& t : transfers) {
    checkpoint();
    Exchange& from = programs_[t.sender].exchanges.back().what;
    from.sends.push_back(
        {static_cast<int64_t>(t.receiver), relative(t.cells, source.boxes[t.sender].lo)});
    Box there = moved(relative(t.cells, t.cells.lo), t.at);
    programs_[t.receiver].exchanges.back().what.receives.push_back(
        {static_cast<int64_t>(t.sender), std::move(there)});
  }
  const BoundTensor& tensor = programs_[0].program.tensors[source.local];
  auto width = static_cast<int64_t>(byte_size(tensor.type));
  ExchangeSummary summary;
  summary.source = tensor.name;
  summary.result = programs_[0].program.tensors[result].name;
  summary.cost =
      exchange_cost(mesh_, source.boxes, needs, transfers, reduction.has_value(), width, links_);
  summary.span = span;
  exchanges_.push_back(std::move(summary));
}

std::vector<std::vector<NeedPart>> needs_of_boxes(const std::vector<Box>& boxes) {
  std::vector<std::vector<NeedPart>> needs;
  for (const Box& box : boxes) {
    needs.emplace_back();
    if (!box.empty()) needs.back().push_back({box, std::vector<int64_t>(box.dims(), 0)});
  }
  return needs;
}

}  // namespace tile
