#include "core/ir/scalar.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace tile {
namespace {

// long double holds every int64, uint64 and double exactly on the hosts that Tile supports, so that
// narrow floats are rounded once.
using Exact = long double;

// A binary float of `precision` significant bits whose smallest subnormal is 2^lowest and whose
// largest finite value is `largest`; what is beyond becomes `beyond`.
struct Format {
  int precision;
  int lowest;
  double largest;
  double beyond = std::numeric_limits<double>::infinity();
};
constexpr Format kHalf{11, -24, 65504.0};
constexpr Format kBrain{8, -133, 0x1.fep127};
// "FP8 Formats for Deep Learning" (Micikevicius et al., 2022, table 1): E4M3 has no infinity.
constexpr Format kF8E4M3{4, -9, 448.0, std::numeric_limits<double>::quiet_NaN()};
constexpr Format kF8E5M2{3, -16, 57344.0};

double round_to(Exact value, const Format& format) {
  if (std::isinf(value)) return std::copysign(format.beyond, static_cast<double>(value));
  if (value == 0 || std::isnan(value)) return static_cast<double>(value);
  int exponent = 0;
  std::frexp(value, &exponent);
  int unit = std::max(exponent - format.precision, format.lowest);
  double rounded = static_cast<double>(std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit));
  if (std::fabs(rounded) > format.largest) {
    return std::copysign(format.beyond, rounded);
  }
  return rounded;
}

double round_float(Exact value, DType type) {
  switch (type) {
    case DType::f8e4m3:
      return round_to(value, kF8E4M3);
    case DType::f8e5m2:
      return round_to(value, kF8E5M2);
    case DType::f16:
      return round_to(value, kHalf);
    case DType::bf16:
      return round_to(value, kBrain);
    case DType::f32:
      return static_cast<double>(static_cast<float>(value));
    default:
      return static_cast<double>(value);
  }
}

int64_t wrap(int64_t value, DType type) {
  switch (type) {
    case DType::i8:
      return static_cast<int8_t>(value);
    case DType::i16:
      return static_cast<int16_t>(value);
    case DType::i32:
      return static_cast<int32_t>(value);
    case DType::u8:
      return static_cast<uint8_t>(value);
    case DType::u16:
      return static_cast<uint16_t>(value);
    case DType::u32:
      return static_cast<uint32_t>(value);
    default:
      return value;
  }
}

int64_t saturate(double value, DType type) {
  if (std::isnan(value)) return 0;
  double t = std::trunc(value);
  int bits = bit_width(type);
  if (is_unsigned_integer(type)) {
    if (t <= 0) return 0;
    double limit = std::ldexp(1.0, bits);
    uint64_t top = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    return static_cast<int64_t>(t >= limit ? top : static_cast<uint64_t>(t));
  }
  double limit = std::ldexp(1.0, bits - 1);
  int64_t top = bits == 64 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << (bits - 1)) - 1;
  if (t >= limit) return top;
  if (t < -limit) return -top - 1;
  return static_cast<int64_t>(t);
}

uint16_t encode_half(double value) {
  auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  double size = std::fabs(value);
  if (std::isnan(value)) return 0x7e00;
  if (std::isinf(value)) return sign | 0x7c00;
  if (size < 0x1p-14) return static_cast<uint16_t>(sign | static_cast<int>(size * 0x1p24));
  int exponent = std::ilogb(size);
  int mantissa = static_cast<int>(std::ldexp(size, 10 - exponent)) - 1024;
  return static_cast<uint16_t>(sign | ((exponent + 15) << 10) | mantissa);
}

