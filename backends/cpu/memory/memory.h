// The buffers of one function: reads and writes of elements, remembering what is already read.
// memory.cpp tells where an access lies, memory_access.cpp loads and stores it.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "backends/cpu/memory/lanes.h"
#include "backends/cpu/plan/plan.h"
#include "backends/cpu/values/indices.h"
#include "backends/cpu/values/operation.h"
#include "backends/cpu/values/scopes.h"
#include "core/nest/nest.h"

namespace tile::cpu {

// Most components of a group, neighbours that one access reads for several lanes.
constexpr int64_t kMostComponents = 8;

// One access with its index expressions resolved.
struct Reference {
  nest::BufferId buffer;
  // In memory: the element offset of lane 0 is uniform + moved (null: 0); that of lane l adds
  // l * stride or, where it is set, offsets[l].
  Form uniform;
  llvm::Value* moved = nullptr;
  int64_t stride = 0;
  llvm::Value* offsets = nullptr;
  std::vector<int64_t> pattern;  // the same as `offsets`, where they are known; else empty
  // In cells: the cell, and the element of a vector cell that a scalar access names (-1: all).
  int64_t cell = -1;
  int64_t element = -1;
  // Where the lanes' elements are neighbours but for a clamp (`offsets` says the same): they stand
  // at rest + position + l, lanes whose position + l is outside [low, high] taking that end's.
  struct Clamped {
    Form rest, position, lanes;  // `lanes` is position + l
    std::optional<int64_t> low, high;
  };
  std::optional<Clamped> clamped;

  bool lanes = false;  // lanes name different elements
  // The element is component number `component` of the `pixel` neighbours of a dense pixel that
  // begins at a multiple of their number; pixel 0: of none.
  unsigned pixel = 0, component = 0;
};

class Memory {
 public:
  Memory(llvm::IRBuilderBase& ir, Scopes& scopes, Indices& indices, const nest::Nest& nest,
         const Plan& plan)
      : ir_(ir), scopes_(scopes), indices_(indices), nest_(nest), plan_(plan) {}

  // Emits the buffers' base pointers from the function's arguments.
  void begin(llvm::Value* arguments, llvm::Value* workspace, llvm::Value* scratch);
  // `values` are those that the access's index values number: of a load its operands.
  Reference resolve(const nest::Access& access, std::span<const Operand> values,
                    const Lanes& lanes);
  // One element, or one for each lane. A scalar read where no lane is on reads anything.
  llvm::Value* load(const Reference& r, const Lanes& lanes);
  // Reads the elements of `count` references at once, of which each is the one before it moved by
  // one element, so that load() then finds them: rows along the references, turned in registers.
  // Does nothing where load() reads lanes together anyway.
  void read_transposed(const Reference& first, unsigned count, const Lanes& lanes);
  // `value` has lanes exactly where the reference has.
  void store(const Reference& r, llvm::Value* value, const Lanes& lanes);
  llvm::Value* address(nest::BufferId buffer, const Form& offset);
  // Brings the line of the element at the offset near; it need not exist.
  void prefetch(nest::BufferId buffer, const Form& offset, bool to_write = false);
  bool is_non_temporal(nest::BufferId buffer) const { return place(buffer).non_temporal; }
  void forget(nest::BufferId buffer) { scopes_.forget(buffer); }
  // The number of neighbouring elements that the lanes' elements stand among, lane by lane without
  // gaps, and which of them `component` is; 0: the lanes do not lie so.
  unsigned group_size(const Reference& r, unsigned& component) const;
  // Stores all components of a group: `r` is the first one's place.
  void store_components(const Reference& r, std::span<llvm::Value* const> values,
                        const Lanes& lanes);
  // All components of all lanes as they lie in memory, from the first one's place `r` on: element
  // l * count + c is component c of lane l.
  llvm::Value* load_pixels(const Reference& r, unsigned count, const Lanes& lanes);
  void store_pixels(const Reference& r, llvm::Value* pixels, unsigned count, const Lanes& lanes);
  // Lane l's part of a reference with lanes.
  Reference at_lane(const Reference& r, unsigned lane);

  // Whether some stores went past the caches: the function must end with a fence.
  bool has_non_temporal_stores() const { return has_non_temporal_stores_; }
  const std::vector<llvm::AllocaInst*>& cells() const { return all_cells_; }

 private:
  const nest::Buffer& buffer(nest::BufferId id) const { return nest_.buffers[id]; }
  const Place& place(nest::BufferId id) const { return plan_.places[id]; }
  llvm::Value* load_component(const Reference& r, unsigned count, unsigned component,
                              const Lanes& lanes);
  bool whole_groups(const Reference& r, int64_t count) const;
  void resolve_pattern(Reference& r, std::vector<int64_t> offsets, const Lanes& lanes);
  llvm::Value* load_pattern(const Reference& r, llvm::Type* element, const Lanes& lanes);
  llvm::Value* read_group(const Reference& first, unsigned count, const Lanes& lanes);
  void store_whole(const Reference& r, llvm::Value* group, unsigned count, const Lanes& lanes);
  llvm::Value* load_row(const Reference& first, unsigned lane, unsigned count, const Lanes& lanes);
  llvm::Value* gather_component(const Reference& r, const Lanes& lanes);
  llvm::Value* sum_of(llvm::Value* a, llvm::Value* b);
  llvm::Type* offset_type(nest::BufferId id);
  int64_t most_bytes(const nest::Buffer& b) const;
  void find_pixel(Reference& r, const nest::Access& access, const std::vector<Form>& index) const;
  void resolve_cell(Reference& r, const std::vector<Form>& index) const;
  void add_value_index(Reference& r, llvm::Value* index, DType type, int64_t stride,
                       unsigned width);
  std::optional<Reference::Clamped> find_clamped(const nest::Access& access,
                                                 const std::vector<Form>& index) const;
  llvm::Value* load_clamped(const Reference& r, llvm::Type* element, unsigned width);
  llvm::Value* pointer(const Reference& r, const Lanes& lanes);
  llvm::Value* load_cell(const Reference& r);
  void store_cell(const Reference& r, llvm::Value* value, const Lanes& lanes);
  llvm::AllocaInst* cell(const Reference& r);
  llvm::Value* somewhere_safe();
  bool fills_lines(const Reference& r, const Lanes& lanes) const;
  void store_non_temporal(const Reference& r, llvm::Value* value, llvm::Value* pointer);

  llvm::IRBuilderBase& ir_;
  Scopes& scopes_;
  Indices& indices_;
  const nest::Nest& nest_;
  const Plan& plan_;
  IdVector<nest::BufferId, llvm::Value*> bases_;
  std::map<std::pair<nest::BufferId, int64_t>, llvm::AllocaInst*> cells_;
  std::vector<llvm::AllocaInst*> all_cells_;
  bool has_non_temporal_stores_ = false;
};

}  // namespace tile::cpu
