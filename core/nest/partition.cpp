// Loop partition. A tile region is the code of one tile: a block that allocates registers, or else
// an outermost vector or unrolled loop. Every guard and every masked lane count in it is a linear
// form; the region's interior test asks that each form's minimum over the variables bound inside
// the region is not negative. Where the test holds, a copy of the region runs without guards;
// elsewhere the general body does. So a region has two bodies however many borders its domain has.
#include <algorithm>
#include <set>

#include "core/nest/nest.h"
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
using Facts = std::set<std::string>;

class Partitioner {
 public:
  explicit Partitioner(const Nest& nest) : nest_(nest) {
    for (const Parameter& p : nest.parameters) ranges_.set(p.name, p.lo, p.hi);
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
    ranges_.set(f.variable, f.begin, clean(f.begin + f.extent - 1));
    Block body = block(f.body, inside_region);
    ranges_.of.erase(f.variable);
    return body;
  }

  static bool allocates_registers(const Nest& nest, const Block& statements) {
    return std::any_of(statements.begin(), statements.end(), [&](const Statement& s) {
      const Alloc* a = std::get_if<Alloc>(&s.what);
      return a != nullptr && nest.buffers[static_cast<size_t>(a->buffer)].scope == Scope::registers;
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

  // Both bodies of a region, or one where the ranges decide the interior test.
  Block region(const Block& statements) {
    std::vector<Expr> tests;
    Ranges outside = ranges_;
    collect_tests(statements, tests);
    ranges_ = outside;
    std::vector<Expr> open;
    for (const Expr& test : tests) {
      if (proves_negative(test, ranges_)) return block(statements, true);  // never interior
      if (!proves_nonnegative(test, ranges_)) open.push_back(test);
    }
    Block general = block(statements, true);
    if (tests.empty() || open.empty()) return general;
    Facts saved = facts_;
    for (const Expr& test : open) facts_.insert(to_string(test));
    Block interior = block(statements, true);
    facts_ = saved;
    If choice;
    choice.nonnegative = open;
    choice.then = std::move(interior);
    choice.otherwise = std::move(general);
    return {Statement{std::move(choice)}};
  }

  // The minimum of a form over the variables bound inside the region, in the variables outside;
  // nullopt: not linear, or an inside variable without constant range.
  std::optional<Expr> region_minimum(const Expr& e) const {
    std::optional<LinearForm> form = linear_form(e);
    if (!form) return std::nullopt;
    LinearForm rest;
    rest.constant = form->constant;
    for (const auto& [name, factor] : form->terms) {
      if (!inside_.contains(name)) {
        rest.terms[name] = factor;
        continue;
      }
      ConstantRange r = constant_range(Expr::variable(name), ranges_);
      std::optional<int64_t> bound = factor > 0 ? r.lo : r.hi;
      if (!bound) return std::nullopt;
      rest.constant = checked_add(rest.constant, checked_mul(factor, *bound));
    }
    return clean(from_linear(rest));
  }
  void add_test(const Expr& e, std::vector<Expr>& tests) const {
    std::optional<Expr> test = region_minimum(clean(e));
    if (!test || std::find(tests.begin(), tests.end(), *test) != tests.end()) return;
    tests.push_back(*test);
  }
  // extent = min(width, e…) with lanes to spare: interior where every e >= width.
  void add_extent_tests(const For& f, std::vector<Expr>& tests) const {
    if (f.kind != LoopKind::vector || f.extent.is_constant()) return;
    std::vector<Expr> parts{f.extent};
    if (f.extent.kind() == ExprKind::min) parts = f.extent.args();
    for (const Expr& part : parts) {
      if (!part.is_constant(f.width)) add_test(part - f.width, tests);
    }
  }
  void collect_tests(const Block& statements, std::vector<Expr>& tests) {
    for (const Statement& s : statements) {
      if (const For* f = std::get_if<For>(&s.what)) {
        add_extent_tests(*f, tests);
        ranges_.set(f->variable, f->begin, clean(f->begin + f->extent - 1));
        inside_.insert(f->variable);
        collect_tests(f->body, tests);
        inside_.erase(f->variable);
      } else if (const If* i = std::get_if<If>(&s.what)) {
        for (const Expr& e : i->nonnegative) add_test(e, tests);
        collect_tests(i->then, tests);
        collect_tests(i->otherwise, tests);
      }
    }
  }

  bool known_nonnegative(const Expr& e) {
    if (proves_nonnegative(e, ranges_)) return true;
    if (facts_.empty()) return false;
    // A fact is the minimum over the inside variables, so it implies the form everywhere inside.
    std::optional<LinearForm> form = linear_form(e);
    if (!form) return false;
    LinearForm rest = *form;
    for (const std::string& name : inside_) {
      auto it = rest.terms.find(name);
      if (it == rest.terms.end()) continue;
      ConstantRange r = constant_range(Expr::variable(name), ranges_);
      std::optional<int64_t> bound = it->second > 0 ? r.lo : r.hi;
      if (!bound) return false;
      rest.constant = checked_add(rest.constant, checked_mul(it->second, *bound));
      rest.terms.erase(it);
    }
    return facts_.contains(to_string(clean(from_linear(rest))));
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
    bool movable = guard != nullptr && guard->otherwise.empty() && f.kind != LoopKind::parallel;
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
    copy.loads = accesses(i.loads);
    copy.predicate = body(i.predicate);
    copy.then = block(i.then, inside_region);
    copy.otherwise = block(i.otherwise, inside_region);
    if (copy.then.empty() && copy.otherwise.empty()) return {};
    return {Statement{std::move(copy)}};
  }
  Block statement(const Store& s, bool) {
    Store copy = s;
    copy.target = access(s.target);
    copy.loads = accesses(s.loads);
    copy.body = body(s.body);
    return {Statement{std::move(copy)}};
  }
  Block statement(const Alloc& a, bool) { return {Statement{a}}; }
  Block statement(const Sync& s, bool) { return {Statement{s}}; }

  Access access(Access a) const {
    for (Expr& e : a.index) e = clean(e);
    return a;
  }
  std::vector<Access> accesses(std::vector<Access> list) const {
    for (Access& a : list) a = access(std::move(a));
    return list;
  }
  Body body(Body b) const {
    change_nodes(b, [&](Node& node) {
      if (node.kind == NodeKind::size) node.expr = clean(node.expr);
    });
    return b;
  }

  const Nest& nest_;
  Ranges ranges_;
  Facts facts_;
  std::set<std::string> inside_;  // variables bound inside the region being rewritten
};

}  // namespace

Nest partition(const Nest& nest) { return Partitioner(nest).run(); }

}  // namespace tile::nest
