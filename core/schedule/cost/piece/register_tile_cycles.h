// The cycles of one register tile of a schedule.
#pragma once

#include <optional>
#include <vector>

#include "core/kernel/forms/dot_products.h"
#include "core/schedule/cost/piece/access_cycles.h"
#include "core/schedule/cost/piece/tile_cycles.h"

namespace tile {

// What is given must outlive it.
class RegisterTileCycles {
 public:
  RegisterTileCycles(const PieceFacts& facts, const PieceSchedule& schedule,
                     const TileShape& shape);

  // Of a tile in which the tile's iterators have `counts` iterations (vectors for the vector
  // iterator) and that does so many steps of the reduction. `taps`: whether rows share what their
  // windows overlap in.
  TileCycles of(const std::vector<double>& counts, double steps, bool taps) const;

 private:
  struct Loads {
    double cycles = 0, count = 0, joins = 0, corrections = 0;
  };
  Loads loads(const std::vector<double>& counts, bool taps) const;
  bool reads_copied_vectors(size_t load) const;
  bool is_packed(size_t load) const;
  double shared_part(const AccessFacts& a, const std::vector<double>& counts) const;
  double group_cycles(size_t load, double cycles) const;
  double dot_cycles() const;
  void find_resumed();
  double resumed_cycles(double vectors) const;
  void take_stores(TileCycles& c) const;
  double waiting_rows(const std::vector<double>& counts) const;
  void add_up(TileCycles& c) const;
  void add_up_sums(TileCycles& c) const;

  const PieceFacts& f_;
  const PieceSchedule& s_;
  const TileShape& t_;
  AccessCycles access_;
  std::optional<DotForm> form_;
  bool resumes_ = false;   // the reduction is cut into blocks
  bool far_sums_ = false;  // what is touched between two of them leaves the second cache
};

}  // namespace tile
