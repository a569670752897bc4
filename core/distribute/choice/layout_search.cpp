#include "core/distribute/choice/layout_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "core/support/control.h"

namespace tile {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr size_t kNone = std::numeric_limits<size_t>::max();
// Layouts that are followed up for a tensor that is read first and lives on.
constexpr size_t kMostPlaces = 6;
constexpr int kMostRounds = 8;
// What is less of a difference is none: sums in another order.
constexpr double kLess = 1 - 1e-9;

// Whether a later statement may share the reading.
bool stays(const ChoiceModel::Reading& reading, size_t s) {
  return reading.shared && reading.last_use > s;
}

bool has(const std::vector<size_t>& list, size_t one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

}  // namespace

// What was chosen for the statements up to some place.
struct LayoutSearch::Beginning {
  Assignment assignment;
  std::vector<size_t> done;  // shared readings that were made, in order
  double ns = 0;
};

// One more statement.
struct LayoutSearch::Step {
  size_t from = 0, way = 0, layout = 0;           // of the result
  std::vector<std::pair<size_t, size_t>> placed;  // tensors that are read first, and their layouts
  std::vector<size_t> done;                       // exchanges that later statements may share
  double ns = 0;
};

LayoutSearch::LayoutSearch(ChoiceModel& model, size_t beam)
    : model_(model), beam_(beam), around_(model.tensors().size()) {
  for (size_t s = 0; s < model.statements().size(); ++s) {
    around_[model.statements()[s].result].push_back(s);
    for (size_t t : model.statements()[s].reads) around_[t].push_back(s);
  }
}

ChoiceCost LayoutSearch::cost(const Assignment& a) {
  ChoiceCost cost;
  std::vector<size_t> done;
  auto read = [&](size_t number) {
    const ChoiceModel::Reading& reading = model_.reading(number);
    if (reading.shared) {
      if (has(done, number)) return;
      done.push_back(number);
    }
    cost.exchange_ns += model_.read_ns(number, a.layouts[reading.tensor]);
  };
  for (size_t s = 0; s < model_.statements().size(); ++s) {
    const ChoiceModel::Statement& statement = model_.statements()[s];
    cost.compute_ns += statement.compute_ns[a.ways[s]];
    for (size_t number : statement.readings[a.ways[s]]) read(number);
    cost.exchange_ns += model_.write_ns(s, a.ways[s], a.layouts[statement.result]);
  }
  for (size_t number : model_.last_readings()) read(number);
  for (size_t t = 0; t < a.layouts.size(); ++t) {
    cost.held_ns += model_.tensors()[t].held_ns[a.layouts[t]];
  }
  return cost;
}

// The layouts that are worth a try for a tensor that nobody read before: the best one where nobody
// reads it later, else some of the cheapest. `ns`: of each layout, with what the way reads of it.
std::vector<size_t> LayoutSearch::places_for(size_t s, size_t way, size_t tensor,
                                             const Beginning& from, std::vector<double>& ns) {
  const ChoiceModel::Tensor& t = model_.tensors()[tensor];
  ns = t.held_ns;
  for (size_t number : model_.statements()[s].readings[way]) {
    if (model_.reading(number).tensor != tensor || has(from.done, number)) continue;
    for (size_t l = 0; l < ns.size(); ++l) ns[l] += model_.read_ns(number, l);
  }
  std::vector<size_t> order(ns.size());
  for (size_t l = 0; l < order.size(); ++l) order[l] = l;
  size_t kept = std::min(order.size(), t.last_use > s ? kMostPlaces : 1);
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(kept), order.end(),
                    [&](size_t a, size_t b) { return ns[a] != ns[b] ? ns[a] < ns[b] : a < b; });
  order.resize(kept);
  return order;
}

