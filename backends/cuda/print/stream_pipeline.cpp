#include "backends/cuda/print/stream_pipeline.h"

#include <algorithm>
#include <set>
#include <utility>

#include "backends/cuda/print/stream_layout.h"

namespace tile::cuda {

using nest::Scope;

namespace {

using Buffers = IdVector<nest::BufferId, nest::Buffer>;
using Touched = std::set<nest::BufferId>;

void add_touched(const nest::Block& block, Touched& found) {
  auto add = [&](const std::vector<nest::Access>& loads) {
    for (const nest::Access& a : loads) found.insert(a.buffer);
  };
  for (const nest::Statement& s : block) {
    if (const auto* store = std::get_if<nest::Store>(&s.what)) {
      found.insert(store->target.buffer);
      add(store->loads);
    } else if (const auto* test = std::get_if<nest::If>(&s.what)) {
      add(test->loads);
      add_touched(test->then, found);
      add_touched(test->otherwise, found);
    } else if (const auto* loop = std::get_if<nest::For>(&s.what)) {
      add_touched(loop->body, found);
    }
  }
}

bool takes_maximum(const nest::Block& block) {
  std::vector<const nest::Store*> stores = stores_in(block);
  return std::any_of(stores.begin(), stores.end(),
                     [](const nest::Store* s) { return s->kind == nest::StoreKind::max; });
}

class Ordering {
 public:
  Ordering(const nest::Block& body, const Buffers& buffers, const ClearsFragment& clears)
      : body_(body), buffers_(buffers), clears_(clears) {}

  std::optional<ProductOrder> run() {
    for (size_t i = 0; i < body_.size(); ++i) {
      bool inside = !product(i) && holds_product({body_[i]});
      if (inside) return std::nullopt;
      touched_.emplace_back();
      if (!product(i)) add_touched({body_[i]}, touched_.back());
    }
    for (bool ahead : {false, true}) {
      for (size_t i = 0; i < body_.size(); ++i) {
        if (product(i) != nullptr && begins_turn(i) == ahead) issue(i, ahead);
      }
    }
    if (order_.issues.empty()) return std::nullopt;
    sort();
    wait_between();
    wait();
    return order_;
  }

 private:
  const nest::MatrixTile* product(size_t i) const {
    return std::get_if<nest::MatrixTile>(&body_[i].what);
  }
  bool begins_turn(size_t i) const {
    return i > 0 && clears_(body_[i - 1], product(i)->sum) &&
           buffers_[product(i)->a].scope == Scope::shared;
  }
  bool is_clear(size_t i) const {
    return i + 1 < body_.size() && product(i + 1) != nullptr &&
           clears_(body_[i], product(i + 1)->sum);
  }

  // Ahead: with the first product behind the last statement that needs the sum. Others: as late as
  // together with the turn's last one.
  void issue(size_t i, bool ahead) {
    ProductOrder::Issue one{i, ahead, ahead ? body_.size() : i};
    const nest::MatrixTile& m = *product(i);
    if (ahead) {
      size_t last = i;
      for (size_t s = i; s < body_.size(); ++s) {
        if (touched_[s].contains(m.sum)) last = s;
      }
      for (const ProductOrder::Issue& other : order_.issues) {
        if (!other.ahead && other.before > last) one.before = std::min(one.before, other.before);
      }
    } else {
      for (size_t s = i + 1; s < body_.size(); ++s) {
        if (touched_[s].contains(m.sum) || touched_[s].contains(m.a)) break;
        if (product(s) != nullptr && !begins_turn(s)) one.before = s;
      }
    }
    order_.issues.push_back(one);
  }
  // One product ahead and one other: the other runs on, beside what is made of the first one.
  void sort() {
    bool first = order_.issues.size() == 2 && order_.issues[0].ahead != order_.issues[1].ahead;
    std::stable_sort(order_.issues.begin(), order_.issues.end(), [&](const auto& a, const auto& b) {
      return std::pair(a.before, a.ahead != first) < std::pair(b.before, b.ahead != first);
    });
  }
  // Of two products ahead, behind others of the turn, the second waits while the first one runs.
  void wait_between() {
    const std::vector<ProductOrder::Issue>& all = order_.issues;
    for (size_t i = 2; i < all.size(); ++i) {
      bool second = all[i].ahead && all[i - 1].ahead && !all[i - 2].ahead;
      bool together = all[i].before == all[i - 2].before;
      if (second && together) order_.waiting_issue = i;
    }
  }
  // The statement makes the first factor of a product.
  bool makes_factor(size_t s) const {
    return std::any_of(order_.issues.begin(), order_.issues.end(), [&](const auto& one) {
      nest::BufferId factor = product(one.statement)->a;
      return buffers_[factor].scope == Scope::fragment && touched_[s].contains(factor);
    });
  }

