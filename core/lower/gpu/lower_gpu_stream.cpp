// Nests of kernels with a streamed axis on a GPU: a block has some rows; blocks of columns are
// copied to shared memory and pass by. Scores are a product on tensor cores, weights are made of
// them in registers, and are a factor of the next product as they are there.
#include <algorithm>
#include <limits>

#include "core/kernel/coverage.h"
#include "core/kernel/forms/gpu_stream.h"
#include "core/kernel/stream.h"
#include "core/lower/context/constraints.h"
#include "core/lower/gpu/definitions.h"
#include "core/lower/gpu/gpu_lowering.h"
#include "core/lower/gpu/stream_values.h"

namespace tile::lowering {

using gpu::StreamedFactor;
using gpu::StreamForm;
using nest::Block;
using nest::LoopKind;

namespace {

constexpr double kLeast = -std::numeric_limits<double>::infinity();

class GpuStreamLowering {
 public:
  GpuStreamLowering(Frame& frame, const Schedule& schedule)
      : frame_(frame),
        g_(*schedule.gpu_stream),
        form_(*gpu::stream_form(frame.kernel)),
        first_(frame, 0, 0, schedule.stages[0][0]),
        values_(frame, form_, first_.parts().values) {}

  Block run() {
    make_buffers();
    Definitions d("tile");
    int64_t tiles = place_block(d);
    Block inside;
    for (nest::BufferId id : buffers_) inside.push_back({nest::Alloc{id}});
    inside.push_back({copy(0, form_.query, query_, g_.rows, values_.row_begin(), Expr(0))});
    append(inside, begin());
    inside.push_back(statement(steps()));
    append(inside, finish());
    nest::For grid = make_loop("tile", 0, tiles, LoopKind::grid);
    grid.body = d.around(std::move(inside));
    return {statement(std::move(grid))};
  }

 private:
  const Piece& piece(size_t s) const { return frame_.kernel.stages[s].contraction.pieces[0]; }
  nest::BufferId add(const char* name, DType type, nest::Scope scope, int64_t rows,
                     int64_t columns) {
    buffers_.push_back(frame_.add_buffer(name, type, scope, {rows, columns}));
    return buffers_.back();
  }
  nest::BufferId fragment(const char* name, int64_t columns, DType type = DType::f32) {
    return add(name, type, nest::Scope::fragment, g_.rows, columns);
  }
  nest::BufferId shared(const char* name, int64_t lines, int64_t extent) {
    return add(name, form_.type, nest::Scope::shared, lines, gpu::multiplied_elements(extent));
  }

  void make_buffers() {
    query_ = shared("query", g_.rows, form_.query.extent);
    key_ = shared("key", g_.columns, form_.key.extent);
    values_.scores = scores_ = fragment("score", g_.columns);
    values_.maximum = maximum_ = fragment("maximum", 1);
    before_ = fragment("before", 1);
    factor_ = fragment("factor", 1);
    values_.weights = weights_ = fragment("weight", g_.columns);
    for (const StreamForm::Sum& sum : form_.sums) {
      Sum s{&sum};
      if (sum.column.valid()) {
        s.columns = gpu::multiplied_elements(sum.value.extent);
        s.narrow = fragment("narrow", g_.columns, form_.type);
        s.value = shared("value", g_.columns, sum.value.extent);
      }
      s.buffer = fragment("sum", s.columns);
      values_.sums[sum.stage] = s.buffer;
      sums_.push_back(s);
    }
  }

  // The blocks of one row follow each other: they read the same keys. Those that visit most columns
  // begin first.
  int64_t place_block(Definitions& d) {
    const KernelStage& first = frame_.kernel.stages[0];
    std::vector<int64_t> counts;
    for (RowId r : first.rows.ids()) {
      if (r != form_.row) counts.push_back(piece(0).box[first.rows[r]]);
    }
    counts.push_back(ceil_div(form_.rows, g_.rows));
    int64_t tiles = 1;
    for (int64_t n : counts) tiles = checked_mul(tiles, n);
    std::vector<Expr> digits = d.digits(Expr::variable("tile"), counts);
    size_t next = 0;
    for (RowId r : first.rows.ids()) {
      values_.place_row(r, r == form_.row ? Expr(0) : digits[next++]);
    }
    std::vector<int64_t> blocks(first.rows.size() + 1, 1);
    blocks[form_.row.index()] = g_.rows;
    blocks.back() = g_.columns;
    auto ends = stream_bounds(frame_.kernel, blocks);
    bool grows = !ends.empty() && ends[0][0].rows[form_.row.index()] > 0;
    Expr block = grows ? tidy(Expr(counts.back() - 1) - digits.back()) : digits.back();
    values_.place_row(form_.row, tidy(Expr(g_.rows) * block));
    bound_steps(ends, stream_begins(frame_.kernel, blocks), d);
    return tiles;
  }