double decode_half(uint16_t bits) {
  int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  double size = exponent == 0    ? mantissa * 0x1p-24
                : exponent == 31 ? (mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                                                  : std::numeric_limits<double>::infinity())
                                 : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

// f8e5m2 is the first byte of the half with the same value.
uint8_t encode_e5m2(double value) { return static_cast<uint8_t>(encode_half(value) >> 8); }
double decode_e5m2(uint8_t bits) { return decode_half(static_cast<uint16_t>(bits << 8)); }

uint8_t encode_e4m3(double value) {
  auto sign = static_cast<uint8_t>(std::signbit(value) ? 0x80 : 0);
  double size = std::fabs(value);
  if (std::isnan(value)) return 0x7f;
  if (size < 0x1p-6) return static_cast<uint8_t>(sign | static_cast<int>(size * 0x1p9));
  int exponent = std::ilogb(size);
  int mantissa = static_cast<int>(std::ldexp(size, 3 - exponent)) - 8;
  return static_cast<uint8_t>(sign | ((exponent + 7) << 3) | mantissa);
}
double decode_e4m3(uint8_t bits) {
  int exponent = (bits >> 3) & 15, mantissa = bits & 7;
  double size = (bits & 0x7f) == 0x7f ? std::numeric_limits<double>::quiet_NaN()
                : exponent == 0       ? mantissa * 0x1p-9
                                      : std::ldexp(8 + mantissa, exponent - 10);
  return (bits & 0x80) != 0 ? -size : size;
}

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class T>
void write(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

}  // namespace

Scalar integer_scalar(int64_t value, DType type) { return convert({DType::i64, value, 0}, type); }
Scalar real_scalar(double value, DType type) {
  if (type == DType::f32) return {type, 0, static_cast<double>(static_cast<float>(value))};
  return convert({DType::f64, 0, value}, type);
}

Scalar convert(const Scalar& value, DType type) {
  if (value.type == type) return value;
  Scalar r;
  r.type = type;
  if (type == DType::bool_) {
    r.i = is_true(value) ? 1 : 0;
  } else if (is_float(type)) {
    Exact exact = is_float(value.type)       ? static_cast<Exact>(value.f)
                  : value.type == DType::u64 ? static_cast<Exact>(static_cast<uint64_t>(value.i))
                                             : static_cast<Exact>(value.i);
    r.f = round_float(exact, type);
  } else {
    r.i = is_float(value.type) ? saturate(value.f, type) : wrap(value.i, type);
  }
  return r;
}

bool is_true(const Scalar& value) { return is_float(value.type) ? value.f != 0 : value.i != 0; }

bool same_value(const Scalar& a, const Scalar& b) {
  if (a.type != b.type) return false;
  if (!is_float(a.type)) return a.i == b.i;
  if (std::isnan(a.f) || std::isnan(b.f)) return std::isnan(a.f) && std::isnan(b.f);
  return a.f == b.f && std::signbit(a.f) == std::signbit(b.f);
}

Scalar load_element(const std::byte* at, DType type) {
  Scalar r;
  r.type = type;
  switch (type) {
    case DType::none:
      break;
    case DType::bool_:
      r.i = read<uint8_t>(at) != 0 ? 1 : 0;
      break;
    case DType::i8:
      r.i = read<int8_t>(at);
      break;
    case DType::i16:
      r.i = read<int16_t>(at);
      break;
    case DType::i32:
      r.i = read<int32_t>(at);
      break;
    case DType::i64:
    case DType::u64:
      r.i = read<int64_t>(at);
      break;
    case DType::u8:
      r.i = read<uint8_t>(at);
      break;
    case DType::u16:
      r.i = read<uint16_t>(at);
      break;
    case DType::u32:
      r.i = read<uint32_t>(at);
      break;
    case DType::f8e4m3:
      r.f = decode_e4m3(read<uint8_t>(at));
      break;
    case DType::f8e5m2:
      r.f = decode_e5m2(read<uint8_t>(at));
      break;
    case DType::f16:
      r.f = decode_half(read<uint16_t>(at));
      break;
    case DType::bf16: {
      uint32_t bits = static_cast<uint32_t>(read<uint16_t>(at)) << 16;
      float f = 0;
      std::memcpy(&f, &bits, sizeof f);
      r.f = static_cast<double>(f);
      break;
    }
    case DType::f32:
      r.f = static_cast<double>(read<float>(at));
      break;
    case DType::f64:
      r.f = read<double>(at);
      break;
  }
  return r;
}

void store_element(std::byte* at, const Scalar& value) {
  switch (value.type) {
    case DType::none:
      break;
    case DType::bool_:
    case DType::i8:
    case DType::u8:
      write(at, static_cast<uint8_t>(value.i));
      break;
    case DType::i16:
    case DType::u16:
      write(at, static_cast<uint16_t>(value.i));
      break;
    case DType::i32:
    case DType::u32:
      write(at, static_cast<uint32_t>(value.i));
      break;
    case DType::i64:
    case DType::u64:
      write(at, value.i);
      break;
    case DType::f8e4m3:
      write(at, encode_e4m3(value.f));
      break;
    case DType::f8e5m2:
      write(at, encode_e5m2(value.f));
      break;
    case DType::f16:
      write(at, encode_half(value.f));
      break;
    case DType::bf16: {
      auto f = static_cast<float>(value.f);
      uint32_t bits = 0;
      std::memcpy(&bits, &f, sizeof bits);
      if (std::isnan(f)) bits = 0x7fc00000;
      write(at, static_cast<uint16_t>(bits >> 16));
      break;
    }
    case DType::f32:
      write(at, static_cast<float>(value.f));
      break;
    case DType::f64:
      write(at, value.f);
      break;
  }
}

HostTensor::HostTensor(DType element_type, Shape tensor_shape)
    : type(element_type), shape(std::move(tensor_shape)) {
  int64_t size = checked_mul(element_count(shape), static_cast<int64_t>(byte_size(type)));
  bytes.resize(static_cast<size_t>(size));
}

}  // namespace tile
