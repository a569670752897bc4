// Numbers of bytes for people.
#include <gtest/gtest.h>

#include "core/support/bytes_text.h"

namespace tile {
namespace {

TEST(BytesText, HasThreeDigitsOfTheLargestUnit) {
  EXPECT_EQ(bytes_text(0), "0 bytes");
  EXPECT_EQ(bytes_text(10'000), "10000 bytes");
  EXPECT_EQ(bytes_text(100'000), "97.7 KiB");
  EXPECT_EQ(bytes_text((size_t{1} << 20) - 1), "1 MiB") << "not 1e+03 KiB";
  EXPECT_EQ(bytes_text(size_t{25} << 28), "6.25 GiB");
  EXPECT_EQ(bytes_text(size_t{1} << 53), "8 PiB");
  EXPECT_EQ(bytes_text(SIZE_MAX), "16 EiB");
}

}  // namespace
}  // namespace tile
