// The analytic model: what it knows of accesses, threads, and all parts together. The parts: cycles
// of the register tile (cost_tile.cpp), copies (cost_packing.cpp), scans (cost_carried.cpp),
// traffic between the levels of memory (traffic.cpp, access_block.cpp). Every constant is a
// property of machines of this kind or comes from the Target.
#include "core/schedule/cost/cost.h"

#include <algorithm>
#include <cmath>

#include "core/ir/operation_cost.h"
#include "core/kernel/forms/amx_tiles.h"
#include "core/kernel/forms/window.h"
#include "core/kernel/geometry.h"
#include "core/schedule/cost/cost_cycles.h"
#include "core/schedule/cost/estimate.h"
#include "core/schedule/cost/gpu_model.h"
#include "core/schedule/cost/row_model.h"
#include "core/schedule/cost/task_sharing.h"
#include "core/schedule/cost/traffic.h"
#include "core/support/control.h"

namespace tile {
namespace {

constexpr int64_t kLongestWindow = 16;  // of those whose taps are worth writing out
// [race] (cost_cycles.h), as shares: of the smaller costs that the largest does not hide, and of a
// task, what the last ones keep one thread busy alone.
constexpr double kOverlap = 0.15;
constexpr double kUneven = 0.05;
constexpr double kInterleavedStreamPenalty = 1.5;  // [race] more time of streams read in turns

double operation_cycles(const Node& node) { return cost_of(node.op).cycles; }

// How many neighbouring elements each point stores; 1: it is not so.
int components(const Piece& piece) {
  for (size_t o = 0; o < piece.stores.size(); ++o) {
    const Access& store = piece.stores[o];
    bool next = store.tensor == piece.stores[0].tensor && !store.index.empty() &&
                store.index.back().affine == constant_affine(static_cast<int64_t>(o));
    if (!next) return 1;
  }
  return static_cast<int>(piece.stores.size());
}

}  // namespace

PieceModel::PieceModel(const Piece& piece, const Contraction& c, const Kernel& kernel,
                       const Target& target)
    : piece_(piece), contraction_(c), kernel_(kernel), target_(target) {
  BodyFacts facts = body_facts(piece, operation_cycles);
  for (size_t i = 0; i < piece.loads.size(); ++i) {
    accesses_.push_back(access_model(piece.loads[i], kernel, &facts.loads[i]));
  }
  for (const Access& a : piece.stores) accesses_.push_back(access_model(a, kernel, nullptr));
  reduces_ = piece.parallel_dims < piece.box.size();
  int bits = std::max(facts.bits, reduces_ ? bit_width(c.accumulator) : 8);
  for (const AccessModel& a : accesses_) {
    if (!reduces_ && !a.fixed) bits = std::max(bits, a.bytes * 8);
  }
  // The components of a pixel are computed in one vector.
  if (!reduces_) bits = std::max(bits, std::min(32, bits * components(piece)));
  lanes_ = std::max(1, target.vector_bits / bits);
  for (size_t i = 0; i < piece.loads.size(); ++i) {
    // A register tile converts an element once, however often it multiplies it.
    if (reduces_) accesses_[i].conversion = facts.loads[i].conversion;
    if (!reduces_) facts.cycles += facts.loads[i].conversion;
  }
  for (AccessModel& a : accesses_) a.uses = uses_of(a);
  auto additions = static_cast<double>(piece.body.results.size()) - (is_fused(piece.body) ? 1 : 0);
  body_ = facts.cycles + (reduces_ ? additions * kOperationCycles : 0);
  chain_ = facts.chain;
  window_ = window_form(piece, c).has_value();
  taps_only_ = reduces_;
  for (size_t r = piece.parallel_dims; r < piece.box.size(); ++r) {
    bool tap = piece.box[r] == 1;
    for (size_t u = 0; u < piece.parallel_dims && piece.box[r] <= kLongestWindow; ++u) {
      tap = tap || (piece.box[r] <= piece.box[u] && slides(u, r));
    }
    taps_only_ = taps_only_ && tap;
  }
  waits_ = row_loops(kernel) > 0;
  round_ = reduces_ ? body_ : facts.round;
  cycle_ns_ = 2.0 * target.vector_bits / 32 / target.fma_per_ns;
}

// `load`: what the body says of it; null for a store.
PieceModel::AccessModel PieceModel::access_model(const Access& access, const Kernel& kernel,
                                                 const BodyFacts::Load* load) const {
  const BoundTensor& t = kernel.tensors[access.tensor];
  AccessModel m;
  m.access = &access;
  m.shape = t.shape;
  m.bytes = static_cast<int>(byte_size(t.type));
  m.store = load == nullptr;
  bool packs = !is_gpu(target_) && row_loops(kernel) == 0;
  m.kept = packs && !m.store && is_fixed(kernel.tensors, access.tensor);
  if (load != nullptr) m.times = std::max(1.0, load->times);
  if (load != nullptr) m.moves = load->moves;
  m.moves.resize(t.shape.size());
  m.decided.resize(t.shape.size());
  m.steps.resize(t.shape.size());
  m.strides.assign(piece_.box.size(), 0);
  int64_t stride = 1;
  for (size_t d = t.shape.size(); d-- > 0;) {
    const Index& index = access.index[d];
    m.decided[d] = index.value >= 0 && !m.moves[d];
    m.gathers = m.gathers || m.decided[d];
    for (size_t u = 0; u < m.strides.size() && !m.decided[d]; ++u) {
      Rational factor = index.value >= 0 ? Rational((*m.moves[d])[u]) : index.affine.coefficient(u);
      if (factor.is_zero()) continue;
      m.strides[u] += factor.floor() * stride;
      m.steps[d].emplace_back(
          u, std::abs(static_cast<double>(factor.num())) / static_cast<double>(factor.den()));
      m.fixed = false;
    }
    stride *= std::max<int64_t>(t.shape[d], 1);
  }
  return m;
}

// Of one step of a carried tile whose rows' lines fall on the same sets of the first cache: what
// bringing them there again takes.
double PieceModel::refetch_ns(const TileShape& t) const {
  std::vector<int64_t> range(piece_.box.size(), 1);
  for (size_t j = 0; j < t.iterators.size(); ++j) {
    range[t.iterators[j]] = std::min(t.blocks[j], piece_.box[t.iterators[j]]);
  }
  auto capacity = static_cast<double>(target_.l1_bytes);
  double held = 0, moved = 0;
  for (const AccessModel& a : accesses_) {
    AccessBlock block = block_of(a, range);
    held += block.occupied(capacity / target_.core.l1_ways);
    moved += block.bytes() * (a.store ? 2 : 1);
  }
  return held > kUsableCache * capacity ? moved / target_.l2_bytes_per_ns : 0;
}

double PieceModel::serial_ns(const PieceSchedule& s) const {
  if (s.carried.valid()) return carried_ns(s, nullptr);
  if (!last_ || last_->first != s) last_.emplace(s, serial_parts_ns(s, nullptr));
  return last_->second;
}

double PieceModel::serial_ns(const PieceSchedule& s, CostTerm* into) const {
  if (into == nullptr) return serial_ns(s);
  into->ns = s.carried.valid() ? carried_ns(s, into) : serial_parts_ns(s, into);
  return into->ns;
}

double PieceModel::serial_parts_ns(const PieceSchedule& s, CostTerm* into) const {
  checkpoint();
  Traffic traffic(*this, s);
  // Of one stream the first cache has the next lines before they are asked for.
  bool lanes_reduce = !s.reduce.empty() && s.reduce.back().binding == Binding::vector;
  double beside =
      lanes_reduce && !s.tile.empty() && s.packings.empty() ? kInterleavedStreamPenalty : 1;
  double resuming = resuming_ns(s);
  CostTerm tiles;
  double parts[5] = {
      compute_cycles(s, into == nullptr ? nullptr : &tiles) * cycle_ns_ - resuming,
      beside * traffic.memory_ns(target_.l1_bytes, target_.core.l1_ways, target_.l2_bytes_per_ns),
      traffic.memory_ns(target_.l2_bytes, target_.core.l2_ways, target_.l3_bytes_per_ns),
      traffic.memory_ns(target_.l3_bytes, 1, target_.dram_bytes_per_ns), traffic.translation_ns()};
  double most = 0, sum = 0;
  for (double part : parts) {
    most = std::max(most, part);
    sum += part;
  }
  // Rows of a register that holds a matrix are lines that are used up at once.
  double crowded = uses_tiles(s) ? 0 : traffic.crowded_ns();
  if (into != nullptr) {
    tiles.name = "register tiles";
    tiles.ns = parts[0];
    tiles.add_if("of that between blocks of a reduction, told apart", -resuming);
    into->add(
        combine("computing and moving", Combine::overlap, kOverlap,
                {std::move(tiles), cost_leaf("from the second cache", parts[1]),
                 cost_leaf("from the third cache", parts[2]), cost_leaf("from memory", parts[3]),
                 cost_leaf("page translations", parts[4])}));
    into->add_if("sums between blocks of a reduction", resuming);
    into->add_if("lines fetched twice", crowded);
  }
  return resuming + most + kOverlap * (sum - most) + packing_ns(s, into) + crowded;
}

double PieceModel::task_count(const PieceSchedule& s) const {
  double tasks = 1;
  for (const Loop& l : s.outer) {
    if (l.binding != Binding::parallel) break;
    auto extent = static_cast<double>(piece_.box[l.iterator]);
    tasks *= std::ceil(extent / static_cast<double>(l.step));
  }
  return tasks;
}

// Copies outside of all loops are parallel loops of their own where they are worth it; of others
// each line is the calling thread's, and goes from cache to cache on every run.
double PieceModel::copying_overhead_ns(const PieceSchedule& s, double workers) const {
  if (workers < 2) return 0;
  bool threads = packing_ns(s) >= kChunkNanoseconds;
  double total = 0;
  for (const Packing& p : s.packings) {
    if (p.level > 0 || packed_once(s, p)) continue;
    double bytes = packed_bytes(accesses_[p.load], piece_.box);
    total += threads ? target_.parallel_overhead_ns
                     : bytes / kCacheLine * target_.core.line_handed_over_ns;
  }
  return total;
}

// Lines of the results in which the threads' shares meet: where the outermost parallel loop cuts
// rows inside of lines, each row has one.
double PieceModel::contended_ns(const PieceSchedule& s, double workers) const {
  auto loop = std::find_if(s.outer.begin(), s.outer.end(), [&](const Loop& l) {
    return l.binding == Binding::parallel && piece_.box[l.iterator] > l.step;
  });
  if (loop == s.outer.end() || workers < 2) return 0;
  IteratorId cut = loop->iterator;
  double lines = 0;
  for (size_t i = piece_.loads.size(); i < accesses_.size(); ++i) {
    const AccessModel& a = accesses_[i];
    int64_t move = std::abs(a.strides[cut]), apart = move * loop->step * a.bytes;
    double rows = 1;
    for (size_t u = 0; u < piece_.parallel_dims; ++u) {
      int64_t stride = std::abs(a.strides[u]);
      if (stride <= move) continue;
      rows *= static_cast<double>(piece_.box[u]);
      apart = gcd(apart, stride * a.bytes);
    }
    bool meet = move > 0 && apart % static_cast<int64_t>(kCacheLine) != 0;
    if (meet) lines += rows * (workers - 1);
  }
  return lines * target_.core.line_of_another_ns;
}

double PieceModel::nanoseconds(const PieceSchedule& s, CostTerm* into) const {
  CostTerm work;
  work.name = "work";
  double tasks = task_count(s), serial = serial_ns(s, into == nullptr ? nullptr : &work);
  double workers = workers_for(serial, tasks, target_);
  double first = first_share(s, tasks, workers);
  double threaded = threaded_ns(serial, tasks, target_, first, into == nullptr ? nullptr : &work);
  double copying = copying_overhead_ns(s, workers), contended = contended_ns(s, workers);
  double total = threaded + copying + contended;
  if (into == nullptr) return total;
  into->add(std::move(work));
  into->add_if("copies handed to other threads", copying);
  into->add_if("lines that threads share", contended);
  into->ns = total;
  return total;
}

bool PieceModel::threaded(const PieceSchedule& s) const {
  return workers_for(serial_ns(s), task_count(s), target_) >= 2;
}

double PieceModel::joining_ns(const PieceSchedule& s, CostTerm* into) const {
  double tasks = task_count(s);
  double workers = std::min(tasks, static_cast<double>(std::max(target_.threads, 1)));
  CostTerm work;
  work.name = "work";
  double serial = serial_ns(s, into == nullptr ? nullptr : &work);
  double share = first_share(s, tasks, workers), copying = copying_overhead_ns(s, workers);
  double total = serial * share + copying;
  if (into == nullptr) return total;
  into->add(combine("one thread's share", Combine::sum, share, {std::move(work)}));
  into->parts.back().facts = {{"tasks", tasks}, {"threads", workers}};
  into->add_if("copies handed to other threads", copying);
  into->ns = total;
  return total;
}

// Of the work, what the first of the threads' equal runs of tasks is: no other has fewer short
// blocks.
double PieceModel::first_share(const PieceSchedule& s, double tasks, double workers) const {
  double run = std::ceil(tasks / workers), inner = tasks, share = 0, part = 1;
  for (const Loop& l : s.outer) {
    if (l.binding != Binding::parallel || run <= 0) break;
    auto extent = static_cast<double>(piece_.box[l.iterator]);
    auto step = static_cast<double>(l.step);
    inner /= std::ceil(extent / step);
    double whole = std::floor(run / inner), done = std::min(1.0, whole * step / extent);
    share += part * done;
    part *= std::min(step / extent, 1 - done);
    run -= whole * inner;
  }
  return share;
}

double workers_for(double serial, double tasks, const Target& target) {
  double chunks = std::min(tasks, std::floor(serial / kChunkNanoseconds));
  return std::clamp(chunks, 1.0, static_cast<double>(std::max(target.threads, 1)));
}

int64_t parallel_grain(double nanoseconds, int64_t tasks) {
  double each = nanoseconds / static_cast<double>(std::max<int64_t>(tasks, 1));
  double grain = kRunNanoseconds / std::max(each, 1e-3);
  return std::clamp<int64_t>(static_cast<int64_t>(grain), 1, std::max<int64_t>(tasks, 1));
}

double threaded_ns(double serial, double tasks, const Target& target, double first,
                   CostTerm* into) {
  double workers = workers_for(serial, tasks, target);
  if (workers < 2) return serial;
  double rounds = std::ceil(tasks / workers);
  // Processors are not equally fast at all times: a faster one waits for the others' last tasks.
  double share = std::max(rounds / tasks, first) + kUneven / tasks;
  double total = target.parallel_overhead_ns + serial * share;
  if (into == nullptr) return total;
  CostTerm work = std::move(*into);
  *into = {};
  into->name = "on threads";
  into->facts = {{"tasks", tasks}, {"threads", workers}};
  into->add(combine("an even share of the work", Combine::sum, 1 / workers, {std::move(work)}));
  into->add("uneven last tasks", serial * (share - 1 / workers));
  into->add("starting threads", target.parallel_overhead_ns);
  into->ns = total;
  return total;
}

double piece_nanoseconds(const Piece& piece, const Contraction& c, const Kernel& kernel,
                         const PieceSchedule& schedule, const Target& target) {
  return PieceModel(piece, c, kernel, target).serial_ns(schedule);
}

double attached_ns(const KernelStage& stage, const Kernel& kernel, const Target& target) {
  double total = 0;
  for (const Piece& piece : stage.contraction.pieces) {
    PieceModel model(piece, stage.contraction, kernel, target);
    double points = 1;
    for (int64_t extent : piece.box) points *= static_cast<double>(extent);
    total += points / static_cast<double>(model.lanes()) * (model.body() + 1) * model.cycle_ns();
  }
  return total;
}

namespace {

// One piece of a stage.
double estimate_piece(const Schedule& schedule, size_t s, size_t p, const Kernel& kernel,
                      const Target& target, CostTerm* into) {
  const Contraction& c = kernel.stages[s].contraction;
  const std::vector<Piece>& pieces = c.pieces;
  const std::vector<PieceSchedule>& how = schedule.stages[s];
  if (is_gpu(target)) return gpu::estimate_piece(how[p], pieces[p], c, kernel, target, into);
  PieceModel model(pieces[p], c, kernel, target);
  bool joins = p > 0 && share_tasks(how[0], how[p], pieces[0], pieces[p]) &&
               PieceModel(pieces[0], c, kernel, target).threaded(how[0]);
  return joins ? model.joining_ns(how[p], into) : model.nanoseconds(how[p], into);
}

std::string stage_name(const Kernel& kernel, size_t s, size_t p) {
  std::string name = "stage " + std::to_string(s);
  if (kernel.stages[s].contraction.pieces.size() > 1) name += " piece " + std::to_string(p);
  return name;
}

double estimate_stages(const Schedule& schedule, const Kernel& kernel, const Target& target,
                       CostTerm* into) {
  double total = kKernelStartNanoseconds;
  if (into != nullptr) into->add("starting the kernel", total);
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    const KernelStage& stage = kernel.stages[s];
    if (stage.attach.valid()) {
      double ns = attached_ns(stage, kernel, target) / std::max(1, target.threads);
      total += ns;
      if (into != nullptr) into->add(stage_name(kernel, s, 0) + ", in the tile", ns);
      continue;
    }
    for (size_t p = 0; p < stage.contraction.pieces.size(); ++p) {
      CostTerm term;
      term.name = stage_name(kernel, s, p);
      total += estimate_piece(schedule, s, p, kernel, target, into == nullptr ? nullptr : &term);
      if (into != nullptr) into->add(std::move(term));
      if (is_gpu(target) || p == 0) continue;
      double apart = apart_ns(stage.contraction, p, schedule.stages[s], target);
      total += apart;
      if (into != nullptr) into->add_if("lines that other threads have written", apart);
    }
  }
  return total;
}

}  // namespace

double estimate(const Schedule& schedule, const Kernel& kernel, const Target& target,
                CostTerm* into) {
  if (into != nullptr) {
    *into = {};
    into->name = "kernel";
  }
  double total = 0;
  if (schedule.gpu_lines) {
    total = gpu::estimate_lines(*schedule.gpu_lines, kernel, target, into);
  } else if (row_loops(kernel) > 0) {
    total = estimate_rows(schedule, kernel, target, into);
  } else {
    total = estimate_stages(schedule, kernel, target, into);
  }
  if (into != nullptr) into->ns = total;
  return total;
}

}  // namespace tile
