#include "core/ir/ranks/combine_row.h"

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/support/extrema.h"

namespace tile {
namespace {

// How elements of a type stand in memory: those that are computed with do so as they are.
template <class T>
struct AsItIs {
  using Stored = T;
  static T load(Stored bits) { return bits; }
  static Stored store(T value) { return value; }
};
// The upper half of an f32, rounded to nearest, ties to even.
struct Bf16 {
  using Stored = uint16_t;
  static float load(Stored bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  static Stored store(float value) {
    auto bits = std::bit_cast<uint32_t>(value);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return static_cast<Stored>(value != value ? 0x7fc0 : rounded);
  }
};
struct F16 {
  using Stored = uint16_t;
  // Its exponent's bias is 15, that of f32 127: scaled by the difference, which subnormal values
  // bear too.
  static float load(Stored bits) {
    uint32_t sign = (bits & 0x8000U) << 16, rest = bits & 0x7fffU;
    float magnitude = std::bit_cast<float>(rest << 13) * 0x1p112F;
    uint32_t beyond = rest >= 0x7c00 ? 0x7f800000U | (rest & 0x3ff) << 13 : 0;
    return std::bit_cast<float>(sign | (beyond != 0 ? beyond : std::bit_cast<uint32_t>(magnitude)));
  }
  static Stored store(float value) {
    auto bits = std::bit_cast<uint32_t>(value);
    uint32_t rest = bits & 0x7fffffffU, sign = bits >> 16 & 0x8000U;
    uint32_t normal = (rest - 0x38000000U + 0xfff + (rest >> 13 & 1)) >> 13;
    // Beside 0.5, whose last place is the least f16, the addition rounds.
    uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(rest) + 0.5F) - 0x3f000000U;
    uint32_t half = rest < 0x38800000U ? small : normal;
    half = rest >= 0x477ff000U ? 0x7c00 : half;  // from 65520 on infinity
    return static_cast<Stored>(value != value ? 0x7e00 : sign | half);
  }
};

// Integers wrap, which those without a sign do by themselves.
template <std::integral T>
T sum(T a, T b) {
  using U = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
}
template <std::integral T>
T product(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
template <std::floating_point T>
T sum(T a, T b) {
  return a + b;
}
template <std::floating_point T>
T product(T a, T b) {
  return a * b;
}

template <class Format, class Combine>
void combine(const std::byte* part, size_t cells, std::byte* row, Combine combined) {
  using Stored = typename Format::Stored;
  for (size_t i = 0; i < cells; ++i) {
    Stored a, b;
    std::memcpy(&a, row + i * sizeof a, sizeof a);
    std::memcpy(&b, part + i * sizeof b, sizeof b);
    a = Format::store(combined(Format::load(a), Format::load(b)));
    std::memcpy(row + i * sizeof a, &a, sizeof a);
  }
}

template <class Format>
bool combine(Op op, const std::byte* part, size_t cells, std::byte* row) {
  using T = decltype(Format::load({}));
  switch (op) {
    case Op::add:
      combine<Format>(part, cells, row, [](T a, T b) { return sum(a, b); });
      return true;
    case Op::mul:
      combine<Format>(part, cells, row, [](T a, T b) { return product(a, b); });
      return true;
    case Op::max:
      combine<Format>(part, cells, row, [](T a, T b) { return maximum(a, b); });
      return true;
    case Op::min:
      combine<Format>(part, cells, row, [](T a, T b) { return minimum(a, b); });
      return true;
    default:
      return false;
  }
}

}  // namespace

bool combine_row(Op op, DType type, const std::byte* part, size_t cells, std::byte* row) {
  switch (type) {
    case DType::i8:
      return combine<AsItIs<int8_t>>(op, part, cells, row);
    case DType::i16:
      return combine<AsItIs<int16_t>>(op, part, cells, row);
    case DType::i32:
      return combine<AsItIs<int32_t>>(op, part, cells, row);
    case DType::i64:
      return combine<AsItIs<int64_t>>(op, part, cells, row);
    case DType::u8:
      return combine<AsItIs<uint8_t>>(op, part, cells, row);
    case DType::u16:
      return combine<AsItIs<uint16_t>>(op, part, cells, row);
    case DType::u32:
      return combine<AsItIs<uint32_t>>(op, part, cells, row);
    case DType::u64:
      return combine<AsItIs<uint64_t>>(op, part, cells, row);
    case DType::bf16:
      return combine<Bf16>(op, part, cells, row);
    case DType::f16:
      return combine<F16>(op, part, cells, row);
    case DType::f32:
      return combine<AsItIs<float>>(op, part, cells, row);
    case DType::f64:
      return combine<AsItIs<double>>(op, part, cells, row);
    default:
      return false;
  }
}

}  // namespace tile
