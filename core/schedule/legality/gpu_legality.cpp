// Which GPU forms mean something for a piece, or for a kernel with row loops.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/kernel/forms/gpu_forms.h"
#include "core/kernel/forms/gpu_stream.h"
#include "core/schedule/legality/legality.h"
#include "core/support/checked.h"

namespace tile::gpu {
namespace {

constexpr int64_t kMostStages = 8;
constexpr int kClusters = 90;            // compute capability that has clusters
constexpr int kAsynchronousCopies = 80;  // … that copies to shared memory past registers

// Of a stream: rows of the instructions of a warp and of four, the widest block of columns that has
// been found worth its registers, and registers beside those of scores, weights and sums.
constexpr int64_t kWarpRows = 16;
constexpr int64_t kWarpgroupRows = 64;
constexpr int64_t kMostColumns = 128;
constexpr int64_t kStreamRegisters = 40;

// The form visits a reduction's whole box; loops visit what their bounds leave of it. A box with a
// smaller share of points than this is left to loops.
constexpr double kSparse = 1.0 / 64;

// The share of a piece's box that its conditions leave, were each met at random by itself.
double density(const Piece& piece) {
  double share = 1;
  for (const Constraint& c : piece.constraints) {
    double span = 1;  // of the form's values over the box
    for (size_t u = 0; u < piece.box.size(); ++u) {
      Rational step = c.form.coefficient(u);
      double steps = static_cast<double>(std::max<int64_t>(piece.box[u] - 1, 0));
      span += std::abs(static_cast<double>(step.num())) / static_cast<double>(step.den()) * steps;
    }
    share *= std::min(1.0, static_cast<double>(c.hi - c.lo) / span);
  }
  return share;
}

std::string illegal_reduction(const GpuReduction& g, const Piece& piece, const Contraction& c,
                              const Kernel& kernel, const Target& target) {
  if (piece.parallel_dims == piece.box.size()) return "a reduction form without a reduction";
  if (may_be_empty(piece, c)) return "a reduction form whose cells may have no point";
  if (density(piece) < kSparse) return "a reduction form over a box that is nearly empty";
  if (c.aggregation == Aggregation::assign && g.split > 1) return "a split assignment";
  for (int64_t v : {g.parallel_dims, g.lanes, g.vector, g.split}) {
    if (v < 1) return "a reduction form with an empty loop";
  }
  int64_t threads = checked_mul(g.parallel_dims, g.lanes);
  if (threads > target.gpu.threads_per_block || threads > 1024)
    return "a block with too many threads";
  if ((g.lanes & (g.lanes - 1)) != 0) return "lanes that are no power of two";
  if (g.vector > 16 || (g.vector & (g.vector - 1)) != 0) return "a vector of another size";
  FlatIndex along =
      g.vector_parallel_dims ? flat_parallel_dims(piece, kernel) : flat_reductions(piece, kernel);
  if (g.vector > 1 && along.fastest % g.vector != 0) return "a vector that leaves a remainder";
  int64_t cells = g.vector_parallel_dims ? g.vector : 1;
  int64_t bytes = 0;
  for (size_t o = 0; o < c.outputs.size(); ++o) {
    bytes += threads * cells * static_cast<int64_t>(byte_size(c.accumulator));
  }
  if (g.lanes > 1 && bytes > target.gpu.shared_per_block) return "more shared memory than there is";
  return {};
}

std::string illegal_matrix(const SimtGemm& g, const Piece& piece, const Contraction& c,
                           const Kernel& kernel, const Target& target) {
  if (!matrix_form(piece, c, kernel)) return "a matrix form of another contraction";
  for (int64_t v : {g.m, g.n, g.k, g.thread_m, g.thread_n, g.split}) {
    if (v < 1) return "a matrix form with an empty loop";
  }
  if (g.thread_m % 4 != 0 || g.thread_n % 4 != 0 || g.m % g.thread_m != 0 ||
      g.n % g.thread_n != 0 || g.k % 4 != 0) {
    return "tiles that do not divide each other";
  }
  if (g.stages < 2 || g.stages > kMostStages) return "a matrix form with another number of stages";
  if (g.ahead && target.strict_skip && matrix_form(piece, c, kernel)->skips) {
    return "a matrix form that reads ahead of terms that it may skip";
  }
  int64_t threads = (g.m / g.thread_m) * (g.n / g.thread_n);
  if (threads > target.gpu.threads_per_block || threads % target.gpu.warp_size != 0) {
    return "a block that is not made of warps";
  }
  if ((g.m * g.k / 4) % threads != 0 || (g.n * g.k / 4) % threads != 0) {
    return "a tile that its threads do not share evenly";
  }
  int64_t words = static_cast<int64_t>(byte_size(c.accumulator)) / 4;
  if (g.thread_m * g.thread_n * std::max<int64_t>(words, 1) > 128) {
    return "a register tile larger than the registers";
  }
  if (shared_bytes(g, c.accumulator) > target.gpu.shared_per_block) {
    return "more shared memory than there is";
  }
  return {};
}

// What is wrong with a form of one piece.
struct FormRules {
  const Piece& piece;
  const Contraction& c;
  const Kernel& kernel;
  const Target& target;

