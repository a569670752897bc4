// core/language/tile/REFERENCE.md rule 2.5: parse(print(parse(text))) is the identity on programs.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/tile_text.h"

namespace tile::test {
namespace {

void expect_round_trip(const std::string& text) {
  Program p = parse_text(text);
  std::string printed = print(p);
  Program again = parse_text(printed);
  EXPECT_EQ(dump(again), dump(p)) << text << "\n" << printed;
  EXPECT_EQ(print(again), printed);
}

// Programs of the tutorial and of the autodiff article, and further ones.
TEST(TilePrint, Rule2_5_Programs) {
  for (const char* text : {
           "function (I[M, N]) -> (O) { O[n: N + 1] = +(I[m, n]); }",
           "function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }",
           "function (I) -> (O) { Neg = -I; O_Neg[] = >(Neg[i, j, k]); O = -O_Neg; }",
           "function (I[X, Y]) -> (O) { Sum[] = +(I[x, y]); O = Sum / (X * Y); }",
           "function (I[N]) -> (O) { O[i: (N + 1) / 2] = >(I[2 * i + j]), j < 2; }",
           "function (I[N, M]) -> (O) { O[2 * i: N] = +(I[2 * i, j]); }",
           "function (I[N]) -> (O) { O[i: N] = *(I[k]), i - k < N; }",
           "function (I[N, L, CI], K[LK, CI, CO]) -> (O) { O[n, x, co: N, L - LK + 1, CO] = "
           "+(I[n, x + k, ci] * K[k, ci, co]); }",
           "function (I[N, Lx, Ly, CI], K[LKx, LKy, CI, CO]) -> (O) { O[n, x, y, co: N, Lx - 2 * "
           "(LKx - 1), Ly - 3 * (LKy - 1), CO] = +(I[n, x + 2 * kx, y + 3 * ky, ci] * K[kx, ky, "
           "ci, co]); }",
           "function (I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) { O[n, y, x, co: N, H/3, W/3, CO] "
           "= +(I[n, 3*y + 2*j, 3*x + 2*i, ci] * K[j, i, ci, co]); }",
           "function (X_T5[N, A, B, C], X_I_0[K, L, CI, C]) -> (X_T0) { X_T13 = "
           "0.007936507936507936; X_T0[n, 2*k0 + 3*x0, 2*k1 + 3*x1, ci : 2, 9, 9, 5] = "
           "+(X_T5[n, x0, x1, co] * X_I_0[k0, k1, ci, co]); }",
           "function (I[N], K[M]) -> (O) { O[x: 5] = +(I[(x - k + 1) / 2] * K[k]); }",
           "function (I[N], P[M]) -> (O) { O[2 * i + 1: M] = =(I[i]) default P no_defract; }",
           "function (A[N], B[M], C[M]) -> (O) { O[i: N] = +(A[i] == B[j] ? C[j]); }",
           "function (A[N, M]) -> (O) { O[i: N] = +(exp(A[i, j]) * (j + 1) - A.0 / N), j < A.1; }",
           "function (A) -> (O) { [[a(b, C)]] O = A < 1e-3 ? as_int(A, 8) : A * -2.5; }",
           "function (A, B) -> (O, Q) { O = builtin_binary_crossentropy(A, exp(B), 3); "
           "Q = slice(concat(0, A, B), 0, 1, -1, max(2, A.0)); }",
           "function () -> (O) { O = 3; }",
       }) {
    expect_round_trip(text);
  }
}

class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : random_(seed) {}

  std::string text() {
    std::string out = "function (A[N, M], B[N], S[], T) -> (O) { X = " + scalar(6, false) + "; ";
    out += "O[" + index(4) + ", " + index(4) + ": " + size(4) + ", " + size(4) + "] = ";
    out += pick({"+", "*", ">", "<", "="}) + "(" + scalar(5, true) + "), ";
    return out + index(4) + " < " + size(4) + (below(2) == 0 ? " default A" : "") + "; }";
  }

 private:
  unsigned below(unsigned n) { return static_cast<unsigned>(random_()) % n; }
  std::string pick(const std::vector<std::string>& from) {
    return from[below(static_cast<unsigned>(from.size()))];
  }
  std::string bracketed(const std::string& text) { return below(2) == 0 ? "(" + text + ")" : text; }

  std::string scalar(int depth, bool contraction) {
    auto sub = [&] { return bracketed(scalar(depth - 1, contraction)); };
    if (depth == 0 || below(6) == 0) {
      if (!contraction) return pick({"A", "B", "S", "T", "N", "3", "0.25", "-7", "1e+30", "T.2"});
      std::string access =
          below(2) == 0 ? "A[" + index(2) + ", " + index(2) + "]" : "B[" + index(3) + "]";
      return below(2) == 0 ? access : pick({"i", "k", "N", "S[]", "-1", "2.5", "A.0"});
    }
    switch (below(6)) {
      case 0:
        return pick({"-", "~", "!"}) + sub();
      case 1:
        return pick({"exp", "neg", "bit_not", "as_bool"}) + "(" + sub() + ")";
      case 2:
        return pick({"max", "pow", "sub"}) + "(" + sub() + ", " + sub() + ")";
      case 3:
        return "(" + sub() + " ? " + sub() + " : " + sub() + ")";
      default:
        return sub() + pick({"+", "-", "*", "/", "%", "<", "==", "&", "|", "^", "&&", "||", "<<"}) +
               sub();
    }
  }

