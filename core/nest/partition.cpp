// Loop partition. A tile region is the code of one tile: a block that allocates registers, or else
// an outermost vector or unrolled loop. Every guard and every masked lane count in it is a linear
// form, and so are the conditions under which its index expressions take the way that they take in
// the middle of the iteration space (interior.h). The region's interior test asks that each form's
// minimum over the variables bound inside the region is not negative. Where the test holds, a copy
// of the region runs without guards and without choices; elsewhere the general body does. So a
// region has two bodies however many borders its domain has. On a GPU a region is the code of a
// block: all its threads take the same body. Blocks with barriers stay whole.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "core/nest/interior.h"
#include "core/nest/nest.h"
#include "core/nest/taken.h"
#include "core/nest/value_range.h"
#include "core/simplify/simplify.h"

namespace tile::nest {
namespace {

bool proves_nonnegative(const Expr& e, const Ranges& ranges) {
  ConstantRange r = constant_range(e, ranges);
  if (r.lo && *r.lo >= 0) return true;
  return prove_less(e, 0, ranges) == std::optional<bool>(false);
}
bool proves_negative(const Expr& e, const Ranges& ranges) {
  ConstantRange r = constant_range(e, ranges);
  if (r.hi && *r.hi < 0) return true;
  return prove_less(e, 0, ranges) == std::optional<bool>(true);
}

// Forms known to be >= 0 in the code being rewritten, besides what the ranges say.
using Facts = std::vector<Expr>;

// Where `fact` is >= 0, so is `e`: they are equal, or differ by a constant.
bool implies(const Expr& fact, const Expr& e) {
  if (fact == e) return true;
  std::optional<LinearForm> a = linear_form(fact), b = linear_form(e);
  return a && b && a->terms == b->terms && a->constant <= b->constant;
}

constexpr size_t kMostTests = 48;  // of one region

// Whether a statement of the block, or inside it, is such a one.
bool any_statement(const Block& block, const std::function<bool(const Statement&)>& such) {
  return std::any_of(block.begin(), block.end(), [&](const Statement& s) {
    if (such(s)) return true;
    if (const For* f = std::get_if<For>(&s.what)) return any_statement(f->body, such);
    const If* i = std::get_if<If>(&s.what);
    return i != nullptr && (any_statement(i->then, such) || any_statement(i->otherwise, such));
  });
}
bool synchronises(const Block& block) {
  return any_statement(block,
                       [](const Statement& s) { return std::holds_alternative<Sync>(s.what); });
}
// Statements of a whole block, whose code is generated from their order.
bool multiplies_matrices(const Block& block) {
  return any_statement(block, [](const Statement& s) {
    return std::holds_alternative<MatrixTile>(s.what) || std::holds_alternative<nest::Copy>(s.what);
  });
}
bool runs_threads(const Block& block) {
  return any_statement(block, [](const Statement& s) {
    const For* f = std::get_if<For>(&s.what);
    return f != nullptr && f->kind == LoopKind::thread;
  });
}

class Partitioner {
 public:
  explicit Partitioner(const Nest& nest) : nest_(nest) {
    for (const Parameter& p : nest.parameters) {
      ranges_.set(p.name, p.lo, p.hi);
      middle_.set(p.name, p.lo / 2 + p.hi / 2);
    }
  }

  Nest run() {
    Nest result = nest_;
    result.body = block(nest_.body, false);
    return result;
  }

 private:
  Expr clean(const Expr& e) const { return simplify(e, ranges_); }

  // The body of a loop, with the loop variable's range known.
  Block loop_body(const For& f, bool inside_region) {
    enter(f);
    Block body = block(f.body, inside_region);
    leave(f);
    return body;
  }
  void enter(const For& f) {
    // A single lane keeps its name where it is one of a register's.
    bool lane = f.kind == LoopKind::vector && f.width > 1 && f.extent.is_constant(1) &&
                names_registers(f.body, f.variable);
    ranges_.set(f.variable, f.begin, clean(f.begin + (lane ? Expr(1) : f.extent - 1)));
    middle_.enter(f.variable, f.begin, f.extent);
  }
  void leave(const For& f) {
    ranges_.of.erase(f.variable);
    middle_.leave(f.variable);
  }

