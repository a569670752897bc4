#include "core/distribute/overlap/pieces/scatter_pieces.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/distribute/overlap/interior.h"
#include "core/distribute/overlap/overlap_model.h"
#include "core/distribute/overlap/pieces/rebuilt.h"
#include "core/distribute/sums.h"
#include "core/ir/analysis/uses.h"
#include "core/ir/ranks/reduce_part.h"
#include "core/support/control.h"

namespace tile {
namespace {

class ScatterInPieces {
 public:
  ScatterInPieces(const PartitionedProgram& before, size_t exchange, ExchangePieces cut,
                  PieceCut how, const OverlapOptions& options)
      : before_(before),
        exchange_(exchange),
        cut_(std::move(cut)),
        how_(how),
        options_(options),
        now_(before),
        tensors_(now_.ranks),
        terms_(what(0).source),
        sums_(what(0).result) {}

  std::optional<Piecewise> run() {
    for (size_t r = 0; r < ranks(); ++r) {
      if (!is_possible(r)) return std::nullopt;
    }
    declare();
    for (size_t r = 0; r < ranks(); ++r) rewrite(r);
    if (std::ranges::any_of(orders_, [&](const auto& order) { return order != orders_[0]; })) {
      return std::nullopt;
    }
    Piecewise result;
    now_.exchanges = told_anew(before_.exchanges, orders_[0]);
    result.order = orders_[0];
    result.what = told();
    result.parts = std::move(now_);
    return result;
  }

 private:
  size_t ranks() const { return before_.ranks.size(); }
  size_t stages() const { return cut_.count / how_.chunks; }
  const PlacedExchange& placed(size_t rank) const {
    return before_.ranks[rank].exchanges[exchange_];
  }
  const Exchange& what(size_t rank) const { return placed(rank).what; }
  const BoundProgram& program(size_t rank) const { return now_.ranks[rank].program; }
  const Contraction& contraction(size_t rank) const {
    return std::get<Contraction>(before_.ranks[rank].program.statements[makers_[rank]]);
  }

  bool is_possible(size_t r) {
    const RankProgram& rank = before_.ranks[r];
    const std::vector<BoundStatement>& statements = rank.program.statements;
    std::optional<size_t> maker;
    for (size_t i = 0; i < placed(r).before; ++i) {
      if (contains(written_by(statements[i]), terms_)) maker = i;
    }
    if (!maker || is_used_beside(rank, terms_, {*maker}, exchange_)) return false;
    const auto* c = std::get_if<Contraction>(&statements[*maker]);
    bool one =
        c != nullptr && std::ranges::all_of(c->outputs, [&](TensorId id) { return id == terms_; });
    if (!one || rank.program.tensors[terms_].type == DType::bool_) return false;
    makers_.push_back(*maker);
    if (c->fill.has_value() != contraction(0).fill.has_value()) return false;
    return receives_all(r) && sends_apart(r) && is_apart(r);
  }

  // Every part of the sum is of all its cells.
  bool receives_all(size_t r) const {
    Box whole = whole_box(before_.ranks[r].program.tensors[sums_].shape);
    if (whole.empty()) return what(r).receives.empty();
    return !what(r).receives.empty() &&
           std::ranges::all_of(what(r).receives,
                               [&](const Exchange::Part& part) { return part.box == whole; });
  }
  // No cell is computed twice.
  bool sends_apart(size_t r) const {
    const std::vector<Exchange::Part>& sends = what(r).sends;
    for (size_t i = 0; i < sends.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (overlap(sends[i].box, sends[j].box)) return false;
      }
    }
    return true;
  }
  // Nothing that began earlier travels on.
  bool is_apart(size_t r) const {
    size_t at = placed(r).before;
    for (size_t f = 0; f < before_.ranks[r].exchanges.size(); ++f) {
      const PlacedExchange& other = before_.ranks[r].exchanges[f];
      bool earlier = other.before < at || (other.before == at && f < exchange_);
      if (earlier && other.end > at) return false;
    }
    return true;
  }

