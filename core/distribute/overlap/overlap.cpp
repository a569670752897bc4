#include "core/distribute/overlap/overlap.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/distribute/overlap/interior.h"
#include "core/distribute/overlap/overlap_model.h"
#include "core/distribute/overlap/unread_cells.h"
#include "core/ir/analysis/uses.h"
#include "core/support/control.h"

namespace tile {
namespace {

class Overlapper {
 public:
  Overlapper(const RankProgram& program, size_t rank, const Mesh& mesh,
             const OverlapOptions& options)
      : in_(program),
        rank_(static_cast<int64_t>(rank)),
        mode_(options.mode),
        model_(mesh, rank, options),
        late_(program.program.tensors.size()) {
    out_.program = program.program;
    out_.program.statements.clear();
    for (const BoundTensor& tensor : program.program.tensors) names_.insert(tensor.name);
  }

  OverlappedProgram run() {
    for (RankStep step : steps_of(in_)) {
      checkpoint();
      if (step.kind == RankStep::Kind::begin) begin(in_.exchanges[step.number].what);
      if (step.kind == RankStep::Kind::statement) statement(in_.program.statements[step.number]);
    }
    arrive();
    drop_unread_wholes(out_);
    drop_unread_cells(out_, rank_, served_);
    verify(out_);
    return {std::move(out_), std::move(travels_)};
  }

 private:
  bool is_late(TensorId id) const { return late_[storage_of(out_.program, id)]; }

  void begin(const Exchange& what) {
    internal_check(in_.parts.empty(), "overlap: a program that overlaps already");
    if (is_late(what.source)) arrive();
    under_way_.push_back(out_.exchanges.size());
    out_.exchanges.push_back({out_.program.statements.size(), what});
    travels_.emplace_back();
    times_.exchange_ns += model_.exchange_ns(what, out_.program.tensors[what.source].type);
    late_[what.result] = true;
    if (!what.reduction) note_own_cells(what);
  }

  // What the rank gives itself is where it was: of parts that lie alike there and in the result
  // those with the most cells.
  void note_own_cells(const Exchange& what) {
    std::map<std::vector<int64_t>, std::vector<Box>> alike;  // by the way from the result to there
    auto own = [&](const Exchange::Part& part) { return part.rank == rank_; };
    auto sent = std::ranges::find_if(what.sends, own);
    for (const Exchange::Part& part : what.receives) {
      if (!own(part)) continue;
      if (!part.box.empty()) alike[relative(sent->box, part.box.lo).lo].push_back(part.box);
      sent = std::find_if(sent + 1, what.sends.end(), own);
    }
    int64_t most = 0;
    for (const auto& [way, boxes] : alike) {
      int64_t cells = 0;
      for (const Box& box : boxes) cells += box.count();
      if (cells > most) arrived_[what.result] = arrived_by(what.source, way, boxes);
      most = std::max(most, cells);
    }
  }

  static Arrived arrived_by(TensorId from, const std::vector<int64_t>& way,
                            const std::vector<Box>& boxes) {
    Arrived arrived{boxes[0], from, {}, {}};
    for (const Box& box : boxes) arrived.box = hull(arrived.box, box);
    arrived.at = moved(arrived.box, way).lo;
    arrived.holes.push_back(arrived.box);
    for (const Box& box : boxes) {
      std::vector<Box> left;
      for (const Box& hole : arrived.holes) {
        for (Box& rest : difference(hole, box)) left.push_back(std::move(rest));
      }
      arrived.holes = std::move(left);
    }
    std::erase_if(arrived.holes, [](const Box& hole) { return hole.empty(); });
    return arrived;
  }

  // What travels ends here, and what waits for it runs.
  void arrive() {
    bool worth =
        mode_ == Overlap::always || times_.divided || model_.is_worth_a_thread(times_.early_ns);
    for (size_t e : under_way_) {
      PlacedExchange& exchange = out_.exchanges[e];
      exchange.end = out_.program.statements.size();
      if (!worth) exchange.before = exchange.end;
      travels_[e].travels = exchange.travels();
      if (exchange.travels()) travels_[e].hidden_ns = std::min(times_.exchange_ns, times_.early_ns);
      late_[exchange.what.result] = false;
    }
    for (BoundStatement& statement : waiting_) {
      for (TensorId id : written_by(statement)) late_[id] = false;
      out_.program.statements.push_back(std::move(statement));
    }
    for (const auto& [whole, parts] : edges_) late_[whole] = false;
    under_way_.clear();
    waiting_.clear();
    arrived_.clear();
    edges_.clear();
    times_ = {};
  }

  void statement(const BoundStatement& statement) {
    std::vector<TensorId> reads = read_by(statement);
    bool waits = std::ranges::any_of(reads, [&](TensorId id) { return is_late(id); });
    const auto* c = std::get_if<Contraction>(&statement);
    if (!waits) {
      if (c != nullptr && !under_way_.empty())
        times_.early_ns += model_.compute_ns(out_.program, *c);
      out_.program.statements.push_back(statement);
    } else if (c == nullptr || !divide(*c, reads)) {
      for (TensorId id : written_by(statement)) late_[id] = true;
      waiting_.push_back(statement);
    }
  }

