// Loop partition. A tile region is the code of one tile: a block that allocates registers, or else
// an outermost vector or unrolled loop. Every guard and every masked lane count in it is a linear
// form, and so are the conditions under which its index expressions take the way that they take in
// the middle of the iteration space (interior.h). The region's interior test asks that each form's
// minimum over the variables bound inside the region is not negative. Where the test holds, a copy
// of the region runs without guards and without choices; elsewhere the general body does. So a
// region has two bodies however many borders its domain has, and one where what the general body
// tests is little beside what it computes (versioning_profit.h). What the conditions around a
// statement say decides those inside (assumptions.h): a branch that cannot be reached has no code.
// On a GPU a region is the code of a block: all its threads take the same body. Blocks with
// barriers stay whole.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "core/ir/analysis/value_range.h"
#include "core/nest/nest.h"
#include "core/nest/passes/assumptions.h"
#include "core/nest/passes/loop_context.h"
#include "core/nest/passes/taken.h"
#include "core/nest/passes/versioning_conditions.h"
#include "core/nest/passes/versioning_profit.h"
#include "core/nest/source_lines.h"
#include "core/simplify/simplify.h"

namespace tile::nest {
namespace {

// Forms known to be >= 0 in the code being rewritten, besides what the ranges say.
using Facts = std::vector<Expr>;

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
  explicit Partitioner(const Nest& nest) : nest_(nest), at_(nest) {}

  Nest run() {
    Nest result = nest_;
    result.body = block(nest_.body, false);
    return result;
  }

 private:
  Expr clean(const Expr& e) const { return at_.clean(e); }

  // The body of a loop, with the loop variable's range known.
  Block loop_body(const For& f, bool inside_region) {
    at_.enter(f);
    Block body = block(f.body, inside_region);
    at_.leave(f);
    return body;
  }

  static bool allocates_registers(const Nest& nest, const Block& statements) {
    return std::any_of(statements.begin(), statements.end(), [&](const Statement& s) {
      const Alloc* a = std::get_if<Alloc>(&s.what);
      return a != nullptr && nest.buffers[a->buffer].scope == Scope::registers;
    });
  }
  static bool is_tile_loop(const Statement& s) {
    const For* f = std::get_if<For>(&s.what);
    return f != nullptr && (f->kind == LoopKind::vector || f->kind == LoopKind::unrolled);
  }

  Block block(const Block& statements, bool inside_region) {
    if (!inside_region && allocates_registers(nest_, statements)) {
      return region(statements, versioning_conditions(statements, at_).open, false);
    }
    Block out;
    for (const Statement& s : statements) {
      if (!inside_region && is_tile_loop(s)) {
        Block one{s};
        append(out, region(one, versioning_conditions(one, at_).open, false), s.span);
      } else {
        std::visit([&](const auto& what) { append(out, statement(what, inside_region), s.span); },
                   s.what);
      }
    }
    return out;
  }
  static void append(Block& out, Block more, Span span) {
    give_span(more, span);
    std::move(more.begin(), more.end(), std::back_inserter(out));
  }

  // Both bodies of a region, or one where the ranges decide the interior test.
  Block region(const Block& statements, std::vector<Expr> open, bool spares) {
    bool never = std::any_of(open.begin(), open.end(),
                             [&](const Expr& e) { return assumptions_.proves_negative(e, at_); });
    if (never) open.clear();
    std::erase_if(open, [&](const Expr& e) { return assumptions_.proves_nonnegative(e, at_); });
    if (open.empty()) return block(statements, true);
    size_t before = assumptions_.learn_failed(open, at_);
    Block general = block(statements, true);
    assumptions_.forget(before);
    if (!spares && tests_are_rare(general, at_.ranges())) return block(statements, true);
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
    at_.enter(f);
    ConstantRange value = constant_range(copy.begin, at_.ranges());
    bool named = f.kind == LoopKind::serial && has_choices(f.begin) && value.lo && value.hi;
    // What is computed once for all threads keeps its name.
    if (named) at_.set_range(f.variable, *value.lo, *value.hi);
    copy.body = gpu_block(f.body);
    at_.leave(f);
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
    VersioningConditions tests = versioning_conditions(statements, at_);
    return tests.spares ? region(statements, std::move(tests.open), true) : block(statements, true);
  }

