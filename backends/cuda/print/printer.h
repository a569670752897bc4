// Prints nests as CUDA C++: shared by the files of the printer, used nowhere else.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/cuda/matrix/matrix_mma.h"
#include "backends/cuda/matrix/matrix_source.h"
#include "backends/cuda/print/operation.h"
#include "backends/cuda/print/print_expression.h"
#include "backends/cuda/source.h"
#include "core/simplify/simplify.h"

namespace tile::cuda {

struct MatrixParts;
struct ProductOrder;

// Threads that one iteration of the enclosing grid loop needs.
int64_t threads_in(const nest::Block& block);
bool synchronises(const nest::Block& block);

class Printer {
 public:
  Printer(const nest::Nest& nest, const Target& target);
  CudaSource run();

 private:
  // Lines (print_kernel.cpp).
  void line(const std::string& text);
  void open(const std::string& text);
  void close(const std::string& after = "");
  // No name of a type: `i8` is one in the text.
  std::string fresh(const char* prefix) {
    std::string name;
    do name = prefix + std::to_string(counter_++);
    while (parse_dtype(name));
    return name;
  }

  // Kernels (print_launch.cpp).
  void place_workspace();
  void kernel(const nest::For& grid);
  using GridLoops = std::vector<const nest::For*>;  // one directly inside the other
  void place_blocks(const GridLoops& loops, CudaKernel& kernel);
  void place_threads(const nest::Block& block, CudaKernel& kernel);
  void named_memory();
  void enter_block(const GridLoops& loops, size_t next);
  std::string parameters() const;
  void workspace_pointers();
  std::string signature(const std::string& name, int block) const;
  void place_shared(const nest::Block& block, size_t& bytes);

  // Statements.
  void block(const nest::Block& statements);
  void statement(const nest::For& loop);
  void statement(const nest::If& condition);
  std::string conditions(const nest::If& test) const;  // all but the predicate
  void statement(const nest::Store& store);
  void statement(const nest::Alloc& alloc);
  void statement(const nest::Sync& sync);
  void statement(const nest::Copy& copy);
  void statement(const nest::MatrixTile& multiply);
  void statement(const nest::MatrixMove& move);
  void thread_loop(const nest::For& loop);
  void counted_loop(const nest::For& loop);
  void vector_loop(const nest::For& loop);
  void lane_loop(const nest::For& loop, const Expr& extent);
  void full_lanes(const nest::For& loop);
  void later_lanes(const nest::For& loop, const nest::Store& store);
  void later(int64_t bytes, const std::string& to, const std::string& from);
  void lanes_together(const nest::For& loop, const nest::Block& stores);
  // Declares a loop variable for the code that `inside` prints.
  void with_variable(const std::string& name, const VariableText& text, const Expr& begin,
                     const Expr& extent, const std::function<void()>& inside);
  VariableText loop_variable(const nest::For& loop, const char* prefix);
  ExpressionText expression(const Expr& e) const { return print_expression(e, variables_); }
  std::string typed(const VariableText& v) const {
    return (v.range.narrow() ? "int " : "long long ") + v.name;
  }

  // Clusters (print_cluster.cpp).
  void cluster_loop(const nest::For& loop);
  void barrier();
  void settle_barriers(size_t from);
  int64_t cluster_blocks() const { return cluster_ == nullptr ? 1 : cluster_->extent.value(); }
  bool by_blocks(nest::BufferId id) const {
    return cluster_ != nullptr && buffer(id).scope == nest::Scope::shared;
  }
  // The address of the buffer's first element, in the block that the access names.
  std::string base(const nest::Access& access);

  // Products on tensor cores (print_matrix.cpp).
  static bool is_matrix_kernel(const nest::For& grid);
  void matrix_kernel(const nest::For& grid);
  std::string captured(const std::function<void()>& print);
  std::string named_values(const std::vector<const nest::For*>& values);
  std::string parameter_values();
  // A loop variable that the leaf declares under a name of its own.
  void known(const nest::For& loop, const std::string& name);
  std::string coordinate(const Expr& e) const;
  MatrixOperand matrix_operand(const nest::Copy& copy, bool k_major, int64_t depth,
                               const char* name, CudaKernel& kernel);
  void add_rest(MatrixOperand& operand, const nest::Copy& rest);
  void bulk_kernel(const nest::For& grid, const MatrixParts& parts, CudaKernel& kernel);
  void mma_kernel(const nest::For& grid, const MatrixParts& parts, CudaKernel& kernel);
  std::string pair_of_cells(const MatrixParts& parts, bool boxed);
  void pairs_of(nest::Block cells);
  std::string each_cell(const MatrixParts& parts);
  std::string guarded_cell(const MatrixParts& parts);
  std::string direct_cell(const MatrixParts& parts);
  ThreadCopy thread_copy(const nest::Copy& copy, bool k_major, int64_t depth);
  MatrixEpilogue matrix_epilogue(const MatrixParts& parts, int64_t columns, CudaKernel& kernel);

