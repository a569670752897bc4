// overlap: the program of one rank -> one that computes while parts of exchanges travel. It stands
// behind the partition, is each rank's own affair, and leaves what is sent to other ranks as it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/distribute/choice/choice.h"
#include "core/distribute/mesh/mesh.h"
#include "core/ir/ranks/rank_program.h"

namespace tile {

// Whether exchanges travel while a rank computes: where the model expects that it takes less time,
// wherever something can be computed, or nowhere.
enum class Overlap : uint8_t { automatic, always, never };
std::optional<Overlap> overlap_named(std::string_view name);  // "auto", "always", "never"

struct OverlapOptions {
  Overlap mode = Overlap::never;
  Links links;
  RankRates rates;
};

// What runs beside one exchange on one rank.
struct Travel {
  bool travels = false;
  double inner = 0;      // of the cells of the first result that waits for it: computed meanwhile
  double hidden_ns = 0;  // of the exchange's time, as the model has it
};
struct OverlappedProgram {
  RankProgram program;
  std::vector<Travel> travels;  // of each exchange
};

// Statements that wait for nothing that travels go first. Of a contraction that reads what travels,
// and of those behind it, the cells go first that need only what the rank itself has: read where it
// is, and written into the result where they belong. Cells keep their values bit by bit, as far as
// the order of a sum's terms does not depend on the kernel. Throws Overflow.
OverlappedProgram overlapped(const RankProgram& program, size_t rank, const Mesh& mesh,
                             const OverlapOptions& options);

// What travels on the ranks, for a reader; empty: nothing. `names` of the exchanges.
std::string explain_overlap(const std::vector<std::vector<Travel>>& ranks,
                            const std::vector<std::string>& names);

}  // namespace tile
