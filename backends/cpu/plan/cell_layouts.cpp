// Which register buffers can be cut into cells: every access must name its cell by constants of
// written-out loops and its lane by the vector loop, in whole vectors. The others live in memory.
#include <algorithm>
#include <map>

#include "backends/cpu/plan/plan.h"
#include "core/simplify/simplify.h"
#include "core/support/checked.h"

namespace tile::cpu {
namespace {

constexpr int64_t kCellLimit = 1024;
constexpr const char* kLane = "#lane";

class Layouts {
 public:
  explicit Layouts(const nest::Nest& nest) : nest_(nest), of_(nest.buffers.size()) {
    for (nest::BufferId id : of_.ids()) {
      of_[id].possible = nest.buffers[id].scope == nest::Scope::registers;
    }
  }

  IdVector<nest::BufferId, std::optional<CellLayout>> run() {
    block(nest_.body);
    IdVector<nest::BufferId, std::optional<CellLayout>> result;
    for (nest::BufferId id : of_.ids()) {
      result.emplace_back();
      const State& state = of_[id];
      if (!state.possible) continue;
      CellLayout layout{state.dimension, state.dimension < 0 ? 1 : state.width, state.loose};
      if (count(nest_.buffers[id], layout) <= kCellLimit) result.back() = layout;
    }
    return result;
  }

 private:
  // An access by a vector loop: how many lanes it has, and between which cells of each dimension.
  struct LaneAccess {
    int64_t lanes = 0;
    std::vector<ConstantRange> cells;
  };
  struct State {
    bool possible = false;
    int dimension = -1;
    int64_t width = 0;
    bool loose = true;
    std::vector<LaneAccess> accesses;  // since the buffer's last Alloc
  };

  static int64_t count(const nest::Buffer& b, const CellLayout& layout) {
    int64_t cells = 1;
    for (size_t d = 0; d < b.shape.size(); ++d) {
      bool lanes = static_cast<int>(d) == layout.lane_dimension;
      int64_t n = lanes ? ceil_div(b.shape[d], layout.width) : b.shape[d];
      if (n > kCellLimit || (cells *= n) > kCellLimit) return kCellLimit + 1;
    }
    return cells;
  }

  void block(const nest::Block& statements) {
    for (const nest::Statement& s : statements) {
      std::visit([&](const auto& what) { statement(what); }, s.what);
    }
  }
  void statement(const nest::For& f) {
    Expr begin = substitute(f.begin, known_);
    bool vector = f.kind == nest::LoopKind::vector;
    if (vector) lanes_ = f.extent.is_constant() ? f.extent.value() : 0;
    if (vector && lanes_of(f) > 1) {
      known_[f.variable] = begin + Expr::variable(kLane);
      width_ = static_cast<int64_t>(lanes_of(f));
    } else if (vector) {
      known_[f.variable] = begin;
    } else if (writes_out(f)) {
      known_[f.variable] = begin + Expr::variable("#" + f.variable);
      ranges_.set("#" + f.variable, 0, f.extent - 1);
    }  // other loops' variables keep their names
    block(f.body);
    known_.erase(f.variable);
    if (vector) width_ = 0;
  }
  void statement(const nest::If& i) {
    for (const nest::Access& a : i.loads) access(a);
    block(i.then);
    block(i.otherwise);
  }
  void statement(const nest::Store& s) {
    for (const nest::Access& a : s.loads) access(a);
    access(s.target);
  }
  void statement(const nest::Alloc& a) { of_[a.buffer].accesses.clear(); }
  void statement(const nest::Sync&) {}
  void statement(const nest::Copy&) {}
  void statement(const nest::MatrixTile&) {}
  void statement(const nest::MatrixMove&) {}

  void access(const nest::Access& a) {
    State& state = of_[a.buffer];
    if (!state.possible) return;
    for (size_t d = 0; d < a.index.size(); ++d) {
      bool by_value = d < a.values.size() && a.values[d] >= 0;
      if (by_value || !fits(state, static_cast<int>(d), substitute(a.index[d], known_))) {
        state.possible = false;
      }
    }
    if (state.possible && state.loose) state.loose = keeps_apart(state, a);
  }

  // Whether loops with other numbers of lanes stay away from the cells of this access.
  bool keeps_apart(State& state, const nest::Access& a) const {
    LaneAccess now{lanes_, {}};
    bool lanes = false;
    for (size_t d = 0; d < a.index.size(); ++d) {
      Expr index = substitute(a.index[d], known_);
      lanes = lanes || uses_variable(index, kLane);
      now.cells.push_back(constant_range(index, ranges_));
    }
    if (!lanes || lanes_ == 0) return false;
    auto apart = [&](const LaneAccess& before) {
      if (before.lanes == now.lanes) return true;
      for (size_t d = 0; d < now.cells.size(); ++d) {
        const ConstantRange &x = before.cells[d], &y = now.cells[d];
        if (static_cast<int>(d) == state.dimension || !x.lo || !x.hi || !y.lo || !y.hi) continue;
        if (*x.hi < *y.lo || *y.hi < *x.lo) return true;
      }
      return false;
    };
    if (!std::all_of(state.accesses.begin(), state.accesses.end(), apart)) return false;
    state.accesses.push_back(std::move(now));
    return true;
  }

  bool fits(State& state, int dimension, const Expr& index) const {
    std::vector<std::string> names;
    collect_variables(index, names);
    bool lanes = false;
    for (const std::string& name : names) {
      if (name[0] != '#') return false;
      lanes = lanes || name == kLane;
    }
    if (!lanes) return true;
    if (state.dimension >= 0 && (state.dimension != dimension || state.width != width_)) {
      return false;
    }
    state.dimension = dimension;
    state.width = width_;
    return is_whole_vector(index);
  }

  bool is_whole_vector(const Expr& index) const {
    std::optional<LinearForm> form = linear_form(index);
    if (!form || form->terms[kLane] != 1 || form->constant % width_ != 0) return false;
    for (const auto& [name, factor] : form->terms) {
      if (name != kLane && factor % width_ != 0) return false;
    }
    return true;
  }

  const nest::Nest& nest_;
  IdVector<nest::BufferId, State> of_;
  std::map<std::string, Expr> known_;
  Ranges ranges_;
  int64_t width_ = 0;
  int64_t lanes_ = 0;  // that are on in the vector loop; 0: not constant
};

}  // namespace

IdVector<nest::BufferId, std::optional<CellLayout>> cell_layouts(const nest::Nest& nest) {
  return Layouts(nest).run();
}

}  // namespace tile::cpu
