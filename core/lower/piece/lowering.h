// The parts of lower(): shared by its files, used nowhere else.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/ir/analysis/index_value.h"
#include "core/kernel/argument_layout.h"
#include "core/kernel/coverage.h"
#include "core/kernel/forms/amx_tiles.h"
#include "core/kernel/forms/dot_products.h"
#include "core/kernel/forms/gpu_forms.h"
#include "core/kernel/forms/prepacking.h"
#include "core/kernel/forms/scan.h"
#include "core/kernel/forms/window.h"
#include "core/kernel/kernel.h"
#include "core/kernel/schedule.h"
#include "core/lower/launch/nest_builders.h"
#include "core/nest/nest.h"
#include "core/schedule/search/dynamic_extent.h"
#include "core/schedule/search/parametric_tiling.h"

namespace tile::lowering {

// The nest under construction: its buffers, and the buffer of each tensor.
struct Frame {
  const Kernel& kernel;
  const Target& target;
  nest::Nest nest;
  std::map<TensorId, int> buffer_of;
  std::set<TensorId> split;  // arguments whose strides forbid the kernel's merged dimensions
  // Of results that live for a row: for each dimension its row loop, or -1; and where the current
  // block of each row loop begins.
  std::map<TensorId, std::vector<int>> in_row;
  std::vector<Expr> row_begin;
  // With a streamed axis (it counts as the last row): the sizes of blocks, the buffers that live
  // from block to block, and by the stage of a running maximum: its values so far, and what sums
  // that depend on it are multiplied with in this block.
  std::vector<int64_t> row_blocks;
  std::vector<int> carried_buffers;
  struct Running {
    int maximum = -1, factor = -1;
  };
  std::map<size_t, Running> running;
  Expr stream_end;  // of the values of the axis that the current block of rows needs
  // Tensors whose element of the current position stands at a fixed place of their buffer.
  std::map<TensorId, std::vector<Expr>> pinned;
  const DynamicExtent* extent = nullptr;  // of a kernel for a class of sizes
  const SharedForm* form = nullptr;       // of a kernel with blocks of run-time sizes
  // Takes the form, and its blocks' sizes as parameters of the nest.
  void take_form(const SharedForm& shared);
  // Pinned ones that are arguments as well: the buffer, and which threads leave storing there to
  // others, all but those for which the number is zero.
  struct StoredToo {
    int buffer = -1;
    Expr number;
  };
  std::map<TensorId, StoredToo> stored_too;
  // Packings that are made before all runs, and the argument that each one is.
  struct Prepared {
    PrepackedPacking what;
    int buffer = -1;
  };
  std::vector<Prepared> prepared;
  // Adds those of the schedule as arguments, after all others.
  void take_prepacked(const Schedule& schedule);
  int add_prepacked(const PrepackedPacking& what, const PieceSchedule& schedule, bool written);

  const BoundTensor& tensor(TensorId id) const { return kernel.tensors[static_cast<size_t>(id)]; }
  void add_argument(TensorId id, bool written, const Strides& strides);
  // Of the tensors that have buffers.
  ArgumentLayouts layouts() const;
  std::vector<Expr> buffer_index(TensorId id, std::vector<Expr> index) const;
  // The same of an access, some of whose indices may be values.
  void place(TensorId id, nest::Access& access) const;
  std::vector<Expr> argument_index(TensorId id, std::vector<Expr> index) const;
  // The element of an integer tensor of rank 0 as a run-time parameter of the nest, where the
  // target reads such at launch.
  std::optional<IndexValue> scalar(TensorId id);
  // A buffer other than an argument, with dense strides.
  int add_buffer(std::string name, DType type, nest::Scope scope, Shape shape);
};

// Names that the nest's text form can hold, each its own.
std::vector<std::string> plain_names(const std::vector<std::string>& names);
// A nest without arguments and code, named after the kernel.
Frame empty_frame(const Kernel& kernel, const Target& target,
                  const DynamicExtent* extent = nullptr);
// The nest of a kernel with its arguments and no code yet.
Frame make_frame(const Kernel& kernel, const Target& target, const Strides& strides,
                 const DynamicExtent* extent = nullptr);

// The name of the parameter that is a class's extent.
inline constexpr const char* kExtentName = "extent";

// What one block of loops knows of an iterator: its value so far is the sum of step * value over
// the levels; the current block holds `size` values from there (at most `bound`).
struct Level {
  int64_t step = 1;
  Expr value;
};
struct Position {
  std::vector<Level> levels;
  Expr size;
  int64_t bound = 0;

