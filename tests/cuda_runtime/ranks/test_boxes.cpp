// Boxes as rows of bytes and as kernels, against the copies and sums of the host.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "core/ir/ranks/reduce_part.h"
#include "runtime/ranks/box_rows.h"
#include "runtime/ranks/device/combine_nest.h"

namespace tile::test {
namespace {

struct Drawn {
  Shape shape;
  Box part, box;  // the box is in the part
};

Drawn drawn(std::mt19937_64& random) {
  Drawn d;
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int64_t dims = below(6); dims > 0; --dims) {
    int64_t extent = 1 + below(4);
    int64_t lo = below(2) == 0 ? 0 : below(extent), hi = lo + 1 + below(extent - lo);
    if (below(3) == 0) lo = 0, hi = extent;
    int64_t from = lo + below(hi - lo), to = from + 1 + below(hi - from);
    if (below(2) == 0) from = lo, to = hi;
    d.shape.push_back(extent);
    d.part.lo.push_back(lo);
    d.part.hi.push_back(hi);
    d.box.lo.push_back(from);
    d.box.hi.push_back(to);
  }
  return d;
}

// As a device does it.
void copy(const RowCopy& c) {
  for (size_t s = 0; s < c.rows[0]; ++s) {
    for (size_t r = 0; r < c.rows[1]; ++r) {
      std::memcpy(c.to.first + s * c.to.slice + r * c.to.pitch,
                  c.from.first + s * c.from.slice + r * c.from.pitch, c.width);
    }
  }
}

HostTensor random_tensor(DType type, Shape shape, std::mt19937_64& random) {
  HostTensor t(type, std::move(shape));
  for (int64_t i = 0; i < t.count(); ++i) {
    t.set(i, convert(integer_scalar(static_cast<int64_t>(random() % 9) - 4, DType::i64), type));
  }
  return t;
}

TEST(BoxRows, CopiesAreThoseOfTheHost) {
  std::mt19937_64 random(1);
  size_t most_dims = 0, several = 0;
  for (int i = 0; i < 2000; ++i) {
    Drawn d = drawn(random);
    DType type = i % 2 == 0 ? DType::u8 : DType::f32;
    size_t width = byte_size(type);
    HostTensor part = random_tensor(type, d.part.shape(), random);
    HostTensor expected = random_tensor(type, d.shape, random), got = expected;
    // What the host would copy: the box's cells of the part, as a part of their own.
    HostTensor cells(type, d.box.shape());
    copy_out(part.bytes.data(), d.part.shape(), relative(d.box, d.part.lo), width,
             cells.bytes.data());
    copy_in(cells.bytes.data(), d.shape, d.box, width, expected.bytes.data());
    BoxLevels levels = levels_of(d.shape, d.part, d.box);
    auto copies = copies_to_tensor(levels, width, part.bytes.data(), got.bytes.data());
    for (const RowCopy& c : copies) {
      ASSERT_EQ(c.to.slice % c.to.pitch, 0U);
      ASSERT_EQ(c.from.slice % c.from.pitch, 0U);
      ASSERT_GE(c.to.pitch, c.rows[1] > 1 || c.rows[0] > 1 ? c.width : 0);
      copy(c);
    }
    ASSERT_EQ(got.bytes, expected.bytes) << to_string(d.box);
    HostTensor back = part;
    std::fill(back.bytes.begin(), back.bytes.end(), std::byte{0x55});
    HostTensor expected_back = back;
    copy_in(cells.bytes.data(), d.part.shape(), relative(d.box, d.part.lo), width,
            expected_back.bytes.data());
    for (const RowCopy& c : copies_to_part(levels, width, got.bytes.data(), back.bytes.data())) {
      copy(c);
    }
    ASSERT_EQ(back.bytes, expected_back.bytes) << to_string(d.box);
    most_dims = std::max(most_dims, levels.levels.size());
    several += copies.size() > 1 ? 1 : 0;
  }
  EXPECT_GE(most_dims, 4U);
  EXPECT_GT(several, 0U);
}

TEST(BoxRows, ARowIsAsLongAsItCanBe) {
  Shape shape{8, 6, 4};
  Box rows{{2, 0, 0}, {5, 6, 4}};
  EXPECT_TRUE(levels_of(shape, rows, rows).levels.size() == 1);
  Box columns{{0, 0, 1}, {8, 6, 3}};
  BoxLevels levels = levels_of(shape, columns, columns);
  ASSERT_EQ(levels.levels.size(), 2U);  // 48 rows of two cells
  EXPECT_EQ(levels.levels[0].extent, 48U);
  std::vector<std::byte> tensor(8 * 6 * 4), part(96);
  EXPECT_EQ(copies_to_part(levels, 1, tensor.data(), part.data()).size(), 1U);
}

// The bytes of the first tensor behind it.
std::vector<std::byte> combined(const Combination& how,
                                const std::vector<const HostTensor*>& given) {
  nest::Nest nest = combine_nest(how);
  nest::verify(nest);
  std::vector<HostTensor> flat;
  for (const HostTensor* t : given) {
    flat.emplace_back(t->type, Shape{t->count()});
    flat.back().bytes = t->bytes;
  }
  std::vector<HostTensor*> arguments;
  for (HostTensor& t : flat) arguments.push_back(&t);
  nest::interpret(nest, arguments);
  return flat[0].bytes;
}

TEST(CombineNest, CombinesAsTheHostDoes) {
  std::mt19937_64 random(2);
  const Aggregation kinds[] = {Aggregation::sum, Aggregation::product, Aggregation::max,
                               Aggregation::min};
  const DType types[] = {DType::f32, DType::bf16, DType::f16, DType::i32,
                         DType::i8,  DType::u64,  DType::f64};
  for (int i = 0; i < 300; ++i) {
    Drawn d = drawn(random);
    DType type = types[random() % std::size(types)];
    Exchange exchange;
    exchange.reduction = kinds[random() % std::size(kinds)];
    BoundTensor result;
    result.type = type;
    result.shape = d.shape;
    HostTensor before = random_tensor(type, d.shape, random), expected(type, d.shape);
    HostTensor part = random_tensor(type, d.part.shape(), random), got = before;
    HostTensor cells(type, d.box.shape());
    copy_out(part.bytes.data(), d.part.shape(), relative(d.box, d.part.lo), byte_size(type),
             cells.bytes.data());
    Combination how{type, operation_of(*exchange.reduction), levels_of(d.shape, d.part, d.box),
                    got.count(), part.count()};
    how.aligned = i % 2 == 0;
    PartReducer reducer(exchange, result);
    reducer.receive(whole_box(d.shape), before.bytes.data(), expected.bytes.data());
    reducer.receive(d.box, cells.bytes.data(), expected.bytes.data());
    EXPECT_EQ(combined(how, {&got, &part}), expected.bytes) << to_string(d.box);
    // Two parts of one box, which nothing was received for before.
    HostTensor other = random_tensor(type, d.part.shape(), random), expected_two(type, d.shape);
    PartReducer two(exchange, result);
    how.levels = levels_of(d.shape, d.part, d.part);
    how.of_two = true;
    expected_two.bytes = before.bytes;
    two.receive(d.part, part.bytes.data(), expected_two.bytes.data());
    two.receive(d.part, other.bytes.data(), expected_two.bytes.data());
    EXPECT_EQ(combined(how, {&got, &part, &other}), expected_two.bytes) << to_string(d.part);
  }
}

TEST(CombineNest, RunsAreCombinedBySixteenBytes) {
  BoxLevels run = levels_of({64, 8}, {{8, 0}, {24, 8}}, {{8, 0}, {24, 8}});
  for (auto [type, lanes] : {std::pair(DType::bf16, 8), {DType::f32, 4}, {DType::i8, 16}}) {
    nest::Nest nest = combine_nest({type, Op::add, run, 512, 128, true, true});
    EXPECT_NE(nest::print(nest).find("vector"), std::string::npos);
    std::mt19937_64 random(3);
    HostTensor all(type, {512}), a = random_tensor(type, {128}, random),
                                 b = random_tensor(type, {128}, random);
    nest::interpret(nest, {&all, &a, &b});
    EXPECT_FALSE(is_true(convert(all.at(63), DType::f64)));
    for (int64_t i = 0; i < 128; ++i) {
      EXPECT_EQ(convert(all.at(64 + i), DType::f64).f,
                convert(a.at(i), DType::f64).f + convert(b.at(i), DType::f64).f);
    }
    EXPECT_EQ(16 / byte_size(type), static_cast<size_t>(lanes));
  }
}

}  // namespace
}  // namespace tile::test