  // Whether some cells need only what has arrived.
  bool divide(const Contraction& c, const std::vector<TensorId>& reads) {
    TensorId result = c.outputs[0];
    bool one = std::ranges::all_of(c.outputs, [&](TensorId id) { return id == result; });
    bool known = std::ranges::all_of(
        reads, [&](TensorId id) { return !is_late(id) || arrived_.contains(id); });
    if (!one || !known || c.fill) return false;
    Box whole = whole_box(out_.program.tensors[result].shape);
    std::optional<Box> inner = Interior(out_.program, c, arrived_).box();
    if (!inner) return false;
    std::vector<Box> edges = difference(whole, *inner);
    double inner_ns = 0;
    if (!is_worth(c, reads, *inner, edges.size(), inner_ns)) return false;
    note_travels(reads, static_cast<double>(inner->count()) / static_cast<double>(whole.count()));
    times_.early_ns += inner_ns;
    times_.divided = true;
    serve(reads);
    if (edges.empty()) {
      out_.program.statements.emplace_back(part_of(out_.program, c, whole, result, {arrived_}));
      return true;
    }
    divide_at(c, *inner, edges);
    return true;
  }

  bool is_worth(const Contraction& c, const std::vector<TensorId>& reads, const Box& inner,
                size_t edges, double& inner_ns) const {
    auto share = static_cast<double>(inner.count()) /
                 static_cast<double>(element_count(out_.program.tensors[c.outputs[0]].shape));
    double all_ns = model_.compute_ns(out_.program, c);
    inner_ns = share * all_ns;
    if (mode_ == Overlap::always) return true;
    double hidden = std::min(inner_ns, times_.exchange_ns - times_.early_ns);
    double copied = 0;
    for (TensorId id : reads) {
      auto own = arrived_.find(id);
      if (own == arrived_.end() || edges_.contains(id)) continue;
      copied += model_.copy_ns(own->second.box, out_.program.tensors[id].type);
    }
    return model_.is_worth(hidden, copied, all_ns - inner_ns, edges);
  }

  void note_travels(const std::vector<TensorId>& reads, double inner) {
    for (size_t e : under_way_) {
      bool serves = contains(reads, out_.exchanges[e].what.result);
      if (serves && travels_[e].inner == 0) travels_[e].inner = inner;
    }
  }
  void serve(const std::vector<TensorId>& reads) {
    for (size_t e : under_way_) {
      if (contains(reads, out_.exchanges[e].what.result)) served_.insert(e);
    }
  }

  void divide_at(const Contraction& c, const Box& inner, const std::vector<Box>& edges) {
    TensorId result = c.outputs[0];
    TensorId first = declare_part(result, inner, ".inner");
    out_.program.statements.emplace_back(part_of(out_.program, c, inner, first, {arrived_}));
    std::vector<ArrivedCells> behind = cells_behind();
    std::vector<std::pair<Box, TensorId>> parts;
    for (const Box& box : edges) {
      TensorId part = declare_part(result, box, ".edge");
      waiting_.emplace_back(part_of(out_.program, c, box, part, behind));
      parts.emplace_back(box, part);
    }
    std::vector<int64_t> origin(inner.dims(), 0);
    arrived_[result] = {inner, first, origin, {}};
    edges_[result] = std::move(parts);
    late_[result] = true;
  }

  // Parts that statements which wait set: those behind them read them there, so that passes can
  // join the two.
  std::vector<ArrivedCells> cells_behind() const {
    std::vector<ArrivedCells> cells;
    for (const auto& [whole, parts] : edges_) {
      for (size_t i = 0; i < parts.size(); ++i) {
        if (cells.size() <= i) cells.emplace_back();
        const auto& [box, part] = parts[i];
        cells[i][whole] = {box, part, std::vector<int64_t>(box.dims(), 0), {}};
      }
    }
    return cells;
  }

  TensorId declare_part(TensorId whole, const Box& box, const std::string& suffix) {
    BoundTensor part = out_.program.tensors[whole];
    std::string name = part.name + suffix;
    part.name = name;
    for (int n = 2; !names_.insert(part.name).second; ++n) {
      part.name = name + "." + std::to_string(n);
    }
    part.role = TensorRole::temporary;
    part.shape = box.shape();
    TensorId id = out_.program.tensors.add(std::move(part));
    late_.push_back(false);
    out_.parts.push_back({id, whole, box.lo});
    return id;
  }

  const RankProgram& in_;
  int64_t rank_;
  Overlap mode_;
  OverlapModel model_;
  RankProgram out_;
  std::vector<Travel> travels_;
  std::set<std::string> names_;
  std::set<size_t> served_;  // exchanges whose results are read in parts
  // Until the next arrival:
  std::vector<size_t> under_way_;        // exchanges
  std::vector<BoundStatement> waiting_;  // for them
  IdVector<TensorId, bool> late_;        // storage that they, or what waits, will set
  ArrivedCells arrived_;                 // of late tensors
  std::map<TensorId, std::vector<std::pair<Box, TensorId>>> edges_;  // parts of late tensors
  struct Times {
    double exchange_ns = 0, early_ns = 0;  // of what travels; of what runs meanwhile
    bool divided = false;                  // whether some of that is a part of what waits
  } times_;
};

}  // namespace

std::optional<Overlap> overlap_named(std::string_view name) {
  if (name == "auto") return Overlap::automatic;
  if (name == "always") return Overlap::always;
  if (name == "never") return Overlap::never;
  return std::nullopt;
}

OverlappedProgram overlapped(const RankProgram& program, size_t rank, const Mesh& mesh,
                             const OverlapOptions& options) {
  if (options.mode == Overlap::never) {
    return {program, std::vector<Travel>(program.exchanges.size())};
  }
  return Overlapper(program, rank, mesh, options).run();
}

}  // namespace tile
