// Warnings: what is surely not meant is said where it stands; what may be meant is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/autodiff/differentiate.h"
#include "core/language/tile/tile.h"
#include "core/passes/bind/bind.h"
#include "core/warnings/warnings.h"

namespace tile::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Program program_of(const std::string& text) {
  return parse_tile(std::make_shared<const Source>(Source{"w.tile", text}));
}

struct Said {
  std::string code, message, where;
};
std::vector<Said> warnings(const std::string& text, const std::vector<InputType>& types) {
  Program program = program_of(text);
  std::vector<Said> said;
  for (const Diagnostic& d : warnings_of(program, tile::bind(program, types))) {
    EXPECT_EQ(d.severity, Severity::warning);
    EXPECT_FALSE(d.hint.empty()) << d.message;
    said.push_back({d.code, d.message, text.substr(d.span.begin, d.span.end - d.span.begin)});
  }
  return said;
}
std::vector<std::string> codes(const std::string& text, const std::vector<InputType>& types) {
  std::vector<std::string> list;
  for (const Said& s : warnings(text, types)) list.push_back(s.code);
  return list;
}
InputType f32(Shape shape) { return {DType::f32, std::move(shape)}; }

TEST(Warnings, AnInputThatNothingReads) {
  const std::string text = "function (A[N], B[N]) -> (O) { O[i: N] = +(A[i]); }";
  std::vector<Said> said = warnings(text, {f32({3}), f32({3})});
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].code, "unread");
  EXPECT_EQ(said[0].where, "B");
  EXPECT_THAT(warnings_of(program_of(text)), ::testing::SizeIs(1));
}

TEST(Warnings, AnInputThatIsThereForItsSize) {
  EXPECT_THAT(
      codes("function (A[N], L[M]) -> (O) { O[i: M] = +(A[i + k]), k < 2; }", {f32({5}), f32({4})}),
      IsEmpty());
  EXPECT_THAT(codes("function (A, L) -> (O) { O = sum_to(A, L); }", {f32({2, 3}), f32({3})}),
              IsEmpty());
}

TEST(Warnings, AStatementThatNoOutputNeeds) {
  const std::string text =
      "function (A[N]) -> (O) {\n  S[] = +(A[i]);\n  T = A * S;\n  M[] = >(A[i]);\n  O = A - M;\n}";
  std::vector<Said> said = warnings(text, {f32({3})});
  ASSERT_EQ(said.size(), 2U);
  EXPECT_EQ(said[0].code + said[1].code, "unreadunread");
  EXPECT_EQ(said[0].where[0], 'S');
  EXPECT_EQ(said[0].message, "no output needs S");
  EXPECT_EQ(said[1].where[0], 'T');
  Program program = program_of("function (A[N]) -> (O) { O[] = +(A[i] * A[i]); }");
  EXPECT_THAT(warnings_of(differentiate(program, "O", {"A"})), IsEmpty());
}

TEST(Warnings, AStatementThatIsThereForItsSize) {
  EXPECT_THAT(
      codes("function (A, B) -> (O) { L = B * 2; O = sum_to(A, L); }", {f32({2, 3}), f32({3})}),
      IsEmpty());
}

// The rotation of a transformer's positions, as people write it first.
TEST(Warnings, BothArmsOfAChoiceBoundThePoints) {
  const std::string text =
      "function (Q[S, D]) -> (O) {\n"
      "  O[s, d: S, D] = +(d < D / 2 ? 0 - Q[s, d + D / 2] : Q[s, d - D / 2]);\n}";
  std::vector<Said> said = warnings(text, {f32({4, 8})});
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].code, "empty");
  EXPECT_EQ(said[0].where, "Q[s, d - D / 2]");
  EXPECT_THAT(said[0].message, HasSubstr("every cell of O is 0"));
}

TEST(Warnings, AConditionThatIsNeverTrue) {
  const std::string text = "function (A[N]) -> (O) { O[i: N] = +(A[i]), i - N < 1; }";
  std::vector<Said> said = warnings(text, {f32({6})});
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].code, "empty");
  EXPECT_EQ(said[0].where.substr(0, 5), "i - N");
}

