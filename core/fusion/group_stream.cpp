// Kernels with a streamed axis, found from the bodies: a maximum along an axis, exponentials of the
// distances to it, and sums of multiples of those (attention). A factor of the terms that does not
// depend on the axis (the division by the sum) is applied to the sums instead. Also scores and sums
// of what is made of them without a maximum, as gradients of attention are.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "core/fusion/group.h"
#include "core/fusion/step_order.h"
#include "core/fusion/stream_parts.h"
#include "core/fusion/stream_regions.h"
#include "core/ir/analysis/statement_uses.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/rows.h"
#include "core/schedule/cost/row_model.h"
#include "core/schedule/space/gpu_schedule.h"
#include "core/support/choices.h"

namespace tile {
namespace {

// Tensors of the kernel alone that have the streamed axis, with `row` as their last dimension.
void put_row_last(Kernel& kernel, RowId row) {
  RowMap map = row_map(kernel);
  RowId axis(row_loops(kernel));
  for (const auto& [id, dims] : map.dimensions) {
    if (contains(kernel.writes, id)) continue;
    auto at = std::find(dims.begin(), dims.end(), row) - dims.begin();
    bool has_both = at < static_cast<std::ptrdiff_t>(dims.size()) &&
                    std::find(dims.begin(), dims.end(), axis) != dims.end();
    if (!has_both) continue;
    auto last = [&](auto& list) {
      std::rotate(list.begin() + at, list.begin() + at + 1, list.end());
    };
    last(kernel.tensors.edit(id).shape);
    for (KernelStage& stage : kernel.stages) {
      for (auto* accesses :
           {&stage.contraction.pieces[0].loads, &stage.contraction.pieces[0].stores}) {
        for (Access& a : *accesses) {
          if (a.tensor == id) last(a.index);
        }
      }
    }
  }
}

class StreamFusion {
 public:
  StreamFusion(std::vector<Step> steps, const BoundProgram& program, const Target& target,
               const std::function<void(Kernel&)>& finish, GoneTensors& gone, bool always)
      : program_(program),
        seen_(seen_outside(program)),
        target_(target),
        finish_(finish),
        gone_(gone),
        always_(always),
        steps_(std::move(steps)) {}

  std::vector<Step> run() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      std::optional<stream::Parts> parts = stream::find_parts(steps_.list(), program_, seen_, i);
      if (parts) fuse(*parts);
    }
    fuse_regions();
    return steps_.left();
  }

 private:
  static std::vector<size_t> members(const stream::Parts& parts) {
    std::set<size_t> all{parts.exponential, parts.maximum};
    if (parts.terms) all.insert(*parts.terms);
    if (parts.scores) all.insert(*parts.scores);
    for (const stream::Sum& s : parts.sums) all.insert(s.step);
    all.insert(parts.multiples.begin(), parts.multiples.end());
    return {all.begin(), all.end()};
  }

  // `before`: the tensors that are gone without the stream.
  Price price_apart(const std::vector<size_t>& list, const GoneTensors& before) const {
    GoneTensors now = std::exchange(gone_, before);
    std::vector<Step> apart;
    for (size_t i : list) apart.push_back(*steps_[i]);
    Price total;
    for (const Step& s : fuse_rows(std::move(apart), program_, target_, finish_, false)) {
      total += compiled_price(std::get<Kernel>(s), target_, finish_);
    }
    gone_ = std::move(now);
    return total;
  }

