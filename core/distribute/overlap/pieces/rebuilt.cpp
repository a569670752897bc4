#include "core/distribute/overlap/pieces/rebuilt.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/ir/analysis/uses.h"

namespace tile {

RankRewriter::RankRewriter(const RankProgram& before, size_t exchange, Place place,
                           std::set<size_t> left_out)
    : before_(before), exchange_(exchange), place_(place), left_out_(std::move(left_out)) {}

void RankRewriter::run(RankProgram& program, const std::function<void()>& begin,
                       const std::function<void()>& wait) {
  program_ = &program;
  program.program.statements.clear();
  program.exchanges.clear();
  std::map<size_t, size_t> travelling;  // new numbers by old ones
  for (size_t i = 0; i <= before_.program.statements.size(); ++i) {
    for (const auto& [old, now] : travelling) {
      if (before_.exchanges[old].end == i) end(now);
    }
    place(i, false, travelling);
    bool behind = i != place_.begin || place_.is_last;
    if (behind) place(i, true, travelling);
    if (i == place_.begin) begin();
    if (i == place_.first) wait();
    if (!behind) place(i, true, travelling);
    bool stays = i < before_.program.statements.size() && !left_out_.contains(i);
    if (stays) add(before_.program.statements[i]);
  }
  program_ = nullptr;
}

void RankRewriter::place(size_t at, bool later, std::map<size_t, size_t>& travelling) {
  for (size_t e = 0; e < before_.exchanges.size(); ++e) {
    const PlacedExchange& placed = before_.exchanges[e];
    if (placed.before != at || e == exchange_ || (e > exchange_) != later) continue;
    order_.push_back(e);
    size_t now = program_->exchanges.size();
    program_->exchanges.push_back({statements(), placed.what});
    if (placed.travels()) travelling[e] = now;
  }
}

void RankRewriter::add(BoundStatement statement) {
  program_->program.statements.push_back(std::move(statement));
}

size_t RankRewriter::begin(Exchange what) {
  order_.push_back(exchange_);
  program_->exchanges.push_back({program_->program.statements.size(), std::move(what)});
  return program_->exchanges.size() - 1;
}

void RankRewriter::end(size_t exchange) {
  program_->exchanges[exchange].end = program_->program.statements.size();
}

MoreTensors::MoreTensors(std::vector<RankProgram>& ranks) : ranks_(ranks) {
  for (const BoundTensor& tensor : ranks[0].program.tensors) names_.insert(tensor.name);
}

TensorId MoreTensors::declare(const std::string& name, DType type,
                              const std::vector<Shape>& shapes) {
  std::string unique = name;
  for (int n = 2; !names_.insert(unique).second; ++n) unique = name + "." + std::to_string(n);
  TensorId id;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    BoundTensor tensor;
    tensor.name = unique;
    tensor.type = type;
    tensor.shape = shapes[r];
    id = ranks_[r].program.tensors.add(std::move(tensor));
  }
  return id;
}

Shape no_cells(size_t dims) { return Shape(dims, 0); }

Contraction nothing(TensorId result, const Contraction& like) {
  Contraction c = like;
  c.outputs.assign(1, result);
  c.pieces.clear();
  c.fill.reset();
  return c;
}

bool is_used_beside(const RankProgram& rank, TensorId id, const std::set<size_t>& statements,
                    size_t exchange) {
  const BoundProgram& program = rank.program;
  auto is = [&](TensorId other) { return storage_of(program, other) == id; };
  for (size_t i = 0; i < program.statements.size(); ++i) {
    if (statements.contains(i)) continue;
    std::vector<TensorId> used = read_by(program.statements[i]);
    std::ranges::copy(written_by(program.statements[i]), std::back_inserter(used));
    if (std::ranges::any_of(used, is)) return true;
  }
  for (size_t e = 0; e < rank.exchanges.size(); ++e) {
    const Exchange& what = rank.exchanges[e].what;
    if (e != exchange && (is(what.source) || is(what.result))) return true;
  }
  for (const PartOfTensor& part : rank.parts) {
    if (part.part == id || part.whole == id) return true;
  }
  return std::ranges::any_of(program.outputs, is) || std::ranges::any_of(program.inputs, is);
}

std::vector<ExchangeSummary> told_anew(const std::vector<ExchangeSummary>& before,
                                       const std::vector<size_t>& order) {
  std::vector<ExchangeSummary> now;
  for (size_t e : order) {
    now.push_back(before[e]);
    ExchangeCost& cost = now.back().cost;
    if (std::ranges::count(order, e) > 1) cost = {.kind = cost.kind};
  }
  return now;
}

}  // namespace tile
