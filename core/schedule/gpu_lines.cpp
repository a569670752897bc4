// Kernels whose stages share rows, on a GPU: which can keep a row's elements in the registers of
// the threads that hold them.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/schedule/cost.h"
#include "core/schedule/gpu_forms.h"
#include "core/schedule/lowering.h"

namespace tile::gpu {
namespace {

// What each dimension of an access is: a row (from 0), a part of the line (from kLine), nothing (a
// dimension of one element), or anything else.
constexpr int kLine = 1000, kNothing = -1, kOther = -2;
constexpr int64_t kMostBlocks = 8;     // of a cluster, on any GPU that has them
constexpr int kClusters = 90;          // compute capability that has them
constexpr double kOwnRegisters = 32;   // of a thread, beside those of its line
constexpr double kCluster = 1.03;      // its blocks begin and end together
constexpr double kClusterStage = 600;  // ns of a stage that waits for the cluster's other blocks
using Signature = std::vector<int>;

class LineFinder {
 public:
  explicit LineFinder(const Kernel& kernel) : kernel_(kernel) {}

  std::optional<LineForm> find() {
    const std::vector<KernelStage>& stages = kernel_.stages;
    codes_.resize(stages.size());
    f_.lines.resize(stages.size());
    for (size_t s = 0; s < stages.size(); ++s) {
      if (!stage(s)) return std::nullopt;
    }
    for (size_t s = 0; s < stages.size(); ++s) {
      if (!loads(s)) return std::nullopt;
    }
    if (f_.count < 32) return std::nullopt;
    find_stored();
    for (auto& [tensor, first] : first_read_) {
      bool several = readers_[tensor].size() > 1 && !spoiled_.contains(tensor);
      if (several) f_.cached.push_back(first);
    }
    return std::move(f_);
  }

 private:
  const Piece& piece(size_t s) const { return kernel_.stages[s].contraction.pieces[0]; }
  const Shape& shape(TensorId id) const { return kernel_.tensors[static_cast<size_t>(id)].shape; }

  Signature signature(const Access& a, size_t s) const {
    Signature list;
    const Piece& p = piece(s);
    for (size_t d = 0; d < a.index.size(); ++d) {
      const Index& index = a.index[d];
      if (index.value >= 0) return {kOther};
      int code =
          index.affine.constant == Rational(0) && shape(a.tensor)[d] == 1 ? kNothing : kOther;
      int used = 0;
      for (size_t u = 0; u < p.box.size(); ++u) {
        Rational c = index.affine.coefficient(u);
        if (c.is_zero() || p.box[u] == 1) continue;
        bool same = c == Rational(1) && index.affine.constant == Rational(0) &&
                    shape(a.tensor)[d] == p.box[u];
        code = same && ++used == 1 ? codes_[s][u] : kOther;
      }
      list.push_back(code);
    }
    return list;
  }
  // All rows, each once, and of the line all or nothing.
  enum class Kind { line, scalar, other };
  Kind kind(const Signature& list) const {
    std::set<int> rows, parts;
    for (int code : list) {
      if (code == kOther) return Kind::other;
      if (code != kNothing && !(code < kLine ? rows : parts).insert(code).second)
        return Kind::other;
    }
    for (size_t r = 0; r < f_.rows.size(); ++r) {
      if (f_.rows[r] > 1 && !rows.contains(static_cast<int>(r))) return Kind::other;
    }
    if (parts.empty()) return Kind::scalar;
    return parts.size() == line_extents_.size() ? Kind::line : Kind::other;
  }

  bool stage(size_t s) {
    const KernelStage& stage = kernel_.stages[s];
    const Contraction& c = stage.contraction;
    if (c.pieces.size() != 1 || c.fill || c.outputs.size() != 1) return false;
    if (!lowering::covers_output(c, kernel_.tensors) || may_be_empty(c.pieces[0], c)) return false;
    bool found = stage.attach >= 0 ? attached(s) : own_loops(s);
    if (!found) return false;
    Signature made = signature(c.pieces[0].stores[0], s);
    TensorId out = c.outputs[0];
    made_[out] = made;
    if (stage.residence == Residence::global) return true;
    if (stage.residence == Residence::registers) return true;
    Kind k = kind(made);
    if (k == Kind::line) f_.kept.push_back(out);
    if (k == Kind::scalar) f_.scalars.push_back(out);
    return k != Kind::other;
  }

