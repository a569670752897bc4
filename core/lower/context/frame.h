// The nest under construction: its buffers, and where accesses go.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/ir/analysis/index_value.h"
#include "core/kernel/argument_layout.h"
#include "core/kernel/forms/prepacking.h"
#include "core/kernel/kernel.h"
#include "core/kernel/schedule.h"
#include "core/lower/context/open_numbers.h"
#include "core/nest/nest.h"
#include "core/schedule/search/parametric_tiling.h"

namespace tile::lowering {

// The nest under construction: its buffers, and the buffer of each tensor.
struct Frame {
  const Kernel& kernel;
  const Target& target;
  nest::Nest nest;
  std::map<TensorId, nest::BufferId> buffer_of;
  std::set<TensorId> split;  // arguments whose strides forbid the kernel's merged dimensions
  // Of results that live for a row: for each dimension its row loop, if it has one; and where the
  // current block of each row loop begins.
  std::map<TensorId, std::vector<RowId>> in_row;
  IdVector<RowId, Expr> row_begin;
  // With a streamed axis (it counts as the last row): the sizes of blocks, the buffers that live
  // from block to block, and by the stage of a running maximum: its values so far, and what sums
  // that depend on it are multiplied with in this block.
  IdVector<RowId, int64_t> row_blocks;
  std::vector<nest::BufferId> carried_buffers;
  struct Running {
    nest::BufferId maximum, factor;
  };
  std::map<StageId, Running> running;
  // The first and the end of the values of the axis that the current block of rows visits.
  Expr stream_begin = 0, stream_end;
  // Tensors whose element of the current position stands at a fixed place of their buffer.
  std::map<TensorId, std::vector<Expr>> pinned;
  OpenNumbers open;                       // of a kernel for a class of sizes
  const DynamicExtent* extent = nullptr;  // the same
  const SharedForm* form = nullptr;       // of a kernel with blocks of run-time sizes
  // Takes the form, and its blocks' sizes as parameters of the nest.
  void take_form(const SharedForm& shared);
  // Pinned ones that are arguments as well: the buffer, and which threads leave storing there to
  // others, all but those for which the number is zero.
  struct StoredToo {
    nest::BufferId buffer;
    Expr number;
  };
  std::map<TensorId, StoredToo> stored_too;
  // Packings that are made before all runs, and the argument that each one is.
  struct Prepared {
    PrepackedPacking what;
    nest::BufferId buffer;
  };
  std::vector<Prepared> prepared;
  // Adds those of the schedule as arguments, after all others.
  void take_prepacked(const Schedule& schedule);
  nest::BufferId add_prepacked(const PrepackedPacking& what, const PieceSchedule& schedule,
                               bool written);

  const BoundTensor& tensor(TensorId id) const { return kernel.tensors[id]; }
  void add_argument(TensorId id, bool written, const Strides& strides);
  void open_dimensions(TensorId id, nest::Buffer& buffer) const;
  void join_indices(TensorId id, nest::Access& access) const;
  bool is_argument(TensorId id) const;
  // Of the tensors that have buffers.
  ArgumentLayouts layouts() const;
  std::vector<Expr> buffer_index(TensorId id, std::vector<Expr> index) const;
  // The same of an access, some of whose indices may be values.
  void place(TensorId id, nest::Access& access) const;
  std::vector<Expr> argument_index(TensorId id, std::vector<Expr> index) const;
  // The value of a literal that launches decide.
  std::optional<IndexValue> literal(const Node& node) const;
  // The element of an integer tensor of rank 0 as a run-time parameter of the nest, where the
  // target reads such at launch.
  std::optional<IndexValue> scalar(TensorId id);
  // A buffer other than an argument, with dense strides.
  nest::BufferId add_buffer(std::string name, DType type, nest::Scope scope, Shape shape);
};

// Names that the nest's text form can hold, each its own.
std::vector<std::string> plain_names(const std::vector<std::string>& names);
// A nest without arguments and code, named after the kernel.
Frame empty_frame(const Kernel& kernel, const Target& target,
                  const DynamicExtent* extent = nullptr);
// The nest of a kernel with its arguments and no code yet.
Frame make_frame(const Kernel& kernel, const Target& target, const Strides& strides,
                 const DynamicExtent* extent = nullptr);

}  // namespace tile::lowering
