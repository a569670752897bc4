// Cells that no piece stores: they hold another tensor's values or zero.
#include <algorithm>
#include <iterator>
#include <set>

#include "core/kernel/coverage.h"
#include "core/lower/piece/lowering.h"

namespace tile::lowering {
namespace {

nest::Store fill_store(Frame& frame, TensorId tensor, std::optional<TensorId> from,
                       const std::vector<Expr>& index) {
  nest::Store store;
  store.target.buffer = frame.buffer_of.at(tensor);
  store.target.index = frame.buffer_index(tensor, index);
  DType type = frame.tensor(tensor).type;
  if (from) {
    nest::Access read;
    read.buffer = frame.buffer_of.at(*from);
    read.index = frame.buffer_index(*from, index);
    store.loads = {read};
    store.body.results = {store.body.load(0, type)};
  } else if (is_float(type)) {
    store.body.results = {store.body.real(0, type)};
  } else {
    store.body.results = {store.body.integer(0, type)};
  }
  return store;
}

// One task for each group of neighbours, over all cells.
nest::Block fill_tasks(Frame& frame, TensorId tensor, std::optional<TensorId> from) {
  const BoundTensor& t = frame.tensor(tensor);
  int64_t fastest = t.shape.empty() ? 1 : t.shape.back(), vector = 1;
  while (vector < 4 && fastest % (2 * vector) == 0) vector *= 2;
  std::vector<Expr> index(t.shape.size());
  std::function<nest::Block(size_t, const Expr&)> digit = [&](size_t left, const Expr& rest) {
    if (left == 0) {
      return vector_lanes("lane", vector, [&](const Expr& lane) {
        std::vector<Expr> at = index;
        if (!at.empty()) at.back() = tidy(at.back() + lane);
        return nest::Block{statement(fill_store(frame, tensor, from, at))};
      });
    }
    bool last = left == t.shape.size();
    int64_t extent = t.shape[left - 1] / (last ? vector : 1);
    Expr value = left == 1 ? rest : floor_mod(rest, Expr(extent));
    std::string name = "f" + std::to_string(left);
    return bound_to(name, value, [&](const Expr& v) {
      index[left - 1] = last ? tidy(Expr(vector) * v) : v;
      if (left == 1) return digit(0, 0);
      return bound_to(name + "r", floor_div(rest, Expr(extent)),
                      [&](const Expr& q) { return digit(left - 1, q); });
    });
  };
  nest::For loop = make_loop("task", 0, element_count(t.shape) / vector, nest::LoopKind::parallel);
  loop.body = digit(t.shape.size(), Expr::variable("task"));
  return {statement(std::move(loop))};
}

constexpr size_t kMostRuns = 8;

// Neighbours along one dimension that pieces store, or that none does.
struct Run {
  int64_t begin = 0, end = 0;
  bool stored = false;
};
// By dimension: exactly the cells whose every index is in a stored run are stored.
using Runs = std::vector<std::vector<Run>>;

// The indices of one dimension that a piece stores: first, first + step …
struct Progression {
  int64_t first = 0, step = 1, count = 0;  // step > 0
  int64_t last() const { return first + step * (count - 1); }
  bool has(int64_t i) const { return i >= first && i <= last() && (i - first) % step == 0; }
};
using Progressions = std::vector<Progression>;

// Adds, by dimension, which indices the piece stores and gives the number of its cells; nullopt:
// they are not all combinations of those.
std::optional<int64_t> add_stored(const Piece& piece, const Access& store,
                                  std::vector<Progressions>& stored) {
  std::vector<int> uses(piece.parallel_dims);
  int64_t cells = 1;
  for (size_t d = 0; d < stored.size(); ++d) {
    const Affine& form = store.index[d].affine;
    if (store.index[d].value >= 0 || !form.is_integral()) return std::nullopt;
    Progression p{form.constant.num(), 1, 1};
    bool named = false;
    for (size_t u = 0; u < piece.box.size(); ++u) {
      if (form.coefficient(u).is_zero()) continue;
      if (named || u >= piece.parallel_dims || ++uses[u] > 1) return std::nullopt;
      named = true;
      p.step = form.coefficient(u).num();
      p.count = piece.box[u];
    }
    if (p.step < 0) p = {p.last(), -p.step, p.count};
    if (p.count > 0) stored[d].push_back(p);
    cells = checked_mul(cells, p.count);
  }
  for (size_t u = 0; u < piece.parallel_dims; ++u) {
    if (uses[u] == 0 && piece.box[u] != 1) return std::nullopt;
  }
  return cells;
}

void append_run(std::vector<Run>& runs, const Run& run) {
  if (runs.empty() || runs.back().stored != run.stored) {
    runs.push_back(run);
  } else {
    runs.back().end = run.end;
  }
}

// Appends what is stored of [begin, end), inside which no progression begins or ends: the pattern
// of their steps repeats. False: in more runs than are wanted.
bool append_runs(const Progressions& stored, int64_t begin, int64_t end, std::vector<Run>& runs) {
  constexpr int64_t kLongestPattern = 1 << 12;
  int64_t pattern = 1;
  bool any = false, all = false;
  for (const Progression& p : stored) {
    if (p.first > begin || p.last() < end - 1) continue;
    any = true;
    all = all || p.step == 1;
    if (pattern <= kLongestPattern) pattern = lcm(pattern, p.step);
  }
  if (!any || all) {
    append_run(runs, {begin, end, all});
    return true;
  }
  int64_t looked = std::min(pattern, end - begin);
  if (looked > kLongestPattern) return false;
  auto is_stored = [&](int64_t i) {
    return std::any_of(stored.begin(), stored.end(), [&](const auto& p) { return p.has(i); });
  };
  bool whole = true;
  for (int64_t i = begin; i < begin + looked; ++i) whole = whole && is_stored(i);
  if (whole) {
    append_run(runs, {begin, end, true});
    return true;
  }
  for (int64_t i = begin; i < end && runs.size() <= kMostRuns; ++i) {
    append_run(runs, {i, i + 1, is_stored(i)});
  }
  return runs.size() <= kMostRuns;
}

// Of a dimension, however long; empty: more runs than are wanted.
std::vector<Run> runs_of(const Progressions& stored, int64_t extent) {
  std::set<int64_t> ends{0, extent};
  for (const Progression& p : stored) ends.insert({p.first, p.last() + 1});
  std::vector<Run> runs;
  for (auto at = ends.begin(); std::next(at) != ends.end(); ++at) {
    if (!append_runs(stored, *at, *std::next(at), runs) || runs.size() > kMostRuns) return {};
  }
  return runs;
}

// Where the stored cells of an output are all combinations of some indices of each dimension;
// empty: it is not so.
Runs stored_runs(const Contraction& c, TensorId tensor, const Shape& shape) {
  if (std::count(c.outputs.begin(), c.outputs.end(), tensor) != 1) return {};
  size_t output = 0;
  while (c.outputs[output] != tensor) ++output;
  std::vector<Progressions> stored(shape.size());
  int64_t cells = 0, combinations = 1;
  for (const Piece& piece : c.pieces) {
    if (!stores_all_parallel_dims(c, piece)) return {};
    auto count = add_stored(piece, piece.stores[output], stored);
    if (!count) return {};
    cells = checked_add(cells, *count);
  }
  Runs runs;
  for (size_t d = 0; d < shape.size(); ++d) {
    runs.push_back(runs_of(stored[d], shape[d]));
    if (runs.back().empty()) return {};
    int64_t indices = 0;
    for (const Run& r : runs.back()) indices += r.stored ? r.end - r.begin : 0;
    combinations = checked_mul(combinations, indices);
  }
  return cells == combinations ? runs : Runs{};
}

// The cells outside the stored runs, vectors along the last dimension.
class Filling {
 public:
  Filling(Frame& frame, TensorId tensor, std::optional<TensorId> from, Runs runs)
      : frame_(frame),
        tensor_(tensor),
        from_(from),
        shape_(frame.tensor(tensor).shape),
        width_(frame.target.vector_bits / bit_width(frame.tensor(tensor).type)),
        runs_(std::move(runs)) {
    cells_ = filled(0, !runs_.empty());
  }