  Expr bound_value(const StreamBound& b) const {
    Expr value = b.constant;
    for (size_t r = 0; r < b.rows.size(); ++r) {
      if (b.rows[r] != 0) value = value + Expr(b.rows[r]) * values_.row_at(RowId(r));
    }
    return tidy(value);
  }
  // The first and the last column that some row of the block needs, of all sums.
  void bound_steps(const std::vector<std::vector<StreamBound>>& ends,
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
  nest::Copy copy(size_t stage, const StreamedFactor& f, nest::BufferId to, int64_t lines,
                  const Expr& row, const Expr& column) const {
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
  static Expr first_value(const Affine& form, const State& s) {
    Expr sum = form.constant.num();
    for (size_t u = 0; u < form.coefficients.size(); ++u) {
      if (!form.coefficients[u].is_zero()) {
        sum = sum + Expr(form.coefficients[u].num()) * s.at[u].begin();
      }
    }
    return tidy(sum);
  }

  using CellBody = std::function<Block(const Expr& row, const Expr& column)>;
  using RowBody = std::function<Block(const Expr& row)>;
  Block rows(const RowBody& inside) const {
    return looped("row", 0, g_.rows, LoopKind::thread, inside);
  }
  Block cells(int64_t columns, const CellBody& inside) const {
    return rows([&](const Expr& row) {
      return looped("column", 0, columns, LoopKind::thread,
                    [&](const Expr& column) { return inside(row, column); });
    });
  }
  // A row's columns one after the other.
  Block along(const Expr& row, const CellBody& inside) const {
    return looped("column", 0, g_.columns, LoopKind::serial,
                  [&](const Expr& column) { return inside(row, column); });
  }
  static nest::Access at(nest::BufferId buffer, const Expr& row, const Expr& column) {
    return {buffer, {row, column}, {}};
  }
  static nest::Access at(nest::BufferId buffer, const Expr& row) {
    return at(buffer, row, Expr(0));
  }
  static nest::Statement store(nest::Access target, Value value,
                               nest::StoreKind kind = nest::StoreKind::assign) {
    nest::Store s;
    s.target = std::move(target);
    s.kind = kind;
    settle(s, std::move(value));
    return statement(std::move(s));
  }
  static Value number(double x) {
    Value v;
    v.body.results = {v.body.real(x, DType::f32)};
    return v;
  }
  static Value element(nest::Access access) {
    Value v;
    v.loads = {std::move(access)};
    v.body.results = {v.body.load(0, DType::f32)};
    return v;
  }

  Block begin() const {
    Block out = rows([&](const Expr& row) {
      Block all{store(at(maximum_, row), number(kLeast))};
      for (const Sum& s : sums_) {
        if (!s.sum->column.valid()) all.push_back(store(at(s.buffer, row), number(0)));
      }
      return all;
    });
    for (const Sum& s : sums_) {
      if (!s.sum->column.valid()) continue;
      append(out, cells(s.columns, [&](const Expr& row, const Expr& column) {
               return Block{store(at(s.buffer, row, column), number(0))};
             }));
    }
    return out;
  }

  nest::For steps() {
    nest::For loop = make_loop("step", first_step_, steps_, LoopKind::serial);
    loop.pipeline = g_.stages;
    Expr column = tidy(Expr(g_.columns) * Expr::variable("step"));
    values_.place_columns(column);
    loop.body.push_back({copy(0, form_.key, key_, g_.columns, Expr(0), column)});
    for (const Sum& s : sums_) {
      if (!s.sum->column.valid()) continue;
      loop.body.push_back({copy(s.sum->stage, s.sum->value, s.value, g_.columns, Expr(0), column)});
    }
    append(loop.body, score());
    append(loop.body, raise_maximum());
    append(loop.body, weigh());
    append(loop.body, add_up());
    return loop;
  }

  Block score() {
    Block out = cells(g_.columns, [&](const Expr& row, const Expr& column) {
      return Block{store(at(scores_, row, column), number(0))};
    });
    nest::MatrixTile multiply;
    multiply.sum = scores_;
    multiply.a = query_;
    multiply.b = key_;
    multiply.b_transposed = true;
    out.push_back({multiply});
    std::optional<TensorId> used = values_.only_score();
    if (!used) return out;
    append(out, cells(g_.columns, [&](const Expr& row, const Expr& column) {
             return Block{store(at(scores_, row, column), values_.widened(*used, row, column))};
           }));
    values_.know_score(*used);
    return out;
  }

  // Conditions that are all >= 0 exactly where the cell has a point.
  std::vector<Expr> conditions_at(const Expr& row, const Expr& column) const {
    State s = values_.exact_state(form_.running, row, column);
    std::vector<Expr> all;
    for (const Constraint& c : piece(form_.running).constraints) {
      std::vector<Expr> more = conditions(OpenNumbers().condition(c, piece(form_.running)),
                                          [&](const Affine& form) { return first_value(form, s); });
      all.insert(all.end(), more.begin(), more.end());
    }
    if (form_.columns % g_.columns != 0) {
      all.push_back(tidy(Expr(form_.columns - 1) - values_.column_begin() - column));
    }
    return all;
  }
  // Conditions that are all >= 0 where every cell of the block has one: each at its least.
  std::vector<Expr> whole_block() const {
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
  Block tested(const std::function<Block(bool tests)>& make) const {
    std::vector<Expr> whole = whole_block();
    if (whole.empty()) return make(false);
    nest::If choice;
    choice.nonnegative = std::move(whole);
    choice.then = make(false);
    choice.otherwise = make(true);
    return {statement(std::move(choice))};
  }

  Block raise_maximum() const {
    Block out = rows([&](const Expr& row) {
      return Block{store(at(before_, row), element(at(maximum_, row)))};
    });
    append(out, tested([&](bool tests) {
             return rows([&](const Expr& row) {
               return along(row, [&](const Expr& row_, const Expr& column) {
                 Value value = values_.result(form_.running, row_, column);
                 Block taken{store(at(maximum_, row_), std::move(value), nest::StoreKind::max)};
                 return tests ? only_if(conditions_at(row_, column), std::move(taken)) : taken;
               });
             });
           }));
    append(out, rows([&](const Expr& row) {
             return Block{store(at(factor_, row), factor(at(before_, row), at(maximum_, row)))};
           }));
    return out;
  }
  // exp(old - raised); 0 for an old maximum of -inf, where sums are of zeros only.
  static Value factor(nest::Access old, nest::Access raised) {
    Value v;
    v.loads = {std::move(old), std::move(raised)};
    Body& b = v.body;
    NodeId from = b.load(0, DType::f32), to = b.load(1, DType::f32);
    NodeId none = b.operation(Op::eq, {from, b.real(kLeast, DType::f32)}, DType::bool_);
    NodeId distance = b.operation(Op::sub, {from, to}, DType::f32);
    NodeId power = b.operation(Op::exp, {distance}, DType::f32);
    b.results = {b.operation(Op::select, {none, b.real(0, DType::f32), power}, DType::f32)};
    return v;
  }

  Block weigh() {
    TensorId made = frame_.kernel.stages[form_.weights].contraction.outputs[0];
    Block out = tested([&](bool tests) {
      return cells(g_.columns, [&](const Expr& row, const Expr& column) {
        Block weight{store(at(weights_, row, column), values_.widened(made, row, column))};
        if (!tests) return weight;
        nest::If choice;
        choice.nonnegative = conditions_at(row, column);
        choice.then = std::move(weight);
        choice.otherwise = {store(at(weights_, row, column), number(0))};
        return Block{statement(std::move(choice))};
      });
    });
    values_.know_weights();
    return out;
  }

  Block add_up() const {
    Block out = rows([&](const Expr& row) {
      Block all;
      for (const Sum& s : sums_) {
        if (s.sum->column.valid()) continue;
        all.push_back(
            store(at(s.buffer, row), element(at(factor_, row)), nest::StoreKind::multiply));
        append(all, along(row, [&](const Expr& row_, const Expr& column) {
                 return Block{store(at(s.buffer, row_), values_.result(s.sum->stage, row_, column),
                                    nest::StoreKind::add)};
               }));
      }
      return all;
    });
    for (const Sum& s : sums_) {
      if (s.sum->column.valid()) append(out, add_products(s));
    }
    return out;
  }

  struct Sum {
    const StreamForm::Sum* sum = nullptr;
    int64_t columns = 1;
    nest::BufferId buffer = {}, narrow = {}, value = {};
  };
  Block add_products(const Sum& s) const {
    Block out = cells(g_.columns, [&](const Expr& row, const Expr& column) {
      return Block{store(at(s.narrow, row, column), values_.weight(*s.sum, row, column))};
    });
    append(out, cells(s.columns, [&](const Expr& row, const Expr& column) {
             return Block{store(at(s.buffer, row, column), element(at(factor_, row)),
                                nest::StoreKind::multiply)};
           }));
    nest::MatrixTile multiply;
    multiply.sum = s.buffer;
    multiply.a = s.narrow;
    multiply.b = s.value;
    out.push_back({multiply});
    return out;
  }

  // The results that leave the kernel: of each sum, and of the maximum.
  Block finish() {
    Block out = stored_results(form_.running, 1, 1);
    for (const Sum& s : sums_) {
      int64_t extent = !s.sum->column.valid() ? 1 : s.sum->value.extent;
      append(out, stored_results(s.sum->stage, s.columns, extent));
    }
    return out;
  }
  Block stored_results(size_t tile, int64_t columns, int64_t extent) {
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

  Frame& frame_;
  const GpuStream& g_;
  const StreamForm form_;
  PieceLowering first_;
  StreamValues values_;
  std::vector<nest::BufferId> buffers_;
  std::vector<Sum> sums_;
  nest::BufferId query_, key_, scores_, maximum_, before_, factor_, weights_;
  Expr first_step_, steps_;
};

}  // namespace

Block lower_gpu_stream(Frame& frame, const Schedule& schedule) {
  return GpuStreamLowering(frame, schedule).run();
}

}  // namespace tile::lowering