  static bool allocates_registers(const Nest& nest, const Block& statements) {
    return std::any_of(statements.begin(), statements.end(), [&](const Statement& s) {
      const Alloc* a = std::get_if<Alloc>(&s.what);
      return a != nullptr && nest.buffers[static_cast<size_t>(a->buffer)].scope == Scope::registers;
    });
  }
  bool names_registers(const Access& a, const std::string& variable) const {
    return nest_.buffers[static_cast<size_t>(a.buffer)].scope == Scope::registers &&
           std::any_of(a.index.begin(), a.index.end(),
                       [&](const Expr& e) { return uses_variable(e, variable); });
  }
  bool names_registers(const Block& statements, const std::string& variable) const {
    return std::any_of(statements.begin(), statements.end(), [&](const Statement& s) {
      if (const If* i = std::get_if<If>(&s.what)) {
        return names_registers(i->then, variable) || names_registers(i->otherwise, variable);
      }
      const Store* store = std::get_if<Store>(&s.what);
      return store != nullptr &&
             (names_registers(store->target, variable) ||
              std::any_of(store->loads.begin(), store->loads.end(),
                          [&](const Access& a) { return names_registers(a, variable); }));
    });
  }
  static bool is_tile_loop(const Statement& s) {
    const For* f = std::get_if<For>(&s.what);
    return f != nullptr && (f->kind == LoopKind::vector || f->kind == LoopKind::unrolled);
  }

  Block block(const Block& statements, bool inside_region) {
    if (!inside_region && allocates_registers(nest_, statements)) return region(statements);
    Block out;
    for (const Statement& s : statements) {
      if (!inside_region && is_tile_loop(s)) {
        append(out, region({s}));
      } else {
        std::visit([&](const auto& what) { append(out, statement(what, inside_region)); }, s.what);
      }
    }
    return out;
  }
  static void append(Block& out, Block more) {
    std::move(more.begin(), more.end(), std::back_inserter(out));
  }

  // The conditions of the interior that the ranges do not decide; none where there is no interior.
  std::vector<Expr> interior_tests(const Block& statements) {
    std::vector<Expr> tests;
    collect_tests(statements, tests);
    std::vector<Expr> open;
    for (const Expr& test : tests) {
      if (proves_negative(test, ranges_)) return {};
      bool redundant = std::any_of(tests.begin(), tests.end(), [&](const Expr& other) {
        return !(other == test) && implies(other, test);
      });
      if (!redundant && !proves_nonnegative(test, ranges_)) open.push_back(test);
    }
    return open;
  }

  // Both bodies of a region, or one where the ranges decide the interior test.
  Block region(const Block& statements) {
    std::vector<Expr> open = interior_tests(statements);
    Block general = block(statements, true);
    if (open.empty()) return general;
    Facts saved = facts_;
    facts_.insert(facts_.end(), open.begin(), open.end());
    Block interior = block(statements, true);
    facts_ = saved;
    If choice;
    choice.nonnegative = open;
    choice.then = std::move(interior);
    choice.otherwise = std::move(general);
    return {Statement{std::move(choice)}};
  }

  // A launch of a GPU, or a loop in it around the threads of a block.
  Block launch(const For& f) {
    For copy = f;
    copy.begin = clean(f.begin);
    copy.extent = clean(f.extent);
    enter(f);
    ConstantRange value = constant_range(copy.begin, ranges_);
    bool named = f.kind == LoopKind::serial && has_choices(f.begin) && value.lo && value.hi;
    // What is computed once for all threads keeps its name.
    if (named) ranges_.set(f.variable, *value.lo, *value.hi);
    copy.body = gpu_block(f.body);
    leave(f);
    return {Statement{std::move(copy)}};
  }
  // The code of a block, which has two bodies where that spares what runs for each element. What
  // threads do together has been given its shape, and the registers for it, by lowering.
  Block gpu_block(const Block& statements) {
    if (statements.size() == 1 && runs_threads(statements)) {
      const For* f = std::get_if<For>(&statements[0].what);
      bool names = f != nullptr && f->kind == LoopKind::serial && f->extent.is_constant(1);
      if (names || (f != nullptr && f->kind == LoopKind::grid)) return launch(*f);
      const If* i = std::get_if<If>(&statements[0].what);
      if (i != nullptr && i->predicate.results.empty()) {
        If copy = *i;
        copy.then = gpu_block(i->then);
        copy.otherwise = gpu_block(i->otherwise);
        return {Statement{std::move(copy)}};
      }
    }
    if (synchronises(statements)) return statements;
    spares_ = false;
    loops_ = 0;
    bool splits = !interior_tests(statements).empty() && spares_;
    return splits ? region(statements) : block(statements, true);
  }