  Expr begin() const;
};
// Whether the points of a tile are tested against the conditions placed there.
enum class Guards : uint8_t { untested, points, none };
// The rows of a register tile along one of its iterators; -1: all.
struct TileRows {
  int iterator = -1;
  int64_t first = 0, count = 0;
};
// The iteration that statements are generated for.
struct State {
  std::vector<Position> at;      // one for each iterator
  std::vector<Expr> tile_index;  // the value of each tile loop entered so far
  Expr copy;                     // which of the independent accumulators
  Guards guards = Guards::untested;
  TileRows rows;            // of the tile those that have points
  Expr lane;                // of the vector loop over a reduction
  std::vector<int> packed;  // for each load the buffer that holds its block, or -1
  // For each packed load the number of each iterator's levels outside its block.
  std::vector<std::vector<size_t>> outside;
  bool one_cell =
      false;  // of a carried parallel dimension: the tile's loops over it are passed over
  size_t carried_index =
      0;  // of `tile_index`, its last ones: loops over the carried parallel dimension
};

// A body being translated, with the accesses that its loads name.
struct Value {
  Body body;
  std::vector<nest::Access> loads;
};
// Gives a store its body, without nodes that nothing needs, and its loads.
void settle(nest::Store& store, Value value);
// Replaces a load of a tensor computed in the same tile: the node, or -1 to read memory.
using Replacement = std::function<NodeId(Value&, TensorId)>;

// How a tile's accumulators take a term, and what they start from.
nest::StoreKind store_kind(Aggregation aggregation, DType type);
NodeId neutral(Body& body, Aggregation aggregation, DType type);

// Where a condition of the domain is enforced.
enum class Place : uint8_t { outer, bound, tile };
struct PlacedConstraint {
  const Constraint* constraint = nullptr;
  Place place = Place::tile;
  int iterator = -1;               // bound: the reduction whose loop is bounded
  bool parallel_dims_only = true;  // no reduction in it
};

// `streamed`: the kernel has a streamed axis, whose blocks test their points.
std::vector<PlacedConstraint> place_constraints(const Piece& piece, const PieceSchedule& schedule,
                                                bool streamed);
// Expressions that are all >= 0 exactly where lo <= form < hi, leaving out what the box implies.
// With `down` <= 0 <= `up` (in multiples of the whole form): where it holds for form + down … form
// + up.
std::vector<Expr> conditions(const Constraint& c, const Piece& piece,
                             const std::function<Expr(const Affine&)>& value, int64_t down = 0,
                             int64_t up = 0);

struct LoopContext;
// How accumulators take a term.
nest::StoreKind store_kind(Aggregation aggregation, DType type);
// Lowers one piece of a stage under its schedule.
class PieceLowering {
 public:
  PieceLowering(Frame& frame, size_t stage, size_t piece, const PieceSchedule& schedule);
  nest::Block run();

  // A row kernel's stages on a GPU (lower_gpu_lines.cpp).
  struct LinePlan {
    const gpu::LineForm* form = nullptr;
    int64_t lanes = 1, rows = 1, vector = 1;
    int64_t blocks = 1;            // of a cluster
    Expr block;                    // …this thread's
    std::vector<Expr> place;       // of the current position in a thread's registers
    std::map<size_t, int> shared;  // by stage: where its lanes are combined
    std::map<size_t, int> totals;  // by stage: where a cluster's blocks are combined
  };
  size_t number() const { return stage_; }
  void prepare_line(int64_t vector, nest::Block& out);
  nest::Block keep_line(const LinePlan& plan, size_t load, int buffer,
                        const std::vector<Expr>& rows, const Expr& lane) const;
  nest::Block line_stage(const LinePlan& plan, const std::vector<Expr>& rows,
                         const Expr& parallel_dim, const Expr& lane);
  // The parts of run() for a stage in rows (lower_rows.cpp): buffers, made before the shared loops;
  // the shared loops, whose variables are named after `names`, around what `inside` makes; the
  // loops of the stage in a block of rows.
  void prepare(nest::Block& out);
  // `before` goes before the loop over the streamed axis, if there is one.
  struct SharedBody {
    std::function<nest::Block(const State&)> inside;
    nest::Block before;
  };
  nest::Block shared_loops(size_t shared, const std::vector<std::string>& names, double nanoseconds,
                           SharedBody body);
  nest::Block in_rows(const std::vector<Position>& rows, size_t shared);
  const std::vector<std::string>& names() const { return names_; }

