#include "core/distribute/overlap/pieces/in_pieces.h"

#include <algorithm>
#include <utility>

#include "core/distribute/overlap/pieces/gather_pieces.h"
#include "core/distribute/overlap/pieces/scatter_pieces.h"
#include "core/support/control.h"

namespace tile {
namespace {

// How many pieces what one rank gives another may be in.
constexpr size_t kChunks[] = {1, 2, 4};

size_t dims_of(const PartitionedProgram& parts, size_t exchange) {
  const RankProgram& rank = parts.ranks[0];
  return rank.program.tensors[rank.exchanges[exchange].what.result].shape.size();
}

// The first dimension in which some rank has more than one cell of the result: chunks along it
// stand side by side.
size_t first_dim(const PartitionedProgram& parts, size_t exchange) {
  size_t dims = dims_of(parts, exchange), first = dims;
  for (const RankProgram& rank : parts.ranks) {
    const Shape& shape = rank.program.tensors[rank.exchanges[exchange].what.result].shape;
    for (size_t d = 0; d < first; ++d) {
      if (shape[d] > 1) first = d;
    }
  }
  return first;
}

bool is_travelling(const PartitionedProgram& parts, size_t exchange) {
  return std::ranges::any_of(
      parts.ranks, [&](const RankProgram& rank) { return rank.exchanges[exchange].travels(); });
}

// All ways to cut one exchange, the best of which is taken.
class Ways {
 public:
  Ways(const PartitionedProgram& parts, size_t exchange, const OverlapOptions& options)
      : parts_(parts), exchange_(exchange), options_(options) {}

  std::optional<Piecewise> best() {
    size_t dims = dims_of(parts_, exchange_);
    if (parts_.ranks[0].exchanges[exchange_].what.reduction) {
      size_t dim = first_dim(parts_, exchange_);
      for (size_t chunks : kChunks) {
        if (chunks == 1 || dim < dims) {
          take(scattered_in_pieces(parts_, exchange_, {chunks, dim}, options_));
        }
        if (!best_) break;
      }
      return std::move(best_);
    }
    take(gathered_in_pieces(parts_, exchange_, {1, dims}, options_));
    for (size_t dim = 0; dim < dims && best_; ++dim) {
      for (size_t chunks : kChunks) {
        if (chunks == 1) continue;
        std::optional<Piecewise> way =
            gathered_in_pieces(parts_, exchange_, {chunks, dim}, options_);
        if (!way) break;  // finer ones are no other
        take(std::move(way));
      }
    }
    return std::move(best_);
  }

 private:
  void take(std::optional<Piecewise> way) {
    checkpoint();
    bool better = way && (!best_ || way->what.now_ns < best_->what.now_ns);
    if (better) best_ = std::move(way);
  }

  const PartitionedProgram& parts_;
  size_t exchange_;
  const OverlapOptions& options_;
  std::optional<Piecewise> best_;
};

bool is_worth(const Piecewise& way, const OverlapOptions& options) {
  if (options.mode == Overlap::always) return true;
  return !way.is_replicated && way.what.now_ns < way.what.before_ns;
}

}  // namespace

PiecewiseProgram in_pieces(PartitionedProgram parts, const OverlapOptions& options) {
  PiecewiseProgram result{std::move(parts), {}};
  if (options.mode == Overlap::never || result.parts.ranks.size() < 2) return result;
  // Numbers of exchanges as they were, of those that are there.
  std::vector<size_t> number(result.parts.exchanges.size());
  for (size_t e = 0; e < number.size(); ++e) number[e] = e;
  size_t exchanges = number.size();
  for (size_t was = 0; was < exchanges; ++was) {
    auto e = static_cast<size_t>(std::ranges::find(number, was) - number.begin());
    if (is_travelling(result.parts, e)) continue;
    std::optional<Piecewise> way = Ways(result.parts, e, options).best();
    if (!way || !is_worth(*way, options)) continue;
    result.parts = std::move(way->parts);
    way->what.exchange = was;
    result.pieces.push_back(std::move(way->what));
    std::vector<size_t> now;
    for (size_t old : way->order) now.push_back(number[old]);
    number = std::move(now);
  }
  verify(result.parts.ranks);
  return result;
}

}  // namespace tile