  // Kernels with a streamed axis (print_stream.cpp).
  struct StreamLayout;
  static bool is_stream_kernel(const nest::For& grid);
  StreamLayout stream_layout(const nest::For& grid) const;
  void stream_kernel(const nest::For& grid);
  void stream_block(const nest::Block& statements);
  static bool clears(const nest::Statement& s, nest::BufferId fragment);
  void stream_loop(const nest::For& loop);
  void stream_steps(const nest::For& loop);
  std::set<nest::BufferId> sums_in_parts(const nest::Block& body) const;
  void stream_turns(const nest::For& loop, const std::string& first, const std::string& end);
  bool is_bulk_copy(const nest::Copy& copy) const;
  std::string stream_boxes(const nest::Copy& copy, const std::string& part,
                           const std::string& barrier, int64_t& bytes);
  void share_tiles(const nest::For& grid, CudaKernel& kernel);
  void open_tiles(const std::string& indices);
  void await_boxes(const std::string& first, const std::string& end);
  void release_boxes(const std::string& first, const std::string& end, bool stage);
  void divide_groups();
  void load_boxes_of_tile(const std::string& first, const std::string& end);
  void bulk_turns(const nest::For& loop, const std::string& first, const std::string& end);
  std::string stream_stage(const std::string& slot) const;
  void next_stage(const std::string& slot);
  void advance_next(const std::string& when);
  void release_stage(const std::string& slot, const std::string& when);
  void await_next_stage(const std::string& end);
  void hold_maxima(const nest::Statement& maxima);
  static int64_t multiplying_groups(const StreamLayout& l);
  static bool takes_turns(const StreamLayout& l);
  void await_turn();
  void pass_turn();
  void settle(nest::BufferId fragment);
  void settle_sums(const nest::Block& body, const ProductOrder& order);
  void wait_for_products(const nest::Block& body, const ProductOrder& order, size_t at);
  void issue_product(const nest::MatrixTile& m, bool fresh);
  void first_products(const nest::Block& body, const ProductOrder& order, const std::string& first,
                      const std::string& end);
  void issue_products(const nest::Block& body, const ProductOrder& order, size_t before,
                      const std::string& end);
  static bool is_product(const nest::Block& body, size_t i);
  static bool stands_alone(const nest::Block& body, const ProductOrder& order, size_t i);
  size_t end_of_run(const nest::Block& body, const ProductOrder& order, size_t begin) const;
  void overlapped_turns(const nest::For& loop, const ProductOrder& order, const std::string& first,
                        const std::string& end);
  std::string stream_functions(const StreamLayout& l);
  void set_up_barriers();
  bool is_row_fragment(nest::BufferId id) const;
  void stream_fragment(nest::BufferId id);
  void stream_fill(const nest::Copy& copy, const std::string& part);
  void open_filling();
  void copying_thread(const std::string& indices);
  void value_warps(const std::string& indices);
  void stream_multiply(const nest::MatrixTile& m, bool fresh);
  // Products of f32 by the threads themselves (print_stream_threads.cpp).
  void place_exchange(const nest::Block& body, StreamLayout& l) const;
  void place_lanes();
  std::string cell_number() const;
  std::string of_row(const std::string& function) const;
  void multiply_by_threads(const nest::MatrixTile& m);
  std::string stream_place(nest::BufferId id) const;
  void multiply_by_groups(const nest::MatrixTile& m, bool fresh_sum);
  void multiply_by_warps(const nest::MatrixTile& m);
  void stream_rows(const nest::For& loop);
  void stream_row_statements(const nest::Block& statements);
  void replace_fragments(const std::string& row, const std::string& cell);
  void open_cells(int64_t columns);
  void stream_cells(const nest::For& loop);
  static NodeId before_rounding(const Body& body, DType type);
  bool stores_words(const nest::For& cells);
  void stream_words(const nest::Statement& statement, const nest::Store& store, int64_t columns);
  void stream_pairs(const nest::Store& store, int64_t columns);
  void open_wide(const nest::Store& store, int64_t columns);
  void stream_reduction(const nest::For& loop);
  static std::string common_scale(nest::Block& statements);
  struct Scaled {
    NodeId value;
    double by = 1;
  };
  static std::optional<Scaled> scaled(const Body& of, NodeId id);

  // Values of its columns and rows (print_stream_values.cpp).
  void place_values(StreamLayout& l) const;
  void fill_values(int64_t first, int64_t count);
  std::string value_place(int64_t at, const char* type) const;
  void name_values();
  std::string column_pair(const Node& n, const std::vector<nest::Access>& loads,
                          bool divides) const;
  bool only_pairs(const Node& n, const std::vector<nest::Access>& loads) const;
  bool tells_odd_columns() const;
  bool chosen_rows(const Body& of, NodeId id, const std::vector<nest::Access>& loads, double most,
                   std::set<nest::BufferId>& rows) const;
  std::string odd_operand(const Body& of, const Node& n,
                          const std::vector<nest::Access>& loads) const;
  std::string odd_cells(const nest::For& cells) const;
  std::string odd_statement(const nest::Statement& s) const;
  size_t usual_run(const nest::Block& statements, size_t begin, const std::string& odd) const;
  void settle_stored(const nest::Block& run);
  void either_run(const nest::Block& run, const std::string& odd);
  bool is_usual(const Body& of, const Node& n, const std::vector<nest::Access>& loads) const;

