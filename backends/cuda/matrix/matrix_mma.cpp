#include "backends/cuda/matrix/matrix_mma.h"

#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

constexpr int64_t kChunkBytes = 16;  // what is copied together
// Bytes between lines, so that the lines that a warp reads at once lie in banks of their own.
constexpr int64_t kPadding = 16, kWordPadding = 32;

std::string number(int64_t n) { return std::to_string(n); }

int64_t warps_m(const MmaLeaf&) { return 2; }
// A wider tile of a warp loads and rounds less for each product; splitting takes the registers.
int64_t warp_columns(const MmaLeaf& l) {
  return l.a_type == MatrixType::tf32 && !l.split ? 64 : 32;
}
int64_t warps_n(const MmaLeaf& l) { return l.tile_n / warp_columns(l); }
int64_t warp_rows(const MmaLeaf& l) { return l.tile_m / warps_m(l); }

struct Lines {
  int64_t count, elements, size, padding;
  int64_t pitch() const { return size * elements + padding; }
  int64_t bytes() const { return count * pitch(); }
};
Lines lines_of(const MmaLeaf& l, const ThreadCopy& copy, int64_t rows) {
  int64_t size = element_bytes(l.a_type);
  bool single = size == 8 || (size == 4 && !copy.k_major);  // read one by one
  int64_t padding = single ? kWordPadding : kPadding;
  return copy.k_major ? Lines{rows, l.depth, size, padding} : Lines{l.depth, rows, size, padding};
}
Lines a_lines(const MmaLeaf& l) { return lines_of(l, l.a, l.tile_m); }
Lines b_lines(const MmaLeaf& l) { return lines_of(l, l.b, l.tile_n); }
int64_t stage_bytes(const MmaLeaf& l) { return a_lines(l).bytes() + b_lines(l).bytes(); }

// The asynchronous copies of one chunk, of as many bytes as its alignment allows; where not even
// four bytes are aligned, elements are copied by the thread.
std::string chunk_copy(const ThreadCopy& copy, MatrixType element) {
  int64_t size = element_bytes(element);
  internal_check(copy.alignment >= size, "cuda: elements that are not aligned");
  if (copy.alignment < 4) {
    std::string type = size == 1 ? "u8" : "u16", count = number(kChunkBytes / size);
    return "union { " + type + " e[" + count +
           "]; u32 w[4]; } chunk;\n#pragma unroll\nfor (int i = 0; i < " + count +
           "; ++i) chunk.e[i] = inside && i < left ? (" + type + ")from[i]" +
           (is_byte(element) ? "" : ".bits") + " : (" + type +
           ")0;\nstore_words(to, chunk.w[0], chunk.w[1], chunk.w[2], chunk.w[3]);\n";
  }
  std::string bytes = number(copy.alignment), elements = number(copy.alignment / size);
  std::string each = number(size);
  return "#pragma unroll\nfor (int i = 0; i < " + number(kChunkBytes / size) +
         "; i += " + elements + ") {\nconst int take = inside ? min(max(left - i, 0), " + elements +
         ") * " + each + " : 0;\ncopy_async<" + bytes + ">(to + " + each +
         " * i, take > 0 ? from + i : " + copy.base + ", take);\n}\n";
}

std::string operand_copy(const MmaLeaf& l, const ThreadCopy& copy, MatrixType element,
                         const Lines& lines, const std::string& part) {
  int64_t chunk = kChunkBytes / lines.size;
  int64_t chunks = lines.count * lines.elements / chunk, in_line = lines.elements / chunk;
  // Tiles are of so many chunks that each thread has as many: no thread looks for the end.
  internal_check(chunks % mma_threads(l) == 0, "cuda: a tile that threads do not share evenly");
  return "#pragma unroll\nfor (int turn = 0; turn < " + number(chunks / mma_threads(l)) +
         "; ++turn) {\nconst unsigned q = threadIdx.x + turn * " + number(mma_threads(l)) +
         ";\nconst int line = q / " + number(in_line) + ", at = q % " + number(in_line) + " * " +
         number(chunk) + ";\n" + copy.place + "const unsigned to = " + part + " + line * " +
         number(lines.pitch()) + " + at * " + number(lines.size) + ";\n" +
         chunk_copy(copy, element) + "}\n";
}

