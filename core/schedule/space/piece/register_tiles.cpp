// Candidates for the register tile. The vector iterator is one along which the accesses are cheap;
// unrolled parallel dimensions are those whose loads the vector iterator's share.
#include "core/schedule/space/piece/register_tiles.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/ir/analysis/accesses.h"
#include "core/schedule/cost/piece/access_cycles.h"

namespace tile {
namespace {

constexpr size_t kVectorChoices = 3;
constexpr size_t kUnrollChoices = 2;
constexpr size_t kJoinedChoices = 2;
constexpr int64_t kPickedRegisters = 3;  // a row's accumulator, what its lanes pick from, the pick
constexpr int64_t kSharedRegisters = 2;  // a row's accumulator, and what the next tap reads again
constexpr double kReuse = 4;             // uses of an element that are worth packing it
constexpr int64_t kMostVectors = 4;      // of one row of the tile
constexpr int64_t kMostRows =
    8;  // of one parallel dimension, where the lanes run along a reduction
constexpr int64_t kIndependent = 8;  // accumulators that hide the latency of an addition

// A load whose elements are used many times can be packed: then its vectors are contiguous.
bool packable(const Piece& piece, const AccessFacts& a) {
  if (a.store || a.gathers || piece.parallel_dims == piece.box.size()) return false;
  return a.uses >= kReuse;
}

// Cycles of one vector of points along u, for each lane in use. A reduction's cells are stored once
// for all of their points.
double vector_score(const PieceFacts& f, size_t u) {
  const Piece& piece = f.piece;
  AccessCycles access(f);
  double cycles = 0, points = 1;
  for (size_t r = piece.parallel_dims; r < piece.box.size(); ++r) {
    points *= static_cast<double>(std::max<int64_t>(piece.box[r], 1));
  }
  for (const AccessFacts& a : f.accesses) {
    bool store_of_lanes = a.store && u >= piece.parallel_dims;
    if (store_of_lanes) continue;
    double each = access.vector_cycles(a, IteratorId(u), packable(piece, a));
    cycles += a.store ? each / points : each;
  }
  auto extent = static_cast<double>(piece.box[u]), lanes = static_cast<double>(f.lanes);
  double used = extent / (std::ceil(extent / lanes) * lanes);
  double penalty = (u >= piece.parallel_dims ? 0.25 : 0) + (is_constrained(piece, u) ? 0.5 : 0);
  return (cycles + f.body + penalty) / used;
}

std::vector<IteratorId> vector_choices(const PieceFacts& f) {
  const Piece& piece = f.piece;
  std::vector<std::pair<double, IteratorId>> scored;
  for (size_t u = 0; u < piece.box.size(); ++u) {
    if (piece.box[u] > 1) scored.emplace_back(vector_score(f, u), IteratorId(u));
  }
  std::sort(scored.begin(), scored.end());
  std::vector<IteratorId> result;
  for (size_t i = 0; i < std::min(scored.size(), kVectorChoices); ++i) {
    if (scored[i].first <= 4 * scored[0].first) result.push_back(scored[i].second);
  }
  return result;
}

// Parallel dimensions other than the vector iterator, those whose iterations share the dearest
// loads first.
std::vector<IteratorId> unroll_choices(const PieceFacts& f, IteratorId vector) {
  const Piece& piece = f.piece;
  AccessCycles access(f);
  std::vector<std::pair<double, IteratorId>> scored;
  double each = access.vector_cycles({}, {}, false);  // of a broadcast
  for (size_t u = 0; u < piece.parallel_dims; ++u) {
    if (IteratorId(u) == vector || piece.box[u] < 2) continue;
    double spared = 0;  // cycles of the loads that its iterations share
    for (const AccessFacts& a : f.accesses) {
      if (!a.store && a.strides[u] == 0) spared += access.vector_cycles(a, vector, false);
    }
    for (size_t r = piece.parallel_dims; r < piece.box.size() && f.taps_only; ++r) {
      if (f.slides(u, r)) spared += each;  // rows share what their windows read
    }
    if (is_constrained(piece, u)) spared -= each;
    double size = static_cast<double>(std::min<int64_t>(piece.box[u], 64));
    scored.emplace_back(-spared / each * 1000 - size, IteratorId(u));
  }
  std::sort(scored.begin(), scored.end());
  std::vector<IteratorId> result;
  for (size_t i = 0; i < std::min(scored.size(), kUnrollChoices); ++i) {
    result.push_back(scored[i].second);
  }
  // Neither of a picture's sides is the better one by this score.
  for (size_t i = result.size(); i > 0 && i < scored.size(); ++i) {
    auto [score, u] = scored[i];
    if (score != scored[i - 1].first || !is_constrained(piece, u.index())) break;
    result.push_back(u);
  }
  return result;
}

// Tile sizes up to `most` that waste least of the extent, the larger first among equals.
std::vector<int64_t> balanced_sizes(int64_t extent, int64_t most, size_t count) {
  most = std::min(extent, most);
  std::vector<int64_t> sizes;
  for (int64_t n = most; n >= std::max<int64_t>(1, most / 2); --n) sizes.push_back(n);
  std::stable_sort(sizes.begin(), sizes.end(), [&](int64_t a, int64_t b) {
    return ceil_div(extent, a) * a < ceil_div(extent, b) * b;
  });
  if (sizes.size() > count) sizes.resize(count);
  if (std::find(sizes.begin(), sizes.end(), most) == sizes.end()) sizes.push_back(most);
  return sizes;
}

class Tiles {
 public:
  explicit Tiles(const PieceFacts& facts) : f_(facts), access_(facts) {}

