// Small vectors beside plain ones, in random sequences of changes, copies and moves, below and
// above what they hold inside.
#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <vector>

#include "core/ir/affine.h"
#include "core/support/small_vector.h"

namespace tile {
namespace {

using Small = SmallVector<int, 3>;

class Both {
 public:
  void change(std::mt19937& random) {
    int value = static_cast<int>(random() % 100);
    switch (random() % 8) {
      case 0:
      case 1:
        small.push_back(value);
        plain.push_back(value);
        break;
      case 2:
        if (plain.empty()) break;
        small.push_back(small.front());  // an element that growing moves
        plain.push_back(int(plain.front()));
        break;
      case 3:
        if (plain.empty()) break;
        small.pop_back();
        plain.pop_back();
        break;
      case 4: {
        size_t size = random() % 9;
        small.resize(size, value);
        plain.resize(size, value);
        break;
      }
      case 5: {
        if (plain.empty()) break;
        auto at = static_cast<std::ptrdiff_t>(random() % plain.size());
        EXPECT_EQ(small.erase(small.begin() + at) - small.begin(), at);
        plain.erase(plain.begin() + at);
        break;
      }
      case 6:
        small.assign(random() % 2 ? 2 : 5, value);
        plain.assign(small.size(), value);
        break;
      default:
        if (plain.empty()) break;
        small[plain.size() / 2] = value;
        plain[plain.size() / 2] = value;
    }
  }
  void check() const {
    EXPECT_THAT(std::vector<int>(small.begin(), small.end()), testing::ElementsAreArray(plain));
    EXPECT_EQ(small.empty(), plain.empty());
    EXPECT_GE(small.capacity(), small.size());
  }

  Small small;
  std::vector<int> plain;
};

TEST(SmallVectors, AreVectors) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<Both> all(3);
    for (int step = 0; step < 60; ++step) {
      Both& one = all[random() % all.size()];
      Both& other = all[random() % all.size()];
      switch (random() % 6) {
        case 0:
          one = other;
          break;
        case 1: {
          Both copy(other);
          one = std::move(copy);
          break;
        }
        case 2:
          std::swap(one, other);
          break;
        default:
          one.change(random);
      }
      for (const Both& b : all) b.check();
      EXPECT_EQ(one.small == other.small, one.plain == other.plain);
      EXPECT_EQ(one.small <=> other.small, one.plain <=> other.plain);
    }
  }
}

TEST(SmallVectors, HoldAFewValuesWithoutAnAllocation) {
  Small v{1, 2, 3};
  auto inside = [&] {
    auto* at = reinterpret_cast<const char*>(v.data());
    auto* self = reinterpret_cast<const char*>(&v);
    return at >= self && at < self + sizeof v;
  };
  EXPECT_TRUE(inside());
  v.push_back(4);
  EXPECT_FALSE(inside());
  Small moved = std::move(v);
  EXPECT_THAT(moved, testing::ElementsAre(1, 2, 3, 4));
}

TEST(SmallVectors, ValuesWithoutOneAreTheTypesOwn) {
  SmallVector<Rational, 2> zeros(4);
  EXPECT_THAT(zeros, testing::Each(Rational(0)));
}

}  // namespace
}  // namespace tile
