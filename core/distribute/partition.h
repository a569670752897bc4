// partition: a bound program and a distribution -> the program of each rank. It stands behind bind
// and before the tensor passes, which are given each rank's statements between exchanges.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/distribute/distribution.h"
#include "core/distribute/exchange_kind.h"
#include "core/ir/ranks/rank_program.h"

namespace tile {

struct PartitionOptions {
  Links links;
  // Divides terms of contractions that the text does not name where that moves fewer bytes. Their
  // sums are then added in another order.
  bool divide_terms = true;
};

// For explain: one exchange of all ranks.
struct ExchangeSummary {
  std::string source, result;  // of the ranks' programs
  ExchangeCost cost;
  Span span;
};
// One statement of the program.
struct StatementSummary {
  std::string result;
  TensorLayout computed;                     // how its cells are divided among the ranks
  std::vector<ReductionCut> cuts;            // how its terms are
  double times = 1;                          // how often each cell is computed, on average
  size_t first_exchange = 0, exchanges = 0;  // that serve it
  Span span;
};

// Of each statement, whether some output needs it.
std::vector<bool> needed_statements(const BoundProgram& program);

struct PartitionedProgram {
  Distribution distribution;
  std::vector<RankProgram> ranks;
  // Which part of each input and output of the program a rank has, in the tensor's own cells.
  std::vector<std::vector<Box>> inputs, outputs;  // [input or output][rank]
  std::vector<ExchangeSummary> exchanges;
  std::vector<StatementSummary> statements;  // without those that no output needs
};

// Throws Failure: a limit. Throws Overflow.
PartitionedProgram partition(const BoundProgram& program, Distribution distribution,
                             const PartitionOptions& options = {});

}  // namespace tile
