#include "core/schedule/search/parametric_tiling.h"

#include <algorithm>
#include <map>
#include <string>

#include "core/schedule/cost/piece/piece_model.h"
#include "core/schedule/cost/piece/thread_cost.h"

namespace tile {
namespace {

// The outer loops of a piece, without those over parallel dimensions of one block.
struct Walk {
  std::vector<Loop>
      before;  // over parallel dimensions, outside what is copied and the blocks of reductions
  std::vector<Loop> reductions;  // blocks of them
  std::vector<Loop> after;       // over parallel dimensions
  bool splits_freely = false;    // `before` may end anywhere
};

class PieceForm {
 public:
  PieceForm(const PieceSchedule& s, const Piece& piece) : s_(s), piece_(piece) {
    for (const Loop& l : s.outer) steps_[l.iterator] = l.step;  // of the last loop
  }

  std::optional<Walk> walk() const {
    bool loops = !s_.carried.valid() && !s_.has_gpu_form();
    std::optional<size_t> level = copy_level();
    if (!loops || !level || !copies_by_tiles()) return std::nullopt;
    Walk walk;
    bool inside = false;
    for (size_t i = 0; i < s_.outer.size(); ++i) {
      const Loop& l = s_.outer[i];
      inside = inside || (*level > 0 && i >= *level);
      if (!parallel_dim(l)) {
        if (inside || !walk.after.empty()) return std::nullopt;
        walk.reductions.push_back(l);
      } else if (several(l.iterator)) {
        if (l.step % unit(l.iterator) != 0) return std::nullopt;
        bool late = inside || !walk.reductions.empty();
        if (late && *level > 0 && !inside) return std::nullopt;  // a copy is made for each
        (late ? walk.after : walk.before).push_back(l);
      }
    }
    walk.splits_freely = *level == 0 && walk.reductions.empty();
    return walk;
  }

  bool parallel_dim(const Loop& l) const { return piece_.is_parallel(l.iterator); }
  int64_t unit(IteratorId iterator) const { return steps_.at(iterator); }
  // Of the last loop over the parallel dimension.
  int64_t tiles(IteratorId iterator) const {
    return ceil_div(piece_.box[iterator], unit(iterator));
  }
  bool several(IteratorId iterator) const { return tiles(iterator) > 1; }
  // Parallel dimensions that have blocks.
  std::vector<IteratorId> blocked() const {
    std::vector<IteratorId> list;
    for (const auto& [u, step] : steps_) {
      if (piece_.is_parallel(u) && several(u)) list.push_back(u);
    }
    return list;
  }
  // The last loop over each parallel dimension, in their order.
  std::vector<Loop> tile_loops() const {
    std::vector<Loop> list;
    for (const Loop& l : s_.outer) {
      if (!parallel_dim(l)) continue;
      std::erase_if(list, [&](const Loop& other) { return other.iterator == l.iterator; });
      list.push_back({l.iterator, l.step, Binding::serial});
    }
    return list;
  }
  bool threads() const {
    return std::any_of(s_.outer.begin(), s_.outer.end(),
                       [](const Loop& l) { return l.binding == Binding::parallel; });
  }
  bool copies_whole() const {
    return std::any_of(s_.packings.begin(), s_.packings.end(),
                       [](const Packing& p) { return p.level == 0; });
  }

  // The piece in its form; `tiles`: the last loop over each parallel dimension.
  PieceSchedule formed(const Walk& walk, std::vector<Loop> tiles) const {
    PieceSchedule form = s_;
    form.outer.clear();
    // Copies of whole operands are made by threads or not, as the rest is.
    Binding binding = copies_whole() && !threads() ? Binding::serial : Binding::parallel;
    for (IteratorId u : blocked()) form.outer.push_back({u, unit(u), binding});
    form.outer.insert(form.outer.end(), walk.reductions.begin(), walk.reductions.end());
    size_t level = form.outer.size();
    form.outer.insert(form.outer.end(), tiles.begin(), tiles.end());
    for (Packing& p : form.packings) p.level = p.level > 0 ? level : 0;
    return form;
  }

 private:
  // Of the copies inside the loops; 0: there are none; nullopt: at several places.
  std::optional<size_t> copy_level() const {
    size_t level = 0;
    for (const Packing& p : s_.packings) {
      if (p.level == 0) continue;
      if (level > 0 && p.level != level) return std::nullopt;
      level = p.level;
    }
    return level;
  }
  // No copy has a dimension of blocks whose size a launch gives.
  bool copies_by_tiles() const {
    return std::all_of(s_.packings.begin(), s_.packings.end(), [&](const Packing& p) {
      return std::all_of(p.order.begin(), p.order.end(), [&](const Loop& l) {
        auto at = steps_.find(l.iterator);
        return !parallel_dim(l) || at == steps_.end() || l.step <= at->second;
      });
    });
  }

