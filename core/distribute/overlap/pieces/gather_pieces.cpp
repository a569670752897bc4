#include "core/distribute/overlap/pieces/gather_pieces.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "core/distribute/overlap/interior.h"
#include "core/distribute/overlap/overlap_model.h"
#include "core/distribute/overlap/pieces/rebuilt.h"
#include "core/distribute/overlap/replicated.h"
#include "core/distribute/overlap/unread_cells.h"
#include "core/ir/analysis/uses.h"
#include "core/support/control.h"

namespace tile {
namespace {

// The statement's contraction, if it can be divided along cells of its one result.
const Contraction* dividable(const BoundStatement& statement) {
  const auto* c = std::get_if<Contraction>(&statement);
  if (c == nullptr || c->fill) return nullptr;
  bool one = std::ranges::all_of(c->outputs, [&](TensorId id) { return id == c->outputs[0]; });
  return one ? c : nullptr;
}

// One contraction that is in pieces, by its result, on each rank.
struct Member {
  TensorId result;
  std::vector<size_t> at;               // [rank]: the statement
  std::vector<std::vector<Box>> boxes;  // [rank][stage]: of the result
  std::vector<TensorId> parts;          // [stage]
};

// Stage 0 needs what the rank has, each other one what a piece of the exchange brings.
class GatherInPieces {
 public:
  GatherInPieces(const PartitionedProgram& before, size_t exchange, ExchangePieces cut,
                 const OverlapOptions& options)
      : before_(before),
        exchange_(exchange),
        cut_(std::move(cut)),
        options_(options),
        now_(before),
        tensors_(now_.ranks),
        gathered_(what(0).result) {}

  std::optional<Piecewise> run() {
    if (!find_readers() || !find_places()) return std::nullopt;
    note_arrivals();
    size_t readers = members_.size();
    for (size_t m = 0; m < readers; ++m) {
      if (!divide(members_[m])) return std::nullopt;
    }
    if (!find_followers()) return std::nullopt;
    Piecewise result;
    for (size_t r = 0; r < ranks(); ++r) rewrite(r);
    if (std::ranges::any_of(orders_, [&](const auto& order) { return order != orders_[0]; })) {
      return std::nullopt;
    }
    now_.exchanges = told_anew(before_.exchanges, orders_[0]);
    result.order = orders_[0];
    result.what = told();
    result.is_replicated = is_replicated();
    result.parts = std::move(now_);
    return result;
  }

 private:
  size_t ranks() const { return before_.ranks.size(); }
  const Exchange& what(size_t rank) const { return before_.ranks[rank].exchanges[exchange_].what; }
  const BoundProgram& program(size_t rank) const { return now_.ranks[rank].program; }
  const std::vector<BoundStatement>& statements(size_t rank) const {
    return before_.ranks[rank].program.statements;
  }
  const Contraction& contraction(const Member& m, size_t rank) const {
    return std::get<Contraction>(statements(rank)[m.at[rank]]);
  }

  // Whose results are set by a contraction on every rank, which can be divided.
  std::optional<Member> member_of(TensorId result) const {
    Member m{result, {}, {}, {}};
    for (size_t r = 0; r < ranks(); ++r) {
      for (size_t i = 0; i < statements(r).size() && m.at.size() == r; ++i) {
        if (contains(written_by(statements(r)[i]), result)) m.at.push_back(i);
      }
      if (m.at.size() == r || dividable(statements(r)[m.at[r]]) == nullptr) return std::nullopt;
      bool is_part = std::ranges::any_of(
          before_.ranks[r].parts, [&](const PartOfTensor& part) { return part.part == result; });
      if (is_part) return std::nullopt;
    }
    return m;
  }