  bool own_loops(size_t s) {
    const Piece& p = piece(s);
    const KernelStage& stage = kernel_.stages[s];
    codes_[s].assign(p.box.size(), kOther);
    std::vector<size_t> rest;
    std::vector<int64_t> rows;
    for (size_t r = 0; r < stage.rows.size(); ++r) {
      codes_[s][static_cast<size_t>(stage.rows[r])] = static_cast<int>(r);
      rows.push_back(p.box[static_cast<size_t>(stage.rows[r])]);
    }
    bool reduces = p.owners < p.box.size();
    FlatIndex all = reduces ? flat_reductions(p, kernel_) : flat_owners(p, kernel_);
    FlatIndex line;
    std::vector<int64_t> extents;
    for (size_t u : all.unknowns) {
      if (codes_[s][u] != kOther || p.box[u] == 1) continue;
      codes_[s][u] = kLine + static_cast<int>(extents.size());
      extents.push_back(p.box[u]);
      line.unknowns.push_back(u);
      line.count = checked_mul(line.count, p.box[u]);
      line.fastest = p.box[u];
    }
    for (size_t u = 0; u < p.box.size(); ++u) {
      if (p.box[u] < 1 || (codes_[s][u] == kOther && p.box[u] != 1)) return false;
    }
    if (!settled_) {
      settled_ = true;
      line_extents_ = extents;
      f_.rows = rows;
      for (int64_t r : rows) f_.row_count = checked_mul(f_.row_count, r);
      f_.count = line.count;
      f_.fastest = line.fastest;
    }
    f_.lines[s] = std::move(line);
    return extents == line_extents_ && rows == f_.rows;
  }

  // Its unknowns are what they are at the host's cells.
  bool attached(size_t s) {
    const Piece& p = piece(s);
    codes_[s].assign(p.box.size(), kOther);
    for (const Access& load : p.loads) {
      auto made = made_.find(load.tensor);
      if (made == made_.end()) continue;
      for (size_t d = 0; d < load.index.size(); ++d) {
        for (size_t u = 0; u < p.box.size(); ++u) {
          bool plain = load.index[d].value < 0 &&
                       load.index[d].affine.coefficient(u) == Rational(1) &&
                       load.index[d].affine.constant == Rational(0);
          if (plain && codes_[s][u] == kOther) codes_[s][u] = made->second[d];
        }
      }
    }
    return true;
  }

  bool loads(size_t s) {
    const Piece& p = piece(s);
    for (size_t i = 0; i < p.loads.size(); ++i) {
      const Access& a = p.loads[i];
      Signature list = signature(a, s);
      auto made = made_.find(a.tensor);
      if (made != made_.end()) {
        if (list != made->second || kind(list) == Kind::other) return false;
        continue;
      }
      auto [known, first] = read_as_.try_emplace(a.tensor, list);
      bool cell = kind(list) == Kind::line && known->second == list;
      if (!cell) spoiled_.insert(a.tensor);
      readers_[a.tensor].insert(s);
      bool own = kernel_.stages[s].attach < 0;
      if (own) first_read_.try_emplace(a.tensor, LineForm::Cached{a.tensor, s, i});
    }
    return true;
  }

  // The stage with loops of its own that stage s runs in.
  size_t loops_of(size_t s) const {
    while (kernel_.stages[s].attach >= 0) s = static_cast<size_t>(kernel_.stages[s].attach);
    return s;
  }
  void find_stored() {
    for (size_t s = 0; s < kernel_.stages.size(); ++s) {
      TensorId out = kernel_.stages[s].contraction.outputs[0];
      bool global = kernel_.stages[s].residence == Residence::global;
      if (!global || kind(made_.at(out)) != Kind::scalar) continue;
      bool read = false;
      for (size_t t = 0; t < kernel_.stages.size(); ++t) {
        for (const Access& load : piece(t).loads) {
          read = read || (load.tensor == out && loops_of(t) != loops_of(s));
        }
      }
      f_.stored.push_back({out, read});
    }
  }

