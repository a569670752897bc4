// The same systems for isl, which answers exactly.
#pragma once

#include <memory>
#include <string>

#include "core/lattice/lattice.h"

struct isl_ctx;
struct isl_set;

namespace tile::lattice::testing {

// A set of integer points held by isl.
class Oracle {
 public:
  Oracle();
  ~Oracle();
  Oracle(const Oracle&) = delete;
  Oracle& operator=(const Oracle&) = delete;

  using Set = std::shared_ptr<isl_set>;
  Set points(const System& system);
  // The old iterators of a piece's points, brought back by `to_system` as well.
  Set points(const Piece& piece, const Substitution& to_system);
  Set piece_points(const Piece& piece);  // in the piece's own iterators

  bool empty(const Set& set);
  bool bounded(const Set& set);
  bool equal(const Set& a, const Set& b);
  bool disjoint(const Set& a, const Set& b);
  Set unite(const Set& a, const Set& b);
  Interval range(const Set& set, size_t iterator);  // of a bounded set with points
  int64_t count(const Set& set);

 private:
  Set parse(const std::string& text);
  isl_ctx* context_;
};

}  // namespace tile::lattice::testing
