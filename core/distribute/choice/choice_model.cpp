#include "core/distribute/choice/choice_model.h"

#include <algorithm>
#include <cmath>

#include "core/distribute/partition.h"
#include "core/distribute/sums.h"
#include "core/ir/analysis/uses.h"
#include "core/support/control.h"

namespace tile {
namespace {

// Ways of a statement that are looked at closely.
constexpr size_t kMostKept = 32;
// Layouts of a tensor, and those of partial sums among them.
constexpr size_t kMostLayouts = 32;
constexpr size_t kMostPartial = 8;
constexpr double kUnknown = -1;

std::vector<int64_t> key_of(const NeededCells& cells) {
  std::vector<int64_t> key;
  for (const std::vector<Box>& of_rank : cells) {
    key.push_back(static_cast<int64_t>(of_rank.size()));
    for (const Box& box : of_rank) {
      key.insert(key.end(), box.lo.begin(), box.lo.end());
      key.insert(key.end(), box.hi.begin(), box.hi.end());
    }
  }
  return key;
}

bool plain_sum(const Contraction& c, const BoundTensor& result) {
  return c.aggregation == Aggregation::sum && !c.fill && c.accumulator == result.type;
}

}  // namespace

ChoiceModel::ChoiceModel(const BoundProgram& program, const Distribution& named,
                         const ChoiceOptions& options)
    : program_(program),
      named_(named),
      options_(options),
      traffic_(named.mesh, options.links),
      result_costs_(program, traffic_, named.mesh, options.links),
      uneven_(uneven_cuts(named)),
      number_(program.tensors.size()) {
  for (TensorId id : program.tensors.ids()) {
    bool input = contains(program.inputs, id);
    if (input) declare(id, std::vector<bool>(at(id).shape.size(), true));
  }
  std::vector<bool> needed = needed_statements(program);
  for (size_t i = 0; i < needed.size(); ++i) {
    if (needed[i]) add_statement(program.statements[i]);
  }
  for (TensorId id : program.outputs) {
    if (at(id).view_of) read(last_readings_, id, {});
  }
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (tensors_[t].layouts.size() > kMostLayouts) narrow(t);
  }
  note_uses();
}

// Of very many layouts of a tensor those that suit the ways of the statements around it, the first
// ways of all of them first.
void ChoiceModel::narrow(size_t tensor) {
  Tensor all = std::move(tensors_[tensor]);
  Tensor& kept = tensors_[tensor];
  kept.id = all.id;
  for (size_t l = 0; l < all.layouts.size(); ++l) {
    if (l == 0 || !all.layouts[l].partial.empty()) number_of(tensor, all.layouts[l]);
  }
  for (size_t w = 0; w < kMostKept && kept.layouts.size() < kMostLayouts; ++w) {
    for (const Statement& s : statements_) {
      bool reads = std::find(s.reads.begin(), s.reads.end(), tensor) != s.reads.end();
      if (w >= s.ways.size() || (!reads && s.result != tensor)) continue;
      if (s.result == tensor) number_of(tensor, s.ways[w].computed);
      if (reads) number_of(tensor, suitable_layout(program_, mesh(), *s.what, s.ways[w], kept.id));
    }
  }
}

// Literals are everywhere.
void ChoiceModel::declare(TensorId id, const std::vector<bool>& may_be_cut) {
  if (number_[id]) return;
  number_[id] = tensors_.size();
  Tensor& tensor = tensors_.emplace_back();
  tensor.id = id;
  if (at(id).constant) {
    number_of(*number_[id], whole_layout(at(id).shape.size()));
  } else if (named_.named[id]) {
    number_of(*number_[id], named_.layouts[id]);
  } else {
    for (const TensorLayout& layout : possible_layouts(mesh(), at(id).shape, may_be_cut, uneven_)) {
      number_of(*number_[id], layout);
    }
  }
}

size_t ChoiceModel::number_of(size_t tensor, const TensorLayout& layout) {
  internal_check(table_.empty(), "choice: a layout that comes late");
  Tensor& t = tensors_[tensor];
  auto found = std::find(t.layouts.begin(), t.layouts.end(), layout);
  if (found != t.layouts.end()) return static_cast<size_t>(found - t.layouts.begin());
  int64_t most = 0;
  for (const Box& box : boxes_of(layout, at(t.id).shape, mesh())) {
    most = std::max(most, box.count());
  }
  auto bytes = static_cast<double>(most) * static_cast<double>(byte_size(at(t.id).type));
  t.held_ns.push_back(kHeldShare * bytes / options_.rates.bytes_per_ns);
  t.layouts.push_back(layout);
  return t.layouts.size() - 1;
}

