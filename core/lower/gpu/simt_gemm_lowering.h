// The parts of lowering a GPU's sums of products: used by its two files only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/kernel/forms/gpu_forms.h"
#include "core/lower/gpu/spread_lowering.h"

namespace tile::lowering {

class SimtGemmLowering : PieceForm {
 public:
  SimtGemmLowering(TileParts& parts, const SimtGemm& g);
  nest::Block run();

 private:
  static constexpr int64_t kQuad = 4;  // neighbours that one thread moves or holds

  // One factor: how its tile is staged.
  struct Operand {
    NodeId value;
    bool along_k = false;
    const gpu::FlatIndex* parallel_dims = nullptr;
    const std::vector<size_t>* conditions = nullptr;
    int64_t tile = 0;             // cells of a tile
    int64_t vector = 1;           // neighbours of one access
    int64_t moves = 1;            // accesses of one thread for one tile
    bool asynchronous = false;    // copied to shared memory without registers
    nest::BufferId staged, held;  // shared and register buffers
    DType type = DType::f32;
  };
  using Place = std::function<nest::Access(const Expr&)>;  // of a lane of an access
  using Each = std::function<nest::Block(const Expr&)>;
  using EachCell = std::function<nest::Block(const State&)>;
  // A term of a tile: 4 * quad + place.
  struct Term {
    Expr quad, place;
  };
  // A block's tile and a thread's place in it.
  struct At {
    std::vector<Expr> block;  // part of a split, batch, m, n
    Expr thread, row, column;
  };

  static nest::Block looped(const std::string& name, const Expr& extent, nest::LoopKind kind,
                            const Each& body);
  static nest::Block digits(const std::string& prefix, const Expr& value,
                            std::vector<int64_t> radix,
                            const std::function<nest::Block(const std::vector<Expr>&)>& body);
  static Expr divided(const Expr& e, int64_t by);
  static Expr spread(const Expr& quad, const Expr& i, const Expr& place, int64_t tile,
                     int64_t quads);

  // Staging (lower_gpu_staging.cpp).
  void operand(Operand& o, NodeId value, bool along, const gpu::FlatIndex& parallel_dims,
               const std::vector<size_t>& conditions, int64_t tile);
  void make_buffers(Operand& o, const char* name);
  bool copies(const Operand& o) const;
  nest::Block moved(const Operand& o, const Expr& thread,
                    const std::function<nest::Block(const Expr& q, const Expr& term,
                                                    const Expr& parallel_dim)>& body) const;
  nest::Block fetched(const Operand& o, const State& s, const At& at, const Expr& step,
                      const Expr& slot) const;
  nest::Block loaded(const Operand& o, const State& s, const Place& to) const;
  nest::Block read(const Operand& o, const State& s, const Place& to, const Expr& lane) const;
  nest::Block zero(const Operand& o, const Place& to, const Expr& lane) const;
  nest::Block staged(const Operand& o, const Expr& slot, const Expr& thread) const;
  std::vector<Expr> factor_tests(const Operand& o, const State& s) const;
  nest::Access held_at(const Operand& o, const Expr& q, const Expr& v) const;
  nest::Access staged_at(const Operand& o, const Expr& slot, const Expr& term,
                         const Expr& parallel_dim, const Expr& lane) const;
  nest::Access in_tile(const Operand& o, const Expr& slot, const Term& term,
                       const Expr& cell) const;
  nest::Statement flag_store(int64_t value, const Expr& slot) const;
  nest::Block flagged(const Operand& o, const Expr& q, const Expr& slot) const;
  bool meets_zeros(const Operand& o) const;

  // Blocks, steps and products (lower_simt_gemm.cpp).
  gpu::FlatIndex flat_cells() const;
  nest::Block thread(const std::vector<Expr>& block, const Expr& t);
  nest::Block tile(const State& s, const At& at);
  void make_near(nest::Block& out);
  nest::Block stream(const State& s, const At& at, const Expr& begin, const Expr& count);
  nest::Block one_step(const State& s, const At& at, const Expr& begin, const Expr& count,
                       const Expr& step);
  nest::Block ring(const std::string& name, const Expr& step, const Each& body) const;
  nest::Block over_tile(const EachCell& body) const;
  nest::Block near(const Operand& o, nest::BufferId buffer, const Expr& set, const Expr& slot,
                   const Term& term, const Expr& place, int64_t cells) const;
  nest::Block both_near(const At& at, const Expr& set, const Expr& slot, const Term& term) const;
  nest::Statement product(const State& cell, const Expr& set) const;
  nest::Block products(const Expr& set) const;
  nest::Block multiplied(const State& s, const At& at, const Expr& slot, const Expr& step);
  nest::Block multiplied_ahead(const At& at, const Expr& slot) const;
  nest::Block guarded_products(const State& s, const At& at, const Expr& k);
  nest::Block over_cells(const State& s, const At& at, const EachCell& body, bool vector);
  nest::Block cleared_cells(const State& s, const At& at);
  nest::Block finish(const State& s, const At& at);
  // Steps that some point of the block's tile needs (simt_gemm_steps.cpp).
  struct Steps {
    Expr begin, end;
  };
  Steps needed_steps(const State& s, const At& at, Steps all) const;
  std::optional<Expr> extreme(const Affine& form, const State& s, const At& at, bool largest,
                              const gpu::FlatIndex* but) const;
  Expr position(const State& cell) const;

  SpreadLowering spread_;
  const SimtGemm& g_;
  gpu::MatrixForm form_;
  gpu::FlatIndex cells_;
  Operand x_, y_;
  int64_t threads_ = 0, steps_ = 0, chunk_ = 0;
  nest::BufferId flag_, x_near_, y_near_;
  std::vector<nest::BufferId> parts_;
};

}  // namespace tile::lowering
