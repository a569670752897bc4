// The race: rungs of candidates, each rung measured again, the faster third kept.
#include "core/schedule/search/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "core/kernel/schedule.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/search/parametric_tiling.h"
#include "core/schedule/space/candidates.h"
#include "core/support/control.h"

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
// Finalists that are told take time before they are.
double share_until(size_t rung, bool told) {
  constexpr double kShares[] = {0.75, 0.85, 0.93}, kSharesBefore[] = {0.7, 0.78, 0.95};
  return rung < std::size(kShares) ? (told ? kSharesBefore : kShares)[rung] : 1;
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
    checkpoint_at({});
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
const Entry& winner(std::span<const Entry> last) {
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

// So many of the best are put together by kernel.
constexpr size_t kRankedForRace = 200;

// Places of schedules that one kernel serves, the best first; those that share none alone.
std::vector<std::vector<size_t>> by_kernel(const std::vector<Schedule>& ranked,
                                           const Kernel& kernel, const Target& target) {
  std::vector<std::vector<size_t>> groups;
  std::vector<bool> shared(ranked.size());
  for (SharedKernel& k : shared_kernels(ranked, kernel, target)) {
    for (size_t i : k.members) shared[i] = true;
    groups.push_back(std::move(k.members));
  }
  for (size_t i = 0; i < ranked.size(); ++i) {
    if (!shared[i]) groups.push_back({i});
  }
  std::sort(groups.begin(), groups.end());
  return groups;
}

// Schedules of so many kernels, the first of each, then the second of each and so on.
std::vector<size_t> in_turns(std::span<const std::vector<size_t>> groups) {
  std::vector<size_t> order;
  for (size_t turn = 0; turn < kSharedBy; ++turn) {
    for (const std::vector<size_t>& group : groups) {
      if (turn < group.size()) order.push_back(group[turn]);
    }
  }
  return order;
}

// The schedule with blocks of one parallel dimension around it, as many as `parts` if it has as
// many tiles.
std::optional<Schedule> in_blocks(const Schedule& schedule, size_t stage, size_t piece,
                                  IteratorId parallel_dim, int64_t parts, const Piece& of) {
  Schedule other = schedule;
  PieceSchedule& s = other.stages[stage][piece];
  auto over = [&](const Loop& l) { return l.iterator == parallel_dim; };
  auto at = std::find_if(s.outer.begin(), s.outer.end(), over);
  if (at == s.outer.end() || std::count_if(s.outer.begin(), s.outer.end(), over) > 1) {
    return std::nullopt;
  }
  int64_t tiles = ceil_div(of.box[parallel_dim], at->step);
  int64_t block = ceil_div(tiles, parts) * at->step;
  if (tiles <= parts || block == at->step) return std::nullopt;
  Loop inside{parallel_dim, at->step, Binding::serial};
  Binding first = s.outer[0].binding;
  bool outside = at - s.outer.begin() < 1 || at->binding == Binding::parallel;
  if (outside) {
    s.outer.erase(at);
    s.outer.push_back(inside);
  } else {
    for (Packing& p : s.packings) p.level += p.level > 0 ? 1 : 0;
  }
  s.outer.insert(s.outer.begin(), {parallel_dim, block, first});
  return other;
}

// Blocks of run-time sizes cost no code: a group of few gets more of them, around the loops of a
// member.
void add_blocks(std::vector<size_t>& group, Schedule first, std::vector<Schedule>& ranked,
                const Kernel& kernel, const Target& target) {
  for (size_t s = 0; s < first.stages.size(); ++s) {
    for (size_t p = 0; p < first.stages[s].size(); ++p) {
      const Piece& piece = kernel.stages[s].contraction.pieces[p];
      for (int64_t parts : {2, 4, 8}) {
        for (size_t u = 0; u < piece.parallel_dims && group.size() < kSharedBy; ++u) {
          auto other = in_blocks(first, s, p, IteratorId(u), parts, piece);
          if (!other || !illegal(*other, kernel, target).empty()) continue;
          bool known = std::find(ranked.begin(), ranked.end(), *other) != ranked.end();
          std::vector<Schedule> both{first, *other};
          std::vector<SharedKernel> kernels = shared_kernels(both, kernel, target);
          if (known || kernels.size() != 1 || kernels[0].members.size() != 2) continue;
          group.push_back(ranked.size());
          ranked.push_back(std::move(*other));
        }
      }
    }
  }
}

std::vector<Schedule> model_field(const Kernel& kernel, const Target& target, size_t most) {
  if (is_gpu(target)) return candidates(kernel, target, most);
  std::vector<Schedule> ranked = candidates(kernel, target, 1);
  for (Schedule& s : wide_candidates(kernel, target, kRankedForRace)) {
    if (s != ranked[0]) ranked.push_back(std::move(s));
  }
  std::vector<std::vector<size_t>> groups = by_kernel(ranked, kernel, target);
  std::vector<Schedule> field;
  for (size_t at = 0; at < groups.size() && field.size() < most; at += kSharedKernels) {
    auto some = std::span(groups).subspan(at, std::min(kSharedKernels, groups.size() - at));
    for (std::vector<size_t>& group : some) {
      for (size_t i = 0, members = group.size(); i < members; ++i) {
        add_blocks(group, ranked[group[i]], ranked, kernel, target);
      }
    }
    for (size_t i : in_turns(some)) {
      if (field.size() < most) field.push_back(ranked[i]);
    }
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

namespace {

// The last few, which are measured anew once they are told.
class Finalists {
 public:
  explicit Finalists(const SearchOptions& options) : options_(options) {}

  void tell(std::span<Entry> last) {
    if (!options_.finalists || !before_.empty() || last.size() > kFinalists) return;
    std::vector<Schedule> schedules;
    for (Entry& e : last) {
      schedules.push_back(e.schedule);
      before_.push_back(e.best);
      e.best = std::numeric_limits<double>::infinity();
    }
    options_.finalists(schedules);
  }
  // Whom the winner is among. Without time to measure them anew what was known counts.
  std::span<const Entry> among(std::vector<Entry>& field) const {
    size_t count = before_.empty() ? std::min(field.size(), kFinalists) : before_.size();
    std::span<Entry> last(field.data(), count);
    bool measured = before_.empty() || std::any_of(last.begin(), last.end(), [](const Entry& e) {
                      return std::isfinite(e.best);
                    });
    for (size_t i = 0; i < last.size() && !measured; ++i) last[i].best = before_[i];
    return last;
  }

 private:
  const SearchOptions& options_;
  std::vector<double> before_;
};

}  // namespace

Schedule search(const Kernel& kernel, const Target& target,
                const std::function<double(const Schedule&)>& measure,
                const SearchOptions& options) {
  return search_in(field_of(kernel, target, options), kernel, target, measure, options);
}

Schedule search_in(const std::vector<Schedule>& schedules, const Kernel& kernel,
                   const Target& target, const std::function<double(const Schedule&)>& measure,
                   const SearchOptions& options) {
  std::vector<Entry> field;
  for (const Schedule& s : schedules) field.push_back({s, field.size()});
  Race race(measure, options, field.size());
  Finalists finalists(options);
  bool told = static_cast<bool>(options.finalists);
  size_t keep = field.size();
  for (size_t rung = 0; keep > 0 && !race.over(); ++rung) {
    size_t tried = 0;
    finalists.tell(std::span(field).first(keep));
    while (tried < keep && !race.over(share_until(rung, told))) race.run(field[tried++]);
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
  return winner(finalists.among(field)).schedule;
}

}  // namespace tile