void ChoiceModel::add_statement(const BoundStatement& statement) {
  checkpoint();
  Statement s;
  s.what = &statement;
  TensorId result = written_by(statement)[0];
  for (TensorId id : read_by(statement)) {
    TensorId from = storage_of(program_, id);
    if (at(from).constant) declare(from, {});
    if (std::find(s.reads.begin(), s.reads.end(), *number_[from]) == s.reads.end()) {
      s.reads.push_back(*number_[from]);
    }
  }
  declare(result, dims_to_cut(program_, statement));
  s.result = *number_[result];
  auto cuts = named_.cuts.find(result);
  WayOptions how;
  how.named = cuts != named_.cuts.end() ? &cuts->second : nullptr;
  how.divide_terms = options_.divide_terms;
  s.ways = possible_ways(program_, mesh(), statement, uneven_, how);
  if (named_.named[result]) add_way_of_result(s, how.named);
  if (const auto* c = std::get_if<Contraction>(&statement)) {
    add_ways(s, *c);
    add_partial_layouts(s);
  } else {
    for (size_t w = 0; w < s.ways.size(); ++w) whole_way(s, w);
  }
  statements_.push_back(std::move(s));
}

// Where a result is named it may be computed as it lies, however that is written.
void ChoiceModel::add_way_of_result(Statement& s, const std::vector<ReductionCut>* cuts) {
  const TensorLayout& layout = tensors_[s.result].layouts[0];
  Way own{layout, cuts != nullptr ? *cuts : std::vector<ReductionCut>{}};
  own.computed = without(layout, own.axes(), mesh());
  std::vector<bool> may_be_cut = dims_to_cut(program_, *s.what);
  for (size_t d = 0; d < may_be_cut.size(); ++d) {
    if (!may_be_cut[d]) own.computed.dims[d] = {};
  }
  bool known = std::find(s.ways.begin(), s.ways.end(), own) != s.ways.end();
  if (!known) s.ways.push_back(std::move(own));
}

// A temporary may stay a sum of parts: who reads it adds them up then.
void ChoiceModel::add_partial_layouts(const Statement& s) {
  Tensor& tensor = tensors_[s.result];
  const BoundTensor& result = at(tensor.id);
  bool open = result.role == TensorRole::temporary && !named_.named[tensor.id] &&
              !contains(program_.outputs, tensor.id);
  if (!open || !plain_sum(std::get<Contraction>(*s.what), result)) return;
  size_t before = tensor.layouts.size();
  for (const Way& way : s.ways) {
    if (way.cuts.empty() || tensor.layouts.size() == before + kMostPartial) continue;
    TensorLayout partial = way.computed;
    partial.partial = way.axes();
    number_of(s.result, partial);
  }
}

void ChoiceModel::add_ways(Statement& s, const Contraction& c) {
  bool divides =
      std::any_of(s.ways.begin(), s.ways.end(), [](const Way& w) { return !w.cuts.empty(); });
  s.marks = divides && needs_marks(program_, c);
  WayCosts costs(program_, c, mesh(), options_.rates);
  std::vector<WayCosts::Computed> computed;
  for (size_t w = 0; w < s.ways.size(); ++w) computed.push_back(costs.of(s.ways[w]));
  std::vector<Way> ways;
  for (size_t w : promising(s, computed)) {
    WayCosts::Computed& way = computed[w];
    std::vector<size_t>& readings = s.readings.emplace_back();
    for (auto& [tensor, cells] : way.windows) read(readings, tensor, std::move(cells));
    // Where terms are divided the default goes in after the sum, which is about as far away.
    bool filled = c.fill && (s.ways[w].cuts.empty() || s.marks);
    const Shape& shape = at(c.outputs[0]).shape;
    if (filled) read(readings, *c.fill, cells_of_layout(s.ways[w].computed, shape, mesh()));
    s.compute_ns.push_back(way.ns);
    ways.push_back(std::move(s.ways[w]));
  }
  s.ways = std::move(ways);
}

