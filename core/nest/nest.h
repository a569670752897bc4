// Nest: the one lowered form. Loop nests over buffers; backends print it, an interpreter runs it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/ir/body.h"
#include "core/ir/bound.h"
#include "core/ir/scalar.h"
#include "core/simplify/expr.h"

namespace tile::nest {

enum class Scope : uint8_t {
  argument,   // a tensor given at launch
  workspace,  // shared by all threads of a launch, lives for the launch
  shared,     // a GPU block's: private to one iteration of the enclosing grid loop
  scratch,    // private to the thread that runs one iteration of the enclosing parallel loop
  fragment,   // a matrix of two dimensions, a MatrixTile's sum. Of a GPU's block: spread over the
             // registers of its threads, maybe a product's first factor, or one column of values of
             // rows; else indexed by the variables of a thread loop over its rows and of a thread
             // or serial loop over its columns inside it, alone. On a CPU: in a tile register, else
             // named by MatrixMove alone
  registers,  // scratch that every access indexes by unrolled and vector loops and constants only
};

// The number of a buffer in its nest.
using BufferId = Id<struct BufferTag>;

struct Buffer {
  std::string name;
  DType type = DType::f32;
  Scope scope = Scope::argument;
  std::vector<int64_t> shape;
  std::vector<int64_t>
      strides;  // in elements; zero and negative strides only for arguments that are read
  bool written = false;
  // Of an argument: what is stored is read again soon, so that it is to stay in the caches.
  bool read_soon = false;
  int64_t alignment = 0;  // of the first element, in bytes; 0: the element's own
  // Of an argument: the extent of dimension 0, in parameters given at launch; shape[0] is then a
  // typical extent, which nothing may rely on. Without one the extent is shape[0].
  std::optional<Expr> extent;
};

// A run-time 64-bit integer with its inclusive range. With `from` it is the element of that
// argument, an integer tensor of rank 0 that is only read; the others are given at launch, in
// order.
struct Parameter {
  std::string name;
  int64_t lo = 0;
  int64_t hi = 0;
  BufferId from = {};
};

// buffer[index…]. Where values[d] >= 0 the index of dimension d is an integer node (in range by
// construction) and index[d] is unused: of a load, that operand of the load node; of a target,
// that node of the statement's body. values may be empty.
struct Access {
  BufferId buffer;
  std::vector<Expr> index;  // over loop variables, parameters and, in a fold's region, counters;
                            // always in range when executed
  std::vector<int> values;
};

enum class StoreKind : uint8_t {
  assign,
  add,  // old + value …
  multiply,
  max,  // NaN from either side stays
  min,
  fma,  // exactly rounded results[0] * results[1] + old
};

// target = combine(target, value): Node::slot of kind `load` is a position in `loads`; kind `size`
// is an expression over loop variables and parameters; no node has kind `index`. The result has the
// type of the target buffer. Inside a vector loop whose variable the target does not use, lanes
// combine in any order, unless it is ordered.
struct Store {
  Access target;
  StoreKind kind = StoreKind::assign;
  std::vector<Access> loads;
  Body body;  // one result; two for fma
  // GPU: an assignment of an argument's element to one of a shared buffer, which may happen as late
  // as the Sync that waits for it.
  bool asynchronous = false;
};

struct Statement;
using Block = std::vector<Statement>;

enum class LoopKind : uint8_t {
  serial,
  parallel,  // only as a top-level statement of the nest; iterations are independent
  unrolled,  // constant extent
  vector,    // one lane per iteration; extent <= width, lanes beyond the extent are inactive
  grid,      // GPU: one block for each iteration; top-level, or directly inside another grid loop;
             // a top-level one is one kernel launch. Extents: constants or parameters
  thread,    // GPU: one thread for each iteration; inside a grid loop, constant extent; nested ones
             // count as one block of threads. Sequential meaning: between two Syncs (or the ends of
             // the loop) threads run in any order
};

// for variable in [begin, begin + extent). A negative extent runs zero times.
struct For {
  std::string variable;  // hides no other; sibling loops may share a name
  Expr begin;
  Expr extent;
  LoopKind kind = LoopKind::serial;
  int64_t width = 0;  // lanes of a vector loop
  int64_t grain = 1;  // parallel: least iterations worth a thread
  // GPU, serial: the copies of the body run ahead of the rest by up to this many iterations, made
  // by a warp of their own, each into its own version of the shared buffers; 0: not. The meaning is
  // the sequential one.
  int64_t pipeline = 0;
  // Of such a loop: how many neighbouring blocks (a cluster) share its iterations, each with a sum
  // of its own; the sums are added up in a fixed order. The meaning is the sequential one.
  int64_t cluster = 1;
  // GPU, a kernel's outermost thread loop, whose body is one other: its iterations, at most 8, are
  // blocks of a cluster. Dimension 0 of each shared buffer of the kernel counts them: what has
  // index r there lies in block r.
  bool blocks = false;
  // A vector loop of a running value (a scan): its iterations happen in order, and what they update
  // without using the variable is seen, as it is then, by the statements behind the update in the
  // same iteration. Its body has stores and conditions only.
  bool ordered = false;
  Block body;
};

// Runs `then` where every expression is >= 0 and, if it has a result, the predicate is not zero.
struct If {
  std::vector<Expr> nonnegative;
  std::vector<Access> loads;
  Body predicate;
  Block then;
  Block otherwise;
};

// Begins the life of a scratch, register or workspace buffer inside the enclosing block; contents
// are undefined until stored.
struct Alloc {
  BufferId buffer;
};

// A barrier for the threads of the innermost enclosing block: inside thread loops, reached by all
// of them or none (serial loops around it have extents and If's conditions that do not depend on
// the thread). A thread's asynchronous stores between one Sync and the next are a group, ended by
// the latter; behind a Sync all groups but the latest `pending` ones have happened.
struct Sync {
  int64_t pending = 0;
};

// A box of an argument copied into a dense buffer: the cells from[origin[d] + stride[d] * i[d]]
// with 0 <= i[d] < extent[d], in the order of the dimensions `order` (outermost first; each once),
// and zero for a cell whose index is outside [0, limit[d]) in some dimension. On a GPU a bulk copy
// by the whole block, into shared memory.
struct Copy {
  BufferId to;    // as many elements as the box
  BufferId from;  // of the same type
  std::vector<Expr> origin;
  std::vector<int64_t> extent, stride, limit;  // 0 <= limit <= the shape
  std::vector<size_t> order;
};

// A matrix inside a buffer: its element (i, j) is at origin[d] + i * row[d] + j * column[d].
struct MatrixPart {
  std::vector<Expr> origin;
  std::vector<int64_t> row, column;  // one for each dimension of the buffer
};

// sum[i, j] += over k of a[i, k] * b[k, j], in any order, with the whole block of threads. `sum` is
// a fragment of f64, as a and b then are; of i32 or u32, which wrap, if a and b are bytes, each of
// its own sign; else of f32, with exact products. If a and b are f32 both are first rounded to the
// 10 fraction bits of tf32; `split` adds the products of each one's rounded value and what rounding
// the other left, rounded likewise: a_rest and b_rest if given, which have the shapes of a and b.
// With `unrounded` factors of f32 are multiplied as they are, by the threads themselves.
//
// With `terms` > 0, by tile registers of a CPU: a and b are parts of their buffers, k runs to
// `terms`. Factors are bf16, their subnormals anything between themselves and zero, and summed in
// f32; or bytes, whose sums wrap in i32. A buffer of u32 holds neighbours along k packed, the first
// in the lowest bits: two bf16 or four bytes, which its part counts as one column (a) or row (b).
// All of b's are packed, a's are or are themselves one element apart.
struct MatrixTile {
  BufferId sum, a, b;
  BufferId a_rest, b_rest;    // of a split product: both or none
  bool a_transposed = false;  // a is [k, i]
  bool b_transposed = false;  // b is [j, k]
  bool split = false;         // of f32
  bool unrounded = false;     // of f32
  int64_t terms = 0;
  MatrixPart a_part, b_part;
  DType a_type = DType::none, b_type = DType::none;  // of the factors, where there are parts
};
// How many factors of the type are packed together: those of 32 bits.
int64_t packed_factors(DType type);

// A CPU's fragment set to zero, or copied from or to the part of a buffer of the same type.
struct MatrixMove {
  enum class Kind : uint8_t { zero, load, store };
  Kind kind = Kind::zero;
  BufferId fragment;
  BufferId buffer;  // of load and store
  MatrixPart part;
};

struct Statement {
  std::variant<For, If, Store, Alloc, Sync, Copy, MatrixTile, MatrixMove> what;
  Span span = {};  // what of the program's text it is for; empty: as what is around it
};

struct Nest {
  std::string name;
  IdVector<BufferId, Buffer> buffers;  // arguments first, in launch order
  std::vector<Parameter> parameters;
  Block body;
  // The text that spans are parts of, where code is to have its lines for a debugger; else null.
  // Text forms leave out both.
  SourcePtr source;

