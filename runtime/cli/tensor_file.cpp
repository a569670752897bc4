#include "runtime/cli/tensor_file.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/ir/text.h"
#include "core/support/checked.h"
#include "runtime/cli/files.h"
#include "runtime/cli/npy/npy.h"
#include "runtime/engine/launch/memory_plan.h"
#include "runtime/engine/parameters.h"

namespace tile::cli {
namespace {

using Json = nlohmann::json;

[[noreturn]] void bad(const std::string& message, const std::string& hint = "") {
  fail(Stage::run, "argument", {}, message, hint);
}

bool ends_with(const std::string& text, std::string_view suffix) {
  return std::string_view(text).ends_with(suffix);
}

// Number `i` of SplitMix64: the same on every machine.
uint64_t random_bits(uint64_t i) {
  uint64_t z = 1 + (i + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

// Element `i` of a generated tensor.
Scalar generated(bool iota, int64_t i, DType type) {
  if (iota) return integer_scalar(i, type);
  uint64_t bits = random_bits(static_cast<uint64_t>(i));
  if (is_float(type)) {
    return real_scalar(2 * static_cast<double>(bits >> 11) * 0x1p-53 - 1, type);
  }
  int64_t least = is_signed_integer(type) ? -8 : 0;
  return integer_scalar(least + static_cast<int64_t>(bits % 16), type);
}

// "random:64x64" -> its shape; empty for what is not generated.
std::optional<std::string> shape_in(const std::string& specification) {
  for (const char* prefix : {"random:", "iota:"}) {
    if (specification.starts_with(prefix)) return specification.substr(std::strlen(prefix));
  }
  return std::nullopt;
}

constexpr std::string_view kDrawn = "picture:";

// "picture:48x64": red rises to the right, green downwards, blue is a board of squares, so that
// what a filter does to edges, to slopes and to colours is seen.
HostTensor drawn_picture(const std::string& specification) {
  std::string size = specification.substr(kDrawn.size());
  Shape shape = parse_shape(size).shape;
  if (shape.size() != 2 || element_count(shape) == 0 || size.find(':') != std::string::npos) {
    bad("\"" + specification + "\" is no picture", "picture:HEIGHTxWIDTH, such as picture:48x64");
  }
  constexpr int64_t kSquare = 8, kChannels = 3, kBright = 255;
  Shape of_channels = {shape[0], shape[1], kChannels};
  require_memory(specification, DType::u8, whole_box(of_channels));
  HostTensor picture(DType::u8, of_channels);
  auto slope = [&](int64_t at, int64_t extent) {
    return at * kBright / std::max<int64_t>(extent - 1, 1);
  };
  for (int64_t pixel = 0; pixel < shape[0] * shape[1]; ++pixel) {
    int64_t y = pixel / shape[1], x = pixel % shape[1];
    int64_t board = (y / kSquare + x / kSquare) % 2 * kBright;
    int64_t at = kChannels * pixel;
    picture.set(at, integer_scalar(slope(x, shape[1]), DType::u8));
    picture.set(at + 1, integer_scalar(slope(y, shape[0]), DType::u8));
    picture.set(at + 2, integer_scalar(board, DType::u8));
  }
  return picture;
}

constexpr size_t kMostNested = 64;  // arrays; tensors have no more dimensions

// The nested arrays' elements in order; false where the arrays of one level are of several lengths.
bool flatten(const Json& value, size_t depth, Shape& shape, std::vector<double>& elements) {
  if (value.is_number()) {
    elements.push_back(value.get<double>());
    return depth == shape.size();
  }
  if (!value.is_array() || value.empty() || depth == kMostNested) return false;
  auto count = static_cast<int64_t>(value.size());
  if (depth == shape.size() && elements.empty()) shape.push_back(count);
  return depth < shape.size() && shape[depth] == count &&
         std::all_of(
             value.begin(), value.end(),
             [&](const Json& part) { return flatten(part, depth + 1, shape, elements); });
}

// "0.5", "[1, 2]", "[[1, 2], [3, 4]]:i32": numbers as JSON writes them, f32 unless a type follows.
std::optional<HostTensor> written_out(const std::string& specification) {
  std::string text = specification;
  DType type = DType::f32;
  if (size_t colon = text.rfind(':'); colon != std::string::npos) {
    std::optional<DType> named = parse_dtype(text.substr(colon + 1));
    if (!named) return std::nullopt;
    type = *named;
    text.resize(colon);
  }
  Json value = Json::parse(text, nullptr, false);
  Shape shape;
  std::vector<double> elements;
  if (value.is_discarded() || !flatten(value, 0, shape, elements)) return std::nullopt;
  HostTensor t(type, shape);
  for (int64_t i = 0; i < t.count(); ++i) {
    std::optional<Scalar> element = given_element(elements[static_cast<size_t>(i)], type);
    if (!element) {
      bad("\"" + specification + "\" holds a number that is none of " +
          std::string(to_string(type)));
    }
    t.set(i, *element);
  }
  return t;
}

HostTensor generated_box(const std::string& specification, const Shape& shape, const Box& box,
                         DType type) {
  require_memory(specification, type, box);
  bool iota = specification.starts_with("iota:");
  HostTensor t(type, box.shape());
  std::vector<int64_t> at = box.lo;
  for (int64_t i = 0; i < t.count(); ++i) {
    int64_t cell = 0;
    for (size_t d = 0; d < shape.size(); ++d) cell = cell * shape[d] + at[d];
    t.set(i, generated(iota, cell, type));
    for (size_t d = shape.size(); d > 0 && ++at[d - 1] == box.hi[d - 1]; --d) {
      at[d - 1] = box.lo[d - 1];
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

void require_memory(const std::string& specification, DType type, const Box& box) {
  uint64_t bytes = static_cast<uint64_t>(element_count(box.shape())) * byte_size(type);
  if (bytes <= machine_memory()) return;
  bad("\"" + specification + "\" takes " + std::to_string(bytes) + " bytes; this machine has " +
      std::to_string(machine_memory()));
}

bool is_picture(const std::string& specification) {
  return ends_with(specification, ".png") || ends_with(specification, ".jpg") ||
         ends_with(specification, ".jpeg");
}

bool gives_picture(const std::string& specification) {
  return specification.starts_with(kDrawn) || is_picture(specification);
}

HostTensor read_tensor(const std::string& specification) {
  if (std::optional<std::string> shape = shape_in(specification)) {
    InputType type = parse_shape(*shape);
    return generated_box(specification, type.shape, whole_box(type.shape), type.type);
  }
  if (ends_with(specification, ".npy")) return read_npy(specification);
  if (specification.starts_with(kDrawn)) return drawn_picture(specification);
  if (is_picture(specification)) return read_picture(specification);
  if (std::optional<HostTensor> numbers = written_out(specification)) return std::move(*numbers);
  bad("cannot tell what \"" + specification + "\" is",
      "expected a .npy, .png or .jpg file, random:SHAPE, iota:SHAPE, picture:48x64, "
      "or numbers: 0.5, [1, 2]:i32");
}

std::optional<InputType> type_of_boxes(const std::string& specification) {
  if (std::optional<std::string> shape = shape_in(specification)) return parse_shape(*shape);
  if (!ends_with(specification, ".npy")) return std::nullopt;
  NpyLayout layout = read_npy_layout(specification);
  return InputType{layout.type, layout.shape};
}

HostTensor read_box(const std::string& specification, const Box& box) {
  if (std::optional<std::string> shape = shape_in(specification)) {
    InputType type = parse_shape(*shape);
    return generated_box(specification, type.shape, box, type.type);
  }
  require_memory(specification, read_npy_layout(specification).type, box);
  return read_npy_box(specification, box);
}

void require_writable(const std::string& specification) {
  bool known = specification == "-" || is_picture(specification);
  if (known || ends_with(specification, ".npy")) return;
  bad("cannot write \"" + specification + "\"", "expected -, a .npy, .png or .jpg file");
}

void write_tensor(const std::string& specification, const HostTensor& tensor) {
  require_writable(specification);
  if (specification == "-") {
    std::cout << to_text(tensor) << "\n";
  } else if (is_picture(specification)) {
    write_picture(specification, tensor);
  } else {
    write_npy(specification, tensor);
  }
}

std::string to_text(const HostTensor& tensor) {
  std::string out;
  append_level(tensor, 0, 0, out);
  return out;
}

}  // namespace tile::cli
