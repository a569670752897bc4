// Merges kernels that share rows: what one makes for a row the other reads there, or both read the
// same row of a third tensor. Done where the model finds the one kernel cheaper than the two.
#include <algorithm>
#include <map>
#include <optional>

#include "core/fusion/group.h"
#include "core/fusion/merge_rows.h"
#include "core/fusion/step_order.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/collapse.h"
#include "core/kernel/forms/gpu_forms.h"
#include "core/kernel/rows.h"
#include "core/kernel/stream.h"
#include "core/schedule/cost/estimate.h"
#include "core/schedule/space/candidates.h"
#include "core/schedule/space/gpu_schedule.h"
#include "core/support/choices.h"

namespace tile {
namespace {

constexpr size_t kSiblings = 4;     // kernels tried beside the latest producer
constexpr size_t kEarlier = 2;      // producers tried before the latest
constexpr size_t kMostLinks = 3;    // kernels that join two others, as they stand between them
constexpr double kPointsRead = 16;  // points of a streaming stage for each element it reads

// Few points for each element that is read: matrix products, which keep tiles of their own, have
// more.
bool is_about_its_data(const Contraction& c, const BoundTensors& tensors) {
  double points = 1, elements = 1;
  for (int64_t extent : c.pieces[0].box) points *= static_cast<double>(extent);
  for (const auto* list : {&c.pieces[0].loads, &c.pieces[0].stores}) {
    for (const Access& a : *list) {
      auto count = element_count(tensors[a.tensor].shape);
      elements = std::max(elements, static_cast<double>(count));
    }
  }
  return points <= kPointsRead * elements;
}

// A stage that is to share rows. What loops inside elements read is not known from the box (windows
// of run-time size).
bool streams(const Contraction& c, const BoundTensors& tensors) {
  if (c.pieces.size() != 1) return false;
  const IdVector<NodeId, Node>& nodes = c.pieces[0].body.nodes;
  bool loops = std::any_of(nodes.begin(), nodes.end(),
                           [](const Node& n) { return n.kind == NodeKind::fold; });
  return !loops && agreed("streams " + tensors[c.outputs[0]].name,
                          [&] { return is_about_its_data(c, tensors); });
}

class RowFusion {
 public:
  RowFusion(std::vector<Step>& steps, const BoundProgram& program, const Target& target,
            const std::function<void(Kernel&)>& finish, bool always)
      : program_(program),
        target_(target),
        finish_(finish),
        always_(always),
        steps_(std::move(steps)) {
    costs_.resize(steps_.size());
  }

  std::vector<Step> run() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      std::optional<size_t> at = joined(i);
      // What has become of it may join what it reads beside: a softmax's gradient the softmax.
      while (at && !is_gpu(target_)) at = joined(*at);
    }
    return steps_.left();
  }

 private:
  // Where the kernel is that step i has become with another; nothing where it joins none.
  std::optional<size_t> joined(size_t i) {
    if (!candidate(i)) return std::nullopt;
    for (size_t partner : partners(i)) {
      std::optional<size_t> at = merge(partner, i);
      if (at) return at;
    }
    return std::nullopt;
  }

  const Kernel* kernel(size_t i) const { return steps_.kernel(i); }
  bool candidate(size_t i) const {
    const Kernel* k = kernel(i);
    // Sums of chunks join last, with what has become of their rows.
    return k != nullptr && !has_stream(*k) && (is_gpu(target_) || !sums_chunks(*k)) &&
           std::all_of(k->stages.begin(), k->stages.end(),
                       [&](const auto& s) { return streams(s.contraction, program_.tensors); });
  }

  // Earlier kernels that step i may join: the latest that makes an operand, those after it that
  // read a tensor which i reads, and earlier ones that make operands (the latest may have made but
  // a number that all rows share).
  std::vector<size_t> partners(size_t i) {
    const std::vector<TensorId>& reads = use(i).reads;
    auto among = [&](const std::vector<TensorId>& list) {
      return std::any_of(list.begin(), list.end(),
                         [&](TensorId id) { return contains(reads, id); });
    };
    std::vector<size_t> list;
    size_t siblings = 0, makers = 0;
    for (size_t j = i; j-- > 0 && makers <= most_earlier();) {
      if (!steps_[j]) continue;
      const StepUse& other = use(j);
      if (among(other.makes)) {
        bool latest = makers++ == 0;
        if (candidate(j)) list.insert(latest ? list.begin() : list.end(), j);
      } else if (makers == 0 && siblings < kSiblings && candidate(j) && among(other.reads)) {
        list.push_back(j);
        ++siblings;
      }
    }
    return list;
  }
  // On a GPU a row's elements are held in registers: kernels stay as they were measured.
  size_t most_earlier() const { return is_gpu(target_) ? 0 : kEarlier; }