  nest::Block block() { return dimension(0, {}, !runs_.empty()); }

 private:
  // Cells from dimension d on that are filled, each run at least a vector: a few cells of a row
  // take as long as a line.
  int64_t filled(size_t d, bool stored) const {
    if (d == shape_.size()) return 1;
    int64_t cells = 0;
    for (const Run& run : stored ? runs_[d] : std::vector<Run>{{0, shape_[d], false}}) {
      bool inside = stored && run.stored;
      if (inside && !open_behind(d)) continue;
      int64_t count = run.end - run.begin;
      bool last = d + 1 == shape_.size();
      cells += last ? std::max(count, width_) : checked_mul(count, filled(d + 1, inside));
    }
    return cells;
  }
  // `stored`: the indices so far are in stored runs.
  nest::Block dimension(size_t d, const std::vector<Expr>& index, bool stored) {
    if (d == shape_.size()) return {statement(fill_store(frame_, tensor_, from_, index))};
    std::vector<Run> all{{0, shape_[d], false}};
    nest::Block out;
    for (const Run& run : stored ? runs_[d] : all) {
      bool inside = stored && run.stored;
      if (inside && !open_behind(d)) continue;
      append(out, d + 1 == shape_.size() ? vectors(run, index) : loop(d, run, index, inside));
    }
    return out;
  }
  // Whether some index of a dimension behind is not stored.
  bool open_behind(size_t d) const {
    return std::any_of(runs_.begin() + static_cast<std::ptrdiff_t>(d) + 1, runs_.end(),
                       [](const std::vector<Run>& dimension) {
                         return std::any_of(dimension.begin(), dimension.end(),
                                            [](const Run& r) { return !r.stored; });
                       });
  }
  nest::Block loop(size_t d, const Run& run, std::vector<Expr> index, bool stored) {
    Expr v = Expr::variable("f" + std::to_string(d));
    bool parallel = d == 0 && run.end - run.begin > 1 && cells_ > 1 << 20;
    nest::For loop = make_loop(v.name(), run.begin, run.end - run.begin,
                               parallel ? nest::LoopKind::parallel : nest::LoopKind::serial);
    if (parallel) loop.grain = std::max<int64_t>(1, shape_[d] * (1 << 16) / cells_);
    index.push_back(v);
    loop.body = dimension(d + 1, index, stored);
    return {statement(std::move(loop))};
  }
  nest::Block vectors(const Run& run, const std::vector<Expr>& index) {
    int64_t full = (run.end - run.begin) / width_, rest = (run.end - run.begin) % width_;
    nest::Block out;
    if (full > 0) {
      nest::For loop = make_loop("chunk", 0, full, nest::LoopKind::serial);
      Expr first = tidy(Expr(run.begin) + Expr(width_) * Expr::variable("chunk"));
      loop.body = {lanes(index, first, width_)};
      out.push_back(statement(std::move(loop)));
    }
    if (rest > 0) out.push_back(lanes(index, run.begin + full * width_, rest));
    return out;
  }
  nest::Statement lanes(std::vector<Expr> index, const Expr& first, int64_t extent) {
    nest::For loop = make_loop("lane", 0, extent, nest::LoopKind::vector);
    loop.width = width_;
    index.push_back(tidy(first + Expr::variable("lane")));
    loop.body = {statement(fill_store(frame_, tensor_, from_, index))};
    return statement(std::move(loop));
  }

  Frame& frame_;
  TensorId tensor_;
  std::optional<TensorId> from_;
  const Shape shape_;
  int64_t width_, cells_ = 0;
  Runs runs_;
};

}  // namespace

nest::Block fill(Frame& frame, TensorId tensor, const Contraction& c) {
  const Shape& shape = frame.tensor(tensor).shape;
  if (element_count(shape) == 0) return {};
  if (is_gpu(frame.target)) return fill_tasks(frame, tensor, c.fill);
  return Filling(frame, tensor, c.fill, stored_runs(c, tensor, shape)).block();
}

}  // namespace tile::lowering
