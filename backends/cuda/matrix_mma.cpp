#include "backends/cuda/matrix_mma.h"

namespace tile::cuda {
namespace {

constexpr int64_t kPadding = 16;  // bytes between lines, so that eight lines lie in eight banks
constexpr int64_t kChunk = 8;     // elements that are copied together

std::string number(int64_t n) { return std::to_string(n); }

int64_t warps_m(const MmaLeaf&) { return 2; }
int64_t warps_n(const MmaLeaf& l) { return l.tile_n / 32; }
int64_t warp_rows(const MmaLeaf& l) { return l.tile_m / warps_m(l); }

struct Lines {
  int64_t count, elements;
  int64_t pitch() const { return 2 * elements + kPadding; }
  int64_t bytes() const { return count * pitch(); }
};
Lines lines_of(const ThreadCopy& copy, int64_t rows, int64_t depth) {
  return copy.k_major ? Lines{rows, depth} : Lines{depth, rows};
}
Lines a_lines(const MmaLeaf& l) { return lines_of(l.a, l.tile_m, l.depth); }
Lines b_lines(const MmaLeaf& l) { return lines_of(l.b, l.tile_n, l.depth); }
int64_t stage_bytes(const MmaLeaf& l) { return a_lines(l).bytes() + b_lines(l).bytes(); }

// The asynchronous copies of one chunk, of as many bytes as its alignment allows; where not even
// four bytes are aligned, elements are copied by the thread.
std::string chunk_copy(const ThreadCopy& copy) {
  if (copy.alignment < 4) {
    return "union { u16 e[8]; u32 w[4]; } chunk;\n#pragma unroll\nfor (int i = 0; i < 8; ++i) "
           "chunk.e[i] = inside && i < left ? from[i].bits : (u16)0;\n"
           "store_words(to, chunk.w[0], chunk.w[1], chunk.w[2], chunk.w[3]);\n";
  }
  std::string bytes = number(copy.alignment), elements = number(copy.alignment / 2);
  return "#pragma unroll\nfor (int i = 0; i < 8; i += " + elements +
         ") {\nconst int take = inside ? min(max(left - i, 0), " + elements +
         ") * 2 : 0;\ncopy_async<" + bytes + ">(to + 2 * i, take > 0 ? from + i : " + copy.base +
         ", take);\n}\n";
}

std::string operand_copy(const MmaLeaf& l, const ThreadCopy& copy, const Lines& lines,
                         const std::string& part) {
  int64_t chunks = lines.count * lines.elements / kChunk, in_line = lines.elements / kChunk;
  return "#pragma unroll\nfor (int q = threadIdx.x; q < " + number(chunks) +
         "; q += " + number(mma_threads(l)) + ") {\nconst int line = q / " + number(in_line) +
         ", at = q % " + number(in_line) + " * 8;\n" + copy.place + "const unsigned to = " + part +
         " + line * " + number(lines.pitch()) + " + at * 2;\n" + chunk_copy(copy) + "}\n";
}

std::string fill_function(const MmaLeaf& l) {
  return "auto fill = [&](int step, unsigned slot) {\n" + l.step_variables +
         "\nconst unsigned part = base + slot * " + number(stage_bytes(l)) + ";\n" +
         operand_copy(l, l.a, a_lines(l), "part") +
         operand_copy(l, l.b, b_lines(l), "part + " + number(a_lines(l).bytes())) + "};\n";
}

// The address of this lane's row of the four 8 x 8 matrices at (row, k), in the order that mma's
// registers want them: `rows_first` for A, k first for B.
std::string matrix_address(const ThreadCopy& copy, const Lines& lines, const std::string& part,
                           const std::string& row, const std::string& k, bool rows_first) {
  std::string low = "lane / 8 % 2 * 8", high = "lane / 16 * 8";
  std::string more_rows = rows_first ? low : high, more_k = rows_first ? high : low;
  std::string inside = copy.k_major
                           ? "(" + row + " + " + more_rows + " + lane % 8) * " +
                                 number(lines.pitch()) + " + (" + k + " + " + more_k + ") * 2"
                           : "(" + k + " + " + more_k + " + lane % 8) * " + number(lines.pitch()) +
                                 " + (" + row + " + " + more_rows + ") * 2";
  return part + " + " + inside;
}

std::string multiply_step(const MmaLeaf& l) {
  int64_t blocks = warp_rows(l) / 16;
  std::string a = matrix_address(l.a, a_lines(l), "part", "warp_row + m * 16", "k", true);
  std::string b = matrix_address(l.b, b_lines(l), "part + " + number(a_lines(l).bytes()),
                                 "warp_column + n * 16", "k", false);
  std::string type = l.type == MatrixType::f16 ? "f16" : "bf16";
  return "#pragma unroll\nfor (int k = 0; k < " + number(l.depth) + "; k += 16) {\nu32 a[" +
         number(blocks) +
         "][4], b[2][4];\n#pragma unroll\n"
         "for (int m = 0; m < " +
         number(blocks) + "; ++m) load_matrices" + (l.a.k_major ? "" : "_transposed") + "(a[m], " +
         a + ");\n#pragma unroll\nfor (int n = 0; n < 2; ++n) load_matrices" +
         (l.b.k_major ? "" : "_transposed") + "(b[n], " + b +
         ");\n#pragma unroll\nfor (int m = 0; m < " + number(blocks) +
         "; ++m) {\n#pragma unroll\nfor (int n = 0; n < 4; ++n) mma_" + type +
         "(sum[m][n], a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);\n}\n}\n";
}

std::string main_loop(const MmaLeaf& l) {
  std::string ahead = number(l.stages - 1);
  return "for (int step = 0; step < " + ahead + "; ++step) {\nif (step < " + l.steps +
         ") fill(step, step);\ncopies_commit();\n}\n"
         "unsigned slot = 0, next = " +
         ahead + ";\nfor (int step = 0; step < " + l.steps + "; ++step) {\ncopies_wait<" +
         number(l.stages - 2) + ">();\n__syncthreads();\nif (step + " + ahead + " < " + l.steps +
         ") fill(step + " + ahead +
         ", next);\ncopies_commit();\nconst unsigned part = base + slot * " +
         number(stage_bytes(l)) + ";\n" + multiply_step(l) + "if (++slot == " + number(l.stages) +
         ") slot = 0;\nif (++next == " + number(l.stages) + ") next = 0;\n}\n";
}

std::string finish(const MmaLeaf& l) {
  return "#pragma unroll\nfor (int m = 0; m < " + number(warp_rows(l) / 16) +
         "; ++m) {\n#pragma unroll\nfor (int n = 0; n < 4; ++n) {\n#pragma unroll\n"
         "for (int i = 0; i < 4; ++i) {\n"
         "const int row = warp_row + m * 16 + lane / 4 + i / 2 * 8;\n"
         "const int column = warp_column + n * 8 + lane % 4 * 2 + i % 2;\n"
         "const float value = sum[m][n][i];\n" +
         l.cell + "\n}\n}\n}\n";
}

constexpr const char* kMultiply = R"((float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.TYPE.TYPE.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
)";

constexpr const char* kMemory = R"(
FN unsigned mma_shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
FN void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending> FN void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}
template <int bytes> FN void copy_async(unsigned to, const void* from, int take) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(bytes),
               "r"(take)
               : "memory");
}
FN void store_words(unsigned to, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
FN void load_matrices(u32 (&r)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
FN void load_matrices_transposed(u32 (&r)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
)";

std::string multiply_function(const std::string& type) {
  std::string text = kMultiply;
  for (size_t at = text.find("TYPE"); at != std::string::npos; at = text.find("TYPE")) {
    text.replace(at, 4, type);
  }
  return "FN void mma_" + type + text;
}

}  // namespace

int64_t mma_shared_bytes(const MmaLeaf& l) { return l.stages * stage_bytes(l); }
int64_t mma_threads(const MmaLeaf& l) { return 32 * warps_m(l) * warps_n(l); }

std::string mma_prelude() { return kMemory + multiply_function("f16") + multiply_function("bf16"); }

std::string mma_source(const MmaLeaf& l) {
  return "extern \"C\" __global__ void __launch_bounds__(" + number(mma_threads(l)) + ") " +
         l.name + "(" + l.parameters +
         ") {\nextern __shared__ __align__(16) unsigned char mma_memory[];\n"
         "const unsigned base = mma_shared_address(mma_memory);\n"
         "const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;\n"
         "const int warp_row = warp % 2 * " +
         number(warp_rows(l)) + ", warp_column = warp / 2 * 32;\nconst int tile = blockIdx.x;\n" +
         l.tile_variables + "\nfloat sum[" + number(warp_rows(l) / 16) + "][4][4] = {};\n" +
         fill_function(l) + main_loop(l) + finish(l) + "}\n";
}

}  // namespace tile::cuda