  bool known_nonnegative(const Expr& e) const {
    if (proves_nonnegative(e, at_.ranges()) || assumptions_.proves_nonnegative(e, at_)) return true;
    if (facts_.empty()) return false;
    // A fact is the minimum over the inside variables, so it implies the form everywhere inside.
    std::optional<Expr> least = at_.region_minimum(e);
    return least && std::any_of(facts_.begin(), facts_.end(),
                                [&](const Expr& fact) { return implies(fact, *least); });
  }
  // The expression in the code being rewritten, with the choices that the facts decide.
  Expr settled(const Expr& e) const {
    Expr c = clean(e);
    if (facts_.empty()) return c;
    return decided(c, at_.ranges(), at_.middle(), [&](const std::vector<Expr>& forms) {
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
    bool fresh = inside_region && at_.bind_inside(f.variable);
    copy.body = loop_body(copy, inside_region);
    if (fresh) at_.unbind_inside(f.variable);
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
      bool never = proves_negative(condition, at_.ranges());
      if (never || assumptions_.proves_negative(condition, at_))
        return block(i.otherwise, inside_region);
      if (!known_nonnegative(condition)) copy.nonnegative.push_back(condition);
    }
    if (copy.nonnegative.empty() && i.predicate.results.empty()) {
      return block(i.then, inside_region);
    }
    copy.loads = i.loads;
    copy.predicate = i.predicate;
    body(copy.predicate, copy.loads);
    fold_selects(copy);
    size_t before = assumptions_.learn(copy.nonnegative);
    copy.then = block(i.then, inside_region);
    assumptions_.forget(before);
    if (i.predicate.results.empty()) assumptions_.learn_failed(copy.nonnegative, at_);
    copy.otherwise = block(i.otherwise, inside_region);
    assumptions_.forget(before);
    if (copy.then.empty() && copy.otherwise.empty()) return {};
    return {Statement{std::move(copy)}};
  }
  Block statement(const Store& s, bool) {
    Store copy = s;
    copy.target = access(s.target);
    body(copy.body, copy.loads);
    fold_selects(copy);
    return {Statement{std::move(copy)}};
  }
  Block statement(const Alloc& a, bool) { return {Statement{a}}; }
  Block statement(const Sync& s, bool) { return {Statement{s}}; }
  Block statement(const Copy& c, bool) {
    Copy copy = c;
    for (Expr& e : copy.origin) e = clean(e);
    return {Statement{std::move(copy)}};
  }
  Block statement(const MatrixTile& m, bool) {
    MatrixTile tile = m;
    for (MatrixPart* part : {&tile.a_part, &tile.b_part}) settle(*part);
    return {Statement{std::move(tile)}};
  }
  Block statement(const MatrixMove& m, bool) {
    MatrixMove move = m;
    settle(move.part);
    return {Statement{std::move(move)}};
  }
  void settle(MatrixPart& part) const {
    for (Expr& e : part.origin) e = settled(e);
  }

  Access access(Access a) const {
    for (Expr& e : a.index) e = settled(e);
    return a;
  }
  // A body and the loads that it names, which may use the counters of the folds around them.
  void body(Body& b, std::vector<Access>& loads) {
    std::map<size_t, const Body*> regions;
    std::set<size_t> shared;  // loads of several regions, whose counters have several ranges
    find_regions(b, regions, shared);
    rewrite(b, b, loads, regions, shared);
    for (size_t i = 0; i < loads.size(); ++i) {
      bool done = regions.contains(i) && !shared.contains(i);
      if (!done) loads[i] = access(std::move(loads[i]));
    }
  }
  static void find_regions(const Body& b, std::map<size_t, const Body*>& regions,
                           std::set<size_t>& shared) {
    for (const Node& node : b.nodes) {
      if (node.kind == NodeKind::fold) find_regions(*node.region, regions, shared);
      if (node.kind != NodeKind::load) continue;
      auto [known, added] = regions.try_emplace(node.slot, &b);
      if (!added && known->second != &b) shared.insert(node.slot);
    }
  }
  void rewrite(Body& b, const Body& before, std::vector<Access>& loads,
               const std::map<size_t, const Body*>& regions, const std::set<size_t>& shared) {
    std::set<size_t> done;
    for (Node& node : b.nodes) {
      if (node.kind == NodeKind::size) node.expr = settled(node.expr);
      if (node.kind == NodeKind::load && !shared.contains(node.slot) &&
          regions.at(node.slot) == &before && done.insert(node.slot).second) {
        Access& a = loads[node.slot];
        a = access(std::move(a));
      }
      if (node.kind != NodeKind::fold) continue;
      bool fresh = at_.enter_counter(b, node);
      Body region = *node.region;
      rewrite(region, *node.region, loads, regions, shared);
      at_.leave_counter(node, fresh);
      node.region = std::make_shared<const Body>(std::move(region));
    }
  }
  const Nest& nest_;
  LoopContext at_;
  Facts facts_;
  Assumptions assumptions_;
};

}  // namespace

Nest partition(const Nest& nest) { return Partitioner(nest).run(); }

}  // namespace tile::nest