  const StepUse& use(size_t i) const { return steps_.use(i, program_); }
  // Whether an earlier step can be the first of the partners of a later one.
  bool touches(size_t earlier, size_t later) {
    auto read = [&](TensorId id) { return contains(use(later).reads, id); };
    const StepUse& other = use(earlier);
    return std::any_of(other.makes.begin(), other.makes.end(), read) ||
           std::any_of(other.reads.begin(), other.reads.end(), read);
  }

  double cost(const Kernel& raw) const { return compiled_cost(raw, target_, finish_); }
  double cost(size_t i) {
    if (!costs_[i]) costs_[i] = cost(*kernel(i));
    return *costs_[i];
  }

  std::string question(const char* what, size_t first, size_t second) const {
    return std::string(what) + " " + result_name(*kernel(first), program_) + " " +
           result_name(*kernel(second), program_);
  }

  // Nothing where they share no rows.
  std::optional<Kernel> legal_merge(const Kernel& first, const Kernel& second) const {
    std::optional<Kernel> both = merged_rows(first, second, program_);
    if (!both) return std::nullopt;
    Kernel whole = *both;
    finish_(whole);
    if (!broken_rows(whole).empty()) return std::nullopt;
    if (!is_gpu(target_)) return both;
    collapse(whole);
    return gpu::line_schedules(whole, target_).empty() ? std::nullopt : both;
  }

  std::optional<size_t> merge(size_t first, size_t second) {
    if (!is_gpu(target_)) {
      std::vector<size_t> between = links(first, second);
      if (!between.empty()) return merge_chain(first, between, second);
    }
    std::string asked = question("fuse-rows", first, second);
    if (declined(asked)) return merge_three(first, second, std::nullopt);
    std::optional<Kernel> both = legal_merge(*kernel(first), *kernel(second));
    if (!both) return std::nullopt;
    std::optional<double> ns;  // where it is asked for
    bool cheaper = agreed(asked, [&] {
      if (always_) return true;
      ns = cost(*both);
      return *ns <= cost(first) + cost(second);
    });
    if (!cheaper) return merge_three(first, second, std::move(both));
    return put({first, second}, std::move(*both), ns);
  }

  // The steps by which what the first makes reaches the second, in order, beside its own reads.
  std::vector<size_t> links(size_t first, size_t second) {
    auto share = [](const std::vector<TensorId>& a, const std::vector<TensorId>& b) {
      return std::any_of(a.begin(), a.end(), [&](TensorId id) { return contains(b, id); });
    };
    std::vector<TensorId> made = use(first).makes, wanted = use(second).reads;
    std::vector<size_t> later, list;
    for (size_t k = first + 1; k < second; ++k) {
      if (!steps_[k] || !share(made, use(k).reads)) continue;
      made.insert(made.end(), use(k).makes.begin(), use(k).makes.end());
      later.push_back(k);
    }
    for (size_t l = later.size(); l-- > 0;) {
      const StepUse& link = use(later[l]);
      if (!share(link.makes, wanted)) continue;
      wanted.insert(wanted.end(), link.reads.begin(), link.reads.end());
      list.insert(list.begin(), later[l]);
    }
    return list;
  }

  // Two kernels and the small ones between them that make of the first's results what the second
  // reads, too: of a row's sum the factor of its elements.
  std::optional<size_t> merge_chain(size_t first, const std::vector<size_t>& between,
                                    size_t second) {
    std::string asked = question("fuse-chain-rows", first, second);
    bool tried =
        between.size() <= kMostLinks && !declined(asked) &&
        std::all_of(between.begin(), between.end(), [&](size_t k) { return candidate(k); });
    if (!tried) return std::nullopt;
    std::vector<size_t> members{first};
    members.insert(members.end(), between.begin(), between.end());
    members.push_back(second);
    std::optional<Kernel> all = *kernel(first);
    for (size_t m = 1; m < members.size() && all; ++m) {
      all = legal_merge(*all, *kernel(members[m]));
    }
    if (!all) return std::nullopt;
    std::optional<double> ns;
    bool cheaper = agreed(asked, [&] {
      if (always_) return true;
      double apart = 0;
      for (size_t m : members) apart += cost(m);
      ns = cost(*all);
      return *ns <= apart;
    });
    return cheaper ? put(members, std::move(*all), ns) : std::nullopt;
  }