  // Of a piece on tensor cores (lower_tensor_core_gemm.cpp).
  nest::Block run(const TensorCoreGemm& schedule);

  // Fills the copy that a run of another nest reads, one of the frame's (lower_packing.cpp).
  nest::Block prepare_copy(const Packing& whole);

 private:
  friend class TensorCoreLowering;
  // Loops (lower_loops.cpp).
  using Leaf = std::function<nest::Block(const State&)>;
  State whole_box() const;
  nest::Block parallel_loops();
  nest::Block parallel_body(size_t i, State s, const std::vector<Expr>& values);
  // Blocks of run-time sizes (lower_parametric_tiling.cpp).
  nest::Block parametric_tiling();
  nest::Block position_in_blocks(const Expr& rest, std::vector<Expr> at, const State& s);
  nest::Block block_of_parallel_dim(size_t i, const std::vector<Expr>& at, const State& s);
  std::optional<size_t> parametric_tile_of(size_t outer) const;
  nest::Block tiles_of_block(size_t outer, size_t block, const State& s);
  nest::Block outer_loops(size_t i, State s);
  nest::Block outer_loop(size_t i, const State& s);
  // Of a run-time extent: its last block, `size` < the loop's step of it, in the state `inner` at
  // its begin.
  nest::Block short_block(const Loop& l, const State& inner, const Expr& size, const Leaf& leaf);
  bool sized_at_run_time(int iterator) const { return iterator == walker_; }
  nest::Block reduce_loops(size_t i, const State& s);
  nest::Block reduce_inside(size_t i, const State& s);
  // Borders: lower_borders.cpp.
  nest::Block test_whole_tile(size_t i, const State& s);
  std::optional<size_t> tile_test_place() const;
  nest::Block test_all_taps(size_t i, const State& s);
  std::optional<size_t> tap_test_place() const;
  std::vector<Expr> tile_conditions(const State& s, const TileRows& rows) const;
  std::vector<TileRows> shortened(const State& s) const;
  bool alone_in_conditions(int iterator) const;
  struct Missing {
    int64_t below = 0, above = 0;
  };
  Missing missing_rows(size_t iterator) const;
  nest::Block bounded_loop(size_t i, State s);
  nest::Block reduce_loop(size_t i, const State& s);
  nest::Block vector_reduction(size_t i, const State& s);
  nest::Block tile_loops(size_t i, const State& s, const Leaf& leaf);
  // The same, with one iteration of each loop that the load does not move with.
  nest::Block tile_loops_of(size_t load, const State& s, const Leaf& leaf);
  nest::Block joined_lanes(size_t i, const State& s, const Leaf& leaf);
  // The next loop over the same iterator wants blocks of constant size.
  bool tile_follows(size_t outer) const;
  bool unroll_follows(size_t reduce) const;
  std::string variable(int iterator, const State& s) const;
  int64_t grain_of(int64_t tasks) const;
  // Exact bounds of a reduction from the conditions placed at its loop: values in [lo, lo + size)
  // of its current block.
  bool is_bounded(int iterator) const;
  void bounds_of(int iterator, const State& s, Expr& lo, Expr& size) const;

  // Values (lower_value.cpp).
  Expr value_of(const Affine& form, const State& s) const;
  LoopContext loop_context(const Piece& piece, const State& s,
                           const Replacement& replacement) const;
  NodeId element(Value& into, size_t load, const State& s) const;  // that the load reads
  NodeId translate(Value& into, const Piece& piece, NodeId root, const State& s,
                   const Replacement& replacement) const;
  nest::Access output_access(size_t output, const State& s) const;

