// Kernels: how grid and thread loops become the dimensions of a launch, and what comes before a
// kernel's statements.
#include <algorithm>

#include "backends/cuda/print/printer.h"
#include "core/support/checked.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {

using nest::LoopKind;
using nest::Scope;

int64_t threads_in(const nest::Block& block) {
  int64_t most = 1;
  for (const nest::Statement& s : block) {
    if (const auto* loop = std::get_if<nest::For>(&s.what)) {
      int64_t inside = threads_in(loop->body);
      if (loop->kind == LoopKind::thread) inside = checked_mul(inside, loop->extent.value());
      most = std::max(most, inside);
    } else if (const auto* condition = std::get_if<nest::If>(&s.what)) {
      most = std::max({most, threads_in(condition->then), threads_in(condition->otherwise)});
    }
  }
  return most;
}

namespace {

// The extents of the thread loops, outermost first: up to three, one directly inside the other, and
// the same wherever the block runs some. Empty: another form.
using Extents = std::vector<int64_t>;
bool find_threads(const nest::Block& block, Extents& extents) {
  return std::all_of(block.begin(), block.end(), [&](const nest::Statement& s) {
    if (const auto* condition = std::get_if<nest::If>(&s.what)) {
      return find_threads(condition->then, extents) && find_threads(condition->otherwise, extents);
    }
    const auto* loop = std::get_if<nest::For>(&s.what);
    if (loop == nullptr) return std::holds_alternative<nest::Alloc>(s.what);
    if (loop->kind != LoopKind::thread) return find_threads(loop->body, extents);
    Extents mine;
    for (const nest::For* inner = loop; inner != nullptr && inner->kind == LoopKind::thread;) {
      mine.push_back(inner->extent.value());
      loop = inner;
      inner = inner->body.size() == 1 ? std::get_if<nest::For>(&inner->body[0].what) : nullptr;
    }
    bool same = extents.empty() || extents == mine;
    extents = std::move(mine);
    return same && threads_in(loop->body) == 1;
  });
}
Extents block_extents(const nest::Block& block) {
  constexpr int64_t kMostDeep = 64;  // threads along z
  Extents extents;
  bool fits = find_threads(block, extents) && extents.size() <= 3 &&
              (extents.size() < 3 || extents[0] <= kMostDeep);
  return fits ? extents : Extents{};
}

// The buffers that some thread stores to.
void find_written(const nest::Block& block, std::set<nest::BufferId>& written) {
  for (const nest::Statement& s : block) {
    if (const auto* loop = std::get_if<nest::For>(&s.what)) {
      find_written(loop->body, written);
    } else if (const auto* condition = std::get_if<nest::If>(&s.what)) {
      find_written(condition->then, written);
      find_written(condition->otherwise, written);
    } else if (const auto* store = std::get_if<nest::Store>(&s.what)) {
      written.insert(store->target.buffer);
    } else if (const auto* copy = std::get_if<nest::Copy>(&s.what)) {
      written.insert(copy->to);
    }
  }
}
std::set<nest::BufferId> written_in(const nest::Block& block) {
  std::set<nest::BufferId> written;
  find_written(block, written);
  return written;
}

// A loop of several turns has barriers in it.
bool turns_synchronise(const nest::Block& block) {
  return std::any_of(block.begin(), block.end(), [](const nest::Statement& s) {
    const auto* loop = std::get_if<nest::For>(&s.what);
    if (loop == nullptr) return false;
    bool turns = loop->kind == LoopKind::serial && !loop->extent.is_constant(1);
    return turns ? synchronises(loop->body) : turns_synchronise(loop->body);
  });
}

bool copies_later(const nest::Block& block) {
  return std::any_of(block.begin(), block.end(), [](const nest::Statement& s) {
    if (const auto* loop = std::get_if<nest::For>(&s.what)) return copies_later(loop->body);
    if (const auto* condition = std::get_if<nest::If>(&s.what)) {
      return copies_later(condition->then) || copies_later(condition->otherwise);
    }
    const auto* store = std::get_if<nest::Store>(&s.what);
    return store != nullptr && store->asynchronous;
  });
}

// The loop over the blocks of a cluster that a grid loop's body holds; null: it holds none.
const nest::For* cluster_of(const nest::For& grid) {
  for (const nest::Statement& s : grid.body) {
    const auto* loop = std::get_if<nest::For>(&s.what);
    if (loop != nullptr && loop->blocks) return loop;
  }
  return nullptr;
}

int64_t bytes_of(const nest::Buffer& b) {
  return checked_mul(element_count(b.shape), static_cast<int64_t>(byte_size(b.type)));
}
size_t aligned_up(size_t offset, size_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

}  // namespace

void Printer::place_workspace() {
  for (const nest::Statement& s : nest_.body) {
    const auto* alloc = std::get_if<nest::Alloc>(&s.what);
    if (alloc == nullptr) continue;
    const nest::Buffer& b = buffer(alloc->buffer);
    internal_check(b.scope == Scope::workspace, "cuda: a private buffer outside the kernels");
    if (workspace_.contains(alloc->buffer)) continue;
    workspace_[alloc->buffer] = source_.workspace_bytes;
    source_.workspace_bytes =
        aligned_up(source_.workspace_bytes + static_cast<size_t>(bytes_of(b)), 256);
  }
}

void Printer::place_shared(const nest::Block& statements, size_t& bytes) {
  for (const nest::Statement& s : statements) {
    if (const auto* loop = std::get_if<nest::For>(&s.what)) place_shared(loop->body, bytes);
    if (const auto* condition = std::get_if<nest::If>(&s.what)) {
      // A block takes one way: both use the same memory.
      size_t other = bytes;
      place_shared(condition->then, bytes);
      place_shared(condition->otherwise, other);
      bytes = std::max(bytes, other);
    }
    const auto* alloc = std::get_if<nest::Alloc>(&s.what);
    if (alloc == nullptr || buffer(alloc->buffer).scope != Scope::shared) continue;
    if (shared_.contains(alloc->buffer)) continue;
    const nest::Buffer& b = buffer(alloc->buffer);
    bytes = aligned_up(bytes, std::max<size_t>(16, static_cast<size_t>(b.alignment)));
    shared_[alloc->buffer] = bytes;
    bytes += static_cast<size_t>(bytes_of(b) / (cluster_ == nullptr ? 1 : b.shape[0]));
  }
}

// Of memory that `__restrict__` names the compiler knows what this thread writes there, and takes
// it that no other does: it moves loads over barriers, and reads through the cache that sees no
// writes. Only what the kernel leaves alone may have it: another thread may have written the rest.
std::string Printer::parameters() const {
  std::string text;
  for (size_t i = 0; i < nest_.argument_count(); ++i) {
    const nest::Buffer& b = nest_.buffers[i];
    bool written = written_.contains(nest::BufferId(i));
    internal_check(b.written || !written, "cuda: a store to an argument that is only read");
    // Loads of memory that is known not to change move behind barriers, to where they are used:
    // what a turn reads for the next one would be waited for.
    text += (b.written ? "" : "const ") + std::string(memory_type(b.type)) +
            (written || ordered_loads_ ? "* " : "* __restrict__ ") + names_[i] + ", ";
  }
  text += "u8* workspace";
  for (size_t i = 0; i < nest_.parameters.size(); ++i) {
    text += ", long long q" + std::to_string(i);
  }
  return text;
}

std::string Printer::signature(const std::string& name, int threads) const {
  return "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(threads) + ") " + name +
         "(" + parameters() + ") {";
}

