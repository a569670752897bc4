// Conditions are conserved: after every pass and every fusion of random programs each domain is
// recomputed point by point, and the program run as the reference runs it.
#include <gtest/gtest.h>

#include "core/fusion/group.h"
#include "core/kernel/stream.h"
#include "core/pipeline/pipeline.h"
#include "tests/fusion/exact_domains.h"
#include "tests/fusion/row_programs.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/agreement/whole_agreement.h"
#include "tests/random/random_program.h"
#include "tests/random/random_whole.h"
#include "tests/support/run_tile.h"
#include "tests/support/schedule_kernels.h"

namespace tile::test {
namespace {

struct Checked {
  BoundProgram program;
  std::vector<HostTensor> inputs;
  std::function<std::string(const std::vector<HostTensor>&)> disagreement;
};

void expect_domains(const BoundProgram& program, const std::string& when) {
  for (const BoundStatement& s : program.statements) {
    const auto* c = std::get_if<Contraction>(&s);
    if (c == nullptr) continue;
    ASSERT_EQ(broken_domain(*c, program.tensors), "") << when << "\n" << print(program);
  }
}

// What both programs have they fill alike, and the second reads no more of the inputs.
void expect_conserved(const Touched& before, const BoundProgram& was, const Touched& after,
                      const BoundProgram& now, const std::string& when) {
  for (const auto& [id, cells] : after.cells) {
    auto same = before.cells.find(id);
    bool both = same != before.cells.end() && was.tensors[id].shape == now.tensors[id].shape;
    if (!both) continue;
    ASSERT_EQ(cells, same->second) << when << ", " << now.tensors[id].name;
  }
  for (const auto& [id, elements] : after.elements) {
    auto same = before.elements.find(id);
    for (int64_t element : elements) {
      bool known = same != before.elements.end() && same->second.contains(element);
      ASSERT_TRUE(known || !before.whole)
          << when << " reads element " << element << " of " << now.tensors[id].name;
    }
  }
}

// The stages' points are those of the program's statements, or fewer where cells are not needed.
void expect_points(const std::vector<Step>& steps, const BoundProgram& program,
                   const std::string& when) {
  std::map<TensorId, int64_t> points;
  for (const BoundStatement& s : program.statements) {
    const auto* c = std::get_if<Contraction>(&s);
    if (c == nullptr) continue;
    for (TensorId id : c->outputs) points[id] = count_points(*c);
  }
  for (const Step& step : steps) {
    const auto* kernel = std::get_if<Kernel>(&step);
    for (size_t s = 0; kernel != nullptr && s < kernel->stages.size(); ++s) {
      const KernelStage& stage = kernel->stages[s];
      ASSERT_EQ(broken_domain(stage.contraction, kernel->tensors), "") << when << "\n"
                                                                       << print(*kernel);
      int64_t now = count_points(stage.contraction);
      for (TensorId id : stage.contraction.outputs) {
        auto known = points.find(id);
        // A streamed kernel makes the program's sum from one of its own.
        if (known == points.end() || has_stream(*kernel) || now < 0) continue;
        bool cut = row_loops(*kernel) > 0;
        ASSERT_LE(now, known->second) << when << "\n" << print(*kernel);
        ASSERT_TRUE(cut || now == known->second) << when << "\n" << print(*kernel);
      }
    }
  }
}

void expect_conserved(Checked drawn, const Target& target, bool all) {
  try {
    Touched before = touched_by(drawn.program);
    BoundProgram was = drawn.program;
    PipelineOptions watch;
    watch.after = [&](std::string_view pass, const BoundProgram& now) {
      if (::testing::Test::HasFatalFailure()) return;
      std::string when = "after " + std::string(pass);
      expect_domains(now, when);
      Touched after = touched_by(now);
      expect_conserved(before, was, after, now, when);
      before = std::move(after);
      was = now;
    };
    run_pipeline(drawn.program, target, watch);
    GroupOptions options{.streams = all, .siblings = all, .pools = all, .rows = all};
    options.after = [&](std::string_view fusion, const std::vector<Step>& steps) {
      if (::testing::Test::HasFatalFailure()) return;
      std::string when = "after " + std::string(fusion);
      expect_points(steps, drawn.program, when);
      ASSERT_EQ(drawn.disagreement(interpret_steps(steps, drawn.program, drawn.inputs)), "")
          << when;
    };
    group(drawn.program, target, options);
  } catch (const InternalError& error) {
    ADD_FAILURE() << error.what();
  } catch (const Failure& failure) {
    ADD_FAILURE() << failure.what();
  }
}

void expect_row_program(uint64_t seed) {
  RowProgram drawn = row_program(seed);
  SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + drawn.text);
  BoundProgram program = bind_text(drawn.text, drawn.types);
  Interpretation expected = interpret(program, drawn.inputs, {}, true);
  auto disagreement = [&](const auto& got) { return difference(expected, got, drawn.exact); };
  expect_conserved({program, drawn.inputs, disagreement},
                   seed % 2 == 0 ? testing::wide_target() : testing::small_target(), seed % 4 < 2);
}

TEST(ExactDomains, RowPrograms) {
  for (uint64_t seed : seeds(0, 60)) expect_row_program(seed);
}

TEST(ExactDomains, SingleStatements) {
  for (uint64_t seed : seeds(0, 100)) {
    RandomCase drawn = random_case(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + drawn.text);
    BoundProgram program = bind_text(drawn.text, drawn.types);
    Interpretation expected = interpret(program, drawn.inputs, {}, true);
    auto disagreement = [&](const auto& got) { return difference(expected, got, drawn.exact); };
    expect_conserved({program, drawn.inputs, disagreement}, testing::wide_target(), seed % 2 == 0);
  }
}

// With gradients: accesses and conditions that nobody writes by hand.
TEST(ExactDomains, WholePrograms) {
  for (uint64_t seed : seeds(0, 30)) {
    WholeProgram drawn = random_whole(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + text_of(drawn));
    WholeCase whole = case_of(drawn);
    Expectation expected(whole);
    auto disagreement = [&](const auto& got) { return expected.disagreement(got); };
    expect_conserved(
        {tile::bind(*whole.program, whole.drawn.types), whole.drawn.inputs, disagreement},
        seed % 3 == 0 ? h200_target() : testing::wide_target(), seed % 2 == 0);
  }
}

}  // namespace
}  // namespace tile::test
