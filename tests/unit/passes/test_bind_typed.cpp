// Typed contractions (MFG, Lift): boundary rules, computed indices, index values, folds, tuples,
// literals, types of inputs, run-time parameters.
#include "core/autodiff/differentiate.h"
#include "tests/support/typed_programs.h"

namespace tile::test {
namespace {

// O[i] = A[INDEX] under a boundary rule.
Values read_at(const char* index, Boundary boundary, int64_t size, const Values& a,
               BoundProgram* program = nullptr) {
  TypedProgram t;
  TensorId in = t.input("A", {"N"}, DType::f32);
  SymbolicContraction c = typed_contraction({"i"}, exprs({"i"}), {Expr(size)});
  c.accesses = {typed_access(in, exprs({index}), {boundary})};
  c.body.results = {c.body.load(0, DType::f32)};
  t.statement("O", c);
  std::vector<HostTensor> inputs{vector_of(a)};
  if (program != nullptr) *program = tile::bind(t.program, types_of(inputs));
  return values_of(run_through_passes(t.program, inputs).at(0));
}

TEST(BindTyped, BoundaryRules) {  // lift.md rule 2.3
  Values a{1, 2, 3};
  EXPECT_EQ(read_at("i - 2", Boundary::clamp, 7, a), Values({1, 1, 1, 2, 3, 3, 3}));
  EXPECT_EQ(read_at("i - 2", Boundary::mirror, 7, a), Values({2, 1, 1, 2, 3, 3, 2}));
  EXPECT_EQ(read_at("i - 2", Boundary::wrap, 7, a), Values({2, 3, 1, 2, 3, 1, 2}));
  EXPECT_EQ(read_at("i - 2", Boundary::constant, 7, a), Values({0, 0, 1, 2, 3, 0, 0}));
  EXPECT_EQ(read_at("i - 2", Boundary::clamp, 7, {5}), Values(7, 5));
}

TEST(BindTyped, QuotientsAndRemaindersOfIndices) {
  Values a{10, 11, 12, 13};
  BoundProgram program;
  EXPECT_EQ(read_at("i / 2", Boundary::in_range, 8, a, &program),
            Values({10, 10, 11, 11, 12, 12, 13, 13}));
  EXPECT_EQ(std::get<Contraction>(program.statements[0]).pieces[0].loads[0].index[0].value, 0);
  EXPECT_EQ(read_at("i % N", Boundary::in_range, 6, a), Values({10, 11, 12, 13, 10, 11}));
  EXPECT_EQ(read_at("floordiv(i - 3, 2)", Boundary::clamp, 6, a), Values({10, 10, 10, 10, 10, 11}));
  EXPECT_EQ(read_at("mod(i - 3, 4)", Boundary::in_range, 6, a), Values({11, 12, 13, 10, 11, 12}));
  EXPECT_EQ(read_at("(i - 3) / 2", Boundary::clamp, 6, a), Values({10, 10, 10, 10, 10, 11}));
  EXPECT_EQ(read_at("(i < 2 ? 3 - i : max(i - 2, 1))", Boundary::in_range, 5, a),
            Values({13, 12, 11, 11, 12}));
}

TEST(BindTyped, WhatTheSizesMakeAffineIsAffine) {
  BoundProgram program;
  Values a{1, 2, 3, 4};
  EXPECT_EQ(read_at("(i / N) * N + i % N", Boundary::in_range, 4, a, &program), a);
  const Index& index = std::get<Contraction>(program.statements[0]).pieces[0].loads[0].index[0];
  EXPECT_EQ(index.value, -1);
  EXPECT_EQ(index.affine, iterator_affine(0));
  EXPECT_EQ(read_at("i / N", Boundary::in_range, 4, a, &program), Values(4, 1));
  EXPECT_TRUE(std::get<Contraction>(program.statements[0])
                  .pieces[0]
                  .loads[0]
                  .index[0]
                  .affine.is_constant());
}

// A pixel and its neighbours: the sum and the largest of A[i - 1 .. i + r].
struct WindowCase {
  TypedProgram typed;
  std::vector<HostTensor> inputs;
};
WindowCase window_case(Op op) {
  WindowCase w;
  TensorId a = w.typed.input("A", {"N"}, DType::i32);
  TensorId r = w.typed.input("r", {}, DType::i32);
  SymbolicContraction c = typed_contraction({"i"}, exprs({"i"}), exprs({"N"}));
  c.accesses = {typed_access(r, {}), typed_access(a, {Expr(0)}, {Boundary::clamp}, {0})};
  Body region;
  NodeId k = region.argument(0, DType::i64), at = region.argument(2, DType::i64);
  NodeId place = region.operation(Op::add, {k, at}, DType::i64);
  NodeId element = region.load(1, DType::i32, {}, {place});
  NodeId old = op == Op::ident ? region.argument(1, DType::i32) : NodeId();
  region.results = {op == Op::ident ? region.operation(Op::sub, {element, old}, DType::i32)
                                    : element};
  Node fold;
  fold.kind = NodeKind::fold;
  fold.op = op;
  fold.slot = 1;
  NodeId one = c.body.integer(1, DType::i64);
  NodeId end = c.body.operation(Op::add, {c.body.cast(c.body.load(0, DType::i32), DType::i64), one},
                                DType::i64);
  fold.args = {c.body.integer(-1, DType::i64), end, c.body.integer(0, DType::i32),
               c.body.index(0, DType::i64)};
  fold.region = std::make_shared<const Body>(region);
  NodeId loop = c.body.add(fold);
  c.body.results = {c.body.component(loop, 0, DType::i32)};
  w.typed.statement("O", c);
  w.inputs = {vector_of(DType::i32, {3, 1, 4, 1, 5}), tensor(DType::i32, {}, {2})};
  return w;
}

TEST(BindTyped, FoldsWithRuntimeBounds) {
  WindowCase sum = window_case(Op::add);
  EXPECT_EQ(values_of(run_through_passes(sum.typed.program, sum.inputs)[0]),
            Values({11, 9, 11, 15, 16}));
  WindowCase largest = window_case(Op::max);
  EXPECT_EQ(values_of(run_through_passes(largest.typed.program, largest.inputs)[0]),
            Values({4, 4, 5, 5, 5}));
  WindowCase ordered = window_case(Op::ident);  // e(i+2) - (e(i+1) - (e(i) - e(i-1)))
  EXPECT_EQ(values_of(run_through_passes(ordered.typed.program, ordered.inputs)[0]),
            Values({3, -5, 7, -3, 4}));
}

TEST(BindTyped, AnEmptyFoldIsItsStart) {
  WindowCase w = window_case(Op::max);
  w.inputs[1] = tensor(DType::i32, {}, {-5});
  EXPECT_EQ(values_of(run_through_passes(w.typed.program, w.inputs)[0]), Values(5, 0));
}

TEST(BindTyped, ComponentsAreTheLastDimension) {
  TypedProgram t;
  TensorId a = t.input("A", {"H", "W", "2"}, DType::u8);
  SymbolicContraction c = typed_contraction({"y", "x"}, exprs({"y", "x"}), exprs({"H", "W"}));
  c.components = 3;
  c.accesses = {typed_access(a, exprs({"y", "x", "0"})), typed_access(a, exprs({"y", "x", "1"}))};
  NodeId first = c.body.load(0, DType::u8), second = c.body.load(1, DType::u8);
  NodeId sum = c.body.operation(
      Op::add, {c.body.cast(first, DType::i32), c.body.cast(second, DType::i32)}, DType::i32);
  c.body.results = {second, first, c.body.cast(sum, DType::u8)};
  TensorId pairs = t.statement("P", c, false);
  // Reads components one by one: the pixel is inlined.
  SymbolicContraction d = typed_contraction({"y", "x"}, exprs({"y", "x"}), exprs({"H", "W"}));
  d.accesses = {typed_access(pairs, exprs({"y", "x", "0"})),
                typed_access(pairs, exprs({"y", "x", "2"}))};
  d.body.results = {d.body.operation(Op::sub,
                                     {d.body.cast(d.body.load(1, DType::u8), DType::i32),
                                      d.body.cast(d.body.load(0, DType::u8), DType::i32)},
                                     DType::i32)};
  t.statement("O", d);
  t.program.outputs.push_back(pairs);
  std::vector<HostTensor> in{tensor(DType::u8, {1, 2, 2}, {1, 2, 200, 100})};
  std::vector<HostTensor> out = run_through_passes(t.program, in);
  EXPECT_EQ(values_of(out[0]), Values({1, 44 - 100}));
  EXPECT_EQ(out[1].shape, Shape({1, 2, 3}));
  EXPECT_EQ(values_of(out[1]), Values({2, 1, 3, 100, 200, 44}));
  t.program.outputs.pop_back();
  BoundProgram bound = tile::bind(t.program, types_of(in));
  run_pipeline(bound, Target{});
  EXPECT_EQ(bound.statements.size(), 1u) << "the tuple is fused away:\n" << print(bound);
}

TEST(BindTyped, LiteralsAreConstants) {
  TypedProgram t;
  TensorId a = t.input("A", {"N"}, DType::f32);
  Literal l;
  l.shape = {3};
  l.reals = {1, 2, -0.5};
  TensorId w = t.statement("W", l);
  SymbolicContraction c =
      typed_contraction({"i", "k"}, exprs({"i"}), exprs({"N"}), Aggregation::sum);
  c.accesses = {typed_access(a, exprs({"i + k - 1"}), {Boundary::clamp}),
                typed_access(w, exprs({"k"}))};
  c.body.results = {c.body.operation(
      Op::mul, {c.body.load(0, DType::f32), c.body.load(1, DType::f32)}, DType::f32)};
  t.statement("O", c);
  // W is an output: a constant and a copy of it.
  std::vector<HostTensor> out = run_through_passes(t.program, {vector_of({1, 2, 4})});
  EXPECT_EQ(values_of(out[0]), Values({1, 2, -0.5}));
  EXPECT_EQ(values_of(out[1]), Values({2, 3, 8}));
}

std::string bind_error(const Program& program, const std::vector<InputType>& types) {
  try {
    tile::bind(program, types);
  } catch (const Failure& failure) {
    return failure.diagnostic().message;
  }
  return "";
}

TEST(BindTyped, InputsOfAnotherTypeAreRefused) {
  TypedProgram t;
  t.input("A", {"N"}, DType::u8);
  EXPECT_EQ(bind_error(t.program, {{DType::f32, {3}}}),
            "A holds u8, but the tensor given holds f32");
}

TEST(BindTyped, ParametersMaySetSizes) {
  TypedProgram t;
  TensorId n = t.input("count", {}, DType::i32);
  t.program.tensors[n].parameter = RuntimeParameter{DType::i32, {4}, {}, {}, ""};
  TensorId other = t.input("unused", {}, DType::i32);
  t.program.tensors[other].parameter = RuntimeParameter{DType::i32, {4}, {}, {}, ""};
  SymbolicContraction c = typed_contraction({"i"}, exprs({"i"}), exprs({"count + 1"}));
  c.body.results = {c.body.index(0, DType::i64)};
  t.statement("O", c);
  EXPECT_EQ(sizing_parameters(t.program), std::vector<TensorId>{n});
  BoundProgram bound = tile::bind(t.program, {{DType::i32, {}, 2}, {DType::i32, {}, std::nullopt}});
  EXPECT_EQ(bound.tensors.back().shape, Shape{3});
}

TEST(BindTyped, AStoreThatIsNotLinearIsRefused) {
  TypedProgram t;
  TensorId a = t.input("A", {"N"}, DType::f32);
  SymbolicContraction c = typed_contraction({"i"}, exprs({"i / 2"}), exprs({"N"}));
  c.accesses = {typed_access(a, exprs({"i"}))};
  c.body.results = {c.body.load(0, DType::f32)};
  t.statement("O", c);
  EXPECT_NE(bind_error(t.program, {{DType::f32, {3}}}).find("is not linear"), std::string::npos);
}

TEST(BindTyped, LoopsWhoseLengthIsDataWithoutBoundHaveNoDerivative) {
  WindowCase w = window_case(Op::add);
  w.typed.program.tensors[*w.typed.program.find("A")].type.reset();  // integers have no gradient
  try {
    differentiate(w.typed.program, "O", {"A"});
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_NE(failure.diagnostic().message.find("depends on data"), std::string::npos);
  }
}

TEST(BindTyped, ProgramsPrintWithWhatTheyAdd) {
  WindowCase w = window_case(Op::add);
  w.typed.program.tensors[1].parameter = RuntimeParameter{DType::i32, {5}, 1, 20, "radius"};
  std::string text = print(w.typed.program);
  for (const char* part :
       {"A[N]: i32", "r[]: i32 = parameter(5, min 1, max 20)", "A[clamp(%0)]", "fold add 1"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
}

}  // namespace
}  // namespace tile::test