  // Splits a sum into the terms of variables bound inside the region and the rest, which uses none
  // of them; false if it is not such a sum.
  bool split_terms(const Expr& e, int64_t factor, std::map<std::string, int64_t>& inside,
                   Expr& rest) const {
    switch (e.kind()) {
      case ExprKind::variable:
        if (!inside_.contains(e.name())) break;
        inside[e.name()] = checked_add(inside[e.name()], factor);
        return true;
      case ExprKind::add:
        return std::all_of(e.args().begin(), e.args().end(),
                           [&](const Expr& arg) { return split_terms(arg, factor, inside, rest); });
      case ExprKind::sub:
        return split_terms(e.args()[0], factor, inside, rest) &&
               split_terms(e.args()[1], checked_neg(factor), inside, rest);
      case ExprKind::neg:
        return split_terms(e.args()[0], checked_neg(factor), inside, rest);
      case ExprKind::mul:
        if (e.args().size() == 2 && e.args()[0].is_constant()) {
          return split_terms(e.args()[1], checked_mul(factor, e.args()[0].value()), inside, rest);
        }
        break;
      default:
        break;
    }
    bool outer = std::none_of(inside_.begin(), inside_.end(),
                              [&](const std::string& name) { return uses_variable(e, name); });
    if (outer) rest = rest + Expr(factor) * e;
    return outer;
  }
  // A bound of a variable in parameters alone.
  std::optional<Expr> uniform_bound(const std::string& name, bool low) const {
    auto range = ranges_.of.find(name);
    if (range == ranges_.of.end()) return std::nullopt;
    const std::optional<Expr>& bound = low ? range->second.lo : range->second.hi;
    bool usable = bound && !bound->is_constant() && middle_.uniform(*bound);
    return usable ? bound : std::nullopt;
  }
  // The minimum of a form over the variables bound inside the region, in the variables outside;
  // nullopt: not linear, or an inside variable without constant range.
  std::optional<Expr> region_minimum(const Expr& e) const {
    std::map<std::string, int64_t> inside;
    Expr rest = 0;
    if (!split_terms(e, 1, inside, rest)) return std::nullopt;
    for (const auto& [name, factor] : inside) {
      if (factor == 0) continue;
      if (std::optional<Expr> bound = uniform_bound(name, factor > 0)) {
        rest = rest + Expr(factor) * *bound;
        continue;
      }
      ConstantRange r = constant_range(Expr::variable(name), ranges_);
      std::optional<int64_t> bound = factor > 0 ? r.lo : r.hi;
      if (!bound) return std::nullopt;
      rest = rest + Expr(checked_mul(factor, *bound));
    }
    return clean(rest);
  }
  void add_test(const Expr& e, std::vector<Expr>& tests) const {
    std::optional<Expr> test = region_minimum(clean(e));
    if (!test || std::find(tests.begin(), tests.end(), *test) != tests.end()) return;
    tests.push_back(*test);
  }
  // Agrees to a way if it is the one in the middle and its conditions can be tested outside the
  // region, and adds those tests.
  bool add_way(const std::vector<Expr>& forms, std::vector<Expr>& tests) const {
    std::vector<Expr> more;
    bool open = false;
    for (const Expr& e : forms) {
      std::optional<int64_t> middle = middle_.at(e);
      if (!middle || *middle < 0) return false;
      std::optional<Expr> test = region_minimum(e);
      if (!test || proves_negative(*test, ranges_)) return false;
      if (proves_nonnegative(*test, ranges_)) continue;
      open = true;
      if (std::find(tests.begin(), tests.end(), *test) == tests.end()) more.push_back(*test);
    }
    if (tests.size() + more.size() > kMostTests) return false;
    spares_ = spares_ || open;
    tests.insert(tests.end(), more.begin(), more.end());
    return true;
  }
  void add_ways(const Expr& e, std::vector<Expr>& tests) const {
    if (!has_choices(e)) return;
    decided(clean(e), ranges_, middle_,
            [&](const std::vector<Expr>& forms) { return add_way(forms, tests); });
  }
  void add_ways(const Access& access, std::vector<Expr>& tests) const {
    for (const Expr& e : access.index) add_ways(e, tests);
  }
  void add_ways(const std::vector<Access>& loads, const Body& body, std::vector<Expr>& tests) {
    for (const Node& node : body.nodes) {
      if (node.kind == NodeKind::size) add_ways(node.expr, tests);
      if (node.kind == NodeKind::load) add_ways(loads[static_cast<size_t>(node.slot)], tests);
      if (node.kind != NodeKind::fold) continue;
      bool fresh = enter_counter(body, node);
      add_ways(loads, *node.region, tests);
      leave_counter(node, fresh);
    }
  }
  // extent = min(width, e…) with lanes to spare: interior where every e >= width.
  void add_extent_tests(const For& f, std::vector<Expr>& tests) const {
    if (f.kind != LoopKind::vector || f.extent.is_constant()) return;
    std::vector<Expr> parts{f.extent};
    if (f.extent.kind() == ExprKind::min) parts = f.extent.args();
    for (const Expr& part : parts) {
      if (part.is_constant(f.width)) continue;
      add_test(part - f.width, tests);
      spares_ = true;
    }
  }
  void collect_tests(const Block& statements, std::vector<Expr>& tests) {
    for (const Statement& s : statements) {
      if (const For* f = std::get_if<For>(&s.what)) {
        bool repeats = f->kind != LoopKind::thread && !f->extent.is_constant(1);
        add_extent_tests(*f, tests);
        enter(*f);
        inside_.insert(f->variable);
        loops_ += repeats ? 1 : 0;
        collect_tests(f->body, tests);
        loops_ -= repeats ? 1 : 0;
        inside_.erase(f->variable);
        leave(*f);
      } else if (const If* i = std::get_if<If>(&s.what)) {
        for (const Expr& e : i->nonnegative) add_test(e, tests);
        spares_ = spares_ || loops_ > 0;
        add_ways(i->loads, i->predicate, tests);
        collect_tests(i->then, tests);
        collect_tests(i->otherwise, tests);
      } else if (const Store* store = std::get_if<Store>(&s.what)) {
        add_ways(store->target, tests);
        add_ways(store->loads, store->body, tests);
      }
    }
  }

