// Sliding windows by block ends and block beginnings: the Nest interpreter against the reference.
#include <gtest/gtest.h>

#include <limits>

#include "core/fusion/group.h"
#include "core/interpret/interpret.h"
#include "core/kernel/forms/window.h"
#include "core/nest/passes/nest_passes.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "tests/random/agreement/agreement.h"
#include "tests/support/random_schedule.h"
#include "tests/support/schedule_kernels.h"
#include "tests/support/step_runner.h"

namespace tile::test {
namespace {

struct Box {
  Shape shape;
  size_t along = 0;
  int64_t most = 0;  // the radius is a run-time parameter up to this; 0: `length` is the window
  int64_t length = 0;
  Op op = Op::add;
  int64_t components = 0;
};

Index own(size_t u) { return {iterator_affine(u), -1, Boundary::in_range}; }

// fold op over [-r, r + 1) of A[x + turn !clamp], r = min(max(R, 1), most), of every component.
std::vector<NodeId> parameter_window(Piece& piece, const Box& box) {
  Body& b = piece.body;
  Access radius;
  radius.tensor = TensorId(1);
  piece.loads.push_back(radius);
  auto number = [](Body& body, int64_t n) { return body.integer(n, DType::i32); };
  NodeId r = b.load(piece.loads.size() - 1, DType::i32);
  r = b.operation(Op::max, {r, number(b, 1)}, DType::i32);
  r = b.operation(Op::min, {r, number(b, box.most)}, DType::i32);
  NodeId begin = b.cast(b.operation(Op::neg, {r}, DType::i32), DType::i64);
  NodeId end = b.cast(b.operation(Op::add, {r, number(b, 1)}, DType::i32), DType::i64);
  int64_t count = std::max<int64_t>(box.components, 1);
  Body region;
  NodeId turn = region.cast(region.argument(0, DType::i64), DType::i32);
  NodeId x = region.cast(region.index(box.along, DType::i64), DType::i32);
  NodeId place = region.operation(Op::add, {x, turn}, DType::i32);
  Node fold;
  fold.kind = NodeKind::fold;
  fold.op = box.op;
  fold.slot = count;
  fold.args = {begin, end};
  for (int64_t k = 0; k < count; ++k) {
    Access load;
    load.tensor = TensorId(0);
    for (size_t d = 0; d < box.shape.size(); ++d) load.index.push_back(own(d));
    load.index[box.along] = {{}, 0, Boundary::clamp};
    if (box.components > 0) {
      load.index.push_back({constant_affine(Rational(k)), -1, Boundary::in_range});
    }
    piece.loads.push_back(load);
    auto slot = static_cast<int>(piece.loads.size()) - 1;
    region.results.push_back(region.load(slot, DType::f32, {}, {place}));
    fold.args.push_back(b.real(box.op == Op::add ? 0 : 1, DType::f32));
  }
  fold.region = std::make_shared<const Body>(std::move(region));
  NodeId id = b.add(std::move(fold));
  std::vector<NodeId> results;
  for (int64_t k = 0; k < count; ++k) {
    NodeId sum = b.component(id, k, DType::f32);
    results.push_back(b.operation(Op::mul, {sum, b.real(2, DType::f32)}, DType::f32));
  }
  return results;
}

BoundProgram program_of(const Box& box) {
  BoundProgram p;
  p.source = std::make_shared<const Source>(Source{"box", ""});
  Shape in = box.shape, out = box.shape;
  if (box.most == 0) out[box.along] -= box.length - 1;
  if (box.components > 0) in.push_back(box.components);
  if (box.components > 0) out.push_back(box.components);
  p.tensors.push_back({"A", DType::f32, in, TensorRole::input, {}, {}});
  p.tensors.push_back({"R", DType::i32, {}, TensorRole::input, {}, {}});
  p.tensors.push_back({"C", DType::f32, out, TensorRole::output, {}, {}});
  p.inputs = {TensorId(0), TensorId(1)};
  p.outputs = {TensorId(2)};
  Contraction c;
  c.aggregation = Aggregation::assign;
  Piece piece;
  for (size_t d = 0; d < box.shape.size(); ++d) piece.iterators.push_back("x" + std::to_string(d));
  for (int64_t k = 0; k < std::max<int64_t>(box.components, 1); ++k) {
    Access store;
    store.tensor = TensorId(2);
    for (size_t d = 0; d < box.shape.size(); ++d) store.index.push_back(own(d));
    if (box.components > 0) {
      store.index.push_back({constant_affine(Rational(k)), -1, Boundary::in_range});
    }
    piece.stores.push_back(store);
    c.outputs.push_back(TensorId(2));
  }
  if (box.most > 0) piece.body.results = parameter_window(piece, box);
  if (box.most == 0) {
    c.aggregation = box.op == Op::add ? Aggregation::sum : Aggregation::max;
    piece.iterators.emplace_back("k");
    piece.constraints.push_back({iterator_affine(box.shape.size()), 0, box.length, false});
    Access load;
    load.tensor = TensorId(0);
    for (size_t d = 0; d < box.shape.size(); ++d) load.index.push_back(own(d));
    load.index[box.along].affine = load.index[box.along].affine + iterator_affine(box.shape.size());
    piece.loads = {load};
    piece.body.results = {piece.body.load(0, DType::f32)};
  }
  c.pieces = {piece};
  p.statements.emplace_back(c);
  verify(p);
  return p;
}

std::vector<HostTensor> inputs_of(const BoundProgram& p, int64_t radius) {
  std::vector<HostTensor> inputs;
  for (TensorId id : p.inputs) {
    const BoundTensor& t = p.tensors[id];
    inputs.emplace_back(t.type, t.shape);
  }
  for (int64_t i = 0; i < inputs[0].count(); ++i) {
    inputs[0].set(i, integer_scalar((i * 7 + i / 5) % 11 - 4, DType::f32));
  }
  inputs[1].set(0, integer_scalar(radius, DType::i32));
  return inputs;
}

std::vector<HostTensor> run_carried(const BoundProgram& drawn, std::vector<HostTensor> inputs,
                                    uint64_t seed, nest::NestCounts& counts) {
  Target target = seed % 2 == 0 ? testing::wide_target() : testing::small_target();
  BoundProgram program = drawn;
  run_pipeline(program, target);
  const auto kernel = std::get<Kernel>(group(program, target).at(0));
  Schedule schedule;
  for (uint64_t i = 0; i < 200; ++i) {  // the next random one that carries
    schedule = random_schedule(kernel, target, seed * 1000 + i);
    if (schedule.stages[0][0].carried.valid()) break;
  }
  const Contraction& c = kernel.stages[0].contraction;
  bool point = classify(c.pieces[0], c, kernel.tensors).kind == KernelClass::copy;
  EXPECT_EQ(schedule.stages[0][0].carried.valid(), !point) << print(kernel);
  EXPECT_EQ(illegal(schedule, kernel, target), "");
  nest::Nest nest = nest::run_passes(lower(kernel, schedule, target), target);
  nest::verify(nest);
  std::vector<HostTensor*> arguments;
  for (const nest::Buffer& b : nest.buffers) {
    if (b.scope != nest::Scope::argument || b.written) continue;
    arguments.push_back(b.shape.empty() ? &inputs[1] : &inputs[0]);
  }
  HostTensor out(DType::f32, program.tensors[2].shape);
  for (size_t i = arguments.size(); i < nest.argument_count(); ++i) arguments.push_back(&out);
  for (size_t i = 0; i < arguments.size(); ++i) arguments[i]->shape = nest.buffers[i].shape;
  nest::interpret(nest, arguments, {}, &counts);
  out.shape = program.tensors[2].shape;
  return {out};
}

const Box kBoxes[] = {
    {{200}, 0, 0, 40, Op::add, 0},   {{60, 9}, 0, 0, 33, Op::max, 0},
    {{5, 70}, 1, 0, 64, Op::add, 0}, {{70, 20}, 0, 20, 0, Op::add, 0},
    {{6, 90}, 1, 16, 0, Op::add, 0}, {{40, 24}, 0, 30, 0, Op::max, 0},
    {{50, 7}, 0, 12, 0, Op::add, 4}, {{3, 40}, 1, 9, 0, Op::min, 3},
    {{4, 1}, 1, 25, 0, Op::add, 0},  {{33, 40}, 0, 0, 1, Op::add, 0},
};

TEST(Windows, EverySchedulesValuesAreTheReferences) {
  for (const Box& box : kBoxes) {
    BoundProgram program = program_of(box);
    for (int64_t radius : {1, 2, 5, 30}) {
      std::vector<HostTensor> inputs = inputs_of(program, radius);
      Interpretation expected = interpret(program, inputs, {}, true);
      for (uint64_t seed = 0; seed < 3; ++seed) {
        nest::NestCounts counts;
        EXPECT_EQ(difference(expected, run_carried(program, inputs, seed, counts), true), "")
            << print(program);
      }
      if (box.most == 0) break;
    }
  }
}

TEST(Windows, WorkDoesNotGrowWithTheWindow) {
  int64_t stores[2];
  for (int i = 0; i < 2; ++i) {
    BoundProgram program = program_of({{2000}, 0, 200, 0, Op::add, 0});
    nest::NestCounts counts;
    run_carried(program, inputs_of(program, i == 0 ? 10 : 200), 1, counts);
    stores[i] = counts.stores;
  }
  EXPECT_LT(stores[1], stores[0] * 5 / 4);
  EXPECT_LT(stores[1], 2000 * 10);
}

// Design: one infinity, NaN or 1e8 changes only the windows that hold it.
TEST(Windows, SpecialValuesStayInTheirWindows) {
  BoundProgram program = program_of({{300}, 0, 0, 41, Op::add, 0});
  for (double special :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), 1e8}) {
    std::vector<HostTensor> inputs = inputs_of(program, 1);
    for (int64_t i = 0; i < 300; ++i) inputs[0].set(i, real_scalar(0.1, DType::f32));
    nest::NestCounts counts;
    HostTensor before = run_carried(program, inputs, 3, counts)[0];
    inputs[0].set(150, real_scalar(special, DType::f32));
    HostTensor after = run_carried(program, inputs, 3, counts)[0];
    for (int64_t i = 0; i < before.count(); ++i) {
      bool holds = i <= 150 && 150 <= i + 40;
      EXPECT_EQ(same_value(before.at(i), after.at(i)), !holds) << i;
    }
  }
}

TEST(Windows, LargeBoxesOfARunTimeRadiusAreCarried) {
  for (size_t along : {0, 1}) {
    BoundProgram program = program_of({{1080, 1920}, along, 64, 0, Op::add, 4});
    Target target = testing::wide_target();
    run_pipeline(program, target);
    const auto kernel = std::get<Kernel>(group(program, target).at(0));
    EXPECT_EQ(analytic_schedule(kernel, target).stages[0][0].carried, IteratorId(along));
  }
}

}  // namespace
}  // namespace tile::test
