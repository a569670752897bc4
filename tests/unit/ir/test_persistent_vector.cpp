// Persistent vectors beside plain ones, in random sequences of edits of copies.
#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/ir/bound.h"
#include "core/support/persistent_vector.h"

namespace tile {
namespace {

struct NumberTag;
using Number = Id<NumberTag>;
using Shared = PersistentVector<Number, std::string>;

class Pair {
 public:
  void change(std::mt19937& random) {
    switch (random() % 5) {
      case 0:
      case 1: {
        EXPECT_EQ(shared.add(std::to_string(random())).index(), plain.size());
        plain.push_back(shared.back());
        break;
      }
      case 2:
        if (plain.empty()) break;
        shared.pop_back();
        plain.pop_back();
        break;
      case 3: {
        size_t size = random() % 150;
        shared.resize(size);
        plain.resize(size);
        break;
      }
      default: {
        if (plain.empty()) break;
        size_t i = random() % plain.size();
        plain[i] += "x";
        shared.edit(Number(i)) = plain[i];
      }
    }
  }
  void expect_equal() const {
    ASSERT_EQ(shared.size(), plain.size());
    EXPECT_TRUE(std::equal(plain.begin(), plain.end(), shared.begin(), shared.end()));
    for (Number id : shared.ids()) ASSERT_EQ(shared[id], plain[id.index()]);
  }

  Shared shared;
  std::vector<std::string> plain;
};

TEST(PersistentVectors, CopiesChangeTheirOwnElementsAlone) {
  std::mt19937 random(20);
  std::vector<Pair> copies(1);
  for (int step = 0; step < 20000; ++step) {
    size_t i = random() % copies.size();
    if (copies.size() < 6 && random() % 50 == 0) copies.push_back(copies[i]);
    if (copies.size() > 1 && random() % 80 == 0) copies.erase(copies.begin());
    copies[i % copies.size()].change(random);
    if (step % 50 != 0) continue;
    for (const Pair& copy : copies) copy.expect_equal();
  }
}

TEST(PersistentVectors, IteratorsAreThoseOfRandomAccess) {
  static_assert(std::random_access_iterator<Shared::const_iterator>);
  Shared numbers;
  for (int i = 0; i < 100; ++i) numbers.push_back(std::to_string(1000 + i));
  EXPECT_EQ(numbers.end() - numbers.begin(), 100);
  EXPECT_EQ(std::lower_bound(numbers.begin(), numbers.end(), "1070") - numbers.begin(), 70);
  EXPECT_EQ(numbers.begin()[42], "1042");
  EXPECT_EQ(*(numbers.end() - 1), numbers.back());
  EXPECT_THROW(numbers.at(100), std::out_of_range);
}

TEST(PersistentVectors, AnEditCopiesTheElementsOfOneBlock) {
  BoundTensors tensors;
  for (int i = 0; i < 10000; ++i) {
    BoundTensor tensor;
    tensor.name = std::to_string(i);
    tensors.push_back(tensor);
  }
  BoundTensors copy = tensors;
  copy.edit(TensorId(5000)).name = "changed";
  int apart = 0;
  for (TensorId id : tensors.ids()) apart += &tensors[id] != &copy[id];
  EXPECT_LE(apart, 64);
  EXPECT_EQ(tensors[TensorId(5000)].name, "5000");
  EXPECT_EQ(copy[TensorId(5000)].name, "changed");
}

}  // namespace
}  // namespace tile
