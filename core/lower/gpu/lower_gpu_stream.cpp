// Nests of kernels with a streamed axis on a GPU: a block has some rows; blocks of columns are
// copied to shared memory and pass by. Scores are products on tensor cores, weights are made of
// them in registers, and are a factor of the next product as they are there.
#include <limits>

#include "core/lower/gpu/stream_invariants.h"
#include "core/lower/gpu/stream_tile.h"

namespace tile::lowering {

using gpu::StreamForm;
using nest::Block;
using nest::LoopKind;

namespace {

constexpr double kLeast = -std::numeric_limits<double>::infinity();

class GpuStreamLowering : public StreamTile {
 public:
  using StreamTile::StreamTile;

  Block run() {
    make_buffers();
    Definitions d("tile");
    int64_t tiles = place_block(d);
    nest::For loop = steps();
    int64_t room = frame_.target.gpu.shared_per_block - gpu::shared_bytes(g_, form_);
    StreamInvariants invariants(frame_, g_, room);
    invariants.take_out(loop);
    Block inside;
    for (nest::BufferId id : buffers_) inside.push_back({nest::Alloc{id}});
    for (nest::BufferId id : invariants.buffers()) inside.push_back({nest::Alloc{id}});
    append(inside, copies(true, Expr(0)));
    append(inside, begin());
    append(inside, invariants.before());
    inside.push_back(statement(std::move(loop)));
    append(inside, finish());
    nest::For grid = make_loop("tile", 0, tiles, LoopKind::grid);
    grid.body = d.around(std::move(inside));
    return {statement(std::move(grid))};
  }

 private:
  bool runs() const { return form_.running > 0; }

  void make_buffers() {
    for (const StreamForm::Block& b : form_.blocks) {
      int64_t lines = b.of_rows ? g_.rows : g_.columns;
      blocks_.push_back(shared(b.of_rows ? "rows" : "columns", lines, b.factor.extent));
    }
    for (const StreamForm::Product& p : form_.products) {
      values_.products[p.stage] = fragment("score", g_.columns);
    }
    if (runs()) {
      values_.maximum = maximum_ = fragment("maximum", 1);
      before_ = fragment("before", 1);
      factor_ = fragment("factor", 1);
      weights_ = fragment("weight", g_.columns);
    }
    for (const StreamForm::Sum& sum : form_.sums) {
      Sum s{&sum};
      if (sum.column.valid()) {
        s.columns = gpu::multiplied_elements(sum.value.extent);
        s.narrow = fragment("narrow", g_.columns, form_.type);
      }
      s.buffer = fragment("sum", s.columns);
      values_.sums[sum.stage] = s.buffer;
      sums_.push_back(s);
    }
  }

  // Of rows, or of columns from the given one on.
  Block copies(bool of_rows, const Expr& column) const {
    Block out;
    for (size_t i = 0; i < form_.blocks.size(); ++i) {
      const StreamForm::Block& b = form_.blocks[i];
      if (b.of_rows != of_rows) continue;
      Expr row = of_rows ? values_.row_begin() : Expr(0);
      out.push_back(
          {copy(b.stage, b.factor, blocks_[i], of_rows ? g_.rows : g_.columns, row, column)});
    }
    return out;
  }

