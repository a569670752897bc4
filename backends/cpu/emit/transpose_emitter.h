// A written-out loop around a vector loop reads blocks. Where memory has the written-out loop's
// elements side by side and the lanes' apart, whole rows are read and transposed in registers.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "backends/cpu/emit/emit_context.h"

namespace tile::cpu {

class TransposeEmitter {
 public:
  explicit TransposeEmitter(EmitContext& context) : c_(context) {}

  struct WrittenOut {
    std::string variable;
    Form begin;
    int64_t extent = 0;
  };
  // Before each iteration of a written-out loop: in its first one the vector loop inside reads
  // blocks, if all iterations are alike.
  void begin_iteration(const nest::For& f, const WrittenOut& loop, int64_t i);
  void end_loop() { block_.reset(); }
  bool reads_blocks() const { return block_.has_value(); }
  // Reads the blocks of a vector loop's stores.
  void read_transposed(const nest::Block& stores);

 private:
  bool turns(const nest::For& f, const WrittenOut& loop);
  bool advances(const WrittenOut& loop, int64_t step, const std::function<Form()>& form);

  EmitContext& c_;
  std::optional<WrittenOut> block_;  // its first iteration is being emitted
};

}  // namespace tile::cpu
