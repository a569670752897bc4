#include "runtime/engine/steps/known_blocks.h"

#include <algorithm>

#include "core/pipeline/pipeline.h"
#include "runtime/engine/compile_bound.h"
#include "runtime/engine/engine.h"

namespace tile {
namespace {

KnownBlocks::Feeds pairs_of(std::span<const Feed> feeds) {
  KnownBlocks::Feeds pairs;
  for (const Feed& feed : feeds) pairs.emplace_back(feed.output, feed.input);
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

// Whether launch for launch both run the same code of the same tensors in the same places.
bool runs_alike(const Executable& a, const Executable& b) {
  return std::equal(a.launches.begin(), a.launches.end(), b.launches.begin(), b.launches.end(),
                    [](const Launch& x, const Launch& y) {
                      return x.code == y.code && x.arguments == y.arguments &&
                             x.begins == y.begins && !x.loop && !x.sort;
                    }) &&
         a.arena_bytes == b.arena_bytes;
}

std::shared_ptr<const StepsInBlocks> blocks_of(const Executable& e, std::span<const Feed> feeds,
                                               int64_t steps) {
  if (!e.restored) return steps_in_blocks(e, feeds, steps);
  std::shared_ptr<Executable> stages = compile_stages(e);
  if (!runs_alike(e, *stages)) return nullptr;
  auto blocks = steps_in_blocks(*stages, feeds, steps);
  return blocks && takes_blocks(e, *blocks) ? blocks : nullptr;
}

}  // namespace

std::shared_ptr<const StepsInBlocks> KnownBlocks::find(const Feeds& feeds, bool& known) const {
  std::lock_guard lock(mutex_);
  auto found = of_.find(feeds);
  known = found != of_.end();
  return known ? found->second : nullptr;
}

std::shared_ptr<const StepsInBlocks> KnownBlocks::keep(
    const Feeds& feeds, std::shared_ptr<const StepsInBlocks> blocks) {
  std::lock_guard lock(mutex_);
  return of_.try_emplace(feeds, std::move(blocks)).first->second;
}

bool may_have_blocks(const Executable& e) {
  return e.in_blocks && !e.saved && !e.engine->is_reference() && e.engine->session() == nullptr &&
         pass_options(*e.engine).runs(kTileTime);
}

std::shared_ptr<const StepsInBlocks> known_blocks(const Executable& e, std::span<const Feed> feeds,
                                                  bool& known) {
  return e.in_blocks->find(pairs_of(feeds), known);
}

std::shared_ptr<const StepsInBlocks> make_blocks(const Executable& e, std::span<const Feed> feeds,
                                                 int64_t steps) {
  std::shared_ptr<const StepsInBlocks> made;
  try {
    made = blocks_of(e, feeds, steps);
  } catch (const Failure& failure) {
    if (e.engine->options().log) {
      e.engine->log(LogLevel::warning, std::string("no blocks of steps: ") + failure.what());
    }
  }
  return e.in_blocks->keep(pairs_of(feeds), std::move(made));
}

}  // namespace tile
