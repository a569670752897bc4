// NumPy's .npy format, version 1.0 (numpy.lib.format), little endian.
#include "runtime/cli/npy/npy.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/support/checked.h"
#include "runtime/cli/files.h"
#include "runtime/cli/tensor_file.h"

namespace tile::cli {
namespace {

struct Row {
  std::string_view descr;
  DType type;
};
// bfloat16 and f8 have no NumPy names of their own; they are written as ml_dtypes does.
constexpr std::array<Row, 18> kRows{{{"|b1", DType::bool_},
                                     {"|i1", DType::i8},
                                     {"<i2", DType::i16},
                                     {"<i4", DType::i32},
                                     {"<i8", DType::i64},
                                     {"|u1", DType::u8},
                                     {"<u2", DType::u16},
                                     {"<u4", DType::u32},
                                     {"<u8", DType::u64},
                                     {"<V1", DType::f8e4m3},
                                     {"|V1", DType::f8e4m3},
                                     {"<f1", DType::f8e5m2},
                                     {"|f1", DType::f8e5m2},
                                     {"<f2", DType::f16},
                                     {"<V2", DType::bf16},
                                     {"|V2", DType::bf16},
                                     {"<f4", DType::f32},
                                     {"<f8", DType::f64}}};
constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kPreamble = 10;

[[noreturn]] void bad(const std::string& path, const std::string& why) {
  fail(Stage::run, "file", {}, path + ": " + why);
}

// The text after 'key': in the header's dictionary.
std::string field(const std::string& header, const std::string& key, const std::string& path) {
  size_t at = header.find("'" + key + "'");
  if (at == std::string::npos) bad(path, "the header has no " + key);
  at = header.find(':', at);
  if (at == std::string::npos) bad(path, "the header is damaged");
  return header.substr(at + 1);
}

DType type_of(const std::string& header, const std::string& path) {
  std::string text = field(header, "descr", path);
  size_t open = text.find('\''), close = text.find('\'', open + 1);
  if (open == std::string::npos || close == std::string::npos) bad(path, "a structured type");
  std::string descr = text.substr(open + 1, close - open - 1);
  for (const Row& row : kRows) {
    if (row.descr == descr) return row.type;
  }
  fail(Stage::run, "file", {}, path + ": the element type " + descr + " is not supported",
       "NumPy converts an array of numbers by a.astype(\"float32\")");
}

Shape shape_of(const std::string& header, const std::string& path) {
  std::string text = field(header, "shape", path);
  size_t open = text.find('('), close = text.find(')');
  if (open == std::string::npos || close == std::string::npos) bad(path, "the header is damaged");
  Shape shape;
  const char* at = text.data() + open + 1;
  const char* end = text.data() + close;
  while (at < end) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    char* next = nullptr;
    shape.push_back(std::strtoll(at, &next, 10));
    if (next == at || shape.back() < 0) bad(path, "the shape is damaged");
    at = next;
  }
  return shape;
}

int64_t byte_count(const Shape& shape, DType type, const std::string& path) {
  try {
    return checked_mul(element_count(shape), static_cast<int64_t>(byte_size(type)));
  } catch (const Overflow&) {
    bad(path, "the shape is too large");
  }
}

}  // namespace

HostTensor transposed(const HostTensor& stored) {
  Shape shape(stored.shape.rbegin(), stored.shape.rend());
  HostTensor t(stored.type, stored.shape);
  std::vector<int64_t> position(shape.size(), 0);
  for (int64_t from = 0; from < t.count(); ++from) {
    int64_t to = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      to = to * t.shape[d] + position[shape.size() - 1 - d];
    }
    t.set(to, stored.at(from));
    for (size_t d = shape.size(); d-- > 0;) {
      if (++position[d] < shape[d]) break;
      position[d] = 0;
    }
  }
  return t;
}

NpyLayout parse_npy_header(std::string_view text, const std::string& path) {
  if (text.size() < kPreamble || std::memcmp(text.data(), kMagic, 6) != 0)
    bad(path, "not a .npy file");
  auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(text[i])); };
  size_t preamble = byte(6) >= 2 ? kPreamble + 2 : kPreamble;
  if (text.size() < preamble) bad(path, "cut short");
  size_t size = byte(8) | byte(9) << 8;
  if (byte(6) >= 2) size |= byte(10) << 16 | byte(11) << 24;
  if (text.size() < preamble + size) bad(path, "cut short");
  std::string header(text.substr(preamble, size));
  NpyLayout layout;
  layout.type = type_of(header, path);
  layout.shape = shape_of(header, path);
  layout.bytes = static_cast<size_t>(byte_count(layout.shape, layout.type, path));
  layout.data = preamble + size;
  std::string order = field(header, "fortran_order", path);
  layout.columns = order.find("True") < order.find(',');
  return layout;
}

HostTensor read_npy(const std::string& path) { return parse_npy(read_text(path), path); }

HostTensor parse_npy(std::string_view text, const std::string& path) {
  NpyLayout layout = parse_npy_header(text, path);
  std::string_view data = text.substr(layout.data);
  if (data.size() < layout.bytes) bad(path, "cut short");
  HostTensor t(layout.type, layout.shape);
  if (layout.bytes != 0) std::memcpy(t.bytes.data(), data.data(), layout.bytes);
  return layout.columns ? transposed(t) : t;
}

std::string npy_header(DType type, const Shape& shape) {
  auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.type == type; });
  std::string header =
      "{'descr': '" + std::string(row->descr) + "', 'fortran_order': False, 'shape': (";
  for (int64_t extent : shape) header += std::to_string(extent) + ",";
  header += "), }";
  // The data starts at a multiple of 64 bytes.
  header += std::string(63 - (kPreamble + header.size()) % 64, ' ') + "\n";
  const char rest[] = {1, 0, static_cast<char>(header.size() & 0xff),
                       static_cast<char>(header.size() >> 8)};
  return std::string(kMagic, 6) + std::string(rest, sizeof rest) + header;
}

void write_npy(const std::string& path, const HostTensor& t) {
  std::string header = npy_header(t.type, t.shape);
  const std::string_view parts[] = {
      header, {reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size()}};
  write_parts(path, parts);
}

}  // namespace tile::cli
