// The model that layouts are chosen by: which choices there are for each tensor and statement, and
// what they cost. Times are added up: of each statement, of each exchange that serves it, and of
// the exchange that puts its result where it lies.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/distribute/choice/candidates.h"
#include "core/distribute/choice/choice.h"
#include "core/distribute/choice/result_costs.h"
#include "core/distribute/choice/way_costs.h"

namespace tile {

// Memory has a price, so that among equal times less is held: this share of the time in which a
// rank writes its part of each tensor once.
constexpr double kHeldShare = 0.01;

class ChoiceModel {
 public:
  ChoiceModel(const BoundProgram& program, const Distribution& named, const ChoiceOptions& options);

  // A tensor that lies somewhere: no view and no literal, and some output needs it.
  struct Tensor {
    TensorId id;
    std::vector<TensorLayout> layouts;  // one: it is named
    std::vector<double> held_ns;        // of each
    size_t last_use = 0;                // the statement; statements().size(): an output
  };
  struct Statement {
    const BoundStatement* what = nullptr;
    size_t result = 0;   // of the tensors
    bool marks = false;  // sums over ranks need to know which cells have terms
    std::vector<Way> ways;
    std::vector<double> compute_ns;             // of each way, on the slowest rank
    std::vector<std::vector<size_t>> readings;  // of each way
    std::vector<size_t> reads;                  // tensors, each once
  };
  // Cells of one tensor, or of a view of it, that all ranks need at once. Statements that need the
  // same share one exchange.
  struct Reading {
    TensorId accessed;
    size_t tensor = 0;        // whose layout decides
    bool makes_view = false;  // what a view cannot follow is gathered before it is read
    NeededCells cells;
    size_t like = 0;         // the first one that takes the same times
    size_t last_use = 0;     // the last statement of which some way has it
    bool shared = false;     // by several statements
    std::vector<double> ns;  // by layout, as far as it was asked for
  };
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::vector<Statement>& statements() const { return statements_; }
  const Reading& reading(size_t number) const { return readings_[number]; }
  // Those that make the outputs that are views.
  const std::vector<size_t>& last_readings() const { return last_readings_; }

  double read_ns(size_t reading, size_t layout);
  // Until the result lies under the layout; infinite: it cannot be computed so.
  double write_ns(size_t statement, size_t way, size_t layout);

  // The layout's number, which it gets where it has none. Before the first question for a time.
  size_t number_of(size_t tensor, const TensorLayout& layout);
  const Mesh& mesh() const { return named_.mesh; }

 private:
  void declare(TensorId id, const std::vector<bool>& may_be_cut);
  void add_statement(const BoundStatement& statement);
  void add_way_of_result(Statement& s, const std::vector<ReductionCut>* cuts);
  void add_partial_layouts(const Statement& s);
  void add_ways(Statement& s, const Contraction& c);
  void whole_way(Statement& s, size_t way);
  double least_ns(const Statement& s, const Way& way, const WayCosts::Computed& computed) const;
  std::vector<size_t> promising(const Statement& s,
                                const std::vector<WayCosts::Computed>& ways) const;
  // Readings of a tensor: with what makes it, where it is a view.
  void read(std::vector<size_t>& into, TensorId id, NeededCells cells);
  size_t intern(TensorId accessed, bool makes_view, NeededCells cells);
  void narrow(size_t tensor);
  void note_uses();
  size_t table_of(size_t statement) const;
  double reading_ns(const Reading& reading, const TensorLayout& layout) const;
  ResultCosts::Result result_of(const Statement& s) const {
    return {tensors_[s.result].id, std::get_if<Contraction>(s.what), s.marks};
  }
  const BoundTensor& at(TensorId id) const { return program_.tensors[id]; }

  const BoundProgram& program_;
  const Distribution& named_;
  const ChoiceOptions& options_;
  GridTraffic traffic_;
  ResultCosts result_costs_;
  UnevenCuts uneven_;
  std::vector<Tensor> tensors_;
  std::vector<Statement> statements_;
  std::vector<Reading> readings_;
  std::vector<size_t> last_readings_;
  IdVector<TensorId, std::optional<size_t>> number_;
  std::map<std::pair<TensorId, std::vector<int64_t>>, size_t> known_readings_;
  std::map<std::vector<int64_t>, size_t> first_like_;
  std::vector<size_t> table_;  // of each statement: whose row of the next it has
  std::vector<std::vector<std::vector<double>>> write_ns_;  // [statement][way][layout]
};

}  // namespace tile
