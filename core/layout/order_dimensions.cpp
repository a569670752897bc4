// Stores a temporary with its dimensions in another order, where products that make or read it then
// find those of their rows, of their columns and of their terms together: 40 columns eight times
// are 320, whole tiles of them, and whole lines of results. Nothing is copied. Done where the model
// finds it faster for the statements that make and read the tensor.
#include <algorithm>
#include <set>

#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/statement_uses.h"
#include "core/ir/analysis/uses.h"
#include "core/layout/factor_copies.h"
#include "core/layout/layout.h"
#include "core/layout/program_parts.h"
#include "core/passes/normalize/substitution.h"

namespace tile {
namespace {

constexpr double kWorthwhile = 0.95;  // of the time in the present order: less may be an error
constexpr double kLeastPoints = 1 << 20;
constexpr size_t kLeastRank = 3;
constexpr size_t kMostStatements = 16;  // that make and read a tensor

using Order = std::vector<size_t>;  // of the present dimensions

// What the iterator of each dimension is for; empty: one is no iterator of its own.
std::vector<Role> roles_of(const Access& a, const Piece& piece, const PieceClass& kind) {
  std::vector<Role> roles;
  std::set<IteratorId> seen;
  for (const Index& index : a.index) {
    IteratorId u = sole_iterator(index, piece);
    if (!u.valid() || !seen.insert(u).second) return {};
    roles.push_back(kind.roles[u]);
  }
  return roles;
}

Order grouped(const std::vector<Role>& roles, const std::vector<Role>& groups) {
  Order order;
  for (Role group : groups) {
    for (size_t d = 0; d < roles.size(); ++d) {
      if (roles[d] == group) order.push_back(d);
    }
  }
  return order;
}

class Ordering {
 public:
  Ordering(BoundProgram& program, const Target& target)
      : program_(program), target_(target), uses_(program) {}

  void run() {
    std::set<TensorId> looked_at;
    for (size_t i = 0; i < program_.statements.size(); ++i) {
      const auto* c = std::get_if<Contraction>(&program_.statements[i]);
      if (c == nullptr || !is_product(*c)) continue;
      std::vector<TensorId> touched = c->outputs;
      for (const Access& a : c->pieces[0].loads) touched.push_back(a.tensor);
      for (TensorId id : touched) {
        if (looked_at.insert(id).second && is_free(id)) improve(id);
      }
    }
  }

 private:
  bool is_product(const Contraction& c) const {
    return !c.pieces.empty() && point_count(c.pieces[0]) >= kLeastPoints &&
           matrix_class(c, program_.tensors);
  }

  // Nobody else sees the order of its dimensions.
  bool is_free(TensorId id) const {
    const BoundTensor& t = program_.tensors[id];
    bool own = t.role == TensorRole::temporary && !t.constant && !t.view_of && !t.tf32_parts;
    if (!own || t.shape.size() < kLeastRank || !uses_.is_inner(id)) return false;
    std::vector<size_t> statements = statements_of(id);
    return std::all_of(statements.begin(), statements.end(), [&](size_t i) {
      const auto* c = std::get_if<Contraction>(&program_.statements[i]);
      return c != nullptr && c->normalized && c->fill != id;
    });
  }

  // That make or read it, in order.
  std::vector<size_t> statements_of(TensorId id) const {
    std::vector<size_t> list = uses_.readers(id);
    if (std::optional<size_t> maker = uses_.maker(id)) list.insert(list.begin(), *maker);
    return list;
  }

  // The neighbours in memory stay: what walks the tensor cell by cell still reads lines.
  std::set<Order> orders_of(TensorId id, const std::vector<size_t>& statements) const {
    std::set<Order> orders;
    size_t last = program_.tensors[id].shape.size() - 1;
    for (size_t i : statements) {
      const Contraction& c = std::get<Contraction>(program_.statements[i]);
      if (!is_product(c)) continue;
      const Piece& piece = c.pieces[0];
      PieceClass kind = classify(piece, c, program_.tensors);
      for (const std::vector<Access>* list : {&piece.loads, &piece.stores}) {
        for (const Access& a : *list) {
          if (a.tensor != id) continue;
          std::vector<Role> roles = roles_of(a, piece, kind);
          for (const std::vector<Role>& groups : kGroups) {
            Order order = grouped(roles, groups);
            bool other = !std::is_sorted(order.begin(), order.end());
            if (other && order.size() == last + 1 && order.back() == last) orders.insert(order);
          }
        }
      }
    }
    return orders;
  }