// What a way takes at least: exchanges of tensors that are named, and of those that are not, of
// which none is known yet, a little for what is touched.
double ChoiceModel::least_ns(const Statement& s, const Way& way,
                             const WayCosts::Computed& computed) const {
  constexpr double kTouched = 1e-3;
  double ns = computed.ns + kTouched * computed.most_bytes / options_.links.any.bytes_per_ns;
  for (const auto& [tensor, cells] : computed.windows) {
    const Tensor& from = tensors_[*number_[storage_of(program_, tensor)]];
    bool known = from.layouts.size() == 1 && !at(tensor).view_of;
    if (!known) continue;
    ns +=
        traffic_.cost(from.layouts[0], cells, static_cast<int64_t>(byte_size(at(tensor).type))).ns;
  }
  const std::vector<TensorLayout>& layouts = tensors_[s.result].layouts;
  return layouts.size() == 1 ? ns + result_costs_.ns(result_of(s), way, layouts[0]) : ns;
}

// Of very many ways those that may take the least, these first. The first one, which divides
// nothing, stays there, and the last one, which is as the text says, is one of them.
std::vector<size_t> ChoiceModel::promising(const Statement& s,
                                           const std::vector<WayCosts::Computed>& ways) const {
  std::vector<size_t> order(ways.size());
  for (size_t w = 0; w < ways.size(); ++w) order[w] = w;
  if (ways.size() <= kMostKept) return order;
  std::vector<double> ns(ways.size(), 0);
  for (size_t w = 1; w + 1 < ways.size(); ++w) ns[w] = least_ns(s, s.ways[w], ways[w]);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ns[a] < ns[b]; });
  order.resize(kMostKept);
  return order;
}

// Sorts and scatters read what Partitioner::sort and Partitioner::scatter do.
void ChoiceModel::whole_way(Statement& s, size_t way) {
  const TensorLayout& computed = s.ways[way].computed;
  std::vector<size_t>& readings = s.readings.emplace_back();
  const Shape& shape = at(tensors_[s.result].id).shape;
  std::vector<Box> boxes = boxes_of(computed, shape, mesh());
  double most = 0;
  if (const auto* sort = std::get_if<Sort>(s.what)) {
    read(readings, sort->source, cells_of_layout(computed, shape, mesh()));
    for (const Box& box : boxes) most = std::max(most, static_cast<double>(box.count()));
    auto line = static_cast<double>(std::max<int64_t>(2, shape[static_cast<size_t>(sort->axis)]));
    most *= std::log2(line);
  } else {
    const auto& scatter = std::get<Scatter>(*s.what);
    const Shape& indices = at(scatter.indices).shape;
    NeededCells all(boxes.size(), {whole_box(indices)});
    NeededCells updates(boxes.size(), {whole_box(at(scatter.updates).shape)});
    for (size_t r = 0; r < boxes.size(); ++r) {
      for (size_t d = 1; d < shape.size(); ++d) {
        updates[r][0].lo[indices.size() + d - 1] = boxes[r].lo[d];
        updates[r][0].hi[indices.size() + d - 1] = boxes[r].hi[d];
      }
      most = std::max(most, static_cast<double>(updates[r][0].count()));
    }
    read(readings, scatter.updates, std::move(updates));
    read(readings, scatter.indices, std::move(all));
  }
  // [guide] Some bytes for each element that is looked at.
  constexpr double kBytesOfStep = 16;
  s.compute_ns.push_back(most * kBytesOfStep / options_.rates.bytes_per_ns);
}

void ChoiceModel::read(std::vector<size_t>& into, TensorId id, NeededCells cells) {
  if (at(id).view_of) into.push_back(intern(id, true, {}));
  if (!cells.empty()) into.push_back(intern(id, false, std::move(cells)));
}

size_t ChoiceModel::intern(TensorId accessed, bool makes_view, NeededCells cells) {
  auto [known, fresh] =
      known_readings_.emplace(std::pair(accessed, key_of(cells)), readings_.size());
  if (!fresh) return known->second;
  Reading& reading = readings_.emplace_back();
  reading.accessed = accessed;
  reading.tensor = *number_[storage_of(program_, accessed)];
  reading.makes_view = makes_view;
  std::vector<int64_t> like = key_of(cells);
  like.insert(like.end(), at(accessed).shape.begin(), at(accessed).shape.end());
  like.push_back(static_cast<int64_t>(byte_size(at(accessed).type)));
  reading.like = at(accessed).view_of
                     ? known->second
                     : first_like_.emplace(std::move(like), known->second).first->second;
  reading.cells = std::move(cells);
  return known->second;
}