TEST(Warnings, AConditionThatIsAlwaysTrue) {
  const std::string always = "function (A[N, N]) -> (O) { O[i: N] = +(A[i, j]), i + j < 2 * N; }";
  EXPECT_THAT(codes(always, {f32({6, 6})}), ElementsAre("always"));
  // Of one row it holds by chance.
  EXPECT_THAT(codes(always, {f32({1, 1})}), IsEmpty());
  EXPECT_THAT(
      codes("function (A[N, N]) -> (O) { O[i: N] = +(A[i, j]), i - j < N; }", {f32({6, 6})}),
      IsEmpty());
  EXPECT_THAT(codes("function (A[N]) -> (O) { O[i: N] = +(A[i]), i < N; }", {f32({6})}), IsEmpty());
}

TEST(Warnings, CellsThatNoPointReaches) {
  std::vector<Said> said = warnings("function (A[N]) -> (O) { O[i: 10] = +(A[i]); }", {f32({5})});
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].code, "unreached");
  EXPECT_THAT(said[0].message, HasSubstr("indices 5 to 9 in dimension 0"));
  EXPECT_THAT(codes("function (A[N]) -> (O) { O[0: 3] = +(A[i]); }", {f32({5})}),
              ElementsAre("unreached"));
  // Padding and strides leave cells out on purpose, a default fills them.
  EXPECT_THAT(codes("function (A[N]) -> (O) { O[i + 1: N + 2] = +(A[i]); }", {f32({5})}),
              IsEmpty());
  EXPECT_THAT(codes("function (A[N]) -> (O) { O[2 * i: 2 * N] = +(A[i]); }", {f32({5})}),
              IsEmpty());
  EXPECT_THAT(
      codes("function (A[N], D[M]) -> (O) { O[i: M] = +(A[i]) default D; }", {f32({5}), f32({10})}),
      IsEmpty());
}

TEST(Warnings, SumsOfNarrowIntegers) {
  const std::string sum = "function (A[N]) -> (O) { O[] = +(A[i]); }";
  EXPECT_THAT(codes(sum, {{DType::u8, {2}}}), ElementsAre("overflow"));
  EXPECT_THAT(codes(sum, {{DType::u8, {1}}}), IsEmpty());
  EXPECT_THAT(codes(sum, {{DType::i32, {1000}}}), IsEmpty());
  EXPECT_THAT(codes(sum, {f32({1000})}), IsEmpty());
  EXPECT_THAT(codes("function (A[N]) -> (O) { O[] = +(as_int(A[i], 32)); }", {{DType::u8, {1000}}}),
              IsEmpty());
  EXPECT_THAT(codes("function (A[N]) -> (O) { O[] = +(as_int(A[i], 32) * as_int(A[i], 32)); }",
                    {{DType::u8, {40000}}}),
              ElementsAre("overflow"));
}

TEST(Warnings, WhatDifferentiationMakesIsNotTheAuthors) {
  Program program = program_of("function (A[N], B[N]) -> (O) { O[i: 10] = +(A[i]); }");
  EXPECT_THAT(warnings_of(differentiate(program, "O", {"A"})), IsEmpty());
}

TEST(Warnings, EmptyTensorsAreNoSurprise) {
  EXPECT_THAT(codes("function (A[N]) -> (O) { O[i: 10] = +(A[i]); }", {f32({0})}), IsEmpty());
}

TEST(Warnings, AreRenderedAsSuch) {
  Program program = program_of("function (A[N], B[N]) -> (O) { O[i: N] = +(A[i]); }");
  Diagnostic d = warnings_of(program).at(0);
  EXPECT_THAT(render(d, *program.source), HasSubstr("w.tile:1:17: parse warning [unread]"));
  EXPECT_THAT(render_json(d, *program.source), HasSubstr("{\"severity\":\"warning\""));
}

}  // namespace
}  // namespace tile::test