  const Kernel& kernel_;
  LineForm f_;
  bool settled_ = false;  // by the first stage with loops of its own: the rows and the line
  std::vector<int64_t> line_extents_;
  std::vector<std::vector<int>> codes_;  // by stage and unknown
  std::map<TensorId, Signature> made_, read_as_;
  std::map<TensorId, std::set<size_t>> readers_;
  std::map<TensorId, LineForm::Cached> first_read_;
  std::set<TensorId> spoiled_;
};

int64_t cells_of_a_lane(const LineForm& f, const GpuLines& g) {
  return ceil_div(ceil_div(f.count, g.vector), g.lanes * g.blocks) * g.vector;
}

int64_t words_of(TensorId id, const Kernel& kernel) {
  auto bytes = static_cast<int64_t>(byte_size(kernel.tensors[static_cast<size_t>(id)].type));
  return std::max<int64_t>(1, bytes / 4);
}

// Words of the line tensors that one cell needs at once. Of what a stage reads for the last time
// the registers are free for what it makes.
int64_t words_of_a_cell(const LineForm& f, const Kernel& kernel) {
  std::vector<int64_t> held(kernel.stages.size() + 1);  // before each stage, and behind the last
  auto hold = [&](TensorId id, bool from_the_start) {
    size_t begin = from_the_start ? 0 : held.size(), end = 0;
    for (size_t s = 0; s < kernel.stages.size(); ++s) {
      int host = kernel.stages[s].attach;
      size_t time = host < 0 ? s : static_cast<size_t>(host);
      const Contraction& c = kernel.stages[s].contraction;
      bool makes = std::find(c.outputs.begin(), c.outputs.end(), id) != c.outputs.end();
      if (makes) begin = std::min(begin, time + 1);
      for (const Access& load : c.pieces[0].loads) {
        if (load.tensor == id) end = std::max(end, time);
      }
    }
    for (size_t b = begin; b <= end; ++b) held[b] += words_of(id, kernel);
  };
  for (TensorId id : f.kept) hold(id, false);
  for (const LineForm::Cached& c : f.cached) hold(c.tensor, true);
  return *std::max_element(held.begin(), held.end());
}

// The most that the compiler may need: each tensor has registers of its own.
int64_t most_registers(const LineForm& f, const GpuLines& g, const Kernel& kernel) {
  int64_t words = 0;
  for (TensorId id : f.kept) words += words_of(id, kernel);
  for (const LineForm::Cached& c : f.cached) words += words_of(c.tensor, kernel);
  return words * cells_of_a_lane(f, g) + 40;
}

}  // namespace

std::optional<LineForm> line_form(const Kernel& kernel) {
  if (row_loops(kernel) == 0) return std::nullopt;
  return LineFinder(kernel).find();
}

std::string illegal_lines(const Schedule& schedule, const Kernel& kernel, const Target& target) {
  if (!is_gpu(target)) return "a GPU form for a CPU";
  std::optional<LineForm> f = line_form(kernel);
  if (!f) return "rows whose stages do not share a line";
  const GpuLines& g = *schedule.gpu_lines;
  if (g.lanes < 1 || (g.lanes & (g.lanes - 1)) != 0 || g.rows < 1) return "lanes of another number";
  bool power = g.blocks >= 1 && (g.blocks & (g.blocks - 1)) == 0;
  if (!power || g.blocks > kMostBlocks) return "a cluster of another size";
  if (g.blocks > 1 && target.gpu.capability < kClusters) return "a cluster on a GPU without";
  if (g.blocks > 1 && g.rows > 1) return "a cluster of several rows";
  if (f->row_count * g.blocks > INT32_MAX) return "more blocks than a launch may have";
  int64_t threads = checked_mul(g.lanes, g.rows);
  if (threads > target.gpu.threads_per_block) return "a block with too many threads";
  if (f->row_count % g.rows != 0) return "rows that leave a remainder";
  if (g.vector != 1 && g.vector != 2 && g.vector != 4) return "a vector of another size";
  if (f->fastest % g.vector != 0) return "a vector that leaves a remainder";
  int64_t most = std::min<int64_t>(target.gpu.registers_per_thread,
                                   target.gpu.registers_per_multiprocessor / threads);
  if (most_registers(*f, g, kernel) > most) return "a line larger than the registers";
  // The walk along a line is unrolled, whether its cells are kept or not.
  if (cells_of_a_lane(*f, g) > target.gpu.registers_per_thread) return "a walk too long to unroll";
  for (const std::vector<PieceSchedule>& stage : schedule.stages) {
    for (const PieceSchedule& p : stage) {
      bool loops = !p.outer.empty() || !p.reduce.empty() || !p.tile.empty() ||
                   !p.packings.empty() || p.carried >= 0 || p.gpu_reduction || p.gpu_matrix;
      if (loops) return "lines beside loops";
    }
  }
  return {};
}

double estimate_lines(const GpuLines& g, const Kernel& kernel, const Target& target) {
  std::optional<LineForm> f = line_form(kernel);
  if (!f) return 1e18;
  double bytes = 0;
  std::set<TensorId> seen;
  auto add = [&](TensorId id) {
    if (!seen.insert(id).second) return;
    const BoundTensor& t = kernel.tensors[static_cast<size_t>(id)];
    bytes += static_cast<double>(element_count(t.shape)) * static_cast<double>(byte_size(t.type));
  };
  for (TensorId id : kernel.reads) add(id);
  for (TensorId id : kernel.writes) add(id);
  double held = static_cast<double>(cells_of_a_lane(*f, g) / g.vector);
  double threads = static_cast<double>(g.lanes * g.rows);
  double registers =
      static_cast<double>(words_of_a_cell(*f, kernel) * cells_of_a_lane(*f, g)) + kOwnRegisters;
  double resident =
      std::floor(std::min(target.gpu.threads_per_multiprocessor / threads,
                          target.gpu.registers_per_multiprocessor / (threads * registers)));
  double blocks = static_cast<double>(f->row_count / g.rows * g.blocks);
  double waves = std::ceil(blocks / (std::max(1.0, resident) * target.gpu.multiprocessors));
  double stages = static_cast<double>(kernel.stages.size());
  double operations = 0;
  for (const KernelStage& s : kernel.stages) {
    for (const Node& n : s.contraction.pieces[0].body.nodes) {
      if (n.kind != NodeKind::operation) continue;
      operations += info(n.op).rule == TypeRule::floating ? 12 : 1;
    }
  }
  double points = static_cast<double>(f->row_count) * static_cast<double>(f->count);
  double issue = points * (operations + 4) / (target.fma_per_ns * target.gpu.multiprocessors);
  double block = 900 + 250 * stages + held * 60;
  if (g.blocks > 1) block += kClusterStage * stages;
  double memory = bytes / (0.9 * target.dram_bytes_per_ns * target.gpu.multiprocessors);
  // Long walks hide less, and leave the compiler less choice.
  double most = static_cast<double>(most_registers(*f, g, kernel)) - 16;
  double slack = 1 + 0.1 * std::max(0.0, std::log2(most / 80));
  if (g.blocks > 1) slack *= kCluster;
  // A block alone on its multiprocessor has nobody to compute while it loads.
  if (resident < 2) memory += 0.9 * waves * block;
  return slack * std::max({memory, issue, waves * block}) + target.gpu.launch_ns;
}

std::vector<Schedule> line_schedules(const Kernel& kernel, const Target& target) {
  std::optional<LineForm> f = line_form(kernel);
  if (!f) return {};
  std::vector<std::pair<double, Schedule>> found;
  auto consider = [&](const GpuLines& g) {
    Schedule s;
    for (const KernelStage& stage : kernel.stages) {
      s.stages.emplace_back(stage.attach >= 0 ? 0 : stage.contraction.pieces.size());
    }
    s.gpu_lines = g;
    if (!illegal_lines(s, kernel, target).empty()) return;
    double ns = estimate_lines(g, kernel, target) * (g.vector == 4 ? 1 : 1.1);
    found.emplace_back(ns, std::move(s));
  };
  for (int64_t vector : {4, 2, 1}) {
    if (f->fastest % vector != 0) continue;
    for (int64_t lanes = 16; lanes <= 1024; lanes *= 2) {
      for (int64_t rows = 1; rows * lanes <= 512 || rows == 1; rows *= 2) {
        bool idle = lanes > 2 * f->count / vector || (lanes * rows < 64 && f->row_count > 4096);
        if (!idle) consider({lanes, rows, vector, 1});
      }
      for (int64_t blocks = 2; blocks <= kMostBlocks; blocks *= 2) {
        bool idle = lanes < 128 || lanes * blocks > f->count / vector;
        if (!idle) consider({lanes, 1, vector, blocks});
      }
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Schedule> list;
  for (auto& [ns, s] : found) list.push_back(std::move(s));
  return list;
}

}  // namespace tile::gpu
