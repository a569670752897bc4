// Streams whose blocks stay on their multiprocessors and take tiles of rows in turns (a persistent
// kernel). What copies is ahead of what multiplies: it fills stages for the next tile while the
// last products of this one run, and brings the next tile's own boxes while results are divided and
// stored. A block that began anew for each tile would set up its barriers, and then wait for memory
// with nothing else to do. (Shah et al., FlashAttention-3, has persistent blocks.)
#include <sstream>

#include "backends/cuda/print/stream_layout.h"
#include "backends/cuda/print/stream_pipeline.h"

namespace tile::cuda {

namespace {

std::string number(int64_t n) { return std::to_string(n); }

}  // namespace

// The tile's own boxes may be overwritten once the loop has ended: nothing else multiplies them.
// A block of one group leaves room for another block, which hides as much.
void Printer::share_tiles(const nest::For& grid, CudaKernel& kernel) {
  StreamLayout& l = *stream_;
  bool fills = l.bulk && multiplying_groups(l) > 1 && !holds_product(grid.body, l.loop);
  int64_t blocks = target_.gpu.multiprocessors;
  if (!fills || !kernel.grid.is_constant() || kernel.grid.value() <= blocks) return;
  l.tiles = kernel.grid.value();
  l.resident = blocks;
  kernel.grid = Expr(blocks);
}

// Every other round is dealt from the last block to the first: where tiles are sorted by their
// lengths, the sums of what blocks get differ by less.
void Printer::open_tiles(const std::string& indices) {
  const StreamLayout& l = *stream_;
  const std::string blocks = number(l.resident);
  line("#pragma unroll 1");
  open("for (int round = 0; round < " + number(ceil_div(l.tiles, l.resident)) + "; ++round) {");
  line("const int tile = " + blocks + " * round + (round % 2 == 0 ? (int)blockIdx.x : " +
       number(l.resident - 1) + " - (int)blockIdx.x);");
  line("if (tile >= " + number(l.tiles) + ") break;");
  std::istringstream lines(indices);
  for (std::string each; std::getline(lines, each);) line(each.substr(each.find_first_not_of(' ')));
}

// Stages of the tile are filled first that are empty before the last tile's boxes are.
void Printer::load_boxes_of_tile(const std::string& first, const std::string& end) {
  const StreamLayout& l = *stream_;
  int64_t bytes = 0;
  std::string loads;
  for (const nest::Copy* c : l.once) loads += stream_boxes(*c, "base", "loaded", bytes);
  if (l.resident == 0) {
    line("barrier_expect(loaded, " + number(bytes) + ");");
    text_ += loads;
    return;
  }
  open("if (step == min(" + first + " + " + number(l.stages - 2) + ", " + end + " - 1)) {");
  line("barrier_wait(unloaded, again);");
  line("barrier_expect(loaded, " + number(bytes) + ");");
  text_ += loads;
  line("again ^= 1;");
  close();
}

// A tile without columns has no boxes.
void Printer::await_boxes(const std::string& first, const std::string& end) {
  if (stream_->resident == 0) return line("barrier_wait(loaded, 0);");
  line("if (" + first + " < " + end + ") barrier_wait(loaded, again);");
}

// Behind the loop: its boxes may be overwritten, and the last stage, which no turn has released.
void Printer::release_boxes(const std::string& first, const std::string& end, bool stage) {
  if (stream_->resident == 0) return;
  open("if (" + first + " < " + end + ") {");
  line("again ^= 1;");
  line("__syncwarp();");
  open("if (lane == 0) {");
  if (stage) line("barrier_arrive(empty + 8 * before);");
  line("barrier_arrive(unloaded);");
  close();
  close();
}

}  // namespace tile::cuda