// The innermost loop is the launch's first dimension.
void Printer::place_blocks(const GridLoops& loops, CudaKernel& k) {
  constexpr int64_t kMostBlocks = 65535;  // along y and z
  auto few = [](const nest::For* loop) {
    return loop->extent.is_constant() && loop->extent.value() > 0 &&
           loop->extent.value() <= kMostBlocks;
  };
  grid_dimensions_ = loops.size() <= 3 && std::all_of(loops.begin(), loops.end() - 1, few);
  k.grid = Expr(cluster_blocks()) * max(loops.back()->extent, Expr(0));
  for (size_t i = 0; i + 1 < loops.size(); ++i) {
    if (grid_dimensions_) {
      k.grid_yz[loops.size() - 2 - i] = static_cast<int>(loops[i]->extent.value());
    } else {
      k.grid = k.grid * max(loops[i]->extent, Expr(0));
    }
  }
  k.grid = simplify(k.grid, ranges_);
}

void Printer::place_threads(const nest::Block& statements, CudaKernel& k) {
  Extents extents = block_extents(statements);
  block_dimensions_ = !extents.empty();
  k.block = static_cast<int>(block_dimensions_ ? extents.back() : block_);
  for (size_t i = 0; i + 1 < extents.size(); ++i) {
    k.block_yz[extents.size() - 2 - i] = static_cast<int>(extents[i]);
  }
}

