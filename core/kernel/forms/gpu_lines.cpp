// Kernels whose stages share rows, on a GPU: which can keep a row's elements in the registers of
// the threads that hold them.
#include <algorithm>
#include <map>
#include <set>

#include "core/kernel/coverage.h"
#include "core/kernel/forms/gpu_forms.h"

namespace tile::gpu {
namespace {

// What each dimension of an access is: a row (from 0), a part of the line (from kLine), nothing (a
// dimension of one element), or anything else.
constexpr int kLine = 1000, kNothing = -1, kOther = -2;
using Signature = std::vector<int>;

class LineFinder {
 public:
  explicit LineFinder(const Kernel& kernel) : kernel_(kernel) {}

  std::optional<LineForm> find() {
    const IdVector<StageId, KernelStage>& stages = kernel_.stages;
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
    f_.rows_are_neighbours = rows_are_neighbours();
    for (auto& [tensor, first] : first_read_) {
      bool several = readers_[tensor].size() > 1 && !spoiled_.contains(tensor);
      if (several) f_.cached.push_back(first);
    }
    return std::move(f_);
  }

 private:
  const Piece& piece(size_t s) const { return kernel_.stages[s].contraction.pieces[0]; }
  const Shape& shape(TensorId id) const { return kernel_.tensors[id].shape; }

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
    if (!covers_output(c, kernel_.tensors) || may_be_empty(c.pieces[0], c)) return false;
    bool found = stage.attach.valid() ? attached(s) : own_loops(s);
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
      codes_[s][stage.rows[r]] = static_cast<int>(r);
      rows.push_back(p.box[stage.rows[r]]);
    }
    bool reduces = p.parallel_dims < p.box.size();
    FlatIndex all = reduces ? flat_reductions(p, kernel_) : flat_parallel_dims(p, kernel_);
    FlatIndex line;
    std::vector<int64_t> extents;
    for (size_t u : all.iterators) {
      if (codes_[s][u] != kOther || p.box[u] == 1) continue;
      codes_[s][u] = kLine + static_cast<int>(extents.size());
      extents.push_back(p.box[u]);
      line.iterators.push_back(u);
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

  // Its iterators are what they are at the host's cells.
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
      bool own = !kernel_.stages[s].attach.valid();
      if (own) first_read_.try_emplace(a.tensor, LineForm::Cached{a.tensor, s, i});
    }
    return true;
  }

  // Some stage reads its rows' elements side by side, and none those of a line.
  bool rows_are_neighbours() const {
    bool rows = false;
    for (size_t s = 0; s < kernel_.stages.size(); ++s) {
      const IdVector<RowId, IteratorId>& loops = kernel_.stages[s].rows;
      if (f_.lines[s].iterators.empty() || loops.empty()) continue;
      for (const Access& load : piece(s).loads) {
        int64_t along = std::abs(stride_of(load, f_.lines[s].iterators.back(), kernel_));
        if (along == 1) return false;
        size_t row = loops[RowId(loops.size() - 1)].index();
        rows = rows || (along > 1 && std::abs(stride_of(load, row, kernel_)) == 1);
      }
    }
    return rows;
  }

  // The stage with loops of its own that stage s runs in.
  size_t loops_of(size_t s) const {
    while (kernel_.stages[s].attach.valid()) s = kernel_.stages[s].attach.index();
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
  std::vector<IdVector<IteratorId, int>> codes_;  // by stage
  std::map<TensorId, Signature> made_, read_as_;
  std::map<TensorId, std::set<size_t>> readers_;
  std::map<TensorId, LineForm::Cached> first_read_;
  std::set<TensorId> spoiled_;
};

int64_t words_of(TensorId id, const Kernel& kernel) {
  auto bytes = static_cast<int64_t>(byte_size(kernel.tensors[id].type));
  return std::max<int64_t>(1, bytes / 4);
}

}  // namespace

std::optional<LineForm> line_form(const Kernel& kernel) {
  if (row_loops(kernel) == 0) return std::nullopt;
  return LineFinder(kernel).find();
}

int64_t cells_of_a_lane(const LineForm& f, const GpuLines& g) {
  return ceil_div(ceil_div(f.count, g.vector), g.lanes * g.blocks) * g.vector;
}

int64_t words_of_a_cell(const LineForm& f, const Kernel& kernel) {
  std::vector<int64_t> held(kernel.stages.size() + 1);  // before each stage, and behind the last
  auto hold = [&](TensorId id, bool from_the_start) {
    size_t begin = from_the_start ? 0 : held.size(), end = 0;
    for (size_t s = 0; s < kernel.stages.size(); ++s) {
      StageId host = kernel.stages[s].attach;
      size_t time = host.valid() ? host.index() : s;
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

int64_t most_registers(const LineForm& f, const GpuLines& g, const Kernel& kernel) {
  int64_t words = 0;
  for (TensorId id : f.kept) words += words_of(id, kernel);
  for (const LineForm::Cached& c : f.cached) words += words_of(c.tensor, kernel);
  return words * cells_of_a_lane(f, g) + kOtherLineRegisters;
}

}  // namespace tile::gpu