  void fuse(const stream::Parts& parts) {
    std::vector<size_t> list = members(parts);
    if (!can_stand(steps_, list, list.back(), program_)) return;
    GoneTensors before = gone_;
    for (size_t i : parts.multiples) {
      gone_[std::get<Kernel>(*steps_[i]).stages[0].contraction.outputs[0]] = TensorId();
    }
    std::optional<Kernel> kernel = stream::streamed_kernel(steps_.list(), program_, parts);
    if (kernel && !drops_terms(parts, *kernel)) kernel.reset();
    place(std::move(kernel), list, std::move(before));
  }
  void fuse_regions() {
    std::optional<stream::StepUses> uses;
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Kernel* k = steps_.plain_kernel(i);
      const Contraction* c = k == nullptr ? nullptr : &k->stages[0].contraction;
      bool begins = c != nullptr && stream::makes_scores(*c, program_.tensors, target_) &&
                    stream::are_large(*c, program_.tensors, target_);
      if (!begins) continue;
      if (!uses) uses.emplace(steps_.list(), program_);
      std::optional<stream::Region> region =
          stream::find_region(steps_.list(), program_, target_, *uses, i);
      if (!region) continue;
      fuse(std::move(*region));
      uses.reset();
    }
  }
  void fuse(stream::Region region) {
    if (!can_stand(steps_, region.steps, region.steps.back(), program_)) return;
    GoneTensors before = gone_;
    TensorId made = region.kernel.stages.back().contraction.outputs[0];
    for (TensorId id : region.widened) gone_[id] = made;
    place(std::move(region.kernel), region.steps, std::move(before));
  }
  // The kernel, if it is legal and cheaper, instead of the steps.
  void place(std::optional<Kernel> kernel, const std::vector<size_t>& list, GoneTensors before) {
    if (kernel) kernel = cheaper(std::move(*kernel), list, before);
    if (!kernel) {
      gone_ = std::move(before);
      return;
    }
    for (size_t i : list) steps_.reset(i);
    steps_.set(list.back(), std::move(*kernel));
  }

  // The program's tensor of terms is gone where the kernel does not make it; false: others read it,
  // or what is made of it.
  bool drops_terms(const stream::Parts& parts, const Kernel& kernel) const {
    if (!parts.terms) return true;
    Kernel from = stream::terms_of(steps_.list(), parts);
    TensorId terms = from.stages[0].contraction.outputs[0];
    bool made = std::any_of(kernel.stages.begin(), kernel.stages.end(), [&](const KernelStage& s) {
      return contains(s.contraction.outputs, terms);
    });
    if (made) return true;
    std::vector<size_t> list = members(parts);
    bool kept = std::any_of(from.stages.begin(), from.stages.end(), [&](const KernelStage& s) {
      return is_read_outside(s.contraction.outputs[0], list);
    });
    if (!kept) gone_[terms] = kernel.stages.back().contraction.outputs[0];
    return !kept;
  }
  bool is_read_outside(TensorId id, const std::vector<size_t>& list) const {
    bool kept = seen_.contains(id);
    for (size_t i = 0; i < steps_.size() && !kept; ++i) {
      bool inside = std::find(list.begin(), list.end(), i) != list.end();
      kept = steps_[i] && !inside && contains(steps_.use(i, program_).reads, id);
    }
    return kept;
  }

  // A row of many cells is the last dimension of what lives for a block: vectors run along it, and
  // nothing reduces lanes.
  void place_rows(Kernel& kernel) const {
    const KernelStage& first = kernel.stages[0];
    size_t none = first.rows.size();
    size_t last = chosen("row-last " + result_name(kernel, program_), [&] {
      size_t row = reused_row(kernel, target_);
      int64_t cells = first.contraction.pieces[0].box[first.rows[row]];
      return cells >= target_.vector_bits / 32 ? row : none;
    });
    if (last < none) put_row_last(kernel, RowId(last));
  }

  // Where space comes first, as little as the steps apart is enough: these store no more if they
  // share rows, as they may come to do with others.
  static bool is_better(const Price& together, const Price& apart) {
    return together < apart || (space_first() && together.bytes == apart.bytes);
  }
  // What a kernel makes is in registers, or in memory behind it: it reads no view of that.
  static bool reads_own_view(const Kernel& kernel) {
    std::set<TensorId> made;
    for (const KernelStage& s : kernel.stages) {
      made.insert(s.contraction.outputs.begin(), s.contraction.outputs.end());
    }
    return std::any_of(kernel.stages.begin(), kernel.stages.end(), [&](const KernelStage& s) {
      std::vector<TensorId> reads = read_by(s.contraction);
      return std::any_of(reads.begin(), reads.end(), [&](TensorId id) {
        const std::optional<TensorId>& of = kernel.tensors[id].view_of;
        return of && made.contains(*of);
      });
    });
  }

  // Nothing where it is not legal or does not cost less than the steps apart.
  std::optional<Kernel> cheaper(Kernel made, const std::vector<size_t>& list,
                                const GoneTensors& before) const {
    if (reads_own_view(made)) return std::nullopt;
    std::optional<Kernel> kernel(std::move(made));
    finish_(*kernel);
    if (!broken_rows(*kernel).empty()) return std::nullopt;
    if (is_gpu(target_) && gpu::stream_schedules(*kernel, target_).empty()) return std::nullopt;
    if (!is_gpu(target_)) place_rows(*kernel);
    bool is_cheaper =
        always_ || agreed("fuse-streams " + result_name(*kernel, program_), [&] {
          return is_better(compiled_price(*kernel, target_, finish_), price_apart(list, before));
        });
    return is_cheaper ? std::move(kernel) : std::nullopt;
  }

  const BoundProgram& program_;
  const std::set<TensorId> seen_;
  const Target& target_;
  const std::function<void(Kernel&)>& finish_;
  GoneTensors& gone_;
  bool always_;
  OpenSteps steps_;
};

}  // namespace

std::vector<Step> fuse_streams(std::vector<Step> steps, const BoundProgram& program,
                               const Target& target, const std::function<void(Kernel&)>& finish,
                               GoneTensors& gone, bool always) {
  return StreamFusion(std::move(steps), program, target, finish, gone, always).run();
}

}  // namespace tile
