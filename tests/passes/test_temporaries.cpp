// How temporaries are stored: tuples as arrays of their own, integers in as few bits as they need,
// functions of one byte as tables. Values stay the same bit by bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/autodiff/differentiate.h"
#include "core/interpret/interpret.h"
#include "core/passes/bind/bind.h"
#include "core/pipeline/pipeline.h"
#include "tests/support/mfg_text.h"

namespace tile::test {
namespace {

constexpr int64_t kHeight = 64, kWidth = 70;

BoundProgram bound(const std::string& body) {
  std::string text = "let s = sampler<input_u8>(address=.ClampToEdge)\n" + body;
  return bind(parse_mfg_text(text), {{DType::u8, {kHeight, kWidth, 4}}});
}

std::vector<HostTensor> picture() {
  HostTensor p(DType::u8, {kHeight, kWidth, 4});
  for (int64_t i = 0; i < p.count(); ++i) p.set(i, integer_scalar(i * i % 251 + i % 5, DType::u8));
  return {p};
}

BoundProgram through_passes(BoundProgram program, std::vector<std::string> skip = {},
                            const Target& target = {}) {
  std::vector<HostTensor> want = interpret(program, picture()).outputs;
  PipelineOptions options;
  options.passes.skip = std::move(skip);
  run_pipeline(program, target, options);
  EXPECT_EQ(interpret(program, picture()).outputs[0].bytes, want[0].bytes) << print(program);
  return program;
}

const BoundTensor* find(const BoundProgram& p, const std::string& name) {
  auto it = std::find_if(p.tensors.begin(), p.tensors.end(),
                         [&](const BoundTensor& t) { return t.name == name; });
  return it == p.tensors.end() ? nullptr : &*it;
}

TEST(Temporaries, TuplesAreArraysOfTheirOwnWithNarrowElements) {
  BoundProgram p = through_passes(bound(R"(
@bounds(input_u8.extent(0), input_u8.extent(1))
def t |x, y| {
  let c = i32(s(x, y))
  [c.x + c.y, min(c.z, 100) - 50, c.w*c.w*c.w]
}
let r = sampler<t>(address=.ClampToEdge)
def result_u8 |x, y| {
  let [a, b, c] = r(x-1, y)
  let [d, e, f] = r(x+1, y+1)
  u8[a + d, b + e, (c + f)/100000, 255]
}
)"),
                                  {"inline-pointwise"});
  const std::pair<const char*, DType> expected[] = {
      {"t_0", DType::u16}, {"t_1", DType::i8}, {"t_2", DType::i32}};
  for (const auto& [name, type] : expected) {
    const BoundTensor* t = find(p, name);
    ASSERT_NE(t, nullptr) << print(p);
    EXPECT_EQ(t->type, type) << name;
    EXPECT_EQ(t->shape, (Shape{kHeight, kWidth})) << name;
  }
}

TEST(Temporaries, PackedPixelsStayTogether) {
  BoundProgram p = through_passes(bound(R"(
@bounds(input_u8.extent(0), input_u8.extent(1))
def t |x, y| { u8(max(i32(s(x, y)), i32(s(x+1, y)))) }
let r = sampler<t>(address=.ClampToEdge)
def result_u8 |x, y| { u8(max(i32(r(x, y-1)), i32(r(x, y+1)))) }
)"));
  EXPECT_EQ(find(p, "t_0"), nullptr) << print(p);
}

bool stores_stage(const BoundProgram& p) {
  return std::any_of(p.statements.begin(), p.statements.end(), [&](const BoundStatement& s) {
    const auto* c = std::get_if<Contraction>(&s);
    std::string name = c == nullptr ? "" : p.tensors[c->outputs[0]].name;
    return name == "t" || name == "t_0";
  });
}

std::string window_of(const std::string& element) {
  return R"(
@bounds(input_u8.extent(0), input_u8.extent(1))
def t |x, y| {
  let c = i32(s(x, y-1))
  let d = i32(s(x, y+1))
  )" + element +
         R"(
}
let r = sampler<t>(address=.ClampToEdge)
def result_u8 |x, y| { u8(max(i32(r(x-1, y)), i32(r(x, y)), i32(r(x+1, y)))) }
)";
}

TEST(Temporaries, AStageReadAroundAPointIsStoredWhereThatIsCheaper) {
  Target slow_memory, fast_memory;
  slow_memory.l2_bytes_per_ns = slow_memory.l3_bytes_per_ns = slow_memory.dram_bytes_per_ns = 1;
  fast_memory.l2_bytes_per_ns = fast_memory.l3_bytes_per_ns = fast_memory.dram_bytes_per_ns = 1e6;
  std::string cheap = window_of("max(c, d)"), dear = window_of("u8(255.0*exp(-f32(c*d)))");
  EXPECT_FALSE(stores_stage(through_passes(bound(cheap), {}, slow_memory)));
  EXPECT_TRUE(stores_stage(through_passes(bound(cheap), {}, fast_memory)));
  EXPECT_TRUE(stores_stage(through_passes(bound(dear), {}, Target{})));
}

// The type that the last statement computes in.
DType computed_in(const BoundProgram& p) {
  return std::get<Contraction>(p.statements.back()).accumulator;
}

TEST(Temporaries, BodiesWhoseValuesFitAreNarrow) {
  const std::pair<const char*, DType> expected[] = {
      {"u8(max(c, d))", DType::u8},
      {"u8((c + d)/2)", DType::i32},           // divides
      {"u8(min(c, d) - 1)", DType::u8},        // through i16, and wraps
      {"u8(min(c*d, 255))", DType::u8},        // up to 65025: u16
      {"u8(min(c*d + 510, 255))", DType::u8},  // 65535
      {"u8(min(c*d + 511, 255))", DType::i32},
      {"u8(max(c*d - 1, 0)/256)", DType::i32},  // -1 and 65024 fit no type of 16 bits
  };
  for (const auto& [element, type] : expected) {
    BoundProgram p = through_passes(bound(std::string(R"(
def result_u8 |x, y| {
  let c = i32(s(x, y-1))
  let d = i32(s(x, y+1))
  )") + element + "\n}\n"));
    EXPECT_EQ(computed_in(p), type) << element << print(p);
  }
}

size_t tables(const BoundProgram& p) {
  return static_cast<size_t>(
      std::count_if(p.statements.begin(), p.statements.end(), [&](const BoundStatement& s) {
        const auto* c = std::get_if<Contraction>(&s);
        return c != nullptr && c->pieces.size() == 1 && c->pieces[0].box == Shape{256};
      }));
}

TEST(Temporaries, CostlyFunctionsOfOneByteAreLookedUp) {
  // Three components share one table; the cheap fourth one has none.
  BoundProgram p = through_passes(bound(R"(
def result_u8 |x, y| {
  let c = f32(input_u8(x, y))
  u8[*round(255.0*(c.xyz/255.0)^2.2), 255.0 - c.w]
}
)"));
  EXPECT_EQ(tables(p), 1u) << print(p);
  // What depends on two bytes is computed.
  BoundProgram q = through_passes(bound(R"(
def result_u8 |x, y| {
  let c = f32(input_u8(x, y))
  u8[*round(255.0*(c.xyz*c.w/65025.0)^2.2), c.w]
}
)"));
  EXPECT_EQ(tables(q), 0u) << print(q);
}

// The second derivative of an ordered fold stores states of pairs for loops that no pixel runs:
// their statements have no pieces whose stores would name the components.
TEST(Temporaries, TuplesThatNoPointMakesAreArraysOfTheirOwn) {
  Program filter = parse_mfg_text(R"(
let s = sampler<input_f32>(address=.ClampToEdge)
def result_f32 |x, y| {
  reduce(init=[s(x, y), 0.5], 0..<x+1)|i, a| { [a.x*s(x+i, y), a.y + a.x*a.x] }.y
}
)");
  filter = differentiate(filter, "result_f32", {"input_f32"});
  filter = differentiate(filter, "Dinput_f32", {"input_f32"});
  HostTensor values(DType::f32, {3, 4});
  for (int64_t i = 0; i < values.count(); ++i) {
    values.set(i, real_scalar(0.5 + static_cast<double>(i % 5) * 0.25, DType::f32));
  }
  std::vector<HostTensor> inputs(filter.inputs.size(), values);
  BoundProgram p = tile::bind(filter, std::vector<InputType>(inputs.size(), {DType::f32, {3, 4}}));
  std::vector<HostTensor> want = interpret(p, inputs).outputs;
  run_pipeline(p, Target{});
  std::vector<HostTensor> got = interpret(p, inputs).outputs;
  for (size_t o = 0; o < want.size(); ++o) {
    for (int64_t i = 0; i < want[o].count(); ++i) {
      EXPECT_NEAR(got[o].at(i).f, want[o].at(i).f, 1e-5 * (1 + std::abs(want[o].at(i).f)));
    }
  }
}

}  // namespace
}  // namespace tile::test
