// Conformance cases in guarded memory (tests/executors/guarded_run.h), with dense or strided
// inputs.
//   tile-conform-guarded FEATURES THREADS LAYOUTS FILTER FILE...
// FEATURES: host, avx2, …. LAYOUTS: 0: dense; else a seed of random strides.
#include <cstdlib>
#include <iostream>
#include <span>

#include "runtime/cli/conform.h"
#include "tests/executors/run_backends.h"

namespace tile::test {
namespace {

std::vector<HostTensor> run_laid(LoadedProgram& program, const std::vector<HostTensor>& inputs,
                                 uint64_t seed) {
  std::vector<InputLayout> dense = cli::layouts_of(inputs);
  if (seed == 0) return run_code(*program.executable(dense), inputs);
  std::vector<InputType> types;
  for (const InputLayout& layout : dense) types.push_back(layout.type);
  Laid laid = random_layouts(seed, types, inputs, Sharing::no);
  return run_code(*program.executable(laid.layouts), laid.inputs);
}

int conform(std::span<char* const> arguments) {
  if (arguments.size() < 5) {
    std::cerr << "usage: tile-conform-guarded FEATURES THREADS LAYOUTS FILTER FILE...\n";
    return 2;
  }
  cli::Options options;
  options.backend = "cpu";
  options.features = arguments[0] == std::string("host") ? "" : arguments[0];
  options.threads = std::atoi(arguments[1]);
  uint64_t seed = std::strtoull(arguments[2], nullptr, 10);
  std::vector<std::string> files(arguments.begin() + 4, arguments.end());
  return cli::conform(files, arguments[3], options,
                      [seed](LoadedProgram& program, const std::vector<HostTensor>& inputs) {
                        return run_laid(program, inputs, seed);
                      });
}

}  // namespace
}  // namespace tile::test

int main(int argc, char** argv) {
  try {
    return tile::test::conform({argv + 1, static_cast<size_t>(argc - 1)});
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