  void declare() {
    const BoundTensor sums = program(0).tensors[sums_];
    size_t dims = sums.shape.size();
    auto shapes_of = [&](const auto& box_of) {
      std::vector<Shape> shapes;
      for (size_t r = 0; r < ranks(); ++r) {
        std::optional<Box> box = box_of(r);
        shapes.push_back(box ? box->shape() : no_cells(dims));
      }
      return shapes;
    };
    made_.own = declare_part(shapes_of(
        [&](size_t r) { return cut_.own[r] ? std::optional(cut_.own[r]->sent) : std::nullopt; }));
    for (size_t s = 0; s < stages(); ++s) {
      made_.received.push_back(
          tensors_.declare(sums.name + ".terms", sums.type, shapes_of([&](size_t r) {
                             bool any = false;
                             for (size_t j = 0; j < how_.chunks; ++j)
                               any = any || received(r, s, j).has_value();
                             Box whole = whole_box(program(r).tensors[sums_].shape);
                             return any ? std::optional(whole) : std::nullopt;
                           })));
      for (size_t j = 0; j < how_.chunks; ++j) {
        const size_t k = s * how_.chunks + j;
        made_.sent.push_back(declare_part(shapes_of([&](size_t r) {
          const auto& part = cut_.of_rank[r][k].sends;
          return part ? std::optional(part->box) : std::nullopt;
        })));
        if (how_.chunks == 1) continue;
        made_.chunks.push_back(
            tensors_.declare(sums.name + ".piece", sums.type,
                             shapes_of([&](size_t r) { return received(r, s, j); })));
      }
    }
  }

  // Terms of some cells, and what those get that have none.
  struct Part {
    TensorId terms, fill;
  };
  Part declare_part(const std::vector<Shape>& shapes) {
    const BoundTensor terms = program(0).tensors[terms_];
    Part part;
    part.terms = tensors_.declare(terms.name + ".piece", terms.type, shapes);
    if (contraction(0).fill) {
      part.fill = tensors_.declare(terms.name + ".identity", terms.type, shapes);
    }
    return part;
  }

  std::optional<Box> received(size_t r, size_t s, size_t j) const {
    const auto& part = cut_.of_rank[r][s * how_.chunks + j].receives;
    return part ? std::optional(part->box) : std::nullopt;
  }

  void rewrite(size_t r) {
    RankRewriter::Place place{placed(r).before, placed(r).before, false};
    RankRewriter rewriter(before_.ranks[r], exchange_, place, {makers_[r]});
    PieceTimes& times = times_.emplace_back();
    std::vector<size_t> begun;
    auto fill = [&] {
      for (size_t k = 0; k < cut_.count; ++k) {
        const auto& part = cut_.of_rank[r][k].sends;
        times.computed_ns.push_back(
            add_part(rewriter, r, part ? std::optional(part->box) : std::nullopt, made_.sent[k]));
        begun.push_back(rewriter.begin(piece(r, k)));
      }
      if (cut_.own[r]) times.own_ns = add_part(rewriter, r, cut_.own[r]->sent, made_.own);
      for (size_t e : begun) rewriter.end(e);
      rewriter.add(sum(r));
    };
    rewriter.run(now_.ranks[r], fill, [] {});
    for (size_t e : begun) {
      times.exchange_ns.push_back(
          model(r).exchange_ns(now_.ranks[r].exchanges[e].what, program(r).tensors[terms_].type));
    }
    orders_.push_back(rewriter.order());
  }

  // How long it takes.
  double add_part(RankRewriter& rewriter, size_t r, const std::optional<Box>& box,
                  const Part& part) const {
    const Contraction& c = contraction(r);
    if (!box) {
      rewriter.add(nothing(part.terms, c));
      return 0;
    }
    Contraction piece = part_of(program(r), c, *box, part.terms, {});
    if (c.fill) {
      add_slice(rewriter, r, *box, part.fill);
      piece.fill = part.fill;
    }
    double ns = model(r).part_ns(program(r), piece, *box, box->shape());
    rewriter.add(std::move(piece));
    return ns;
  }

  // What cells without terms get, of those of the box.
  void add_slice(RankRewriter& rewriter, size_t r, const Box& box, TensorId slice) const {
    TensorId from = *contraction(r).fill;
    DType type = program(r).tensors[from].type;
    Piece piece = cells_of(slice, box.dims());
    Access load = piece.stores[0];
    load.tensor = from;
    for (size_t d = 0; d < box.dims(); ++d) {
      load.index[d].affine = load.index[d].affine + constant_affine(box.lo[d]);
    }
    piece.loads.push_back(std::move(load));
    piece.body.results.push_back(piece.body.load(0, type));
    Contraction copy = nothing(slice, contraction(r));
    copy.aggregation = Aggregation::assign;
    copy.accumulator = type;
    copy.pieces.push_back(std::move(piece));
    rewriter.add(std::move(copy));
  }

