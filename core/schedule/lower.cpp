// lower: a kernel and its schedule become one nest.
#include "core/schedule/lower.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "core/schedule/cost.h"
#include "core/schedule/gpu.h"
#include "core/schedule/lowering.h"
#include "core/schedule/stream.h"
#include "core/schedule/tensor_cores.h"

namespace tile {
namespace lowering {

int Frame::add_buffer(std::string name, DType type, nest::Scope scope, Shape shape) {
  nest::Buffer buffer;
  buffer.name = std::move(name) + std::to_string(nest.buffers.size());
  buffer.type = type;
  buffer.scope = scope;
  buffer.strides = dense_strides(shape);
  buffer.shape = std::move(shape);
  buffer.written = true;
  buffer.alignment = 64;
  nest.buffers.push_back(std::move(buffer));
  return static_cast<int>(nest.buffers.size()) - 1;
}

namespace {

// Names that the nest's text form can hold, each its own.
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

// For each merged dimension the first of those of `shape` that it is; one more for the end. Nothing
// where the shapes do not fit.
std::vector<size_t> merged_from(const Shape& merged, const Shape& shape) {
  std::vector<size_t> first{0};
  size_t d = 0;
  for (int64_t extent : merged) {
    if (d == shape.size()) return {};
    bool last = first.size() == merged.size();
    int64_t size = shape[d++];
    while (d < shape.size() && (size != extent || last)) size = checked_mul(size, shape[d++]);
    if (size != extent) return {};
    first.push_back(d);
  }
  return first;
}

// The strides of the merged dimensions where the tensor's own are dense along them.
std::optional<std::vector<int64_t>> merged_strides(const Shape& merged, const Shape& shape,
                                                   const std::vector<int64_t>& strides) {
  std::vector<size_t> first = merged_from(merged, shape);
  if (first.empty()) return std::nullopt;
  std::vector<int64_t> result;
  for (size_t m = 0; m < merged.size(); ++m) {
    int64_t size = shape[first[m]], stride = strides[first[m]];
    for (size_t d = first[m] + 1; d < first[m + 1]; ++d) {
      bool free = size == 1 || shape[d] == 1;
      if (!free && stride != checked_mul(strides[d], shape[d])) return std::nullopt;
      if (shape[d] != 1) stride = strides[d];
      size = checked_mul(size, shape[d]);
    }
    result.push_back(stride);
  }
  return result;
}

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

void Frame::add_argument(TensorId id, bool written, const Strides& strides) {
  const BoundTensor& t = tensor(id);
  nest::Buffer buffer;
  buffer.name = plain_names({t.name})[0] + "_" + std::to_string(nest.buffers.size());
  buffer.type = t.type;
  buffer.shape = t.shape;
  buffer.strides = dense_strides(t.shape);
  buffer.written = written;
  if (is_gpu(target)) buffer.alignment = 16;
  auto at = static_cast<size_t>(id);
  if (at < strides.size() && !strides[at].empty()) {
    bool merged = at < kernel.shapes.size() && !kernel.shapes[at].empty();
    std::optional<std::vector<int64_t>> own = strides[at];
    if (merged) own = merged_strides(t.shape, kernel.shapes[at], strides[at]);
    if (!own) {  // indices are split again
      buffer.shape = kernel.shapes[at];
      own = strides[at];
      split.insert(id);
    }
    buffer.strides = *own;
  }
  bool sized = extent != nullptr && std::find(extent->tensors.begin(), extent->tensors.end(), id) !=
                                        extent->tensors.end();
  if (sized) buffer.extent = kExtentName;
  buffer_of[id] = static_cast<int>(nest.buffers.size());
  nest.buffers.push_back(std::move(buffer));
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
      int row = rows->second[d];
      if (row < 0) continue;
      access.index[d] = tidy(access.index[d] - row_begin[static_cast<size_t>(row)]);
    }
  } else if (split.contains(id)) {
    split_indices(tensor(id).shape, kernel.shapes[static_cast<size_t>(id)], access);
  }
}

std::vector<Expr> Frame::argument_index(TensorId id, std::vector<Expr> index) const {
  nest::Access access;
  access.index = std::move(index);
  if (split.contains(id)) {
    split_indices(tensor(id).shape, kernel.shapes[static_cast<size_t>(id)], access);
  }
  return std::move(access.index);
}

std::optional<IndexValue> Frame::scalar(TensorId id) {
  auto at = buffer_of.find(id);
  if (at == buffer_of.end() || target.device != "cpu") return std::nullopt;
  const nest::Buffer& b = nest.buffers[static_cast<size_t>(at->second)];
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

PieceLowering::PieceLowering(Frame& frame, size_t stage, size_t piece,
                             const PieceSchedule& schedule)
    : frame_(frame),
      contraction_(frame.kernel.stages[stage].contraction),
      stage_(stage),
      number_in_stage_(piece),
      piece_(contraction_.pieces[piece]),
      schedule_(fitted(schedule, frame, piece_, contraction_)),
      constraints_(place_constraints(piece_, schedule, has_stream(frame.kernel))),
      names_(plain_names(piece_.unknowns)) {
  reduces_ = piece_.owners < piece_.box.size();
  blocked_ = std::any_of(schedule.outer.begin(), schedule.outer.end(), [&](const Loop& l) {
    return static_cast<size_t>(l.unknown) >= piece_.owners;
  });
  bool zero_if_empty = contraction_.aggregation == Aggregation::sum && !contraction_.fill;
  may_be_empty_ = reduces_ && schedule.carried < 0 && !zero_if_empty && !surely_nonempty(piece_);
  lanes_reduce_ = !schedule.reduce.empty() && schedule.reduce.back().binding == Binding::vector;
  if (lanes_reduce_) lane_width_ = lane_count(schedule.reduce, piece_);
  tile_shape_ = tile_shape(schedule, piece_);
  carried_loops_ = carried_tile_loops(schedule);
  copies_ = accumulator_copies(schedule, piece_, contraction_, frame.target, copy_loop_);
  if (dot_group(schedule) > 1) {
    dot_ = form_of(schedule, piece_, contraction_, frame.kernel.tensors);
  }
  tiles_ = uses_tiles(schedule);
  if (tiles_) sizes_ = tile_sizes(schedule, piece_);
  if (!schedule.tile.empty()) tile_test_ = tile_test_place();
  if (tile_test_ && !is_gpu(frame.target)) tap_test_ = tap_test_place();
  for (const Frame::Prepared& p : frame.prepared) {
    bool own = p.what.stage == stage && p.what.piece == piece;
    if (own) prepared_[static_cast<size_t>(p.what.packing.load)] = &p;
  }
  if (frame.extent != nullptr) walker_ = walking_unknown(piece_);
  if (frame.form != nullptr) run_time_blocks_ = frame.form->blocks[stage][piece];
  while (parallel_ < schedule.outer.size() &&
         schedule.outer[parallel_].binding == Binding::parallel) {
    ++parallel_;
  }
}

void PieceLowering::prepare(nest::Block& out) {
  make_partials(out);
  if (reduces_) make_accumulators();
  find_attached();
}

nest::Block PieceLowering::run() {
  for (size_t u = 0; u < piece_.owners; ++u) {
    if (piece_.box[u] <= 0) return {};
  }
  if (schedule_.gpu_matrix)
    tile_shape_ = {schedule_.gpu_matrix->thread_m, schedule_.gpu_matrix->thread_n};
  if (schedule_.gpu_reduction && schedule_.gpu_reduction->vector > 1)
    tile_shape_ = {schedule_.gpu_reduction->vector};
  if (schedule_.gpu_scan) tile_shape_ = scan_shape(*schedule_.gpu_scan);
  nest::Block out;
  prepare(out);
  if (schedule_.gpu_matrix) return gpu_matrix(*schedule_.gpu_matrix);
  if (schedule_.gpu_reduction) return gpu_reduction(*schedule_.gpu_reduction);
  if (schedule_.gpu_scan) return gpu_scan(*schedule_.gpu_scan);
  if (schedule_.gpu_transpose) return gpu_transpose(*schedule_.gpu_transpose);
  if (run_time_blocks_ > 0) {
    append(out, run_time_blocks());
  } else {
    append(out, is_chained(schedule_) ? chained_scan() : parallel_loops());
  }
  return out;
}

Frame empty_frame(const Kernel& kernel, const Target& target, const RunTimeExtent* extent) {
  Frame frame{kernel, target, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, extent, nullptr, {}, {}};
  frame.nest.name = kernel.name.empty() ? "kernel" : kernel.name;
  return frame;
}

Frame make_frame(const Kernel& kernel, const Target& target, const Strides& strides,
                 const RunTimeExtent* extent) {
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

}  // namespace lowering

std::vector<TensorId> arguments_of(const Kernel& kernel) {
  std::vector<TensorId> list;
  for (TensorId id : kernel.reads) {
    if (std::find(kernel.writes.begin(), kernel.writes.end(), id) == kernel.writes.end()) {
      list.push_back(id);
    }
  }
  list.insert(list.end(), kernel.writes.begin(), kernel.writes.end());
  return list;
}

namespace {

// Pieces share no cell and read none: parallel loops of as many tasks become one, so that what a
// task's parts read and write close together is near.
nest::Block with_common_tasks(std::vector<nest::Block> pieces) {
  nest::Block before, loops;
  for (nest::Block& piece : pieces) {
    auto* last = piece.empty() ? nullptr : std::get_if<nest::For>(&piece.back().what);
    if (last != nullptr && last->kind == nest::LoopKind::parallel) {
      auto common = std::find_if(loops.begin(), loops.end(), [&](const nest::Statement& s) {
        const auto& loop = std::get<nest::For>(s.what);
        return loop.variable == last->variable && loop.begin == last->begin &&
               loop.extent == last->extent;
      });
      if (common == loops.end()) {
        loops.push_back(std::move(piece.back()));
      } else {
        auto& loop = std::get<nest::For>(common->what);
        loop.grain = std::min(loop.grain, last->grain);
        lowering::append(loop.body, std::move(last->body));
      }
      piece.pop_back();
    }
    lowering::append(before, std::move(piece));
  }
  lowering::append(before, std::move(loops));
  return before;
}

// The stages with loops of their own, one after the other.
void lower_stages(lowering::Frame& frame, const Schedule& schedule) {
  for (size_t s = 0; s < frame.kernel.stages.size(); ++s) {
    if (frame.kernel.stages[s].attach >= 0) continue;
    const Contraction& c = frame.kernel.stages[s].contraction;
    if (!lowering::covers_output(c, frame.kernel.tensors)) {
      std::set<TensorId> outputs(c.outputs.begin(), c.outputs.end());
      for (TensorId out : outputs) lowering::append(frame.nest.body, lowering::fill(frame, out, c));
    }
    std::vector<nest::Block> each;
    for (size_t p = 0; p < c.pieces.size(); ++p) {
      const PieceSchedule& how = schedule.stages[s][p];
      lowering::PieceLowering piece(frame, s, p, how);
      each.push_back(how.tensor_cores ? piece.run(*how.tensor_cores) : piece.run());
    }
    nest::Block pieces;
    if (is_gpu(frame.target)) {
      for (nest::Block& piece : each) lowering::append(pieces, std::move(piece));
      // Pieces share no cell, so that their launches may run side by side.
      pieces = gpu::bind_grid(std::move(pieces), frame.nest.buffers, frame.target);
      if (c.pieces.size() > 1) pieces = gpu::merged_launches(std::move(pieces));
    } else {
      pieces = with_common_tasks(std::move(each));
    }
    lowering::append(frame.nest.body, std::move(pieces));
  }
}

}  // namespace

nest::Nest lower(const Kernel& kernel, const Schedule& schedule, const Target& target,
                 const Strides& strides) {
  if (!tensor_cores::fits_strides(schedule, kernel, target, strides)) {
    std::vector<Schedule> others = tensor_cores::schedules(kernel, target, 1, strides);
    if (others.empty()) others = {tensor_cores::schedule_without(kernel, target)};
    return lower(kernel, others[0], target, strides);
  }
  lowering::Frame frame = lowering::make_frame(kernel, target, strides);
  if (schedule.gpu_lines) {
    lowering::append(frame.nest.body, lowering::lower_lines(frame, schedule));
    return std::move(frame.nest);
  }
  frame.take_prepared(schedule);
  if (row_loops(kernel) > 0) {
    lowering::append(frame.nest.body, lowering::lower_rows(frame, schedule));
    return is_gpu(target) ? gpu::bind_grid(std::move(frame.nest), target)
                          : nest::hoist(std::move(frame.nest));
  }
  lower_stages(frame, schedule);
  return is_gpu(target) ? gpu::bind_grid(std::move(frame.nest), target)
                        : nest::hoist(std::move(frame.nest));
}

nest::Nest lower(const Kernel& kernel, const SharedForm& form, const Target& target,
                 const Strides& strides) {
  lowering::Frame frame = lowering::make_frame(kernel, target, strides);
  frame.take_form(form);
  lower_stages(frame, form.schedule);
  return nest::hoist(std::move(frame.nest));
}

nest::Nest lower(const ClassKernel& kernel, const Schedule& schedule, const Target& target) {
  internal_check(!is_gpu(target) && suits_class(schedule, kernel),
                 "lower: a schedule that does not suit a class of sizes");
  lowering::Frame frame = lowering::make_frame(kernel.kernel, target, {}, &kernel.extent);
  frame.take_prepared(schedule);
  lower_stages(frame, schedule);
  return nest::hoist(std::move(frame.nest));
}

std::vector<Preparation> preparations(const Kernel& kernel, const Schedule& schedule,
                                      const Target& target, const Strides& strides) {
  std::vector<Preparation> all;
  for (const PreparedPacking& p : prepared_packings(kernel, schedule, target)) {
    const PieceSchedule& how = schedule.stages[p.stage][p.piece];
    const Piece& piece = kernel.stages[p.stage].contraction.pieces[p.piece];
    TensorId source = piece.loads[static_cast<size_t>(p.packing.load)].tensor;
    lowering::Frame frame = lowering::empty_frame(kernel, target);
    frame.add_argument(source, false, strides);
    frame.prepared = {{p, frame.add_prepared(p, how, true)}};
    frame.nest.body = lowering::PieceLowering(frame, p.stage, p.piece, how).prepare_copy(p.packing);
    all.push_back({source, nest::hoist(std::move(frame.nest))});
  }
  return all;
}

}  // namespace tile
