// Boundary rules, conditions on indices, index values and folds, lowered and partitioned: the Nest
// interpreter against the reference, and interiors without choices on indices.
#include <gtest/gtest.h>

#include <map>

#include "core/fusion/group.h"
#include "core/interpret/interpret.h"
#include "core/nest/passes/interior.h"
#include "core/nest/passes/nest_passes.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/space/candidates.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/random_elements.h"
#include "tests/random/random_program.h"
#include "tests/random/sweep.h"
#include "tests/support/schedule_kernels.h"
#include "tests/support/step_runner.h"

namespace tile::test {
namespace {

// `schedule` 0 is the analytic pick.
void expect_elements_agree(uint64_t seed, uint64_t schedule, const ElementOptions& options) {
  ElementProgram drawn = random_elements(seed, options);
  SCOPED_TRACE("seed " + std::to_string(seed) + ", schedule " + std::to_string(schedule) + ":\n" +
               print(drawn.program));
  try {
    verify(drawn.program);
    Interpretation expected = interpret(drawn.program, drawn.inputs, {}, true);
    Target target = seed % 2 == 0 ? testing::wide_target() : testing::small_target();
    BoundProgram program = drawn.program;
    run_pipeline(program, target);
    StepRunner runner(program, drawn.inputs);
    for (const Step& step : group(program, target)) {
      ASSERT_NO_FATAL_FAILURE(runner.run(step, schedule, target));
    }
    EXPECT_EQ(difference(expected, runner.outputs(), true), "");
  } catch (const InternalError& error) {
    ADD_FAILURE() << error.what();
  } catch (const Failure& failure) {
    ADD_FAILURE() << failure.what();
  }
}

TEST(LowerElements, AnalyticSchedules) {
  for (uint64_t seed : sweep(0, 300, 120)) expect_elements_agree(seed, 0, {});
}

TEST(LowerElements, RandomSchedules) {
  for (uint64_t seed : sweep(0, 300, 120)) expect_elements_agree(seed, seed + 1, {});
}

TEST(LowerElements, WithInteriors) {
  ElementOptions large;
  large.large = true;
  for (uint64_t seed : sweep(0, 60, 25)) expect_elements_agree(seed, seed % 3, large);
}

bool has_choices(const std::vector<nest::Access>& loads, const Body& body) {
  bool any = false;
  for (const nest::Access& a : loads) {
    any = any || std::any_of(a.index.begin(), a.index.end(), nest::has_choices);
  }
  visit_nodes(body, [&](const Node& n) {
    any = any || (n.kind == NodeKind::size && nest::has_choices(n.expr)) ||
          (n.kind == NodeKind::operation && n.op == Op::select);
  });
  return any;
}

// Executed stores, and those whose bodies or addresses choose.
struct Choices {
  std::map<std::string, int64_t> variables;
  int64_t stores = 0, choosing = 0, bodies = 0;

  int64_t value(const Expr& e) const {
    return *evaluate(e, [&](std::string_view name) -> std::optional<int64_t> {
      return variables.at(std::string(name));
    });
  }
  void block(const nest::Block& statements) {
    for (const nest::Statement& s : statements) {
      if (const auto* f = std::get_if<nest::For>(&s.what)) {
        int64_t begin = value(f->begin), extent = value(f->extent);
        for (int64_t i = 0; i < extent; ++i) {
          variables[f->variable] = begin + i;
          block(f->body);
        }
      } else if (const auto* i = std::get_if<nest::If>(&s.what)) {
        bool holds = std::all_of(i->nonnegative.begin(), i->nonnegative.end(),
                                 [&](const Expr& e) { return value(e) >= 0; });
        block(holds ? i->then : i->otherwise);
      } else if (const auto* store = std::get_if<nest::Store>(&s.what)) {
        ++stores;
        choosing += has_choices(store->loads, store->body) ? 1 : 0;
      }
    }
  }
};

// The 9-point sum of an image padded by a boundary rule on both axes.
BoundProgram nine_points(Shape shape, Boundary boundary) {
  BoundProgram p;
  p.source = std::make_shared<const Source>(Source{"nine", ""});
  p.tensors.push_back({"A", DType::f32, shape, TensorRole::input, {}, {}});
  p.tensors.push_back({"C", DType::f32, shape, TensorRole::output, {}, {}});
  p.inputs = {TensorId(0)};
  p.outputs = {TensorId(1)};
  Piece piece;
  piece.iterators = {"y", "x"};
  Access store;
  store.tensor = TensorId(1);
  store.index = {{iterator_affine(0), -1, Boundary::in_range},
                 {iterator_affine(1), -1, Boundary::in_range}};
  piece.stores = {store};
  NodeId sum = piece.body.real(0, DType::f32);
  for (int64_t dy = -1; dy <= 1; ++dy) {
    for (int64_t dx = -1; dx <= 1; ++dx) {
      Access load;
      load.index = {{iterator_affine(0) + constant_affine(Rational(dy)), -1, boundary},
                    {iterator_affine(1) + constant_affine(Rational(dx)), -1, boundary}};
      load.tensor = TensorId(0);
      piece.loads.push_back(load);
      NodeId tap = piece.body.load(piece.loads.size() - 1, DType::f32);
      sum = piece.body.operation(Op::add, {sum, tap}, DType::f32);
    }
  }
  piece.body.results = {sum};
  Contraction c;
  c.outputs = {TensorId(1)};
  c.aggregation = Aggregation::assign;
  c.pieces = {piece};
  p.statements.emplace_back(c);
  return p;
}

nest::Nest only_nest(BoundProgram program, const Target& target) {
  verify(program);
  run_pipeline(program, target);
  const auto kernel = std::get<Kernel>(group(program, target).at(0));
  return nest::run_passes(lower(kernel, analytic_schedule(kernel, target), target), target);
}

size_t count_of(const std::string& text, const std::string& word) {
  size_t n = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

// Design example (g) for every rule: borders choose, the interior does not, and each region of the
// nest has two bodies.
TEST(LowerElements, InteriorsOfPaddedStencilsHaveNoChoices) {
  for (Boundary boundary :
       {Boundary::clamp, Boundary::mirror, Boundary::wrap, Boundary::constant}) {
    for (const Target& target : {testing::small_target(), testing::wide_target()}) {
      nest::Nest nest = only_nest(nine_points({128, 1024}, boundary), target);
      Choices executed;
      executed.block(nest.body);
      EXPECT_EQ(executed.stores, 128 * 1024) << print(nest);
      EXPECT_LT(executed.choosing, executed.stores / 6) << print(nest);
      EXPECT_GT(executed.choosing, 0);
      EXPECT_EQ(count_of(print(nest), "assign C"), 2) << print(nest);
    }
  }
}

TEST(LowerElements, SizesOfOneNeedNoChoices) {
  for (Boundary boundary : {Boundary::clamp, Boundary::mirror, Boundary::wrap}) {
    nest::Nest nest = only_nest(nine_points({1, 1}, boundary), testing::small_target());
    Choices executed;
    executed.block(nest.body);
    EXPECT_EQ(executed.choosing, 0) << print(nest);
  }
}

}  // namespace
}  // namespace tile::test