// What a way costs before its result is put anywhere, with each choice of the tensors that are read
// first.
std::vector<LayoutSearch::Step> LayoutSearch::readings_of_way(const Beginning& from, size_t s,
                                                              size_t way) {
  const ChoiceModel::Statement& statement = model_.statements()[s];
  std::vector<Step> steps(1);
  steps[0].way = way;
  steps[0].ns = from.ns + statement.compute_ns[way];
  for (size_t number : statement.readings[way]) {
    const ChoiceModel::Reading& r = model_.reading(number);
    size_t layout = from.assignment.layouts[r.tensor];
    if (layout == kNone || has(from.done, number)) continue;
    double ns = model_.read_ns(number, layout);
    steps[0].ns += ns;
    if (stays(r, s) && ns > 0) steps[0].done.push_back(number);
  }
  for (size_t tensor : statement.reads) {
    if (from.assignment.layouts[tensor] != kNone) continue;
    std::vector<double> ns;
    std::vector<Step> longer;
    for (size_t place : places_for(s, way, tensor, from, ns)) {
      for (Step step : steps) {
        step.placed.emplace_back(tensor, place);
        step.ns += ns[place];
        for (size_t number : statement.readings[way]) {
          const ChoiceModel::Reading& r = model_.reading(number);
          bool kept = r.tensor == tensor && stays(r, s) && model_.read_ns(number, place) > 0;
          if (kept) step.done.push_back(number);
        }
        longer.push_back(std::move(step));
      }
    }
    steps = std::move(longer);
  }
  evaluated_ += steps.size();
  return steps;
}

// Of all ways that leave the same behind only the cheapest.
void LayoutSearch::steps_of(const Beginning& from, size_t number, size_t s,
                            std::vector<Step>& into) {
  const ChoiceModel::Statement& statement = model_.statements()[s];
  const ChoiceModel::Tensor& result = model_.tensors()[statement.result];
  std::map<std::pair<std::vector<size_t>, std::vector<std::pair<size_t, size_t>>>,
           std::vector<Step>>
      alike;
  for (size_t way = 0; way < statement.ways.size(); ++way) {
    for (Step& step : readings_of_way(from, s, way)) {
      std::vector<std::pair<size_t, size_t>> living;
      for (const auto& [tensor, layout] : step.placed) {
        if (model_.tensors()[tensor].last_use > s) living.emplace_back(tensor, layout);
      }
      std::sort(step.done.begin(), step.done.end());
      step.from = number;
      alike[{step.done, std::move(living)}].push_back(std::move(step));
    }
  }
  for (const auto& [left_behind, steps] : alike) {
    for (size_t l = 0; l < result.layouts.size(); ++l) {
      const Step* best = nullptr;
      double least = kNever;
      for (const Step& step : steps) {
        double ns = step.ns + model_.write_ns(s, step.way, l) + result.held_ns[l];
        if (ns >= least) continue;
        least = ns;
        best = &step;
      }
      if (best == nullptr) continue;
      into.push_back(*best);
      into.back().layout = l;
      into.back().ns = least;
    }
  }
}

LayoutSearch::Beginning LayoutSearch::taken(const Beginning& from, const Step& step,
                                            size_t s) const {
  Beginning next = from;
  next.ns = step.ns;
  next.assignment.ways[s] = step.way;
  next.assignment.layouts[model_.statements()[s].result] = step.layout;
  for (const auto& [tensor, layout] : step.placed) next.assignment.layouts[tensor] = layout;
  next.done.insert(next.done.end(), step.done.begin(), step.done.end());
  std::erase_if(next.done, [&](size_t number) { return model_.reading(number).last_use <= s; });
  std::sort(next.done.begin(), next.done.end());
  return next;
}

// What later statements depend on.
std::vector<size_t> LayoutSearch::key_of(const Beginning& b, size_t s) const {
  std::vector<size_t> key;
  for (size_t t = 0; t < model_.tensors().size(); ++t) {
    if (model_.tensors()[t].last_use > s) key.push_back(b.assignment.layouts[t]);
  }
  key.push_back(kNone);
  key.insert(key.end(), b.done.begin(), b.done.end());
  return key;
}

// The layout of the result; all sums that are kept in parts are one.
size_t LayoutSearch::place_of(const Step& step, size_t s) const {
  const ChoiceModel::Tensor& result = model_.tensors()[model_.statements()[s].result];
  return result.layouts[step.layout].partial.empty() ? step.layout : kNone;
}

// The cheapest beginnings that leave different things behind. Most places are for those that leave
// the result under different layouts, so that many variants of one do not crowd out the others.
std::vector<LayoutSearch::Beginning> LayoutSearch::kept_of(const std::vector<Beginning>& before,
                                                           std::vector<Step> steps, size_t s) {
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step& a, const Step& b) { return a.ns < b.ns; });
  std::vector<Beginning> next;
  std::set<std::vector<size_t>> seen;
  std::set<size_t> layouts;
  size_t most = beam_ - beam_ / 4;
  for (bool others : {false, true}) {
    for (const Step& step : steps) {
      if (next.size() == (others ? beam_ : most)) break;
      if (!others && !layouts.insert(place_of(step, s)).second) continue;
      Beginning b = taken(before[step.from], step, s);
      if (seen.insert(key_of(b, s)).second) next.push_back(std::move(b));
    }
  }
  return next;
}