  bool known_nonnegative(const Expr& e) const {
    if (proves_nonnegative(e, ranges_)) return true;
    if (facts_.empty()) return false;
    // A fact is the minimum over the inside variables, so it implies the form everywhere inside.
    std::optional<Expr> least = region_minimum(e);
    return least && std::any_of(facts_.begin(), facts_.end(),
                                [&](const Expr& fact) { return implies(fact, *least); });
  }
  // The expression in the code being rewritten, with the choices that the facts decide.
  Expr settled(const Expr& e) const {
    Expr c = clean(e);
    if (facts_.empty()) return c;
    return decided(c, ranges_, middle_, [&](const std::vector<Expr>& forms) {
      return std::all_of(forms.begin(), forms.end(),
                         [&](const Expr& form) { return known_nonnegative(form); });
    });
  }

  // Lanes of a vector loop that runs full wherever the facts hold.
  Expr lanes(const For& f) {
    Expr extent = clean(f.extent);
    if (f.kind != LoopKind::vector || extent.is_constant()) return extent;
    std::vector<Expr> parts{extent};
    if (extent.kind() == ExprKind::min) parts = extent.args();
    bool full = std::all_of(parts.begin(), parts.end(), [&](const Expr& part) {
      return part.is_constant(f.width) || known_nonnegative(clean(part - f.width));
    });
    return full ? Expr(f.width) : extent;
  }

  Block statement(const For& f, bool inside_region) {
    if (f.kind == LoopKind::grid) return multiplies_matrices(f.body) ? Block{{f}} : launch(f);
    For copy = f;
    copy.begin = clean(f.begin);
    copy.extent = lanes(f);
    if (copy.extent.is_constant() && copy.extent.value() <= 0) return {};
    bool fresh = inside_region && inside_.insert(f.variable).second;
    copy.body = loop_body(copy, inside_region);
    if (fresh) inside_.erase(f.variable);
    if (copy.body.empty()) return {};
    return hoist_guard(std::move(copy));
  }
  // A loop whose only statement is a guard: conditions without the loop variable move outside.
  static Block hoist_guard(For f) {
    If* guard = f.body.size() == 1 ? std::get_if<If>(&f.body[0].what) : nullptr;
    bool launches =
        f.kind == LoopKind::parallel || f.kind == LoopKind::grid || f.kind == LoopKind::thread;
    bool movable = guard != nullptr && guard->otherwise.empty() && !launches;
    if (!movable) return {Statement{std::move(f)}};
    std::vector<Expr> outside, within;
    for (const Expr& e : guard->nonnegative) {
      (uses_variable(e, f.variable) ? within : outside).push_back(e);
    }
    if (outside.empty()) return {Statement{std::move(f)}};
    If around;
    around.nonnegative = std::move(outside);
    guard->nonnegative = std::move(within);
    if (guard->nonnegative.empty() && guard->predicate.results.empty()) {
      Block inner = std::move(guard->then);
      f.body = std::move(inner);
    }
    around.then = {Statement{std::move(f)}};
    return {Statement{std::move(around)}};
  }

