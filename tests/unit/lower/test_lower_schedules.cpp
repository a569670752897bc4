// Every legal schedule gives the same values: random schedules of each class against brute force,
// before and after partition.
#include <gtest/gtest.h>

#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

constexpr int kSchedules = 200;

TEST(LowerSchedules, MatrixProduct) {
  expect_all_schedules_agree(matrix_product(7, 19, 11), kSchedules);
}
TEST(LowerSchedules, MatrixProductOfOneColumnMoreThanLanes) {
  expect_all_schedules_agree(matrix_product(5, 17, 6), kSchedules, 500);
}
TEST(LowerSchedules, MatrixProductBf16Rule4_8) {
  expect_all_schedules_agree(matrix_product(5, 18, 9, DType::bf16), kSchedules, 1000);
}
TEST(LowerSchedules, MatrixProductI8Rule4_8) {
  expect_all_schedules_agree(matrix_product(6, 17, 10, DType::i8), kSchedules, 2000);
}
TEST(LowerSchedules, MatrixBiasGeluRule5_7) {
  expect_all_schedules_agree(matrix_bias_gelu(6, 18, 7), kSchedules, 3000);
}
TEST(LowerSchedules, Convolution) {
  expect_all_schedules_agree(convolution(2, 6, 3, 5, 3, 1, 0), kSchedules, 4000);
}
TEST(LowerSchedules, PaddedConvolutionRule4_1) {
  expect_all_schedules_agree(convolution(1, 7, 2, 5, 3, 2, 1), kSchedules, 5000);
}
TEST(LowerSchedules, FilterGradient) {
  expect_all_schedules_agree(filter_gradient(2, 5, 3, 5, 3, 1), kSchedules, 14000);
}
TEST(LowerSchedules, Depthwise) {
  expect_all_schedules_agree(depthwise(13, 9, 5), kSchedules, 6000);
}
TEST(LowerSchedules, MaxPool) {
  expect_all_schedules_agree(max_pool(8, 5, 3, 2, 1), kSchedules, 7000);
}
TEST(LowerSchedules, RowSum) {
  expect_all_schedules_agree(row_sum(9, 70, false), kSchedules, 8000);
}
TEST(LowerSchedules, ColumnSum) {
  expect_all_schedules_agree(row_sum(37, 20, true), kSchedules, 9000);
}
TEST(LowerSchedules, PrefixSum) { expect_all_schedules_agree(prefix_sum(29), kSchedules, 10000); }
TEST(LowerSchedules, ScaledCopy) {
  expect_all_schedules_agree(scaled_copy({3, 5, 21}), kSchedules, 11000);
}
TEST(LowerSchedules, Transpose) {
  expect_all_schedules_agree(transpose(13, 21), kSchedules, 12000);
}

}  // namespace
}  // namespace tile::testing
