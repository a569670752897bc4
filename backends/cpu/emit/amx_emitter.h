// Tile registers (AMX): which one holds what, their configuration, products and moves. Registers
// are numbered here, so that no pass has to allocate them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/emit/emit_context.h"

namespace tile::cpu {

class AmxEmitter {
 public:
  explicit AmxEmitter(EmitContext& context) : c_(context) {}

  // Whether lives of fragments begin with this statement; then they get registers.
  bool begins_tiles(const nest::Block& statements, size_t first) const;
  void configure_tiles(const nest::Block& statements, size_t first);
  void multiply(const nest::MatrixTile& m);
  void move(const nest::MatrixMove& m);
  // From here on the function knows which configuration the processor has.
  void begin_configuration();
  bool is_configured() const { return configured_ != nullptr; }
  // Other code may use tile registers here.
  void forget_configuration();

 private:
  struct TilePool {  // registers for operands of one size
    std::vector<unsigned> registers;
    std::vector<Key> held;  // what each one holds
    size_t next = 0;        // the one that is filled next
  };
  using TileSize = std::pair<int64_t, int64_t>;  // rows, bytes of a row
  struct TileRegisters {
    std::map<nest::BufferId, unsigned> sums;  // by fragment
    std::map<TileSize, TilePool> rows, columns;
  };
  void load_configuration(const std::string& bytes);
  static TileSize rows_of(const nest::MatrixTile& m, const nest::Buffer& sum);
  static TileSize columns_of(const nest::MatrixTile& m, const nest::Buffer& sum);
  unsigned tile_operand(TilePool& pool, nest::BufferId buffer, const nest::MatrixPart& part);
  Form place_of(nest::BufferId buffer, const nest::MatrixPart& part);
  llvm::Value* row_bytes(nest::BufferId buffer, const nest::MatrixPart& part);

  EmitContext& c_;
  TileRegisters tiles_;                             // of the fragments that are alive
  std::map<std::string, uint32_t> configurations_;  // numbered, from 1
  llvm::AllocaInst* configured_ = nullptr;          // which one the processor has; 0: none
};

}  // namespace tile::cpu
