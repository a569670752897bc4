// Meshes, layouts and their errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/distribute/sharded_run.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

using ::testing::HasSubstr;

const char* const kProduct =
    "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";

BoundProgram product(int64_t m = 6, int64_t l = 5, int64_t n = 4) {
  return bind_text(kProduct, {{DType::f32, {m, l}}, {DType::f32, {l, n}}});
}

std::string error(const std::string& mesh, const std::string& layouts) {
  return layout_error(product(), mesh, layouts);
}

TEST(Layouts, MeshesAreRead) {
  auto source = std::make_shared<const Source>(Source{"<mesh>", " x = 2 , y=4 # ranks"});
  Mesh mesh = parse_mesh(source);
  EXPECT_EQ(to_string(mesh), "x=2, y=4");
  EXPECT_EQ(mesh.ranks(), 8u);
  EXPECT_EQ(mesh.coordinates(6), (std::vector<int64_t>{1, 2}));
}

TEST(Layouts, BadMeshesAreLocated) {
  EXPECT_THAT(error("x=2, x=3", ""), HasSubstr("<mesh>:1:6: parse error [mesh]"));
  EXPECT_THAT(error("x=0", ""), HasSubstr("has no ranks"));
  EXPECT_THAT(error("x=2000", ""), HasSubstr("more than 256 ranks"));
  EXPECT_THAT(error("x=99999999999999999999", ""), HasSubstr("does not fit in 64 bits"));
  EXPECT_THAT(error("x=64, y=64", ""), HasSubstr("[limit]"));
  EXPECT_THAT(error("", ""), HasSubstr("expected the name of an axis"));
  EXPECT_THAT(error("x=2 y", ""), HasSubstr("<mesh>:1:5"));
}

TEST(Layouts, BadLayoutsAreLocated) {
  EXPECT_THAT(error("x=2", "A[x, z]"),
              HasSubstr("<layout>:1:6: parse error [mesh]: the mesh has no axis z"));
  EXPECT_THAT(error("x=2", "A[x, x]"), HasSubstr("the axis x is named twice"));
  EXPECT_THAT(error("x=2", "A[x]"), HasSubstr("A has 2 dimensions, but its layout has 1"));
  EXPECT_THAT(error("x=2", "A[x, *] A[*, x]"), HasSubstr("A has two layouts"));
  EXPECT_THAT(error("x=2", "D[x, *]"), HasSubstr("the program has no tensor D"));
  EXPECT_THAT(error("x=2", "D[x, *]"), HasSubstr("it has A, B, C"));
  EXPECT_THAT(error("x=2", "A[x(4, 3), *]"),
              HasSubstr("add up to 7, but dimension 0 of A has extent 6"));
  EXPECT_THAT(error("x=2", "A[x(6), *]"), HasSubstr("2 ranks, but there are 1 sizes"));
  EXPECT_THAT(error("x=2", "A[x(1, 2, 3), *]"), HasSubstr("there are more sizes"));
  EXPECT_THAT(error("x=2", "A[x, *"), HasSubstr("expected `,` or `]`, found the end of the text"));
  EXPECT_THAT(error("x=2", "C: q=x"), HasSubstr("has no index q"));
  EXPECT_THAT(error("x=2", "C: q=x"), HasSubstr("its indices are i, j, k"));
  EXPECT_THAT(error("x=2", "A: k=x"), HasSubstr("A has no terms that could be divided"));
  EXPECT_THAT(error("x=2", "C[*, *] + x"), HasSubstr("its terms are not divided over those axes"));
  EXPECT_THAT(error("x=2", "C: k=x, k=x"), HasSubstr("is cut twice"));
  EXPECT_THAT(error("x=2", "A[\x01, *]"), HasSubstr("found another character"));
  EXPECT_EQ(error("x=2", "A[x, *] B[*, *]; C: k=x"), "");
}

TEST(Layouts, LongTextsEndSoon) {
  std::string many = "A[";
  for (int i = 0; i < 200000; ++i) many += "*, ";
  EXPECT_THAT(error("x=2", many + "*]"), HasSubstr("its layout has 200001"));
  std::string sizes = "A[x(";
  for (int i = 0; i < 200000; ++i) sizes += "0, ";
  EXPECT_THAT(error("x=2", sizes + "0), *]"), HasSubstr("there are more sizes"));
  std::string open(1000000, '[');
  EXPECT_THAT(error("x=2", open), HasSubstr("expected the name of a tensor"));
}

TEST(Layouts, UnevenCutsDifferByOne) {
  PartitionedProgram p = divided(product(7, 5, 4), "x=4", "A[x, *]");
  std::vector<int64_t> rows;
  for (const Box& box : p.inputs[0]) rows.push_back(box.hi[0] - box.lo[0]);
  EXPECT_EQ(rows, (std::vector<int64_t>{2, 2, 2, 1}));
}

TEST(Layouts, UnnamedTensorsFollow) {
  PartitionedProgram p = divided(product(), "x=2, y=2", "C[x, y]");
  const Distribution& d = p.distribution;
  EXPECT_EQ(to_string(d.layouts[TensorId(0)], "A", d.mesh), "A[x, *]");
  EXPECT_EQ(to_string(d.layouts[TensorId(1)], "B", d.mesh), "B[*, y]");
  EXPECT_TRUE(p.exchanges.empty());
}

}  // namespace
}  // namespace tile::test
