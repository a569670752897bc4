// Every operation of the table and every conversion, on lanes and on single elements, over special
// values (rules 5.2 to 5.7, 6.2, 6.3).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/ir/operation.h"
#include "tests/cpu/nests.h"

namespace tile::cpu {
namespace {

constexpr DType kAll[] = {DType::bool_,  DType::i8,  DType::i16,  DType::i32, DType::i64,
                          DType::u8,     DType::u16, DType::u32,  DType::u64, DType::f8e4m3,
                          DType::f8e5m2, DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr DType kComputed[] = {DType::i32, DType::i64, DType::u32,
                               DType::u64, DType::f32, DType::f64};

std::vector<double> reals() {
  double inf = std::numeric_limits<double>::infinity();
  return {0.0,
          -0.0,
          1,
          -1,
          0.5,
          -0.5,
          1.5,
          2.5,
          -2.5,
          3,
          -3,
          7,
          1e-3,
          -1e-3,
          10.25,
          -10.25,
          88.5,
          -88.5,
          127.5,
          -128.5,
          255.5,
          32767.5,
          65535.5,
          1e9,
          -1e9,
          2147483648.0,
          4.3e9,
          1e-40,
          -1e-40,
          1e-46,
          1e18,
          -1e19,
          1.9e19,
          3e38,
          1e-30,
          inf,
          -inf,
          std::nan(""),
          0.7853981633974483,
          1.5707963267948966,
          65504,
          65519.9,
          65520,
          1.00390625,
          1.01171875,
          2049,
          5.9e-8,
          2.9e-8};
}
std::vector<int64_t> integers() {
  std::vector<int64_t> v = {0,  1,  -1, 2,  -2, 3,   7,    -7,
                            31, 32, 33, 63, 64, 100, -100, 9007199254740993};
  for (int bits : {7, 8, 15, 16, 31, 32, 63}) {
    // Unsigned: 2^63 wraps to the least integer.
    uint64_t power = uint64_t{1} << bits;
    for (uint64_t x : {power, power - 1, uint64_t{0} - power}) v.push_back(static_cast<int64_t>(x));
  }
  return v;
}

// All special values, then all pairs of some of them through `second`.
std::vector<Scalar> specials(DType type) {
  std::vector<Scalar> v;
  if (is_float(type)) {
    for (double x : reals()) v.push_back(real_scalar(x, type));
  } else {
    for (int64_t x : integers()) v.push_back(integer_scalar(x, type));
  }
  return v;
}

// Every element of the first argument meets every one of the others.
struct Cases {
  std::vector<HostTensor> arguments;
  int64_t count = 0;
};
Cases cases(DType type, int arity, DType result) {
  std::vector<Scalar> v = specials(type);
  Cases c;
  auto n = static_cast<int64_t>(v.size());
  c.count = arity == 1 ? n : arity == 2 ? n * n : 3 * n * n;
  for (int a = 0; a < arity; ++a) {
    HostTensor t(type, {c.count});
    for (int64_t i = 0; i < c.count; ++i) {
      int64_t which = a == 0 ? i % n : a == 1 ? i / n % n : (i * 7 + i / n) % n;
      t.set(i, v[static_cast<size_t>(which)]);
    }
    c.arguments.push_back(std::move(t));
  }
  c.arguments.emplace_back(result, Shape{c.count});
  return c;
}

// A nest that maps the arguments element by element: vectors of eight, the rest one by one.
std::string elementwise(DType type, DType result, int arity, const std::string& operation,
                        int64_t count) {
  std::string n = std::to_string(count), text = "nest elementwise\n", at;
  for (int a = 0; a < arity; ++a) {
    std::string name(1, static_cast<char>('X' + a));
    text += "argument " + name + ": " + std::string(to_string(type)) + " [" + n + "] strides [1]\n";
    at += (a == 0 ? "" : ", ") + name + "[i]";
  }
  text += "argument R: " + std::string(to_string(result)) + " [" + n + "] strides [1] written\n";
  std::string body = "assign R[i] (" + at + ") {";
  for (int a = 0; a < arity; ++a) {
    std::string k = std::to_string(a);
    body += " %" + k + ":" + std::string(to_string(type)) + " = load " + k + ";";
  }
  std::string id = std::to_string(arity);
  body += " %" + id + ":" + std::string(to_string(result)) + " = " + operation;
  for (int a = 0; a < arity; ++a) body += " %" + std::to_string(a);
  body += "; yield %" + id + " } }\n";
  std::string single = body;
  for (size_t p = single.find("[i]"); p != std::string::npos; p = single.find("[i]")) {
    single.replace(p, 3, "[s]");
  }
  int64_t whole = count / 8 * 8 - 8;
  return text + "serial b from [0] extent [" + std::to_string(whole / 8) +
         "] { vector i from [8*b] extent [8] width 8 { " + body + "}\nserial s from [" +
         std::to_string(whole) + "] extent [" + std::to_string(count - whole) + "] { " + single;
}

void check(Op op, DType type, DType result, int arity, double tolerance) {
  SCOPED_TRACE(std::string(info(op).name) + " " + std::string(to_string(type)) + " to " +
               std::string(to_string(result)));
  Cases c = cases(type, arity, result);
  nest::Nest nest = parse(elementwise(type, result, arity, std::string(info(op).name), c.count));
  Run run;
  run.targets = {"native", "sse"};
  run.tolerance = tolerance;
  expect_as_interpreted(nest, c.arguments, run);
}

bool accepts(const OpInfo& row, DType type) {
  switch (row.rule) {
    case TypeRule::integral:
      return !is_float(type);
    case TypeRule::floating:
      return is_float(type);
    case TypeRule::random:
      return type == DType::i64;
    case TypeRule::casting:
    case TypeRule::selection:
    case TypeRule::packed:
      return false;  // tests of their own
    default:
      return true;
  }
}

// Correctly rounded operations and the others' bound in units in the last place (rule 6.3 grants
// four to the commonest; the table in vector_math.h says what each has).
double tolerance_of(Op op, DType type) {
  if (info(op).rule != TypeRule::floating) return 0;
  // The reference multiplies two rounded doubles, whose error the tail of erfc amplifies.
  if (op == Op::gelu && type == DType::f64) return 200;
  return type == DType::f32 ? 4 : 8;
}

TEST(CpuOperations, EveryRowOfTheTable) {
  for (const OpInfo& row : operations()) {
    for (DType type : kComputed) {
      if (!accepts(row, type)) continue;
      bool truth = row.rule == TypeRule::comparison || row.rule == TypeRule::logical ||
                   row.rule == TypeRule::predicate;
      DType result = truth ? DType::bool_ : row.rule == TypeRule::random ? DType::f32 : type;
      check(row.op, type, result, row.arity, tolerance_of(row.op, type));
    }
  }
}

// Rule 5.6: float to integer truncates and saturates, NaN gives 0; rounding is to nearest even.
TEST(CpuOperations, EveryConversion) {
  for (DType from : kAll) {
    for (DType to : kAll) check(Op::cast, from, to, 1, 0);
  }
}

// Operands compared and tested as they are stored.
TEST(CpuOperations, NarrowTypesCompare) {
  for (DType type : {DType::bool_, DType::u8, DType::i16, DType::f16, DType::bf16}) {
    for (Op op : {Op::lt, Op::eq, Op::ge, Op::logical_and, Op::logical_not, Op::isnan}) {
      check(op, type, DType::bool_, info(op).arity, 0);
    }
  }
}

TEST(CpuOperations, Select) {
  for (DType type : {DType::i32, DType::f32, DType::f64}) check(Op::select, type, type, 3, 0);
}

TEST(CpuOperations, Literals) {
  expect_as_interpreted(R"(
nest literals
argument B: bf16 [4] strides [1] written
argument H: f16 [4] strides [1] written
argument T: bool [4] strides [1] written
argument U: u64 [4] strides [1] written
argument S: f32 [4] strides [1] written
argument I: i8 [4] strides [1] written
vector i from [0] extent [4] width 4 {
  assign B[i] () { %0:bf16 = real 1.00390625; yield %0 }
  assign H[i] () { %0:f16 = real 65519.9; yield %0 }
  assign T[i] () { %0:bool = int 1; yield %0 }
  assign U[i] () { %0:u64 = int -1; yield %0 }
  assign S[i] () { %0:f32 = size [3*i - 1]; yield %0 }
  assign I[i] () { %0:i8 = int -3; yield %0 }
}
)");
}

}  // namespace
}  // namespace tile::cpu
