// The canonical form of kernels: the same whatever program they stand in, and good for schedules.
#include <gtest/gtest.h>

#include "core/kernel/alike.h"
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
    BoundTensor own = kernel.tensors[i];
    own.name += "_elsewhere";
    if (own.view_of) own.view_of = place(*own.view_of);
    tensors.push_back(own);
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

Piece& piece(Kernel& k) { return k.stages[0].contraction.pieces[0]; }

using Change = void (*)(Kernel&);
const Change kChanges[] = {
    [](Kernel&) {},
    [](Kernel& k) { ++piece(k).box[0]; },
    [](Kernel& k) { --piece(k).parallel_dims; },
    [](Kernel& k) { piece(k).constraints.push_back({iterator_affine(0), 0, 3, true}); },
    [](Kernel& k) { piece(k).constraints.push_back({iterator_affine(0), 0, 4, true}); },
    [](Kernel& k) { piece(k).constraints.push_back({iterator_affine(1), 0, 4, true}); },
    [](Kernel& k) { piece(k).constraints.push_back({iterator_affine(1), 0, 4, false}); },
    [](Kernel& k) { piece(k).loads[0].index[0].affine.constant += 1; },
    [](Kernel& k) { piece(k).loads[0].index[0].affine.coefficients.resize(9); },
    [](Kernel& k) { piece(k).loads[0].index[0].boundary = Boundary::clamp; },
    [](Kernel& k) { piece(k).loads[0].tensor = piece(k).loads.back().tensor; },
    [](Kernel& k) { std::swap(piece(k).loads[0].tensor, piece(k).loads.back().tensor); },
    [](Kernel& k) { piece(k).body.real(0.5, DType::f32); },
    [](Kernel& k) { piece(k).body.real(0.25, DType::f32); },
    [](Kernel& k) { piece(k).body.real(0.25, DType::f64); },
    [](Kernel& k) { piece(k).body.integer(7, DType::i32); },
    [](Kernel& k) { piece(k).body.integer(8, DType::i32); },
    [](Kernel& k) { piece(k).body.index(0, DType::i64); },
    [](Kernel& k) { piece(k).body.index(1, DType::i64); },
    [](Kernel& k) { piece(k).body.size(Expr::variable("n"), DType::i64); },
    [](Kernel& k) { piece(k).body.size(Expr::variable("m"), DType::i64); },
    [](Kernel& k) { piece(k).body.results[0] = NodeId(0); },
    [](Kernel& k) { piece(k).body.nodes[NodeId(0)].span.begin += 5; },
    [](Kernel& k) { k.stages[0].contraction.aggregation = Aggregation::max; },
    [](Kernel& k) { k.stages[0].contraction.accumulator = DType::f64; },
    [](Kernel& k) { k.stages[0].contraction.normalized ^= true; },
    [](Kernel& k) { k.stages[0].contraction.promised_injective ^= true; },
    [](Kernel& k) { k.stages[0].contraction.fill = k.reads[0]; },
    [](Kernel& k) { k.stages[0].residence = Residence::row; },
    [](Kernel& k) { k.stages[0].rows.push_back(IteratorId(0)); },
    [](Kernel& k) { k.stages[0].stream = IteratorId(0); },
    [](Kernel& k) { k.stages[0].rescale = StageId(0); },
    [](Kernel& k) { k.reads.pop_back(); },
    [](Kernel& k) { std::swap(k.reads.front(), k.reads.back()); },
    [](Kernel& k) { k.writes.push_back(k.reads[0]); },
    [](Kernel& k) { k.tensors.edit(k.reads[0]).shape[0] += 1; },
    [](Kernel& k) { k.tensors.edit(k.reads[0]).type = DType::bf16; },
    [](Kernel& k) { k.tensors.edit(k.reads[0]).role = TensorRole::temporary; },
    [](Kernel& k) { k.tensors.edit(k.reads[0]).fixed = true; },
    [](Kernel& k) { k.tensors.edit(k.reads[0]).tf32_parts = true; },
    [](Kernel& k) { k.tensors.edit(k.reads[0]).view_of = k.writes[0]; },
    [](Kernel& k) { k.tensors.edit(k.reads[0]).name += "_else"; },
    [](Kernel& k) {
      k.tensors.edit(k.reads[0]).constant =
          std::make_shared<const std::vector<std::byte>>(4, std::byte{1});
    },
    [](Kernel& k) {
      k.tensors.edit(k.reads[0]).constant =
          std::make_shared<const std::vector<std::byte>>(4, std::byte{2});
    },
};

// The kernels of the tests, and each with one of many things changed.
std::vector<Kernel> kernels_and_variants() {
  std::vector<Kernel> all;
  for (const Kernel& kernel :
       {testing::matrix_product(20, 30, 40), testing::matrix_product(20, 20, 20),
        testing::matrix_bias_gelu(20, 30, 40), testing::convolution(2, 14, 8, 16, 3, 1, 1)}) {
    for (Change change : kChanges) change(all.emplace_back(kernel));
  }
  return all;
}

TEST(Canonical, AlikeIsEqualText) {
  std::vector<Kernel> all = kernels_and_variants();
  std::vector<std::string> texts;
  for (const Kernel& k : all) texts.push_back(print(canonical(k)));
  size_t equal = 0;
  for (size_t a = 0; a < all.size(); ++a) {
    EXPECT_TRUE(alike(all[a], moved(all[a]))) << texts[a];
    for (size_t b = 0; b < all.size(); ++b) {
      equal += texts[a] == texts[b] ? 1 : 0;
      EXPECT_EQ(alike(all[a], all[b]), texts[a] == texts[b]) << texts[a] << "\n" << texts[b];
    }
  }
  EXPECT_GT(equal, all.size()) << "some changes change nothing";
}

}  // namespace
}  // namespace tile
