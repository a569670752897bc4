// Kernels for classes of sizes: one extent, of a batch or of a sequence, stays a parameter of the
// nest wherever it stands in the kernel, so that another size needs no other code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/kernel/kernel.h"
#include "core/kernel/schedule.h"

namespace tile {

// A number of a kernel that grows with the extent that launches give.
struct Growth {
  int64_t factor = 1, offset = 0;
  int64_t at(int64_t extent) const { return factor * extent + offset; }
};

// All numbers of a kernel that grow: extents of tensors, of iterators, bounds of conditions and
// literals.
struct DynamicExtent {
  struct Dimension {
    TensorId tensor;
    size_t dimension = 0;
    Growth size;
  };
  struct PieceAt {
    StageId stage;
    size_t piece = 0;
  };
  struct Walk {
    PieceAt of;
    IteratorId iterator;
    Growth size;
  };
  struct Bound {
    PieceAt of;
    size_t constraint = 0;
    bool upper = false;
    Growth value;
  };
  struct Literal {
    PieceAt of;
    NodeId node;  // of the piece's own body
    Growth value;
  };
  std::vector<Dimension> dimensions;
  std::vector<Walk> walks;  // never empty in a kernel for a class
  std::vector<Bound> bounds;
  std::vector<Literal> literals;
  // It is in [1, most]; kernels of less than `least` are others all the same.
  int64_t least = 1, most = 0;

  // How the iterator grows; nullopt: it does not.
  std::optional<Growth> of(StageId stage, size_t piece, IteratorId iterator) const;
};

// The sizes of a class.
struct SizeSpan {
  int64_t least = 1, typical = 1, most = 1;
};
// Of the class that a program's size, or a kernel's extent where nothing is known of the program,
// is in.
SizeSpan span_of(int64_t size);

// A kernel in which that extent is a typical one of its class of sizes: all sizes of a class get
// the same kernel, and with it the same schedule and code. Its arguments are those of the kernel at
// hand by position, whatever their numbers are.
struct ClassKernel {
  Kernel kernel;
  DynamicExtent extent;
  int64_t size = 0;  // the extent at hand
  SizeSpan span;     // of the extents that are meant; span.typical is the kernel's
};

// From the accesses alone: dimension 0 of every result is walked by one parallel dimension, which
// walks dimension 0 of the tensors that it is in and nothing else; so strides do not depend on its
// extent. nullopt where there is no such parallel dimension.
std::optional<ClassKernel> with_open_extent(const Kernel& kernel, const Target& target);
// The same of kernels with so much work that their code is to be shared without knowing that the
// extent changes: products and windows.
std::optional<ClassKernel> for_class_of_sizes(const Kernel& kernel, const Target& target);

// One kernel of a program at two sizes, the typical one of `span` and `other`: what differs between
// them is what changes with the size. Without a class there is a reason.
struct Instances {
  SizeSpan span;
  int64_t other = 0;
};
// Of each size of the program that is open, at least one: a kernel's class is that of the size that
// its extent is.
using AllInstances = std::vector<Instances>;
struct ClassFound {
  std::optional<ClassKernel> kernel;
  std::string why_not;  // in words, for who asks why a kernel has code for each size
};
ClassFound for_instances(const Kernel& typical, const Kernel& other, const Target& target,
                         const AllInstances& of);
// The extent with which the kernel is the class's, cell by cell; nullopt: it is another kernel.
std::optional<int64_t> extent_in(const ClassKernel& of, const Kernel& kernel);
// The kernel with another extent.
Kernel with_size(const Kernel& kernel, const DynamicExtent& extent, int64_t size);
// Forgets the program's other tensors and completes the largest extent; false where the kernel's
// own extent is more than a nest's indices hold.
bool complete(ClassKernel& found);

// Blocks of one extent: so many that what is left of the last one, a sixteenth of the work at most,
// does not show.
constexpr int64_t kManyBlocks = 16;

// Whether the class's nest under this schedule serves all its sizes well: no buffer grows far with
// the extent, no vector runs along it, and blocks of it are small beside it, or it is itself small.
bool suits_class(const Schedule& schedule, const ClassKernel& kernel);

// The model's choice for all sizes of the class, the same whichever of them is at hand; nullopt: no
// schedule suits it.
std::optional<Schedule> class_schedule(const ClassKernel& kernel, const Target& target);

// The sizes of the blocks with code of their own in which what is left of a block of `step` is
// done, largest first, when a register tile of the whole block has `vectors`: each at most once. A
// block that is divided reads what all its cells share again for each part.
std::vector<int64_t> short_blocks(int64_t step, int64_t vectors);
// Whether there is one for each size, so that a small rest and the last whole block can be done in
// two blocks of about one size: a block of few cells takes hardly less time than a whole one.
bool halves_last_blocks(int64_t step, int64_t vectors);

}  // namespace tile