  // Groups of this turn that are issued when the statement is reached.
  int issued(size_t statement) const {
    return static_cast<int>(
        std::count_if(order_.issues.begin(), order_.issues.end(),
                      [&](const ProductOrder::Issue& one) { return one.before < statement; }));
  }
  // Groups behind the product's last one, there.
  int behind(int position, size_t statement) const {
    int turn = static_cast<int>(order_.issues.size()), here = issued(statement);
    return position < here ? here - 1 - position : here + turn - 1 - position;
  }

  // The most groups that may run when the statement begins, of those that may at present.
  int allowed(size_t i, int running) const {
    int most = makes_factor(i) ? 0 : running;
    for (size_t p = 0; p < order_.issues.size(); ++p) {
      const nest::MatrixTile& m = *product(order_.issues[p].statement);
      bool needs = touched_[i].contains(m.sum) || touched_[i].contains(m.a);
      if (needs) most = std::min(most, behind(static_cast<int>(p), i));
    }
    return most;
  }

  void wait() {
    int turn = static_cast<int>(order_.issues.size()), running = turn, here = 0;
    for (size_t i = 0; i < body_.size(); ++i) {
      running = std::min(turn, running + issued(i) - here);
      here = issued(i);
      if (product(i) != nullptr || is_clear(i)) continue;
      int most = allowed(i, running);
      // The turn's first wait stands at the end of the turn before.
      if (most < running && order_.waits.empty() && here == 0) {
        running = std::max(most, std::min(1, turn - 1));
        add_wait(body_.size(), i, running);
      }
      if (most >= running) continue;
      size_t place = behind_maxima(i);
      if (place != i) order_.behind_maximum = place;
      add_wait(place, i, running = most);
    }
    release(turn);
  }
  // A wait stands ahead of what the statement's factors are made of, but behind a running maximum:
  // by then the products that are waited for have mostly ended, and what needs them is scheduled
  // among the exponentials.
  size_t behind_maxima(size_t statement) const {
    for (size_t s = statement; s-- > 0;) {
      if (product(s) != nullptr || order_.waits.contains(s)) break;
      if (takes_maximum({body_[s]})) return s + 1;
    }
    return statement;
  }
  void add_wait(size_t place, size_t statement, int running) {
    ProductOrder::Wait& w = order_.waits[place];
    w.running = running;
    for (int p = 0; p < static_cast<int>(order_.issues.size()); ++p) {
      bool ended = behind(p, statement) >= running;
      bool news = ended && known_.insert({p, p < issued(statement)}).second;
      if (news) w.ended.push_back(order_.issues[static_cast<size_t>(p)].statement);
    }
  }

  // The first wait behind which the last product that read the turn before's blocks has ended.
  void release(int turn) {
    int last = turn - 1;
    while (last > 0 && order_.issues[static_cast<size_t>(last)].ahead) --last;
    int running = turn;
    auto end = order_.waits.find(body_.size());
    if (end != order_.waits.end()) running = end->second.running;
    for (size_t i = 0; i < body_.size() && issued(i) == 0; ++i) {
      auto w = order_.waits.find(i);
      if (w != order_.waits.end()) running = w->second.running;
      if (running > turn - 1 - last || product(i) != nullptr) continue;
      order_.released = i;
      return;
    }
    order_.released = 0;
    order_.waits[0].running = turn - 1 - last;
  }

  const nest::Block& body_;
  const Buffers& buffers_;
  const ClearsFragment& clears_;
  std::vector<Touched> touched_;
  std::set<std::pair<int, bool>> known_;  // products that have ended, of the turn before or of this
  ProductOrder order_;
};

}  // namespace

bool holds_product(const nest::Block& block, const nest::For* apart) {
  return std::any_of(block.begin(), block.end(), [&](const nest::Statement& s) {
    if (std::holds_alternative<nest::MatrixTile>(s.what)) return true;
    if (const auto* loop = std::get_if<nest::For>(&s.what)) {
      return loop != apart && holds_product(loop->body, apart);
    }
    const auto* test = std::get_if<nest::If>(&s.what);
    return test != nullptr &&
           (holds_product(test->then, apart) || holds_product(test->otherwise, apart));
  });
}

std::optional<ProductOrder> product_order(const nest::Block& body, const Buffers& buffers,
                                          const ClearsFragment& clears) {
  return Ordering(body, buffers, clears).run();
}

}  // namespace tile::cuda
