// What somebody may have meant.
#include <gtest/gtest.h>

#include "core/support/nearest_name.h"

namespace tile {
namespace {

TEST(NearestName, IsASlipOfTheHand) {
  EXPECT_EQ(nearest_name("sqrtt", {"sin", "sqrt", "rsqrt"}), "sqrt");
  EXPECT_EQ(nearest_name("Scoers", {"Scores", "Sums"}), "Scores");
  EXPECT_EQ(nearest_name("x", {"y"}), std::nullopt) << "nothing of it is left";
  EXPECT_EQ(nearest_name("convolution", {"sum", "max"}), std::nullopt);
  EXPECT_EQ(nearest_name("sum", {"sum"}), std::nullopt) << "it is known";
  EXPECT_EQ(nearest_name("", {}), std::nullopt);
}

}  // namespace
}  // namespace tile
