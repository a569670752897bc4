// The race: rungs of candidates, each rung measured again, the faster third kept.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "core/schedule/schedule.h"

namespace tile {
namespace {

constexpr double kNearBound = 1.03;  // times the bound: near enough to stop
constexpr double kTie = 1.01;        // times that differ by less are equal

constexpr double kContender = 1.9;  // times the fastest: the model's pick stays in the race

constexpr size_t kFinalists = 4;
constexpr size_t kFinalRounds = 6;  // of the last two, in turns

// Rungs of 36, 12, 4 and 2.
size_t next_rung(size_t keep) { return keep > 2 ? std::max<size_t>(2, (keep + 2) / 3) : 0; }
size_t rounds_of(size_t keep) { return keep == 2 ? kFinalRounds : 1; }

// Of the budget, what the rungs up to this one may take: those that it keeps are measured again.
double share_until(size_t rung) {
  constexpr double kShares[] = {0.75, 0.85, 0.93};
  return rung < std::size(kShares) ? kShares[rung] : 1;
}

struct Entry {
  Schedule schedule;
  size_t place = 0;  // in the field, which the model has ordered
  double best = std::numeric_limits<double>::infinity();
};

// Budget, bound and progress of one race.
class Race {
 public:
  Race(const std::function<double(const Schedule&)>& measure, const SearchOptions& options,
       size_t entries)
      : measure_(measure), options_(options) {
    if (options.clock) start_ = options.clock();
    for (size_t n = entries; n > 0; n = next_rung(n)) total_ += n * rounds_of(n);
  }

  // Whether this share of the budget is spent, or no more is to be found.
  bool over(double share = 1) const {
    double spent = options_.clock ? options_.clock() - start_ : measured_;
    return spent >= share * options_.budget_ns || near_bound();
  }
  // What is clearly faster shows that the bound is none.
  bool near_bound() const {
    return best_ <= kNearBound * options_.bound_ns && kNearBound * best_ >= options_.bound_ns;
  }
  void run(Entry& entry) {
    double ns = measure_(entry.schedule);
    ++tried_;
    entry.best = std::min(entry.best, ns);
    best_ = std::min(best_, ns);
    if (std::isfinite(ns)) measured_ += ns;
    if (options_.progress) options_.progress(tried_, total_, best_);
  }

