// Choice of layouts: what the text leaves open is chosen by the time that the model expects.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "core/distribute/distribution.h"
#include "core/distribute/exchange_kind.h"
#include "core/target/target.h"

namespace tile {

// What one rank computes and moves in its own memory.
struct RankRates {
  double multiply_adds_per_ns = 32;
  double bytes_per_ns = 15;
  // Multiply-adds of matrix products on units of their own (tensor cores, tiles of a processor), by
  // the factors' type; 0 where there are none.
  std::array<double, static_cast<size_t>(DType::f64) + 1> products_per_ns{};
};
RankRates rank_rates(const Target& target);

struct ChoiceOptions {
  Links links;
  RankRates rates;
  // Whether terms of sums may be divided where the text does not say so. Their sums are then added
  // in another order.
  bool divide_terms = true;
  // How many beginnings of a choice are kept at each statement.
  size_t beam = 16;
  // Also finds the next best way of each statement, for explain.
  bool alternatives = false;
};

// A time in its parts; `held_ns` is the price of memory, see kHeldShare in choice_model.h.
struct ChoiceCost {
  double compute_ns = 0, exchange_ns = 0, held_ns = 0;
  double time_ns() const { return compute_ns + exchange_ns; }
  double all() const { return compute_ns + exchange_ns + held_ns; }
};

struct Choice {
  Distribution distribution;  // every tensor has its layout
  ChoiceCost cost;
  ChoiceCost whole;      // where every rank has and computes all that the text leaves open
  ChoiceCost followed;   // where unnamed tensors follow those that are named (complete_layouts)
  size_t evaluated = 0;  // ways of single statements that the search has priced

  // The next best way to compute a statement, and what it would take more.
  struct Alternative {
    std::string result;  // of the statement
    TensorLayout computed;
    std::vector<ReductionCut> cuts;
    double more_ns = 0;
  };
  std::vector<Alternative> alternatives;
};

// Chooses the layout of every tensor that `named` does not name, where each statement is computed,
// and which terms of sums are divided: dynamic programming over the statements, with a beam, and
// improvements of single tensors then. Named layouts and cuts stay. Deterministic: all ranks that
// are given the same choose the same. Throws Overflow.
Choice choose_layouts(const BoundProgram& program, Distribution named,
                      const ChoiceOptions& options);

// The choice told to a reader.
std::string explain(const Choice& choice);

}  // namespace tile