std::string fill_function(const MmaLeaf& l) {
  return "auto fill = [&](int step, unsigned slot) {\n" + l.step_variables +
         "\nconst unsigned part = base + slot * " + number(stage_bytes(l)) + ";\n" +
         operand_copy(l, l.a, l.a_type, a_lines(l), "part") +
         operand_copy(l, l.b, l.b_type, b_lines(l), "part + " + number(a_lines(l).bytes())) +
         "};\n";
}

// The address of this lane's row of the four matrices, eight rows of 16 bytes each, at (row, k), in
// the order that mma's registers want them: `rows_first` for A, k first for B.
std::string matrix_address(const ThreadCopy& copy, const Lines& lines, const std::string& part,
                           const std::string& row, const std::string& k, bool rows_first) {
  std::string low = "lane / 8 % 2 * ", high = "lane / 16 * ", wide = number(16 / lines.size);
  std::string more_rows = (rows_first ? low : high) + "8",
              more_k = (rows_first ? high : low) + wide;
  std::string size = number(lines.size);
  std::string inside = copy.k_major
                           ? "(" + row + " + " + more_rows + " + lane % 8) * " +
                                 number(lines.pitch()) + " + (" + k + " + " + more_k + ") * " + size
                           : "(" + k + " + " + more_k + " + lane % 8) * " + number(lines.pitch()) +
                                 " + (" + row + " + " + more_rows + ") * " + size;
  return part + " + " + inside;
}

// Loads the fragment at (row, k) into `to`: four words of each lane, of f64 four doubles. Where
// lines of f32 hold one k there is no transposing load, and each word is loaded by itself, as each
// double is. Where lines of bytes do, neighbouring rows stand 8 apart in the fragment: see
// fragment_place().
std::string load_fragment(const ThreadCopy& copy, const Lines& lines, const std::string& to,
                          const std::string& part, const std::string& row, const std::string& k,
                          bool rows_first) {
  if (lines.size == 1 && !copy.k_major) {
    std::string line = k + " + lane / 16 * 16 + byte_line";
    return "load_bytes_transposed<" + std::string(rows_first ? "true" : "false") + ">(" + to +
           ", " + part + " + (" + line + ") * " + number(lines.pitch()) + " + " + row +
           ", byte_order);\n";
  }
  if (lines.size == 8) {
    int64_t across = 8 * (copy.k_major ? lines.pitch() : lines.size),
            along = 4 * (copy.k_major ? lines.size : lines.pitch());
    std::string pitch = number(lines.pitch());
    return "load_doubles<" + number(rows_first ? across : along) + ", " +
           number(rows_first ? along : across) + ">(" + to + ", " + part + " + (" +
           (copy.k_major ? row + " + lane / 4) * " + pitch + " + (" + k + " + lane % 4) * 8"
                         : k + " + lane % 4) * " + pitch + " + (" + row + " + lane / 4) * 8") +
           ");\n";
  }
  if (lines.size <= 2 || copy.k_major) {
    return std::string("load_matrices") + (copy.k_major ? "" : "_transposed") + "(" + to + ", " +
           matrix_address(copy, lines, part, row, k, rows_first) + ");\n";
  }
  int64_t rows = 8 * lines.size, depth = 4 * lines.pitch();
  return "load_words<" + number(rows_first ? rows : depth) + ", " +
         number(rows_first ? depth : rows) + ">(" + to + ", " + part + " + (" + k +
         " + lane % 4) * " + number(lines.pitch()) + " + (" + row + " + lane / 4) * 4);\n";
}

