#include "core/nest/passes/versioning_profit.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/nest/passes/interior.h"

namespace tile::nest {
namespace {

constexpr double kRare = 200;  // statements for each test

// How often a block tests and computes something; a vector at once.
struct Count {
  double tests = 0, statements = 0;
};

class Counter {
 public:
  explicit Counter(const Ranges& ranges) : ranges_(ranges) {}

  Count of_all(const Block& block) {
    Count count = of(block);
    count.tests += once_;
    return count;
  }

 private:
  Count of(const Block& block) {
    Count sum;
    for (const Statement& s : block) {
      Count more;
      if (const For* f = std::get_if<For>(&s.what)) more = of(*f);
      if (const If* i = std::get_if<If>(&s.what)) more = of(*i);
      if (const Store* store = std::get_if<Store>(&s.what)) more = of(*store);
      sum.tests += more.tests;
      sum.statements += more.statements;
    }
    return sum;
  }
  Count of(const For& f) {
    inside_.push_back(f.variable);
    Count count = of(f.body);
    inside_.pop_back();
    bool written_out = f.kind == LoopKind::vector || f.kind == LoopKind::unrolled;
    if (written_out && !f.extent.is_constant()) count.tests += 1;
    if (f.kind == LoopKind::vector) return count;
    double trips = at_most(f.extent);
    return {count.tests * trips, count.statements * trips};
  }
  Count of(const If& i) {
    Count then = of(i.then), otherwise = of(i.otherwise);
    return {1 + std::max(then.tests, otherwise.tests),
            std::max(then.statements, otherwise.statements)};
  }
  Count of(const Store& s) {
    Count count{0, 1};
    auto choose = [&](const Access& a) {
      for (const Expr& e : a.index) count.tests += choices(e);
    };
    choose(s.target);
    std::for_each(s.loads.begin(), s.loads.end(), choose);
    for (const Node& node : s.body.nodes) {
      if (node.kind == NodeKind::size) count.tests += choices(node.expr);
      if (node.kind == NodeKind::fold) count.tests += 1;  // it may choose in each of its rounds
    }
    return count;
  }
  // Those that change inside the block; others are made once.
  double choices(const Expr& e) {
    if (!has_choices(e)) return 0;
    double sum = 0;
    switch (e.kind()) {
      case ExprKind::add:
      case ExprKind::sub:
      case ExprKind::neg:
      case ExprKind::mul:
      case ExprKind::exact_div:
        for (const Expr& arg : e.args()) sum += choices(arg);
        return sum;
      default:
        break;
    }
    bool varies = std::any_of(inside_.begin(), inside_.end(),
                              [&](const std::string& name) { return uses_variable(e, name); });
    once_ += varies ? 0 : 1;
    return varies ? 1 : 0;
  }
  double at_most(const Expr& extent) const {
    int64_t most = constant_range(extent, ranges_).hi.value_or(1);
    return static_cast<double>(std::max<int64_t>(most, 1));
  }

  const Ranges& ranges_;
  std::vector<std::string> inside_;  // variables of the loops around
  double once_ = 0;                  // choices for all runs of the statement
};

}  // namespace

bool tests_are_rare(const Block& statements, const Ranges& ranges) {
  Count count = Counter(ranges).of_all(statements);
  return kRare * count.tests <= count.statements;
}

}  // namespace tile::nest
