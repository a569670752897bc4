// Prefetches of far operands: while a register tile is reduced, the lines that the next tile will
// read. The processor's own prefetcher begins anew with each row of a tile, and at each page. Of
// operands of which each step of a reduction reads further lines: those of a later step. And of far
// results: while a row is stored, its lines further on, or those of a later row pages apart.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "backends/cpu/emit/emit_context.h"

namespace tile::cpu {

class PrefetchEmitter {
 public:
  explicit PrefetchEmitter(EmitContext& context) : c_(context) {}

  // Of the loop `f`, whose counter is `i` and its variable `at`.
  void prefetch_operands(const nest::For& f, const Form& at, llvm::Value* i);
  void prefetch_later_stores(const nest::Store& s);

 private:
  struct Line {
    nest::BufferId buffer;
    Form offset;
    Key key() const;
  };
  struct FarLines {
    std::vector<Line> lines;
    int64_t period = 64;  // iterations of the reduction along one line
  };
  bool visit_stores(const nest::Block& body, size_t loop,
                    const std::function<void(const nest::Store&)>& visit);
  FarLines lines_ahead(const nest::For& f, const Form& at);
  void prefetch_next_tile(const nest::For& f, const Form& at, llvm::Value* i);
  std::vector<Line> lines_later(const nest::For& f, const Form& at);
  std::optional<Form> far_row(const nest::Store& s);
  void prefetch_next_row(const nest::Store& s, const Form& row, int64_t size);
  void prefetch_along_row(const nest::Store& s, const Form& row, int64_t size);

  EmitContext& c_;
};

}  // namespace tile::cpu
