// Running one random program on every executor of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/interpret/interpret.h"
#include "runtime/engine/engine.h"
#include "tests/executors/layouts.h"
#include "tests/random/random_program.h"

namespace tile::test {

// An engine without disk cache. Threads: 0: all.
std::shared_ptr<Engine> test_engine(const std::string& backend, const std::string& features = "",
                                    int threads = 0);

std::shared_ptr<LoadedProgram> loaded(const std::shared_ptr<Engine>& engine,
                                      const std::string& text);
std::shared_ptr<const Executable> compiled(const std::shared_ptr<Engine>& engine,
                                           const RandomCase& drawn);
std::shared_ptr<const Executable> compiled(const std::shared_ptr<Engine>& engine,
                                           const RandomCase& drawn, const Laid& laid);

// The tensors in the memory of the list, which runs may write.
std::vector<TensorView> views_of(const std::vector<HostTensor>& list);

// Whole numbers of f32 from -2 to 2: their sums of products are exact in any order.
HostTensor integers(const Shape& shape, int64_t seed);

// By the compiled code, in guarded memory (see guarded_run.h).
std::vector<HostTensor> run_code(const Executable& executable,
                                 const std::vector<HostTensor>& inputs);
// By the Nest interpreter, launch after launch.
std::vector<HostTensor> run_nests(const Executable& executable,
                                  const std::vector<HostTensor>& inputs);

// The share of a nest's stores that run outside any vector loop, by the extents of their loops;
// loops of unknown extent count as `kUnknownExtent` iterations.
struct StoreCount {
  double scalar = 0;
  double all = 0;
};
StoreCount count_stores(const nest::Nest& nest);

}  // namespace tile::test
