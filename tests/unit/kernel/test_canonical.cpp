// The canonical form of kernels: the same whatever program they stand in, and good for schedules.
#include <gtest/gtest.h>

#include "core/kernel/canonical.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "tests/support/schedule_kernels.h"

namespace tile {
namespace {

Target target() {
  Target t;
  t.vector_bits = 256;
  t.threads = 2;
  return t;
}

// The kernel as it would be in a program with other tensors before and between its own.
Kernel moved(const Kernel& kernel) {
  Kernel other = kernel;
  BoundTensors tensors;
  auto place = [](TensorId id) { return TensorId(2 * id.number() + 1); };
  for (size_t i = 0; i < kernel.tensors.size(); ++i) {
    BoundTensor unused;
    unused.name = "unused" + std::to_string(i);
    tensors.push_back(unused);
    tensors.push_back(kernel.tensors[i]);
    tensors.back().name += "_elsewhere";
    if (tensors.back().view_of) tensors.back().view_of = place(*tensors.back().view_of);
  }
  other.name = "elsewhere";
  other.tensors = tensors;
  if (!kernel.shapes.empty()) {
    other.shapes.assign(tensors.size(), {});
    for (size_t i = 0; i < kernel.shapes.size(); ++i) other.shapes[2 * i + 1] = kernel.shapes[i];
  }
  for (TensorId& id : other.reads) id = place(id);
  for (TensorId& id : other.writes) id = place(id);
  for (KernelStage& stage : other.stages) {
    for (TensorId& id : stage.contraction.outputs) id = place(id);
    if (stage.contraction.fill) stage.contraction.fill = place(*stage.contraction.fill);
    for (Piece& piece : stage.contraction.pieces) {
      for (std::string& name : piece.iterators) name += "_elsewhere";
      for (Access& a : piece.stores) a.tensor = place(a.tensor);
      for (Access& a : piece.loads) a.tensor = place(a.tensor);
    }
  }
  return other;
}

void expect_one_form(const Kernel& kernel) {
  Kernel plain = canonical(kernel);
  verify(plain);
  EXPECT_EQ(print(canonical(moved(kernel))), print(plain));
  EXPECT_EQ(print(canonical(plain)), print(plain)) << "once is enough";
  auto text = std::make_shared<const Source>(Source{"kernel", print(plain)});
  EXPECT_EQ(print(parse_kernel(text)), print(plain));
  for (const Schedule& s : candidates(kernel, target(), 8)) {
    EXPECT_EQ(illegal(s, plain, target()), "") << print(s);
  }
}

TEST(Canonical, ProgramsDoNotShow) {
  expect_one_form(testing::matrix_product(20, 30, 40));
  expect_one_form(testing::matrix_bias_gelu(20, 30, 40));
  expect_one_form(testing::convolution(2, 14, 8, 16, 3, 1, 1));
  expect_one_form(testing::filter_gradient(2, 14, 8, 16, 3, 1));
  expect_one_form(testing::row_sum(5, 6, false));
}

TEST(Canonical, SizesAndAccessesShow) {
  std::string plain = print(canonical(testing::matrix_product(20, 30, 40)));
  EXPECT_NE(print(canonical(testing::matrix_product(20, 30, 41))), plain);
  Kernel transposed = testing::matrix_product(20, 20, 20);
  std::string square = print(canonical(transposed));
  std::swap(transposed.stages[0].contraction.pieces[0].loads[0].index[0],
            transposed.stages[0].contraction.pieces[0].loads[0].index[1]);
  EXPECT_NE(print(canonical(transposed)), square);
}

}  // namespace
}  // namespace tile
