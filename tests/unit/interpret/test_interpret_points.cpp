// The interpreter's way to the valid points (rule 4.1) against the definition: every point of a
// large box, each condition evaluated as an exact rational.
#include <algorithm>
#include <set>

#include "core/interpret/points.h"
#include "tests/random/random_program.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

using Points = std::set<std::vector<int64_t>>;

bool inside(const Rational& value, int64_t lo, int64_t hi, bool integral) {
  return value >= Rational(lo) && value < Rational(hi) && (!integral || value.is_integer());
}

bool valid(const BoundProgram& program, const Piece& piece, const std::vector<int64_t>& x) {
  auto access_holds = [&](const Access& access) {
    const Shape& shape = program.tensors[access.tensor].shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      const Index& index = access.index[d];
      if (index.value < 0 && !inside(index.affine.evaluate(x), 0, shape[d], true)) return false;
    }
    return true;
  };
  return std::all_of(piece.stores.begin(), piece.stores.end(), access_holds) &&
         std::all_of(piece.loads.begin(), piece.loads.end(), access_holds) &&
         std::all_of(piece.constraints.begin(), piece.constraints.end(), [&](const Constraint& c) {
           return inside(c.form.evaluate(x), c.lo, c.hi, c.integral);
         });
}

Points by_definition(const BoundProgram& program, const Piece& piece, int64_t lo, int64_t hi) {
  Points points;
  std::vector<int64_t> x(piece.iterators.size(), lo);
  while (true) {
    if (valid(program, piece, x)) points.insert(x);
    size_t i = 0;
    while (i < x.size() && ++x[i] > hi) x[i++] = lo;
    if (i == x.size()) return points;
  }
}

Points by_interpreter(const BoundProgram& program, const Piece& piece) {
  WorkMeter meter(1 << 24);
  Points points;
  for_each_point(program, piece, {}, meter, [&](std::span<const int64_t> x) {
    EXPECT_TRUE(points.emplace(x.begin(), x.end()).second) << "a point is visited twice";
  });
  return points;
}

// Compares every contraction of a program whose points fit the box.
int compare(const BoundProgram& program, const std::string& text) {
  int compared = 0;
  for (const BoundStatement& statement : program.statements) {
    const auto* contraction = std::get_if<Contraction>(&statement);
    if (contraction == nullptr) continue;
    for (const Piece& piece : contraction->pieces) {
      size_t n = piece.iterators.size();
      if (n > 3) continue;
      Points found = by_interpreter(program, piece);
      int64_t margin = n == 3 ? 2 : 20, lo = 0, hi = 0;
      for (const std::vector<int64_t>& x : found) {
        for (int64_t v : x) lo = std::min(lo, v), hi = std::max(hi, v);
      }
      if (n == 3 && hi - lo > 20) continue;
      if (n == 2 && hi - lo > 80) continue;
      EXPECT_EQ(found, by_definition(program, piece, lo - margin, hi + margin)) << text;
      ++compared;
    }
  }
  return compared;
}

TEST(InterpretPoints, AgreeWithTheDefinitionOnRandomPrograms) {
  int compared = 0;
  for (uint64_t seed = 5000; seed < 5250; ++seed) {
    RandomCase drawn = random_case(seed);
    compared += compare(bind_text(drawn.text, drawn.types), drawn.text);
  }
  EXPECT_GT(compared, 250);
}

TEST(InterpretPoints, NegativeAndCoupledIterators) {
  for (const char* text :
       {"function (A[N, M]) -> (O) { O[] = +(A[i + j, i - j]); }",
        "function (A[N]) -> (O) { O[i: 5] = +(A[2 * i - 3 * j]); }",
        "function (A[N, M]) -> (O) { O[(2 * i + j) / 3: 4] = +(A[i / 2 - j / 5, j]); }",
        "function (A[N, M]) -> (O) { O[] = +(A[7 * i + 5 * j, 3 * i + 2 * j]); }",
        "function (A[N, M]) -> (O) { O[] = +(A[i, 0]), i / 3 - j / 4 < 1, j / 2 + 1 / 7 < 3; }"}) {
    BoundProgram program = bind_text(
        text, {{DType::f32,
                std::string(text).find("A[N, M]") == std::string::npos ? Shape{9} : Shape{9, 7}}});
    EXPECT_EQ(compare(program, text), 1) << text;
  }
}

}  // namespace
}  // namespace tile::test
