// The differential tests can fail: a small bug put behind each pass is caught by random programs.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/lower/lower.h"
#include "core/pipeline/pipeline.h"
#include "tests/executors/run_backends.h"
#include "tests/random/agreement/agreement.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

// Changes something in the program; false: nothing there to break.
using Bug = bool (*)(BoundProgram&);

template <class Change>
bool in_first_piece(BoundProgram& program, Change change) {
  for (BoundStatement& statement : program.statements) {
    Contraction* c = std::get_if<Contraction>(&statement);
    if (c == nullptr) continue;
    for (Piece& piece : c->pieces) {
      if (change(*c, piece)) return true;
    }
  }
  return false;
}

bool drop_statement(BoundProgram& program) {
  if (program.statements.size() < 2) return false;
  program.statements.erase(program.statements.begin());
  return true;
}
bool drop_constraint(BoundProgram& program) {
  return in_first_piece(program, [](Contraction&, Piece& piece) {
    if (piece.constraints.size() < 2) return false;
    piece.constraints.pop_back();
    return true;
  });
}
bool tighten_constraint(BoundProgram& program) {
  return in_first_piece(program, [](Contraction&, Piece& piece) {
    if (piece.constraints.empty()) return false;
    --piece.constraints.back().hi;
    return true;
  });
}
bool shrink_box(BoundProgram& program) {
  return in_first_piece(program, [](Contraction&, Piece& piece) {
    auto wide = std::find_if(piece.box.begin(), piece.box.end(), [](int64_t e) { return e > 1; });
    if (wide == piece.box.end()) return false;
    --*wide;
    return true;
  });
}
bool drop_piece(BoundProgram& program) {
  return in_first_piece(program, [](Contraction& c, Piece&) {
    c.pieces.pop_back();
    return true;
  });
}
bool swap_operation(BoundProgram& program) {
  return in_first_piece(program, [](Contraction&, Piece& piece) {
    for (Node& n : piece.body.nodes) {
      if (n.kind != NodeKind::operation || n.op != Op::add) continue;
      n.op = Op::sub;
      return true;
    }
    return false;
  });
}

// Whether some random program shows the bug behind pass `name`.
bool caught(std::string_view name, Bug bug) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    RandomCase drawn = random_case(seed);
    BoundProgram program = bind_text(drawn.text, drawn.types);
    Interpretation expected = interpret(program, drawn.inputs, {}, true);
    bool broken = false;
    try {
      for (const Pass& pass : passes()) {
        pass.run(program, {});
        if (pass.name == name) broken = bug(program);
      }
      if (!broken) continue;
      if (!difference(expected, interpret(program, drawn.inputs).outputs, drawn.exact).empty()) {
        return true;
      }
    } catch (const std::exception&) {
      return true;  // an access outside, an unbounded index: refused loudly
    }
  }
  return false;
}

TEST(InjectedBugs, BehindEachPassAreCaught) {
  EXPECT_TRUE(caught("dead-code", drop_statement));
  EXPECT_TRUE(caught("common-subexpressions", swap_operation));
  EXPECT_TRUE(caught("gather-constraints", drop_constraint));
  EXPECT_TRUE(caught("gather-constraints", tighten_constraint));
  EXPECT_TRUE(caught("reduce", tighten_constraint));
  EXPECT_TRUE(caught("defract", shrink_box));
  EXPECT_TRUE(caught("defract", drop_piece));
  EXPECT_TRUE(caught("inline-pointwise", swap_operation));
  EXPECT_TRUE(caught("unused-producers", drop_statement));
  EXPECT_TRUE(caught("split-reduction", shrink_box));
}

// The same for what comes after the passes: bugs in a nest.
using NestBug = bool (*)(nest::Block&);

template <class Kind, class Change>
bool in_first(nest::Block& block, Change change) {
  for (nest::Statement& s : block) {
    if (Kind* k = std::get_if<Kind>(&s.what)) {
      if (change(*k)) return true;
    }
    if (nest::For* f = std::get_if<nest::For>(&s.what)) {
      if (in_first<Kind>(f->body, change)) return true;
    } else if (nest::If* i = std::get_if<nest::If>(&s.what)) {
      if (in_first<Kind>(i->then, change) || in_first<Kind>(i->otherwise, change)) return true;
    }
  }
  return false;
}

bool shorten_loop(nest::Block& block) {
  return in_first<nest::For>(block, [](nest::For& f) {
    if (!f.extent.is_constant() || f.extent.value() < 2) return false;
    f.extent = Expr(f.extent.value() - 1);
    return true;
  });
}
bool drop_guard(nest::Block& block) {
  return in_first<nest::If>(block, [](nest::If& i) {
    if (i.nonnegative.empty()) return false;
    i.nonnegative.clear();
    return true;
  });
}
bool shift_load(nest::Block& block) {
  return in_first<nest::Store>(block, [](nest::Store& s) {
    if (s.loads.empty() || s.loads[0].index.empty()) return false;
    s.loads[0].index[0] = s.loads[0].index[0] + Expr(1);
    return true;
  });
}

bool caught_in_nest(NestBug bug) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  for (uint64_t seed = 0; seed < 60; ++seed) {
    RandomCase drawn = random_case(seed);
    auto e = std::make_shared<Executable>(*compiled(engine, drawn));
    bool broken = false;
    for (Launch& launch : e->launches) broken = broken || bug(launch.nest.change().body);
    if (!broken) continue;
    try {
      Interpretation expected = interpret(e->bound, drawn.inputs, {}, true);
      if (!difference(expected, run_nests(*e, drawn.inputs), drawn.exact).empty()) return true;
    } catch (const InternalError&) {
      return true;  // an index outside its buffer
    }
  }
  return false;
}

TEST(InjectedBugs, InNestsAreCaught) {
  EXPECT_TRUE(caught_in_nest(shorten_loop));
  EXPECT_TRUE(caught_in_nest(drop_guard));
  EXPECT_TRUE(caught_in_nest(shift_load));
}

}  // namespace
}  // namespace tile::test