void Printer::workspace_pointers() {
  for (auto [id, at] : workspace_) {
    std::string type(memory_type(buffer(id).type));
    line(type + "* const " + names_[id] + " = (" + type + "*)(workspace + " + std::to_string(at) +
         "ull);");
  }
}

// Names of parameters and of buffers in the workspace and in shared memory.
void Printer::named_memory() {
  for (size_t i = 0; i < nest_.parameters.size(); ++i) {
    const VariableText& v = variables_.at(nest_.parameters[i].name);
    if (v.range.narrow()) line("const int " + v.name + " = (int)q" + std::to_string(i) + ";");
  }
  workspace_pointers();
  for (auto [id, at] : shared_) {
    std::string type(memory_type(buffer(id).type));
    line(type + "* const " + names_[id] + " = (" + type + "*)(" +
         (cluster_ == nullptr ? "shared_memory" : "own_memory(shared_memory)") + " + " +
         std::to_string(at) + ");");
  }
}

// Declares the variables of the grid loops from `next` on, around the block's statements.
void Printer::enter_block(const GridLoops& loops, size_t next) {
  if (next == loops.size()) return block(loops.back()->body);
  static constexpr const char* kDimensions[] = {"(int)blockIdx.x", "(int)blockIdx.y",
                                                "(int)blockIdx.z"};
  const nest::For& loop = *loops[next];
  VariableText v = loop_variable(loop, "g");
  size_t inside = loops.size() - 1 - next;
  std::string value = kDimensions[grid_dimensions_ ? inside : 0];
  bool by_clusters = cluster_ != nullptr && (inside == 0 || !grid_dimensions_);
  if (by_clusters) value = "(" + value + " / " + std::to_string(cluster_blocks()) + ")";
  if (!grid_dimensions_) {
    Expr inner = 1;
    for (size_t j = next + 1; j < loops.size(); ++j) inner = inner * loops[j]->extent;
    if (inside > 0) value = "(" + value + " / " + expression(inner).text + ")";
    if (next > 0) value = "(" + value + " % " + expression(loop.extent).text + ")";
  }
  line("const " + typed(v) + " = " + value + " + " + expression(loop.begin).text + ";");
  with_variable(loop.variable, v, loop.begin, loop.extent, [&] { enter_block(loops, next + 1); });
}

void Printer::kernel(const nest::For& grid) {
  written_ = written_in(grid.body);
  ordered_loads_ = false;
  if (is_stream_kernel(grid)) return stream_kernel(grid);
  if (is_matrix_kernel(grid)) return matrix_kernel(grid);
  CudaKernel k;
  k.name = "tile_" + std::to_string(source_.kernels.size());
  ordered_loads_ = turns_synchronise(grid.body);
  copies_later_ = copies_later(grid.body);
  copies_ = copies_ || copies_later_;
  cluster_ = cluster_of(grid);
  clusters_ = clusters_ || cluster_ != nullptr;
  if (cluster_ != nullptr) k.cluster = {static_cast<int>(cluster_blocks())};
  block_ = threads_in(grid.body) / cluster_blocks();
  if (block_ > target_.gpu.threads_per_block) {
    fail(Stage::compile, "block", {}, "a block of " + std::to_string(block_) + " threads", "");
  }
  shared_.clear();
  place_shared(grid.body, k.shared_bytes);
  if (static_cast<int64_t>(k.shared_bytes) > target_.gpu.shared_per_block) {
    fail(Stage::compile, "shared", {},
         "a block with " + std::to_string(k.shared_bytes) + " bytes of shared memory", "");
  }
  GridLoops loops{&grid};
  auto next = [&]() -> const nest::For* {
    const nest::Block& inside = loops.back()->body;
    const auto* loop = inside.size() == 1 ? std::get_if<nest::For>(&inside[0].what) : nullptr;
    return loop != nullptr && loop->kind == LoopKind::grid ? loop : nullptr;
  };
  while (const nest::For* inner = next()) loops.push_back(inner);
  place_blocks(loops, k);
  place_threads(cluster_ == nullptr ? loops.back()->body : cluster_->body, k);
  open(signature(k.name, static_cast<int>(block_)));
  if (k.shared_bytes > 0) line("extern __shared__ __align__(1024) unsigned char shared_memory[];");
  named_memory();
  ends_kernel_ = true;
  enter_block(loops, 0);
  ends_kernel_ = false;
  cluster_ = nullptr;
  close();
  source_.kernels.push_back(std::move(k));
}

}  // namespace tile::cuda