  std::vector<RegisterTile> all() {
    std::vector<IteratorId> vectors = vector_choices(f_);
    if (vectors.empty()) result_.emplace_back();
    for (IteratorId v : vectors) {
      bool parallel_dim = f_.is_parallel_dim(v);
      if (f_.piece.parallel_dims == f_.piece.box.size()) {
        pointwise(v);
      } else if (parallel_dim) {
        vector_parallel_dim(v);
      } else {
        vector_reduction(v);
      }
    }
    if (f_.piece.parallel_dims < f_.piece.box.size()) joined();
    return std::move(result_);
  }

 private:
  int64_t extent(IteratorId u) const { return f_.piece.box[u]; }
  int64_t most_vectors(IteratorId v) const {
    return std::min(kMostVectors, ceil_div(extent(v), f_.lanes));
  }

  void pointwise(IteratorId v) {
    for (int64_t n = 1; n <= most_vectors(v); n *= 2) result_.push_back({v, n, {}, 1});
    for (IteratorId m : unroll_choices(f_, v)) {
      if (!turns(v, m)) result_.push_back({v, 1, {{m, std::min<int64_t>(4, extent(m))}}, 1});
    }
    for (IteratorId m : IdRange<IteratorId>(f_.piece.parallel_dims)) {
      if (turns(v, m)) result_.push_back({v, 1, {{m, block(m)}}, 1});
    }
  }
  bool turns(IteratorId v, IteratorId m) const {
    return std::any_of(f_.accesses.begin(), f_.accesses.end(),
                       [&](const auto& a) { return a.turns(v, m.index()); });
  }
  // Rows of one vector, which become columns.
  int64_t block(IteratorId m) const { return std::min(f_.lanes, extent(m)); }

  // `shares`: of the registers, one for an accumulator and the others for what its row reads.
  void vector_parallel_dim(IteratorId v, int64_t shares = 1) {
    if (f_.taps_only) shares = std::max(shares, kSharedRegisters);
    for (int64_t n = 1; n <= most_vectors(v); ++n) {
      add(v, n, {}, n);
      int64_t most = (f_.target.vector_registers - n - 1) / n / shares;
      for (IteratorId m : unroll_choices(f_, v)) {
        if (f_.taps_only) window_rows(v, n, m, most);
        for (int64_t rows : balanced_sizes(extent(m), most, 3)) {
          add(v, n, {{m, rows}}, n * rows);
          if (rows < extent(m) || 2 * rows > most) continue;
          for (IteratorId m2 : unroll_choices(f_, v)) {
            if (m2 == m) continue;
            int64_t more = balanced_sizes(extent(m2), most / rows, 1)[0];
            add(v, n, {{m, rows}, {m2, more}}, n * rows * more);
          }
        }
      }
    }
  }
  // A block of two parallel dimensions: their windows overlap in both.
  void window_rows(IteratorId v, int64_t n, IteratorId m, int64_t most) {
    for (IteratorId m2 : unroll_choices(f_, v)) {
      for (int64_t more = 2; m2 != m && 2 * more <= most && more <= extent(m2); more *= 2) {
        for (int64_t rows : balanced_sizes(extent(m), most / more, 1)) {
          if (rows > 1) add(v, n, {{m2, more}, {m, rows}}, n * rows * more);
        }
      }
    }
  }
  // With few accumulators the reduction is unrolled over copies of them.
  void add(IteratorId v, int64_t n, std::vector<std::pair<IteratorId, int64_t>> unrolled,
           int64_t accumulators) {
    RegisterTile t{v, n, std::move(unrolled), 1};
    int64_t room = std::min<int64_t>(kIndependent, f_.target.vector_registers / 2);
    while (t.copies * 2 * accumulators <= room) t.copies *= 2;
    result_.push_back(std::move(t));
  }