 private:
  const std::function<double(const Schedule&)>& measure_;
  const SearchOptions& options_;
  double start_ = 0, measured_ = 0;
  double best_ = std::numeric_limits<double>::infinity();
  size_t tried_ = 0, total_ = 0;
};

// The model's pick is measured as often as what is to replace it. `field` is sorted by time.
void keep_pick(std::vector<Entry>& field, size_t keep) {
  auto pick = std::find_if(field.begin(), field.end(), [](const Entry& e) { return e.place == 0; });
  bool kept = pick < field.begin() + static_cast<std::ptrdiff_t>(keep);
  if (kept || keep == 0 || pick->best > kContender * field[0].best) return;
  std::rotate(field.begin() + static_cast<std::ptrdiff_t>(keep) - 1, pick, pick + 1);
}

// Of finalists that are equally fast the one that the model prefers.
const Entry& winner(const std::vector<Entry>& field) {
  std::span<const Entry> last(field.data(), std::min(field.size(), kFinalists));
  auto faster = [](const Entry& a, const Entry& b) { return a.best < b.best; };
  double limit = kTie * std::min_element(last.begin(), last.end(), faster)->best;
  const Entry* best = nullptr;
  for (const Entry& e : last) {
    bool preferred = best == nullptr || e.place < best->place;
    if (e.best <= limit && preferred) best = &e;
  }
  return *best;
}

// Whether the schedules differ in this piece alone; nullopt: in more, or not at all.
std::optional<std::pair<size_t, size_t>> sole_difference(const Schedule& a, const Schedule& b) {
  std::optional<std::pair<size_t, size_t>> where;
  if (a.shared != b.shared || a.stages.size() != b.stages.size()) return std::nullopt;
  for (size_t s = 0; s < a.stages.size(); ++s) {
    if (a.stages[s].size() != b.stages[s].size()) return std::nullopt;
    for (size_t p = 0; p < a.stages[s].size(); ++p) {
      if (a.stages[s][p] == b.stages[s][p]) continue;
      if (where) return std::nullopt;
      where = {s, p};
    }
  }
  return where;
}

// Candidates change one piece of the model's pick each: the one that has what was best of each.
// `field` is sorted by time.
std::optional<Schedule> combination(const std::vector<Entry>& field, size_t count,
                                    const Kernel& kernel, const Target& target) {
  auto base = std::find_if(field.begin(), field.end(), [](const Entry& e) { return e.place == 0; });
  Schedule all = base->schedule;
  std::set<std::pair<size_t, size_t>> changed;
  for (size_t i = 0; i < count && field[i].best < base->best; ++i) {
    auto where = sole_difference(field[i].schedule, base->schedule);
    if (!where || !changed.insert(*where).second) continue;
    auto [s, p] = *where;
    all.stages[s][p] = field[i].schedule.stages[s][p];
  }
  if (changed.size() < 2 || !illegal(all, kernel, target).empty()) return std::nullopt;
  return all;
}

// What is inside the loops over tiles: the register tile, its reduction and which operands are
// copied. Orders of the loops around it and blocks for the caches are left out.
std::string innermost(const Schedule& schedule) {
  Schedule inner = schedule;
  for (std::vector<PieceSchedule>& stage : inner.stages) {
    for (PieceSchedule& piece : stage) {
      std::vector<Loop> steps;
      for (const Loop& l : piece.outer) {
        auto same = [&](const Loop& other) { return other.unknown == l.unknown; };
        std::erase_if(steps, same);
        steps.push_back({l.unknown, l.step, Binding::serial});
      }
      std::sort(steps.begin(), steps.end(),
                [](const Loop& a, const Loop& b) { return a.unknown < b.unknown; });
      piece.outer = std::move(steps);
      for (Packing& p : piece.packings) p = {p.load, 0, {}};
    }
  }
  return print(inner);
}

// The first of each kind, then the second of each, and so on.
std::vector<Schedule> by_kind(std::vector<Schedule> ranked) {
  std::map<std::string, size_t> seen;
  std::vector<std::pair<size_t, Schedule>> turns;
  for (Schedule& s : ranked) {
    size_t turn = seen[innermost(s)]++;
    turns.emplace_back(turn, std::move(s));
  }
  std::stable_sort(turns.begin(), turns.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Schedule> ordered;
  for (auto& [turn, s] : turns) ordered.push_back(std::move(s));
  return ordered;
}

// So many of the best are sorted by kind.
constexpr size_t kRankedForRace = 160;

std::vector<Schedule> model_field(const Kernel& kernel, const Target& target, size_t most) {
  if (is_gpu(target)) return candidates(kernel, target, most);
  std::vector<Schedule> field = candidates(kernel, target, 1);
  for (Schedule& s : by_kind(wide_candidates(kernel, target, kRankedForRace))) {
    if (field.size() < most && s != field[0]) field.push_back(std::move(s));
  }
  return field;
}

}  // namespace

std::vector<Schedule> field_of(const Kernel& kernel, const Target& target,
                               const SearchOptions& options) {
  size_t most = std::max<size_t>(options.candidates, 1);
  std::vector<Schedule> field = model_field(kernel, target, most);
  // Room that is left is for tiles that the model would not have tried.
  if (field.size() < most) {
    for (Schedule& s : whole_space(kernel, target, most)) {
      bool fresh = std::find(field.begin(), field.end(), s) == field.end();
      if (fresh && field.size() < most) field.push_back(std::move(s));
    }
  }
  // What was best elsewhere comes second: a race that is cut short has tried it.
  for (const Schedule& s : options.also) {
    bool fresh = std::find(field.begin(), field.end(), s) == field.end();
    if (fresh && illegal(s, kernel, target).empty()) field.insert(field.begin() + 1, s);
  }
  return field;
}

Schedule search(const Kernel& kernel, const Target& target,
                const std::function<double(const Schedule&)>& measure,
                const SearchOptions& options) {
  std::vector<Entry> field;
  for (Schedule& s : field_of(kernel, target, options)) {
    field.push_back({std::move(s), field.size()});
  }
  Race race(measure, options, field.size());
  size_t keep = field.size();
  for (size_t rung = 0; keep > 0 && !race.over(); ++rung) {
    size_t tried = 0;
    while (tried < keep && !race.over(share_until(rung))) race.run(field[tried++]);
    for (size_t i = keep; tried == keep && i < keep * rounds_of(keep) && !race.over(); ++i) {
      race.run(field[i % keep]);
    }
    std::stable_sort(field.begin(), field.begin() + static_cast<std::ptrdiff_t>(keep),
                     [](const Entry& a, const Entry& b) { return a.best < b.best; });
    if (rung == 0 && !race.over()) {
      if (auto joined = combination(field, tried, kernel, target)) {
        field.insert(field.begin(), {std::move(*joined), keep});
      }
    }
    keep = next_rung(rung == 0 ? tried : keep);
    keep_pick(field, keep);
  }
  return winner(field).schedule;
}

}  // namespace tile
