// Sums over a band of scores name its cells by their distance to the diagonal, since the normal
// form has the smallest boxes: of a window of N columns X[s, s - v] for 0 <= v < N. A streamed
// kernel walks blocks of columns; its conditions skip those that have no cell. Here v becomes the
// column, with the band as a condition, where the model finds the kernels of all passes behind
// faster.
#include <algorithm>
#include <set>

#include "core/ir/analysis/accesses.h"
#include "core/layout/layout.h"
#include "core/layout/program_parts.h"
#include "core/support/checked.h"
#include "core/support/choices.h"
#include "core/support/control.h"

namespace tile {
namespace {

using layout::Instead;
using layout::ScoreRegion;

// An index of a load that is a reduction and parallel dimensions, each taken whole.
struct Slant {
  size_t iterator = 0;
  Affine form;
  int64_t extent = 0;  // of the dimension
};

class Straightening {
 public:
  Straightening(BoundProgram& program, const Target& target)
      : program_(program), target_(target), uses_(program) {}

  void run() {
    std::set<size_t> seen;
    for (size_t i = 0; i < program_.statements.size(); ++i) {
      checkpoint();
      if (seen.contains(i)) continue;
      std::optional<ScoreRegion> region = layout::score_region(program_, target_, uses_, i);
      if (!region) continue;
      seen.insert(region->cells.begin(), region->cells.end());
      Instead other = straightened(*region);
      if (other.empty()) continue;
      std::string name = program_.tensors[contraction(i)->outputs[0]].name;
      if (!agreed("straighten " + name, [&] { return is_better(*region, other); })) continue;
      for (auto& [at, list] : other) program_.statements[at] = std::move(list[0]);
    }
  }

 private:
  const Contraction* contraction(size_t i) const {
    return std::get_if<Contraction>(&program_.statements[i]);
  }

  bool is_better(const ScoreRegion& region, const Instead& other) {
    std::vector<size_t> list = layout::around(program_, uses_, region);
    auto price = [&](const Instead& instead) {
      BoundProgram p = layout::part(program_, uses_, list, instead);
      return prices_.get(layout::text_of(p), [&] {
        exchange_sums(p, target_);
        recompute_streams(p, target_);
        return layout::kernel_price(p, target_);
      });
    };
    return price(other) < price({});
  }

  Instead straightened(const ScoreRegion& region) const {
    std::set<TensorId> cells;
    for (size_t i : region.cells) cells.insert(contraction(i)->outputs[0]);
    Instead result;
    for (size_t user : region.users) {
      const Contraction* c = contraction(user);
      if (c == nullptr || !c->normalized || c->pieces.size() != 1) continue;
      std::optional<Slant> slant = slant_of(c->pieces[0], cells);
      if (!slant) continue;
      Contraction other = *c;
      other.pieces[0] = straight(c->pieces[0], *slant);
      result[user].emplace_back(std::move(other));
    }
    return result;
  }

  // The one that all loads of the region's tensors have which the reduction moves.
  std::optional<Slant> slant_of(const Piece& p, const std::set<TensorId>& cells) const {
    std::optional<Slant> found;
    for (const Access& a : p.loads) {
      for (size_t d = 0; cells.contains(a.tensor) && d < a.index.size(); ++d) {
        const Affine& form = a.index[d].affine;
        std::optional<size_t> u = slanted(p, a.index[d]);
        if (!u) continue;
        if (found && !(found->form == form)) return std::nullopt;
        found = Slant{*u, form, program_.tensors[a.tensor].shape[d]};
      }
    }
    bool named = found && std::any_of(p.body.nodes.begin(), p.body.nodes.end(), [&](const Node& n) {
                   return n.kind == NodeKind::fold ||
                          (n.kind == NodeKind::index && n.slot == found->iterator);
                 });
    return named ? std::nullopt : found;
  }
  static std::optional<size_t> slanted(const Piece& p, const Index& index) {
    if (!is_plain_index(index)) return std::nullopt;
    std::optional<size_t> reduction;
    size_t others = 0;
    for (size_t u = 0; u < p.box.size(); ++u) {
      Rational c = index.affine.coefficient(u);
      if (c.is_zero() || p.box[u] == 1) continue;
      bool parallel = p.is_parallel(IteratorId(u));
      if (!parallel && (reduction || (c != Rational(1) && c != Rational(-1)))) return std::nullopt;
      if (!parallel) reduction = u;
      others += parallel ? 1 : 0;
    }
    return others > 0 && index.affine.is_integral() ? reduction : std::nullopt;
  }

  // The slanted index is the iterator, what it was before a condition.
  static Piece straight(const Piece& piece, const Slant& slant) {
    Piece p = piece;
    size_t v = slant.iterator;
    Rational sign = slant.form.coefficient(v);
    std::vector<Affine> in_terms;
    for (size_t u = 0; u < p.box.size(); ++u) in_terms.push_back(iterator_affine(u));
    // v = sign * (index - rest)
    Affine rest = slant.form - iterator_affine(v) * sign;
    in_terms[v] = (iterator_affine(v) - rest) * sign;
    for (std::vector<Access>* list : {&p.loads, &p.stores}) {
      for (Access& a : *list) {
        for (Index& index : a.index) index.affine = substitute(index.affine, in_terms);
      }
    }
    for (Constraint& c : p.constraints) c.form = substitute(c.form, in_terms);
    p.constraints.push_back({in_terms[v], 0, p.box[v], true});
    p.box[v] = slant.extent;
    std::erase_if(p.constraints, [&](const Constraint& c) { return is_box(c, v, slant.extent); });
    return p;
  }
  static bool is_box(const Constraint& c, size_t v, int64_t extent) {
    Affine alone = c.form - iterator_affine(v);
    return alone.is_constant() && alone.constant.is_integer() && c.lo - alone.constant.num() <= 0 &&
           c.hi - alone.constant.num() >= extent;
  }

  BoundProgram& program_;
  const Target& target_;
  const StatementUses uses_;
  layout::KnownParts<Price> prices_;
};

}  // namespace

void straighten_bands(BoundProgram& program, const Target& target) {
  bool streams = !is_gpu(target) || target.gpu.matrix_per_ns > 0;
  if (streams) Straightening(program, target).run();
}

}  // namespace tile
