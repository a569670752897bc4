// Segments of a recorded run that need not come behind the kernels before them: what waits for an
// exchange and touches nothing of theirs, as the border of a stencil does beside its interior.
#pragma once

#include <span>
#include <vector>

#include "backends/rank_device.h"
#include "core/ir/ranks/rank_program.h"
#include "runtime/engine/launch/strided_copy.h"

namespace tile {

class SideSegments {
 public:
  // `link`: null where nothing runs beside. Both must outlive this.
  SideSegments(const RankProgram& program, RecordingLink* link) : program_(program), link_(link) {}

  // Exchanges beside that are given from now on come behind all that the run did until now.
  void mark();
  // The exchange, which was given, is awaited by what comes next. False: that is the caller's
  // affair.
  bool await(size_t exchange);
  // A tensor of a segment where it is.
  struct Use {
    TensorId tensor;  // a view of itself
    TensorView view;
    bool written = false;
  };
  // The stream on which the next segment runs; null: the run's own. Throws Failure.
  void* stream_for(std::vector<Use> uses);
  // The run's own stream is given something else: it comes behind all that was asked for.
  void join();

 private:
  bool is_apart(const Use& one, const Use& other) const;
  bool may_run(std::span<const Use> uses) const;

  const RankProgram& program_;
  RecordingLink* link_;
  std::vector<Use> since_;       // of the run's own stream since the last mark
  bool other_since_ = false;     // that stream was given something else since
  std::vector<size_t> awaited_;  // exchanges that the run's own stream does not await yet
  bool ran_ = false;             // a segment beside, which that stream does not await yet
};

}  // namespace tile
