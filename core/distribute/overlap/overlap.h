// overlap: the program of one rank -> one that computes while parts of exchanges travel. It stands
// behind the partition, is each rank's own affair, and leaves what is sent to other ranks as it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/distribute/choice/choice.h"
#include "core/distribute/partition.h"

namespace tile {

// Whether a rank computes before the results of exchanges are there: where the model expects that
// it takes less time, wherever something can be computed, or nowhere.
enum class Overlap : uint8_t { automatic, always, never };
std::optional<Overlap> overlap_named(std::string_view name);  // "auto", "always", "never"

struct OverlapOptions {
  Overlap mode = Overlap::automatic;
  Links links;
  RankRates rates;
  bool on_device = false;  // exchanges go from GPU to GPU, on a stream of their own
};

// What one exchange of a rank runs beside, or behind where it does not travel.
struct Travel {
  bool travels = false;
  double inner = 0;      // of the cells of the first result that waits for it: computed before
  double hidden_ns = 0;  // of the exchange's time, as the model has it
};
struct OverlappedProgram {
  RankProgram program;
  std::vector<Travel> travels;  // of each exchange
};

// The rank's program; exchanges that travel in it already (in_pieces) stay where they are, with all
// that stands between. Statements that wait for nothing that travels go first. Of a contraction
// that reads what travels, and of those behind it, the cells go first that need only what the rank
// itself has: read where it is, and written into the result where they belong. Cells keep their
// values bit by bit, as far as the order of a sum's terms does not depend on the kernel;
// `automatic` leaves alone what depends on it where several ranks compute the same cells. Throws
// Overflow.
OverlappedProgram overlapped(const PartitionedProgram& parts, size_t rank,
                             const OverlapOptions& options);

// What is computed before exchanges' results are there, for a reader; empty: nothing. `names` of
// the exchanges.
std::string explain_overlap(const std::vector<std::vector<Travel>>& ranks,
                            const std::vector<std::string>& names);

}  // namespace tile
