#include "core/distribute/segments.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/ir/analysis/uses.h"

namespace tile {
namespace {

class Splitter {
 public:
  explicit Splitter(const RankProgram& rank) : rank_(rank), last_use_(rank.program.tensors.size()) {
    for (const PartOfTensor& part : rank.parts) whole_of_.emplace(part.part, part.whole);
  }

  SegmentedProgram run() {
    cut();
    note_uses();
    for (size_t s = 0; s < result_.steps.size(); ++s) {
      const SegmentStep& step = result_.steps[s];
      if (step.kind == SegmentStep::Kind::segment) {
        result_.segments.push_back(segment(s, statements_[step.number]));
      }
    }
    return std::move(result_);
  }

 private:
  const BoundStatement& statement(size_t i) const { return rank_.program.statements[i]; }

  // Which statements each segment has.
  void cut() {
    std::vector<size_t> now;
    std::vector<TensorId> begun;  // tensors of which `now` sets parts
    auto close = [&] {
      begun.clear();
      if (now.empty()) return;
      result_.steps.push_back({SegmentStep::Kind::segment, statements_.size()});
      statements_.push_back(std::exchange(now, {}));
    };
    for (RankStep step : tile::steps_of(rank_)) {
      if (step.kind != RankStep::Kind::statement) {
        close();
        bool begins = step.kind == RankStep::Kind::begin;
        result_.steps.push_back(
            {begins ? SegmentStep::Kind::begin : SegmentStep::Kind::end, step.number});
        continue;
      }
      for (TensorId id : read_by(statement(step.number))) {
        if (contains(begun, storage_of(rank_.program, id))) close();
      }
      now.push_back(step.number);
      for (TensorId id : written_by(statement(step.number))) {
        if (auto part = whole_of_.find(id); part != whole_of_.end()) begun.push_back(part->second);
      }
    }
    close();
  }

  void note_uses() {
    auto use = [&](TensorId id, size_t step) {
      size_t& last = last_use_[storage_of(rank_.program, id)];
      last = std::max(last, step);
    };
    for (size_t s = 0; s < result_.steps.size(); ++s) {
      const SegmentStep& step = result_.steps[s];
      if (step.kind == SegmentStep::Kind::segment) {
        for (size_t i : statements_[step.number]) {
          for (TensorId id : read_by(statement(i))) use(id, s);
        }
      } else if (step.kind == SegmentStep::Kind::begin) {
        use(rank_.exchanges[step.number].what.source, s);
      }
    }
    for (TensorId id : rank_.program.outputs) use(id, result_.steps.size());
    for (const PartOfTensor& part : rank_.parts) use(part.part, result_.steps.size());
  }

  Segment segment(size_t step, const std::vector<size_t>& statements) {
    segment_ = {};
    segment_.program.source = rank_.program.source;
    local_.clear();
    std::vector<TensorId> written;
    for (size_t i : statements) {
      BoundStatement statement = rank_.program.statements[i];
      for (TensorId id : written_by(statement)) written.push_back(id);
      for (TensorId id : read_by(statement)) {
        TensorId from = storage_of(rank_.program, id);
        bool before = !contains(written, from) && !rank_.program.tensors[from].constant;
        if (before) add_input(from);
      }
      std::visit([this](auto& s) { rename(s); }, statement);
      segment_.program.statements.push_back(std::move(statement));
    }
    for (TensorId id : written) {
      bool later = last_use_[id] > step;
      if (!later || contains(segment_.outputs, id)) continue;
      segment_.outputs.push_back(id);
      TensorId here = renamed(id);
      segment_.program.tensors.edit(here).role = TensorRole::output;
      segment_.program.outputs.push_back(here);
    }
    return std::move(segment_);
  }

  void add_input(TensorId id) {
    if (contains(segment_.inputs, id)) return;
    segment_.inputs.push_back(id);
    TensorId here = renamed(id);
    segment_.program.tensors.edit(here).role = TensorRole::input;
    segment_.program.inputs.push_back(here);
  }

  TensorId renamed(TensorId id) {
    auto known = local_.find(id);
    if (known != local_.end()) return known->second;
    BoundTensor tensor = rank_.program.tensors[id];
    if (tensor.view_of) tensor.view_of = renamed(*tensor.view_of);
    tensor.role = TensorRole::temporary;
    tensor.fixed = false;
    TensorId here = segment_.program.tensors.add(std::move(tensor));
    local_.emplace(id, here);
    return here;
  }

  void rename(Contraction& c) {
    for (TensorId& id : c.outputs) id = renamed(id);
    if (c.fill) c.fill = renamed(*c.fill);
    for (Piece& piece : c.pieces) {
      for (Access& a : piece.stores) a.tensor = renamed(a.tensor);
      for (Access& a : piece.loads) a.tensor = renamed(a.tensor);
    }
  }
  void rename(Sort& s) {
    s.source = renamed(s.source);
    s.result = renamed(s.result);
  }
  void rename(Scatter& s) {
    s.updates = renamed(s.updates);
    s.indices = renamed(s.indices);
    s.result = renamed(s.result);
  }
  void rename(BoundRepeat& r) {
    for (TensorId& id : r.operands) id = renamed(id);
    r.result = renamed(r.result);
  }

  const RankProgram& rank_;
  SegmentedProgram result_;
  std::vector<std::vector<size_t>> statements_;  // of each segment
  std::map<TensorId, TensorId> whole_of_;        // by the part
  IdVector<TensorId, size_t> last_use_;          // the last step that reads a tensor
  Segment segment_;
  std::map<TensorId, TensorId> local_;
};

}  // namespace

SegmentedProgram segments_of(const RankProgram& rank) { return Splitter(rank).run(); }

}  // namespace tile
