#include <algorithm>

#include "core/lower/launch/gpu_launch.h"
#include "core/lower/launch/nest_builders.h"
#include "core/support/checked.h"

namespace tile::gpu {
namespace {

using lowering::append;
using lowering::make_loop;
using lowering::statement;
using lowering::tidy;
using nest::Block;
using nest::LoopKind;

constexpr int64_t kFullBlock = 256;

Block launched(const Expr& blocks, int64_t threads, Block body) {
  nest::For thread = make_loop("grid_thread", 0, threads, LoopKind::thread);
  thread.body = std::move(body);
  nest::For block = make_loop("grid_block", 0, blocks, LoopKind::grid);
  block.body.push_back(statement(std::move(thread)));
  return {statement(std::move(block))};
}

Block spread(nest::For loop, const Target& target) {
  bool fixed = loop.extent.is_constant();
  if (fixed && loop.extent.value() <= 0) return {};
  int64_t threads = fixed ? threads_for(loop.extent.value(), target) : kFullBlock;
  Expr task = tidy(Expr(threads) * Expr::variable("grid_block") + Expr::variable("grid_thread"));
  Expr blocks = floor_div(tidy(loop.extent + Expr(threads - 1)), Expr(threads));
  Expr extent = loop.extent;
  loop.kind = LoopKind::serial;
  loop.begin = tidy(loop.begin + task);
  loop.extent = 1;
  if (fixed && extent.value() % threads == 0) {
    return launched(blocks, threads, {statement(std::move(loop))});
  }
  nest::If inside;
  inside.nonnegative = {tidy(extent - 1 - task)};
  inside.then = {statement(std::move(loop))};
  return launched(blocks, threads, {statement(std::move(inside))});
}

}  // namespace

int64_t threads_for(int64_t tasks, const Target& target) {
  int64_t threads = kFullBlock;
  while (threads > target.gpu.warp_size &&
         ceil_div(tasks, threads) < 2 * int64_t{target.gpu.multiprocessors}) {
    threads /= 2;
  }
  return threads;
}

nest::Block bind_grid(nest::Block block, const IdVector<nest::BufferId, nest::Buffer>& buffers,
                      const Target& target) {
  Block out, serial;
  auto flush = [&] {
    if (serial.empty()) return;
    append(out, launched(1, 1, std::move(serial)));
    serial.clear();
  };
  for (nest::Statement& s : block) {
    auto* loop = std::get_if<nest::For>(&s.what);
    const auto* alloc = std::get_if<nest::Alloc>(&s.what);
    auto scope = [&] { return buffers[alloc->buffer].scope; };
    if (alloc != nullptr && scope() == nest::Scope::workspace) {
      out.push_back(std::move(s));
    } else if (loop != nullptr && loop->kind == LoopKind::parallel) {
      flush();
      append(out, spread(std::move(*loop), target));
    } else if (loop != nullptr && loop->kind == LoopKind::grid) {
      flush();
      out.push_back(std::move(s));
    } else {
      serial.push_back(std::move(s));
    }
  }
  flush();
  return out;
}

nest::Nest bind_grid(nest::Nest nest, const Target& target) {
  nest.body = bind_grid(std::move(nest.body), nest.buffers, target);
  return nest;
}

namespace {

// Threads of the one thread loop, or the several directly inside each other, that a launch's blocks
// run beside allocations; 0: another form.
int64_t block_threads(const nest::Block& block) {
  int64_t threads = 0;
  for (const nest::Statement& s : block) {
    if (std::holds_alternative<nest::Alloc>(s.what)) continue;
    const auto* loop = std::get_if<nest::For>(&s.what);
    if (loop == nullptr || loop->blocks || threads != 0) return 0;
    if (loop->kind == LoopKind::thread) {
      int64_t inside = block_threads(loop->body);
      threads = loop->extent.value() * std::max<int64_t>(inside, 1);
    } else if (loop->kind == LoopKind::grid || loop->extent.is_constant(1)) {
      threads = block_threads(loop->body);
    }
  }
  return threads;
}

// The grid loops of a launch, one directly inside the other, as loops of one iteration around the
// block with that number; the number of blocks.
int64_t count_blocks(const nest::For& grid) {
  const auto* inner = grid.body.size() == 1 ? std::get_if<nest::For>(&grid.body[0].what) : nullptr;
  bool deeper = inner != nullptr && inner->kind == LoopKind::grid;
  return checked_mul(grid.extent.value(), deeper ? count_blocks(*inner) : 1);
}
void number_blocks(nest::For& grid, const Expr& number) {
  auto* inner = grid.body.size() == 1 ? std::get_if<nest::For>(&grid.body[0].what) : nullptr;
  grid.kind = LoopKind::serial;
  grid.extent = 1;
  grid.begin = number;
  if (inner == nullptr || inner->kind != LoopKind::grid) return;
  int64_t inside = count_blocks(*inner);
  grid.begin = floor_div(number, Expr(inside));
  number_blocks(*inner, floor_mod(number, Expr(inside)));
}

}  // namespace

nest::Block merged_launches(nest::Block launches) {
  int64_t threads = 0;
  for (nest::Statement& s : launches) {
    auto* grid = std::get_if<nest::For>(&s.what);
    bool suits = grid != nullptr && grid->kind == LoopKind::grid && grid->extent.is_constant() &&
                 grid->begin.is_constant(0) && grid->extent.value() > 0;
    int64_t mine = suits ? block_threads(grid->body) : 0;
    if (mine == 0 || (threads != 0 && mine != threads)) return launches;
    threads = mine;
  }
  if (launches.size() < 2) return launches;
  std::vector<int64_t> ends;  // of each launch's blocks
  for (const nest::Statement& s : launches) {
    ends.push_back((ends.empty() ? 0 : ends.back()) + count_blocks(std::get<nest::For>(s.what)));
  }
  Expr all = Expr::variable("launch_block");
  Block chain;
  for (size_t i = launches.size(); i-- > 0;) {
    nest::For one = std::move(std::get<nest::For>(launches[i].what));
    number_blocks(one, tidy(all - Expr(i == 0 ? 0 : ends[i - 1])));
    Block mine{statement(std::move(one))};
    if (chain.empty()) {
      chain = std::move(mine);
      continue;
    }
    nest::If choice;
    choice.nonnegative = {tidy(Expr(ends[i] - 1) - all)};
    choice.then = std::move(mine);
    choice.otherwise = std::move(chain);
    chain = {statement(std::move(choice))};
  }
  nest::For grid = make_loop("launch_block", 0, ends.back(), LoopKind::grid);
  grid.body = std::move(chain);
  return {statement(std::move(grid))};
}

}  // namespace tile::gpu
