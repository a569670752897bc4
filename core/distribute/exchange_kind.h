// What an exchange is, told from its boxes alone, and how long it takes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/distribute/transfers.h"

namespace tile {

enum class ExchangeKind : uint8_t {
  copy,            // nothing leaves a rank
  halo,            // every rank keeps what it has and gets more around it
  all_gather,      // every rank of a group gets all that the group has
  all_to_all,      // every rank gets another part, and no two the same cell
  redistribution,  // any other way to have cells elsewhere
  reduce_scatter,  // sums of parts, every rank getting others
  all_reduce,      // sums of parts, all of them for every rank of a group
  reduction,       // any other sums of parts
};
std::string_view to_string(ExchangeKind kind);

// The time of a message is `latency_ns` and its bytes over `bytes_per_ns` (the alpha-beta model of
// Hockney). [guide] The defaults are of messages between processes of one machine: some
// microseconds and the order of one core's copying.
struct Link {
  double latency_ns = 2000;
  double bytes_per_ns = 10;
};

struct ExchangeCost {
  ExchangeKind kind = ExchangeKind::copy;
  int64_t bytes = 0;          // that leave their rank
  int64_t messages = 0;       // pairs of different ranks
  int64_t busiest = 0;        // most bytes that one rank sends, or receives
  int64_t most_messages = 0;  // that one rank sends, or receives
  double ns = 0;              // until the busiest rank is done
};

// `boxes` and `needs` are those from which the transfers were made; `sums`: of partial sums.
ExchangeCost exchange_cost(const std::vector<Box>& boxes,
                           const std::vector<std::vector<NeedPart>>& needs,
                           const std::vector<Transfer>& transfers, bool sums, int64_t element_bytes,
                           const Link& link);

}  // namespace tile
