// E[s, t] = exp(L[s, t] - M[s]) where 0 <= s - t < S, which is read where 0 <= s - t < S alone, is
// E = exp(L - M): the zeros of the other cells are seen by nobody; nor are they where a pointwise
// statement reads all cells, and its own are read where the condition holds. Causal attention whose
// pointwise statements have its condition, too, is then that whose sums have it, which streams
// take.
#include <algorithm>
#include <optional>
#include <vector>

#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/statement_uses.h"
#include "core/ir/operation_cost.h"
#include "core/passes/normalize/index_forms.h"
#include "core/passes/optimize/masked_maps.h"
#include "core/passes/optimize/optimize.h"

namespace tile {
namespace {

// Of its cells, that a statement under a condition computes at least: where it stores them after
// all, it computes the others for nothing.
constexpr double kLeastShare = 0.125;

// Statements that are looked through for one whose conditions are dropped: chains of them may have
// many readers each.
constexpr int kMostAsked = 64;

class DroppedConditions {
 public:
  explicit DroppedConditions(BoundProgram& program) : program_(program), uses_(program) {}

  void run() {
    for (BoundStatement& statement : program_.statements) {
      auto* c = std::get_if<Contraction>(&statement);
      std::optional<Piece> whole = c == nullptr ? std::nullopt : masked_map(program_, *c);
      int asked = 0;
      bool drops = whole && computes_anywhere(whole->body) && share(*whole) >= kLeastShare &&
                   only_read_under(*whole, c->outputs[0], asked);
      if (!drops) continue;
      whole->constraints.clear();
      c->pieces[0] = std::move(*whole);
    }
  }

 private:
  // Integers may be divided by zero where a condition does not hold.
  static bool computes_anywhere(const Body& body) {
    return std::none_of(body.nodes.begin(), body.nodes.end(), [](const Node& n) {
      bool divides = n.kind == NodeKind::operation && !is_float(n.type) && is_dear(n.op);
      return n.kind == NodeKind::fold || divides;
    });
  }

  // About, of the cells.
  static double share(const Piece& whole) {
    Piece all = whole;
    all.constraints.clear();
    IndexForms forms(all);
    double part = 1;
    for (const Constraint& k : whole.constraints) {
      FormRange range = forms.range(k.form);
      Rational reach = range.hi - range.lo;
      double values = static_cast<double>(reach.num()) / static_cast<double>(reach.den()) + 1;
      part *= std::min(1.0, static_cast<double>(k.hi - k.lo) / values);
    }
    return part;
  }

  bool only_read_under(const Piece& map, TensorId id, int& asked) const {
    const std::vector<size_t>& readers = uses_.readers(id);
    return uses_.is_inner(id) && std::all_of(readers.begin(), readers.end(), [&](size_t i) {
             const auto* c = std::get_if<Contraction>(&program_.statements[i]);
             return c != nullptr && c->normalized && c->fill != id &&
                    (std::all_of(c->pieces.begin(), c->pieces.end(),
                                 [&](const Piece& p) { return reads_under(p, map, id); }) ||
                     passes_on(*c, map, id, asked));
           });
  }

  // Whether a pointwise statement, whatever cells of the map it reads, is itself read where those
  // satisfy the map's conditions alone.
  bool passes_on(const Contraction& c, const Piece& map, TensorId id, int& asked) const {
    if (++asked > kMostAsked) return false;
    std::optional<Piece> reader = whole_map(program_, c);
    if (!reader || !computes_anywhere(reader->body)) return false;
    std::optional<std::vector<Constraint>> conditions = conditions_of(*reader, map, id);
    if (!conditions) return false;
    reader->constraints = std::move(*conditions);
    return only_read_under(*reader, c.outputs[0], asked);
  }

  static bool reads_under(const Piece& reader, const Piece& map, TensorId id) {
    std::optional<std::vector<Constraint>> conditions = conditions_of(reader, map, id);
    IndexForms forms(reader);
    return conditions &&
           std::all_of(conditions->begin(), conditions->end(),
                       [&](const Constraint& k) { return forms.within(k.form, k.lo, k.hi); });
  }

  // The map's conditions on all of its cells that the reader loads, as those of the reader's
  // points; nullopt: data decides which cells these are.
  static std::optional<std::vector<Constraint>> conditions_of(const Piece& reader, const Piece& map,
                                                              TensorId id) {
    std::vector<Constraint> all;
    for (const Access& load : reader.loads) {
      if (load.tensor != id) continue;
      // The map's iterators as forms of the reader's.
      std::vector<Affine> at(map.iterators.size(), constant_affine(0));
      for (size_t d = 0; d < load.index.size(); ++d) {
        if (load.index[d].value >= 0) return std::nullopt;
        IteratorId u = sole_iterator(map.stores[0].index[d], map);
        if (u.valid()) at[u.index()] = load.index[d].affine;
      }
      for (const Constraint& k : map.constraints) {
        all.push_back({substitute(k.form, at), k.lo, k.hi, k.integral});
      }
    }
    return all;
  }

  BoundProgram& program_;
  const StatementUses uses_;  // whoever has conditions reads the same
};

}  // namespace

// Where skipped points may be computed with a zero (rule 4.12), cells that nobody sees would have
// to be zero all the same: an infinity there would be seen.
void drop_conditions(BoundProgram& program, const Target& target) {
  if (!is_gpu(target) || target.strict_skip) DroppedConditions(program).run();
}

}  // namespace tile
