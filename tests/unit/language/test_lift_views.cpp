// Lift's views as text, before sizes are bound: rules 1 to 19, 2.1, 2.2 and 2.3 of
// core/language/lift/REFERENCE.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "core/language/lift/lift.h"
#include "core/language/lift/views.h"
#include "core/passes/bind/bind.h"
#include "core/simplify/simplify.h"

namespace tile {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Program parse_text(const std::string& text) {
  return parse_lift(std::make_shared<const Source>(Source{"test.lift", text}));
}
Program vector_program(const std::string& body) {
  return parse_text("val f = fun(ArrayType(Float, N), IN => " + body + ")");
}
Program matrix_program(const std::string& body) {
  return parse_text("val f = fun(ArrayType(ArrayType(Float, M), N), IN => " + body + ")");
}

std::vector<std::string> taps(const Program& program) {
  std::vector<std::string> lines;
  std::string text = print_views(program);
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    size_t colon = text.find(": ", at);
    lines.push_back(text.substr(colon + 2, end - colon - 2));
    at = end + 1;
  }
  return lines;
}

// The index of the only access, as an expression.
Expr only_index(const Program& program) {
  std::vector<std::string> lines = taps(program);
  EXPECT_EQ(lines.size(), 1u);
  size_t open = lines.at(0).find('[');
  return parse_expr(lines[0].substr(open + 1, lines[0].size() - open - 2));
}
void expect_index(const Program& program, const std::string& index) {
  EXPECT_EQ(program.statements.size(), 1u) << "a buffer";
  Ranges ranges;
  for (const char* size : {"N", "M"}) ranges.of[size] = {Expr(1), std::nullopt};
  Expr difference = only_index(program) - parse_expr(index);
  EXPECT_TRUE(simplify(difference, ranges).is_constant(0))
      << print_views(program) << " expected " << index;
}

TEST(LiftViews, Rules_1_2NestedArraysAreRowMajor) {
  expect_index(parse_text("val f = fun(ArrayType(ArrayType(Float, 8), 8), B => B)"), "8*y + x");
  Program zip = parse_text(
      "val f = fun(ArrayType(Float, M), ArrayType(ArrayType(Float, M), N), (a, B) => "
      "Map(row => Map(add) $ Zip(a, row)) $ B)");
  EXPECT_THAT(taps(zip), ElementsAre("a[x]", "B[x + M*y]"));
}

TEST(LiftViews, Rule_3SplitAndJoin) {
  expect_index(vector_program("Split(2) $ IN"), "2*y + x");
  expect_index(vector_program("Join() o Split(4) $ IN"), "g");
  expect_index(matrix_program("Map(Join() o Split(2)) $ IN"), "M*y + x");
  expect_index(matrix_program("Join() $ IN"), "g");
}

// A result is written through the inverse of Join where reading it would need quotients.
TEST(LiftViews, Rule_2_2WritesUseTheInverseOfJoin) {
  Program program = matrix_program(
      "Join() o Map(Map(At(0) o Reduce(add, 0.0f) o Join())) o Slide2D(3, 1) o Pad2D(1, 1, Clamp) "
      "$ IN");
  EXPECT_EQ(program.statements.size(), 1u);
  EXPECT_THAT(print_views(program), HasSubstr("tap 4: IN[x + M*y]\n"));
  EXPECT_THAT(print_views(program), Not(HasSubstr("%")));
  const auto& contraction = std::get<SymbolicContraction>(program.statements[0].what);
  EXPECT_EQ(to_string(contraction.out_index.at(0)), "x + M*y");
  Program transposed = matrix_program("Join() o Transpose() $ IN");
  EXPECT_THAT(print_views(transposed), Not(HasSubstr("%")));
}

TEST(LiftViews, Rules_4_5ReverseAndTranspose) {
  expect_index(vector_program("Gather(reverse) $ IN"), "N - 1 - g");
  expect_index(vector_program("Gather(reverse) o Gather(reverse) $ IN"), "g");
  Program once = matrix_program("Transpose() $ IN");
  expect_index(once, "x*M + y");
  EXPECT_THAT(print_views(once), Not(HasSubstr("/")));
  EXPECT_THAT(print_views(once), Not(HasSubstr("%")));
  expect_index(matrix_program("Transpose() o Transpose() $ IN"), "M*y + x");
}