  const PieceSchedule& s_;
  const Piece& piece_;
  std::map<IteratorId, int64_t> steps_;
};

// How a member walks the blocks of a form.
class Member {
 public:
  Member(const PieceForm& form, const Walk& walk, const PieceSchedule& shared)
      : form_(form), walk_(walk) {
    for (size_t i = 0; i < shared.outer.size(); ++i) place_[shared.outer[i].iterator] = i;
  }

  // The loops that become the one over blocks: as many as must, so that the rest are loops over
  // tiles in the form's order. `chunks`: of which threads take one each.
  std::optional<std::vector<Loop>> head(int64_t chunks) const {
    std::vector<Loop> all = walk_.before;
    if (!walk_.splits_freely) return fits(all, walk_.after) ? std::optional(all) : std::nullopt;
    for (size_t n = 0; n <= all.size(); ++n) {
      auto end = all.begin() + static_cast<std::ptrdiff_t>(n);
      std::vector<Loop> first(all.begin(), end), rest(end, all.end());
      bool shares = parallel_in(rest) == 0 || product(first, first.size()) % chunks == 0;
      if (shares && fits(first, rest)) return first;
    }
    return std::nullopt;
  }
  int64_t product(const std::vector<Loop>& loops, size_t count) const {
    int64_t all = 1;
    for (size_t i = 0; i < count; ++i) all = checked_mul(all, blocks(loops[i]));
    return all;
  }
  int64_t blocks(const Loop& l) const {
    return ceil_div(form_.tiles(l.iterator), l.step / form_.unit(l.iterator));
  }
  static size_t parallel_in(const std::vector<Loop>& loops) {
    return static_cast<size_t>(std::count_if(
        loops.begin(), loops.end(), [](const Loop& l) { return l.binding == Binding::parallel; }));
  }

 private:
  static bool once(const std::vector<Loop>& loops) {
    for (size_t i = 0; i < loops.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (loops[i].iterator == loops[j].iterator) return false;
      }
    }
    return true;
  }
  bool fits(const std::vector<Loop>& first, const std::vector<Loop>& rest) const {
    if (!once(first) || !once(rest)) return false;
    for (size_t i = 0; i < rest.size(); ++i) {
      bool last = rest[i].step == form_.unit(rest[i].iterator);
      if (!last || (i > 0 && place_.at(rest[i].iterator) < place_.at(rest[i - 1].iterator))) {
        return false;
      }
    }
    return true;
  }

