#include "backends/cuda/matrix/matrix_source.h"

#include "backends/cuda/matrix/matrix_layout.h"

namespace tile::cuda {
namespace {

constexpr int64_t kAlignment = 1024;  // of the 128-byte swizzle's pattern

int64_t fixed_bytes(const MatrixLeaf& l) { return kAlignment + panel_bytes(l); }
// Full and empty for each stage, and whose turn it is.
int64_t barrier_bytes(int64_t stages) { return 16 * stages + 16; }

// The constant part of an operand's shared-memory descriptor: 128-byte swizzle, the distance of the
// blocks of 64 elements (of operands that are not K-major), the distance of groups of 8 rows.
std::string descriptor_constant(const MatrixLeaf& l, const MatrixOperand& o) {
  uint64_t leading = o.k_major ? 1 : static_cast<uint64_t>(l.depth * 128) >> 4;
  uint64_t bits = uint64_t{1} << 62 | uint64_t{1024 >> 4} << 32 | leading << 16;
  return std::to_string(bits) + "ull";
}

// What one instruction's K (32 bytes of it) adds to the descriptor's address.
int64_t descriptor_step(const MatrixLeaf& l, const MatrixOperand& o) {
  int64_t k = 32 / element_bytes(l.a_type);
  return o.k_major ? 32 >> 4 : (k * 128) >> 4;
}

// What 64 more rows of A add to the descriptor's address.
int64_t descriptor_rows(const MatrixLeaf& l) {
  return l.a.k_major ? (64 * 128) >> 4 : (l.depth * 128) >> 4;
}

// The device function `multiply`: one wgmma of 64 x tile_n x 32 bytes.
std::string multiply_function(const MatrixLeaf& l) {
  int64_t registers = l.tile_n / 2;
  bool bytes = is_byte(l.a_type);
  std::string sums, outputs;
  for (int64_t r = 0; r < registers; ++r) {
    std::string comma = r == 0 ? "" : ", ";
    sums += comma + "%" + std::to_string(r);
    outputs += comma + (bytes ? "\"+r\"(sum[" : "\"+f\"(sum[") + std::to_string(r) + "])";
  }
  // Reals have signs that their products may get, and of 16 bits which index is the inner one.
  std::string rest = bytes ? "" : ", 1, 1";
  if (element_bytes(l.a_type) == 2) {
    rest += std::string(l.a.k_major ? ", 0" : ", 1") + (l.b.k_major ? ", 0" : ", 1");
  }
  TextPieces pieces = common_pieces(l);
  pieces.set("sums", sums);
  pieces.set("outputs", outputs);
  pieces.set("rest", rest);
  pieces.set("types", (bytes ? "s32." : "f32.") + std::string(type_name(l.a_type)) + "." +
                          std::string(type_name(l.b_type)));
  pieces.set("k", 32 / element_bytes(l.a_type));
  pieces.set("a_operand", registers);
  pieces.set("b_operand", registers + 1);
  pieces.set("keep_operand", registers + 2);
  return pieces.fill(
      R"(FN void ${name}_multiply($sum_type (&sum)[$registers], unsigned long long a, unsigned long long b, int keep) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %$keep_operand, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n${columns}k$k.$types "
      "{$sums}, %$a_operand, %$b_operand, p$rest;\n}"
      : $outputs
      : "l"(a), "l"(b), "r"(keep));
}
)");
}

// A walk through the ring of stages.
constexpr const char* kAdvance =
    R"(if (++slot == kStages) {
  slot = 0;
  phase ^= 1;
}
)";