  // Values (print_body.cpp).
  using Values = std::vector<ValueText>;
  using NodeValues = IdVector<NodeId, ValueText>;
  struct Lanes {
    const nest::For* loop = nullptr;
    std::map<size_t, std::string> packs;  // by load: the pack that holds its lanes
    std::string element;                  // index of the lane in a pack
  };
  struct Region {  // of a fold
    const Values* arguments = nullptr;
  };
  NodeValues body(const Body& body, const std::vector<nest::Access>& loads, const Lanes* lanes,
                  const Region* region);
  std::string stream_exponential(const Body& of, const Node& n, const NodeValues& values,
                                 const std::vector<nest::Access>& loads) const;
  ValueText node(const Body& body, const Node& node, const NodeValues& values,
                 const std::vector<nest::Access>& loads, const Lanes* lanes, const Region* region);
  Values shared_fold(const Body& body, const Node& node, const NodeValues& values,
                     const std::vector<nest::Access>& loads, const Lanes* lanes);
  void open_fold(const Body& of, const Node& n, const NodeValues& values,
                 const std::string& counter, bool narrow);
  std::vector<ValueText> fold(const Body& body, const Node& node, const NodeValues& values,
                              const std::vector<nest::Access>& loads, const Lanes* lanes);
  Expr offset(const nest::Access& access) const;
  std::string place(const nest::Access& access, const NodeValues& values,
                    const std::vector<NodeId>& operands) const;
  std::string element(const nest::Access& access, const NodeValues& values,
                      const std::vector<NodeId>& operands);
  void store(const nest::Store& store, const Lanes* lanes, const std::string& pack);
  // Runs `print` where values that have been computed since are taken instead of computed again.
  void sharing(const std::function<void()>& print);
  // The name of a value of that type, declared here where it has none yet.
  std::string named(DType type, const std::string& value);
  // The lanes of the access are neighbours, the first at a multiple of the vector's size.
  bool packs(const nest::Access& access, const nest::For& loop) const;
  std::string pack_type(nest::BufferId buffer, const nest::For& loop) const;
  std::string pack_place(const nest::Access& access, const nest::For& loop);
  const nest::Buffer& buffer(nest::BufferId id) const { return nest_.buffers[id]; }

  const nest::Nest& nest_;
  const Target& target_;
  CudaSource source_;
  std::string text_;
  size_t indent_ = 0;
  int counter_ = 0;
  Variables variables_;
  Ranges ranges_;
  IdVector<nest::BufferId, std::string> names_;
  std::map<nest::BufferId, std::string> replaced_;  // buffers whose only element is a variable
  bool next_awaited_ = false;  // in the turn being printed, the stage that products ahead read
  std::string lane_;  // the loop whose variable numbers the elements of `replaced_`; empty: none
  bool matrix_prelude_ = false, mma_prelude_ = false;
  bool stream_prelude_ = false, stream_groups_ = false, stream_threads_ = false;
  std::set<std::string> stream_functions_;  // of wgmma, that are printed
  StreamLayout* stream_ = nullptr;          // of the kernel being printed
  // What is printed is inside a stream's loop; and of rows.
  bool stream_exponentials_ = false, stream_between_ = false;
  bool stream_either_ = false;  // in the text of one of both forms of cells (either_run())
  std::string stream_usual_;    // odd_cells(), where it does not hold
  std::map<nest::BufferId, size_t> workspace_, shared_;  // byte offsets by buffer
  int64_t block_ = 1;                                    // threads of the kernel being printed
  // Whether its grid and thread loops are dimensions of the launch, else counted along x.
  bool grid_dimensions_ = false, block_dimensions_ = false;
  bool ends_kernel_ = false;  // nothing comes after the statement being printed
  bool shares_ = false;       // equal values are computed once
  // The names of values by their texts; of folds, all names, the first carried one first.
  std::map<std::string, std::string> shared_values_;
  std::map<std::string, std::vector<std::string>> shared_folds_;
  std::set<nest::BufferId> declared_;   // private buffers of the block being printed
  bool ordered_loads_ = false;          // of arguments, in the kernel being printed
  std::set<nest::BufferId> written_;    // buffers that the kernel being printed stores to
  const nest::For* cluster_ = nullptr;  // its loop over the blocks of a cluster
  bool clusters_ = false;               // some kernel has one
  bool copies_ = false;                 // some kernel has asynchronous stores
  bool copies_later_ = false;           // the kernel being printed has
  // Of a cluster's kernel: which parts, between one barrier and the next, touch another block's
  // shared memory, the last being the one that is printed; and the loops around it.
  std::vector<bool> reaches_out_;
  int loops_ = 0;
  bool barrier_in_loop_ = false;
  bool in_thread_ = false;
  int64_t inner_threads_ = 1;  // threads for each iteration of the thread loop being printed
};

}  // namespace tile::cuda
