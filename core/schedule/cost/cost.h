// The analytic model's parts, and sizes of a piece's loops, for the files of this folder.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/kernel/forms/dot_products.h"
#include "core/kernel/forms/prepacking.h"
#include "core/kernel/geometry.h"
#include "core/kernel/kernel.h"
#include "core/kernel/schedule.h"
#include "core/schedule/cost/access_block.h"
#include "core/schedule/cost/body_facts.h"
#include "core/schedule/cost/cost_term.h"

namespace tile {

constexpr int64_t kLanesTogether = 8;  // the largest stride of lanes that are read together
// Work below this is not worth a thread: it gains little even where helpers watch for it, and loses
// where other threads have the processors at first. Measured by `tile-bench run` on short kernels
// with 2 threads on virtual machines.
constexpr double kChunkNanoseconds = 3500;
// Work that a thread takes at a time, at least: some ten times what taking it costs.
constexpr double kRunNanoseconds = 1500;

// The model of one piece: what its accesses cost under any schedule. Functions that are given a
// term add the parts of the time that they return to it, in nanoseconds; the search gives none.
class PieceModel {
 public:
  PieceModel(const Piece& piece, const Contraction& c, const Kernel& kernel, const Target& target);

  double serial_ns(const PieceSchedule& schedule) const;
  double serial_ns(const PieceSchedule& schedule, CostTerm* into) const;
  // With the target's threads.
  double nanoseconds(const PieceSchedule& schedule, CostTerm* into = nullptr) const;
  bool threaded(const PieceSchedule& schedule) const;  // the work is worth several
  // The same inside the tasks of another piece that is threaded (shared_parallel_loops.h).
  double joining_ns(const PieceSchedule& schedule, CostTerm* into = nullptr) const;
  double compute_ns(const PieceSchedule& schedule) const {
    return compute_cycles(schedule, nullptr) * cycle_ns_;
  }
  double packing_ns(const PieceSchedule& schedule, CostTerm* into = nullptr) const;
  int64_t lanes() const { return lanes_; }  // of a vector register, for the widest type computed
  double body() const { return body_; }     // cycles of the body, a vector of points
  double cycle_ns() const { return cycle_ns_; }

  struct AccessModel {
    const Access* access = nullptr;
    Shape shape;
    IdVector<IteratorId, int64_t> strides;  // in elements
    int bytes = 4;
    bool store = false;
    bool gathers = false;                 // an index is a value that data decide
    double times = 1;                     // how often a point reads it
    double conversion = 0;                // cycles of converting a vector of it, once for each read
    std::vector<BodyFacts::Moves> moves;  // by dimension, of indices that are values
    std::vector<bool> decided;            // by dimension: data decide the index
    // By dimension: the iterators that move the index, and how far.
    std::vector<std::vector<std::pair<size_t, double>>> steps;
    double uses = 1;    // how often each element that the access touches is read or written
    bool fixed = true;  // no iterator in it
    bool kept = false;  // copies of it may be made before all runs
  };
  const std::vector<AccessModel>& accesses() const { return accesses_; }  // loads, then stores
  // Whether copies of the load are made before all runs, which pay for reading them alone.
  bool packed_once(const PieceSchedule& s, const Packing& p) const {
    return accesses_[p.load].kept && tile::packed_once(p, s, piece_, kernel_, target_).has_value();
  }
  static AccessBlock block_of(const AccessModel& a, Range range);
  static double footprint(const AccessModel& a, Range range) { return block_of(a, range).bytes(); }
  // Nanoseconds to bring the block of one access from memory of `rate` bytes per nanosecond: short
  // runs and translations cost more.
  double fetch_ns(const AccessModel& a, Range range, double rate) const;
  // Whether a tile that unrolls `rows` reads blocks of the access whose lanes along `vector` memory
  // has apart as vectors along the rows, and turns them in registers.
  static bool turns(const AccessModel& a, IteratorId vector, size_t rows);
  double lines_of_vector(const AccessModel& a, IteratorId vector) const;
  // Cycles of one vector of the access when `vector` is the vector iterator.
  double vector_cycles(const AccessModel& a, IteratorId vector, bool packed) const;
  // The same where a vector takes all values of `last` for each of `rows` of `first`'s.
  struct JoinedLanes {
    IteratorId first, last;
    int64_t rows = 1;
  };
  double joined_cycles(const AccessModel& a, const JoinedLanes& lanes, bool packed) const;
  // The part of `rows * taps` reads that name different elements while a parallel dimension runs
  // over `rows` values and a reduction over `taps`: less than 1 where windows of neighbours
  // overlap.
  static double distinct_part(const AccessModel& a, size_t parallel_dim, int64_t rows,
                              size_t reduction, int64_t taps);
  // Every reduction is the tap of a short window that slides along a parallel dimension: depthwise
  // convolutions and pools.
  bool taps_only() const { return taps_only_; }
  // Whether windows of neighbours along the parallel dimension overlap in some load as the
  // reduction runs.
  bool slides(size_t parallel_dim, size_t reduction) const;

