#include "core/distribute/overlap/overlap.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "core/distribute/overlap/interior.h"
#include "core/distribute/overlap/overlap_model.h"
#include "core/distribute/overlap/replicated.h"
#include "core/distribute/overlap/unread_cells.h"
#include "core/ir/analysis/uses.h"
#include "core/support/control.h"

namespace tile {
namespace {

// [guide] Kernels of devices store the cells of a part where they belong if it begins at a multiple
// of so many bytes; else they are copied there.
constexpr int64_t kStored = 16;

// The box, less cells at its ends where it, or what is behind it, would begin between such bytes.
Box at_stored_bytes(const Box& inner, const BoundTensor& result) {
  size_t cut = 0;  // the one dimension that is cut, if the cells stand side by side
  while (cut < inner.dims() && inner.hi[cut] - inner.lo[cut] == result.shape[cut]) ++cut;
  int64_t row = static_cast<int64_t>(byte_size(result.type));
  for (size_t d = inner.dims(); d-- > cut + 1; row *= result.shape[d]) {
    if (inner.hi[d] - inner.lo[d] != result.shape[d]) return inner;
  }
  for (size_t d = 0; d < cut; ++d) {
    if (result.shape[d] != 1) return inner;
  }
  if (cut == inner.dims()) return inner;
  int64_t step = kStored / std::gcd(kStored, row);
  Box box = inner;
  box.lo[cut] = (inner.lo[cut] + step - 1) / step * step;
  if (inner.hi[cut] < result.shape[cut]) box.hi[cut] = inner.hi[cut] / step * step;
  constexpr int64_t kMost = 8;  // of so many inner cells one may become a cell of the border
  int64_t cells = inner.hi[cut] - inner.lo[cut], left = box.hi[cut] - box.lo[cut];
  return (cells - left) * kMost <= cells ? box : inner;
}

class Overlapper {
 public:
  Overlapper(const PartitionedProgram& parts, size_t rank, const OverlapOptions& options)
      : parts_(parts),
        in_(parts.ranks[rank]),
        rank_(static_cast<int64_t>(rank)),
        mode_(options.mode),
        model_(parts.distribution.mesh, rank, options),
        late_(in_.program.tensors.size()) {
    out_.program = in_.program;
    out_.program.statements.clear();
    out_.parts = in_.parts;
    for (const BoundTensor& tensor : in_.program.tensors) names_.insert(tensor.name);
  }

  OverlappedProgram run() {
    for (RankStep step : steps_of(in_)) {
      checkpoint();
      if (step.kind == RankStep::Kind::statement) {
        const BoundStatement& next = in_.program.statements[step.number];
        pieces_.empty() ? statement(next) : out_.program.statements.push_back(next);
      } else if (in_.exchanges[step.number].travels() || !pieces_.empty()) {
        piece(step);
      } else if (step.kind == RankStep::Kind::begin) {
        begin(in_.exchanges[step.number].what);
      }
    }
    arrive();
    drop_unread_wholes(out_);
    drop_unread_cells(out_, rank_, served_);
    verify(out_);
    return {std::move(out_), std::move(travels_)};
  }

 private:
  bool is_late(TensorId id) const { return late_[storage_of(out_.program, id)]; }
  // What the tensor is a part of in the program as it was; null: it is none.
  const PartOfTensor* part_of_whole(TensorId id) const {
    auto part = std::ranges::find(in_.parts, id, &PartOfTensor::part);
    return part == in_.parts.end() ? nullptr : &*part;
  }
  // A tensor is late with each of its parts.
  void set_late(TensorId id, bool late) {
    late_[id] = late;
    if (const PartOfTensor* part = part_of_whole(id)) late_[part->whole] = late;
  }

  // Exchanges in pieces, and what runs beside them, stay as they are; nothing else is under way.
  void piece(RankStep step) {
    if (step.kind == RankStep::Kind::begin) {
      arrive();
      pieces_.push_back(out_.exchanges.size());
      size_t now = out_.program.statements.size();
      out_.exchanges.push_back({now, in_.exchanges[step.number].what, now});
      travels_.emplace_back();
    } else {
      out_.exchanges[pieces_.front()].end = out_.program.statements.size();
      pieces_.erase(pieces_.begin());
    }
  }

