// Terms x * y of a sum, x an f32 and y a bf16, that are rounded to bf16: gradients of products
// whose factors the text widens, while what they are multiplied by stays f32. Where x is rounded
// instead, the bound of the term's error is the same, |x y| times half a unit in the last place,
// and both factors are of the type that tensor cores multiply. Not so of f16, whose exponents are
// fewer: x may be too large or too small for it where x * y is not. The rounded tensor is made once
// for all of its readers, where its maker has the values at hand.
#include <algorithm>
#include <map>

#include "core/ir/analysis/matrix_types.h"
#include "core/ir/analysis/plain_contraction.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/forms/gpu_stream.h"
#include "core/layout/factor_copies.h"
#include "core/layout/layout.h"

namespace tile {
namespace {

constexpr int64_t kLeastExtent = 16;      // rows, columns and terms that one instruction multiplies
constexpr double kLeastPoints = 1 << 20;  // fewer are not worth a tensor

class Rounding {
 public:
  Rounding(BoundProgram& program, const Target& target)
      : program_(program), target_(target), copies_(program) {}

  void run() {
    std::vector<BoundStatement> all;
    for (BoundStatement& statement : program_.statements) {
      if (auto* c = std::get_if<Contraction>(&statement)) round(*c, all);
      all.push_back(std::move(statement));
    }
    program_.statements = std::move(all);
  }

 private:
  void round(Contraction& c, std::vector<BoundStatement>& made) {
    bool sum =
        is_plain_contraction(c) && c.aggregation == Aggregation::sum && c.accumulator == DType::f32;
    if (!sum || gpu::narrow_product(c.pieces[0].body)) return;
    Piece& piece = c.pieces[0];
    std::optional<gpu::Factors> factors = gpu::rounded_product(piece.body);
    if (!factors || piece.loads.size() != 2) return;
    const Node &wide = piece.body[factors->rounded], &narrow = piece.body[factors->exact];
    bool loads = wide.kind == NodeKind::load && narrow.kind == NodeKind::load &&
                 wide.slot != narrow.slot && wide.args.empty() && narrow.args.empty();
    constexpr DType type = DType::bf16;
    bool multiplied = narrow.type == type && tensor_core_rate(type, target_) > 0;
    if (!loads || !multiplied || !is_large_product(piece)) return;
    piece.loads[wide.slot] = rounded(piece.loads[wide.slot], type, made);
    Body body;
    NodeId x = body.cast(body.load(0, type), DType::f32),
           y = body.cast(body.load(1, type), DType::f32);
    body.results = {body.operation(Op::mul, {x, y}, DType::f32, c.span)};
    piece.body = std::move(body);
  }

  // Both factors have rows of their own and share the terms.
  static bool is_large_product(const Piece& piece) {
    ProductExtents of = product_extents(piece, piece.loads[0], piece.loads[1]);
    return std::min({of.rows, of.columns, of.terms}) >= kLeastExtent &&
           point_count(piece) >= kLeastPoints;
  }

  // The access through the tensor's copy of that type.
  Access rounded(const Access& from, DType type, std::vector<BoundStatement>& made) {
    auto [at, fresh] = known_.try_emplace({from.tensor, type});
    if (fresh) at->second = copies_.converted(from, type, made).tensor;
    Access access = from;
    access.tensor = at->second;
    return access;
  }

  BoundProgram& program_;
  const Target& target_;
  FactorCopies copies_;
  std::map<std::pair<TensorId, DType>, TensorId> known_;
};

}  // namespace

void round_factors(BoundProgram& program, const Target& target) {
  if (is_gpu(target)) Rounding(program, target).run();
}

}  // namespace tile
