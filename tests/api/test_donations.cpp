// Outputs in the memory of inputs: in place gives the bits that memory of its own gives, and what
// would read overwritten elements is an error.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "programs.h"

namespace tile::test {
namespace {

struct Case {
  const char* text;
  std::vector<size_t> may, may_not;  // inputs whose memory the first output may take, or not
  size_t inputs;
};

// Of [M, N] tensors.
const Case kCases[] = {
    {"function (A[M, N]) -> (O) { O = A * 2 + 1; }", {0}, {}, 1},
    {"function (A[M, N], B[M, N]) -> (O) { O = exp(A) - B * 0.5; }", {0, 1}, {}, 2},
    {"function (W[M, N], G[M, N]) -> (O) { O = W - 0.1 * G; }", {0, 1}, {}, 2},
    {kSoftmax, {0}, {}, 1},
    // Each row is read as a whole before it is written.
    {"function (X[M, N]) -> (P) { S[i, 0: M, 1] = +(X[i, j]); P = X / (S + 1000); }", {0}, {}, 1},
    {"function (A[M, N]) -> (O) { S[0, j: 1, N] = +(A[i, j]); O = A - S; }", {0}, {}, 1},
    {"function (A[M, N]) -> (O) { S[] = +(A[i, j]); O = A - S; }", {0}, {}, 1},
    // Neighbours and reversed elements, sums up to each element, sorted rows.
    {"function (A[M, N]) -> (O) { O[i, j: M, N] = +(A[i, j + k]), k < 3; }", {}, {0}, 1},
    {"function (A[M, N]) -> (O) { O[i, j: M, N] = =(A[M - 1 - i, j]); }", {}, {0}, 1},
    {"function (A[M, N]) -> (O) { O[i, j: M, N] = =(A[i, N - 1 - j]); }", {}, {0}, 1},
    {"function (A[M, N]) -> (O) { O[i, j: M, N] = +(A[i, k]), j - k < N; }", {}, {0}, 1},
    {"function (A[M, N]) -> (O) { O = sort(A, 1); }", {}, {0}, 1},
    // A product reads its factors again and again, its summand once.
    {"function (A[M, N], B[M, N]) -> (O) { G[i, j: M, M] = +(A[i, k] * A[j, k]);"
     " P[i, j: M, N] = +(G[i, k] * A[k, j]); O = P + B; }",
     {1},
     {},
     2},
};

class Donations : public testing::Test {
 protected:
  void compare(const Case& c, int64_t m, int64_t n) {
    SCOPED_TRACE(std::string(c.text) + " " + std::to_string(m) + "x" + std::to_string(n));
    jit::Engine engine(options_of());
    std::vector<std::vector<float>> inputs;
    std::vector<jit::View> views;
    for (size_t i = 0; i < c.inputs; ++i) {
      inputs.push_back(integers(static_cast<size_t>(m * n), i));
    }
    auto view_all = [&] {
      views.clear();
      for (auto& input : inputs) views.push_back(jit::view(input.data(), {m, n}));
    };
    view_all();
    jit::Executable e = engine.parse("tile", c.text).compile(views);
    std::vector<float> expected(static_cast<size_t>(m * n));
    e.run(views, {jit::view(expected.data(), {m, n})});
    const std::vector<std::vector<float>> before = inputs;
    for (size_t i = 0; i < c.inputs; ++i) {
      auto has = [i](const std::vector<size_t>& list) {
        return std::find(list.begin(), list.end(), i) != list.end();
      };
      // A tensor of one element may have lost all of its loops.
      EXPECT_TRUE(e.may_donate(i, 0) || !has(c.may) || m == 1) << "input " << i;
      EXPECT_FALSE(e.may_donate(i, 0) && has(c.may_not)) << "input " << i;
      if (e.may_donate(i, 0)) {
        e.run(views, {views[i]});
        EXPECT_EQ(std::memcmp(inputs[i].data(), expected.data(), expected.size() * 4), 0) << i;
      } else {
        try {
          e.run(views, {views[i]});
          FAIL() << "input " << i << " was taken";
        } catch (const jit::Error& error) {
          EXPECT_EQ(error.code(), "overlap");
          EXPECT_NE(std::string(error.what()).find("give"), std::string::npos) << error.what();
        }
        EXPECT_EQ(inputs[i], before[i]) << "an error changes nothing";
      }
      inputs = before;
      view_all();
    }
  }
};

TEST_F(Donations, InPlaceIsAsApart) {
  for (const Case& c : kCases) {
    for (auto [m, n] : {std::pair<int64_t, int64_t>{1, 1}, {3, 17}, {64, 64}, {130, 259}}) {
      if (m == 1 && c.may.empty()) continue;  // of one element much is in place that else is not
      compare(c, m, n);
    }
  }
}

TEST_F(Donations, PartsOfAnInputAreNone) {
  jit::Engine engine(options_of());
  std::vector<float> memory = integers(200, 1);
  jit::View a = jit::view(memory.data(), {10, 10});
  jit::Executable e = engine.parse("tile", "function (A[M, N]) -> (O) { O = A + 1; }").compile({a});
  ASSERT_TRUE(e.may_donate(0, 0));
  jit::View shifted = jit::view(memory.data() + 1, {10, 10});
  try {
    e.run({a}, {shifted});
    FAIL() << "a part was taken";
  } catch (const jit::Error& error) {
    EXPECT_EQ(error.code(), "overlap");
  }
}

TEST_F(Donations, AnOutputThatIsAnInput) {
  jit::Engine engine(options_of());
  std::vector<float> a = integers(100, 1), b = integers(100, 2), expected = a;
  jit::View va = jit::view(a.data(), {10, 10}), vb = jit::view(b.data(), {10, 10});
  // The copies of a swap: the first one overwrites what the second reads, but not the other way.
  jit::Executable swap =
      engine.parse("tile", "function (A[M, N], B[M, N]) -> (P, Q) { P = B; Q = A; }")
          .compile({va, vb});
  EXPECT_FALSE(swap.may_donate(0, 0) && swap.may_donate(1, 1));
  jit::Executable same =
      engine.parse("tile", "function (A[M, N], B[M, N]) -> (P) { P = A; }").compile({va, vb});
  ASSERT_TRUE(same.may_donate(0, 0));
  same.run({va, vb}, {va});
  EXPECT_EQ(a, expected);
}

// The answer is kept with what is cached and saved.
TEST_F(Donations, OfASavedExecutable) {
  jit::Engine engine(options_of());
  std::vector<float> a = integers(33 * 9, 1);
  jit::View va = jit::view(a.data(), {33, 9});
  std::vector<std::byte> bytes = engine.parse("tile", kSoftmax).compile({va}).save();
  EXPECT_TRUE(engine.load(bytes.data(), bytes.size()).may_donate(0, 0));
}

TEST_F(Donations, OfTheInterpreter) {
  jit::Engine engine(options_of("reference"));
  std::vector<float> a = integers(64, 1), expected(64);
  jit::View va = jit::view(a.data(), {8, 8});
  jit::Executable e =
      engine.parse("tile", "function (A[M, N]) -> (O) { O[i, j: M, N] = =(A[j, i]); }")
          .compile({va});
  e.run({va}, {jit::view(expected.data(), {8, 8})});
  ASSERT_TRUE(e.may_donate(0, 0));
  e.run({va}, {va});
  EXPECT_EQ(a, expected);
}

TEST_F(Donations, NullsAndNumbers) {
  jit::Engine engine(options_of());
  std::vector<float> a = integers(64, 1);
  jit::Executable e = engine.parse("tile", "function (A[M, N]) -> (O) { O = A; }")
                          .compile({jit::view(a.data(), {8, 8})});
  int allowed = 7;
  EXPECT_EQ(code_of(tile_executable_may_donate(e.get(), 1, 0, &allowed)), "argument");
  EXPECT_EQ(allowed, 0);
  EXPECT_EQ(code_of(tile_executable_may_donate(e.get(), 0, 1, &allowed)), "argument");
  EXPECT_EQ(code_of(tile_executable_may_donate(nullptr, 0, 0, &allowed)), "argument");
  EXPECT_EQ(code_of(tile_executable_may_donate(e.get(), 0, 0, nullptr)), "argument");
}

}  // namespace
}  // namespace tile::test