  const PieceForm& form_;
  const Walk& walk_;
  std::map<IteratorId, size_t> place_;
};

// One piece of a kernel under a schedule, where it has a form.
struct FormedPiece {
  PieceForm form;
  Walk walk;
  const PieceSchedule* schedule;
  const Piece* piece;
  const Contraction* contraction;
};

std::optional<std::vector<std::vector<FormedPiece>>> formed_pieces(const Schedule& schedule,
                                                                   const Kernel& kernel) {
  std::vector<std::vector<FormedPiece>> all(schedule.stages.size());
  bool any = false;
  for (size_t s = 0; s < schedule.stages.size(); ++s) {
    const Contraction& c = kernel.stages[s].contraction;
    for (size_t p = 0; p < schedule.stages[s].size(); ++p) {
      const PieceSchedule& how = schedule.stages[s][p];
      PieceForm form(how, c.pieces[p]);
      std::optional<Walk> walk = form.walk();
      if (!walk) return std::nullopt;
      any = any || !form.blocked().empty();
      all[s].push_back({std::move(form), std::move(*walk), &how, &c.pieces[p], &c});
    }
  }
  if (!any) return std::nullopt;
  return all;
}

// What the members of a form have in common.
std::string kind_of(const std::vector<std::vector<FormedPiece>>& pieces) {
  Schedule kind;
  for (const std::vector<FormedPiece>& stage : pieces) {
    kind.stages.emplace_back();
    for (const FormedPiece& f : stage) {
      std::vector<Loop> tiles = f.form.tile_loops();
      std::sort(tiles.begin(), tiles.end(),
                [](const Loop& a, const Loop& b) { return a.iterator < b.iterator; });
      kind.stages.back().push_back(f.form.formed(f.walk, std::move(tiles)));
    }
  }
  return print(kind);
}

std::optional<std::vector<int64_t>> piece_arguments(const FormedPiece& f,
                                                    const PieceSchedule& shared,
                                                    const Kernel& kernel, const Target& target) {
  std::vector<IteratorId> blocked = f.form.blocked();
  if (blocked.empty()) return std::vector<int64_t>{};
  Member member(f.form, f.walk, shared);
  std::vector<Loop> own = f.walk.before;
  size_t parallel = Member::parallel_in(own);
  int64_t tasks = member.product(own, parallel), chunks = 1;
  if (parallel > 0) {
    double ns = piece_nanoseconds(*f.piece, *f.contraction, kernel, *f.schedule, target);
    chunks = std::clamp<int64_t>(tasks / parallel_grain(ns, tasks), 1, std::max(1, target.threads));
  }
  std::optional<std::vector<Loop>> head = member.head(chunks);
  if (!head) return std::nullopt;
  parallel = std::min(parallel, head->size());
  tasks = member.product(*head, parallel);
  int64_t all = member.product(*head, head->size());
  if (all > kMostParametricTiles) return std::nullopt;
  int64_t each = ceil_div(tasks, chunks) * (all / tasks);
  std::vector<int64_t> arguments{ceil_div(all, each), each, all};
  for (size_t i = 0; i + 1 < blocked.size(); ++i) {
    arguments.push_back(i < head->size() ? all / member.product(*head, i + 1) : 1);
  }
  for (IteratorId u : blocked) {
    size_t at = 0;
    while (at < head->size() && (*head)[at].iterator != u) ++at;
    bool found = at < head->size();
    int64_t tiles = found ? (*head)[at].step / f.form.unit(u) : f.form.tiles(u);
    arguments.push_back(tiles);
    for (size_t i = 0; i < blocked.size(); ++i) {
      arguments.push_back(found && i == at ? tiles : 0);
    }
  }
  return arguments;
}

SharedForm form_of(const std::vector<std::vector<FormedPiece>>& pieces) {
  SharedForm form;
  for (const std::vector<FormedPiece>& stage : pieces) {
    form.schedule.stages.emplace_back();
    form.blocks.emplace_back();
    for (const FormedPiece& f : stage) {
      form.schedule.stages.back().push_back(f.form.formed(f.walk, f.form.tile_loops()));
      form.blocks.back().push_back(f.form.blocked().size());
    }
  }
  return form;
}

std::optional<std::vector<int64_t>> arguments_of(
    const std::vector<std::vector<FormedPiece>>& pieces, const SharedForm& form,
    const Kernel& kernel, const Target& target) {
  std::vector<int64_t> all;
  for (size_t s = 0; s < pieces.size(); ++s) {
    for (size_t p = 0; p < pieces[s].size(); ++p) {
      auto more = piece_arguments(pieces[s][p], form.schedule.stages[s][p], kernel, target);
      if (!more) return std::nullopt;
      all.insert(all.end(), more->begin(), more->end());
    }
  }
  return all;
}

// Blocks as large as the arguments ask for.
void enlarge(SharedForm& form, const std::vector<int64_t>& arguments) {
  size_t at = 0;
  for (size_t s = 0; s < form.blocks.size(); ++s) {
    for (size_t p = 0; p < form.blocks[s].size(); ++p) {
      size_t loops = form.blocks[s][p];
      if (loops == 0) continue;
      at += 3 + loops - 1;
      std::vector<Loop>& outer = form.schedule.stages[s][p].outer;
      for (size_t i = 0; i < loops; ++i, at += 1 + loops) {
        int64_t unit = tile_cells(outer, outer[i].iterator);
        outer[i].step = std::max(outer[i].step, checked_mul(arguments[at], unit));
      }
    }
  }
}

bool can_share(const Kernel& kernel, const Target& target) {
  return !is_gpu(target) && row_loops(kernel) == 0;
}

}  // namespace

int64_t tile_cells(const std::vector<Loop>& outer, IteratorId parallel_dim) {
  int64_t cells = 1;
  for (const Loop& l : outer) cells = l.iterator == parallel_dim ? l.step : cells;
  return cells;
}

std::optional<SharedForm> shared_form(const Schedule& schedule, const Kernel& kernel,
                                      const Target& target) {
  std::vector<SharedKernel> kernels = shared_kernels(std::span(&schedule, 1), kernel, target);
  if (kernels.empty()) return std::nullopt;
  return std::move(kernels[0].form);
}

std::vector<SharedKernel> shared_kernels(std::span<const Schedule> schedules, const Kernel& kernel,
                                         const Target& target) {
  std::vector<SharedKernel> kernels;
  if (!can_share(kernel, target)) return kernels;
  std::multimap<std::string, size_t> by_kind;
  for (size_t i = 0; i < schedules.size(); ++i) {
    auto pieces = formed_pieces(schedules[i], kernel);
    if (!pieces) continue;
    std::string kind = kind_of(*pieces);
    std::optional<std::vector<int64_t>> arguments;
    auto [begin, end] = by_kind.equal_range(kind);
    auto at = std::find_if(begin, end, [&](const auto& known) {
      arguments = arguments_of(*pieces, kernels[known.second].form, kernel, target);
      return arguments.has_value();
    });
    size_t number = at == end ? kernels.size() : at->second;
    if (at == end) {
      SharedKernel fresh{form_of(*pieces), {}, {}};
      arguments = arguments_of(*pieces, fresh.form, kernel, target);
      if (!arguments) continue;
      kernels.push_back(std::move(fresh));
      by_kind.emplace(std::move(kind), number);
    }
    enlarge(kernels[number].form, *arguments);
    kernels[number].members.push_back(i);
    kernels[number].arguments.push_back(std::move(*arguments));
  }
  return kernels;
}

}  // namespace tile
