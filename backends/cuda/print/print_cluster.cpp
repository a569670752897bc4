// Kernels whose blocks form clusters: shared memory of other blocks, and barriers for all of them.
#include <algorithm>

#include "backends/cuda/print/prelude.h"
#include "backends/cuda/print/printer.h"

namespace tile::cuda {
namespace {

std::string mark(size_t part) { return "@barrier " + std::to_string(part) + "@"; }

}  // namespace

void Printer::cluster_loop(const nest::For& loop) {
  reaches_out_ = {false};
  barrier_in_loop_ = false;
  VariableText v = loop_variable(loop, "t");
  open("{");
  line("const " + typed(v) + " = cluster_block();");
  size_t from = text_.size();
  line(mark(0));
  with_variable(loop.variable, v, loop.begin, loop.extent, [&] { block(loop.body); });
  line(mark(reaches_out_.size()));
  close();
  settle_barriers(from);
}

void Printer::barrier() {
  if (cluster_ == nullptr) return line("__syncthreads();");
  barrier_in_loop_ = barrier_in_loop_ || loops_ > 0;
  line(mark(reaches_out_.size()));
  reaches_out_.push_back(false);
}

// A barrier is for the whole cluster where the parts before or behind it touch another block's
// memory: all blocks have begun before the first does, and none ends before the last has.
void Printer::settle_barriers(size_t from) {
  bool any = std::find(reaches_out_.begin(), reaches_out_.end(), true) != reaches_out_.end();
  size_t parts = reaches_out_.size();
  for (size_t i = 0; i <= parts; ++i) {
    bool far = any && (barrier_in_loop_ || (i > 0 && reaches_out_[i - 1]) ||
                       (i < parts && reaches_out_[i]));
    bool inside = i > 0 && i < parts;
    std::string what = far ? "cluster_barrier();" : inside ? "__syncthreads();" : "";
    size_t at = text_.find(mark(i), from);
    text_.replace(at, mark(i).size(), what);
  }
}

std::string Printer::base(const nest::Access& access) {
  const std::string& name = names_[access.buffer];
  if (!by_blocks(access.buffer)) return name;
  const Expr& in = access.index[0];
  if (in.kind() == ExprKind::variable && in.name() == cluster_->variable) return name;
  reaches_out_.back() = true;
  return "in_block(" + name + ", " + expression(in).text + ")";
}

}  // namespace tile::cuda