  bool find_readers() {
    std::vector<std::pair<size_t, TensorId>> found;  // by their first place on some rank
    for (size_t r = 0; r < ranks(); ++r) {
      std::set<size_t> readers;
      for (size_t i = 0; i < statements(r).size(); ++i) {
        std::vector<TensorId> reads = read_by(statements(r)[i]);
        if (!contains(reads, gathered_)) continue;
        readers.insert(i);
        TensorId result = written_by(statements(r)[i])[0];
        bool known = std::ranges::any_of(found, [&](const auto& f) { return f.second == result; });
        if (!known) found.emplace_back(i, result);
      }
      if (is_used_beside(before_.ranks[r], gathered_, readers, exchange_)) return false;
    }
    std::ranges::sort(found);
    for (const auto& [at, result] : found) {
      std::optional<Member> m = member_of(result);
      if (!m || !insert(std::move(*m))) return false;
    }
    return !members_.empty();
  }

  // In the order of statements, which has to be one on all ranks.
  bool insert(Member m) {
    auto next = std::ranges::find_if(members_, [&](const Member& o) { return o.at[0] > m.at[0]; });
    for (size_t r = 0; r < ranks(); ++r) {
      if (next != members_.end() && next->at[r] < m.at[r]) return false;
      if (next != members_.begin() && std::prev(next)->at[r] > m.at[r]) return false;
    }
    members_.insert(next, std::move(m));
    return true;
  }

  bool find_places() {
    for (size_t r = 0; r < ranks(); ++r) {
      const RankProgram& rank = before_.ranks[r];
      size_t first = members_[0].at[r];
      RankRewriter::Place place{rank.exchanges[exchange_].before, first, true};
      for (size_t f = 0; f < rank.exchanges.size(); ++f) {
        const PlacedExchange& other = rank.exchanges[f];
        if (other.before > first || f == exchange_) continue;
        if (other.end > first) return false;
        if (f > exchange_ || other.travels()) place.begin = std::max(place.begin, other.end);
      }
      places_.push_back(place);
    }
    return std::ranges::all_of(members_, [&](const Member& m) { return is_early(m); });
  }

  // Whether all that the contraction reads is there where the first one begins, or a member's.
  bool is_early(const Member& m) const {
    for (size_t r = 0; r < ranks(); ++r) {
      size_t first = places_[r].first;
      std::set<TensorId> later;
      for (size_t i = first; i < m.at[r]; ++i) {
        for (TensorId id : written_by(statements(r)[i])) later.insert(id);
      }
      for (const PlacedExchange& other : before_.ranks[r].exchanges) {
        if (other.before > first) later.insert(other.what.result);
      }
      for (const PartOfTensor& part : before_.ranks[r].parts) {
        if (later.contains(part.part)) later.insert(part.whole);
      }
      for (const Member& earlier : members_) later.erase(earlier.result);
      for (TensorId id : read_by(contraction(m, r))) {
        if (later.contains(storage_of(before_.ranks[r].program, id))) return false;
      }
    }
    return true;
  }

  // Each piece comes into a tensor of its own.
  void note_arrivals() {
    arrived_.assign(ranks(), std::vector<ArrivedCells>(1 + cut_.count));
    for (size_t r = 0; r < ranks(); ++r) {
      if (!cut_.own[r]) continue;
      arrived_[r][0][gathered_] = {cut_.own[r]->received, what(r).source, cut_.own[r]->sent.lo, {}};
    }
    const BoundTensor tensor = program(0).tensors[gathered_];
    for (size_t k = 0; k < cut_.count; ++k) {
      std::vector<Shape> shapes;
      for (size_t r = 0; r < ranks(); ++r) {
        const auto& part = cut_.of_rank[r][k].receives;
        shapes.push_back(part ? part->box.shape() : no_cells(tensor.shape.size()));
      }
      TensorId id = tensors_.declare(tensor.name + ".piece", tensor.type, shapes);
      received_.push_back(id);
      for (size_t r = 0; r < ranks(); ++r) {
        const auto& part = cut_.of_rank[r][k].receives;
        if (!part) continue;
        std::vector<int64_t> origin(part->box.dims(), 0);
        arrived_[r][1 + k][gathered_] = {part->box, id, origin, {}};
      }
    }
  }

  bool is_late(TensorId id) const {
    return id == gathered_ || std::ranges::any_of(members_, [&](const Member& m) {
             return m.result == id && !m.parts.empty();
           });
  }

