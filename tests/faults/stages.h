// The calls of the C interface, one after the other, each to be tried under faults: what comes
// before a stage has been done by the time that it is called.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tile/tile.h"

namespace tile::test {

// A softmax, its gradient and what belongs to them.
class Work {
 public:
  // `cache`: a directory; empty: no disk cache.
  explicit Work(std::string cache, int threads = 1);
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  tile_error* make_engine();
  tile_error* parse();
  tile_error* compile();
  tile_error* run();
  tile_error* differentiate();
  tile_error* compile_gradient();
  tile_error* compile_wider();  // another size of the same class
  tile_error* compile_many();   // more programs than one set of LLVM's passes compiles
  tile_error* tune();
  tile_error* explain();
  // Whether the run gave what it should.
  bool is_right() const;

 private:
  std::string cache_;
  int threads_;
  tile_engine* engine_ = nullptr;
  tile_program *program_ = nullptr, *gradient_ = nullptr;
  tile_executable *executable_ = nullptr, *other_ = nullptr, *wider_ = nullptr;
  std::vector<float> in_, out_;  // of the run; made before any fault
};

struct CallStage {
  const char* name;
  tile_error* (Work::*call)();
  bool is_long = false;
};
const std::vector<CallStage>& call_stages();

}  // namespace tile::test
