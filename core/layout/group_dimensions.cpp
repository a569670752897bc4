// On a CPU, copies the factors of a product of many dimensions to where those of its rows, of its
// columns and of its terms stand together, so that each group is walked as one dimension: 24
// columns twenty-four times are 576, whole vectors of them. Done where the model finds that it pays
// (transpose, transpose, multiply: the TTGT of tensor contraction engines).
#include <algorithm>
#include <map>

#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/schedule.h"
#include "core/layout/factor_copies.h"
#include "core/layout/layout.h"
#include "core/support/choices.h"

namespace tile {
namespace {

constexpr double kWorthwhile = 0.9;  // of the time without copies: the model is no better
constexpr double kLeastPoints = 1 << 20;

using Iterators = std::vector<IteratorId>;
using Order = std::vector<size_t>;  // of a tensor's dimensions

// Where each of the iterators stands among the dimensions.
std::optional<Order> order_of(const Iterators& wanted, const Iterators& dimensions) {
  Order order;
  for (IteratorId u : wanted) {
    auto at = std::find(dimensions.begin(), dimensions.end(), u);
    if (at == dimensions.end()) return std::nullopt;
    order.push_back(static_cast<size_t>(at - dimensions.begin()));
  }
  return order.size() == dimensions.size() ? std::optional(order) : std::nullopt;
}

Iterators joined(const Iterators& a, const Iterators& b, const Iterators& c) {
  Iterators all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

// The dimensions of a product of two factors, in groups.
struct Groups {
  Iterators batch, rows, columns;  // in the result's order
  bool rows_first = true;          // the first factor has the rows
  Iterators factors[2];            // the iterator of each dimension
  Iterators terms[2];              // in the order of either factor
};

std::optional<Groups> groups_of(const Contraction& c, const BoundTensors& tensors) {
  std::optional<PieceClass> kind = matrix_class(c, tensors);
  if (!kind) return std::nullopt;
  const Piece& piece = c.pieces[0];
  auto shape = [&](const Access& a) { return tensors[a.tensor].shape; };
  auto copies_keep = [&](const Access& a) { return tensors[a.tensor].type == DType::f32; };
  if (!std::all_of(piece.loads.begin(), piece.loads.end(), copies_keep)) return std::nullopt;
  Groups g;
  for (size_t i = 0; i < 2; ++i) {
    auto factor = whole_dimensions(piece.loads[i], piece, shape(piece.loads[i]));
    if (!factor) return std::nullopt;
    g.factors[i] = *factor;
    for (IteratorId u : *factor) {
      if (kind->roles[u] == Role::k) g.terms[i].push_back(u);
    }
  }
  auto result = whole_dimensions(piece.stores[0], piece, shape(piece.stores[0]));
  if (!result || result->empty()) return std::nullopt;
  Role last = kind->roles[result->back()];
  g.rows_first = last == Role::n;
  for (IteratorId u : *result) {
    Role role = kind->roles[u];
    bool batch = role == Role::batch, column = role == last;
    if (!batch && role != Role::m && role != Role::n) return std::nullopt;
    // A group whose dimensions others interrupt is not walked as one.
    if ((batch && !g.rows.empty()) || (!column && !g.columns.empty())) return std::nullopt;
    (batch ? g.batch : column ? g.columns : g.rows).push_back(u);
  }
  if (g.rows.empty() || g.columns.empty() || g.terms[0].size() != g.terms[1].size()) {
    return std::nullopt;
  }
  return g;
}

// For each factor that is to be copied, the order of its dimensions; nullopt: no such order.
std::optional<std::map<size_t, Order>> copies_for(const Groups& g, const Iterators& terms) {
  std::map<size_t, Order> copies;
  for (size_t i = 0; i < 2; ++i) {
    bool rows = (i == 0) == g.rows_first;
    const Iterators& own = rows ? g.rows : g.columns;
    auto before = order_of(joined(g.batch, own, terms), g.factors[i]),
         behind = order_of(joined(g.batch, terms, own), g.factors[i]);
    if (!before || !behind) return std::nullopt;
    bool grouped = std::is_sorted(before->begin(), before->end()) ||
                   std::is_sorted(behind->begin(), behind->end());
    if (!grouped) copies[i] = rows ? *before : *behind;
  }
  return copies;
}

class Grouper {
 public:
  Grouper(BoundProgram& program, const Target& target, std::vector<BoundStatement>& made)
      : program_(program), copies_(program), target_(target), made_(made) {}

  void run(Contraction& c) {
    if (c.pieces.size() != 1) return;
    std::optional<Groups> groups = groups_of(c, program_.tensors);
    if (!groups) return;
    auto first = copies_for(*groups, groups->terms[0]),
         second = copies_for(*groups, groups->terms[1]);
    if (!first || !second) return;
    const std::map<size_t, Order>& fewer = second->size() < first->size() ? *second : *first;
    if (!fewer.empty()) take_if_faster(c, fewer);
  }

 private:
  void take_if_faster(Contraction& c, const std::map<size_t, Order>& orders) {
    size_t before = program_.tensors.size();
    Contraction other = c;
    std::vector<BoundStatement> copies;
    for (const auto& [i, order] : orders) {
      Access& load = other.pieces[0].loads[i];
      load = copies_.reordered(load, order, copies);
    }
    bool faster = agreed("group-dimensions " + program_.tensors[c.outputs[0]].name, [&] {
      if (point_count(c.pieces[0]) < kLeastPoints) return false;
      double ns = alone_ns(other, program_, target_);
      for (const BoundStatement& s : copies)
        ns += alone_ns(std::get<Contraction>(s), program_, target_);
      return ns < kWorthwhile * alone_ns(c, program_, target_);
    });
    if (!faster) {
      program_.tensors.resize(before);
      return;
    }
    c = std::move(other);
    for (BoundStatement& s : copies) made_.push_back(std::move(s));
  }

  BoundProgram& program_;
  FactorCopies copies_;
  const Target& target_;
  std::vector<BoundStatement>& made_;
};

}  // namespace

void group_dimensions(BoundProgram& program, const Target& target) {
  if (is_gpu(target)) return;
  std::vector<BoundStatement> statements;
  for (BoundStatement& statement : program.statements) {
    if (Contraction* c = std::get_if<Contraction>(&statement)) {
      Grouper(program, target, statements).run(*c);
    }
    statements.push_back(std::move(statement));
  }
  program.statements = std::move(statements);
}

}  // namespace tile
