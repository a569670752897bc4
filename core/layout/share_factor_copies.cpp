// On a CPU, copies a factor that several products of one form read (the weights of a loop's steps,
// written out) into the order in which their register tiles walk it. Each product alone would not
// be worth the copy, or would pack the factor again each time. Done where the model finds that all
// of them together are.
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/schedule.h"
#include "core/layout/factor_copies.h"
#include "core/layout/layout.h"
#include "core/support/choices.h"
#include "core/support/control.h"

namespace tile {
namespace {

constexpr double kWorthwhile = 0.9;       // of the time without copies: the model is no better
constexpr double kLeastPoints = 1 << 20;  // of all products together
constexpr size_t kLeastReaders = 3;

using Order = std::vector<size_t>;  // of a tensor's dimensions

// The products that read one tensor in one way.
struct Readers {
  size_t load = 0;  // which of their loads it is
  std::vector<size_t> statements;
};

const Contraction* product_of(const BoundStatement& statement, const BoundTensors& tensors) {
  const auto* c = std::get_if<Contraction>(&statement);
  return c != nullptr && matrix_class(*c, tensors) ? c : nullptr;
}

// The factor's dimensions with those of terms before, or behind, those that its products keep.
std::vector<Order> orders_of(const std::vector<IteratorId>& iterators, const PieceClass& kind) {
  Order batch, terms, own;
  for (size_t d = 0; d < iterators.size(); ++d) {
    Role role = kind.roles[iterators[d]];
    (role == Role::batch ? batch : role == Role::k ? terms : own).push_back(d);
  }
  auto joined = [&](const Order& first, const Order& second) {
    Order all = batch;
    all.insert(all.end(), first.begin(), first.end());
    all.insert(all.end(), second.begin(), second.end());
    return all;
  };
  std::vector<Order> orders{joined(terms, own), joined(own, terms)};
  std::erase_if(orders, [](const Order& o) { return std::is_sorted(o.begin(), o.end()); });
  return orders;
}

class Sharing {
 public:
  Sharing(BoundProgram& program, const Target& target)
      : program_(program), target_(target), copies_(program), before_(program.statements.size()) {}

  void run() {
    for (auto& [key, readers] : readers_by_form()) {
      checkpoint();
      share(std::get<TensorId>(key), readers);
    }
    std::vector<BoundStatement> all;
    for (size_t s = 0; s < before_.size(); ++s) {
      std::move(before_[s].begin(), before_[s].end(), std::back_inserter(all));
      all.push_back(std::move(program_.statements[s]));
    }
    program_.statements = std::move(all);
  }

 private:
  using Key = std::tuple<TensorId, size_t, std::string>;

  std::map<Key, Readers> readers_by_form() const {
    std::map<Key, Readers> all;
    for (size_t s = 0; s < program_.statements.size(); ++s) {
      const Contraction* c = product_of(program_.statements[s], program_.tensors);
      if (c == nullptr) continue;
      std::string form = form_of(c->pieces[0]);
      for (size_t l = 0; l < 2; ++l) {
        TensorId id = c->pieces[0].loads[l].tensor;
        const BoundTensor& t = program_.tensors[id];
        if (t.fixed || compute_type(t.type) != t.type) continue;
        Readers& readers = all[{id, l, form}];
        readers.load = l;
        readers.statements.push_back(s);
      }
    }
    std::erase_if(all, [](const auto& of) { return of.second.statements.size() < kLeastReaders; });
    return all;
  }
  // Extents, and where both factors are read.
  std::string form_of(const Piece& piece) const {
    std::string form = std::to_string(piece.parallel_dims);
    IdVector<IteratorId, std::string> names;
    for (size_t u = 0; u < piece.box.size(); ++u) {
      form += " " + std::to_string(piece.box[IteratorId(u)]);
      names.push_back("x" + std::to_string(u));
    }
    for (const Access& load : piece.loads) {
      const BoundTensor& t = program_.tensors[load.tensor];
      form += "; " + std::to_string(static_cast<int>(t.type));
      for (size_t d = 0; d < load.index.size(); ++d) {
        form += ", " + std::to_string(t.shape[d]) + " " + to_string(load.index[d].affine, names);
      }
    }
    return form;
  }

  Contraction& product(size_t s) { return std::get<Contraction>(program_.statements[s]); }

  // The product with a copy of the factor in that order.
  struct Reordered {
    Contraction product;
    std::vector<BoundStatement> copy;
  };
  Reordered reordered(const Contraction& c, size_t load, const Order& order) {
    Reordered other{c, {}};
    Access& a = other.product.pieces[0].loads[load];
    a = copies_.reordered(a, order, other.copy);
    return other;
  }

  void share(TensorId factor, const Readers& readers) {
    const Contraction one = product(readers.statements[0]);
    const Piece& piece = one.pieces[0];
    auto iterators =
        whole_dimensions(piece.loads[readers.load], piece, program_.tensors[factor].shape);
    if (!iterators) return;
    std::vector<Order> orders = orders_of(*iterators, classify(piece, one, program_.tensors));
    size_t tensors = program_.tensors.size();
    size_t choice = chosen("share-factor-copies " + program_.tensors[one.outputs[0]].name,
                           [&] { return best_order(one, readers, orders); });
    program_.tensors.resize(tensors);
    if (choice > 0 && choice <= orders.size()) take(readers, orders[choice - 1]);
  }
  // The number of the order from 1; 0: the factor is read where it is.
  size_t best_order(const Contraction& one, const Readers& readers,
                    const std::vector<Order>& orders) {
    auto count = static_cast<double>(readers.statements.size());
    if (orders.empty() || count * point_count(one.pieces[0]) < kLeastPoints) return 0;
    double least = kWorthwhile * count * alone_ns(one, program_, target_);
    size_t best = 0;
    for (size_t o = 0; o < orders.size(); ++o) {
      Reordered other = reordered(one, readers.load, orders[o]);
      double ns = count * alone_ns(other.product, program_, target_);
      for (const BoundStatement& s : other.copy)
        ns += alone_ns(std::get<Contraction>(s), program_, target_);
      if (ns >= least) continue;
      least = ns;
      best = o + 1;
    }
    return best;
  }

  void take(const Readers& readers, const Order& order) {
    size_t first = readers.statements[0];
    Reordered other = reordered(product(first), readers.load, order);
    TensorId copy = other.product.pieces[0].loads[readers.load].tensor;
    std::move(other.copy.begin(), other.copy.end(), std::back_inserter(before_[first]));
    for (size_t s : readers.statements) {
      Access& load = product(s).pieces[0].loads[readers.load];
      std::vector<Index> index;
      for (size_t d : order) index.push_back(load.index[d]);
      load.tensor = copy;
      load.index = std::move(index);
    }
  }

  BoundProgram& program_;
  const Target& target_;
  FactorCopies copies_;
  std::vector<std::vector<BoundStatement>> before_;  // copies, by the statement behind them
};

}  // namespace

void share_factor_copies(BoundProgram& program, const Target& target) {
  if (!is_gpu(target)) Sharing(program, target).run();
}

}  // namespace tile
