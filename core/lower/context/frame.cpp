// The nest under construction: its buffers, and where accesses go.
#include "core/lower/context/frame.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "core/kernel/argument_layout.h"
#include "core/lower/context/argument_names.h"
#include "core/lower/launch/nest_builders.h"

namespace tile::lowering {

nest::BufferId Frame::add_buffer(std::string name, DType type, nest::Scope scope, Shape shape) {
  nest::Buffer buffer;
  buffer.name = std::move(name) + std::to_string(nest.buffers.size());
  buffer.type = type;
  buffer.scope = scope;
  buffer.strides = dense_strides(shape);
  buffer.shape = std::move(shape);
  buffer.written = true;
  buffer.alignment = 64;
  return nest.buffers.add(std::move(buffer));
}

namespace {

// Indices of merged dimensions become those of `shape`, each by its own quotients and remainders.
void split_indices(const Shape& merged, const Shape& shape, nest::Access& access) {
  std::vector<size_t> first = merged_from(merged, shape);
  internal_check(!first.empty(), "lower: merged dimensions that are none of the tensor's");
  nest::Access result;
  result.index.assign(shape.size(), Expr(0));
  if (!access.values.empty()) result.values.assign(shape.size(), -1);
  for (size_t m = 0; m < merged.size(); ++m) {
    // Only extents of one stand beside a dimension that a value is the index of.
    if (!access.values.empty() && access.values[m] >= 0) {
      size_t d = first[m];
      while (d + 1 < first[m + 1] && shape[d] == 1) ++d;
      result.values[d] = access.values[m];
      continue;
    }
    Expr rest = access.index[m];
    for (size_t d = first[m + 1]; d-- > first[m];) {
      result.index[d] = d == first[m] ? rest : floor_mod(rest, Expr(shape[d]));
      rest = floor_div(rest, Expr(shape[d]));
    }
  }
  access.index = std::move(result.index);
  access.values = std::move(result.values);
}

}  // namespace

// Dimensions up to the last one that is open become one, so that no stride depends on the extent.
void Frame::open_dimensions(TensorId id, nest::Buffer& buffer) const {
  const BoundTensor& t = tensor(id);
  internal_check(!split.contains(id), "lower: a strided tensor with an open extent");
  auto last = static_cast<std::ptrdiff_t>(open.last_open(id));
  Expr joined = 1;
  for (size_t d = 0; d <= open.last_open(id); ++d) joined = joined * open.extent(t, id, d);
  Shape shape{1};
  for (size_t d = 0; d <= open.last_open(id); ++d) shape[0] = checked_mul(shape[0], t.shape[d]);
  shape.insert(shape.end(), t.shape.begin() + last + 1, t.shape.end());
  buffer.strides = dense_strides(shape);
  buffer.shape = std::move(shape);
  buffer.extent = tidy(joined);
}

// Indices of dimensions that open_dimensions() made one.
void Frame::join_indices(TensorId id, nest::Access& access) const {
  size_t last = open.last_open(id);
  Expr joined = access.index[0];
  for (size_t d = 1; d <= last; ++d) {
    joined = joined * open.extent(tensor(id), id, d) + access.index[d];
  }
  access.index[last] = tidy(joined);
  auto end = static_cast<std::ptrdiff_t>(last);
  access.index.erase(access.index.begin(), access.index.begin() + end);
  internal_check(access.values.empty() || last == 0, "lower: an index value of an open dimension");
}

void Frame::add_argument(TensorId id, bool written, const Strides& strides) {
  const BoundTensor& t = tensor(id);
  nest::Buffer buffer;
  buffer.name = argument_name(t.name, nest.buffers.size());
  buffer.type = t.type;
  ArgumentLayout layout = argument_layout(kernel, id, strides);
  buffer.shape = std::move(layout.shape);
  buffer.strides = std::move(layout.strides);
  if (layout.split) split.insert(id);
  buffer.written = written;
  if (is_gpu(target)) buffer.alignment = 16;
  if (open.is_open(id)) open_dimensions(id, buffer);
  buffer_of[id] = nest.buffers.add(std::move(buffer));
}

ArgumentLayouts Frame::layouts() const {
  ArgumentLayouts all;
  for (const auto& [id, at] : buffer_of) {
    const nest::Buffer& b = nest.buffers[at];
    all[id] = {b.type, b.shape, b.strides, split.contains(id)};
  }
  return all;
}

std::vector<Expr> Frame::buffer_index(TensorId id, std::vector<Expr> index) const {
  nest::Access access;
  access.index = std::move(index);
  place(id, access);
  return std::move(access.index);
}

void Frame::place(TensorId id, nest::Access& access) const {
  // A pinned tensor is never read where a value says.
  if (auto place = pinned.find(id); place != pinned.end() && access.values.empty()) {
    access.index = place->second;
  } else if (auto rows = in_row.find(id); rows != in_row.end()) {
    for (size_t d = 0; d < access.index.size(); ++d) {
      RowId row = rows->second[d];
      if (row.valid()) access.index[d] = tidy(access.index[d] - row_begin[row]);
    }
  } else if (split.contains(id)) {
    split_indices(tensor(id).shape, kernel.shapes[id], access);
  } else if (open.is_open(id) && is_argument(id)) {
    join_indices(id, access);
  }
}

bool Frame::is_argument(TensorId id) const {
  auto at = buffer_of.find(id);
  return at != buffer_of.end() && nest.buffers[at->second].scope == nest::Scope::argument;
}

std::optional<IndexValue> Frame::literal(const Node& node) const {
  std::optional<Growth> g = open.literal(node);
  if (!g) return std::nullopt;
  Expr value = tidy(Expr(g->factor) * Expr::variable(kExtentName) + Expr(g->offset));
  int64_t one = g->at(1), most = g->at(open.most());
  return IndexValue{value, std::min(one, most), std::max(one, most), 1};
}

std::vector<Expr> Frame::argument_index(TensorId id, std::vector<Expr> index) const {
  nest::Access access;
  access.index = std::move(index);
  if (split.contains(id)) {
    split_indices(tensor(id).shape, kernel.shapes[id], access);
  } else if (open.is_open(id)) {
    join_indices(id, access);
  }
  return std::move(access.index);
}

std::optional<IndexValue> Frame::scalar(TensorId id) {
  auto at = buffer_of.find(id);
  if (at == buffer_of.end() || target.device != "cpu") return std::nullopt;
  const nest::Buffer& b = nest.buffers[at->second];
  bool readable = b.scope == nest::Scope::argument && !b.written && b.shape.empty();
  if (!readable || !is_integer(b.type) || bit_width(b.type) > 32) return std::nullopt;
  int64_t half = int64_t{1} << (bit_width(b.type) - 1);
  bool is_signed = is_signed_integer(b.type);
  int64_t lo = is_signed ? -half : 0, hi = is_signed ? half - 1 : 2 * half - 1;
  std::string name = b.name + "_value";
  bool known = std::any_of(nest.parameters.begin(), nest.parameters.end(),
                           [&](const nest::Parameter& p) { return p.name == name; });
  if (!known) nest.parameters.push_back({name, lo, hi, at->second});
  return IndexValue{Expr::variable(name), lo, hi, 1};
}

nest::BufferId Frame::add_prepacked(const PrepackedPacking& what, const PieceSchedule& schedule,
                                    bool written) {
  const Piece& piece = kernel.stages[what.stage].contraction.pieces[what.piece];
  nest::BufferId id =
      add_buffer("prepared", packed_type(what.packing, schedule, piece, kernel.tensors),
                 nest::Scope::argument, packed_shape(what.packing, schedule, piece, piece.box));
  nest.buffers[id].written = written;
  return id;
}

void Frame::take_prepacked(const Schedule& schedule) {
  for (PrepackedPacking& p : prepacked_packings(kernel, schedule, target)) {
    nest::BufferId buffer = add_prepacked(p, schedule.stages[p.stage][p.piece], false);
    prepared.push_back({std::move(p), buffer});
  }
}

std::vector<std::string> plain_names(const std::vector<std::string>& names) {
  std::set<std::string> taken;
  std::vector<std::string> result;
  for (const std::string& name : names) {
    std::string plain;
    for (char c : name) plain += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    if (plain.empty() || std::isdigit(static_cast<unsigned char>(plain[0])) != 0)
      plain = "u" + plain;
    while (!taken.insert(plain).second) plain += "x";
    result.push_back(plain);
  }
  return result;
}

Frame empty_frame(const Kernel& kernel, const Target& target, const DynamicExtent* extent) {
  OpenNumbers open = extent != nullptr ? OpenNumbers(kernel, *extent) : OpenNumbers();
  Frame frame{kernel, target,          {},     {},      {}, {}, {}, {}, {}, {}, {}, {},
              {},     std::move(open), extent, nullptr, {}, {}};
  frame.nest.name = nest_name(kernel);
  return frame;
}

Frame make_frame(const Kernel& kernel, const Target& target, const Strides& strides,
                 const DynamicExtent* extent) {
  Frame frame = empty_frame(kernel, target, extent);
  if (extent != nullptr) frame.nest.parameters.push_back({kExtentName, 1, extent->most});
  auto written = [&](TensorId id) {
    return std::find(kernel.writes.begin(), kernel.writes.end(), id) != kernel.writes.end();
  };
  for (TensorId id : kernel.reads) {
    if (!written(id)) frame.add_argument(id, false, strides);
  }
  for (TensorId id : kernel.writes) frame.add_argument(id, true, strides);
  return frame;
}

}  // namespace tile::lowering
