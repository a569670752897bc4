// Merges kernels that share rows: what one makes for a row the other reads there, or both read the
// same row of a third tensor. Done where the model finds the one kernel cheaper than the two.
#include <algorithm>
#include <map>
#include <optional>

#include "core/fusion/group.h"
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

constexpr size_t kMostStages = 16;
constexpr size_t kMostReads = 24;
constexpr size_t kSiblings = 4;     // kernels tried beside the latest producer
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
    uses_.resize(steps_.size());
  }

  std::vector<Step> run() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (!candidate(i)) continue;
      for (size_t partner : partners(i)) {
        if (merge(partner, i)) break;
      }
    }
    return steps_.left();
  }

 private:
  const Kernel* kernel(size_t i) const { return steps_.kernel(i); }
  bool candidate(size_t i) const {
    const Kernel* k = kernel(i);
    return k != nullptr && !has_stream(*k) &&
           std::all_of(k->stages.begin(), k->stages.end(),
                       [&](const auto& s) { return streams(s.contraction, program_.tensors); });
  }

  // Earlier kernels that step i may join: the latest that makes an operand, and those after it that
  // read a tensor which i reads.
  std::vector<size_t> partners(size_t i) {
    const std::vector<TensorId>& reads = use(i).reads;
    auto among = [&](const std::vector<TensorId>& list) {
      return std::any_of(list.begin(), list.end(),
                         [&](TensorId id) { return contains(reads, id); });
    };
    std::vector<size_t> list;
    for (size_t j = i; j-- > 0;) {
      if (!steps_[j]) continue;
      const StepUse& other = use(j);
      if (among(other.makes)) {
        if (candidate(j)) list.insert(list.begin(), j);
        break;
      }
      if (!candidate(j) || list.size() >= kSiblings) continue;
      if (among(other.reads)) list.push_back(j);
    }
    return list;
  }

  const StepUse& use(size_t i) {
    if (!uses_[i]) uses_[i] = use_of(*steps_[i], program_);
    return *uses_[i];
  }
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
    std::optional<Kernel> both = merged(first, second);
    if (!both) return std::nullopt;
    Kernel whole = *both;
    finish_(whole);
    if (!broken_rows(whole).empty()) return std::nullopt;
    if (!is_gpu(target_)) return both;
    collapse(whole);
    return gpu::line_schedules(whole, target_).empty() ? std::nullopt : both;
  }

  bool merge(size_t first, size_t second) {
    std::string asked = question("fuse-rows", first, second);
    if (declined(asked)) return merge_three(first, second, std::nullopt);
    std::optional<Kernel> both = legal_merge(*kernel(first), *kernel(second));
    if (!both) return false;
    std::optional<double> ns;  // where it is asked for
    bool cheaper = agreed(asked, [&] {
      if (always_) return true;
      ns = cost(*both);
      return *ns <= cost(first) + cost(second);
    });
    if (!cheaper) return merge_three(first, second, std::move(both));
    return put({first, second}, std::move(*both), ns);
  }

  // A result that two of three kernels only hand on is worth nothing before the third has joined.
  // `both`: of two of them, where it is known.
  bool merge_three(size_t first, size_t second, std::optional<Kernel> both) {
    for (size_t third = second + 1; third < steps_.size(); ++third) {
      if (!candidate(third) || !touches(second, third)) continue;
      std::vector<size_t> makers = partners(third);
      if (makers.empty() || makers[0] != second) continue;
      std::string asked = question("fuse-three-rows", second, third);
      if (declined(asked)) return false;
      if (!both) both = legal_merge(*kernel(first), *kernel(second));
      std::optional<Kernel> all = both ? legal_merge(*both, *kernel(third)) : std::nullopt;
      if (!all) return false;
      std::optional<double> ns;
      bool cheaper = agreed(asked, [&] {
        ns = cost(*all);
        return *ns <= cost(first) + cost(second) + cost(third);
      });
      return cheaper && put({first, second, third}, std::move(*all), ns);
    }
    return false;
  }

  // The kernel in the place of its members; false where it can stand at none of theirs.
  bool put(const std::vector<size_t>& members, Kernel kernel, std::optional<double> ns) {
    std::optional<size_t> at = common_place(steps_, members, program_);
    if (!at) return false;
    for (size_t m : members) {
      steps_[m].reset();
      uses_[m].reset();
    }
    steps_[*at] = std::move(kernel);
    costs_[*at] = ns;
    return true;
  }

  // Every parallel dimension of the stages with loops a row, unless the kernel has rows already.
  static Kernel all_rows(const Kernel& k) {
    Kernel all = k;
    if (row_loops(k) > 0) return all;
    for (size_t u = 0; u < k.stages[0].contraction.pieces[0].parallel_dims; ++u) {
      all.stages[0].rows.push_back(IteratorId(u));
    }
    return all;
  }

  struct RowPair {
    RowId first, second;
  };
  // Pairs of rows, one of each kernel, that every shared access names in one dimension.
  std::optional<std::vector<RowPair>> row_pairs(const Kernel& a, const Kernel& b) const {
    RowMap in_a = row_map(a), in_b = row_map(b);
    std::vector<std::vector<RowPair>> named;  // for each shared access
    bool depends = false;
    for (size_t s = 0; s < b.stages.size(); ++s) {
      for (const Access& load : b.stages[s].contraction.pieces[0].loads) {
        auto made = in_a.dimensions.find(load.tensor);
        bool hidden = made == in_a.dimensions.end() &&
                      in_a.dimensions.contains(storage_of(program_, load.tensor));
        if (hidden) return std::nullopt;  // another shape of a result
        if (made == in_a.dimensions.end()) continue;
        depends = true;
        named.push_back(pairs(made->second, row_indices(load, in_b.iterators[s])));
      }
    }
    if (!depends) named = shared_reads(a, in_a, b, in_b);
    if (named.empty()) return std::nullopt;
    std::vector<RowPair> common;
    for (const RowPair& p : named[0]) {
      bool everywhere = std::all_of(named.begin(), named.end(), [&](const auto& list) {
        return std::any_of(list.begin(), list.end(), [&](const RowPair& q) {
          return p.first == q.first && p.second == q.second;
        });
      });
      bool used = std::any_of(common.begin(), common.end(), [&](const RowPair& q) {
        return p.first == q.first || p.second == q.second;
      });
      if (everywhere && !used) common.push_back(p);
    }
    return common;
  }
  static std::vector<RowPair> pairs(const std::vector<RowId>& a, const std::vector<RowId>& b) {
    std::vector<RowPair> list;
    for (size_t d = 0; d < a.size(); ++d) {
      if (a[d].valid() && b[d].valid()) list.push_back({a[d], b[d]});
    }
    return list;
  }
  // The largest tensor that both read, at its first reads.
  std::vector<std::vector<RowPair>> shared_reads(const Kernel& a, const RowMap& in_a,
                                                 const Kernel& b, const RowMap& in_b) const {
    std::vector<std::vector<RowPair>> named;
    int64_t most = 1;
    for (size_t s = 0; s < a.stages.size(); ++s) {
      for (const Access& x : a.stages[s].contraction.pieces[0].loads) {
        int64_t size = element_count(a.tensors[x.tensor].shape);
        for (size_t t = 0; t < b.stages.size() && size > most; ++t) {
          for (const Access& y : b.stages[t].contraction.pieces[0].loads) {
            if (x.tensor != y.tensor || size <= most) continue;
            most = size;
            named = {pairs(row_indices(x, in_a.iterators[s]), row_indices(y, in_b.iterators[t]))};
          }
        }
      }
    }
    return named;
  }

  static IdVector<RowId, IteratorId> chosen(const IdVector<RowId, IteratorId>& rows,
                                            const std::vector<RowPair>& pairs, bool first) {
    IdVector<RowId, IteratorId> list;
    for (const RowPair& p : pairs) list.push_back(rows[first ? p.first : p.second]);
    return list;
  }

  // A default is copied whole, before its stage begins: the same kernel cannot make it row by row.
  bool fills_from(const Kernel& filled, const Kernel& maker) const {
    return std::any_of(filled.stages.begin(), filled.stages.end(), [&](const KernelStage& s) {
      if (!s.contraction.fill) return false;
      TensorId from = storage_of(program_, *s.contraction.fill);
      return std::any_of(maker.stages.begin(), maker.stages.end(), [&](const KernelStage& m) {
        return contains(m.contraction.outputs, from);
      });
    });
  }

  std::optional<Kernel> merged(const Kernel& first, const Kernel& second) const {
    if (fills_from(second, first)) return std::nullopt;
    size_t reads = 0;
    for (const Kernel* k : {&first, &second}) {
      for (const KernelStage& s : k->stages) {
        if (s.contraction.pieces.size() != 1) return std::nullopt;
        reads += s.contraction.pieces[0].loads.size();
      }
    }
    size_t stages = first.stages.size() + second.stages.size();
    if (stages > kMostStages || reads > kMostReads) return std::nullopt;
    Kernel a = all_rows(first), b = all_rows(second);
    std::optional<std::vector<RowPair>> pairs = row_pairs(a, b);
    if (!pairs || pairs->empty()) return std::nullopt;
    for (KernelStage& s : a.stages) {
      if (!s.attach.valid()) s.rows = chosen(s.rows, *pairs, true);
    }
    // Of what a kernel alone has, it has the shape (a pool's operand is split by its windows).
    for (const KernelStage& s : b.stages) {
      for (TensorId out : s.contraction.outputs) {
        if (a.tensors[out].shape != b.tensors[out].shape) a.tensors.change()[out] = b.tensors[out];
      }
    }
    size_t shift = a.stages.size();
    for (KernelStage& s : b.stages) {
      if (!s.attach.valid()) s.rows = chosen(s.rows, *pairs, false);
      if (s.attach.valid()) s.attach = StageId(s.attach.index() + shift);
      a.stages.push_back(std::move(s));
    }
    return a;
  }

  const BoundProgram& program_;
  const Target& target_;
  const std::function<void(Kernel&)>& finish_;
  bool always_;
  OpenSteps steps_;
  std::vector<std::optional<double>> costs_;
  std::vector<std::optional<StepUse>> uses_;
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
  Kernel k = raw;
  finish(k);
  collapse_for(k, target);
  return estimate(analytic_schedule(k, target), k, target);
}

std::vector<Step> fuse_rows(std::vector<Step> steps, const BoundProgram& program,
                            const Target& target, const std::function<void(Kernel&)>& finish,
                            bool always) {
  return RowFusion(steps, program, target, finish, always).run();
}

}  // namespace tile