 private:
  friend class Traffic;
  struct TileShape {
    std::vector<size_t> iterators;  // of the register tile
    std::vector<int64_t> blocks;    // their sizes in a full tile
    IteratorId vector;
    IteratorId joined;  // the other iterator of the vector's lanes, and how many of its values
    int64_t rows = 1;
    int64_t copies = 1;
    double unroll = 1;
    int64_t group = 1;  // packed neighbours of a dot
    IteratorId turned;  // unrolled directly around the vector loop
  };
  AccessModel access_model(const Access& access, const Kernel& kernel,
                           const BodyFacts::Load* load) const;
  bool is_fused(const Body& body) const;
  double uses_of(const AccessModel& a) const;
  // The bytes of a packed block, which is dense.
  static double packed_bytes(const AccessModel& a, Range range);
  // Whether an earlier access of the same kind touches the block's lines.
  bool shares_lines(size_t access, Range range) const;
  double copy_ns(double bytes) const;
  TileShape tile_of(const PieceSchedule& s) const;
  // Of one register tile, and how they add up to `total`.
  struct TileCycles {
    double vectors = 1;
    double steps = 1;  // of the reduction
    // Of one step: the largest of the first three, and what two of them do not hide.
    double arithmetic = 0, loads = 0, issue = 0, in_turns = 0;
    double rounds = 0, latency = 0;  // at least: folds, or multiply-adds, that wait for each other
    double loop = 0;
    double step = 0;                   // all of that
    double stores = 0, scattered = 0;  // vectors of neighbours; lanes that memory has apart
    double finish = 0;                 // of the sums, before they are stored
    double start = 0, lanes = 0;       // entering and leaving the tile; adding up lanes
    bool beside = false;               // the next tile's steps begin beside this one's ends
    double total = 0;
  };
  struct TileLoads {
    double cycles = 0, count = 0, joins = 0, corrections = 0;
  };
  // All tiles that do so many steps in each block of the reduction. `taps`: whether rows share what
  // their windows overlap in; `share`: the part of all tiles that are so.
  struct TileRun {
    double steps = 1, tiles = 1;
    bool taps = true;
    double share = 1;
  };
  TileLoads tile_loads(const PieceSchedule& s, const TileShape& t,
                       const std::vector<double>& counts, const std::optional<DotForm>& form,
                       bool taps) const;
  double resumed_cycles(const PieceSchedule& s, double vectors) const;
  void add_up(TileCycles& c, const PieceSchedule& s, const TileShape& t) const;
  // Of one register tile in which the tile's iterators have `counts` iterations (vectors for the
  // vector iterator).
  TileCycles tile_cycles(const PieceSchedule& s, const TileShape& t,
                         const std::vector<double>& counts, double steps, bool taps) const;
  // The parts of tiles that take `scale` nanoseconds a cycle together.
  CostTerm tile_term(const TileCycles& c, std::string name, double scale) const;
  // Rows of a block of the access that the tile turns; 1: it does not.
  static int64_t transposed_rows(const AccessModel& a, const TileShape& t);
  double transpose_cycles(int64_t rows) const;
  double access_cycles(const AccessModel& a, const TileShape& t, bool packed) const;
  double shared_part(const PieceSchedule& s, const TileShape& t, const AccessModel& a,
                     const std::vector<double>& counts) const;
  double vectors_of(const TileShape& t, size_t iterator, int64_t size) const;
  double vectors_written(const TileShape& t) const;
  double code_factor(const TileShape& t, double cycles) const;
  double dot_cycles(const std::optional<DotForm>& form, int64_t group) const;
  static bool is_packed(const PieceSchedule& s, size_t load);
  double group_cycles(const PieceSchedule& s, const TileShape& t, size_t load, double cycles) const;
  double tiles_cycles(const PieceSchedule& s, CostTerm* into) const;
  TileCycles tiles_block_cycles(const PieceSchedule& s, int64_t m, int64_t n, double steps) const;
  double carried_ns(const PieceSchedule& s, CostTerm* into) const;
  double far_steps_ns(IteratorId carried) const;
  double running_cycles(const TileShape& t, double vectors) const;
  double refetch_ns(const TileShape& t) const;
  bool repeats_border(const Constraint& c, const TileShape& t) const;
  double at_border(const PieceSchedule& s, const TileShape& t, size_t tiled) const;
  double border_factor(const PieceSchedule& s, const TileShape& t) const;
  double tested_taps(const PieceSchedule& s, const TileShape& t) const;
  double reduction_blocks(const PieceSchedule& s) const;
  double cycles_of_steps(const PieceSchedule& s, const TileShape& t, double steps,
                         CostTerm* into) const;
  double resuming_ns(const PieceSchedule& s) const;
  double all_tiles(const PieceSchedule& s, const TileShape& t, const TileRun& run,
                   CostTerm* into) const;
  double first_share(const PieceSchedule& s, double tasks, double workers) const;
  double copying_overhead_ns(const PieceSchedule& s, double workers) const;
  double contended_ns(const PieceSchedule& s, double workers) const;
  double task_count(const PieceSchedule& s) const;
  double compute_cycles(const PieceSchedule& s, CostTerm* into) const;
  double serial_parts_ns(const PieceSchedule& s, CostTerm* into) const;