  Exchange piece(size_t r, size_t k) {
    Exchange e = what(r);
    e.reduction.reset();
    e.source = made_.sent[k].terms;
    e.result = how_.chunks == 1 ? made_.received[k] : made_.chunks[k];
    e.piece = true;
    e.sends.clear();
    e.receives.clear();
    const ExchangePieces::Ends& ends = cut_.of_rank[r][k];
    if (ends.sends) e.sends.push_back({ends.sends->rank, whole_box(ends.sends->box.shape())});
    if (ends.receives) {
      const Box& box = ends.receives->box;
      e.receives.push_back({ends.receives->rank, whole_box(box.shape())});
      if (how_.chunks > 1) {
        now_.ranks[r].parts.push_back({made_.chunks[k], made_.received[k / how_.chunks], box.lo});
      }
    }
    return e;
  }

  // The terms of all ranks, in the order and in the type in which the exchange adds them.
  Contraction sum(size_t r) const {
    Contraction c = nothing(sums_, contraction(r));
    DType type = program(r).tensors[sums_].type;
    c.aggregation = Aggregation::assign;
    c.accumulator = compute_type(type);
    std::map<int64_t, TensorId> from;
    if (cut_.own[r]) from[static_cast<int64_t>(r)] = made_.own.terms;
    for (size_t k = 0; k < cut_.count; ++k) {
      const auto& part = cut_.of_rank[r][k].receives;
      if (part) from[part->rank] = made_.received[k / how_.chunks];
    }
    if (from.empty()) return c;
    Piece piece = cells_of(sums_, program(r).tensors[sums_].shape.size());
    std::optional<NodeId> total;
    for (const Exchange::Part& part : what(r).receives) {
      NodeId term = load_of(piece, from.at(part.rank), type);
      term = piece.body.cast(term, c.accumulator);
      if (total) {
        NodeId before = piece.body.cast(piece.body.cast(*total, type), c.accumulator);
        term =
            piece.body.operation(operation_of(*what(r).reduction), {before, term}, c.accumulator);
      }
      total = term;
    }
    piece.body.results.push_back(*total);
    c.pieces.push_back(std::move(piece));
    return c;
  }

  OverlapModel model(size_t rank) const { return {before_.distribution.mesh, rank, options_}; }

  PiecedExchange told() const {
    PiecedExchange told;
    told.pieces = cut_.count;
    told.results.push_back(program(0).tensors[terms_].name);
    for (size_t r = 0; r < ranks(); ++r) {
      OverlapModel model = this->model(r);
      const BoundProgram& was = before_.ranks[r].program;
      double ns = model.whole_ns(was, contraction(r)) +
                  model.exchange_ns(what(r), was.tensors[terms_].type);
      told.before_ns = std::max(told.before_ns, ns);
      told.now_ns = std::max(told.now_ns, model.scatter_ns(times_[r]));
    }
    return told;
  }

  const PartitionedProgram& before_;
  size_t exchange_;
  ExchangePieces cut_;
  PieceCut how_;
  const OverlapOptions& options_;
  PartitionedProgram now_;
  MoreTensors tensors_;
  TensorId terms_, sums_;
  struct Made {
    Part own;
    std::vector<Part> sent;          // of each piece
    std::vector<TensorId> received;  // of each other rank
    std::vector<TensorId> chunks;    // of each piece, parts of `received`; one chunk: none
  } made_;
  std::vector<size_t> makers_;  // of each rank: the statement that sets the terms
  std::vector<PieceTimes> times_;
  std::vector<std::vector<size_t>> orders_;  // of each rank's exchanges
};

}  // namespace

std::optional<Piecewise> scattered_in_pieces(const PartitionedProgram& parts, size_t exchange,
                                             PieceCut cut, const OverlapOptions& options) {
  if (!parts.ranks[0].exchanges[exchange].what.reduction) return std::nullopt;
  std::optional<ExchangePieces> pieces =
      pieces_of(parts.ranks, exchange, PieceOrder::of_senders, cut);
  if (!pieces) return std::nullopt;
  std::optional<Piecewise> result =
      ScatterInPieces(parts, exchange, std::move(*pieces), cut, options).run();
  if (result) result->what.exchange = exchange;
  return result;
}

}  // namespace tile
