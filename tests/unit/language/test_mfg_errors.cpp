// Bad MFG programs: where the error points and what it says was expected.
#include <gtest/gtest.h>

#include "tests/support/mfg_text.h"

namespace tile::test {
namespace {

// The block is on line 3; its columns count from 1.
std::string error(const std::string& line) { return mfg_error(mfg_pixel(line)); }

TEST(MfgErrors, Arity) {
  EXPECT_EQ(error("sqrt(1.0, 2.0)"), "3:1 arity: expected 1 argument of 'sqrt', found 2");
  EXPECT_EQ(error("mix(1.0)"), "3:1 arity: expected 3 arguments of 'mix', found 1");
  EXPECT_EQ(mfg_error("fn f |a: i32, b: i32| { a+b }\n" + mfg_pixel("f(1)")),
            "4:1 arity: expected 2 arguments of 'f', found 1");
  EXPECT_EQ(mfg_error("def w by [1, 2]\n" + mfg_pixel("w(0, 1)")),
            "4:1 arity: expected 1 index of the tensor 'w', found 2");
  EXPECT_EQ(error("let [a, b] = [1, 2, 3]\na"), "3:6 arity: expected 3 names for a i32v3, found 2");
  EXPECT_EQ(mfg_error("@bounds(4)\ndef t |x, y| { 1 }\n"),
            "1:1 arity: expected 2 sizes in @bounds for the indices of 't', found 1");
  EXPECT_EQ(mfg_error("@bounds(4, 4, 4)\ndef t |x, y, z| { 1 }\n"),
            "2:5 arity: expected one or two indices of the tensor 't', found 3");
}

// mfg rules 3, 5, 37, 45
TEST(MfgErrors, Types) {
  EXPECT_EQ(error("ifel(1, [3, 4], [3, 4.0])"),
            "3:1 type: expected arms of one type, found i32v2 and [i32, f32]");
  EXPECT_EQ(error("[1, 2] + [1, 2, 3]"),
            "3:1 type: expected tuples of one length, found i32v2 and i32v3");
  EXPECT_EQ(error("1.0 | 2"), "3:1 type: expected integers around '|', found f32 and i32");
  EXPECT_EQ(error("[1, [2, 3]]"), "3:5 type: expected a number, found i32v2: tuples are flat");
  EXPECT_EQ(error("[1, 2].z"), "3:1 type: a i32v2 has no component 'z'");
  EXPECT_EQ(error("[1, 2].xq"), "3:1 name: expected components out of x, y, z and w, found '.xq'");
  EXPECT_EQ(error("[1, 2].7"), "3:1 type: a i32v2 has no component 7");
  EXPECT_EQ(error("5.x"), "3:1 type: a i32 has no component 'x'");
  EXPECT_EQ(error("input_f32(0.5, 1)"),
            "3:1 type: expected integer indices of 'input_f32', found f32");
  EXPECT_EQ(mfg_error("def w by [1, 2u]\n" + mfg_pixel("1")),
            "1:14 type: expected a tensor literal of one type, found i32 and u32");
  EXPECT_EQ(mfg_error("def w by [[1, 2], [3]]\n" + mfg_pixel("1")),
            "1:19 type: row 2 of the tensor literal has 1 elements, the first row has 2");
  EXPECT_EQ(mfg_error("fn f |v: f32v2| { v }\n" + mfg_pixel("f([1.0, 2.0, 3.0])")),
            "4:1 type: expected a f32v2 as argument 1 of 'f', found f32v3");
}

TEST(MfgErrors, Names) {
  EXPECT_EQ(error("nobody + 1"), "3:1 name: unknown name 'nobody'");
  EXPECT_EQ(error("nobody(1)"), "3:1 name: unknown function or tensor 'nobody'");
  EXPECT_EQ(error("nobody.sum |i, e| { e }"), "3:1 name: unknown tensor 'nobody'");
  EXPECT_EQ(error("let a = 1\nlet a = 2\na"), "4:5 name: 'a' is defined already in this block");
  EXPECT_EQ(error("let x = 5\nifel(x > 0, 1, 2)"), "parses");
  EXPECT_EQ(mfg_error("let a = 1\nlet a = 2\n" + mfg_pixel("a")),
            "2:5 name: 'a' is defined already");
  EXPECT_EQ(mfg_error("fn max |a: i32| { a }\n" + mfg_pixel("1")),
            "1:4 name: 'max' is a built-in function");
  EXPECT_EQ(mfg_error("@bounds(1)\ndef input_a |x| { 1 }\n"),
            "2:5 name: 'input_a' is an input: names that start with input_ are not defined");
  EXPECT_EQ(mfg_error("fn f |a: i32| { f(a) }\n" + mfg_pixel("1")),
            "1:17 recursion: the function 'f' calls itself");
  EXPECT_EQ(mfg_error("@unheard(1)\n" + mfg_pixel("1")), "1:2 name: unknown attribute '@unheard'");
  EXPECT_EQ(error("w"), "3:1 name: unknown name 'w'");
  EXPECT_EQ(mfg_error("def w by [1]\n" + mfg_pixel("w")),
            "4:1 type: expected a value, but 'w' is a tensor");
}

TEST(MfgErrors, Newlines) {
  EXPECT_EQ(error("let a = (1 +\n2\na"),
            "6:1 syntax: expected ')' to close the bracket '(' of line 3, found '}'");
  EXPECT_EQ(mfg_error("@bounds(1, 1)\ndef t |x, y| {\nlet a = 1\na\n"),
            "2:14 syntax: the bracket '{' is not closed by '}'");
  EXPECT_EQ(mfg_error("}\n"), "1:1 syntax: '}' closes nothing: no bracket is open here");
  EXPECT_EQ(error("let a = 1\n+ 2\na"), "4:1 syntax: expected a value, found '+'");
  EXPECT_EQ(error("let a = 1\n-2\na"),
            "4:1 syntax: the value of this line is not used: only a block's last line is an "
            "expression");
  EXPECT_EQ(error("let a = 1 let b = 2\na"),
            "3:11 syntax: expected the end of the line, found 'let'");
  EXPECT_EQ(error("ifel(1, 2, ...)"),
            "4:1 syntax: expected the expression that `...` stands for, found '}'");
  EXPECT_EQ(error("1 \\ + 2"), "3:3 lexical: '\\' stands at the end of a line only");
}

TEST(MfgErrors, Syntax) {
  EXPECT_EQ(error("max(1, ..., 2)"), "3:11 syntax: expected ')', found ','");
  EXPECT_EQ(error("1 |> max(2, 3)"),
            "3:6 syntax: expected a call whose last argument is `...` on the right of |>");
  EXPECT_EQ(error("..."), "3:1 syntax: expected a value, found '...'");
  EXPECT_EQ(error("[]"), "3:2 syntax: expected a value, found ']'");
  EXPECT_EQ(error("*[1, 2]"), "3:1 syntax: expected a value, found '*'");
  EXPECT_EQ(error("1 2"), "3:3 syntax: expected the end of the line, found '2'");
  EXPECT_EQ(error("sin(1.0) |i| { i }"), "3:10 syntax: 'sin' takes no block");
  EXPECT_EQ(error("0x"), "3:1 lexical: '0x' is not a number");
  EXPECT_EQ(error("12ab"), "3:1 lexical: '12ab' is not a number");
  EXPECT_EQ(error("2147483648"), "3:1 limit: the integer does not fit in an i32");
  EXPECT_EQ(error("4294967296u"), "3:1 limit: the integer does not fit in 32 bits");
  EXPECT_EQ(error("a ? b"), "3:3 lexical: unexpected character '?'");
  EXPECT_EQ(mfg_error("x = 1\n"),
            "1:1 syntax: expected `def`, `let`, `fn` or an attribute, found 'x'");
  EXPECT_EQ(mfg_error(""), "1:1 syntax: expected a tensor definition: the program has none");
}

TEST(MfgErrors, Sizes) {
  EXPECT_EQ(mfg_error("def t |x, y| { 1 }\n"),
            "1:5 bounds: expected @bounds before the definition of 't'");
  EXPECT_EQ(mfg_error("def w by [4]\n@bounds(i32(input_a(0)), 1)\ndef t |x, y| { 1 }\n"),
            "2:9 bounds: expected a size made of integers, extents and parameters by integer "
            "arithmetic");
  EXPECT_EQ(mfg_error("@bounds(2.0, 1)\ndef t |x, y| { 1 }\n"),
            "1:9 type: expected integers in @bounds, found f32");
  EXPECT_EQ(mfg_error("@bounds(0-3, 1)\ndef t |x, y| { 1 }\n"),
            "1:9 bounds: expected a size, found a negative number");
  EXPECT_EQ(mfg_error("@bounds(3)\nlet a = 1\n"),
            "2:1 syntax: expected `def` after @bounds, found 'let'");
}

TEST(MfgErrors, Samplers) {
  std::string use = mfg_pixel("s(x, y)");
  EXPECT_EQ(mfg_error("let s = sampler<input_f32>(address=.Nowhere)\n" + use),
            "1:28 name: unknown setting of a sampler");
  EXPECT_EQ(mfg_error("let s = sampler<input_f32>(address=.ClampToBorderValue)\n" + use),
            "1:9 arity: expected border_value=… with .ClampToBorderValue");
  EXPECT_EQ(
      mfg_error("let s = sampler<input_u8>(address=.ClampToBorderValue, border_value=0)\n" + use),
      "1:9 type: expected a border_value of the tensor's element type u8v4, found i32");
  EXPECT_EQ(mfg_error("let s = sampler<nothing>()\n" + use), "1:9 name: unknown tensor 'nothing'");
}

TEST(MfgErrors, LocalTensors) {
  std::string local = "@bounds(4)\ndef _h |i| { 0 }\n";
  EXPECT_EQ(error(local + "rsum(0..<2) |i| { mut! _h(0) += 1\n1 }"),
            "5:19 type: mut! changes '_h' inside a loop that is not a for_each");
  EXPECT_EQ(error("@bounds(x)\ndef _h |i| { 0 }\n1"),
            "3:9 bounds: expected a positive constant as a size of the local tensor '_h'");
  EXPECT_EQ(error("@bounds(256, 4)\ndef _h |i, c| { 0 }\n1"),
            "3:1 limit: a local tensor has at most 256 numbers, components counted");
  EXPECT_EQ(error("mut! x += 1\n1"),
            "3:6 syntax: expected an element of a local tensor after mut!, as in mut! _h(i) += 1");
  EXPECT_EQ(error(local + "mut! _h(0) += 1.0\n_h(0)"),
            "5:1 type: expected a sum of the element type i32, found f32");
}

}  // namespace
}  // namespace tile::test