  // Few values of one parallel dimension, each with several of another's: the pairs that read and
  // write cheaply.
  void joined() {
    std::vector<std::pair<double, JoinedLanes>> scored;
    for (size_t v = 0; v < f_.piece.parallel_dims; ++v) {
      int64_t length = f_.piece.box[v];
      if (length < 2 || 2 * length > f_.lanes) continue;
      for (size_t u = 0; u < f_.piece.parallel_dims; ++u) {
        if (u == v || f_.piece.box[u] < 2) continue;
        int64_t rows = std::min(f_.piece.box[u], f_.lanes / length);
        JoinedLanes lanes{IteratorId(u), IteratorId(v), rows};
        scored.emplace_back(joined_score(lanes), lanes);
      }
    }
    std::stable_sort(scored.begin(), scored.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < std::min(scored.size(), kJoinedChoices); ++i) {
      size_t first = result_.size();
      const JoinedLanes& lanes = scored[i].second;
      vector_parallel_dim(lanes.last, kPickedRegisters);
      for (size_t t = first; t < result_.size(); ++t) {
        result_[t].joined = lanes.first;
        result_[t].rows = lanes.rows;
      }
      std::erase_if(result_, [&](const RegisterTile& t) {
        return std::any_of(t.unrolled.begin(), t.unrolled.end(),
                           [&](const auto& rows) { return rows.first == t.joined; });
      });
    }
    for (size_t i = 0; i < std::min(scored.size(), kJoinedChoices); ++i) {
      whole_joined(scored[i].second);
    }
  }
  // All values of both parallel dimensions in one tile, where the reduction is short enough to be
  // written out: what the lanes pick is then known, and nothing is read beyond the operands.
  void whole_joined(const JoinedLanes& lanes) {
    int64_t vectors = ceil_div(extent(lanes.first), lanes.rows), terms = 1;
    for (size_t u = f_.piece.parallel_dims; u < f_.piece.box.size(); ++u) terms *= f_.piece.box[u];
    bool fits = vectors * kPickedRegisters < f_.target.vector_registers && terms <= kMostPicked;
    if (vectors < 2 || !fits || !f_.piece.constraints.empty()) return;
    RegisterTile tile{lanes.last, 1, {{lanes.first, vectors}}, 1};
    tile.joined = lanes.first;
    tile.rows = lanes.rows;
    result_.push_back(std::move(tile));
  }
  double joined_score(const JoinedLanes& lanes) const {
    double cycles = f_.body;
    for (const AccessFacts& a : f_.accesses) {
      cycles += access_.joined_cycles(a, lanes, packable(f_.piece, a));
    }
    int64_t used = lanes.rows * extent(lanes.last);
    return cycles / static_cast<double>(used);
  }

  void vector_reduction(IteratorId v) {
    auto room = std::min<int64_t>(kIndependent, f_.target.vector_registers / 2);
    std::vector<IteratorId> parallel_dims = unroll_choices(f_, v);
    for (int64_t rows = 1; rows <= room; rows *= 2) {
      int64_t copies = std::min(room / rows, std::max<int64_t>(1, extent(v) / f_.lanes));
      if (rows == 1) {
        result_.push_back({v, 1, {}, copies});
        continue;
      }
      for (IteratorId m : parallel_dims) {
        if (extent(m) >= rows) result_.push_back({v, 1, {{m, rows}}, copies});
      }
    }
    if (parallel_dims.size() > 1) vector_reduction_of_two(v, parallel_dims[0], parallel_dims[1]);
  }

  // Rows of both parallel dimensions: each vector read is multiplied with all of the other's.
  void vector_reduction_of_two(IteratorId v, IteratorId a, IteratorId b) {
    int64_t most = f_.target.vector_registers - 2;
    for (int64_t columns : {int64_t{2}, int64_t{4}, int64_t{8}}) {
      if (columns > extent(b)) break;
      int64_t rows = std::min(extent(a), (most - columns) / columns);
      for (int64_t r : balanced_sizes(extent(a), std::min<int64_t>(rows, kMostRows), 1)) {
        if (r > 1) add(v, 1, {{a, r}, {b, columns}}, r * columns);
      }
    }
  }

  const PieceFacts& f_;
  const AccessCycles access_;
  std::vector<RegisterTile> result_;
};

}  // namespace

std::vector<RegisterTile> register_tiles(const PieceFacts& facts) { return Tiles(facts).all(); }

std::vector<RegisterTile> amx_register_tiles(const PieceFacts& facts) {
  constexpr std::pair<int64_t, int64_t> kShapes[] = {{2, 2}, {1, 4}, {4, 1}, {1, 3},
                                                     {3, 1}, {1, 2}, {2, 1}, {1, 1}};
  std::vector<RegisterTile> tiles;
  const AmxTiles& limits = facts.target.tiles;
  const IterationBox& box = facts.piece.box;
  for (size_t n = 0; n < facts.piece.parallel_dims; ++n) {
    for (size_t m = 0; m < facts.piece.parallel_dims; ++m) {
      for (auto [rows, columns] : kShapes) {
        bool fewer = (rows > 1 && (rows - 1) * limits.rows >= box[m]) ||
                     (columns > 1 && (columns - 1) * limits.columns() >= box[n]);
        if (m == n || fewer) continue;
        int64_t all = rows == 1 ? std::min(limits.rows, box[m]) : rows * limits.rows;
        tiles.push_back({IteratorId(n), columns, {{IteratorId(m), all}}, 1});
      }
    }
  }
  return tiles;
}

}  // namespace tile
