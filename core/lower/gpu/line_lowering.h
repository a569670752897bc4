// One stage of a row kernel on a GPU: a thread holds the same positions of its row in every stage.
#pragma once

#include <map>
#include <vector>

#include "core/lower/gpu/spread_lowering.h"

namespace tile::lowering {

struct LinePlan {
  const gpu::LineForm* form = nullptr;
  int64_t lanes = 1, rows = 1, vector = 1;
  int64_t blocks = 1;                       // of a cluster
  Expr block;                               // …this thread's
  std::vector<Expr> place;                  // of the current position in a thread's registers
  std::map<size_t, nest::BufferId> shared;  // by stage: where its lanes are combined
  std::map<size_t, nest::BufferId> totals;  // by stage: where a cluster's blocks are combined
};

class LineLowering : PieceForm {
 public:
  explicit LineLowering(TileParts& parts) : PieceForm(parts), spread_(parts) {}

  size_t stage() const { return c_.stage; }
  // Copies a tensor's line into the registers that stand for it from then on.
  nest::Block keep_line(const LinePlan& plan, size_t load, nest::BufferId buffer,
                        const std::vector<Expr>& rows, const Expr& lane) const;
  nest::Block line_stage(const LinePlan& plan, const std::vector<Expr>& rows,
                         const Expr& parallel_dim, const Expr& lane);

 private:
  nest::Block line_positions(const LinePlan& plan, const State& rows, const Expr& lane,
                             const Leaf& body) const;
  nest::Block reduced_line(const LinePlan& plan, const State& at, const Expr& parallel_dim,
                           const Expr& lane) const;
  State line_rows(const std::vector<Expr>& rows) const;
  nest::Block combine_blocks(const LinePlan& plan, const Expr& row, const Expr& lane) const;

  SpreadLowering spread_;
};

}  // namespace tile::lowering