TEST(LiftViews, Rules_6_7StrideAndShift) {
  Expr stride =
      only_index(parse_text("val f = fun(ArrayType(Float, 16), IN => Gather(stride(4)) $ IN)"));
  std::vector<int64_t> order;
  for (int64_t g = 0; g < 6; ++g) {
    order.push_back(*evaluate(stride, [&](std::string_view) { return std::optional(g); }));
  }
  EXPECT_THAT(order, ElementsAre(0, 4, 8, 12, 1, 5));
  Program shift = parse_text("val f = fun(ArrayType(Float, 5), IN => Gather(shift(1)) $ IN)");
  const auto& contraction = std::get<SymbolicContraction>(shift.statements.at(0).what);
  EXPECT_EQ(contraction.accesses.at(0).boundary, std::vector{Boundary::wrap});
  EXPECT_EQ(contraction.accesses[0].index.at(0), Expr(1) + Expr::variable("g"));
}

TEST(LiftViews, Rules_8_10Slide) {
  expect_index(vector_program("Slide(3, 1) $ IN"), "y + x");
  expect_index(vector_program("Slide(2, 4) $ IN"), "4*y + x");
  Program two = matrix_program("Map(Map(Join())) o Slide2D(3, 1) $ IN");
  EXPECT_EQ(two.statements.size(), 1u);
  EXPECT_EQ(taps(two).size(), 1u);
}

TEST(LiftViews, Rule_9IterationsOfSmallWorkHaveNoBuffer) {
  Program program = vector_program("Iterate(2, Join() o Map(Reduce(add, 0.0f)) o Slide(3,1)) $ IN");
  EXPECT_EQ(program.statements.size(), 1u);
  EXPECT_EQ(taps(program).size(), 5u);
}

TEST(LiftViews, Rules_11_13Boundaries) {
  auto boundary_of = [](const Program& program) {
    const auto& contraction = std::get<SymbolicContraction>(program.statements.at(0).what);
    return contraction.accesses.at(0).boundary;
  };
  EXPECT_EQ(boundary_of(vector_program("Pad(8, 8, Clamp) $ IN")), std::vector{Boundary::clamp});
  EXPECT_EQ(boundary_of(vector_program("Pad(8, 8, Mirror) $ IN")), std::vector{Boundary::mirror});
  EXPECT_EQ(boundary_of(vector_program("Pad(8, 8, Wrap) $ IN")), std::vector{Boundary::wrap});
  EXPECT_EQ(boundary_of(vector_program("Pad(8, 8, Constant(0.0f)) $ IN")),
            std::vector{Boundary::constant});
  EXPECT_EQ(boundary_of(matrix_program("Pad2D(1, 1, Wrap) $ IN")),
            (std::vector{Boundary::wrap, Boundary::wrap}));
  EXPECT_EQ(boundary_of(vector_program("Pad(0, 0, Clamp) $ IN")), std::vector{Boundary::in_range});
}

TEST(LiftViews, Rule_12TwoClampsAreOne) {
  Program twice = vector_program("Pad(1, 1, Clamp) o Pad(1, 1, Clamp) $ IN");
  EXPECT_EQ(print_views(twice), print_views(vector_program("Pad(2, 2, Clamp) $ IN")));
}

TEST(LiftViews, Rule_14HeadTailUnzip) {
  expect_index(vector_program("Head() $ IN"), "0");
  expect_index(vector_program("Tail() $ IN"), "g + 1");
  Program unzip = vector_program("Unzip() $ Zip(IN, IN)");
  EXPECT_THAT(taps(unzip), ElementsAre("IN[g]", "IN[g]"));
}

TEST(LiftViews, Rule_15GenerateHasNoBuffer) {
  Program program =
      vector_program("Map((v, k) => v * toFloat(k)) $ Zip(IN, Generate(i => 3 * i, N))");
  EXPECT_EQ(program.statements.size(), 1u);
  EXPECT_THAT(taps(program), ElementsAre("IN[g]"));
}

const char* const kDeck =
    "val lowLevel = fun(\n  ArrayType(Float, N), input =>\n"
    "    MapGlb(MapSeq(toGlobal(id)) o ReduceSeq(add, 0.0f)) o\n    Slide(3,1) o\n"
    "    Pad(1,1,clamp) $ input )\n";

TEST(LiftViews, Rules_16_17_18TheDecksStencil) {
  Program program = parse_text(kDeck);
  ASSERT_EQ(program.statements.size(), 1u);
  const auto& contraction = std::get<SymbolicContraction>(program.statements[0].what);
  EXPECT_EQ(to_string(contraction.out_size.at(0)), "N");
  EXPECT_EQ(contraction.aggregation, Aggregation::assign);
  EXPECT_EQ(print_views(program),
            "tap 0: IN[(-1+g >= 0) ? -1+g : 0]\n"
            "tap 1: IN[g]\n"
            "tap 2: IN[(1+g < N) ? 1+g : -1+N]\n");
}