// Products of f32, factors rounded in registers; `split` keeps what the rounding leaves. The sums
// of mma are cut rather than rounded: those of one step, which are short, are then added rightly.
std::string multiply_words(const MmaLeaf& l) {
  std::string blocks = number(warp_rows(l) / 16), columns = number(warp_columns(l) / 8);
  std::string pairs = number(warp_columns(l) / 16);
  std::string each_cell = "#pragma unroll\nfor (int m = 0; m < " + blocks +
                          "; ++m) {\n#pragma unroll\nfor (int n = 0; n < " + columns + "; ++n) ";
  std::string a = load_fragment(l.a, a_lines(l), "a[m]", "part", "warp_row + m * 16", "k", true);
  std::string b = load_fragment(l.b, b_lines(l), "b[n]", "part + " + number(a_lines(l).bytes()),
                                "warp_column + n * 16", "k", false);
  std::string round = l.split ? "split_words" : "round_words";
  std::string text = l.split ? "float sums[" + blocks + "][" + columns + "][4] = {};\n" : "";
  text += "#pragma unroll\nfor (int k = 0; k < " + number(l.depth) + "; k += 8) {\nu32 a[" +
          blocks + "][4], b[" + pairs + "][4];\n" +
          (l.split ? "u32 a_rest[" + blocks + "][4], b_rest[" + pairs + "][4];\n" : "") +
          "#pragma unroll\nfor (int m = 0; m < " + blocks + "; ++m) {\n" + a + round + "(a[m]" +
          (l.split ? ", a_rest[m]" : "") + ");\n}\n#pragma unroll\nfor (int n = 0; n < " + pairs +
          "; ++n) {\n" + b + round + "(b[n]" + (l.split ? ", b_rest[n]" : "") + ");\n}\n";
  // Products that add to the same sum stand far from each other.
  auto product = [&](const std::string& x, const std::string& y) {
    text += each_cell + "mma_tf32(" + (l.split ? "sums" : "sum") + "[m][n], " + x + "[m], " + y +
            "[n / 2][n % 2 * 2], " + y + "[n / 2][n % 2 * 2 + 1]);\n}\n";
  };
  if (l.split) {
    product("a_rest", "b");
    product("a", "b_rest");
  }
  product("a", "b");
  text += "}\n";
  if (l.split)
    text += each_cell + "for (int i = 0; i < 4; ++i) sum[m][n][i] += sums[m][n][i];\n}\n";
  return text;
}

// Products of f8, widened to f16 in registers: each word's four become the first two, which one
// instruction takes, and the last two, of the next. So the sums are those of f32.
std::string multiply_f8(const MmaLeaf& l) {
  std::string blocks = number(warp_rows(l) / 16);
  std::string a = load_fragment(l.a, a_lines(l), "words", "part", "warp_row + m * 16", "k", true);
  std::string b = load_fragment(l.b, b_lines(l), "words", "part + " + number(a_lines(l).bytes()),
                                "warp_column + n * 16", "k", false);
  auto widen = [](MatrixType type, const std::string& to) {
    return "widen_" + std::string(type_name(type)) + "(words, " + to + ");\n}\n";
  };
  return "#pragma unroll\nfor (int k = 0; k < " + number(l.depth) + "; k += 32) {\nu32 a[2][" +
         blocks + "][4], b[2][2][4];\n#pragma unroll\nfor (int m = 0; m < " + blocks +
         "; ++m) {\nu32 words[4];\n" + a + widen(l.a_type, "a[0][m], a[1][m]") +
         "#pragma unroll\nfor (int n = 0; n < 2; ++n) {\nu32 words[4];\n" + b +
         widen(l.b_type, "b[0][n], b[1][n]") +
         "#pragma unroll\nfor (int half = 0; half < 2; ++half) {\n#pragma unroll\n"
         "for (int m = 0; m < " +
         blocks +
         "; ++m) {\n#pragma unroll\nfor (int n = 0; n < 4; ++n) mma_f16(sum[m][n], a[half][m], "
         "b[half][n / 2][n % 2 * 2], b[half][n / 2][n % 2 * 2 + 1]);\n}\n}\n}\n";
}

// The function of one instruction, or of as many as its fragments have.
std::string multiply_name(const MmaLeaf& l) {
  std::string name = "mma_" + std::string(type_name(l.a_type));
  return is_byte(l.a_type) ? name + "_" + std::string(type_name(l.b_type)) : name;
}

