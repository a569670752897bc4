#include "backends/cuda/matrix/matrix_source.h"

#include "core/support/checked.h"

namespace tile::cuda {
namespace {

constexpr int64_t kAlignment = 1024;  // of the 128-byte swizzle's pattern
constexpr int64_t kPanelBytes = 64 * 128;

std::string number(int64_t n) { return std::to_string(n); }

std::string_view type_name(MatrixType type) {
  constexpr std::string_view names[] = {"f16", "bf16", "tf32"};
  return names[static_cast<size_t>(type)];
}

// Of one part of an operand, and of all.
int64_t part_bytes(const MatrixLeaf& l, int64_t rows) {
  return rows * l.depth * element_bytes(l.type);
}
int64_t a_bytes(const MatrixLeaf& l) { return part_bytes(l, l.tile_m) * (l.split ? 2 : 1); }
int64_t b_bytes(const MatrixLeaf& l) { return part_bytes(l, l.tile_n) * (l.split ? 2 : 1); }
int64_t stage_bytes(const MatrixLeaf& l) { return a_bytes(l) + b_bytes(l); }
int64_t panel_bytes(const MatrixLeaf& l) {
  return l.epilogue.map.empty() ? 0 : l.consumers * l.epilogue.buffers * kPanelBytes;
}
int64_t fixed_bytes(const MatrixLeaf& l) { return kAlignment + panel_bytes(l); }
// Full and empty for each stage, and whose turn it is.
int64_t barrier_bytes(int64_t stages) { return 16 * stages + 16; }
// Register tiles of 64 rows that each warpgroup holds.
int64_t sharing(const MatrixLeaf& l) { return l.in_turn ? 1 : l.consumers; }
int64_t row_blocks(const MatrixLeaf& l) { return l.tile_m / (64 * sharing(l)); }
std::string first_block(const MatrixLeaf& l) {
  return l.in_turn ? "0" : "consumer * " + number(row_blocks(l));
}

// The constant part of an operand's shared-memory descriptor: 128-byte swizzle, the distance of the
// blocks of 64 elements (of operands that are not K-major), the distance of groups of 8 rows.
std::string descriptor_constant(const MatrixLeaf& l, const MatrixOperand& o) {
  uint64_t leading = o.k_major ? 1 : static_cast<uint64_t>(l.depth * 128) >> 4;
  uint64_t bits = uint64_t{1} << 62 | uint64_t{1024 >> 4} << 32 | leading << 16;
  return std::to_string(bits) + "ull";
}

// What one instruction's K (32 bytes of it) adds to the descriptor's address.
int64_t descriptor_step(const MatrixLeaf& l, const MatrixOperand& o) {
  int64_t k = 32 / element_bytes(l.type);
  return o.k_major ? 32 >> 4 : (k * 128) >> 4;
}

// What 64 more rows of A add to the descriptor's address.
int64_t descriptor_rows(const MatrixLeaf& l) {
  return l.a.k_major ? (64 * 128) >> 4 : (l.depth * 128) >> 4;
}

// The device function `multiply`: one wgmma of 64 x tile_n x 32 bytes.
std::string multiply_function(const MatrixLeaf& l) {
  int64_t registers = l.tile_n / 2;
  std::string list, outputs;
  for (int64_t r = 0; r < registers; ++r) {
    list += (r == 0 ? "%" : ", %") + number(r);
    outputs += (r == 0 ? "\"+f\"(sum[" : ", \"+f\"(sum[") + number(r) + "])";
  }
  std::string type(type_name(l.type));
  std::string k = number(32 / element_bytes(l.type));
  std::string majors;
  if (l.type != MatrixType::tf32) {
    majors = std::string(l.a.k_major ? ", 0" : ", 1") + (l.b.k_major ? ", 0" : ", 1");
  }
  return "FN void " + l.name + "_multiply(float (&sum)[" + number(registers) +
         "], unsigned long long a, unsigned long long b, int keep) {\n"
         "  asm volatile(\n      \"{\\n.reg .pred p;\\nsetp.ne.b32 p, %" +
         number(registers + 2) + ", 0;\\n\"\n      \"wgmma.mma_async.sync.aligned.m64n" +
         number(l.tile_n) + "k" + k + ".f32." + type + "." + type + " \"\n      \"{" + list +
         "}, %" + number(registers) + ", %" + number(registers + 1) + ", p, 1, 1" + majors +
         ";\\n}\"\n      : " + outputs + "\n      : \"l\"(a), \"l\"(b), \"r\"(keep));\n}\n";
}

// A walk through the ring of stages.
constexpr const char* kAdvance =
    "if (++slot == kStages) {\n"
    "  slot = 0;\n"
    "  phase ^= 1;\n"
    "}\n";

// The steps of this block: all, or its part of a cluster's.
std::string first_step(const MatrixLeaf& l) { return l.cluster > 1 ? "first_step" : "0"; }
std::string step_loop(const MatrixLeaf& l) {
  return "#pragma unroll 1\nfor (int step = " + first_step(l) + "; step < " +
         (l.cluster > 1 ? "end_step" : l.steps) + "; ++step) {\n";
}

std::string tile_loop(const MatrixLeaf& l, bool own) {
  if (l.cluster > 1) {
    std::string blocks = number(l.cluster);
    return "const int part = blockIdx.x % " + blocks + ";\nconst int tile = blockIdx.x / " +
           blocks + ";\n{\n" + l.tile_variables + "\nconst int all_steps = " + l.steps +
           ";\nconst int first_step = (int)((long long)all_steps * part / " + blocks +
           "), end_step = (int)((long long)all_steps * (part + 1) / " + blocks + ");\n";
  }
  return "#pragma unroll 1\nfor (int tile = blockIdx.x" +
         std::string(own ? " + consumer * gridDim.x" : "") + "; tile < " + l.tiles +
         "; tile += " + (own ? number(l.consumers) + " * " : "") + "gridDim.x) {\n" +
         l.tile_variables + "\n" +
         (l.part.empty() ? "" : "if ((" + l.steps + ") <= 0) continue;\n");
}

// Passes over the stages of another consumer's tile.
std::string skip_tile(const MatrixLeaf& l) {
  return "slot += (" + l.steps + ") % kStages;\nphase ^= (" + l.steps +
         ") / kStages & 1;\nif (slot >= kStages) {\nslot -= kStages;\nphase ^= 1;\n}\n";
}

std::string operand_copies(const MatrixOperand& o, const std::string& part) {
  std::string text;
  for (const MatrixBox& box : o.boxes) {
    text += "box_load(" + part + " + " + number(box.offset) + ", &" + o.map + ", full + 8 * slot";
    for (const std::string& c : box.coordinates) text += ", " + c;
    text += ");\n";
  }
  return text;
}

std::string producer(const MatrixLeaf& l) {
  return "if (threadIdx.x == 0) {\nmap_prefetch(&" + l.a.map + ");\nmap_prefetch(&" + l.b.map +
         ");\nunsigned slot = 0, phase = 0;\n" + tile_loop(l, false) + step_loop(l) +
         l.step_variables +
         "\nbarrier_wait(empty + 8 * slot, phase ^ 1);\n"
         "barrier_expect(full + 8 * slot, " +
         number(l.a.bytes + l.b.bytes) +
         ");\n"
         "const unsigned part = base + slot * kStageBytes;\n" +
         operand_copies(l.a, "part") + operand_copies(l.b, "part + " + number(a_bytes(l))) +
         kAdvance + "}\n}\n}\n" + (l.cluster > 1 ? "cluster_sync();\ncluster_sync();\n" : "");
}

std::string release(const std::string& slot) {
  return "if (thread == 0) barrier_arrive(empty + 8 * " + slot + ");\n";
}

// Products of all that a stage has at these distances, in units of descriptors, behind its a and b;
// `keep`: of the sums before.
std::string products(const MatrixLeaf& l, const std::string& sum, int64_t a, int64_t b,
                     const std::string& keep) {
  std::string text;
  int64_t parts = l.depth * element_bytes(l.type) / 32;
  for (int64_t k = 0; k < parts; ++k) {
    for (int64_t m = 0; m < row_blocks(l); ++m) {
      text += l.name + "_multiply(" + sum + "[" + number(m) + "], a + " +
              number(a + k * descriptor_step(l, l.a) + m * descriptor_rows(l)) + ", b + " +
              number(b + k * descriptor_step(l, l.b)) + ", " + (k == 0 ? keep : "1") + ");\n";
    }
  }
  return text;
}

// The small products first: their sum is cut less.
std::string multiply_parts(const MatrixLeaf& l) {
  int64_t a_rest = part_bytes(l, l.tile_m) >> 4, b_rest = part_bytes(l, l.tile_n) >> 4;
  return products(l, "part_sum", a_rest, 0, "0") + products(l, "part_sum", 0, b_rest, "1") +
         products(l, "part_sum", 0, 0, "1") + "multiply_commit();\nmultiply_wait<0>();\n";
}
std::string each_sum(const MatrixLeaf& l, const std::string& what) {
  return "#pragma unroll\nfor (int m = 0; m < " + number(row_blocks(l)) +
         "; ++m) {\n#pragma unroll\nfor (int i = 0; i < " + number(l.tile_n / 2) + "; ++i) " +
         what + "\n}\n";
}
std::string add_parts(const MatrixLeaf& l) { return each_sum(l, "sum[m][i] += part_sum[m][i];"); }

// The products of one tile, one group of instructions behind the copies.
std::string main_loop(const MatrixLeaf& l) {
  std::string blocks = number(row_blocks(l));
  std::string a_constant = descriptor_constant(l, l.a), b_constant = descriptor_constant(l, l.b);
  std::string rows = number(descriptor_rows(l));
  // Whoever waits for a stage must be at most one round of the ring ahead of it: a consumer begins
  // when the other has seen all stages of its tile.
  std::string text = l.in_turn ? "barrier_wait(turn + 8 * consumer, (turns + 1 - consumer) & 1);\n"
                                 "++turns;\n"
                               : "";
  text += l.split ? each_sum(l, "sum[m][i] = 0;") : "unsigned before = 0;\n";
  text += step_loop(l) +
          "barrier_wait(full + 8 * slot, phase);\n"
          // The high bits of an address are the block's number in its cluster.
          "const unsigned own = (base + slot * kStageBytes) & 0x3ffffu;\n"
          "const unsigned long long a = " +
          a_constant + " + (own >> 4) + " + first_block(l) + " * " + rows +
          ";\nconst unsigned long long b = " + b_constant + " + ((own + " + number(a_bytes(l)) +
          ") >> 4);\nmultiply_fence();\n";
  if (l.split) return text + multiply_parts(l) + release("slot") + add_parts(l) + kAdvance + "}\n";
  text += products(l, "sum", 0, 0, "step - " + first_step(l)) +
          "multiply_commit();\nmultiply_wait<1>();\nif (step > " + first_step(l) + ") {\n" +
          release("before") + "}\nbefore = slot;\n" + kAdvance + "}\n" +
          (l.in_turn ? "if (thread == 0) barrier_arrive(turn + 8 * (1 - consumer));\n" : "") +
          "multiply_wait<0>();\n" + release("before");
  return text;
}

// What a block finishes: all columns of its tile, or its part of them.
int64_t own_columns(const MatrixLeaf& l) { return l.tile_n / l.cluster; }
std::string first_column(const MatrixLeaf& l) {
  return l.cluster > 1 ? "part * " + number(own_columns(l)) + " + " : "";
}

std::string staged_panel(const MatrixLeaf& l) {
  const MatrixEpilogue& e = l.epilogue;
  bool narrow = e.result_bytes == 2;
  std::string groups = number(128 / (8 * e.result_bytes));
  std::string text = "for (int j = 0; j < " + groups + "; j += " + (narrow ? "2" : "1") +
                     ") {\nconst int at = p * " + groups +
                     " + j;\nconst int row = first_row + lane / 4, column = " + first_column(l) +
                     "at * 8 + lane % 4 * 2;\n";
  if (narrow) {
    // stmatrix: lane l gives the address of row l % 16, of the left or right 8 columns.
    text +=
        "const unsigned in_panel = warp * 16 + lane % 16;\n"
        "const unsigned to = panel + in_panel * 128 + (((j + lane / 16) ^ (in_panel & 7)) << 4);\n"
        "unsigned r[4];\n#pragma unroll\nfor (int q = 0; q < 4; ++q) {\n"
        "r[q] = pair_bits(finish(row + q % 2 * 8, column + q / 2 * 8, done[m][at * 4 + q * 2]),\n"
        "finish(row + q % 2 * 8, column + q / 2 * 8 + 1, done[m][at * 4 + q * 2 + "
        "1]));\n}\nstore_matrices(to, r[0], r[1], r[2], r[3]);\n";
  } else {
    text +=
        "#pragma unroll\nfor (int q = 0; q < 2; ++q) {\n"
        "const unsigned in_panel = warp * 16 + lane / 4 + q * 8;\n"
        "const unsigned chunk = j * 2 + lane % 4 / 2;\n"
        "const unsigned to = panel + in_panel * 128 + ((chunk ^ (in_panel & 7)) << 4) + lane % 2 "
        "* 8;\n"
        "store_pair(to, word_bits(finish(row + q * 8, column, done[m][at * 4 + q * 2])),\n"
        "word_bits(finish(row + q * 8, column + 1, done[m][at * 4 + q * 2 + 1])));\n}\n";
  }
  return text + "}\n";
}

// Panels that may still be on their way when the next is written: the ring starts anew with each
// tile, so that it must come out even.
int64_t pending_panels(const MatrixLeaf& l) {
  int64_t panels = row_blocks(l) * own_columns(l) * l.epilogue.result_bytes / 128;
  return panels % l.epilogue.buffers == 0 ? l.epilogue.buffers - 1 : 0;
}

std::string staged_epilogue(const MatrixLeaf& l) {
  const MatrixEpilogue& e = l.epilogue;
  int64_t columns = 128 / e.result_bytes, panels = own_columns(l) / columns;
  std::string text =
      "#pragma unroll\nfor (int p = 0; p < " + number(panels) +
      "; ++p) {\n"
      "if (thread == 0) store_wait<" +
      number(pending_panels(l)) + ">();\ngroup_sync(1 + consumer);\n" +
      "const unsigned panel = panels + (m * " + number(panels) + " + p) % " + number(e.buffers) +
      " * " + number(kPanelBytes) + ";\n#pragma unroll\n" + staged_panel(l) +
      "copies_fence();\ngroup_sync(1 + consumer);\n"
      "if (thread == 0) {\nconst int row = block_row, column = " +
      first_column(l) + "p * " + number(columns) + ";\nbox_store(&" + e.map + ", panel";
  for (const std::string& c : e.coordinates) text += ", " + c;
  return text + ");\nstore_commit();\n}\n}\n";
}

std::string direct_epilogue(const MatrixLeaf& l) {
  return "#pragma unroll\nfor (int i = 0; i < " + number(own_columns(l) / 2) +
         "; ++i) {\n"
         "const int row = first_row + lane / 4 + i / 2 % 2 * 8;\n"
         "const int column = " +
         first_column(l) +
         "i / 4 * 8 + lane % 4 * 2 + i % 2;\n"
         "finish(row, column, done[m][i]);\n}\n";
}

std::string epilogue(const MatrixLeaf& l) {
  const MatrixEpilogue& e = l.epilogue;
  bool staged = !e.map.empty();
  return "auto& done = " + std::string(l.cluster > 1 ? "total" : "sum") +
         ";\nauto finish = [&](int row, int column, float value) {\n" +
         (staged ? e.result_type + " result = {};\n" : "") + e.cell +
         (staged ? "\nreturn result;\n" : "\n") + "};\n#pragma unroll\nfor (int m = 0; m < " +
         number(row_blocks(l)) + "; ++m) {\nconst int block_row = (" + first_block(l) +
         " + m) * 64;\n"
         "const int first_row = block_row + warp * 16;\n" +
         (staged ? staged_epilogue(l) : direct_epilogue(l)) + "}\n";
}

// The sums of a part of a tile, pairs of neighbours at once.
std::string keep_part(const MatrixLeaf& l) {
  std::string columns = number(l.tile_n);
  return "float* const part_sums = " + l.part_sums + " + (" + first_block(l) +
         " * 64 + warp * 16 + lane / 4) * " + columns +
         " + lane % 4 * 2;\n#pragma unroll\nfor (int m = 0; m < " + number(row_blocks(l)) +
         "; ++m) {\n#pragma unroll\nfor (int i = 0; i < " + number(l.tile_n / 4) +
         "; ++i) {\n*(float2*)(part_sums + (m * 64 + i % 2 * 8) * " + columns +
         " + i / 2 * 8) = float2{sum[m][i * 2], sum[m][i * 2 + 1]};\n}\n}\n";
}
std::string whole_or_part(const MatrixLeaf& l) {
  if (l.part.empty()) return epilogue(l);
  return "if (" + l.whole + ") {\n" + epilogue(l) + "}\nif (" + l.part + ") {\n" + keep_part(l) +
         "}\n";
}

// The blocks of a cluster leave their sums where their stages were; each adds up all of them for
// its part of the columns, always in the same order.
std::string gather_sums(const MatrixLeaf& l) {
  int64_t all = l.tile_n / 8, own = own_columns(l) / 8;
  auto loops = [&](int64_t count) {
    return "#pragma unroll\nfor (int m = 0; m < " + number(row_blocks(l)) +
           "; ++m) {\n#pragma unroll\nfor (int i = 0; i < " + number(count) + "; ++i) {\n";
  };
  std::string place = "(m * " + number(all) + " + i) * 2048", share, add;
  for (int q = 0; q < 4; ++q) {
    std::string at = "[m][i * 4 + " + number(q) + "]";
    share += ", sum" + at;
    add += "total" + at + " += more." + "xyzw"[q] + ";\n";
  }
  return "const unsigned mine = base + thread * 16 + consumer * " +
         number(row_blocks(l) * all * 2048) + ";\nasm volatile(\"bar.sync 3, " +
         number(128 * l.consumers) + ";\" ::: \"memory\");\n" + loops(all) + "share_words(mine + " +
         place + share + ");\n}\n}\ncluster_sync();\nfloat total[" + number(row_blocks(l)) + "][" +
         number(own * 4) + "] = {};\n#pragma unroll\nfor (int block = 0; block < " +
         number(l.cluster) + "; ++block) {\nconst unsigned from = cluster_address(mine + part * " +
         number(own * 2048) + ", block);\n" + loops(own) +
         "const float4 more = cluster_words(from + " + place + ");\n" + add + "}\n}\n}\n";
}

std::string consumer(const MatrixLeaf& l) {
  bool staged = !l.epilogue.map.empty();
  std::string text =
      "const int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;\n"
      "const int consumer = group - 1;\n";
  if (staged) {
    text += "const unsigned panels = base + kStages * kStageBytes + consumer * " +
            number(l.epilogue.buffers * kPanelBytes) + ";\n";
  }
  text += "unsigned slot = 0, phase = 0;\nfloat sum[" + number(row_blocks(l)) + "][" +
          number(l.tile_n / 2) + "];\n";
  if (l.split) {
    text += "float part_sum[" + number(row_blocks(l)) + "][" + number(l.tile_n / 2) + "];\n";
  }
  if (l.in_turn) text += "unsigned turns = 0;\nif (consumer == 1) {\n" + skip_tile(l) + "}\n";
  text += tile_loop(l, l.in_turn) + main_loop(l) + (l.in_turn ? skip_tile(l) : "") +
          (l.cluster > 1 ? gather_sums(l) + epilogue(l) + "cluster_sync();\n" : whole_or_part(l)) +
          "}\n";
  if (staged) text += "if (thread == 0) store_wait<0>();\n";
  return text;
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
  return std::string("asm volatile(\"setmaxnreg.") + direction + ".sync.aligned.u32 " +
         number(count) + ";\");\n";
}

std::string set_up(const MatrixLeaf& l) {
  return "constexpr int kStages = " + number(l.stages) +
         ";\nconstexpr unsigned kStageBytes = " + number(stage_bytes(l)) +
         ";\nextern __shared__ unsigned char dynamic_shared[];\n"
         "const unsigned base = (shared_address(dynamic_shared) + 1023) & ~1023u;\n"
         "const unsigned full = base + " +
         number(l.stages * stage_bytes(l) + panel_bytes(l)) +
         ", empty = full + 8 * kStages, turn = empty + 8 * kStages;\n"
         "if (threadIdx.x == 0) {\nfor (int i = 0; i < kStages; ++i) {\n"
         "barrier_init(full + 8 * i, 1);\nbarrier_init(empty + 8 * i, " +
         number(sharing(l)) +
         ");\n}\nbarrier_init(turn, 1);\nbarrier_init(turn + 8, 1);\n}\nbarriers_ready();\n"
         "const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);\n";
}

}  // namespace

int64_t element_bytes(MatrixType type) { return type == MatrixType::tf32 ? 4 : 2; }

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
  return multiply_function(l) + "extern \"C\" __global__ void __launch_bounds__(" +
         number(matrix_threads(l)) + ", 1) " +
         (l.cluster > 1 ? "__cluster_dims__(" + number(l.cluster) + ", 1, 1) " : "") + l.name +
         "(" + l.parameters + ") {\n" + set_up(l) + "if (group == 0) {\n" +
         set_registers(registers.producer, "dec") + producer(l) + "} else {\n" +
         set_registers(registers.consumer, "inc") + consumer(l) + "}\n}\n";
}

}  // namespace tile::cuda