std::vector<Assignment> LayoutSearch::beginnings() {
  Beginning start;
  start.assignment.layouts.assign(model_.tensors().size(), kNone);
  start.assignment.ways.assign(model_.statements().size(), 0);
  std::vector<Beginning> kept{std::move(start)};
  for (size_t s = 0; s < model_.statements().size(); ++s) {
    checkpoint();
    std::vector<Step> steps;
    for (size_t b = 0; b < kept.size(); ++b) steps_of(kept[b], b, s, steps);
    kept = kept_of(kept, std::move(steps), s);
  }
  std::vector<Assignment> all;
  for (Beginning& b : kept) {
    for (size_t t = 0; t < b.assignment.layouts.size(); ++t) {
      size_t& layout = b.assignment.layouts[t];
      if (layout != kNone) continue;  // nobody reads it
      const std::vector<double>& held = model_.tensors()[t].held_ns;
      layout = static_cast<size_t>(std::min_element(held.begin(), held.end()) - held.begin());
    }
    all.push_back(std::move(b.assignment));
  }
  return all;
}

double LayoutSearch::ns_of(const Assignment& a, size_t s, size_t way, bool shared) {
  const ChoiceModel::Statement& statement = model_.statements()[s];
  double ns = statement.compute_ns[way] + model_.write_ns(s, way, a.layouts[statement.result]);
  for (size_t number : statement.readings[way]) {
    const ChoiceModel::Reading& reading = model_.reading(number);
    if (shared || !reading.shared) ns += model_.read_ns(number, a.layouts[reading.tensor]);
  }
  return ns;
}

// Of one statement, as if nobody shared its readings.
double LayoutSearch::local_ns(const Assignment& a, size_t s, size_t way) {
  ++evaluated_;
  return ns_of(a, s, way, true);
}

// The same if all that can be shared is read for nothing.
double LayoutSearch::least_ns(const Assignment& a, size_t s, size_t way) {
  return ns_of(a, s, way, false);
}

void LayoutSearch::choose_way(Assignment& a, size_t s) {
  double least = local_ns(a, s, a.ways[s]);
  for (size_t way = 0; way < model_.statements()[s].ways.size(); ++way) {
    double ns = local_ns(a, s, way);
    if (ns >= least) continue;
    least = ns;
    a.ways[s] = way;
  }
}

bool LayoutSearch::improve_tensor(Assignment& a, size_t tensor, double& least) {
  bool better = false;
  for (size_t l = 0; l < model_.tensors()[tensor].layouts.size(); ++l) {
    if (l == a.layouts[tensor]) continue;
    Assignment other = a;
    other.layouts[tensor] = l;
    for (size_t s : around_[tensor]) choose_way(other, s);
    double ns = cost(other).all();
    if (!(ns < least * kLess)) continue;
    least = ns;
    a = std::move(other);
    better = true;
  }
  return better;
}

// Other statements may share what another way reads: it is tried where it may be cheaper so. The
// result lies where it did, or where it is computed then.
bool LayoutSearch::improve_way(Assignment& a, size_t s, double& least) {
  bool better = false;
  const ChoiceModel::Statement& statement = model_.statements()[s];
  for (size_t way = 0; way < statement.ways.size(); ++way) {
    for (size_t l = 0; l < model_.tensors()[statement.result].layouts.size(); ++l) {
      bool moves = l != a.layouts[statement.result];
      if (moves && model_.write_ns(s, way, l) > 0) continue;
      if (!moves && least_ns(a, s, way) >= local_ns(a, s, a.ways[s])) continue;
      Assignment other = a;
      other.ways[s] = way;
      other.layouts[statement.result] = l;
      double ns = cost(other).all();
      if (!(ns < least * kLess)) continue;
      least = ns;
      a = std::move(other);
      better = true;
    }
  }
  return better;
}

void LayoutSearch::improve(Assignment& a) {
  double least = cost(a).all();
  for (int round = 0; round < kMostRounds; ++round) {
    checkpoint();
    bool better = false;
    for (size_t t = 0; t < a.layouts.size(); ++t) better = improve_tensor(a, t, least) || better;
    for (size_t s = 0; s < a.ways.size(); ++s) better = improve_way(a, s, least) || better;
    if (!better) return;
  }
}

}  // namespace tile