void ChoiceModel::note_uses() {
  std::vector<std::optional<size_t>> first(readings_.size());
  auto use = [&](size_t number, size_t where) {
    Reading& reading = readings_[number];
    if (!first[number]) first[number] = where;
    reading.last_use = where;
    reading.shared = reading.shared || *first[number] != where;
  };
  for (size_t s = 0; s < statements_.size(); ++s) {
    for (const std::vector<size_t>& of_way : statements_[s].readings) {
      for (size_t number : of_way) use(number, s);
    }
    for (size_t t : statements_[s].reads) tensors_[t].last_use = s;
  }
  for (size_t number : last_readings_) use(number, statements_.size());
  for (TensorId id : program_.outputs) {
    TensorId from = storage_of(program_, id);
    if (number_[from]) tensors_[*number_[from]].last_use = statements_.size();
  }
}

double ChoiceModel::read_ns(size_t reading, size_t layout) {
  Reading& r = readings_[reading];
  const std::vector<TensorLayout>& layouts = tensors_[r.tensor].layouts;
  if (r.ns.empty()) {
    r.ns.assign(layouts.size(), kUnknown);
    if (layouts != tensors_[readings_[r.like].tensor].layouts) r.like = reading;
  }
  if (r.like != reading) return read_ns(r.like, layout);
  if (r.ns[layout] < 0) r.ns[layout] = reading_ns(r, layouts[layout]);
  return r.ns[layout];
}

double ChoiceModel::reading_ns(const Reading& reading, const TensorLayout& layout) const {
  auto width = static_cast<int64_t>(byte_size(at(reading.accessed).type));
  if (!at(reading.accessed).view_of) return traffic_.cost(layout, reading.cells, width).ns;
  TensorLayout kept = followed_by_view(program_, reading.accessed, layout);
  kept.partial.clear();
  if (!reading.makes_view) {
    std::optional<TensorLayout> of_view = layout_of_view(program_, reading.accessed, kept);
    internal_check(of_view.has_value(), "choice: a view that does not follow its source");
    return traffic_.cost(*of_view, reading.cells, width).ns;
  }
  if (kept == layout) return 0;
  const Shape& shape = at(*at(reading.accessed).view_of).shape;
  return traffic_.cost(layout, cells_of_layout(kept, shape, mesh()), width).ns;
}

// Statements whose results are alike share the times of putting them where they lie.
size_t ChoiceModel::table_of(size_t statement) const {
  const Statement& s = statements_[statement];
  const auto* c = std::get_if<Contraction>(s.what);
  const BoundTensor& result = at(tensors_[s.result].id);
  for (size_t o = 0; o < statement; ++o) {
    const Statement& other = statements_[o];
    const auto* d = std::get_if<Contraction>(other.what);
    const BoundTensor& before = at(tensors_[other.result].id);
    bool alike = table_[o] == o && before.shape == result.shape && before.type == result.type &&
                 s.marks == other.marks && s.ways == other.ways &&
                 tensors_[s.result].layouts == tensors_[other.result].layouts;
    bool sums_alike = c == nullptr || (d != nullptr && c->accumulator == d->accumulator &&
                                       c->outputs.size() == d->outputs.size());
    if (alike && sums_alike && (c != nullptr || d == nullptr)) return o;
  }
  return statement;
}

double ChoiceModel::write_ns(size_t statement, size_t way, size_t layout) {
  while (table_.size() < statements_.size()) {
    const Statement& s = statements_[table_.size()];
    size_t layouts = tensors_[s.result].layouts.size();
    write_ns_.emplace_back();
    table_.push_back(table_of(table_.size()));
    if (table_.back() + 1 < table_.size()) continue;
    write_ns_.back().assign(s.ways.size(), std::vector(layouts, kUnknown));
  }
  double& known = write_ns_[table_[statement]][way][layout];
  if (known < 0) {
    const Statement& s = statements_[statement];
    known = result_costs_.ns(result_of(s), s.ways[way], tensors_[s.result].layouts[layout]);
  }
  return known;
}

}  // namespace tile