TEST(LiftViews, Rule_2_1TheSameAccessesAreBound) {
  BoundProgram bound = tile::bind(parse_text(kDeck), {{DType::f32, {100}}});
  ASSERT_EQ(bound.statements.size(), 1u);
  const auto& contraction = std::get<Contraction>(bound.statements[0]);
  const std::vector<Access>& loads = contraction.pieces.at(0).loads;
  ASSERT_EQ(loads.size(), 3u);
  EXPECT_EQ(loads[0].index[0].boundary, Boundary::clamp);
  EXPECT_EQ(loads[1].index[0].boundary, Boundary::in_range);
  EXPECT_EQ(loads[2].index[0].boundary, Boundary::clamp);
}

TEST(LiftViews, Rule_19TheDecksNinePoints) {
  Program program = parse_text(
      "val lowLevelExpression = fun(\n  ArrayType(ArrayType(Float, M), N), input =>\n\n"
      "  MapGlb(1)(MapGlb(0)(\n    MapSeq(toGlobal(id)) o\n"
      "      ReduceSeqUnroll(add, 0.0f) o Join()\n  )) o Slide2D(3,1) o\n"
      "  Pad2D(1,1,clamp) $ input)\n");
  EXPECT_EQ(program.statements.size(), 1u);
  const std::string north = "M*((-1+y >= 0) ? -1+y : 0)", south = "M*((1+y < N) ? 1+y : -1+N)";
  const std::string west = "((-1+x >= 0) ? -1+x : 0)", east = "((1+x < M) ? 1+x : -1+M)";
  EXPECT_THAT(
      taps(program),
      ElementsAre("IN[" + west + " + " + north + "]", "IN[x + " + north + "]",
                  "IN[" + east + " + " + north + "]", "IN[" + west + " + M*y]", "IN[x + M*y]",
                  "IN[" + east + " + M*y]", "IN[" + west + " + " + south + "]",
                  "IN[x + " + south + "]", "IN[" + east + " + " + south + "]"));
}

// Rule 2.2: what is computed, read by overlapping windows and costs much gets a tensor; a reduction
// inside a larger value too; nothing else does.
TEST(LiftViews, Rule_2_2WhereTensorsAre) {
  auto count = [](const Program& program) { return program.statements.size(); };
  EXPECT_EQ(count(matrix_program("Map(Reduce(add, 0.0f)) $ IN")), 1u);
  EXPECT_EQ(count(matrix_program("Slide(3, 1) o Join() o Map(Reduce(add, 0.0f)) $ IN")), 2u);
  EXPECT_EQ(count(matrix_program("Map(Map(v => v * 2.0f) o Reduce(add, 0.0f)) $ IN")), 2u);
  EXPECT_EQ(count(vector_program("Scatter(stride(2)) o Gather(shift(3)) o Pad(1, 1, Mirror) o "
                                 "Tail() o Join() o Transpose() o Split(2) $ IN")),
            1u);
}

// Any text ends soon, with a program or a located error.
TEST(LiftLimits, HostileTexts) {
  const std::string head = "val f = fun(ArrayType(Float, N), x => ";
  std::vector<std::string> bodies = {"Iterate(1000000, Map(id)) $ x",
                                     "Iterate(10000, Iterate(10000, Map(id))) $ x",
                                     "Iterate(9999, Gather(reverse)) $ x",
                                     "Iterate(30, v => Zip(v, v)) $ x",
                                     "Iterate(60, Map(v => v * v)) $ x",
                                     "Iterate(10000, Slide(2, 1)) $ x",
                                     "Iterate(2000, Map(v => v + 1.0f)) $ x",
                                     "Pad(9223372036854775807, 9223372036854775807, Clamp) $ x",
                                     "Split(9223372036854775807) o Join() o Split(4) $ x",
                                     "(g => g(g))(g => g(g))"};
  for (const char* unit : {"(", "-", "v => ", "x + ", "Id() o ", "Id() $ ", "Map(", "Tuple(x, "}) {
    std::string text;
    for (int i = 0; i < 60000; ++i) text += unit;
    bodies.push_back(text);
  }
  for (const std::string& body : bodies) {
    // The processor's time: a busy machine's clock says nothing about the parser.
    std::clock_t start = std::clock();
    std::string text = head + body + ")";
    try {
      print_views(parse_text(text));
    } catch (const Failure& failure) {
      const Diagnostic& error = failure.diagnostic();
      EXPECT_EQ(error.stage, Stage::parse);
      EXPECT_LE(error.span.end, text.size());
      EXPECT_FALSE(error.message.empty());
    }
    double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, 20) << body.substr(0, 80);
  }
}

}  // namespace
}  // namespace tile
