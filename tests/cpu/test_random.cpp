// Random nests against the interpreter. Integers, so that lanes may combine in any order; inside a
// vector loop the rows of written buffers are indexed by the lane's own column, so that lanes are
// independent, as a schedule promises.
#include <gtest/gtest.h>

#include <random>

#include "tests/cpu/nests.h"

namespace tile::cpu {
namespace {

constexpr int64_t kRows = 6, kColumns = 32, kLength = 50;
constexpr nest::BufferId kX(0), kY(1), kOut(2), kSums(3), kScratch(4), kCells(5);

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  nest::Nest run() {
    constexpr DType kTypes[] = {DType::i32, DType::i64, DType::u32};
    type_ = kTypes[pick(3)];
    nest_.name = "random";
    buffer("X", nest::Scope::argument, {kLength}, false);
    buffer("Y", nest::Scope::argument, {kRows, kColumns}, false);
    buffer("OUT", nest::Scope::argument, {kRows, kColumns}, true);
    buffer("SUMS", nest::Scope::argument, {kRows}, true);
    buffer("T", nest::Scope::scratch, {kRows, kColumns}, true);
    buffer("R", nest::Scope::registers, {2, 16}, true);
    nest_.parameters.push_back({"n", 0, 9});
    nest_.body.push_back({parallel()});
    int more = 1 + pick(2);
    for (int i = 0; i < more; ++i) nest_.body.push_back({serial_root()});
    return std::move(nest_);
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

  void buffer(const char* name, nest::Scope scope, Shape shape, bool written) {
    nest::Buffer b;
    b.name = name;
    b.type = type_;
    b.scope = scope;
    b.shape = shape;
    b.strides.assign(shape.size(), 1);
    for (size_t d = shape.size() - 1; d-- > 0;) b.strides[d] = b.strides[d + 1] * shape[d + 1];
    b.written = written;
    nest_.buffers.push_back(std::move(b));
  }

  Expr any_expression() {
    Expr e = pick(9) - 4;
    for (const std::string& v : variables_) {
      if (pick(2) == 0) e = e + Expr(pick(7) - 3) * Expr::variable(v);
    }
    if (pick(3) == 0) e = floor_div(e, 1 + pick(5)) + Expr(pick(3));
    if (pick(4) == 0) e = pick(2) == 0 ? min(e, Expr::variable("n")) : max(e, Expr(pick(4)));
    return e;
  }
  Expr below(int64_t n) { return floor_mod(any_expression(), n); }

  nest::Access any_read() {
    switch (pick(lane_.empty() ? 4 : 5)) {
      case 0:
        return {kX, {below(kLength)}, {}};
      case 1:
        return {kY, {below(kRows), below(kColumns)}, {}};
      case 2:
        return {kY, {below(kRows), column()}, {}};
      case 3:
        return {kScratch, {below(kRows), column()}, {}};
      default:
        return {kOut, {row(), column()}, {}};
    }
  }
  // Columns of written buffers belong to their lanes.
  Expr column() { return lane_.empty() ? below(kColumns) : Expr::variable(lane_); }
  // Rows of outputs belong to iterations of the parallel loop.
  Expr row() { return parallel_dim_.empty() ? below(kRows) : Expr::variable(parallel_dim_); }

  NodeId value(nest::Store& s, int depth) {
    int what = depth == 0 ? pick(3) : pick(7);
    if (what == 0) return s.body.integer(pick(20), type_);
    if (what == 1) {
      DType wide = DType::i64;
      return s.body.cast(s.body.size(any_expression(), wide), type_);
    }
    if (what == 2) {
      s.loads.push_back(any_read());
      return s.body.load(s.loads.size() - 1, type_);
    }
    NodeId a = value(s, depth - 1), b = value(s, depth - 1);
    if (what == 3) {
      NodeId less = s.body.operation(Op::lt, {a, b}, DType::bool_);
      return s.body.operation(Op::select, {less, b, value(s, depth - 1)}, type_);
    }
    constexpr Op kOps[] = {Op::add, Op::mul, Op::max, Op::div, Op::sub};
    return s.body.operation(kOps[pick(5)], {a, b}, type_);
  }

  nest::Statement store() {
    nest::Store s;
    bool sums = pick(4) == 0;
    s.target = sums           ? nest::Access{kSums, {row()}, {}}
               : pick(2) == 0 ? nest::Access{kScratch, {below(kRows), column()}, {}}
                              : nest::Access{kOut, {row(), column()}, {}};
    constexpr nest::StoreKind kKinds[] = {nest::StoreKind::add, nest::StoreKind::assign,
                                          nest::StoreKind::max, nest::StoreKind::fma};
    s.kind = sums ? nest::StoreKind::add : kKinds[pick(4)];
    s.body.results.push_back(value(s, 2));
    if (s.kind == nest::StoreKind::fma) s.body.results.push_back(value(s, 1));
    return {std::move(s)};
  }

  nest::For loop(nest::LoopKind kind, const Expr& begin, const Expr& extent) {
    nest::For f;
    f.kind = kind;
    f.variable = "v" + std::to_string(count_++);
    f.begin = begin;
    f.extent = extent;
    return f;
  }
  nest::Block inside(const std::string& variable, int depth) {
    variables_.push_back(variable);
    nest::Block b = block(depth);
    variables_.pop_back();
    return b;
  }

  nest::Statement statement(int depth) {
    int what = depth == 0 ? 0 : pick(6);
    if (what == 1) {
      Expr extent = pick(2) == 0 ? Expr(pick(4)) : floor_mod(any_expression(), 4);
      nest::For f = loop(nest::LoopKind::serial, any_expression(), extent);
      f.body = inside(f.variable, depth - 1);
      return {std::move(f)};
    }
    if (what == 2) {
      nest::For f = loop(nest::LoopKind::unrolled, any_expression(), pick(4));
      f.body = inside(f.variable, depth - 1);
      return {std::move(f)};
    }
    if (what == 3) {
      nest::If i;
      i.nonnegative.push_back(any_expression());
      if (pick(2) == 0) i.nonnegative.push_back(any_expression());
      i.then = block(depth - 1);
      if (pick(2) == 0) i.otherwise = block(depth - 1);
      return {std::move(i)};
    }
    if (what == 4 && lane_.empty()) return {vector_loop(depth)};
    return store();
  }

  nest::For vector_loop(int depth) {
    int64_t width = int64_t{1} << (1 + pick(4));
    Expr extent = pick(2) == 0 ? Expr(width) : floor_mod(any_expression(), width + 1);
    nest::For f =
        loop(nest::LoopKind::vector, width * floor_mod(any_expression(), kColumns / width), extent);
    f.width = width;
    lane_ = f.variable;
    f.body = inside(f.variable, depth - 1);
    lane_.clear();
    return f;
  }

  nest::Block block(int depth) {
    nest::Block b;
    int n = 1 + pick(3);
    for (int i = 0; i < n; ++i) b.push_back(statement(depth));
    return b;
  }

  // Contents are undefined until stored.
  void begin_scratch(nest::Block& b) {
    b.push_back({nest::Alloc{kScratch}});
    nest::For rows = loop(nest::LoopKind::serial, 0, kRows);
    nest::For columns = loop(nest::LoopKind::vector, 0, kColumns);
    columns.width = kColumns;
    nest::Store s;
    s.target = {kScratch, {Expr::variable(rows.variable), Expr::variable(columns.variable)}, {}};
    s.body.results.push_back(s.body.integer(3, type_));
    columns.body.push_back({std::move(s)});
    rows.body.push_back({std::move(columns)});
    b.push_back({std::move(rows)});
  }

  nest::For parallel() {
    nest::For f = loop(nest::LoopKind::parallel, 0, kRows);
    parallel_dim_ = f.variable;
    begin_scratch(f.body);
    add_cells(f.body);
    for (nest::Statement& s : inside(f.variable, 3)) f.body.push_back(std::move(s));
    parallel_dim_.clear();
    return f;
  }
  nest::For serial_root() {
    nest::For f = loop(nest::LoopKind::serial, 0, 2);
    begin_scratch(f.body);
    for (nest::Statement& s : inside(f.variable, 3)) f.body.push_back(std::move(s));
    return f;
  }

  // A register tile that a serial loop accumulates into and a last loop adds to the output.
  void add_cells(nest::Block& b) {
    b.push_back({nest::Alloc{kCells}});
    b.push_back(tile(nest::StoreKind::assign));
    nest::For k = loop(nest::LoopKind::serial, 0, floor_mod(any_expression(), 5));
    variables_.push_back(k.variable);
    k.body.push_back(tile(nest::StoreKind::fma));
    variables_.pop_back();
    b.push_back({std::move(k)});
    b.push_back(tile(nest::StoreKind::add));
  }
  nest::Statement tile(nest::StoreKind kind) {
    nest::For rows = loop(nest::LoopKind::unrolled, 0, 2);
    nest::For lanes =
        loop(nest::LoopKind::vector, 0, kind == nest::StoreKind::assign ? 16 : 1 + pick(16));
    lanes.width = 16;
    Expr r = Expr::variable(rows.variable), l = Expr::variable(lanes.variable);
    variables_.push_back(rows.variable);
    variables_.push_back(lanes.variable);
    lane_ = lanes.variable;
    nest::Store s;
    s.kind = kind;
    s.target = {kCells, {r, l}, {}};
    if (kind == nest::StoreKind::add) {
      s.target = {kOut, {row(), l}, {}};
      s.loads.push_back({kCells, {1 - r, l}, {}});
      s.body.results.push_back(s.body.load(0, type_));
    } else {
      s.body.results.push_back(value(s, 1));
      if (kind == nest::StoreKind::fma) s.body.results.push_back(value(s, 1));
    }
    lane_.clear();
    variables_.resize(variables_.size() - 2);
    lanes.body.push_back({std::move(s)});
    rows.body.push_back({std::move(lanes)});
    return {std::move(rows)};
  }

  std::mt19937_64 random_;
  nest::Nest nest_;
  DType type_ = DType::i32;
  std::vector<std::string> variables_;
  std::string lane_;          // the open vector loop's variable
  std::string parallel_dim_;  // the parallel loop's
  int count_ = 0;
};

TEST(CpuRandom, AsInterpreted) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    nest::Nest nest = Generator(seed).run();
    nest::verify(nest);
    SCOPED_TRACE("seed " + std::to_string(seed));
    cpu::Run run;
    run.targets = {seed % 4 == 0 ? "avx2" : "native"};
    run.parameters = {static_cast<int64_t>(seed % 10)};
    expect_as_interpreted(nest, small_integers(nest, seed), run);
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << nest::print(nest);
      break;
    }
  }
}

}  // namespace
}  // namespace tile::cpu
