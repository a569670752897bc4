#include "tests/random/random_iteration.h"

namespace tile::test {
namespace {

std::string array_type(size_t rank) {
  static const char* kNames[] = {"N", "M", "K"};
  std::string type = "Float";
  for (size_t d = rank; d-- > 0;) type = "ArrayType(" + type + ", " + kNames[d] + ")";
  return type;
}

std::string program(size_t rank, const std::string& body) {
  std::string type = array_type(rank);
  return "val f = fun(" + type + ", " + type + ", (u, c) => " + body + ")";
}

// `f` of the elements of a nested array.
std::string mapped(size_t rank, std::string f) {
  for (size_t d = 0; d < rank; ++d) f = "Map(" + f + ")";
  return f;
}

// One element of a window of `size` elements in each dimension.
std::string tap(RandomSource& random, size_t rank, int64_t size) {
  std::string at;
  for (size_t d = 0; d < rank; ++d) {
    at += (d == 0 ? "" : " o ") + ("At(" + std::to_string(random.in(0, size - 1)) + ")");
  }
  return "(" + at + " $ w)";
}

std::string stencil(RandomSource& random, size_t rank) {
  static const char* kRules[] = {"Clamp", "Mirror", "Wrap", "Constant(0.5f)", "Constant(0.0f)"};
  static const char* kFactors[] = {"0.25f", "0.375f", "-0.5f", "0.125f"};
  int64_t size = random.in(2, rank == 3 ? 3 : 5), left = random.in(0, size - 1);
  std::string value = tap(random, rank, size) + " * 0.25f";
  for (int64_t more = random.in(1, 3); more > 0; --more) {
    value += " + " + tap(random, rank, size) + " * " + kFactors[random.in(0, 3)];
  }
  if (random.in(0, 3) == 0) value += " * " + tap(random, rank, size);
  std::string count = std::to_string(rank), width = std::to_string(size);
  return mapped(rank, "w => " + value) + " o SlideND(" + count + ", " + width + ", 1) o PadND(" +
         count + ", " + std::to_string(left) + ", " + std::to_string(size - 1 - left) + ", " +
         kRules[random.in(0, 4)] + ")";
}

// Pairs of the cells of two arrays.
std::string zipped(size_t rank, const std::string& f, const std::string& a, const std::string& b) {
  std::string both = "Zip(" + a + ", " + b + ")";
  if (rank == 1) return "Map((p, q) => " + f + ") $ " + both;
  std::string level = std::to_string(rank);
  return "Map((a" + level + ", b" + level + ") => " +
         zipped(rank - 1, f, "a" + level, "b" + level) + ") $ " + both;
}

}  // namespace

std::string RandomIteration::text(int64_t count) const {
  return program(shape.size(), "Iterate(" + std::to_string(count) + ", " + step + ") $ u");
}

std::string RandomIteration::composed(int64_t count) const {
  std::string all = "Id()";
  for (int64_t i = 0; i < count; ++i) all = "(" + step + ") o " + all;
  return program(shape.size(), all + " $ u");
}

RandomIteration random_iteration(RandomSource& random) {
  static const char* kWith[] = {"p * q + 0.125f", "p + q * 0.5f", "p > q ? p * 0.5f : q"};
  static const char* kAlone[] = {"v => v * 0.5f + 1.0f",
                                 "v => v > 0.25f ? v * v * 0.5f : v + 0.5f"};
  RandomIteration result;
  auto rank = static_cast<size_t>(random.in(1, 3));
  for (size_t d = 0; d < rank; ++d) result.shape.push_back(random.in(1, rank == 1 ? 19 : 6));
  result.single_elements = random.in(0, 4) == 0;
  result.step =
      result.single_elements ? mapped(rank, kAlone[random.in(0, 1)]) : stencil(random, rank);
  if (random.in(0, 2) == 0) {
    result.step =
        "(x => " + zipped(rank, kWith[random.in(0, 2)], "(" + result.step + " $ x)", "c") + ")";
  }
  return result;
}

}  // namespace tile::test
