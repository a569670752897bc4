// Products of rows and columns (scores), and what is made of them cell by cell, are stored only
// where several sums read them that no one kernel makes: sums over rows and over columns, or sums
// that need the result of others, as gradients of attention do. Here each such user gets scores of
// its own, computed again block by block in its kernel (fuse-streams), so that none are stored:
// recomputation as in FlashAttention (Dao et al.), but of any statements. Decided by the model, of
// the kernels that both programs become.
#include <algorithm>

#include "core/fusion/group.h"
#include "core/ir/analysis/uses.h"
#include "core/layout/layout.h"
#include "core/layout/own_scores.h"
#include "core/layout/program_parts.h"
#include "core/support/choices.h"
#include "core/support/control.h"

namespace tile {
namespace {

using layout::Instead;
using layout::ScoreRegion;
using layout::Sharing;

constexpr size_t kMostUsers = 24;        // of a region: a choice names each by a bit
constexpr int kAsynchronousCopies = 80;  // compute capability of the kernels

class Recomputation {
 public:
  Recomputation(BoundProgram& program, const Target& target)
      : program_(program), target_(target), uses_(program) {}

  void run() {
    std::set<size_t> seen;
    Instead all;
    for (size_t i = 0; i < program_.statements.size(); ++i) {
      checkpoint();
      if (seen.contains(i)) continue;
      std::optional<ScoreRegion> region = layout::score_region(program_, target_, uses_, i);
      if (!region) continue;
      seen.insert(region->cells.begin(), region->cells.end());
      // What a region before has changed is made of scores that may be gone.
      auto changed = [&](size_t s) { return all.contains(s); };
      if (std::any_of(region->cells.begin(), region->cells.end(), changed) ||
          std::any_of(region->users.begin(), region->users.end(), changed)) {
        continue;
      }
      if (region->users.size() < 2 || region->users.size() > kMostUsers) continue;
      if (layout::compares_with_picked(program_, *region)) continue;
      for (auto& [at, list] : chosen_for(*region)) all[at] = std::move(list);
    }
    if (!all.empty()) program_.statements = layout::with(program_, all);
  }

 private:
  const Contraction* contraction(size_t i) const {
    return std::get_if<Contraction>(&program_.statements[i]);
  }
  // What is chosen: 0 leaves the program as it is; else the users that keep the program's scores,
  // as bits, and whether the others share scores where they can.
  Instead chosen_for(const ScoreRegion& region) {
    size_t tensors = program_.tensors.size();
    std::string name = program_.tensors[contraction(*region.cells.begin())->outputs[0]].name;
    size_t answer = chosen("recompute " + name, [&] {
      return answers_.get(text_of(region), [&] { return best(region); });
    });
    program_.tensors.resize(tensors);
    if (answer == 0) return {};
    return layout::own_scores(program_, region, sharing(region, answer / 4, answer % 4 == 1));
  }

  // Of what is asked: the statements, and which of them are the region's.
  std::string text_of(const ScoreRegion& region) const {
    std::vector<size_t> list = layout::around(program_, uses_, region);
    std::string text = layout::text_of(layout::part(program_, uses_, list, {}));
    if (text.empty()) return text;
    for (size_t i : list) {
      text += region.cells.contains(i) ? 'c' : region.users.contains(i) ? 'u' : '-';
      auto reduced = region.reduced.find(i);
      if (reduced == region.reduced.end()) continue;
      for (const auto& r : reduced->second) {
        text += std::to_string(r.iterator) + ":" + std::to_string(r.axis) + " ";
      }
    }
    return text;
  }

  size_t best(const ScoreRegion& region) {
    std::vector<size_t> list = layout::around(program_, uses_, region);
    Best best{0, price_of(list, {})};
    size_t stay = staying(region);
    improve(best, region, list, stay);
    // What makes one kernel alone may be kept from it by what reads its results.
    if (stay != 0) improve(best, region, list, 0);
    return best.answer;
  }
  struct Best {
    size_t answer = 0;
    Price price;
  };
  void improve(Best& best, const ScoreRegion& region, const std::vector<size_t>& list,
               size_t stay) {
    size_t tensors = program_.tensors.size();
    for (bool shares : {true, false}) {
      std::vector<Sharing> lists = sharing(region, stay, shares);
      if (lists.empty()) return;
      bool shared = std::any_of(lists.begin(), lists.end(),
                                [](const Sharing& l) { return l.users.size() > 1; });
      if (shares && !shared) continue;
      Instead other = layout::own_scores(program_, region, lists);
      Price price = price_of(list, other);
      program_.tensors.resize(tensors);
      if (price < best.price) best = {4 * stay + (shares ? 1 : 2), price};
    }
  }

