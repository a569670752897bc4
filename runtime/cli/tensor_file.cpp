#include "runtime/cli/tensor_file.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iostream>

#include "core/ir/text.h"
#include "core/support/checked.h"

namespace tile::cli {
namespace {

[[noreturn]] void bad(const std::string& message, const std::string& hint = "") {
  fail(Stage::run, "argument", {}, message, hint);
}

bool ends_with(const std::string& text, std::string_view suffix) {
  return std::string_view(text).ends_with(suffix);
}

// SplitMix64: the same numbers on every machine.
class Random {
 public:
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_ = 1;
};

HostTensor generated(const std::string& kind, const std::string& shape) {
  InputType type = parse_shape(shape);
  auto bytes = static_cast<uint64_t>(element_count(type.shape)) * byte_size(type.type);
  auto memory =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (bytes > memory) {
    bad("a tensor \"" + shape + "\" takes " + std::to_string(bytes) + " bytes; this machine has " +
        std::to_string(memory));
  }
  HostTensor t(type.type, type.shape);
  Random random;
  for (int64_t i = 0; i < t.count(); ++i) {
    if (kind == "iota") {
      t.set(i, integer_scalar(i, t.type));
    } else if (is_float(t.type)) {
      t.set(i, real_scalar(2 * random.uniform() - 1, t.type));
    } else {
      int64_t least = is_signed_integer(t.type) ? -8 : 0;
      t.set(i, integer_scalar(least + static_cast<int64_t>(random.next() % 16), t.type));
    }
  }
  return t;
}

std::string scalar_text(const Scalar& value) {
  if (value.type == DType::bool_) return value.i != 0 ? "true" : "false";
  if (value.type == DType::u64) return std::to_string(static_cast<uint64_t>(value.i));
  if (!is_float(value.type)) return std::to_string(value.i);
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, value.type == DType::f64 ? "%.17g" : "%.9g", value.f);
  return buffer;
}

constexpr int64_t kShown = 1000;  // elements printed in full
constexpr int64_t kEdge = 3;      // entries at each end of a long dimension otherwise

void append_level(const HostTensor& t, size_t d, int64_t base, std::string& out) {
  if (d == t.shape.size()) {
    out += scalar_text(t.at(base));
    return;
  }
  int64_t stride = 1;
  for (size_t i = d + 1; i < t.shape.size(); ++i) stride *= t.shape[i];
  bool abridged = t.count() > kShown && t.shape[d] > 2 * kEdge;
  out += "[";
  for (int64_t i = 0; i < t.shape[d]; ++i) {
    if (i != 0) out += d + 1 == t.shape.size() ? ", " : ",\n" + std::string(d + 1, ' ');
    if (abridged && i == kEdge) {
      out += "...";
      i = t.shape[d] - kEdge - 1;
      continue;
    }
    append_level(t, d + 1, base + i * stride, out);
  }
  out += "]";
}

}  // namespace

InputType parse_shape(const std::string& text) {
  InputType result;
  std::string dims = text;
  if (size_t colon = text.find(':'); colon != std::string::npos) {
    dims = text.substr(0, colon);
    std::optional<DType> type = parse_dtype(text.substr(colon + 1));
    if (!type) bad("unknown element type in \"" + text + "\"", "for example 2x3:f32");
    result.type = *type;
  }
  if (dims.empty() || dims == "scalar") return result;
  // Behind the last x there is an extent, too.
  for (size_t at = 0, end = 0; end != std::string::npos; at = end + 1) {
    end = dims.find('x', at);
    std::string part = dims.substr(at, end - at);
    int64_t extent = -1;
    auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), extent);
    if (error != std::errc() || stop != part.data() + part.size() || extent < 0) {
      bad("\"" + text + "\" is not a shape", "for example 64x64 or 2x3:i32");
    }
    result.shape.push_back(extent);
  }
  try {
    checked_mul(element_count(result.shape), static_cast<int64_t>(byte_size(result.type)));
  } catch (const Overflow&) {
    bad("a tensor \"" + text + "\" has more bytes than 64 bits count");
  }
  return result;
}

bool is_picture(const std::string& specification) {
  return ends_with(specification, ".png") || ends_with(specification, ".jpg") ||
         ends_with(specification, ".jpeg");
}

HostTensor read_tensor(const std::string& specification) {
  for (const char* kind : {"random", "iota"}) {
    std::string prefix = std::string(kind) + ":";
    if (specification.starts_with(prefix)) {
      return generated(kind, specification.substr(prefix.size()));
    }
  }
  if (ends_with(specification, ".npy")) return read_npy(specification);
  if (is_picture(specification)) return read_picture(specification);
  bad("cannot tell what \"" + specification + "\" is",
      "expected a .npy, .png or .jpg file, random:SHAPE or iota:SHAPE");
}

void write_tensor(const std::string& specification, const HostTensor& tensor) {
  if (specification == "-") {
    std::cout << to_text(tensor) << "\n";
  } else if (is_picture(specification)) {
    write_picture(specification, tensor);
  } else if (ends_with(specification, ".npy")) {
    write_npy(specification, tensor);
  } else {
    bad("cannot write \"" + specification + "\"", "expected -, a .npy, .png or .jpg file");
  }
}

std::string to_text(const HostTensor& tensor) {
  std::string out;
  append_level(tensor, 0, 0, out);
  return out;
}

}  // namespace tile::cli