  Block begin() const {
    Block out = rows([&](const Expr& row) {
      Block all;
      if (runs()) all.push_back(store(at(maximum_, row), number(kLeast)));
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
    loop.body = copies(false, column);
    for (const StreamForm::Product& p : form_.products) append(loop.body, score(p));
    if (runs()) {
      append(loop.body, only_score());
      append(loop.body, raise_maximum());
      append(loop.body, weigh());
    } else {
      append(loop.body, shared_scores());
      append(loop.body, sums_of_rows());
    }
    for (const Sum& s : sums_) append(loop.body, product(s));
    return loop;
  }

  Block score(const StreamForm::Product& p) const {
    nest::BufferId sum = values_.products.at(p.stage);
    Block out = cells(g_.columns, [&](const Expr& row, const Expr& column) {
      return Block{store(at(sum, row, column), number(0))};
    });
    nest::MatrixTile multiply;
    multiply.sum = sum;
    multiply.a = blocks_[p.row_block];
    multiply.b = blocks_[p.column_block];
    multiply.b_transposed = true;
    multiply.unrounded = form_.by_threads();
    out.push_back({multiply});
    return out;
  }
  // A tensor of scores takes the place of the product that it is made of.
  Block replaced(TensorId made, nest::BufferId product) {
    Block out = cells(g_.columns, [&](const Expr& row, const Expr& column) {
      return Block{store(at(product, row, column), values_.widened(made, row, column))};
    });
    values_.know(made, product);
    return out;
  }
  Block only_score() {
    std::optional<TensorId> used = values_.only_score();
    return used ? replaced(*used, values_.products.at(0)) : Block();
  }
  Block shared_scores() {
    Block out;
    for (const StreamForm::Product& p : form_.products) {
      std::optional<TensorId> made = values_.shared_score(p.stage);
      if (!made || values_.knows(*made)) continue;
      append(out, replaced(*made, values_.products.at(p.stage)));
    }
    return out;
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

  Block weights(TensorId made, bool tests) {
    return cells(g_.columns, [&](const Expr& row, const Expr& column) {
      Block weight{store(at(weights_, row, column), values_.widened(made, row, column))};
      if (!tests) return weight;
      nest::If choice;
      choice.nonnegative = conditions_at(row, column);
      choice.then = std::move(weight);
      choice.otherwise = {store(at(weights_, row, column), number(0))};
      return Block{statement(std::move(choice))};
    });
  }
  // All that weights are made for, but the products, in blocks with and without tests: one piece of
  // code in which it is done side by side.
  Block weigh() {
    TensorId made = frame_.kernel.stages[form_.weights].contraction.outputs[0];
    Block whole = weights(made, false), cut = weights(made, true);
    values_.know(made, weights_);
    Block uses = raised_sums();
    for (const Sum& s : sums_) {
      if (s.sum->column.valid()) append(uses, narrowed(s, false));
    }
    return tested([&](bool tests) {
      Block all = tests ? cut : whole;
      append(all, uses);
      return all;
    });
  }

  // Sums so far are multiplied by what the maximum has grown by; those of weights alone go on.
  Block raised_sums() const {
    Block out = rows([&](const Expr& row) {
      Block all;
      for (const Sum& s : sums_) {
        if (s.sum->column.valid()) continue;
        all.push_back(
            store(at(s.buffer, row), element(at(factor_, row)), nest::StoreKind::multiply));
        append(all, added(s, row, false));
      }
      return all;
    });
    for (const Sum& s : sums_) {
      if (!s.sum->column.valid()) continue;
      append(out, cells(s.columns, [&](const Expr& row, const Expr& column) {
               return Block{store(at(s.buffer, row, column), element(at(factor_, row)),
                                  nest::StoreKind::multiply)};
             }));
    }
    return out;
  }
  // Without a maximum.
  Block sums_of_rows() const {
    Block out;
    for (const Sum& s : sums_) {
      if (s.sum->column.valid()) {
        append(out, tested([&](bool tests) { return narrowed(s, tests); }));
      } else {
        append(out, tested([&](bool tests) {
                 return rows([&](const Expr& row) { return added(s, row, tests); });
               }));
      }
    }
    return out;
  }

  struct Sum {
    const StreamForm::Sum* sum = nullptr;
    int64_t columns = 1;
    nest::BufferId buffer = {}, narrow = {};
  };
  // A row's weights, added up.
  Block added(const Sum& s, const Expr& row, bool tests) const {
    return along(row, [&](const Expr& row_, const Expr& column) {
      Block one{store(at(s.buffer, row_), values_.result(s.sum->stage, row_, column),
                      nest::StoreKind::add)};
      return tests ? only_if(conditions_at(row_, column), std::move(one)) : one;
    });
  }
  // Weights behind a running maximum are zero where there is no point; others are made so.
  Block narrowed(const Sum& s, bool tests) const {
    return cells(g_.columns, [&](const Expr& row, const Expr& column) {
      std::vector<Expr> conditions;
      if (tests) conditions = conditions_at(row, column);
      return Block{
          store(at(s.narrow, row, column), values_.weight(*s.sum, row, column, conditions))};
    });
  }
  Block product(const Sum& s) const {
    if (!s.sum->column.valid()) return {};
    nest::MatrixTile multiply;
    multiply.sum = s.buffer;
    multiply.a = s.narrow;
    multiply.b = blocks_[s.sum->block];
    multiply.unrounded = form_.by_threads();
    return {{multiply}};
  }

  // The results that leave the kernel: of each sum, and of the maximum.
  Block finish() const {
    Block out = runs() ? stored_results(form_.running, 1, 1) : Block();
    for (const Sum& s : sums_) {
      int64_t extent = !s.sum->column.valid() ? 1 : s.sum->value.extent;
      append(out, stored_results(s.sum->stage, s.columns, extent));
    }
    return out;
  }

  std::vector<nest::BufferId> blocks_;
  std::vector<Sum> sums_;
  nest::BufferId maximum_, before_, factor_, weights_;
};

}  // namespace

Block lower_gpu_stream(Frame& frame, const Schedule& schedule) {
  return GpuStreamLowering(frame, schedule).run();
}

}  // namespace tile::lowering
