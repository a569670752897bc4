// One row that threads scan in turns: the nest against the one without turns, the code against the
// nest, and which loops may run as a chain.
#include <gtest/gtest.h>

#include "backends/cpu/plan/plan.h"
#include "core/fusion/group.h"
#include "core/kernel/geometry.h"
#include "core/language/tile/tile.h"
#include "core/lower/lower.h"
#include "core/nest/passes/nest_passes.h"
#include "core/passes/bind/bind.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "tests/cpu/nests.h"
#include "tests/support/run_tile.h"

namespace tile::cpu {
namespace {

Target wide_target() {
  Target target;
  target.device = "cpu";
  target.vector_bits = 512;
  target.vector_registers = 32;
  return target;
}

struct Row {
  DType type = DType::f32;
  char aggregation = '+';
  bool suffix = false, after = false;  // `after`: a pointwise stage computed with the cells
  int64_t cells = 0;

  Kernel kernel(const Target& target) const {
    std::string n = std::to_string(cells);
    std::string text = "function (X[M, N]) -> (O" + std::string(after ? ", R" : "") +
                       ") { O[m, i: M, N] = " + aggregation + "(X[m, k]), " +
                       (suffix ? "k - i < " : "i - k < ") + n + ";" +
                       (after ? " R = O + X; }" : " }");
    BoundProgram program = test::bind_text(text, {{type, {1, cells}}});
    run_pipeline(program, target);
    return std::get<Kernel>(group(program, target).at(0));
  }
};

// Blocks of `block` cells, `turn` of them in a turn; 0: no turns.
Schedule in_turns(const Kernel& kernel, int64_t block, int64_t turn, const Target& target) {
  Schedule schedule = analytic_schedule(kernel, target);
  const Piece& piece = kernel.stages[0].contraction.pieces[0];
  PieceSchedule s;
  for (size_t u = 0; u < piece.parallel_dims; ++u) {
    if (piece.box[u] > 1) s.carried = IteratorId(u);
    if (piece.box[u] == 1) s.outer.push_back({IteratorId(u), 1, Binding::serial});
  }
  if (turn > 0) s.outer.insert(s.outer.begin(), {s.carried, block * turn, Binding::parallel});
  s.outer.push_back({s.carried, block, Binding::serial});
  if (block > 16) s.tile.push_back({s.carried, 16, Binding::unroll});
  s.tile.push_back({s.carried, 1, Binding::vector});
  schedule.stages[0] = {s};
  return schedule;
}

TEST(CpuChainedScans, TurnsOfAllKinds) {
  Target target = wide_target();
  int chains = 0;
  for (DType type : {DType::f32, DType::f64, DType::i32, DType::i8, DType::bf16}) {
    for (char aggregation : {'+', '*', '>', '<'}) {
      for (int64_t cells : {99, 200, 331, 1024}) {
        Row row{type, aggregation, cells % 2 == 0, cells > 300, cells};
        Kernel kernel = row.kernel(target);
        int64_t block = cells < 100 ? 16 : 32, turn = 2 + cells % 2;
        Schedule schedule = in_turns(kernel, block, turn, target);
        SCOPED_TRACE(print(kernel) + print(schedule));
        ASSERT_EQ(illegal(schedule, kernel, target), "");
        nest::Nest nest = nest::run_passes(lower(kernel, schedule, target), target);
        for (const Entry& e : plan(nest).entries) chains += e.chained ? 1 : 0;
        std::vector<HostTensor> given = small_integers(nest, static_cast<uint64_t>(cells));
        expect_as_interpreted(nest, given, {.threads = 4});
        std::vector<HostTensor> turned = given, plain = given;
        auto run = [&](const nest::Nest& n, std::vector<HostTensor>& tensors) {
          std::vector<HostTensor*> list;
          for (HostTensor& t : tensors) list.push_back(&t);
          nest::interpret(n, list);
        };
        run(nest, turned);
        run(lower(kernel, in_turns(kernel, block, 0, target), target), plain);
        for (size_t t = 0; t < plain.size(); ++t) {
          for (int64_t i = 0; i < plain[t].count(); ++i) {
            ASSERT_TRUE(same_value(turned[t].at(i), plain[t].at(i))) << t << " " << i;
          }
        }
      }
    }
  }
  EXPECT_EQ(chains, 5 * 4 * 4);
}

TEST(CpuChainedScans, OnlyOneWholeRowOfCells) {
  Target target = wide_target();
  Kernel kernel = Row{DType::f32, '+', false, false, 128}.kernel(target);
  EXPECT_EQ(illegal(in_turns(kernel, 32, 2, target), kernel, target), "");
  EXPECT_NE(illegal(in_turns(kernel, 32, 4, target), kernel, target), "");
}

// Tiles longer than the registers down columns: the nest against the one of single cells, the code
// against the nest.
TEST(CpuLongTiles, ColumnsOfAllKinds) {
  Target target = wide_target();
  for (char aggregation : {'+', '*', '>', '<'}) {
    for (int64_t columns : {64, 75, 300}) {
      std::string rule = aggregation == '*' ? "k - i < 9" : "i - k < 9";
      std::string text = std::string("function (X[M, N]) -> (O, R) { O[i, n: M, N] = ") +
                         aggregation + "(X[k, n]), " + rule + "; R = O + X; }";
      BoundProgram program = test::bind_text(text, {{DType::f32, {9, columns}}});
      run_pipeline(program, target);
      Kernel kernel = std::get<Kernel>(group(program, target).at(0));
      Schedule plain = analytic_schedule(kernel, target), schedule = plain;
      PieceSchedule s;
      s.carried = IteratorId(0);
      s.outer = {{IteratorId(1), 1, Binding::serial}};
      plain.stages[0] = {s};
      s.outer = {{IteratorId(1), 64, Binding::serial}};
      s.tile = {{IteratorId(1), 32, Binding::serial},
                {IteratorId(1), 16, Binding::unroll},
                {IteratorId(1), 1, Binding::vector}};
      schedule.stages[0] = {s};
      SCOPED_TRACE(print(kernel) + print(schedule));
      ASSERT_EQ(illegal(schedule, kernel, target), "");
      nest::Nest nest = nest::run_passes(lower(kernel, schedule, target), target);
      std::vector<HostTensor> given = small_integers(nest, static_cast<uint64_t>(columns));
      expect_as_interpreted(nest, given, {.threads = 2});
      std::vector<HostTensor> longer = given, single = given;
      auto run = [&](const nest::Nest& n, std::vector<HostTensor>& tensors) {
        std::vector<HostTensor*> list;
        for (HostTensor& t : tensors) list.push_back(&t);
        nest::interpret(n, list);
      };
      run(nest, longer);
      run(lower(kernel, plain, target), single);
      for (size_t t = 0; t < single.size(); ++t) {
        for (int64_t i = 0; i < single[t].count(); ++i) {
          ASSERT_TRUE(same_value(longer[t].at(i), single[t].at(i))) << t << " " << i;
        }
      }
    }
  }
}

TEST(CpuLongTiles, OnlyOfPrefixesAndSuffixes) {
  Target target = wide_target();
  auto legal = [&](const std::string& text) {
    BoundProgram program = test::bind_text(text, {{DType::f32, {20, 64}}});
    run_pipeline(program, target);
    Kernel kernel = std::get<Kernel>(group(program, target).at(0));
    Schedule schedule = analytic_schedule(kernel, target);
    PieceSchedule s;
    s.carried = IteratorId(0);
    s.outer = {{IteratorId(1), 64, Binding::serial}};
    s.tile = {{IteratorId(1), 16, Binding::serial}, {IteratorId(1), 1, Binding::vector}};
    schedule.stages[0] = {s};
    return illegal(schedule, kernel, target).empty();
  };
  EXPECT_TRUE(legal("function (X[M, N]) -> (O) { O[i, n: M, N] = +(X[k, n]), i - k < M; }"));
  EXPECT_FALSE(legal("function (X[M, N]) -> (O) { O[i, n: M - 9, N] = +(X[i + k, n]), k < 10; }"));
}

// The sums of turn t in T[t], those of the turns before in B[t].
std::string chain(const std::string& total, const std::string& link, const std::string& read) {
  return "nest n\nargument X: f32 [8, 4] strides [4, 1]\nargument Z: f32 [8, 4] strides [4, 1] "
         "written\nworkspace T: f32 [8] strides [1] written\nworkspace B: f32 [9] strides [1] "
         "written\nalloc T\nalloc B\nassign B[0] () { %0:f32 = real 0; yield %0 }\n"
         "parallel t from [0] extent [8] grain 1 {\nassign T[t] () { %0:f32 = real 0; yield %0 }\n"
         "serial k from [0] extent [4] { add T[" +
         total +
         "] (X[t, k]) { %0:f32 = load 0; yield %0 } }\n}\n"
         "serial l from [0] extent [8] {\nassign B[l + 1] (B[" +
         link +
         "]) { %0:f32 = load 0; yield %0 }\nadd B[l + 1] (T[l]) { %0:f32 = load 0; yield %0 "
         "}\n}\nparallel t from [0] extent [8] grain 1 {\nserial k from [0] extent [4] { assign "
         "Z[t, k] (B[" +
         read +
         "], X[t, k]) { %0:f32 = load 0; %1:f32 = load 1; %2:f32 = add %0 %1; yield %2 } }\n}\n";
}

TEST(CpuChainedScans, LoopsThatMayRunAsAChain) {
  auto chained = [](const std::string& text) {
    std::vector<Entry> entries = plan(parse(text)).entries;
    return std::any_of(entries.begin(), entries.end(), [](const Entry& e) { return e.chained; });
  };
  EXPECT_TRUE(chained(chain("t", "l", "t")));
  EXPECT_FALSE(chained(chain("0", "l", "t")));      // a turn changes another's total
  EXPECT_FALSE(chained(chain("t", "l", "t + 1")));  // needs a turn that has not been
  EXPECT_FALSE(chained(chain("t", "l", "8")));
  for (const char* read : {"t", "t + 1", "8"}) {
    expect_as_interpreted(chain("t", "l", read), {.threads = 4});
  }
}

}  // namespace
}  // namespace tile::cpu
