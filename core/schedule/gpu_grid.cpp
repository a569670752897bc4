#include <algorithm>

#include "core/schedule/gpu.h"
#include "core/schedule/lowering.h"
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

nest::Nest bind_grid(nest::Nest nest, const Target& target) {
  Block out, serial;
  auto flush = [&] {
    if (serial.empty()) return;
    append(out, launched(1, 1, std::move(serial)));
    serial.clear();
  };
  for (nest::Statement& s : nest.body) {
    auto* loop = std::get_if<nest::For>(&s.what);
    const auto* alloc = std::get_if<nest::Alloc>(&s.what);
    auto scope = [&] { return nest.buffers[static_cast<size_t>(alloc->buffer)].scope; };
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
  nest.body = std::move(out);
  return nest;
}

}  // namespace tile::gpu