std::string multiply_step(const MmaLeaf& l) {
  if (l.a_type == MatrixType::tf32) return multiply_words(l);
  if (is_f8(l.a_type)) return multiply_f8(l);
  int64_t blocks = warp_rows(l) / 16;
  std::string a = load_fragment(l.a, a_lines(l), "a[m]", "part", "warp_row + m * 16", "k", true);
  std::string b = load_fragment(l.b, b_lines(l), "b[n]", "part + " + number(a_lines(l).bytes()),
                                "warp_column + n * 16", "k", false);
  int64_t depth = 32 / element_bytes(l.a_type);  // of a fragment
  return "#pragma unroll\nfor (int k = 0; k < " + number(l.depth) + "; k += " + number(depth) +
         ") {\nu32 a[" + number(blocks) +
         "][4], b[2][4];\n#pragma unroll\n"
         "for (int m = 0; m < " +
         number(blocks) + "; ++m) " + a + "#pragma unroll\nfor (int n = 0; n < 2; ++n) " + b +
         "#pragma unroll\nfor (int m = 0; m < " + number(blocks) +
         "; ++m) {\n#pragma unroll\nfor (int n = 0; n < 4; ++n) " + multiply_name(l) +
         "(sum[m][n], a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);\n}\n}\n";
}

// All stages but one are filled ahead of the loop.
std::string first_fills(const MmaLeaf& l) {
  const std::string ahead = number(l.stages - 1);
  return "for (int step = 0; step < " + ahead + "; ++step) {\nif (step < " + l.steps +
         ") fill(step, step);\ncopies_commit();\n}\nunsigned slot = 0, next = " + ahead + ";\n";
}

// Fragments of f64 are loaded one turn of eight k ahead, those of the next stage too, so that a
// product does not wait for shared memory: an instruction of f64 takes 28 clocks, and two warps
// share a scheduler. The first barrier stands ahead of the loop, and the one of the next stage
// between the loads of this one's last fragments and their products. Behind the last stage, what
// is loaded is nobody's.
std::string main_loop_of_doubles(const MmaLeaf& l) {
  const std::string blocks = number(warp_rows(l) / 16), ahead = number(l.stages - 1);
  const std::string stages = number(l.stages), bytes = number(stage_bytes(l));
  internal_check(l.depth % 16 == 0, "cuda: a stage of an odd number of fragments of f64");
  const std::string ready = "copies_wait<" + number(l.stages - 2) + ">();\n__syncthreads();\n";
  std::string a =
      load_fragment(l.a, a_lines(l), "a[to][m]", "part", "warp_row + m * 16", "k", true);
  std::string b = load_fragment(l.b, b_lines(l), "b[to][n]", "part + " + number(a_lines(l).bytes()),
                                "warp_column + n * 16", "k", false);
  return first_fills(l) + "f64 a[2][" + blocks +
         "][4], b[2][2][4];\nauto load = [&](const int to, const unsigned part, const int k) {\n"
         "#pragma unroll\nfor (int m = 0; m < " +
         blocks + "; ++m) " + a + "#pragma unroll\nfor (int n = 0; n < 2; ++n) " + b + "};\n" +
         ready + "load(0, base, 0);\nfor (int step = 0; step < " + l.steps +
         "; ++step) {\nconst unsigned part = base + slot * " + bytes +
         ";\nif (++slot == " + stages + ") slot = 0;\n#pragma unroll\nfor (int k = 0; k < " +
         number(l.depth) + "; k += 8) {\nif (k == 0) {\nif (step + " + ahead + " < " + l.steps +
         ") fill(step + " + ahead + ", next);\ncopies_commit();\nif (++next == " + stages +
         ") next = 0;\n}\nif (k + 8 < " + number(l.depth) +
         ") {\nload((k / 8 + 1) % 2, part, k + 8);\n} else {\n" + ready +
         "load((k / 8 + 1) % 2, base + slot * " + bytes +
         ", 0);\n}\n#pragma unroll\nfor (int m = 0; m < " + blocks +
         "; ++m) {\n#pragma unroll\nfor (int n = 0; n < 4; ++n) mma_f64(sum[m][n], "
         "a[k / 8 % 2][m], b[k / 8 % 2][n / 2][n % 2 * 2], b[k / 8 % 2][n / 2][n % 2 * 2 + "
         "1]);\n}\n}\n}\n";
}