  void improve(TensorId id) {
    std::vector<size_t> statements = statements_of(id);
    if (statements.size() > kMostStatements) return;
    std::set<Order> orders = orders_of(id, statements);
    if (orders.empty()) return;
    double best = kWorthwhile * time_of(program_, statements);
    const Order* chosen = nullptr;
    for (const Order& order : orders) {
      BoundProgram other = program_;
      store_in(other, id, order, statements);
      double time = time_of(other, statements);
      if (time >= best) continue;
      best = time;
      chosen = &order;
    }
    if (chosen != nullptr) store_in(program_, id, *chosen, statements);
  }

  double time_of(const BoundProgram& program, const std::vector<size_t>& statements) {
    BoundProgram part = layout::part(program, uses_, statements, {});
    return times_.get(layout::text_of(part),
                      [&] { return layout::kernel_price(part, target_).ns; });
  }

  static void store_in(BoundProgram& program, TensorId id, const Order& order,
                       const std::vector<size_t>& statements) {
    BoundTensor& t = program.tensors.edit(id);
    const Shape shape = t.shape;
    for (size_t d = 0; d < order.size(); ++d) t.shape[d] = shape[order[d]];
    for (size_t i : statements) {
      for (Piece& piece : std::get<Contraction>(program.statements[i]).pieces) {
        auto reorder = [&](Access& a) {
          if (a.tensor != id) return;
          const std::vector<Index> index = a.index;
          for (size_t d = 0; d < order.size(); ++d) a.index[d] = index[order[d]];
        };
        std::for_each(piece.stores.begin(), piece.stores.end(), reorder);
        std::for_each(piece.loads.begin(), piece.loads.end(), reorder);
        if (piece.stores[0].tensor == id) walk_as_stored(piece);
      }
    }
  }

  // Parallel iterators in the order of the dimensions that they move along.
  static void walk_as_stored(Piece& piece) {
    const Access& store = piece.stores[0];
    auto dimension = [&](size_t u) {
      size_t d = 0;
      while (d < store.index.size() && store.index[d].affine.coefficient(u).is_zero()) ++d;
      return d;
    };
    std::vector<size_t> walked(piece.parallel_dims);
    for (size_t u = 0; u < walked.size(); ++u) walked[u] = u;
    std::stable_sort(walked.begin(), walked.end(),
                     [&](size_t u, size_t v) { return dimension(u) < dimension(v); });
    lattice::Substitution s;
    s.iterators = piece.iterators.size();
    s.old_in_new.resize(s.iterators);
    for (size_t u = 0; u < s.iterators; ++u) s.old_in_new[u] = iterator_affine(u);
    for (size_t at = 0; at < walked.size(); ++at) s.old_in_new[walked[at]] = iterator_affine(at);
    IterationBox box = piece.box;
    for (size_t at = 0; at < walked.size(); ++at) box[at] = piece.box[walked[at]];
    size_t parallel_dims = piece.parallel_dims;
    piece = substituted(std::move(piece), s);
    piece.box = std::move(box);
    piece.parallel_dims = parallel_dims;
  }

  // Of factors: rows before terms or behind them. Of results: rows before columns.
  static inline const std::vector<Role> kGroups[] = {
      {Role::batch, Role::m, Role::k}, {Role::batch, Role::k, Role::m},
      {Role::batch, Role::n, Role::k}, {Role::batch, Role::k, Role::n},
      {Role::batch, Role::m, Role::n}, {Role::batch, Role::n, Role::m}};

  BoundProgram& program_;
  const Target& target_;
  const StatementUses uses_;  // the same in every order
  layout::KnownParts<double> times_;
};

}  // namespace

void order_dimensions(BoundProgram& program, const Target& target) {
  if (is_gpu(target) && target.gpu.matrix_per_ns > 0) Ordering(program, target).run();
}

}  // namespace tile
