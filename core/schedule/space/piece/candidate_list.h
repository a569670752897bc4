// The candidates of one piece that are found, with their times.
#pragma once

#include <vector>

#include "core/schedule/cost/piece/piece_model.h"
#include "core/schedule/space/piece/piece_space.h"

namespace tile {

// The model must outlive it.
class CandidateList {
 public:
  explicit CandidateList(const PieceModel& model) : model_(model), f_(model.facts()) {}

  const PieceModel& model() const { return model_; }
  bool is_legal(const PieceSchedule& s) const;
  // Adds the schedule if it is legal.
  void add(PieceSchedule s);
  // The same, with threads where the work is worth them.
  void consider(PieceSchedule s);
  // All, best first; the plain schedule where nothing else was legal.
  std::vector<RankedPiece> ranked();

 private:
  void bind_threads(PieceSchedule& s) const;

  const PieceModel& model_;
  const PieceFacts& f_;
  std::vector<RankedPiece> found_;
};

}  // namespace tile
