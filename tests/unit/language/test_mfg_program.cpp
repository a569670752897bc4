// What MFG programs become: bodies, accesses, inputs, outputs, sizes.
#include <gtest/gtest.h>

#include "tests/support/mfg_text.h"

namespace tile::test {
namespace {

const SymbolicContraction& contraction(const Program& program, const std::string& name) {
  for (const Statement& s : program.statements) {
    if (program.tensors[s.result].name == name) {
      return std::get<SymbolicContraction>(s.what);
    }
  }
  throw std::runtime_error("no tensor " + name);
}

std::string names(const Program& program, const std::vector<TensorId>& ids) {
  std::string out;
  for (TensorId id : ids) out += program.tensors[id].name + " ";
  return out;
}

const std::string kInput = "@bounds(input_f32.extent(0), input_f32.extent(1))\n";

// mfg rule 10: the very IR of the nested form.
TEST(MfgProgram, Rule_10_TrailingArgumentsAreTheNestedForm) {
  std::string chain = mfg_pixel("ifel(x, 1, ...)\nifel(y, 2, ...)\nifel(x+y, 3, 4)");
  std::string nested = mfg_pixel("ifel(x, 1, ifel(y, 2, ifel(x+y, 3, 4)))");
  EXPECT_EQ(mfg_body(chain), mfg_body(nested));
  EXPECT_NE(mfg_body(chain).find("select"), std::string::npos);
}

// mfg rules 12, 13, 51: sugar leaves no trace.
TEST(MfgProgram, SugarLeavesNoTrace) {
  auto same = [](const std::string& a, const std::string& b) {
    EXPECT_EQ(mfg_body(mfg_pixel(a)), mfg_body(mfg_pixel(b)));
  };
  same("elif(x, 1, 2)", "ifel(x, 1, 2)");
  same("ifel(x, 1, ...)\nelse(y)", "ifel(x, 1, y)");
  same("y |> max(x, 3, ...)", "max(x, 3, y)");
  same("u8[x, y]", "u8([x, y])");
}

TEST(MfgProgram, NeighboursAreAffineAccessesWithClamps) {
  Program p = parse_mfg_text(kInput + "def t |x, y| {\ninput_f32(x-1, 2*y+3)\n}\n");
  const SymbolicContraction& c = contraction(p, "t");
  ASSERT_EQ(c.accesses.size(), 1u);
  EXPECT_EQ(to_string(c.accesses[0].index[0]), "2*y' + 3");
  EXPECT_EQ(to_string(c.accesses[0].index[1]), "x' - 1");
  EXPECT_EQ(c.accesses[0].values, (std::vector<int>{-1, -1}));
  EXPECT_EQ(c.accesses[0].boundary, (std::vector<Boundary>{Boundary::clamp, Boundary::clamp}));
  EXPECT_TRUE(c.typed);
}

TEST(MfgProgram, ThePixelItselfNeedsNoClamp) {
  Program p = parse_mfg_text(kInput + "def t |x, y| {\ninput_f32(x, y)\n}\n");
  EXPECT_EQ(contraction(p, "t").accesses[0].boundary,
            (std::vector<Boundary>{Boundary::in_range, Boundary::in_range}));
}

TEST(MfgProgram, ComputedIndicesAreOperands) {
  Program p = parse_mfg_text(std::string(kInput) +
                             "def t |x, y| {\ninput_f32(i32(input_f32(x, y)), y)\n}\n");
  const SymbolicContraction& c = contraction(p, "t");
  ASSERT_EQ(c.accesses.size(), 2u);
  EXPECT_EQ(c.accesses[1].values, (std::vector<int>{-1, 0}));
}

// A small loop is written out, so that its indices are constants; a larger one stays a loop.
TEST(MfgProgram, SmallConstantLoopsAreWrittenOut) {
  std::string small = mfg_pixel("rsum(-1..<2, -1..<2) |i, j| { (x+i)*(y+j) }");
  std::string large = mfg_pixel("rsum(0..<1000) |i| { (x+i)*y }");
  EXPECT_EQ(mfg_body(small).find("fold"), std::string::npos);
  EXPECT_NE(mfg_body(large).find("fold add"), std::string::npos);
  Program p = parse_mfg_text(std::string(kInput) +
                             "def t |x, y| {\nrsum(-1..<2) |i| { input_f32(x+i, y) }\n}\n");
  EXPECT_EQ(contraction(p, "t").accesses.size(), 3u);
}

TEST(MfgProgram, ReduceStaysOrdered) {
  std::string body = mfg_body(mfg_pixel("reduce(init=0, 0..<100) |i, a| { a*3 + i }"));
  EXPECT_NE(body.find("fold ident 1"), std::string::npos) << body;
}

TEST(MfgProgram, InputsHaveTypesByName) {
  Program p = parse_mfg_text(
      "@bounds(1, 1)\ndef t |x, y| {\n"
      "f32(input_u8(x, y).x) + f32(input_u16(x, y).y) + f32(input_mask_i32(x, y)) + "
      "input_table(x) + f32(input_v_u8(x))\n}\n");
  EXPECT_EQ(names(p, p.inputs), "input_u8 input_u16 input_mask_i32 input_table input_v_u8 ");
  auto type = [&](size_t i) { return *p.tensors[p.inputs[i]].type; };
  auto rank = [&](size_t i) { return p.tensors[p.inputs[i]].dims.size(); };
  EXPECT_EQ(type(0), DType::u8);
  EXPECT_EQ(rank(0), 3u);
  EXPECT_EQ(type(1), DType::u16);
  EXPECT_EQ(type(2), DType::i32);
  EXPECT_EQ(rank(2), 2u);
  EXPECT_EQ(type(3), DType::f32);
  EXPECT_EQ(rank(3), 1u);
  EXPECT_EQ(type(4), DType::u8);
}

TEST(MfgProgram, OutputsAreTheResultOrEveryTensor) {
  Program both = parse_mfg_text(
      "def w by [1, 2]\n@bounds(2)\ndef a |i| { w(i) }\n"
      "@bounds(2)\ndef b |i| { [a(i), 1.0] }\n");
  EXPECT_EQ(names(both, both.outputs), "a b.0 b.1 ");
  Program result = parse_mfg_text(
      "@bounds(2)\ndef a |i| { i }\n"
      "@bounds(2)\ndef result_f32 |i| { f32(a(i)) }\n");
  EXPECT_EQ(names(result, result.outputs), "result_f32 ");
}

TEST(MfgProgram, AResultHasTheSizeOfTheInput) {
  Program p = parse_mfg_text("def result_u8 |x, y| { input_u8(x, y) }\n");
  EXPECT_EQ(to_string(contraction(p, "result_u8").out_size[0]), "input_u8.height");
  EXPECT_EQ(to_string(contraction(p, "result_u8").out_size[1]), "input_u8.width");
  EXPECT_EQ(contraction(p, "result_u8").components, 4);
  // Even where the input is not read.
  Program q = parse_mfg_text("def result_u8 |x, y| { u8[0, 0, 0xff, 0xff] }\n");
  EXPECT_EQ(names(q, q.inputs), "input_u8 ");
}

TEST(MfgProgram, SizesAreExpressions) {
  Program p = parse_mfg_text(
      "@param_i32 STEP(SLIDER, label=\"step\", min=2, max=64, init=8)\n"
      "let [W, H] = (input_u8.extent() - 1)/STEP + 1\n"
      "@bounds(W, max(H, 3))\ndef t |x, y| { x }\n");
  const SymbolicContraction& c = contraction(p, "t");
  EXPECT_EQ(to_string(c.out_size[1]), "(input_u8.width - 1) / min(max(STEP, 2), 64) + 1");
  EXPECT_EQ(names(p, p.inputs), "STEP input_u8 ");
  const auto& parameter = *p.tensors[p.inputs[0]].parameter;
  EXPECT_EQ(parameter.init, std::vector<double>{8});
  EXPECT_EQ(parameter.label, "step");
  EXPECT_EQ(*parameter.max, 64);
}

// What stands for a place is the words before it.
TEST(MfgProgram, RandomNumbersDependOnWordsAlone) {
  auto body = [](const std::string& between, const std::string& last) {
    return mfg_body("fn noise |k: f32| { rand()*k }\n" + between +
                    mfg_pixel("noise(1.0) +" + between + "  noise(2.0) + " + last));
  };
  std::string plain = body("", "rand()");
  EXPECT_EQ(body("\n\n# A comment.\n", "rand()"), plain);
  EXPECT_EQ(body("   # Another.\n\n", " rand( )"), plain);
  EXPECT_NE(body("", "0 + rand()"), plain);
  EXPECT_NE(body("", "noise(1.0)"), body("", "rand()"));
}

TEST(MfgProgram, RepeatedParsingGivesTheSameBody) {
  std::string text = mfg_pixel("rand() + rsum(0..<3) |i| { rand() }");
  EXPECT_EQ(mfg_body(text), mfg_body(text));
}

}  // namespace
}  // namespace tile::test