// The steps of this block: all, or its part of a cluster's.
std::string step_loop(const MatrixLeaf& l) {
  return common_pieces(l).fill(R"(#pragma unroll 1
for (int step = $first_step; step < $end_step; ++step) {
)");
}

// One tile, and which of its steps are this block's.
std::string cluster_tile(const MatrixLeaf& l) {
  return common_pieces(l).fill(R"(const int part = blockIdx.x % $cluster;
const int tile = blockIdx.x / $cluster;
{
$tile_variables
const int all_steps = $steps;
const int first_step = (int)((long long)all_steps * part / $cluster), end_step = (int)((long long)all_steps * (part + 1) / $cluster);
)");
}

// `own`: each consumer has tiles of its own.
std::string tile_loop(const MatrixLeaf& l, bool own) {
  if (l.cluster > 1) return cluster_tile(l);
  TextPieces pieces = common_pieces(l);
  pieces.set("tiles", l.tiles);
  pieces.set("own_tile", own ? " + consumer * gridDim.x" : "");
  pieces.set("stride", (own ? std::to_string(l.consumers) + " * " : "") + "gridDim.x");
  pieces.set("skip", l.part.empty() ? "" : pieces.fill("if (($steps) <= 0) continue;\n"));
  return pieces.fill(R"(#pragma unroll 1
for (int tile = blockIdx.x$own_tile; tile < $tiles; tile += $stride) {
$tile_variables
$skip)");
}

// Passes over the stages of another consumer's tile.
std::string skip_tile(const MatrixLeaf& l) {
  return common_pieces(l).fill(R"(slot += ($steps) % kStages;
phase ^= ($steps) / kStages & 1;
if (slot >= kStages) {
slot -= kStages;
phase ^= 1;
}
)");
}

std::string operand_copies(const MatrixOperand& o, const std::string& part) {
  std::string text;
  for (const MatrixBox& box : o.boxes) {
    TextPieces pieces;
    std::string coordinates;
    for (const std::string& c : box.coordinates) coordinates += ", " + c;
    pieces.set("part", part);
    pieces.set("offset", box.offset);
    pieces.set("map", o.map);
    pieces.set("coordinates", coordinates);
    text += pieces.fill("box_load($part + $offset, &$map, full + 8 * slot$coordinates);\n");
  }
  return text;
}

std::string producer(const MatrixLeaf& l) {
  TextPieces pieces = common_pieces(l);
  pieces.set("a_map", l.a.map);
  pieces.set("b_map", l.b.map);
  pieces.set("tile_loop", tile_loop(l, false));
  pieces.set("step_loop", step_loop(l));
  pieces.set("bytes", l.a.bytes + l.b.bytes);
  pieces.set("copies", operand_copies(l.a, "part") +
                           operand_copies(l.b, "part + " + std::to_string(a_bytes(l))));
  pieces.set("advance", kAdvance);
  pieces.set("wait_for_cluster", l.cluster > 1 ? "cluster_sync();\ncluster_sync();\n" : "");
  return pieces.fill(R"(if (threadIdx.x == 0) {
map_prefetch(&$a_map);
map_prefetch(&$b_map);
unsigned slot = 0, phase = 0;
$tile_loop$step_loop$step_variables
barrier_wait(empty + 8 * slot, phase ^ 1);
barrier_expect(full + 8 * slot, $bytes);
const unsigned part = base + slot * kStageBytes;
$copies$advance}
}
}
$wait_for_cluster)");
}

int64_t instructions_of_a_stage(const MatrixLeaf& l) {
  return l.depth * element_bytes(l.a_type) / 32;
}

// One instruction: number k of a stage, for the block m of rows. `a`, `b`: distances in units of
// descriptors behind those of the stage.
std::string product(const MatrixLeaf& l, const std::string& sum, int64_t m, int64_t k, int64_t a,
                    int64_t b, const std::string& keep) {
  TextPieces pieces = common_pieces(l);
  pieces.set("sum", sum);
  pieces.set("a", a + k * descriptor_step(l, l.a) + m * descriptor_rows(l));
  pieces.set("b", b + k * descriptor_step(l, l.b));
  pieces.set("keep", k == 0 ? keep : "1");
  return pieces.fill("${name}_multiply($sum, a + $a, b + $b, $keep);\n");
}

