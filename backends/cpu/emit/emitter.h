// Emits one function of a nest: loops, guards and stores.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "backends/cpu/math/vector_math.h"
#include "backends/cpu/memory/memory.h"
#include "backends/cpu/plan/plan.h"
#include "backends/cpu/values/dot_products.h"
#include "backends/cpu/values/indices.h"
#include "backends/cpu/values/scopes.h"
#include "core/ir/analysis/integer_range.h"
#include "core/nest/nest.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {

// Adds a function for each entry of the plan to the module, named entry_0, entry_1 …:
//   void entry(void* const* buffers, const int64_t* parameters, std::byte* workspace,
//              std::byte* scratch, int64_t begin, int64_t end)
// A parallel loop runs its iterations [begin, end), counted from 0. Throws Failure (compile,
// "limit") for nests that would become too much code.
void emit_module(llvm::Module& module, const nest::Nest& nest, const Plan& plan,
                 HalfConversion half, const DotInstructions& dots);

class FunctionEmitter {
 public:
  FunctionEmitter(llvm::Function& function, const nest::Nest& nest, const Plan& plan,
                  HalfConversion half, const DotInstructions& dots);
  void run(const Entry& entry);
  int64_t statements() const { return statements_; }

 private:
  void block(const nest::Block& statements);
  void statement(const nest::For& f);
  void statement(const nest::If& i);
  void statement(const nest::Store& s);
  void statement(const nest::Alloc& a) {
    memory_.forget(a.buffer);
    begun_[a.buffer] = loops_.size();
  }
  [[noreturn]] void statement(const nest::Sync&) {
    fail(Stage::compile, "unsupported", {}, "a nest with barriers is for GPUs");
  }
  [[noreturn]] void statement(const nest::Copy&) {
    fail(Stage::compile, "unsupported", {}, "a nest with bulk copies is for GPUs");
  }
  void statement(const nest::MatrixTile& m);
  void statement(const nest::MatrixMove& m);

  // Tile registers (emit_amx_tiles.cpp).
  struct TilePool {  // registers for operands of one size
    std::vector<unsigned> registers;
    std::vector<Key> held;  // what each one holds
    size_t next = 0;        // the one that is filled next
  };
  using TileSize = std::pair<int64_t, int64_t>;  // rows, bytes of a row
  struct TileRegisters {
    std::map<int, unsigned> sums;  // by fragment
    std::map<TileSize, TilePool> rows, columns;
  };
  bool begins_tiles(const nest::Block& statements, size_t first) const;
  void configure_tiles(const nest::Block& statements, size_t first);
  void load_configuration(const std::string& bytes);
  void begin_configuration();
  static TileSize rows_of(const nest::MatrixTile& m, const nest::Buffer& sum);
  static TileSize columns_of(const nest::MatrixTile& m, const nest::Buffer& sum);
  unsigned tile_operand(TilePool& pool, int buffer, const nest::MatrixPart& part);
  Form place_of(int buffer, const nest::MatrixPart& part);
  llvm::Value* row_bytes(int buffer, const nest::MatrixPart& part);

  // Loops.
  void written_out(const nest::For& f, const Form& begin, int64_t extent);
  void vector_loop(const nest::For& f, const Form& begin, const Form& extent);
  void begin_running(const nest::Block& statements);
  llvm::Value* running_value(const Reference& r);
  llvm::Value* on_every_lane(llvm::Value* value);
  bool runs_back(const nest::Block& statements, const std::string& variable, const Form& begin);
  void update_running(const nest::Store& s, const Reference& target, llvm::Value* value,
                      llvm::Value* factor);
  void counted_loop(const nest::For& f, const Form& begin, const Form& extent);
  void loop_by_lane(const nest::For& f, const Form& begin, const Form& extent);
  void parallel_loop(const nest::For& f);
  struct Count {
    llvm::Value *begin = nullptr, *end = nullptr;
    bool certain = false;  // at least one iteration
    int64_t run = 0;       // iterations between two questions; 0: none are asked
  };
  void count_up(const Count& count, const std::set<int>& stored,
                const std::function<void(llvm::Value*)>& body);
  // Iterations of a loop between two questions; 0: it asks none.
  int64_t run_of(const void* loop) const;
  void ask(llvm::BasicBlock* next);
  llvm::Value* first_end(llvm::Value* begin, llvm::Value* end, int64_t run);
  void finish();
  void body_with(const nest::For& f, Form variable);
  void counted_body(const nest::For& f, const Form& variable);