  Block statement(const If& i, bool inside_region) {
    If copy;
    for (const Expr& e : i.nonnegative) {
      Expr condition = clean(e);
      if (proves_negative(condition, ranges_)) return block(i.otherwise, inside_region);
      if (!known_nonnegative(condition)) copy.nonnegative.push_back(condition);
    }
    if (copy.nonnegative.empty() && i.predicate.results.empty()) {
      return block(i.then, inside_region);
    }
    copy.loads = i.loads;
    copy.predicate = i.predicate;
    body(copy.predicate, copy.loads);
    drop_untaken(copy);
    copy.then = block(i.then, inside_region);
    copy.otherwise = block(i.otherwise, inside_region);
    if (copy.then.empty() && copy.otherwise.empty()) return {};
    return {Statement{std::move(copy)}};
  }
  Block statement(const Store& s, bool) {
    Store copy = s;
    copy.target = access(s.target);
    body(copy.body, copy.loads);
    drop_untaken(copy);
    return {Statement{std::move(copy)}};
  }
  Block statement(const Alloc& a, bool) { return {Statement{a}}; }
  Block statement(const Sync& s, bool) { return {Statement{s}}; }
  Block statement(const Copy& c, bool) {
    Copy copy = c;
    for (Expr& e : copy.origin) e = clean(e);
    return {Statement{std::move(copy)}};
  }
  Block statement(const MatrixTile& m, bool) { return {Statement{m}}; }

  Access access(Access a) const {
    for (Expr& e : a.index) e = settled(e);
    return a;
  }
  // A body and the loads that it names, which may use the counters of the folds around them.
  void body(Body& b, std::vector<Access>& loads) {
    std::map<int, const Body*> regions;
    std::set<int> shared;  // loads of several regions, whose counters have several ranges
    find_regions(b, regions, shared);
    rewrite(b, b, loads, regions, shared);
    for (size_t i = 0; i < loads.size(); ++i) {
      bool done = regions.contains(static_cast<int>(i)) && !shared.contains(static_cast<int>(i));
      if (!done) loads[i] = access(std::move(loads[i]));
    }
  }
  static void find_regions(const Body& b, std::map<int, const Body*>& regions,
                           std::set<int>& shared) {
    for (const Node& node : b.nodes) {
      if (node.kind == NodeKind::fold) find_regions(*node.region, regions, shared);
      if (node.kind != NodeKind::load) continue;
      auto [known, added] = regions.try_emplace(node.slot, &b);
      if (!added && known->second != &b) shared.insert(node.slot);
    }
  }
  void rewrite(Body& b, const Body& before, std::vector<Access>& loads,
               const std::map<int, const Body*>& regions, const std::set<int>& shared) {
    std::set<int> done;
    for (Node& node : b.nodes) {
      if (node.kind == NodeKind::size) node.expr = settled(node.expr);
      if (node.kind == NodeKind::load && !shared.contains(node.slot) &&
          regions.at(node.slot) == &before && done.insert(node.slot).second) {
        Access& a = loads[static_cast<size_t>(node.slot)];
        a = access(std::move(a));
      }
      if (node.kind != NodeKind::fold) continue;
      bool fresh = enter_counter(b, node);
      Body region = *node.region;
      rewrite(region, *node.region, loads, regions, shared);
      leave_counter(node, fresh);
      node.region = std::make_shared<const Body>(std::move(region));
    }
  }
  // A bound of a fold, as an expression where it is one.
  static Expr bound_of(const Body& b, NodeId id, bool low) {
    const Node& node = b[id];
    if (node.kind == NodeKind::size) return node.expr;
    ValueRange range = value_range(b, id);
    return low ? range.lo : range.hi;
  }
  bool enter_counter(const Body& b, const Node& fold) {
    if (fold.expr.kind() != ExprKind::variable) return false;
    Expr begin = bound_of(b, fold.args[0], true), end = bound_of(b, fold.args[1], false);
    ranges_.set(fold.expr.name(), begin, clean(end - 1));
    middle_.enter(fold.expr.name(), begin, end - begin);
    return inside_.insert(fold.expr.name()).second;
  }
  void leave_counter(const Node& fold, bool fresh) {
    if (fold.expr.kind() != ExprKind::variable) return;
    ranges_.of.erase(fold.expr.name());
    middle_.leave(fold.expr.name());
    if (fresh) inside_.erase(fold.expr.name());
  }

  const Nest& nest_;
  Ranges ranges_;
  Middle middle_;
  Facts facts_;
  // Of the tests collected last: whether the interior spares more than one guard for each thread;
  // and the loops around the statement that tests are collected from.
  mutable bool spares_ = false;
  int loops_ = 0;
  std::set<std::string> inside_;  // variables bound inside the region being rewritten
};

}  // namespace

Nest partition(const Nest& nest) { return Partitioner(nest).run(); }

}  // namespace tile::nest