  size_t argument_count() const;
  size_t launch_parameter_count() const;  // those that are not elements of arguments
};

// Text form, read back by parse_nest. With `anonymous`, buffers, variables and the nest are
// numbered instead of named: the kernel cache's key (nests that print alike share code).
std::string print(const Nest& nest, bool anonymous = false);
Nest parse_nest(SourcePtr source);
void verify(const Nest& nest);  // throws InternalError naming the first broken rule of this header

struct NestCounts {
  int64_t stores = 0;
  int64_t multiply_adds = 0;  // executed `fma` stores, and `add` stores of a product
  int64_t guards = 0;         // executed If tests
};
// Runs the nest serially. Arguments are dense tensors with as many elements as the buffers (strides
// are then ignored); written ones are updated in place. Every access is checked: an index outside
// throws InternalError.
void interpret(const Nest& nest, const std::vector<HostTensor*>& arguments,
               const std::vector<int64_t>& parameters = {}, NestCounts* counts = nullptr);

// Partitions loops: splits each loop whose body has guards into border and interior ranges so that
// interior bodies run without them (a guard proved true is dropped, proved false drops its block),
// and simplifies every expression with the ranges of the loops.
Nest partition(const Nest& nest);

// Computes values that a serial loop does not change, and that cost a division or more, before it:
// in registers. Values and their rounding stay the same.
Nest hoist(Nest nest);

}  // namespace tile::nest