  // Prefetches (emit_prefetch.cpp).
  struct TileLoop {
    std::string variable;
    Form at;
  };
  struct Line {
    int buffer = -1;
    Form offset;
    Key key() const;
  };
  struct FarLines {
    std::vector<Line> lines;
    int64_t period = 64;  // iterations of the reduction along one line
  };
  Form offset_of(const nest::Access& a);
  int64_t move_of(const nest::Access& a, const std::string& variable, const Form& at);
  bool visit_stores(const nest::Block& body, size_t loop,
                    const std::function<void(const nest::Store&)>& visit);
  FarLines lines_ahead(const nest::For& f, const Form& at);
  void prefetch_next_tile(const nest::For& f, const Form& at, llvm::Value* i);
  std::vector<Line> lines_later(const nest::For& f, const Form& at);
  void prefetch_operands(const nest::For& f, const Form& at, llvm::Value* i);
  std::optional<Form> far_row(const nest::Store& s);
  void prefetch_next_row(const nest::Store& s, const Form& row, int64_t size);
  void prefetch_along_row(const nest::Store& s, const Form& row, int64_t size);
  void prefetch_later_stores(const nest::Store& s);

  // Blocks turned in registers (emit_transpose.cpp).
  struct WrittenOut {
    std::string variable;
    Form begin;
    int64_t extent = 0;
  };
  bool turns(const nest::For& f, const WrittenOut& loop);
  bool advances(const WrittenOut& loop, int64_t step, const std::function<Form()>& form);
  void read_transposed(const WrittenOut& loop, const nest::Block& stores);

  // Guards.
  struct Condition {
    llvm::Value* uniform = nullptr;  // i1; null: true
    llvm::Value* lanes = nullptr;    // null: all
    bool never = false;
  };
  Condition nonnegative(const std::vector<Expr>& forms);
  void add_predicate(Condition& c, const nest::If& i);
  llvm::Value* predicate(const nest::If& i, const Condition& c);
  void both_sides(const Condition& c, const nest::If& i);
  void conditional(llvm::Value* condition, const std::function<void()>& then,
                   const std::function<void()>& otherwise = {});
  Lanes masked(llvm::Value* mask);
  void within(const Lanes& lanes, const std::function<void()>& emit);

  // Stores.
  using Nodes = std::vector<llvm::Value*>;
  void update(const nest::Store& s, const Reference& target, llvm::Value* value,
              llvm::Value* factor);
  void update_from_lanes(const nest::Store& s, const Reference& target, llvm::Value* value,
                         llvm::Value* factor);
  void update_lane_by_lane(const nest::Store& s, const Reference& target, llvm::Value* value,
                           llvm::Value* factor);
  size_t components_from(const nest::Block& statements, size_t first) const;
  bool store_together(const nest::Block& statements, size_t first, size_t count);
  void count_store();
  llvm::Value* last_lane(llvm::Value* value);

  // Components computed alike (emit_components.cpp).
  struct Components {
    std::vector<const nest::Store*> stores;
    std::map<std::vector<NodeId>, llvm::Value*> values;  // by a node of each store's body
    const Body& body(size_t c) const { return stores[c]->body; }
    const nest::Access& access(size_t c, NodeId id) const;
    std::vector<NodeId> arguments(const std::vector<NodeId>& ids, size_t which) const;
  };
  static bool same_pixel(const nest::Access& a, const nest::Access& b);
  bool reads_components(const Components& all, const std::vector<NodeId>& ids);
  bool packs(const Components& all, const std::vector<NodeId>& ids,
             std::set<std::vector<NodeId>>& known);
  llvm::Value* packed(Components& all, const std::vector<NodeId>& ids);
  llvm::Value* packed_pixels(const std::vector<const nest::Store*>& stores);

  // Bodies: the values of the nodes that the results and `roots` need.
  struct BodyValues {
    const Body& body;
    const std::vector<nest::Access>& loads;
    Nodes arguments;                     // of a fold's region; the counter's is null
    Nodes nodes = {};                    // null: not needed, or a fold
    std::map<NodeId, Nodes> folds = {};  // their results
    const std::string* counter = nullptr;
    std::vector<std::optional<IntegerRange>> ranges = {};  // of the nodes, where some divides
  };
  Nodes values(const Body& body, const std::vector<nest::Access>& loads,
               const std::vector<NodeId>& roots = {});
  void emit(BodyValues& values, const std::vector<NodeId>& roots);
  llvm::Value* node_value(BodyValues& values, NodeId id);
  llvm::Value* size_value(const Expr& e, DType type);
  llvm::Value* loaded(const BodyValues& values, const Node& node);

