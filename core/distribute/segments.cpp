#include "core/distribute/segments.h"

#include <algorithm>
#include <map>

#include "core/ir/analysis/uses.h"

namespace tile {
namespace {

class Splitter {
 public:
  explicit Splitter(const RankProgram& rank) : rank_(rank), last_use_(rank.program.tensors.size()) {
    const BoundProgram& program = rank.program;
    size_t segment = 0;
    auto use = [&](TensorId id, size_t where) {
      size_t& last = last_use_[storage_of(program, id)];
      last = std::max(last, where + 1);
    };
    auto next = rank.exchanges.begin();
    for (size_t i = 0; i <= program.statements.size(); ++i) {
      for (; next != rank.exchanges.end() && next->before == i; ++next) {
        // An exchange reads after its segment is done.
        use(next->what.source, ++segment);
      }
      if (i == program.statements.size()) break;
      for (TensorId id : read_by(program.statements[i])) use(id, segment);
    }
    for (TensorId id : program.outputs) use(id, segment + 1);
  }

  std::vector<Segment> run() {
    std::vector<Segment> segments;
    size_t begin = 0;
    for (size_t s = 0; s <= rank_.exchanges.size(); ++s) {
      size_t end =
          s < rank_.exchanges.size() ? rank_.exchanges[s].before : rank_.program.statements.size();
      segments.push_back(segment(s, begin, end));
      begin = end;
    }
    return segments;
  }

 private:
  // The statements [begin, end).
  Segment segment(size_t number, size_t begin, size_t end) {
    segment_ = {};
    segment_.program.source = rank_.program.source;
    local_.clear();
    std::vector<TensorId> written;
    for (size_t i = begin; i < end; ++i) {
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
      bool later = last_use_[id] > number + 1;
      if (!later || contains(segment_.outputs, id)) continue;
      segment_.outputs.push_back(id);
      TensorId here = renamed(id);
      segment_.program.tensors[here].role = TensorRole::output;
      segment_.program.outputs.push_back(here);
    }
    return std::move(segment_);
  }

  void add_input(TensorId id) {
    if (contains(segment_.inputs, id)) return;
    segment_.inputs.push_back(id);
    TensorId here = renamed(id);
    segment_.program.tensors[here].role = TensorRole::input;
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
  // Behind which segment a tensor is not read any more; a number larger by one: by the exchange
  // that follows it.
  IdVector<TensorId, size_t> last_use_;
  Segment segment_;
  std::map<TensorId, TensorId> local_;
};

}  // namespace

std::vector<Segment> segments_of(const RankProgram& rank) { return Splitter(rank).run(); }

}  // namespace tile