  // The register tile (lower_tile.cpp).
  nest::Block region(const State& s);
  int register_buffer(const std::string& name, DType type, Shape shape);
  void make_accumulators();
  nest::Block allocations() const;
  nest::Block initialise(const State& s);
  nest::Block resumed(const State& s);
  nest::Block kept(const State& s);
  nest::Block initialise_copies(const State& s);
  nest::Block over_lanes(const State& s,
                         const std::function<nest::Store(const State&)>& make) const;
  nest::Block accumulate(const State& s);
  nest::Store dot(const State& s) const;
  NodeId dot_operand(Value& into, size_t load, const State& s) const;
  NodeId packed_group(Value& into, size_t load, int64_t present, const State& s) const;
  DType dot_element(size_t load) const;
  bool flips() const { return dot_ && dot_->flipped; }
  nest::Access correction(const State& s) const;
  nest::Block start_corrections(const State& s);
  nest::Block add_corrections(const State& s);
  nest::Block subtract_corrections(const State& s);
  nest::Block combine_copies(const State& s);
  nest::Block finish(const State& s);
  nest::Block guarded(nest::Block block, const State& s, bool parallel_dims_only) const;
  nest::Store neutral_store(nest::Access target) const;
  nest::Access accumulator(size_t output, const State& s) const;
  nest::Access lane_accumulator(size_t output, const State& s) const;
  nest::Access present(const State& s) const;

  // Registers of sums (lower_amx_tiles.cpp): the tile's loops but the last two written out.
  using TileLeaf = std::function<nest::Statement(int fragment, const State&)>;
  nest::Block each_tile(const State& s, const TileLeaf& leaf);
  int fragment(const State& s);
  nest::Block zero_tiles(const State& s);
  nest::Block start_tiles(const State& s);
  nest::Block multiply_tiles(const State& s);
  nest::Block finish_tiles(const State& s);
  nest::Block finished_tiles(const State& s);
  // Where the cell of a register goes, or comes from.
  using Cell = std::function<nest::Access(const State&)>;
  nest::Block move_tiles(nest::MatrixMove::Kind kind, const Cell& cell, const State& s);
  bool moves_tiles(const Cell& cell, const State& s) const;
  State at_cell(const State& s, int64_t row, int64_t column) const;
  nest::Access summed(const State& s) const { return accumulator(0, s); }
  nest::Access operand(size_t load, const State& s) const;

  // Carried reductions (lower_scan.cpp).
  nest::Block carried_loop(const State& s);
  nest::Block carried_lanes(const State& s);
  Leaf next_cells(const ScanForm& form);
  nest::Block next_cell(const ScanForm& form, const Expr& step, State s);
  // Threads that take turns (lower_chain.cpp).
  struct Chain {
    int64_t tile = 0, tiles = 0;  // cells of a turn, and how many turns there are
    State turn;                   // of the loop variable `task`
    std::vector<int> sums;        // by output: of the lanes of a turn's values…
    std::vector<int> totals;      // …of all of them, for each turn…
    std::vector<int> before;      // …and of what the turns before have
  };
  Chain make_chain(const ScanForm& form);
  nest::Block chained_scan();
  nest::Block chain_totals(const ScanForm& form, const Chain& chain);
  nest::Block chain_links(const Chain& chain) const;
  nest::Block chain_cells(const ScanForm& form, const Chain& chain);
  nest::Block in_vectors(const std::string& name, int64_t count, const State& s, const Leaf& leaf);
  nest::Block first_values(const ScanForm& form, const State& s);
  nest::Block next_value(const ScanForm& form, const Expr& step, State s, const Leaf& add);

  // Sliding windows (lower_window.cpp).
  nest::Block window_loop(const State& s);
  nest::Block window_lanes(const State& s);
  nest::Block window_block(const WindowForm& form, const Expr& first, int64_t cells,
                           const State& s);
  nest::Block window_starts(const State& s);
  nest::Access sum_so_far(size_t part, const State& s) const;
  nest::Block keep_suffix(const Expr& place, const State& s);
  void make_window_parts(const WindowForm& form);
  nest::Access in_tile(int buffer, const State& s) const;
  nest::Access kept_suffix(size_t part, const Expr& place, const State& s) const;
  nest::Block window_tiles(const State& s, const std::function<nest::Block(const State&)>& each);
  nest::Block add_window_value(const WindowForm& form, const State& s);
  nest::Block finish_window(const WindowForm& form, const Expr& place, bool joined, const State& s);