  // Folds (emit_fold.cpp).
  struct FoldLoop {
    Form begin;
    llvm::Value* rounds = nullptr;
    llvm::Value* counts = nullptr;  // each lane's rounds, where they differ
    bool certain = false;           // there is at least one round
  };
  Form bound_form(const BodyValues& values, NodeId id);
  Form nominal_counter(const std::string& name);
  void describe(const Body& region, const std::vector<nest::Access>& loads, Key& key,
                std::set<int>& buffers);
  Nodes fold(const BodyValues& values, const Node& node);
  Nodes new_fold(const BodyValues& values, const Node& node);
  struct Rounds {  // a loop that carries values
    llvm::BasicBlock *block = nullptr, *latch = nullptr;
    llvm::PHINode *number = nullptr, *end = nullptr;  // `end`: of a run
    std::vector<llvm::PHINode*> carried;
  };
  Rounds begin_rounds();
  void enter(Rounds& r, llvm::BasicBlock* before, llvm::Value* number, const Nodes& carried);
  void again(Rounds& r, llvm::Value* number, const Nodes& carried);
  Nodes fold_loop(const BodyValues& values, const Node& node, Nodes starts, const FoldLoop& loop);
  Nodes fold_round(const BodyValues& values, const Node& node, llvm::Value* round,
                   const Nodes& arguments, const FoldLoop& loop);
  std::vector<bool> varying_nodes(const Body& region, const std::vector<nest::Access>& loads,
                                  const std::vector<bool>& arguments);
  std::vector<bool> varying_carried(const Node& fold, const std::vector<nest::Access>& loads,
                                    std::vector<bool> given, bool differ);

  llvm::Value* operation(const Body& body, const Node& node, const Nodes& nodes);
  std::vector<std::optional<IntegerRange>> ranges_of(const Body& body) const;
  llvm::Value* small_quotient(const BodyValues& values, const Node& node);
  llvm::Value* literal(const Node& node);
  bool is_settled(llvm::Value* value) const;
  llvm::Value* splat(llvm::Value* value);

  DType type_of(int buffer) const { return nest_.buffers[static_cast<size_t>(buffer)].type; }

  llvm::Function& function_;
  const nest::Nest& nest_;
  HalfConversion half_;
  DotInstructions dots_;
  llvm::IRBuilder<> ir_;
  Scopes scopes_;
  Indices indices_;
  Memory memory_;
  Lanes lanes_;
  std::optional<WrittenOut> block_;       // its first iteration is being emitted
  std::vector<TileLoop> loops_;           // counted ones around the present statement
  std::map<int, size_t> begun_;           // buffers' lives: within how many of these
  std::map<std::string, Form> counters_;  // nominal ones
  // Values of the function's scope: run-time parameters and what is computed from them alone.
  std::set<llvm::Value*> settled_;
  // Of the ordered vector loop that is being emitted: by buffer and cell, what the cell holds in
  // each lane's iteration.
  std::map<std::pair<int, int64_t>, llvm::AllocaInst*> running_;
  std::vector<llvm::AllocaInst*> running_cells_;  // of all such loops
  std::set<std::pair<int, int64_t>> updated_;     // cells of running_ that are updated already
  bool mirrored_ = false;                         // of that loop: its last iteration is in lane 0
  // Running values that such loops left, and the vectors that have them on every lane.
  std::map<llvm::Value*, llvm::Value*> on_lanes_;
  TileRegisters tiles_;                             // of the fragments that are alive
  std::map<std::string, uint32_t> configurations_;  // numbered, from 1
  llvm::AllocaInst* configured_ = nullptr;          // which one the processor has; 0: none
  const LongLoops& long_loops_;
  llvm::Value* question_ = nullptr;      // pointer to a Question or null, in code that asks
  llvm::BasicBlock* stopped_ = nullptr;  // where a question that is answered with yes ends
  int64_t statements_ = 0;
  llvm::BasicBlock* stores_in_ = nullptr;  // the block that stores_ counts
  int stores_ = 0;
};

}  // namespace tile::cpu