  void begin(const Exchange& what) {
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
    double hidden = std::min(times_.exchange_ns, times_.early_ns);
    bool worth = mode_ == Overlap::always || model_.is_worth_a_thread(hidden);
    for (size_t e : under_way_) {
      PlacedExchange& exchange = out_.exchanges[e];
      exchange.end = out_.program.statements.size();
      if (!worth) exchange.before = exchange.end;
      travels_[e].travels = exchange.travels();
      if (exchange.travels()) travels_[e].hidden_ns = hidden;
      late_[exchange.what.result] = false;
    }
    for (BoundStatement& statement : waiting_) {
      for (TensorId id : written_by(statement)) set_late(id, false);
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
      for (TensorId id : written_by(statement)) set_late(id, true);
      waiting_.push_back(statement);
    }
  }

  // Whether some cells need only what has arrived.
  bool divide(const Contraction& c, const std::vector<TensorId>& reads) {
    TensorId result = c.outputs[0];
    bool one = std::ranges::all_of(c.outputs, [&](TensorId id) { return id == result; });
    bool known = std::ranges::all_of(
        reads, [&](TensorId id) { return !is_late(id) || arrived_.contains(id); });
    if (!one || !known || c.fill || part_of_whole(result) != nullptr) return false;
    Box whole = whole_box(out_.program.tensors[result].shape);
    std::optional<Box> inner = Interior(out_.program, c, arrived_).box();
    if (!inner) return false;
    if (model_.is_of_device()) inner = at_stored_bytes(*inner, out_.program.tensors[result]);
    std::vector<Box> edges = difference(whole, *inner);
    DividedContraction parts{c, *inner, edges, served_by(reads), arrived_};
    double inner_ns = model_.inner_ns(out_.program, parts);
    if (mode_ != Overlap::always && !is_worth(parts, reads, inner_ns)) return false;
    note_travels(reads, static_cast<double>(inner->count()) / static_cast<double>(whole.count()));
    times_.early_ns += inner_ns;
    serve(reads);
    if (edges.empty()) {
      out_.program.statements.emplace_back(part_of(out_.program, c, whole, result, {arrived_}));
      return true;
    }
    divide_at(c, *inner, edges);
    return true;
  }

  // What follows cell by cell is joined with what it follows, in parts as in one.
  bool follows(const Box& inner, const std::vector<TensorId>& reads) const {
    return std::ranges::any_of(reads, [&](TensorId id) {
      auto arrived = arrived_.find(id);
      return edges_.contains(id) && arrived != arrived_.end() && arrived->second.box == inner;
    });
  }

  bool is_worth(const DividedContraction& parts, const std::vector<TensorId>& reads,
                double inner_ns) const {
    if (adds_as_others(parts_.ranks, static_cast<size_t>(rank_), parts.what)) return false;
    double hidden = std::min(inner_ns, times_.exchange_ns - times_.early_ns);
    return follows(parts.inner, reads) || model_.is_worth(out_.program, parts, hidden);
  }

  // The exchanges under way whose results it is the first to read.
  std::vector<const Exchange*> served_by(const std::vector<TensorId>& reads) const {
    std::vector<const Exchange*> exchanges;
    for (size_t e : under_way_) {
      const Exchange& what = out_.exchanges[e].what;
      if (contains(reads, what.result) && !served_.contains(e)) exchanges.push_back(&what);
    }
    return exchanges;
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
    behind.push_back(arrived_);  // what the rank itself has is read where it is, here too
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

  const PartitionedProgram& parts_;
  const RankProgram& in_;
  int64_t rank_;
  Overlap mode_;
  OverlapModel model_;
  RankProgram out_;
  std::vector<Travel> travels_;
  std::set<std::string> names_;
  std::set<size_t> served_;     // exchanges whose results are read in parts
  std::vector<size_t> pieces_;  // that have begun and not ended
  // Until the next arrival:
  std::vector<size_t> under_way_;        // exchanges
  std::vector<BoundStatement> waiting_;  // for them
  IdVector<TensorId, bool> late_;        // storage that they, or what waits, will set
  ArrivedCells arrived_;                 // of late tensors
  std::map<TensorId, std::vector<std::pair<Box, TensorId>>> edges_;  // parts of late tensors
  struct Times {
    double exchange_ns = 0, early_ns = 0;  // of what travels; of what runs meanwhile
  } times_;
};

}  // namespace

std::optional<Overlap> overlap_named(std::string_view name) {
  if (name == "auto") return Overlap::automatic;
  if (name == "always") return Overlap::always;
  if (name == "never") return Overlap::never;
  return std::nullopt;
}

OverlappedProgram overlapped(const PartitionedProgram& parts, size_t rank,
                             const OverlapOptions& options) {
  if (options.mode == Overlap::never) {
    const RankProgram& own = parts.ranks[rank];
    return {own, std::vector<Travel>(own.exchanges.size())};
  }
  return Overlapper(parts, rank, options).run();
}

}  // namespace tile
