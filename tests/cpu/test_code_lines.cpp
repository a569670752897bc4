// Lines of the program's text in compiled code: there where the nest knows its text, and nothing
// else changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "backends/cpu/code_symbols.h"
#include "backends/cpu/cpu_backend.h"
#include "core/nest/source_lines.h"
#include "tests/cpu/nests.h"

namespace tile::cpu {
namespace {

// Two loops, and a third one that runs or does not.
const char* const kTwo = R"(
nest two
argument X: f32 [64] strides [1]
argument Y: f32 [64] strides [1] written
argument Z: f32 [64] strides [1] written
parameter n [0, 64]
serial i from [0] extent [n] {
  assign Y[i] (X[i]) { %0:f32 = load 0; %1:f32 = mul %0 %0; yield %1 }
}
serial j from [0] extent [n] {
  assign Z[j] (Y[j]) { %0:f32 = load 0; %1:f32 = add %0 %0; yield %1 }
}
)";
constexpr unsigned kFirst = 2, kSecond = 4;

// The nest as that of a text whose lines 2 and 4 are the loops' statements.
nest::Nest with_lines(const std::string& name = "two.tile") {
  nest::Nest nest = parse(kTwo);
  nest.source = std::make_shared<const Source>(Source{name, "head\nfirst\n\nsecond\n"});
  auto line = [&](size_t loop, uint32_t begin) {
    nest::Block one{nest.body.at(loop)};
    nest::give_span(one, {begin, begin + 1});
    nest.body[loop] = one[0];
  };
  line(0, 5);
  line(1, 12);
  return nest;
}

std::set<unsigned> lines_of(const CodeSymbol& symbol) {
  std::set<unsigned> lines;
  for (const CodeLine& line : symbol.lines) lines.insert(line.line);
  return lines;
}

TEST(CodeLines, OnlyANestThatKnowsItsTextHasThem) {
  auto backend = shared_backend();
  auto code = backend->compile(parse(kTwo), backend->target());
  std::vector<CodeSymbol> symbols = code_symbols(*code);
  ASSERT_EQ(symbols.size(), 1u);
  EXPECT_TRUE(symbols[0].lines.empty());
  EXPECT_TRUE(code_frames(*code).empty());
}

TEST(CodeLines, EachStatementHasItsLine) {
  auto backend = shared_backend();
  nest::Nest nest = with_lines();
  auto code = backend->compile(nest, backend->target());
  std::vector<CodeSymbol> symbols = code_symbols(*code);
  ASSERT_EQ(symbols.size(), 1u);
  const CodeSymbol& s = symbols[0];
  EXPECT_EQ(lines_of(s), (std::set<unsigned>{kFirst, kSecond}));
  auto begin = reinterpret_cast<uint64_t>(s.address);
  EXPECT_EQ(s.lines.front().address, begin);
  EXPECT_EQ(s.lines.front().line, kFirst);
  EXPECT_TRUE(std::is_sorted(s.lines.begin(), s.lines.end(),
                             [](const auto& a, const auto& b) { return a.address < b.address; }));
  EXPECT_LT(s.lines.back().address, begin + s.bytes);
  EXPECT_FALSE(code_frames(*code).empty());
  // The function's own line is its part 0; what follows is another.
  for (const CodeLine& line : s.lines) EXPECT_EQ(line.part == 0, line.line == kFirst);
}

TEST(CodeLines, CodeOfTheDiskCacheHasThem) {
  auto backend = shared_backend();
  nest::Nest nest = with_lines();
  auto code = backend->compile(nest, backend->target());
  std::vector<std::byte> object(code->object().begin(), code->object().end());
  for (const auto& again : {backend->load(nest, backend->target(), object),
                            backend->restore_saved(backend->target(), object)}) {
    ASSERT_NE(again, nullptr);
    std::vector<CodeSymbol> symbols = code_symbols(*again);
    ASSERT_EQ(symbols.size(), 1u);
    EXPECT_EQ(lines_of(symbols[0]), (std::set<unsigned>{kFirst, kSecond}));
    EXPECT_EQ(symbols[0].lines.front().address, reinterpret_cast<uint64_t>(symbols[0].address));
  }
}

// The instructions of assembler text.
std::string instructions(const std::string& text) {
  std::istringstream in(text);
  std::string all;
  for (std::string line; std::getline(in, line);) {
    bool instruction = line.starts_with("\t") && !line.starts_with("\t.");
    if (instruction) all += line.substr(0, line.find('#')) + "\n";
  }
  return all;
}

TEST(CodeLines, InstructionsAreTheSame) {
  auto backend = shared_backend();
  std::string without = instructions(backend->emit(parse(kTwo), backend->target(), "asm"));
  EXPECT_GT(without.size(), 100u);
  EXPECT_EQ(instructions(backend->emit(with_lines(), backend->target(), "asm")), without);
}

TEST(CodeLines, AreAPartOfTheKey) {
  nest::Nest nest = with_lines(), moved = nest;
  EXPECT_EQ(nest::print_lines(parse(kTwo)), "");
  EXPECT_EQ(nest::print(nest), nest::print(parse(kTwo)));
  nest::Block& body = moved.body;
  body[1].span = {0, 4};
  EXPECT_NE(nest::print_lines(moved), nest::print_lines(nest));
  EXPECT_NE(nest::print_lines(with_lines("other.tile")), nest::print_lines(nest));
  EXPECT_EQ(nest::print_lines(with_lines()), nest::print_lines(nest));
}

TEST(CodeLines, AnOperatorStandsAtItsSecondOperand) {
  // a + b and f(a, b), whose operands are at 4 and 8 or, of the call, at 6 and 8.
  Body body;
  NodeId a = body.load(0, DType::f32, {4, 5}), b = body.load(1, DType::f32, {8, 9});
  NodeId inside = body.load(0, DType::f32, {6, 7});
  NodeId sum = body.operation(Op::add, {a, b}, DType::f32, {4, 9});
  NodeId call = body.operation(Op::max, {inside, b}, DType::f32, {4, 10});
  NodeId without = body.operation(Op::add, {a, b}, DType::f32);
  EXPECT_EQ(nest::place_of(body, body[sum]).begin, 8u);
  EXPECT_EQ(nest::place_of(body, body[call]).begin, 4u);
  EXPECT_EQ(nest::place_of(body, body[without]).end, 0u);
  EXPECT_EQ(nest::place_of(body, body[a]).begin, 4u);
}

TEST(CodeLines, ASpanIsGivenToWhatHasNone) {
  nest::Nest nest = with_lines();
  nest::give_span(nest.body, {0, 4});
  nest::SourceLines lines(*nest.source);
  EXPECT_EQ(lines.line_of(nest.body[0].span), kFirst);
  const auto& loop = std::get<nest::For>(nest.body[0].what);
  EXPECT_EQ(lines.line_of(loop.body[0].span), kFirst);
  EXPECT_EQ(lines.line_of({}), 0u);
  EXPECT_EQ(lines.first_line(nest.body), kFirst);
}

}  // namespace
}  // namespace tile::cpu
