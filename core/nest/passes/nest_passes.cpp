#include "core/nest/passes/nest_passes.h"

#include <array>

namespace tile::nest {
namespace {

constexpr std::array kPasses = {
    NestPass{{PassStage::nest, "hoist", true,
              "computes costly values that a loop does not change before it"},
             hoist,
             true},
    NestPass{{PassStage::nest, "partition", true,
              "versions loops: the interior of a domain runs without guards"},
             [](Nest nest) { return partition(nest); },
             true},
};

}  // namespace

std::span<const NestPass> nest_passes() { return kPasses; }

// What is verified is what code is made of, so that a nest that no pass was run on is, too.
Nest run_passes(Nest nest, const Target& target, const PassOptions& options) {
  const NestPass* last = nullptr;
  for (const NestPass& pass : kPasses) {
    if ((pass.gpu || !is_gpu(target)) && options.runs(pass)) last = &pass;
  }
  for (const NestPass& pass : kPasses) {
    if (!pass.gpu && is_gpu(target)) continue;
    auto work = [&] {
      nest = pass.run(std::move(nest));
      if (&pass == last || options.verify_each) verify(nest);
    };
    run_pass(pass, options, work, [&] { return print(nest); });
  }
  if (last == nullptr) verify(nest);
  return nest;
}

}  // namespace tile::nest
