// The step of a loop in a program whose sizes are a class: a program by itself, whose kernels are
// chosen for it.
#include <gtest/gtest.h>

#include <utility>

#include "runtime/engine/engine.h"
#include "tests/executors/run_backends.h"

namespace tile::test {
namespace {

std::shared_ptr<Program> parsed(const std::string& text) {
  return std::make_shared<Program>(
      parse(Language::tile, std::make_shared<Source>(Source{"loop.tile", text})));
}

// A few trips of the step in place of the program's last statement, over its last input.
std::shared_ptr<Program> with_loop(const std::string& text, const std::string& step) {
  std::shared_ptr<Program> program = parsed(text);
  Repeat loop{parsed(step), {program->inputs.back()}, 6};
  program->statements.back().what = std::move(loop);
  return program;
}

// Kernels of the loop, which is the last launch.
size_t kernels_of_step(const Executable& e) {
  return e.launches.back().loop->step->launches.size();
}

// The program reads a cheap tensor A at several places, which is not to be stored; the step's A is
// costly. Where A has one element the program asks nothing about it, and what its class has on
// record is no answer for the step.
TEST(ClassLoops, StepsHaveChoicesOfTheirOwn) {
  std::shared_ptr<Engine> engine = test_engine("cpu", "", 1);
  auto program = std::make_shared<LoadedProgram>(
      engine, with_loop("function (X[S], U[N]) -> (Y, R) { A = X * 2 + 1;"
                        " Y[s: S] = =(A[s] + A[S - 1 - s]); R = U + 1; }",
                        "function (T[N]) -> (O) { A = exp(sin(exp(sin(exp(sin(T))))));"
                        " O[n: N] = =(A[n] + A[N - 1 - n]); }"));
  auto at = [&](int64_t size) {
    return program->executable({{{DType::f32, {size}}, {}}, {{DType::f32, {1000}}, {}}});
  };
  size_t alone = kernels_of_step(*at(20));
  EXPECT_EQ(alone, 2U) << "the costly tensor is stored";
  for (int64_t size : {1, 2, 5}) EXPECT_EQ(kernels_of_step(*at(size)), alone) << size;
}

}  // namespace
}  // namespace tile::test
