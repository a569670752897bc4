#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/distribute/choice/layout_search.h"
#include "core/distribute/sums.h"
#include "core/support/control.h"

namespace tile {
namespace {

// Beginnings that are improved, the cheapest ones.
constexpr size_t kImproved = 2;

class Chooser {
 public:
  Chooser(const BoundProgram& program, Distribution named, const ChoiceOptions& options)
      : program_(program),
        named_(std::move(named)),
        options_(options),
        model_(program, named_, options) {}

  Choice run() {
    // They may add layouts to the model, and so come first.
    Assignment whole = everything_whole(), followed = followers();
    LayoutSearch search(model_, options_.beam);
    for (size_t s = 0; s < followed.ways.size(); ++s) {
      take_own_way(followed, s);
      size_t result = model_.statements()[s].result;
      if (!std::isfinite(model_.write_ns(s, 0, whole.layouts[result]))) take_own_way(whole, s);
    }
    choice_.whole = search.cost(whole);
    choice_.followed = search.cost(followed);
    std::vector<Assignment> starts = search.beginnings();
    std::stable_sort(starts.begin(), starts.end(), [&](const Assignment& a, const Assignment& b) {
      return search.cost(a).all() < search.cost(b).all();
    });
    if (starts.size() > kImproved) starts.resize(kImproved);
    double cheapest = search.cost(starts[0]).all();
    for (Assignment* other : {&followed, &whole}) {
      if (search.cost(*other).all() < cheapest) starts.push_back(std::move(*other));
    }
    std::optional<Assignment> best;
    for (Assignment& start : starts) {
      search.improve(start);
      ChoiceCost cost = search.cost(start);
      if (best && cost.all() >= choice_.cost.all()) continue;
      choice_.cost = cost;
      best = std::move(start);
    }
    if (options_.alternatives) find_alternatives(*best, search);
    choice_.evaluated = search.evaluated();
    write_down(*best);
    return std::move(choice_);
  }

 private:
  Assignment everything_whole() {
    Assignment a;
    for (size_t t = 0; t < model_.tensors().size(); ++t) {
      size_t dims = program_.tensors[model_.tensors()[t].id].shape.size();
      bool open = model_.tensors()[t].layouts.size() > 1;
      a.layouts.push_back(open ? model_.number_of(t, whole_layout(dims)) : 0);
    }
    a.ways.assign(model_.statements().size(), 0);
    return a;
  }

  Assignment followers() {
    Distribution rule = named_;
    complete_layouts(program_, rule);
    Assignment a;
    for (size_t t = 0; t < model_.tensors().size(); ++t) {
      a.layouts.push_back(model_.number_of(t, rule.layouts[model_.tensors()[t].id]));
    }
    a.ways.assign(model_.statements().size(), 0);
    return a;
  }

  // The cheapest of those that compute a result where it lies, and may divide its terms.
  void take_own_way(Assignment& a, size_t s) {
    const ChoiceModel::Statement& statement = model_.statements()[s];
    const TensorLayout& layout =
        model_.tensors()[statement.result].layouts[a.layouts[statement.result]];
    double least = std::numeric_limits<double>::infinity();
    for (size_t w = 0; w < statement.ways.size(); ++w) {
      const Way& way = statement.ways[w];
      if (way.computed != without(layout, way.axes(), named_.mesh)) continue;
      double ns = way_ns(a, s, w);
      if (ns >= least) continue;
      least = ns;
      a.ways[s] = w;
    }
  }

  double way_ns(const Assignment& a, size_t s, size_t way) {
    const ChoiceModel::Statement& statement = model_.statements()[s];
    double ns = statement.compute_ns[way] + model_.write_ns(s, way, a.layouts[statement.result]);
    for (size_t number : statement.readings[way]) {
      ns += model_.read_ns(number, a.layouts[model_.reading(number).tensor]);
    }
    return ns;
  }

  // The cheapest other way of each statement, its result lying where it suits that.
  void find_alternatives(const Assignment& best, LayoutSearch& search) {
    for (size_t s = 0; s < best.ways.size(); ++s) {
      checkpoint();
      const ChoiceModel::Statement& statement = model_.statements()[s];
      std::optional<Choice::Alternative> next;
      for (size_t w = 0; w < statement.ways.size(); ++w) {
        if (w == best.ways[s]) continue;
        Assignment other = best;
        other.ways[s] = w;
        for (size_t l = 0; l < model_.tensors()[statement.result].layouts.size(); ++l) {
          other.layouts[statement.result] = l;
          double more = search.cost(other).time_ns() - choice_.cost.time_ns();
          if (!std::isfinite(more) || (next && more >= next->more_ns)) continue;
          next = {program_.tensors[model_.tensors()[statement.result].id].name,
                  statement.ways[w].computed, statement.ways[w].cuts, more};
        }
      }
      if (next) choice_.alternatives.push_back(std::move(*next));
    }
  }

  void write_down(const Assignment& best) {
    Distribution& d = choice_.distribution;
    d = named_;
    for (TensorId id : program_.tensors.ids()) {
      if (!d.named[id]) d.layouts[id] = whole_layout(program_.tensors[id].shape.size());
    }
    for (size_t t = 0; t < best.layouts.size(); ++t) {
      d.layouts[model_.tensors()[t].id] = model_.tensors()[t].layouts[best.layouts[t]];
    }
    for (size_t s = 0; s < best.ways.size(); ++s) {
      const ChoiceModel::Statement& statement = model_.statements()[s];
      TensorId result = model_.tensors()[statement.result].id;
      const Way& way = statement.ways[best.ways[s]];
      d.computed[result] = way.computed;
      if (!way.cuts.empty()) d.cuts[result] = way.cuts;
    }
  }

  const BoundProgram& program_;
  Distribution named_;
  const ChoiceOptions& options_;
  ChoiceModel model_;
  Choice choice_;
};

}  // namespace

RankRates rank_rates(const Target& target) {
  // [guide] Of the tensor cores' peak, what large products reach (bench/RESULTS.md).
  constexpr double kReached = 0.7;
  RankRates rates;
  double cores = is_gpu(target) ? target.gpu.multiprocessors : target.threads;
  rates.multiply_adds_per_ns = std::max(1.0, cores) * target.fma_per_ns;
  // A GPU's rate is that of one multiprocessor's share of the memory.
  rates.bytes_per_ns = target.dram_bytes_per_ns * (is_gpu(target) ? std::max(1.0, cores) : 1);
  auto set = [&](DType type, double rate) {
    rates.products_per_ns[static_cast<size_t>(type)] = rate * std::max(1.0, cores);
  };
  for (size_t t = 0; t < rates.products_per_ns.size() && is_gpu(target); ++t) {
    auto type = static_cast<DType>(t);
    set(type, kReached * tensor_core_rate(type, target));
  }
  if (!is_gpu(target)) {
    set(DType::bf16, target.dot_bf16_per_ns);
    set(DType::i8, target.dot_i8_per_ns);
    set(DType::u8, target.dot_i8_per_ns);
  }
  return rates;
}

Choice choose_layouts(const BoundProgram& program, Distribution named,
                      const ChoiceOptions& options) {
  return Chooser(program, std::move(named), options).run();
}

}  // namespace tile