  Price price_of(const std::vector<size_t>& list, const Instead& instead) const {
    return layout::kernel_price(layout::part(program_, uses_, list, instead), target_);
  }

  // The users that one kernel makes with a running maximum, as bits: a user and those that it needs
  // are tried as a program of their own; again where others have come to stay, since a sum of
  // weights alone joins a kernel that multiplies them, and is none.
  size_t staying(const ScoreRegion& region) const {
    std::set<size_t> stay;
    for (size_t before = 1; before != stay.size();) {
      before = stay.size();
      add_staying(region, stay);
    }
    size_t bits = 0, bit = 1;
    for (size_t user : region.users) {
      if (stay.contains(user)) bits |= bit;
      bit <<= 1;
    }
    return bits;
  }
  void add_staying(const ScoreRegion& region, std::set<size_t>& stay) const {
    for (size_t user : region.users) {
      if (!region.reduced.contains(user) || stay.contains(user)) continue;
      std::set<size_t> more = stay;
      more.insert(user);
      std::set<size_t> needed = needed_by(region, more);
      for (size_t u : region.users) {
        if (needed.contains(u)) more.insert(u);
      }
      if (one_axis(region, more) && streams(region, needed)) stay = std::move(more);
    }
  }
  // A kernel streams one axis.
  static bool one_axis(const ScoreRegion& region, const std::set<size_t>& users) {
    std::set<size_t> axes;
    for (size_t user : users) {
      auto reduced = region.reduced.find(user);
      if (reduced == region.reduced.end()) continue;
      for (const ScoreRegion::Reduced& r : reduced->second) axes.insert(r.axis);
    }
    return axes.size() <= 1;
  }
  // Those statements of the region's that the given ones are made of, and themselves.
  std::set<size_t> needed_by(const ScoreRegion& region, const std::set<size_t>& of) const {
    std::set<size_t> all;
    std::vector<size_t> open(of.begin(), of.end());
    while (!open.empty()) {
      size_t i = open.back();
      open.pop_back();
      if (!all.insert(i).second) continue;
      for (TensorId id : read_by(program_.statements[i])) {
        std::optional<size_t> made = uses_.maker(storage_of(program_, id));
        if (made && (region.cells.contains(*made) || region.users.contains(*made))) {
          open.push_back(*made);
        }
      }
    }
    return all;
  }
  bool streams(const ScoreRegion& region, const std::set<size_t>& statements) const {
    GroupOptions options;
    options.streams = true;
    BoundProgram alone = layout::part(program_, uses_, {statements.begin(), statements.end()}, {});
    std::erase_if(alone.outputs,
                  [&](TensorId id) { return region.cells.contains(*uses_.maker(id)); });
    std::set<TensorId> stored;
    for (const Step& step : group(alone, target_, options)) {
      if (const Kernel* k = std::get_if<Kernel>(&step)) {
        stored.insert(k->writes.begin(), k->writes.end());
      }
    }
    return std::none_of(region.cells.begin(), region.cells.end(),
                        [&](size_t i) { return stored.contains(contraction(i)->outputs[0]); });
  }

  // Lists of the other users that are sums; empty: there are none.
  std::vector<Sharing> sharing(const ScoreRegion& region, size_t stay, bool shares) const {
    std::vector<std::pair<std::vector<size_t>, Sharing>> lists;  // with the axes of the first
    size_t bit = 1;
    for (size_t user : region.users) {
      bool stays = (stay & std::exchange(bit, bit << 1)) != 0;
      auto reduced = region.reduced.find(user);
      if (stays || reduced == region.reduced.end()) continue;
      std::vector<size_t> axes;
      for (const auto& r : reduced->second) axes.push_back(r.axis);
      std::sort(axes.begin(), axes.end());
      auto same = std::find_if(lists.begin(), lists.end(), [&](const auto& l) {
        return shares && l.first == axes &&
               std::all_of(l.second.users.begin(), l.second.users.end(),
                           [&](size_t u) { return layout::moves_behind(program_, u, user); });
      });
      if (same == lists.end()) same = lists.insert(lists.end(), {axes, {}});
      same->second.users.push_back(user);
    }
    std::vector<Sharing> result;
    for (auto& [axes, list] : lists) result.push_back(std::move(list));
    return result;
  }

  BoundProgram& program_;
  const Target& target_;
  const StatementUses uses_;
  layout::KnownParts<size_t> answers_;
};

}  // namespace

void recompute_streams(BoundProgram& program, const Target& target) {
  bool tensor_cores = target.gpu.capability >= kAsynchronousCopies && target.gpu.matrix_per_ns > 0;
  if (!is_gpu(target) || tensor_cores) Recomputation(program, target).run();
}

}  // namespace tile