// Products of all that a stage has at these distances; `keep`: of the sums before.
std::string products(const MatrixLeaf& l, const std::string& sum, int64_t a, int64_t b,
                     const std::string& keep) {
  std::string text;
  for (int64_t k = 0; k < instructions_of_a_stage(l); ++k) {
    for (int64_t m = 0; m < row_blocks(l); ++m) {
      text += product(l, sum + "[" + std::to_string(m) + "]", m, k, a, b, keep);
    }
  }
  return text;
}

std::string each_sum(const MatrixLeaf& l, const std::string& statement) {
  TextPieces pieces = common_pieces(l);
  pieces.set("statement", statement);
  return pieces.fill(R"(#pragma unroll
for (int m = 0; m < $blocks; ++m) {
#pragma unroll
for (int i = 0; i < $registers; ++i) $statement
}
)");
}

// The products of a stage of split operands. The small ones first: their sum is cut less.
std::string multiply_parts(const MatrixLeaf& l) {
  int64_t a_rest = part_bytes(l, l.tile_m) >> 4, b_rest = part_bytes(l, l.tile_n) >> 4;
  TextPieces pieces;
  pieces.set("products", products(l, "part_sum", a_rest, 0, "0") +
                             products(l, "part_sum", 0, b_rest, "1") +
                             products(l, "part_sum", 0, 0, "1"));
  pieces.set("add", each_sum(l, "sum[m][i] += part_sum[m][i];"));
  pieces.set("advance", kAdvance);
  return pieces.fill(R"(${products}multiply_commit();
multiply_wait<0>();
if (thread == 0) barrier_arrive(empty + 8 * slot);
$add$advance}
)");
}

// The products of a stage, of one block of rows after the other. Meanwhile the tensor cores have
// those of the other warpgroup.
std::string multiply_blocks(const MatrixLeaf& l) {
  std::string text;
  for (int64_t m = 0; m < row_blocks(l); ++m) {
    std::string products;
    for (int64_t k = 0; k < instructions_of_a_stage(l); ++k) {
      products += product(l, "part_sum", m, k, 0, 0, "0");
    }
    TextPieces pieces = common_pieces(l);
    pieces.set("m", m);
    pieces.set("products", products);
    pieces.set("give_back",
               m + 1 < row_blocks(l) ? "" : "if (thread == 0) barrier_arrive(empty + 8 * slot);\n");
    text += pieces.fill(R"(${products}multiply_commit();
multiply_wait<0>();
${give_back}#pragma unroll
for (int i = 0; i < $registers; ++i) sum[$m][i] += part_sum[i];
)") + (m + 1 < row_blocks(l) ? "multiply_fence();\n" : "");
  }
  return text + kAdvance + "}\n";
}

// The products of a stage; a stage is given back when the next one's products are under way.
std::string multiply_stages(const MatrixLeaf& l) {
  TextPieces pieces = common_pieces(l);
  pieces.set("products", products(l, "sum", 0, 0, pieces.fill("step - $first_step")));
  pieces.set("advance", kAdvance);
  pieces.set("next_turn",
             l.in_turn ? "if (thread == 0) barrier_arrive(turn + 8 * (1 - consumer));\n" : "");
  return pieces.fill(R"(${products}multiply_commit();
multiply_wait<1>();
if (step > $first_step) {
if (thread == 0) barrier_arrive(empty + 8 * before);
}
before = slot;
$advance}
${next_turn}multiply_wait<0>();
if (thread == 0) barrier_arrive(empty + 8 * before);
)");
}