  std::string index(int depth) {
    if (depth == 0 || below(5) == 0) return pick({"i", "j", "k", "2", "-3", "N", "A.1"});
    std::string sub = bracketed(index(depth - 1));
    std::string constant = bracketed(size(1, false));
    switch (below(5)) {
      case 0:
        return constant + " * (" + sub + ")";
      case 1:
        return "(" + sub + ") / (" + constant + ")";
      case 2:
        return "-(" + sub + ")";
      default:
        return sub + pick({" + ", " - "}) + bracketed(index(depth - 1));
    }
  }

  std::string size(int depth, bool functions = true) {
    if (depth == 0 || below(5) == 0) return pick({"N", "M", "5", "-1", "T.0"});
    std::string a = bracketed(size(depth - 1, functions));
    std::string b = bracketed(size(depth - 1, functions));
    if (functions && below(5) == 0) return pick({"min", "max"}) + "(" + a + ", " + b + ")";
    return below(6) == 0 ? "-(" + a + ")" : a + pick({" + ", " - ", "*", " / "}) + b;
  }

  std::mt19937 random_;
};

TEST(TilePrint, Rule2_5_RandomPrograms) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::string text = RandomProgram(seed).text();
    try {
      expect_round_trip(text);
    } catch (const Failure& failure) {
      ADD_FAILURE() << render(failure.diagnostic(), *source_of(text));
    }
    if (HasFailure()) return;
  }
}

// Printing adds no nesting of its own, so that a text inside the limits stays inside them.
TEST(TilePrint, Rule2_5_NestingUpToTheLimit) {
  for (std::string open : {"neg(A + ", "-(A - ", "A * (A ? A : ", "exp(-", "cond(A, A, ",
                           "builtin_binary_crossentropy(A, "}) {
    std::string text = "A", close;
    for (int i = 0; i < 90; ++i) {
      text = open + text;
      for (char c : open) close += c == '(' ? ")" : "";
    }
    expect_round_trip("function (A) -> (O) { O = " + text + close + "; }");
  }
  expect_round_trip("function (A[N]) -> (O) { O[] = +(A[" + std::string(500, '-') + "i]); }");
  expect_round_trip("function (A) -> (O) { O = " + std::string(500, '-') + "A; }");
}

TEST(TilePrint, GeneratedBodies) {
  Program p = parse_text("function (A) -> (O) { O = A; }");
  auto& e = std::get<Elementwise>(p.statements[0].what);
  NodeId x = e.body.load(0);
  NodeId infinity = e.body.real(std::numeric_limits<double>::infinity());
  NodeId size = e.body.size(Expr::variable("A.0") * Expr(2));
  NodeId fma = e.body.operation(Op::fma, {x, infinity, size});
  e.body.results = {e.body.operation(Op::neg, {e.body.integer(-1)})};
  EXPECT_EQ(print(p), "function (A) -> (O) {\n  O = neg(-1);\n}\n");
  e.body.results = {fma};
  EXPECT_NE(print(p).find("fma(A, (1.0 / 0.0), ("), std::string::npos);
  expect_round_trip(print(p));
}

// `levels` squares of sums of two uses of the last: as an expression, 4^levels terms.
Program with_shared_nodes(int levels) {
  Program p = parse_text("function (A[N], B[N]) -> (O, P) { O = A; P[i: N] = +(B[i] * i); }");
  for (size_t s : {0, 1}) {
    auto* e = std::get_if<Elementwise>(&p.statements[s].what);
    Body& body = e != nullptr ? e->body : std::get<SymbolicContraction>(p.statements[s].what).body;
    for (int i = 0; i < levels; ++i) {
      NodeId last = body.results[0];
      NodeId sum = body.operation(Op::add, {last, body.load(0)});
      body.results = {body.operation(Op::mul, {sum, sum})};
    }
    body = tidied(body);
  }
  return p;
}

// Values that are used again have names, so that the text grows as the body does.
TEST(TilePrint, Rule2_5_SharedNodes) {
  for (int levels : {1, 3, 10, 60, 400}) {
    expect_round_trip(print(with_shared_nodes(levels)));
    EXPECT_EQ(print(parse_text(print(with_shared_nodes(levels)))),
              print(with_shared_nodes(levels)));
  }
  size_t few = print(with_shared_nodes(100)).size(), many = print(with_shared_nodes(400)).size();
  EXPECT_LT(many, 5 * few);
}

// Operations in a row are nested as deep as texts may be, then get a name.
TEST(TilePrint, Rule2_5_DeepBodies) {
  Program p = parse_text("function (A) -> (O) { O = A; }");
  auto& e = std::get<Elementwise>(p.statements[0].what);
  for (int i = 0; i < 30'000; ++i) {
    Op op = i % 3 == 0 ? Op::neg : i % 3 == 1 ? Op::exp : Op::sub;
    std::vector<NodeId> args{e.body.results[0]};
    if (op == Op::sub) args.insert(args.begin(), e.body.load(0));
    e.body.results = {e.body.operation(op, args)};
  }
  e.body = tidied(e.body);
  expect_round_trip(print(p));
}

TEST(TilePrint, Rule2_6_NamesForValuesAreNoIndices) {
  std::string text =
      "function (A[N]) -> (O) {\n"
      "  O[v1: N] = +(let v2 = exp(A[v1] + A[v1 + 1] + A[v1 + 2] + A[v1 + 3] + A[v1 + 4]) in "
      "v2 / (1.0 + v2));\n}\n";
  EXPECT_EQ(print(parse_text(text)), text);
}

}  // namespace
}  // namespace tile::test