  // Blocked reductions (lower_blocks.cpp): partial results between the blocks.
  void make_partials(nest::Block& out);
  nest::Access partial(size_t output, const State& s);
  Body first_block(const State& s) const;
  Body last_block(const State& s) const;

  // Streamed axes (lower_stream.cpp).
  void make_stream_partials();
  nest::Access of_block(int buffer, const State& s) const;
  nest::Access of_row(int buffer, const State& s) const;
  void rescale(nest::Store& resumed, const State& s) const;
  nest::Block raise_maximum(const State& s);
  // Of the shared loop over the streamed axis: how many blocks the rows of `s` need; nothing for
  // all of them and for other loops.
  std::optional<Expr> reached_blocks(size_t outer, const State& s);

  // Results and attached stages (lower_results.cpp).
  struct Made {
    std::vector<Expr> cell;               // where the tensor's element goes
    std::function<NodeId(Value&)> value;  // the element, rounded to the tensor's type
  };
  nest::Block results(const State& s);
  NodeId main_value(Value& into, size_t output, const State& s);
  // With `keep_values`, results that several statements read get buffers of their own.
  void find_attached(bool keep_values = true);
  void store_made(nest::Block& out, TensorId tensor, const State& s, Made made);
  State attached_state(const Piece& piece) const;
  int uses_of(TensorId tensor) const;

  // GPU forms (lower_gpu.cpp, lower_simt_gemm.cpp).
  struct Spread {
    int64_t count = 1, terms = 1;          // cells, and values reduced into each
    int64_t parallel_dims = 1, lanes = 1;  // threads of a block
    int64_t cells = 1, neighbours = 1;     // that a thread takes at once
    int64_t split = 1;
    bool parallel_dims_fastest = false;
    std::vector<int> shared;
    std::optional<Expr> block;  // of a cluster: the first index of `shared`
  };
  // Of the part of the reduction, the group of cells and the lane.
  using SpreadPart = std::function<nest::Block(const Expr&, const Expr&, const Expr&)>;
  nest::Block gpu_reduction(const GpuReduction& g);
  nest::Block simt_gemm(const SimtGemm& g);
  // A thread's cells of one turn: parts, and neighbours in each.
  static Shape scan_shape(const GpuScan& g);
  nest::Block gpu_scan(const GpuScan& g);
  nest::Block gpu_transpose(const GpuTranspose& g);
  class MatrixLowering;
  class ScanLowering;
  nest::Block spread_launch(Spread p, const std::string& name, const SpreadPart& reduce,
                            const SpreadPart& finish);
  nest::Block spread_terms(const Spread& p, const Expr& part, const Expr& lane,
                           const std::function<nest::Block(const Expr&)>& term) const;
  nest::Block spread_results(const gpu::FlatIndex& parallel_dims, const Expr& group, int64_t cells);
  nest::Block combine_lanes(const Spread& p, const Expr& parallel_dim, const Expr& lane);
  std::vector<int> split_buffers(int64_t split, int64_t cells, nest::Block& out);
  nest::Block store_parts(const std::vector<int>& parts, const Expr& part, const Expr& group,
                          int64_t cells) const;
  // In a second launch, whatever the first launch's threads held.
  void cells_of_a_thread(int64_t cells);
  nest::Block combine_parts(const gpu::FlatIndex& parallel_dims, const std::vector<int>& parts,
                            int64_t split);
  nest::Block accumulate_everywhere(const State& s);
  nest::Block owned_results(const State& s);
  nest::Block decoded(const gpu::FlatIndex& index, const State& s, const Expr& quotient,
                      int64_t vector, const Expr& lane, const std::string& prefix,
                      const std::function<nest::Block(const State&)>& inside) const;
  nest::Statement combined(nest::Access target, nest::Access from) const;
  nest::Statement copied(nest::Access target, nest::Access from) const;
  nest::Block line_positions(const LinePlan& plan, const State& rows, const Expr& lane,
                             const std::function<nest::Block(const State&)>& body) const;
  State line_rows(const std::vector<Expr>& rows) const;
  nest::Block combine_blocks(const LinePlan& plan, const Expr& lane);