std::string main_loop(const MmaLeaf& l) {
  if (l.a_type == MatrixType::f64) return main_loop_of_doubles(l);
  std::string ahead = number(l.stages - 1);
  return first_fills(l) + "for (int step = 0; step < " + l.steps + "; ++step) {\ncopies_wait<" +
         number(l.stages - 2) + ">();\n__syncthreads();\nif (step + " + ahead + " < " + l.steps +
         ") fill(step + " + ahead +
         ", next);\ncopies_commit();\nconst unsigned part = base + slot * " +
         number(stage_bytes(l)) + ";\n" + multiply_step(l) + "if (++slot == " + number(l.stages) +
         ") slot = 0;\nif (++next == " + number(l.stages) + ") next = 0;\n}\n";
}

// The row and the column of a lane's sum `i` in the fragment (m, n). Where lines of bytes hold one
// k, a load brings two neighbouring rows in each 16 bits: the even ones of 16 are a fragment's
// first eight, the odd ones its last, and so with columns.
std::string fragment_place(const MmaLeaf& l) {
  auto pairs = [](const ThreadCopy& copy, MatrixType type) {
    return element_bytes(type) == 1 && !copy.k_major;
  };
  std::string row = pairs(l.a, l.a_type) ? "lane / 4 * 2 + i / 2" : "lane / 4 + i / 2 * 8";
  std::string column = pairs(l.b, l.b_type) ? "n / 2 * 16 + (lane % 4 * 2 + i % 2) * 2 + n % 2"
                                            : "n * 8 + lane % 4 * 2 + i % 2";
  return "const int row = warp_row + m * 16 + " + row + ";\nconst int column = warp_column + " +
         column + ";\n";
}

std::string finish(const MmaLeaf& l) {
  return "#pragma unroll\nfor (int m = 0; m < " + number(warp_rows(l) / 16) +
         "; ++m) {\n#pragma unroll\nfor (int n = 0; n < " + number(warp_columns(l) / 8) +
         "; ++n) {\n#pragma unroll\nfor (int i = 0; i < 4; ++i) {\n" + fragment_place(l) +
         "const " + l.value_type + " value = (" + l.value_type + ")sum[m][n][i];\n" + l.cell +
         "\n}\n}\n}\n";
}

// Which of 16 lines of bytes a lane gives the address of, so that the eight lines of a matrix lie
// in banks of their own: the last four of its lines change places with those of the matrix beside
// it. A lane of the last four k finds them in the other order.
std::string byte_lines(const MmaLeaf& l) {
  bool needed = element_bytes(l.a_type) == 1 && !(l.a.k_major && l.b.k_major);
  return needed
             ? "const int byte_line = lane % 8 / 2 * 4 + lane % 2 + 2 * (lane / 8 % 2 ^ lane % 8 "
               "/ 4);\nconst u32 byte_order = lane % 4 < 2 ? 0x6420u : 0x2064u;\n"
             : "";
}

}  // namespace

int64_t mma_shared_bytes(const MmaLeaf& l) { return l.stages * stage_bytes(l); }
int64_t mma_threads(const MmaLeaf& l) { return 32 * warps_m(l) * warps_n(l); }

std::string mma_source(const MmaLeaf& l) {
  return "extern \"C\" __global__ void __launch_bounds__(" + number(mma_threads(l)) + ") " +
         l.name + "(" + l.parameters +
         ") {\nextern __shared__ __align__(1024) unsigned char shared_memory[];\n"
         "const unsigned base = mma_shared_address(shared_memory);\n"
         "const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;\n" +
         byte_lines(l) + "const int warp_row = warp % 2 * " + number(warp_rows(l)) +
         ", warp_column = warp / 2 * " + number(warp_columns(l)) +
         ";\nconst int tile = blockIdx.x;\n" + l.tile_variables + "\n" +
         std::string(sum_type(l.a_type)) + " sum[" + number(warp_rows(l) / 16) + "][" +
         number(warp_columns(l) / 8) + "][4] = {};\n" + fill_function(l) + main_loop(l) +
         finish(l) + "}\n";
}

}  // namespace tile::cuda
