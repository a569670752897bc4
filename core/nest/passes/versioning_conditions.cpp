#include "core/nest/passes/versioning_conditions.h"

#include <algorithm>

namespace tile::nest {
namespace {

constexpr size_t kMostTests = 48;  // of one region

class Collector {
 public:
  explicit Collector(LoopContext& at) : at_(at) {}

  void collect(const Block& statements) {
    for (const Statement& s : statements) {
      if (const For* f = std::get_if<For>(&s.what)) {
        bool repeats = f->kind != LoopKind::thread && !f->extent.is_constant(1);
        add_extent_tests(*f);
        at_.enter(*f);
        at_.bind_inside(f->variable);
        loops_ += repeats ? 1 : 0;
        collect(f->body);
        loops_ -= repeats ? 1 : 0;
        at_.unbind_inside(f->variable);
        at_.leave(*f);
      } else if (const If* i = std::get_if<If>(&s.what)) {
        for (const Expr& e : i->nonnegative) add_test(e);
        spares_ = spares_ || loops_ > 0;
        add_ways(i->loads, i->predicate);
        collect(i->then);
        collect(i->otherwise);
      } else if (const Store* store = std::get_if<Store>(&s.what)) {
        add_ways(store->target);
        add_ways(store->loads, store->body);
      }
    }
  }
  const std::vector<Expr>& tests() const { return tests_; }
  bool spares() const { return spares_; }

 private:
  void add_test(const Expr& e) {
    std::optional<Expr> test = at_.region_minimum(at_.clean(e));
    if (!test || std::find(tests_.begin(), tests_.end(), *test) != tests_.end()) return;
    tests_.push_back(*test);
  }
  // Agrees to a way if it is the one in the middle and its conditions can be tested outside the
  // region, and adds those tests.
  bool add_way(const std::vector<Expr>& forms) {
    std::vector<Expr> more;
    bool open = false;
    for (const Expr& e : forms) {
      std::optional<int64_t> middle = at_.middle().at(e);
      if (!middle || *middle < 0) return false;
      std::optional<Expr> test = at_.region_minimum(e);
      if (!test || proves_negative(*test, at_.ranges())) return false;
      if (proves_nonnegative(*test, at_.ranges())) continue;
      open = true;
      if (std::find(tests_.begin(), tests_.end(), *test) == tests_.end()) more.push_back(*test);
    }
    if (tests_.size() + more.size() > kMostTests) return false;
    spares_ = spares_ || open;
    tests_.insert(tests_.end(), more.begin(), more.end());
    return true;
  }
  void add_ways(const Expr& e) {
    if (!has_choices(e)) return;
    decided(at_.clean(e), at_.ranges(), at_.middle(),
            [&](const std::vector<Expr>& forms) { return add_way(forms); });
  }
  void add_ways(const Access& access) {
    for (const Expr& e : access.index) add_ways(e);
  }
  void add_ways(const std::vector<Access>& loads, const Body& body) {
    for (const Node& node : body.nodes) {
      if (node.kind == NodeKind::size) add_ways(node.expr);
      if (node.kind == NodeKind::load) add_ways(loads[node.slot]);
      if (node.kind != NodeKind::fold) continue;
      bool fresh = at_.enter_counter(body, node);
      add_ways(loads, *node.region);
      at_.leave_counter(node, fresh);
    }
  }
  // extent = min(width, e…) with lanes to spare: interior where every e >= width.
  void add_extent_tests(const For& f) {
    if (f.kind != LoopKind::vector || f.extent.is_constant()) return;
    std::vector<Expr> parts{f.extent};
    if (f.extent.kind() == ExprKind::min) parts = f.extent.args();
    for (const Expr& part : parts) {
      if (part.is_constant(f.width)) continue;
      add_test(part - f.width);
      spares_ = true;
    }
  }

  LoopContext& at_;
  std::vector<Expr> tests_;
  bool spares_ = false;
  int loops_ = 0;  // around the statement that tests are collected from
};

}  // namespace

bool implies(const Expr& fact, const Expr& e) {
  if (fact == e) return true;
  std::optional<LinearForm> a = linear_form(fact), b = linear_form(e);
  return a && b && a->terms == b->terms && a->constant <= b->constant;
}

VersioningConditions versioning_conditions(const Block& statements, LoopContext& at) {
  Collector collector(at);
  collector.collect(statements);
  const std::vector<Expr>& tests = collector.tests();
  VersioningConditions result;
  result.spares = collector.spares();
  for (const Expr& test : tests) {
    if (proves_negative(test, at.ranges())) return {{}, result.spares};  // there is no interior
    bool redundant = std::any_of(tests.begin(), tests.end(), [&](const Expr& other) {
      return !(other == test) && implies(other, test);
    });
    if (!redundant && !proves_nonnegative(test, at.ranges())) result.open.push_back(test);
  }
  return result;
}

}  // namespace tile::nest
