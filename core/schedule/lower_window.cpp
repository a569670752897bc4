// Sliding windows. The values along the owner fall into blocks as long as the window: a cell's
// window is the end of one block and the beginning of the next. Sums of the ends are kept for one
// block; sums of the beginnings grow with the cells.
#include "core/schedule/lower_body.h"
#include "core/schedule/lowering.h"

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

void PieceLowering::make_window_parts(const WindowForm& form) {
  if (!window_.empty()) return;  // the tile before made them
  size_t count = contraction_.outputs.size();
  if (form.fold >= 0) count = static_cast<size_t>(piece_.body[form.fold].slot);
  for (size_t k = 0; k < count; ++k) {
    WindowPart part;
    if (form.fold >= 0) {
      const Node& fold = piece_.body[form.fold];
      std::optional<Aggregation> how = aggregation_of(fold.op);
      internal_check(how.has_value(), "lower: a window combined by another operation");
      part.how = *how;
      part.type = piece_.body[fold.args[k + 2]].type;
      part.sum = register_buffer("acc", part.type, tile_shape_);
    } else {
      part.how = contraction_.aggregation;
      part.type = contraction_.accumulator;
      part.sum = accumulators_[k];
    }
    part.whole = register_buffer("window", part.type, tile_shape_);
    Shape ends = tile_shape_;
    ends.insert(ends.begin(), form.longest);
    part.suffixes = frame_.add_buffer("ends", part.type, nest::Scope::scratch, ends);
    window_.push_back(part);
  }
}

nest::Access PieceLowering::in_tile(int buffer, const State& s) const {
  nest::Access a;
  a.buffer = buffer;
  a.index = s.tile_index;
  if (a.index.empty()) a.index.emplace_back(0);
  return a;
}

nest::Access PieceLowering::kept_suffix(size_t part, const Expr& place, const State& s) const {
  nest::Access a;
  a.buffer = window_[part].suffixes;
  a.index = s.tile_index;
  a.index.insert(a.index.begin(), place);
  return a;
}

Block PieceLowering::window_tiles(const State& s, const std::function<Block(const State&)>& each) {
  return tile_loops(0, s, each);
}

// Adds the value at the owner's position: the window's first value there.
Block PieceLowering::add_window_value(const WindowForm& form, const State& s) {
  if (form.fold < 0) return accumulate(s);
  const Node& fold = piece_.body[form.fold];
  Surroundings around = surroundings(piece_, s, {});
  Block out;
  for (size_t k = 0; k < window_.size(); ++k) {
    Value value;
    BodyLowering body(around, value);
    IndexValue begin = *body.index_of(piece_.body, fold.args[0]);
    IndexValue end = *body.index_of(piece_.body, fold.args[1]);
    IndexValue first{begin.expr, begin.lo, end.hi - 1, begin.size};
    nest::Store store;
    store.target = in_tile(window_[k].sum, s);
    store.kind = store_kind(window_[k].how, window_[k].type);
    value.body.results = {body.run_round(piece_.body, fold, k, first)};
    settle(store, std::move(value));
    out.push_back(statement(std::move(store)));
  }
  return out;
}

// The cell's whole window, and what is made of it.
Block PieceLowering::finish_window(const WindowForm& form, const Expr& place, bool joined,
                                   const State& s) {
  Block out;
  auto put = [&](size_t k, nest::StoreKind kind, nest::Access from) {
    nest::Store store;
    store.target = in_tile(window_[k].whole, s);
    store.kind = kind;
    store.loads = {std::move(from)};
    store.body.results = {store.body.load(0, window_[k].type)};
    out.push_back(statement(std::move(store)));
  };
  for (size_t k = 0; k < window_.size(); ++k) {
    nest::StoreKind kind = store_kind(window_[k].how, window_[k].type);
    put(k, nest::StoreKind::assign, kept_suffix(k, place, s));
    if (joined) put(k, kind, in_tile(window_[k].sum, s));
    if (form.fold < 0) continue;
    NodeId start = piece_.body[form.fold].args[k + 2];
    if (is_neutral(piece_.body[start], window_[k].how)) continue;
    Value value;
    nest::Store store;
    store.target = in_tile(window_[k].whole, s);
    store.kind = kind;
    value.body.results = {translate(value, piece_, start, s, {})};
    settle(store, std::move(value));
    out.push_back(statement(std::move(store)));
  }
  std::vector<int> sums = accumulators_;
  for (size_t k = 0; k < accumulators_.size(); ++k) accumulators_[k] = window_[k].whole;
  known_fold_ = form.fold < 0 ? nullptr : &piece_.body[form.fold];
  append(out, results(s));
  known_fold_ = nullptr;
  accumulators_ = sums;
  return out;
}

Block PieceLowering::window_loop(const State& s) {
  WindowForm form = *window_form(piece_, contraction_);
  make_window_parts(form);
  State open = s;
  open.guards = Guards::none;
  open.copy = 0;
  auto at = [&](const Expr& position) {
    State inner = open;
    inner.at[form.owner].levels = {{1, position}};
    if (form.fold < 0) inner.at[piece_.owners].levels = {{1, 0}};
    return inner;
  };
  Expr length = form.longest;
  if (form.fold >= 0) {
    Value unused;
    Surroundings around = surroundings(piece_, at(0), {});
    BodyLowering body(around, unused);
    const Node& fold = piece_.body[form.fold];
    length = tidy(body.index_of(piece_.body, fold.args[1])->expr -
                  body.index_of(piece_.body, fold.args[0])->expr);
  }
  int64_t cells = piece_.box[form.owner];
  std::string name = names_[form.owner];
  Expr block = Expr::variable(name + "_block"), value = Expr::variable(name + "_value");
  Expr cell = Expr::variable(name + "_cell");
  Expr first = block * length, last = tidy(length - 1 - value);
  auto starts = [&] {
    return window_tiles(at(first), [&](const State& p) {
      Block out;
      for (const WindowPart& part : window_) {
        nest::Store store;
        store.target = in_tile(part.sum, p);
        store.body.results = {neutral(store.body, part.how, part.type)};
        out.push_back(statement(std::move(store)));
      }
      return out;
    });
  };
  auto add = [&](const Expr& position) {
    return window_tiles(at(position), [&](const State& p) { return add_window_value(form, p); });
  };
  auto done = [&](const Expr& place, bool joined) {
    return window_tiles(at(tidy(first + place)),
                        [&](const State& p) { return finish_window(form, place, joined, p); });
  };
  Block ends = add(tidy(first + last));
  append(ends, window_tiles(at(first), [&](const State& p) {
           Block out;
           for (size_t k = 0; k < window_.size(); ++k) {
             nest::Store keep;
             keep.target = kept_suffix(k, last, p);
             keep.loads = {in_tile(window_[k].sum, p)};
             keep.body.results = {keep.body.load(0, window_[k].type)};
             out.push_back(statement(std::move(keep)));
           }
           return out;
         }));
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
    if (form.fold >= 0) out.push_back({nest::Alloc{part.sum}});
    out.push_back({nest::Alloc{part.whole}});
    out.push_back({nest::Alloc{part.suffixes}});
  }
  Expr blocks = floor_div(tidy(Expr(cells - 1) + length), length);
  out.push_back(statement(serial(name + "_block", 0, blocks, std::move(inside))));
  return out;
}

}  // namespace tile::lowering
