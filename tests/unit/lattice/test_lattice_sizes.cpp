// Pieces of one system at many sizes, of which one is on record: they are right at each, and alike.
#include <gtest/gtest.h>

#include "core/support/choices.h"
#include "tests/random/random_source.h"
#include "tests/support/lattice_systems.h"

namespace tile::lattice {
namespace {

using namespace testing;

// O[s] = X[stride * s + dilation * j - before] * K[j]: `size` cells of O, and `taps` of K.
struct Window {
  int64_t taps = 1, stride = 1, dilation = 1, before = 0;

  System at(int64_t size) const {
    return {2,
            {access(form({1}), size), access(form({stride, dilation}, -before), stride * size),
             access(form({0, 1}), taps)}};
  }
  std::string text() const {
    return std::to_string(taps) + " taps, stride " + std::to_string(stride) + ", dilation " +
           std::to_string(dilation) + ", " + std::to_string(before) + " before";
  }
};

const std::vector<Affine> kOutputs{form({1})};

// What does not change with the size: loops, conditions, and the ranges of those that are taps.
std::string form_of(const Owned& owned) {
  const std::vector<std::string> names{"s", "j"};
  std::string text;
  for (const Piece& piece : owned.pieces) {
    for (const Affine& f : piece.substitution.old_in_new) text += to_string(f, names) + "; ";
    for (const Condition& c : piece.system.conditions) text += to_string(c.form, names) + " in; ";
  }
  return text;
}

// At every size up to the one on record; of one piece there is one form. (Of several, those that
// have no cell of a small output are not there.)
void expect_one_form(const Window& window, int64_t typical) {
  SCOPED_TRACE(window.text() + ", on record at size " + std::to_string(typical));
  ChoiceRecord record;
  std::string expected;
  bool one = false;
  {
    RecordedChoices now(record);
    Owned owned = own(window.at(typical), kOutputs);
    expected = form_of(owned);
    one = owned.pieces.size() == 1;
  }
  for (int64_t size = 1; size <= typical; ++size) {
    RepeatedChoices again(record);
    Owned owned = own(window.at(size), kOutputs);
    int64_t end = std::max(window.stride * size, window.taps) + 1;
    EXPECT_EQ(fault(window.at(size), kOutputs, owned, cube(2, -1, end), true), "") << size;
    if (owned.empty) continue;  // all of the window is outside
    if (one) {
      EXPECT_EQ(form_of(owned), expected) << size;
    }
  }
}

TEST(LatticeSizes, WindowsThatAreLongerThanTheirSequences) {
  for (int64_t taps : {2, 3, 5, 7, 9, 31}) {
    for (int64_t dilation : {1, 2, 3}) {
      int64_t before = dilation * (taps - 1) / 2;
      expect_one_form({taps, 1, dilation, before}, 8);
      expect_one_form({taps, 1, dilation, before}, 32);
      expect_one_form({taps, 2, dilation, before}, 8);
    }
  }
  expect_one_form({4, 1, 1, 0}, 8);
  expect_one_form({4, 1, 1, 3}, 8);
}

// Ranges that other conditions narrow at the size on record are exact at all others, too.
TEST(LatticeSizes, AnySystemIsRightAtEverySize) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    test::RandomSource random(seed);
    int64_t a = random.in(1, 3), b = random.in(-3, 3), c = random.in(-4, 4);
    int64_t x = random.in(1, 3), y = random.in(-3, 3), terms = random.in(1, 9);
    int64_t limit = random.in(1, 6);
    std::vector<Affine> outputs{form({a, b}, c)};
    auto at = [&](int64_t size) {
      System system{3,
                    {access(outputs[0], 2 * size), access(form({0, 1}), terms),
                     access(form({1, 0, x}), size + 1), access(form({0, 0, 1}), size),
                     constraint(form({y, 1, 1}), limit + size)}};
      return system;
    };
    ChoiceRecord record;
    int64_t typical = random.in(3, 8);
    {
      RecordedChoices now(record);
      own(at(typical), outputs);
    }
    for (int64_t size = 1; size <= 9; ++size) {
      RepeatedChoices again(record);
      Owned owned = own(at(size), outputs);
      std::vector<Interval> box{{-30, 12}, {0, 9}, {0, 9}};  // x[2] < 9, x[0] > -3 * 9
      EXPECT_EQ(fault(at(size), outputs, owned, box, true), "")
          << "seed " << seed << ", size " << size << ", on record " << typical;
    }
  }
}

// A record of another system may have rows that this one does not have, or whose rank is less.
TEST(LatticeSizes, RecordsOfOtherSystemsDoNoHarm) {
  ChoiceRecord record;
  {
    RecordedChoices now(record);
    for (size_t k = 0; k < 2; ++k) {
      chosen("split row " + std::to_string(k), [] { return size_t{3}; });
      agreed("split class 0 condition " + std::to_string(k), [] { return false; });
    }
  }
  Window window{5, 1, 1, 2};
  for (int64_t size : {1, 3, 8}) {
    RepeatedChoices again(record);
    Owned owned = own(window.at(size), kOutputs);
    EXPECT_EQ(fault(window.at(size), kOutputs, owned, cube(2, -1, 9), true), "") << size;
  }
}

}  // namespace
}  // namespace tile::lattice