  // Packing (lower_packing.cpp).
  nest::Block pack(const Packing& packing, State& s);
  bool copied_by_threads() const;
  const Packing& packing_of(size_t load) const;
  bool prepared(size_t load) const { return prepared_.contains(load); }
  nest::Block packing_loops(const Packing& packing, size_t entry, const State& s);
  nest::Block packing_groups(const Packing& packing, size_t entry, const State& s);
  int64_t moved_by(size_t load, int iterator) const;
  nest::Block packing_blocks(const Packing& packing, size_t entry, const State& s);
  struct Unrolled {
    std::string variable;
    int64_t extent = 0;  // 0: no loop
  };
  nest::Block packing_lanes(const Packing& packing, size_t entry, const Expr& count, const State& s,
                            const std::function<nest::Block(const Expr&, const Expr&)>& inside,
                            const Unrolled& rows) const;
  nest::Block packed_element(const Packing& packing, const State& s) const;
  nest::Access packed_access(size_t load, const State& s) const;
  std::vector<int64_t> bounds(const State& s) const;
  DType packed_type(const Packing& packing) const;
  State at_neighbour(int64_t i, const State& s) const;
  std::vector<Expr> in_range(size_t load, const State& s) const;

  Frame& frame_;
  const Contraction& contraction_;
  size_t stage_;
  size_t number_in_stage_;
  const Piece& piece_;
  const PieceSchedule schedule_;
  std::vector<PlacedConstraint> constraints_;
  std::vector<std::string> names_;
  bool reduces_ = false;       // accumulators are needed
  bool blocked_ = false;       // reductions in the outer loops
  bool may_be_empty_ = false;  // a cell may have no valid point and must then keep the fill
  bool lanes_reduce_ = false;  // the vector loop is over a reduction
  size_t carried_loops_ =
      0;  // of the tile, its last ones: those over the carried parallel dimension
  std::optional<DotForm> dot_;  // the reduction's last loop is one operation
  bool tiles_ = false;          // by registers that hold matrices
  TileSizes sizes_;
  std::map<std::pair<Shape, Shape>, int> fragments_;  // by place in the tile and shape
  int64_t copies_ = 1;               // independent accumulators of an unrolled reduction
  size_t copy_loop_ = 0;             // the loop in `reduce` that tells them apart
  std::optional<size_t> tile_test_;  // the loop in `reduce` where a whole tile is tested…
  std::optional<size_t> tap_test_;  // …and before it, with all values of those that are written out
  size_t parallel_ = 0;             // leading outer loops that are parallel
  bool copied_by_threads_ = false;  // copies outside of all loops are
  int walker_ = -1;                 // the iterator with a run-time extent
  size_t parametric_tiling_ = 0;    // leading outer loops over blocks of run-time sizes
  std::vector<int64_t> tile_shape_;
  std::vector<int> accumulators_, lanes_, partials_;
  int correction_ = -1;  // what flipped elements add to the sums
  // Of a window: for each value that it sums the register sum so far, the register that takes the
  // whole window, and the sums of the block's ends.
  struct WindowPart {
    Aggregation how = Aggregation::sum;
    DType type = DType::f32;
    int sum = -1, whole = -1, suffixes = -1;
  };
  std::vector<WindowPart> window_;
  const Node* known_fold_ = nullptr;                   // its results are the windows'
  std::map<size_t, int> packing_buffers_;              // by load
  std::map<size_t, const Frame::Prepared*> prepared_;  // by load
  int present_ = -1;
  int64_t lane_width_ = 1;
  std::vector<size_t> attached_;             // stages computed in this one's tile
  std::map<TensorId, int> register_values_;  // results that several statements of the tile read
  std::map<TensorId, Made> made_;            // results of the tile being generated
  size_t shared_ = 0;                        // leading outer loops around several stages
  SharedBody shared_body_;
  double shared_ns_ = 0;  // what all those stages take
};

// The schedule with copies of rows for tile registers that the tensors' strides leave apart.
PieceSchedule fitted(const PieceSchedule& schedule, const Frame& frame, const Piece& piece,
                     const Contraction& c);

// The stages of a kernel with row loops.
nest::Block lower_lines(Frame& frame, const Schedule& schedule);
nest::Block lower_rows(Frame& frame, const Schedule& schedule);

// Gives the cells of an output that no piece stores the default's values or zero; all of them
// where those are no simple set.
nest::Block fill(Frame& frame, TensorId tensor, const Contraction& c);

}  // namespace tile::lowering