  std::string operator()(const std::monostate&) const { return "no GPU form"; }
  std::string operator()(const TensorCoreGemm&) const { return {}; }  // looked at by its own rules
  std::string operator()(const GpuReduction& g) const {
    return illegal_reduction(g, piece, c, kernel, target);
  }
  std::string operator()(const SimtGemm& g) const {
    return illegal_matrix(g, piece, c, kernel, target);
  }
  std::string operator()(const GpuScan& g) const {
    if (!scans_lines(piece, c, kernel)) return "a scan form of another contraction";
    if (g.lanes < 2 || (g.lanes & (g.lanes - 1)) != 0) return "lanes that are no power of two";
    if (g.lanes > target.gpu.threads_per_block) return "a block with too many threads";
    return g.vector < 1 || g.vector > 16 ? "a vector of another size" : "";
  }
  std::string operator()(const GpuTranspose& g) const {
    if (!transpose_form(piece, kernel)) return "a transposed form of another piece";
    bool square = g.tile >= 1 && g.rows >= 1 && g.tile % g.rows == 0;
    if (!square || g.tile * g.rows > target.gpu.threads_per_block) return "a tile of no block";
    int64_t bytes = g.tile * (g.tile + 1) * 8;
    return bytes > target.gpu.shared_per_block ? "more shared memory than there is" : "";
  }
};

bool has_loops(const Schedule& schedule) {
  for (const std::vector<PieceSchedule>& stage : schedule.stages) {
    for (const PieceSchedule& p : stage) {
      bool loops = !p.outer.empty() || !p.reduce.empty() || !p.tile.empty() ||
                   !p.packings.empty() || p.carried.valid() || p.has_gpu_form();
      if (loops) return true;
    }
  }
  return false;
}

}  // namespace

std::string illegal_form(const PieceSchedule& s, const Piece& piece, const Contraction& c,
                         const Kernel& kernel, const Target& target) {
  if (!is_gpu(target)) return "a GPU form for a CPU";
  bool loops = !s.outer.empty() || !s.reduce.empty() || !s.tile.empty() || !s.packings.empty();
  if (loops || s.carried.valid()) return "a GPU form with loops";
  for (int64_t extent : piece.box) {
    if (extent < 1) return "a GPU form without points";
  }
  return std::visit(FormRules{piece, c, kernel, target}, s.gpu_form);
}
std::string illegal_lines(const Schedule& schedule, const Kernel& kernel, const Target& target) {
  if (!is_gpu(target)) return "a GPU form for a CPU";
  std::optional<LineForm> f = line_form(kernel);
  if (!f) return "rows whose stages do not share a line";
  std::string wrong = illegal_lines(*schedule.gpu_lines, *f, kernel, target);
  return wrong.empty() && has_loops(schedule) ? "lines beside loops" : wrong;
}

std::string illegal_lines(const GpuLines& g, const LineForm& form, const Kernel& kernel,
                          const Target& target) {
  const LineForm* f = &form;
  if (g.lanes < 1 || (g.lanes & (g.lanes - 1)) != 0 || g.rows < 1) return "lanes of another number";
  bool power = g.blocks >= 1 && (g.blocks & (g.blocks - 1)) == 0;
  if (!power || g.blocks > kMostClusterBlocks) return "a cluster of another size";
  if (g.blocks > 1 && target.gpu.capability < kClusters) return "a cluster on a GPU without";
  if (g.blocks > 1 && g.rows > 1 && !f->rows_are_neighbours) return "a cluster of several rows";
  if (f->row_count * g.blocks > INT32_MAX) return "more blocks than a launch may have";
  int64_t threads = checked_mul(g.lanes, g.rows);
  if (threads > target.gpu.threads_per_block) return "a block with too many threads";
  if (f->row_count % g.rows != 0) return "rows that leave a remainder";
  if (g.vector != 1 && g.vector != 2 && g.vector != 4) return "a vector of another size";
  if (f->fastest % g.vector != 0) return "a vector that leaves a remainder";
  int64_t most = std::min<int64_t>(target.gpu.registers_per_thread,
                                   target.gpu.registers_per_multiprocessor / threads);
  if (most_registers(*f, g, kernel) > most) return "a line larger than the registers";
  // The walk along a line is unrolled, whether its cells are kept or not.
  if (cells_of_a_lane(*f, g) > target.gpu.registers_per_thread) return "a walk too long to unroll";
  return {};
}

std::string illegal_stream(const Schedule& schedule, const Kernel& kernel, const Target& target) {
  if (!is_gpu(target) || target.gpu.capability < kAsynchronousCopies ||
      target.gpu.matrix_per_ns <= 0) {
    return "a stream without tensor cores";
  }
  std::optional<StreamForm> form = stream_form(kernel);
  if (!form) return "a stream of other stages";
  // A skipped point has the weight zero, which times an infinity is not zero.
  bool skips = !kernel.stages[form->bounded()].contraction.pieces[0].constraints.empty();
  if (target.strict_skip && skips) return "a stream that computes skipped points";
  const GpuStream& g = *schedule.gpu_stream;
  bool sizes = g.rows >= kWarpgroupRows && g.rows % kWarpgroupRows == 0 &&
               g.rows / kWarpRows * target.gpu.warp_size <= target.gpu.threads_per_block &&
               g.columns >= kWarpRows && g.columns % kWarpRows == 0 && g.columns <= kMostColumns;
  if (!sizes) return "a block of another size";
  if (g.stages < 2 || g.stages > kMostStages) return "a stream with another number of stages";
  if (shared_bytes(g, *form) > target.gpu.shared_per_block)
    return "more shared memory than there is";
  // A lane's rows of tensor cores are two, and there the weights are a factor of their own.
  int64_t columns = multiplied_columns(g, *form);
  int64_t lane_rows = form->by_threads() ? rows_of_a_lane(columns) : 2;
  int64_t threads = g.rows / (kRowLanes * lane_rows) * target.gpu.warp_size;
  int64_t most = std::min<int64_t>(target.gpu.registers_per_thread,
                                   target.gpu.registers_per_multiprocessor / threads);
  int64_t registers = lane_rows * columns / 4 + kStreamRegisters;
  registers += form->by_threads() ? 4 * lane_rows : g.columns / 4;
  for (const StreamForm::Sum& sum : form->sums) registers += sum.column.valid() ? 0 : lane_rows;
  if (registers > most) return "more sums than registers";
  int64_t tiles = ceil_div(form->rows, g.rows);
  for (RowId r : kernel.stages[0].rows.ids()) {
    IteratorId u = kernel.stages[0].rows[r];
    if (r != form->row) tiles = checked_mul(tiles, kernel.stages[0].contraction.pieces[0].box[u]);
  }
  if (tiles > INT32_MAX) return "more blocks than a launch may have";
  return has_loops(schedule) ? "a stream beside loops" : "";
}

}  // namespace tile::gpu