  // A result that two of three kernels only hand on is worth nothing before the third has joined.
  // `both`: of two of them, where it is known.
  std::optional<size_t> merge_three(size_t first, size_t second, std::optional<Kernel> both) {
    for (size_t third = second + 1; third < steps_.size(); ++third) {
      if (!candidate(third) || !touches(second, third)) continue;
      std::vector<size_t> makers = partners(third);
      if (makers.empty() || makers[0] != second) continue;
      std::string asked = question("fuse-three-rows", second, third);
      if (declined(asked)) return std::nullopt;
      if (!both) both = legal_merge(*kernel(first), *kernel(second));
      std::optional<Kernel> all = both ? legal_merge(*both, *kernel(third)) : std::nullopt;
      if (!all) return std::nullopt;
      std::optional<double> ns;
      bool cheaper = agreed(asked, [&] {
        ns = cost(*all);
        return *ns <= cost(first) + cost(second) + cost(third);
      });
      if (!cheaper) return std::nullopt;
      return put({first, second, third}, std::move(*all), ns);
    }
    return std::nullopt;
  }

  // The kernel in the place of its members, which is returned; nothing where it can stand at none
  // of theirs, even if what reads their results comes behind it.
  std::optional<size_t> put(const std::vector<size_t>& members, Kernel kernel,
                            std::optional<double> ns) {
    std::optional<size_t> at = common_place(steps_, members, program_);
    if (at) {
      for (size_t m : members) forget(m);
    } else if (!is_gpu(target_)) {
      at = place_before_readers(members);
    }
    if (!at) return std::nullopt;
    steps_.set(*at, std::move(kernel));
    costs_[*at] = ns;
    return at;
  }
  void forget(size_t i) {
    steps_.reset(i);
    costs_[i].reset();
  }

  // Moves the steps between the members that wait for them to the end of their places; the place
  // before these.
  std::optional<size_t> place_before_readers(const std::vector<size_t>& members) {
    std::optional<std::vector<size_t>> behind = steps_behind(steps_, members, program_);
    if (!behind) return std::nullopt;
    std::vector<size_t> order;  // what stands before the members' kernel, then behind it
    for (size_t k = members.front(); k <= members.back(); ++k) {
      bool other = !std::binary_search(members.begin(), members.end(), k) &&
                   !std::binary_search(behind->begin(), behind->end(), k);
      if (steps_[k] && other) order.push_back(k);
    }
    size_t before = order.size();
    order.insert(order.end(), behind->begin(), behind->end());
    std::vector<Moved> moved;
    for (size_t k : order) moved.push_back({steps_.take(k), costs_[k]});
    for (size_t k = members.front(); k <= members.back(); ++k) forget(k);
    // Steps only move back, so that those which have not had their turn will.
    size_t to = members.back() + 1;
    std::optional<size_t> at;
    for (size_t m = moved.size() + 1; m-- > 0;) {
      --to;
      if (m == before) at = to;
      if (m == before) continue;
      Moved& one = moved[m < before ? m : m - 1];
      steps_.set(to, std::move(one.step));
      costs_[to] = one.cost;
    }
    return at;
  }
  struct Moved {
    std::optional<Step> step;
    std::optional<double> cost;
  };

  const BoundProgram& program_;
  const Target& target_;
  const std::function<void(Kernel&)>& finish_;
  bool always_;
  OpenSteps steps_;
  std::vector<std::optional<double>> costs_;
};

}  // namespace

void collapse_for(Kernel& kernel, const Target& target) {
  if (!is_gpu(target) || !has_stream(kernel)) collapse(kernel);
}

const std::string& result_name(const Kernel& kernel, const BoundProgram& program) {
  return program.tensors[kernel.stages.back().contraction.outputs[0]].name;
}

double compiled_cost(const Kernel& raw, const Target& target,
                     const std::function<void(Kernel&)>& finish) {
  return compiled_price(raw, target, finish).ns;
}

Price compiled_price(const Kernel& raw, const Target& target,
                     const std::function<void(Kernel&)>& finish) {
  Kernel k = raw;
  finish(k);
  double bytes = stored_bytes(k);
  collapse_for(k, target);
  return {estimate(analytic_schedule(k, target), k, target), bytes};
}

double stored_bytes(const Kernel& kernel) {
  double bytes = 0;
  for (TensorId id : kernel.writes) {
    const BoundTensor& t = kernel.tensors[id];
    bytes += static_cast<double>(element_count(t.shape)) * static_cast<double>(byte_size(t.type));
  }
  return bytes;
}

std::vector<Step> fuse_rows(std::vector<Step> steps, const BoundProgram& program,
                            const Target& target, const std::function<void(Kernel&)>& finish,
                            bool always) {
  return RowFusion(steps, program, target, finish, always).run();
}

}  // namespace tile