  const Piece& piece_;
  const Contraction& contraction_;
  const Kernel& kernel_;
  const Target& target_;
  std::vector<AccessModel> accesses_;
  bool reduces_ = false;
  int64_t lanes_ = 1;
  double body_ = 0;
  bool taps_only_ = false;
  bool waits_ = false;   // the next stage of a row needs what this one reduces
  bool window_ = false;  // cells are sums over sliding windows
  double round_ = 0;     // cycles of a window's one value
  double chain_ = 0;     // cycles that the rounds of folds take at least, one after the other
  double cycle_ns_ = 1;
  // What was asked for last: the space asks whether a schedule is worth threads, then for its time.
  mutable std::optional<std::pair<PieceSchedule, double>> last_;
};

// What starting one kernel costs, how many threads share `serial` nanoseconds of work in `tasks`
// parts, and what it takes on them (1 task: no parallel loop; `first`: at least that share is one
// thread's).
constexpr double kKernelStartNanoseconds = 200;  // `tile-micro`, dispatch of one kernel on a CPU
double workers_for(double serial, double tasks, const Target& target);
// `into`, if given, is the serial work's term and becomes that of the work on the threads.
double threaded_ns(double serial, double tasks, const Target& target, double first = 0,
                   CostTerm* into = nullptr);
// The least tasks that are worth a thread, of so many that take so long together.
int64_t parallel_grain(double nanoseconds, int64_t tasks);
// Attached stages: their bodies, their loads and their stores, beside the tile's own work.
double attached_ns(const KernelStage& stage, const Kernel& kernel, const Target& target);

// Estimated nanoseconds of one piece on one core.
double piece_nanoseconds(const Piece& piece, const Contraction& c, const Kernel& kernel,
                         const PieceSchedule& schedule, const Target& target);

}  // namespace tile