// The products of one tile, one group of instructions behind the copies.
std::string main_loop(const MatrixLeaf& l) {
  TextPieces pieces = common_pieces(l);
  // Whoever waits for a stage must be at most one round of the ring ahead of it: a consumer begins
  // when the other has seen all stages of its tile.
  pieces.set("wait_for_turn", l.in_turn
                                  ? "barrier_wait(turn + 8 * consumer, (turns + 1 - consumer) & "
                                    "1);\n++turns;\n"
                                  : "");
  pieces.set("start",
             l.split || l.short_sums ? each_sum(l, "sum[m][i] = 0;") : "unsigned before = 0;\n");
  pieces.set("step_loop", step_loop(l));
  pieces.set("a_constant", descriptor_constant(l, l.a));
  pieces.set("b_constant", descriptor_constant(l, l.b));
  pieces.set("block_rows", descriptor_rows(l));
  pieces.set("a_bytes", a_bytes(l));
  pieces.set("multiply", l.split        ? multiply_parts(l)
                         : l.short_sums ? multiply_blocks(l)
                                        : multiply_stages(l));
  // The high bits of an address are the block's number in its cluster.
  return pieces.fill(R"($wait_for_turn$start${step_loop}barrier_wait(full + 8 * slot, phase);
const unsigned own = (base + slot * kStageBytes) & 0x3ffffu;
const unsigned long long a = $a_constant + (own >> 4) + $first_block * $block_rows;
const unsigned long long b = $b_constant + ((own + $a_bytes) >> 4);
multiply_fence();
$multiply)");
}

std::string consumer(const MatrixLeaf& l) {
  bool staged = !l.epilogue.map.empty();
  TextPieces pieces = common_pieces(l);
  pieces.set("panel_bytes", l.epilogue.buffers * kPanelBytes);
  pieces.set("panels", !staged ? ""
                               : pieces.fill("const unsigned panels = base + kStages * kStageBytes "
                                             "+ consumer * $panel_bytes;\n"));
  pieces.set("part_sums", l.split        ? pieces.fill("float part_sum[$blocks][$registers];\n")
                          : l.short_sums ? pieces.fill("float part_sum[$registers];\n")
                                         : "");
  pieces.set("skip", l.in_turn ? skip_tile(l) : "");
  pieces.set("second_consumer",
             l.in_turn ? pieces.fill("unsigned turns = 0;\nif (consumer == 1) {\n$skip}\n") : "");
  pieces.set("tile_loop", tile_loop(l, l.in_turn));
  pieces.set("main_loop", main_loop(l));
  pieces.set("finish", finish_tile(l));
  pieces.set("wait_for_stores", staged ? "if (thread == 0) store_wait<0>();\n" : "");
  return pieces.fill(
      R"(const int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
const int consumer = group - 1;
${panels}unsigned slot = 0, phase = 0;
$sum_type sum[$blocks][$registers];
$part_sums$second_consumer$tile_loop$main_loop$skip$finish}
$wait_for_stores)");
}

// Registers that warpgroups take from the one that only copies; 0: the launch's are enough.
struct RegisterSplit {
  int producer = 0, consumer = 0;
};
RegisterSplit register_split(const MatrixLeaf& l) {
  if (l.consumers == 2) return {24, 240};
  if (l.consumers == 3) return {32, 160};
  return {};
}

std::string set_registers(int count, const char* direction) {
  if (count == 0) return "";
  TextPieces pieces;
  pieces.set("direction", direction);
  pieces.set("count", count);
  return pieces.fill("asm volatile(\"setmaxnreg.$direction.sync.aligned.u32 $count;\");\n");
}

std::string set_up(const MatrixLeaf& l) {
  TextPieces pieces = common_pieces(l);
  pieces.set("stage_bytes", stage_bytes(l));
  pieces.set("barriers", l.stages * stage_bytes(l) + panel_bytes(l));
  pieces.set("sharing", sharing(l));
  return pieces.fill(R"(constexpr int kStages = $stages;
constexpr unsigned kStageBytes = $stage_bytes;
extern __shared__ unsigned char dynamic_shared[];
const unsigned base = (shared_address(dynamic_shared) + 1023) & ~1023u;
const unsigned full = base + $barriers, empty = full + 8 * kStages, turn = empty + 8 * kStages;
if (threadIdx.x == 0) {
for (int i = 0; i < kStages; ++i) {
barrier_init(full + 8 * i, 1);
barrier_init(empty + 8 * i, $sharing);
}
barrier_init(turn, 1);
barrier_init(turn + 8, 1);
}
barriers_ready();
const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
)");
}

}  // namespace

