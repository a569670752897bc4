#include "runtime/cli/tensor_file.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/ir/text.h"
#include "core/language/type_names.h"
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
uint64_t random_bits(uint64_t seed, uint64_t i) {
  uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

// Inputs of different names are drawn apart.
uint64_t seed_of(std::string_view input) {
  uint64_t seed = 1;
  for (char c : input) seed = random_bits(seed, static_cast<unsigned char>(c));
  return seed;
}

constexpr std::string_view kRandom = "random:", kIota = "iota:", kOnes = "ones:", kZeros = "zeros:";

// Element `i` of a random tensor.
Scalar drawn(uint64_t seed, int64_t i, DType type) {
  uint64_t bits = random_bits(seed, static_cast<uint64_t>(i));
  if (is_float(type)) {
    return real_scalar(2 * static_cast<double>(bits >> 11) * 0x1p-53 - 1, type);
  }
  int64_t least = is_signed_integer(type) ? -8 : 0;
  return integer_scalar(least + static_cast<int64_t>(bits % 16), type);
}

// "random:64x64" -> its shape; empty for what is not generated.
std::optional<std::string> shape_in(const std::string& specification) {
  for (std::string_view prefix : {kRandom, kIota, kOnes, kZeros}) {
    if (specification.starts_with(prefix)) return specification.substr(prefix.size());
  }
  return std::nullopt;
}

// Extensions of pictures are upper-case letters on some cameras and systems.
bool has_extension(const std::string& path, std::string_view extension) {
  if (path.size() < extension.size()) return false;
  return std::equal(extension.begin(), extension.end(), path.end() - extension.size(),
                    [](char small, char given) {
                      return small == std::tolower(static_cast<unsigned char>(given));
                    });
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

[[noreturn]] void unknown_type(const std::string& text, const std::string& name) {
  std::string hint = dtype_hint(name);
  bad("unknown element type in \"" + text + "\"",
      hint.empty() ? "types are bool, i8 to i64, u8 to u64, f8e4m3, f8e5m2, f16, bf16, f32 and f64"
                   : hint);
}

constexpr size_t kMostNested = 64;  // arrays; tensors have no more dimensions

std::string entries(size_t count) {
  return std::to_string(count) + (count == 1 ? " entry" : " entries");
}

// The elements of nested arrays in order, and their shape.
class Flattened {
 public:
  // Throws Failure (code "argument") where they are not those of a tensor.
  explicit Flattened(const Json& value, std::string text) : text_(std::move(text)) {
    take(value, "");
  }
  const Shape& shape() const { return shape_; }
  const std::vector<double>& elements() const { return elements_; }

 private:
  // `place` as an index: "1, 0"; that of the first array of a level is all zeros.
  void take(const Json& value, const std::string& place) {
    auto at = static_cast<size_t>(place.empty() ? 0 : 1 + std::ranges::count(place, ','));
    if (value.is_number()) {
      if (at < shape_.size()) refuse_beside_first(place + "] is a number", at);
      return elements_.push_back(value.get<double>());
    }
    if (!value.is_array()) refuse("[" + place + "] is no number");
    if (value.empty()) refuse(place.empty() ? "it is empty" : "[" + place + "] is empty");
    if (at == kMostNested) refuse("it is nested more than " + std::to_string(at) + " deep");
    bool first = at == shape_.size() && elements_.empty();
    if (first) shape_.push_back(static_cast<int64_t>(value.size()));
    bool alike = at < shape_.size() && static_cast<size_t>(shape_[at]) == value.size();
    if (!alike) refuse_beside_first(place + "] has " + entries(value.size()), at);
    for (size_t i = 0; i < value.size(); ++i) {
      take(value[i], place + (place.empty() ? "" : ", ") + std::to_string(i));
    }
  }
  // What stands at a place is not like the first of its level.
  [[noreturn]] void refuse_beside_first(const std::string& what, size_t level) const {
    std::string zeros = "0";
    for (size_t d = 1; d < level; ++d) zeros += ", 0";
    bool number = level == shape_.size();
    refuse("[" + what + ", but [" + zeros + "] " +
               (number ? "is a number" : "has " + entries(static_cast<size_t>(shape_[level]))),
           "all rows have as many entries as the first one; places are counted from 0");
  }
  [[noreturn]] void refuse(const std::string& why, const std::string& hint = "") const {
    bad("\"" + text_ + "\" is no tensor: " + why, hint);
  }

  std::string text_;
  Shape shape_;
  std::vector<double> elements_;
};

// "0.5", "[1, 2]", "[[1, 2], [3, 4]]:i32": numbers as JSON writes them, f32 unless a type follows.
std::optional<HostTensor> written_out(const std::string& specification) {
  std::string text = specification;
  DType type = DType::f32;
  if (size_t colon = text.rfind(':'); colon != std::string::npos) {
    std::string name = text.substr(colon + 1);
    text.resize(colon);
    std::optional<DType> named = parse_dtype(name);
    bool of_numbers = !Json::parse(text, nullptr, false).is_discarded();
    if (!named && of_numbers) unknown_type(specification, name);
    if (!named) return std::nullopt;
    type = *named;
  }
  Json value = Json::parse(text, nullptr, false);
  if (!value.is_number() && !value.is_array()) return std::nullopt;
  Flattened given(value, specification);
  HostTensor t(type, given.shape());
  for (int64_t i = 0; i < t.count(); ++i) {
    std::optional<Scalar> element = given_element(given.elements()[static_cast<size_t>(i)], type);
    if (!element) {
      bad("\"" + specification + "\" holds a number that is none of " +
          std::string(to_string(type)));
    }
    t.set(i, *element);
  }
  return t;
}

HostTensor generated_box(const std::string& specification, const InputType& whole, const Box& box,
                         std::string_view input) {
  const Shape& shape = whole.shape;
  DType type = whole.type;
  require_memory(specification, type, box);
  bool random = specification.starts_with(kRandom), iota = specification.starts_with(kIota);
  const int64_t every = specification.starts_with(kZeros) ? 0 : 1;
  uint64_t seed = seed_of(input);
  HostTensor t(type, box.shape());
  std::vector<int64_t> at = box.lo;
  for (int64_t i = 0; i < t.count(); ++i) {
    int64_t cell = 0;
    for (size_t d = 0; d < shape.size(); ++d) cell = cell * shape[d] + at[d];
    t.set(i, random ? drawn(seed, cell, type) : integer_scalar(iota ? cell : every, type));
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

// Rows without elements, of which there may be more than anyone can print.
bool has_many_empty_rows(const HostTensor& t) {
  int64_t rows = 1;
  for (int64_t size : t.shape) {
    if (t.count() != 0 || size == 0) return false;
    if (size > kShown / rows) return true;
    rows *= size;
  }
  return false;
}

}  // namespace

InputType parse_shape(const std::string& text) {
  InputType result;
  std::string dims = text;
  if (size_t colon = text.find(':'); colon != std::string::npos) {
    dims = text.substr(0, colon);
    std::optional<DType> type = parse_dtype(text.substr(colon + 1));
    if (!type) unknown_type(text, text.substr(colon + 1));
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

bool is_png(const std::string& path) { return has_extension(path, ".png"); }

bool is_picture(const std::string& specification) {
  return is_png(specification) || has_extension(specification, ".jpg") ||
         has_extension(specification, ".jpeg");
}

bool gives_picture(const std::string& specification) {
  return specification.starts_with(kDrawn) || is_picture(specification);
}

HostTensor read_tensor(const std::string& specification, std::string_view input) {
  if (std::optional<std::string> shape = shape_in(specification)) {
    InputType type = parse_shape(*shape);
    return generated_box(specification, type, whole_box(type.shape), input);
  }
  if (ends_with(specification, ".npy")) return read_npy(specification);
  if (specification.starts_with(kDrawn)) return drawn_picture(specification);
  if (is_picture(specification)) return read_picture(specification);
  if (std::optional<HostTensor> numbers = written_out(specification)) return std::move(*numbers);
  bad("cannot tell what \"" + specification + "\" is",
      "expected a .npy, .png or .jpg file, random:SHAPE, iota:SHAPE, ones:SHAPE, zeros:SHAPE, "
      "picture:48x64, or numbers: 0.5, [1, 2]:i32; NumPy writes an array by numpy.save(\"a.npy\", "
      "a)");
}

std::optional<InputType> type_of_boxes(const std::string& specification) {
  if (std::optional<std::string> shape = shape_in(specification)) return parse_shape(*shape);
  if (!ends_with(specification, ".npy")) return std::nullopt;
  NpyLayout layout = read_npy_layout(specification);
  return InputType{layout.type, layout.shape};
}

HostTensor read_box(const std::string& specification, const Box& box, std::string_view input) {
  if (std::optional<std::string> shape = shape_in(specification)) {
    return generated_box(specification, parse_shape(*shape), box, input);
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
  if (has_many_empty_rows(tensor)) return "[]";
  std::string out;
  append_level(tensor, 0, 0, out);
  return out;
}

}  // namespace tile::cli
