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
  friend bool operator==(const Link&, const Link&) = default;
};

// What carries messages along each axis of a mesh. One between ranks that differ along several
// axes is as slow as the slowest of them.
struct Links {
  Link any;                // of axes beyond `axes`
  std::vector<Link> axes;  // in the mesh's order

  const Link& of(size_t axis) const { return axis < axes.size() ? axes[axis] : any; }
  Link between(const Mesh& mesh, size_t a, size_t b) const;
  // Over several axes, or none.
  Link over(const std::vector<size_t>& list) const;
};

struct ExchangeCost {
  ExchangeKind kind = ExchangeKind::copy;
  int64_t bytes = 0;          // that leave their rank
  int64_t messages = 0;       // pairs of different ranks
  int64_t busiest = 0;        // most bytes that one rank sends, or receives
  int64_t most_messages = 0;  // that one rank sends, or receives
  double ns = 0;              // until the busiest rank is done
};

// Adds up the messages of one exchange.
class Traffic {
 public:
  explicit Traffic(size_t ranks) : ends_(2 * ranks), seen_(ranks * ranks, false) {}
  // Parts that a rank sends to another make one message.
  void add(size_t sender, size_t receiver, int64_t bytes, const Link& link);
  const ExchangeCost& cost() const { return cost_; }  // without its kind

 private:
  struct End {
    int64_t bytes = 0, messages = 0;
    double ns = 0;
  };
  std::vector<End> ends_;   // of each rank: what it sends, what it receives
  std::vector<bool> seen_;  // of each pair of ranks, whether it has a message
  ExchangeCost cost_;
};

// `boxes` and `needs` are those from which the transfers were made; `sums`: of partial sums.
ExchangeCost exchange_cost(const Mesh& mesh, const std::vector<Box>& boxes,
                           const std::vector<std::vector<NeedPart>>& needs,
                           const std::vector<Transfer>& transfers, bool sums, int64_t element_bytes,
                           const Links& links);

}  // namespace tile