  // The cells of each stage, if together they are all.
  std::optional<std::vector<Box>> boxes_of(const Contraction& c, size_t r) const {
    Box whole = whole_box(program(r).tensors[c.outputs[0]].shape);
    std::vector<TensorId> late;
    for (TensorId id : read_by(c)) {
      if (is_late(storage_of(program(r), id))) late.push_back(id);
    }
    std::vector<Box> boxes(1 + cut_.count, Box{whole.lo, whole.lo});
    if (whole.dims() == 0 || whole.empty()) {
      if (!whole.empty() && !late.empty()) return std::nullopt;
      boxes[0] = whole;
      return boxes;
    }
    int64_t cells = 0;
    for (size_t s = 0; s < boxes.size(); ++s) {
      checkpoint();
      bool there =
          std::ranges::all_of(late, [&](TensorId id) { return arrived_[r][s].contains(id); });
      if (!there || (late.empty() && s > 0)) continue;
      boxes[s] = Interior(program(r), c, arrived_[r][s]).box().value_or(boxes[s]);
      for (size_t before = 0; before < s; ++before) {
        if (overlap(boxes[before], boxes[s])) return std::nullopt;
      }
      cells += boxes[s].count();
    }
    return cells == whole.count() ? std::optional(boxes) : std::nullopt;
  }

  bool divide(Member& m) {
    for (size_t r = 0; r < ranks(); ++r) {
      std::optional<std::vector<Box>> boxes = boxes_of(contraction(m, r), r);
      if (!boxes) return false;
      m.boxes.push_back(std::move(*boxes));
    }
    const BoundTensor tensor = program(0).tensors[m.result];
    for (size_t s = 0; s <= cut_.count; ++s) {
      std::vector<Shape> shapes;
      for (size_t r = 0; r < ranks(); ++r) shapes.push_back(m.boxes[r][s].shape());
      m.parts.push_back(tensors_.declare(tensor.name + ".piece", tensor.type, shapes));
      for (size_t r = 0; r < ranks(); ++r) {
        const Box& box = m.boxes[r][s];
        std::vector<int64_t> origin(box.dims(), 0);
        if (!box.empty()) arrived_[r][s][m.result] = {box, m.parts[s], origin, {}};
      }
    }
    return true;
  }

  // What follows cell by cell is joined with what it follows, in pieces as in one.
  bool find_followers() {
    for (size_t i = members_[0].at[0] + 1; i < statements(0).size(); ++i) {
      TensorId result = written_by(statements(0)[i])[0];
      if (is_late(result)) continue;
      std::optional<Member> m = member_of(result);
      if (!m || !is_early(*m)) continue;
      bool follows = true;
      for (size_t r = 0; r < ranks(); ++r) follows = follows && follows_cells(contraction(*m, r));
      if (follows && divide(*m) && !insert(std::move(*m))) return false;
    }
    return true;
  }

  bool follows_cells(const Contraction& c) const {
    bool follows = false;
    for (const Piece& piece : c.pieces) {
      for (const Access& load : piece.loads) {
        if (!is_late(load.tensor)) continue;
        if (piece.stores.size() != 1 || !same_cells(load, piece.stores[0])) return false;
        follows = true;
      }
    }
    return follows;
  }

  void rewrite(size_t r) {
    std::set<size_t> left_out;
    for (const Member& m : members_) left_out.insert(m.at[r]);
    RankRewriter rewriter(before_.ranks[r], exchange_, places_[r], left_out);
    PieceTimes& times = times_.emplace_back();
    std::vector<size_t> begun;
    rewriter.run(
        now_.ranks[r],
        [&] {
          for (size_t k = 0; k < cut_.count; ++k) begun.push_back(rewriter.begin(piece(r, k)));
        },
        [&] {
          times.own_ns = add_stage(rewriter, r, 0);
          for (size_t k = 0; k < cut_.count; ++k) {
            rewriter.end(begun[k]);
            times.computed_ns.push_back(add_stage(rewriter, r, 1 + k));
          }
        });
    for (size_t e : begun) {
      times.exchange_ns.push_back(model(r).exchange_ns(now_.ranks[r].exchanges[e].what,
                                                       program(r).tensors[gathered_].type));
    }
    orders_.push_back(rewriter.order());
    drop_unread_wholes(now_.ranks[r]);
  }

