// What the models of GPU schedules have in common: work, memory traffic, instructions and waves.
// Private to core/schedule/cost.
#pragma once

#include "core/kernel/forms/gpu_forms.h"
#include "core/schedule/cost/gpu_model.h"
#include "core/schedule/facts/thread_reads.h"

namespace tile::gpu {

// Constants marked [H200] are chosen as gpu_model.h says.
constexpr double kInFlight = 4;          // [H200] accesses that one thread has under way
constexpr double kLoadInstructions = 3;  // [H200] a load with its address

struct Work {
  double points = 1, cells = 1, terms = 1;
  double operations = 1;  // instructions of the body, for one point
};
Work work_of(const Piece& piece);

double element_bytes(const Access& a, const Kernel& kernel);
// Bytes that memory moves when neighbouring threads take neighbours of `fastest`: what the accesses
// of a tensor cover once, more where they use a part of each sector only.
double traffic(const Piece& piece, const Kernel& kernel, const FlatIndex& fastest,
               const Work& work);
double dram_ns(double bytes, const Target& t);

// The largest of what bounds a kernel, with its facts, as a part of the kernel's term.
void add_bounds(CostTerm& into, CostTerm bounds, double factor);

// `count` threads, each doing `each` points and waiting for its reads so many times.
struct Threads {
  double count = 1, each = 1, waits = 0;
};
// Nanoseconds of all instructions, and of waves of threads that wait.
struct Issue {
  double instructions = 0, latency = 0;
  double slowest() const { return instructions > latency ? instructions : latency; }
};
Issue issue_ns(const Threads& threads, const Work& work, const Target& t, CostTerm* bounds);

// Whether a reduction and a parallel dimension move one index together.
bool sums_windows(const Piece& piece);

// A piece by loops.
double loops_ns(const PieceSchedule& s, const Piece& piece, const Kernel& kernel,
                const Target& target, CostTerm* into);
// A reduction by lanes of blocks.
double reduction_ns(const GpuReduction& g, const Piece& piece, const Kernel& kernel,
                    const Target& target, CostTerm* into);
// A product by tiles in shared memory and registers.
double simt_gemm_ns(const SimtGemm& g, const Piece& piece, const Contraction& c,
                    const Kernel& kernel, const Target& target, CostTerm* into);

}  // namespace tile::gpu
