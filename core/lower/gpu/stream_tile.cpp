#include "core/lower/gpu/stream_tile.h"

#include "core/kernel/coverage.h"
#include "core/lower/context/constraints.h"

namespace tile::lowering {

using nest::Block;
using nest::LoopKind;

namespace {

Expr first_value(const Affine& form, const State& s) {
  Expr sum = form.constant.num();
  for (size_t u = 0; u < form.coefficients.size(); ++u) {
    if (!form.coefficients[u].is_zero()) {
      sum = sum + Expr(form.coefficients[u].num()) * s.at[u].begin();
    }
  }
  return tidy(sum);
}

}  // namespace

StreamTile::StreamTile(Frame& frame, const Schedule& schedule)
    : frame_(frame),
      g_(*schedule.gpu_stream),
      form_(*gpu::stream_form(frame.kernel)),
      first_(frame, 0, 0, schedule.stages[0][0]),
      values_(frame, form_, first_.parts().values) {}

nest::BufferId StreamTile::add(const char* name, DType type, nest::Scope scope, int64_t rows,
                               int64_t columns) {
  buffers_.push_back(frame_.add_buffer(name, type, scope, {rows, columns}));
  return buffers_.back();
}

// The blocks of one row follow each other: they read the same keys. Those that visit most columns
// begin first. Where threads multiply, keys are read slowly, and these blocks of all rows come
// first: else the multiprocessors would end at different times (causal, 256 tiles: [H200] 63 % of
// them were busy on average).
int64_t StreamTile::place_block(Definitions& d) {
  const KernelStage& first = frame_.kernel.stages[0];
  std::vector<int64_t> counts;
  for (RowId r : first.rows.ids()) {
    if (r != form_.row) counts.push_back(piece(0).box[first.rows[r]]);
  }
  int64_t of_row = ceil_div(form_.rows, g_.rows);
  counts.insert(form_.by_threads() ? counts.begin() : counts.end(), of_row);
  int64_t tiles = 1;
  for (int64_t n : counts) tiles = checked_mul(tiles, n);
  std::vector<Expr> digits = d.digits(Expr::variable("tile"), counts);
  Expr block = form_.by_threads() ? digits.front() : digits.back();
  size_t next = form_.by_threads() ? 1 : 0;
  for (RowId r : first.rows.ids()) {
    values_.place_row(r, r == form_.row ? Expr(0) : digits[next++]);
  }
  std::vector<int64_t> blocks(first.rows.size() + 1, 1);
  blocks[form_.row.index()] = g_.rows;
  blocks.back() = g_.columns;
  auto ends = stream_bounds(frame_.kernel, blocks);
  bool grows = !ends.empty() && ends[0][0].rows[form_.row.index()] > 0;
  if (grows) block = tidy(Expr(of_row - 1) - block);
  values_.place_row(form_.row, tidy(Expr(g_.rows) * block));
  bound_steps(ends, stream_begins(frame_.kernel, blocks), d);
  return tiles;
}

Expr StreamTile::bound_value(const StreamBound& b) const {
  Expr value = b.constant;
  for (size_t r = 0; r < b.rows.size(); ++r) {
    if (b.rows[r] != 0) value = value + Expr(b.rows[r]) * values_.row_at(RowId(r));
  }
  return tidy(value);
}
// The first and the last column that some row of the block needs, of all sums.
void StreamTile::bound_steps(const std::vector<std::vector<StreamBound>>& ends,
                             const std::vector<std::vector<StreamBound>>& begins, Definitions& d) {
  first_step_ = 0;
  Expr end = ceil_div(form_.columns, g_.columns);
  // All sums have the maximum's conditions.
  if (!ends.empty()) {
    Expr last = form_.columns - 1;
    for (const StreamBound& b : ends[0]) {
      last = min(last, floor_div(bound_value(b), Expr(b.divisor)));
    }
    end = d.define(floor_div(d.define(last), Expr(g_.columns)) + Expr(1));
  }
  if (!begins.empty()) {
    Expr least = 0;
    for (const StreamBound& b : begins[0]) {
      least = max(least, floor_div(tidy(bound_value(b) + Expr(b.divisor - 1)), Expr(b.divisor)));
    }
    first_step_ = d.define(floor_div(d.define(least), Expr(g_.columns)));
  }
  steps_ = tidy(end - first_step_);
}

// Lines of a factor from the given values of the iterators on.
nest::Copy StreamTile::copy(size_t stage, const gpu::StreamedFactor& f, nest::BufferId to,
                            int64_t lines, const Expr& row, const Expr& column) const {
  const Access& access = piece(stage).loads[f.load];
  nest::Copy c;
  c.to = to;
  c.from = frame_.buffer_of.at(access.tensor);
  c.limit = f.limit;
  c.extent.assign(access.index.size(), 1);
  c.stride.assign(access.index.size(), 1);
  State s = values_.state(stage, row, column, Expr(0));
  for (const Index& index : access.index) {
    c.origin.push_back(first_value(index.affine, s));
  }
  auto span = [&](IteratorId iterator, int64_t extent) {
    size_t d = 0;
    while (access.index[d].affine.coefficient(iterator).is_zero()) ++d;
    c.extent[d] = extent;
    c.stride[d] = access.index[d].affine.coefficient(iterator).num();
    return d;
  };
  size_t line = span(f.line, lines), inner = span(f.inner, gpu::multiplied_elements(f.extent));
  for (size_t d = 0; d < access.index.size(); ++d) {
    if (d != line && d != inner) c.order.push_back(d);
  }
  c.order.push_back(line);
  c.order.push_back(inner);
  return c;
}

Block StreamTile::rows(const RowBody& inside) const {
  return looped("row", 0, g_.rows, LoopKind::thread, inside);
}
Block StreamTile::cells(int64_t columns, const CellBody& inside) const {
  return rows([&](const Expr& row) {
    return looped("column", 0, columns, LoopKind::thread,
                  [&](const Expr& column) { return inside(row, column); });
  });
}
Block StreamTile::along(const Expr& row, const CellBody& inside) const {
  return looped("column", 0, g_.columns, LoopKind::serial,
                [&](const Expr& column) { return inside(row, column); });
}

nest::Access at(nest::BufferId buffer, const Expr& row, const Expr& column) {
  return {buffer, {row, column}, {}};
}
nest::Access at(nest::BufferId buffer, const Expr& row) { return at(buffer, row, Expr(0)); }
nest::Statement store(nest::Access target, Value value, nest::StoreKind kind) {
  nest::Store s;
  s.target = std::move(target);
  s.kind = kind;
  settle(s, std::move(value));
  return statement(std::move(s));
}
Value number(double x) {
  Value v;
  v.body.results = {v.body.real(x, DType::f32)};
  return v;
}
Value element(nest::Access access) {
  Value v;
  v.loads = {std::move(access)};
  v.body.results = {v.body.load(0, DType::f32)};
  return v;
}

// Conditions that are all >= 0 exactly where the cell has a point.
std::vector<Expr> StreamTile::conditions_at(const Expr& row, const Expr& column) const {
  State s = values_.exact_state(form_.bounded(), row, column);
  std::vector<Expr> all;
  for (const Constraint& c : piece(form_.bounded()).constraints) {
    std::vector<Expr> more = conditions(OpenNumbers().condition(c, piece(form_.bounded())),
                                        [&](const Affine& form) { return first_value(form, s); });
    all.insert(all.end(), more.begin(), more.end());
  }
  if (form_.columns % g_.columns != 0) {
    all.push_back(tidy(Expr(form_.columns - 1) - values_.column_begin() - column));
  }
  return all;
}
// Conditions that are all >= 0 where every cell of the block has one: each at its least.
std::vector<Expr> StreamTile::whole_block() const {
  std::vector<Expr> all;
  for (const Expr& e : conditions_at(Expr::variable("row"), Expr::variable("column"))) {
    std::optional<LinearForm> form = linear_form(e);
    internal_check(form.has_value(), "lower: a condition of a stream that is not linear");
    for (auto [name, last] :
         {std::pair<const char*, int64_t>{"row", g_.rows - 1}, {"column", g_.columns - 1}}) {
      auto term = form->terms.find(name);
      if (term == form->terms.end()) continue;
      form->constant += std::min<int64_t>(term->second, 0) * last;
      form->terms.erase(term);
    }
    all.push_back(from_linear(*form));
  }
  return all;
}
// What is done for a cell, tested in blocks that have cells without a point.
Block StreamTile::tested(const std::function<Block(bool tests)>& make) const {
  std::vector<Expr> whole = whole_block();
  if (whole.empty()) return make(false);
  nest::If choice;
  choice.nonnegative = std::move(whole);
  choice.then = make(false);
  choice.otherwise = make(true);
  return {statement(std::move(choice))};
}

Block StreamTile::stored_results(size_t tile, int64_t columns, int64_t extent) const {
  std::vector<size_t> stages = values_.stored_in(tile);
  if (stages.empty()) return {};
  auto inside = [&](const Expr& row, const Expr& column) {
    std::vector<Expr> tests;
    if (form_.rows % g_.rows != 0) {
      tests.push_back(tidy(Expr(form_.rows - 1) - values_.row_begin() - row));
    }
    if (extent != columns) tests.push_back(tidy(Expr(extent - 1) - column));
    Block all;
    for (size_t s : stages) all.push_back(values_.stored(s, row, column));
    return only_if(std::move(tests), std::move(all));
  };
  if (columns == 1) return rows([&](const Expr& row) { return inside(row, Expr(0)); });
  return cells(columns, inside);
}

}  // namespace tile::lowering
