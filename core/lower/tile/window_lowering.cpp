// Sliding windows, one cell after the other or in vectors.
#include "core/lower/tile/window_lowering.h"

namespace tile::lowering {

namespace {

using nest::Block;

nest::For serial(const std::string& name, const Expr& begin, const Expr& extent, Block body) {
  nest::For loop = make_loop(name, begin, extent, nest::LoopKind::serial);
  loop.body = std::move(body);
  return loop;
}

bool is_neutral(const Node& start, Aggregation how) {
  bool zero = (start.kind == NodeKind::integer && start.integer == 0) ||
              (start.kind == NodeKind::real && start.real == 0);
  return zero && how == Aggregation::sum;
}

}  // namespace

void WindowLowering::make_window_parts(const WindowForm& form) {
  if (!window_.empty()) return;  // the tile before made them
  size_t count = c_.contraction.outputs.size();
  if (form.fold.valid()) count = c_.piece.body[form.fold].slot;
  for (size_t k = 0; k < count; ++k) {
    WindowPart part;
    if (form.fold.valid()) {
      const Node& fold = c_.piece.body[form.fold];
      std::optional<Aggregation> how = aggregation_of(fold.op);
      internal_check(how.has_value(), "lower: a window combined by another operation");
      part.how = *how;
      part.type = c_.piece.body[fold.args[k + 2]].type;
      part.sum = accumulators_.register_buffer("acc", part.type, c_.tile_shape);
    } else {
      part.how = c_.contraction.aggregation;
      part.type = c_.contraction.accumulator;
      part.sum = accumulators_.buffers()[k];
    }
    part.whole = accumulators_.register_buffer("window", part.type, c_.tile_shape);
    Shape ends = c_.tile_shape;
    ends.resize(ends.size() - c_.carried_loops);
    ends.insert(ends.begin(), form.longest);
    part.suffixes = c_.frame.add_buffer("ends", part.type, nest::Scope::scratch, ends);
    window_.push_back(part);
  }
}

nest::Access WindowLowering::kept_suffix(size_t part, const Expr& place, const State& s) const {
  nest::Access a;
  a.buffer = window_[part].suffixes;
  a.index.assign(s.tile_index.begin(),
                 s.tile_index.end() - static_cast<std::ptrdiff_t>(s.carried_index));
  a.index.insert(a.index.begin(), place);
  return a;
}

// Adds the value at the position along the parallel dimension: the window's first value there.
Block WindowLowering::add_window_value(const WindowForm& form, const State& s) const {
  if (!form.fold.valid()) return terms_.accumulate(s);
  const Node& fold = c_.piece.body[form.fold];
  LoopContext around = values_.loop_context(c_.piece, s, {});
  Block out;
  for (size_t k = 0; k < window_.size(); ++k) {
    Value value;
    BodyLowering body(around, value);
    IndexValue begin = *body.index_of(c_.piece.body, fold.args[0]);
    IndexValue end = *body.index_of(c_.piece.body, fold.args[1]);
    IndexValue first{begin.expr, begin.lo, end.hi - 1, begin.size};
    nest::Store store;
    store.target = in_tile(window_[k].sum, s);
    store.kind = store_kind(window_[k].how, window_[k].type);
    value.body.results = {body.run_round(c_.piece.body, fold, k, first)};
    settle(store, std::move(value));
    out.push_back(statement(std::move(store)));
  }
  return out;
}

// The sum that the tile's cells grow.
nest::Access WindowLowering::sum_so_far(size_t part, const State& s) const {
  nest::Access a = in_tile(window_[part].sum, s);
  a.index.assign(s.tile_index.begin(),
                 s.tile_index.end() - static_cast<std::ptrdiff_t>(s.carried_index));
  if (a.index.empty()) a.index.emplace_back(0);
  return a;
}

Block WindowLowering::window_starts(const State& s) const {
  return tile_loops(c_, s, [&](const State& p) {
    Block out;
    for (size_t k = 0; k < window_.size(); ++k) {
      nest::Store store;
      store.target = sum_so_far(k, p);
      store.body.results = {neutral(store.body, window_[k].how, window_[k].type)};
      out.push_back(statement(std::move(store)));
    }
    return out;
  });
}

Block WindowLowering::keep_suffix(const Expr& place, const State& s) const {
  Block out;
  for (size_t k = 0; k < window_.size(); ++k) {
    nest::Store keep;
    keep.target = kept_suffix(k, place, s);
    keep.loads = {sum_so_far(k, s)};
    keep.body.results = {keep.body.load(0, window_[k].type)};
    out.push_back(statement(std::move(keep)));
  }
  return out;
}

// The cell's whole window, and what is made of it.
Block WindowLowering::finish_window(const WindowForm& form, const Expr& place, bool joined,
                                    const State& s) {
  Block out;
  State full = s;
  if (s.one_cell) full.tile_index.insert(full.tile_index.end(), c_.carried_loops, Expr(0));
  full.carried_index = 0;
  auto put = [&](size_t k, nest::StoreKind kind, nest::Access from) {
    nest::Store store;
    store.target = in_tile(window_[k].whole, full);
    store.kind = kind;
    store.loads = {std::move(from)};
    store.body.results = {store.body.load(0, window_[k].type)};
    out.push_back(statement(std::move(store)));
  };
  for (size_t k = 0; k < window_.size(); ++k) {
    nest::StoreKind kind = store_kind(window_[k].how, window_[k].type);
    put(k, nest::StoreKind::assign, kept_suffix(k, place, s));
    if (joined) put(k, kind, sum_so_far(k, s));
    if (!form.fold.valid()) continue;
    NodeId start = c_.piece.body[form.fold].args[k + 2];
    if (is_neutral(c_.piece.body[start], window_[k].how)) continue;
    Value value;
    nest::Store store;
    store.target = in_tile(window_[k].whole, full);
    store.kind = kind;
    value.body.results = {values_.translate(value, c_.piece, start, s, {})};
    settle(store, std::move(value));
    out.push_back(statement(std::move(store)));
  }
  append(out, window_results(form, full));
  return out;
}

Block WindowLowering::window_results(const WindowForm& form, const State& cell) {
  std::vector<nest::BufferId> sums = accumulators_.buffers(), wholes;
  for (const WindowPart& part : window_) wholes.push_back(part.whole);
  accumulators_.use({wholes.begin(), wholes.begin() + static_cast<std::ptrdiff_t>(sums.size())});
  values_.know_fold(form.fold.valid() ? &c_.piece.body[form.fold] : nullptr, std::move(wholes));
  Block out = results_.results(cell);
  values_.know_fold(nullptr, {});
  accumulators_.use(std::move(sums));
  return out;
}

Block WindowLowering::window_loop(const State& s) {
  WindowForm form = *window_form(c_.piece, c_.contraction);
  make_window_parts(form);
  State open = s;
  open.guards = Guards::none;
  open.copy = 0;
  auto at = [&](const Expr& position) {
    State inner = open;
    inner.at[form.parallel_dim].levels = {{1, position}};
    if (!form.fold.valid()) inner.at[c_.piece.parallel_dims].levels = {{1, 0}};
    return inner;
  };
  Expr length = form.longest;
  if (form.fold.valid()) {
    Value unused;
    LoopContext around = values_.loop_context(c_.piece, at(0), {});
    BodyLowering body(around, unused);
    const Node& fold = c_.piece.body[form.fold];
    length = tidy(body.index_of(c_.piece.body, fold.args[1])->expr -
                  body.index_of(c_.piece.body, fold.args[0])->expr);
  }
  int64_t cells = c_.piece.box[form.parallel_dim];
  std::string name = c_.names[form.parallel_dim];
  Expr block = Expr::variable(name + "_block"), value = Expr::variable(name + "_value");
  Expr cell = Expr::variable(name + "_cell");
  Expr first = block * length, last = tidy(length - 1 - value);
  auto starts = [&] { return window_starts(at(first)); };
  auto add = [&](const Expr& position) {
    return tile_loops(c_, at(position), [&](const State& p) { return add_window_value(form, p); });
  };
  auto done = [&](const Expr& place, bool joined) {
    return tile_loops(c_, at(tidy(first + place)),
                      [&](const State& p) { return finish_window(form, place, joined, p); });
  };
  Block ends = add(tidy(first + last));
  append(ends, tile_loops(c_, at(first), [&](const State& p) { return keep_suffix(last, p); }));
  Block inside = starts();
  inside.push_back(statement(serial(name + "_value", 0, length, std::move(ends))));
  append(inside, starts());
  append(inside, done(0, false));
  Block beginnings = add(tidy(first + length + cell - 1));
  append(beginnings, done(cell, true));
  Expr count = tidy(min(length, tidy(Expr(cells) - first)) - 1);
  inside.push_back(statement(serial(name + "_cell", 1, count, std::move(beginnings))));
  Block out;
  for (const WindowPart& part : window_) {
    if (form.fold.valid()) out.push_back({nest::Alloc{part.sum}});
    out.push_back({nest::Alloc{part.whole}});
    out.push_back({nest::Alloc{part.suffixes}});
  }
  Expr blocks = floor_div(tidy(Expr(cells - 1) + length), length);
  out.push_back(statement(serial(name + "_block", 0, blocks, std::move(inside))));
  return out;
}

// The windows that begin in [first, first + cells), in vectors along the parallel dimension.
Block WindowLowering::window_block(const WindowForm& form, const Expr& first, int64_t cells,
                                   const State& s) {
  std::string name = c_.names[form.parallel_dim];
  auto at = [&](const State& p, const Expr& position) {
    State moved = p;
    moved.at[form.parallel_dim].levels = {{1, position}};
    return moved;
  };
  State one = s;
  one.one_cell = true;
  Block out = window_starts(at(one, first));
  append(out, in_vectors(c_, name + "_value", form.longest, s, [&](const State& p) {
           Expr place = tidy(Expr(form.longest - 1) - p.at[form.parallel_dim].begin());
           Block body = add_window_value(form, at(p, tidy(first + place)));
           append(body, keep_suffix(place, p));
           return body;
         }));
  append(out, window_starts(at(one, first)));
  append(out, tile_loops(c_, at(one, first),
                         [&](const State& p) { return finish_window(form, 0, false, p); }));
  append(out, in_vectors(c_, name + "_cell", cells - 1, s, [&](const State& p) {
           Expr place = tidy(p.at[form.parallel_dim].begin() + 1);
           Block body = add_window_value(form, at(p, tidy(first + Expr(form.longest - 1) + place)));
           append(body, finish_window(form, place, true, at(p, tidy(first + place))));
           return body;
         }));
  return out;
}

Block WindowLowering::window_lanes(const State& s) {
  WindowForm form = *window_form(c_.piece, c_.contraction);
  make_window_parts(form);
  State open = s;
  open.guards = Guards::none;
  open.copy = 0;
  open.at[c_.piece.parallel_dims].levels = {{1, 0}};
  Block out;
  for (const WindowPart& part : window_) {
    out.push_back({nest::Alloc{part.whole}});
    out.push_back({nest::Alloc{part.suffixes}});
  }
  int64_t cells = c_.piece.box[form.parallel_dim], length = form.longest, full = cells / length;
  if (full > 0) {
    std::string name = c_.names[form.parallel_dim] + "_block";
    out.push_back(statement(
        serial(name, 0, full, window_block(form, Expr::variable(name) * length, length, open))));
  }
  if (cells % length != 0) append(out, window_block(form, full * length, cells % length, open));
  return out;
}

}  // namespace tile::lowering