int64_t element_bytes(MatrixType type) {
  constexpr int64_t bytes[] = {2, 2, 4, 1, 1, 8, 1, 1};
  return bytes[static_cast<size_t>(type)];
}
std::string_view type_name(MatrixType type) {
  constexpr std::string_view names[] = {"f16", "bf16", "tf32", "s8", "u8", "f64", "e4m3", "e5m2"};
  return names[static_cast<size_t>(type)];
}
std::string_view sum_type(MatrixType type) {
  return is_byte(type) ? "int" : type == MatrixType::f64 ? "double" : "float";
}

int64_t part_bytes(const MatrixLeaf& l, int64_t rows) {
  return rows * l.depth * element_bytes(l.a_type);
}
int64_t a_bytes(const MatrixLeaf& l) { return part_bytes(l, l.tile_m) * (l.split ? 2 : 1); }
int64_t stage_bytes(const MatrixLeaf& l) {
  return part_bytes(l, l.tile_m + l.tile_n) * (l.split ? 2 : 1);
}
int64_t panel_bytes(const MatrixLeaf& l) {
  return l.epilogue.map.empty() ? 0 : l.consumers * l.epilogue.buffers * kPanelBytes;
}
int64_t sharing(const MatrixLeaf& l) { return l.in_turn ? 1 : l.consumers; }
int64_t row_blocks(const MatrixLeaf& l) { return l.tile_m / (64 * sharing(l)); }
int64_t own_columns(const MatrixLeaf& l) { return l.tile_n / l.cluster; }

TextPieces common_pieces(const MatrixLeaf& l) {
  TextPieces pieces;
  pieces.set("name", l.name);
  pieces.set("columns", l.tile_n);
  pieces.set("sum_type", std::string(sum_type(l.a_type)));
  pieces.set("value_type", l.epilogue.value_type);
  pieces.set("registers", l.tile_n / 2);
  pieces.set("blocks", row_blocks(l));
  pieces.set("cluster", l.cluster);
  pieces.set("stages", l.stages);
  pieces.set("first_block", l.in_turn ? "0" : "consumer * " + std::to_string(row_blocks(l)));
  pieces.set("first_column",
             l.cluster > 1 ? "part * " + std::to_string(own_columns(l)) + " + " : "");
  pieces.set("steps", l.steps);
  pieces.set("first_step", l.cluster > 1 ? "first_step" : "0");
  pieces.set("end_step", l.cluster > 1 ? "end_step" : l.steps);
  pieces.set("tile_variables", l.tile_variables);
  pieces.set("step_variables", l.step_variables);
  return pieces;
}

int64_t matrix_shared_bytes(const MatrixLeaf& l) {
  return fixed_bytes(l) + l.stages * stage_bytes(l) + barrier_bytes(l.stages);
}

int64_t matrix_threads(const MatrixLeaf& l) { return 128 * (l.consumers + 1); }

int64_t matrix_stages(MatrixLeaf leaf, int64_t shared_bytes) {
  leaf.stages = 0;
  int64_t each = stage_bytes(leaf) + barrier_bytes(1) - barrier_bytes(0);
  return (shared_bytes - matrix_shared_bytes(leaf)) / each;
}

std::string matrix_source(const MatrixLeaf& l) {
  RegisterSplit registers = register_split(l);
  TextPieces pieces = common_pieces(l);
  pieces.set("multiply_function", multiply_function(l));
  pieces.set("threads", matrix_threads(l));
  pieces.set("cluster_size", l.cluster > 1 ? pieces.fill("__cluster_dims__($cluster, 1, 1) ") : "");
  pieces.set("parameters", l.parameters);
  pieces.set("set_up", set_up(l));
  pieces.set("fewer_registers", set_registers(registers.producer, "dec"));
  pieces.set("producer", producer(l));
  pieces.set("more_registers", set_registers(registers.consumer, "inc"));
  pieces.set("consumer", consumer(l));
  return pieces.fill(
      R"(${multiply_function}extern "C" __global__ void __launch_bounds__($threads, 1) $cluster_size$name($parameters) {
${set_up}if (group == 0) {
$fewer_registers$producer} else {
$more_registers$consumer}
}
)");
}

}  // namespace tile::cuda