  Exchange piece(size_t r, size_t k) const {
    Exchange e = what(r);
    e.result = received_[k];
    e.piece = true;
    e.sends.clear();
    e.receives.clear();
    const ExchangePieces::Ends& ends = cut_.of_rank[r][k];
    if (ends.sends) e.sends.push_back(*ends.sends);
    if (ends.receives) {
      e.receives.push_back({ends.receives->rank, whole_box(ends.receives->box.shape())});
    }
    return e;
  }

  // How long its statements take.
  double add_stage(RankRewriter& rewriter, size_t r, size_t s) {
    double ns = 0;
    for (const Member& m : members_) {
      const Contraction& c = contraction(m, r);
      const Box& box = m.boxes[r][s];
      Box whole = whole_box(program(r).tensors[m.result].shape);
      if (whole.empty() && s == 0) rewriter.add(nothing(m.result, c));
      if (box.empty()) continue;
      Contraction part = part_of(program(r), c, box, m.parts[s], {arrived_[r][s]});
      internal_check(!contains(read_by(part), gathered_), "pieces: what is not there is read");
      ns += model(r).part_ns(program(r), part, box, whole.hi);
      rewriter.add(std::move(part));
      now_.ranks[r].parts.push_back({m.parts[s], m.result, box.lo});
    }
    return ns;
  }

  OverlapModel model(size_t rank) const { return {before_.distribution.mesh, rank, options_}; }

  PiecedExchange told() const {
    PiecedExchange told;
    told.pieces = cut_.count;
    told.gathers = true;
    for (const Member& m : members_) told.results.push_back(program(0).tensors[m.result].name);
    for (size_t r = 0; r < ranks(); ++r) {
      OverlapModel model = this->model(r);
      const BoundProgram& was = before_.ranks[r].program;
      double ns =
          model.exchange_ns(what(r), was.tensors[gathered_].type) + model.own_copy_ns(was, what(r));
      for (const Member& m : members_) ns += model.whole_ns(was, contraction(m, r));
      told.before_ns = std::max(told.before_ns, ns);
      told.now_ns = std::max(told.now_ns, model.gather_ns(times_[r]));
    }
    return told;
  }

  bool is_replicated() const {
    for (size_t r = 0; r < ranks(); ++r) {
      for (const Member& m : members_) {
        if (adds_as_others(before_.ranks, r, contraction(m, r))) return true;
      }
    }
    return false;
  }

  const PartitionedProgram& before_;
  size_t exchange_;
  ExchangePieces cut_;
  const OverlapOptions& options_;
  PartitionedProgram now_;
  MoreTensors tensors_;
  TensorId gathered_;
  std::vector<TensorId> received_;                  // of each piece
  std::vector<Member> members_;                     // in order
  std::vector<std::vector<ArrivedCells>> arrived_;  // [rank][stage]
  std::vector<RankRewriter::Place> places_;
  std::vector<PieceTimes> times_;
  std::vector<std::vector<size_t>> orders_;  // of each rank's exchanges
};

}  // namespace

std::optional<Piecewise> gathered_in_pieces(const PartitionedProgram& parts, size_t exchange,
                                            PieceCut cut, const OverlapOptions& options) {
  if (parts.ranks[0].exchanges[exchange].what.reduction) return std::nullopt;
  std::optional<ExchangePieces> pieces =
      pieces_of(parts.ranks, exchange, PieceOrder::of_receivers, cut);
  if (!pieces) return std::nullopt;
  std::optional<Piecewise> result =
      GatherInPieces(parts, exchange, std::move(*pieces), options).run();
  if (result) result->what.exchange = exchange;
  return result;
}

}  // namespace tile
