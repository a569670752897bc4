// Saved executables whose checksum fits and whose content does not: every number in them may be
// another, and loading is an error or an executable, never a crash.
#define XXH_INLINE_ALL
#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>

#include "runtime/engine/cache/saved_executable.h"
#include "tests/executors/run_backends.h"

namespace tile::test {
namespace {

constexpr size_t kHead = 16;  // the magic and the checksum

std::vector<std::byte> sealed(std::vector<std::byte> bytes) {
  XXH64_hash_t checksum = XXH3_64bits(bytes.data() + kHead, bytes.size() - kHead);
  std::memcpy(bytes.data() + 8, &checksum, sizeof checksum);
  return bytes;
}

// The code of the error; empty: it was loaded.
std::string load(const std::shared_ptr<Engine>& engine, const std::vector<std::byte>& bytes) {
  try {
    loaded_executable(engine, bytes);
    return "";
  } catch (const Failure& failure) {
    return failure.diagnostic().code;
  }
}

class SavedContent : public testing::Test {
 protected:
  std::vector<std::byte> bytes_of(const std::string& text, const Shape& shape) {
    auto loaded_program = loaded(engine_, text);
    std::vector<InputLayout> layouts{{{DType::f32, shape}, {}}};
    return saved_executable(*loaded_program->executable(layouts));
  }
  std::shared_ptr<Engine> engine_ = test_engine("cpu");
};

const char* kText =
    "function (X[M, N]) -> (P, S) { T[i, 0: M, 1] = +(X[i, j]); P = X / T; S = sort(X, 1); }";

TEST_F(SavedContent, SealedAsItIsItLoads) {
  std::vector<std::byte> bytes = bytes_of(kText, {5, 7});
  EXPECT_EQ(sealed(bytes), bytes);
  EXPECT_EQ(load(engine_, bytes), "");
}

TEST_F(SavedContent, EveryNumberMayBeAnother) {
  std::vector<std::byte> bytes = bytes_of(kText, {5, 7});
  size_t errors = 0, tried = 0;
  for (size_t at = kHead; at < bytes.size(); at += at < 6000 ? 1 : 37) {
    for (uint8_t value : {uint8_t{0x01}, uint8_t{0x80}, uint8_t{0xff}}) {
      std::vector<std::byte> other = bytes;
      other[at] ^= std::byte{value};
      std::string code = load(engine_, sealed(other));
      ++tried;
      errors += code.empty() ? 0 : 1;
      bool known = code.empty() || code == "saved" || code == "target" || code == "memory";
      ASSERT_TRUE(known) << at << ": " << code;
    }
  }
  EXPECT_GT(errors, tried / 20);
}

TEST_F(SavedContent, EveryLengthMayBeAnother) {
  std::vector<std::byte> bytes = bytes_of(kText, {5, 7});
  for (size_t size = kHead; size < bytes.size(); size += size < 3000 ? 1 : 101) {
    std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    ASSERT_EQ(load(engine_, sealed(cut)), "saved") << size;
  }
}

// Another build's bytes, and a processor with more than this one has.
TEST_F(SavedContent, FromElsewhere) {
  std::vector<std::byte> bytes = bytes_of(kText, {5, 7});
  std::vector<std::byte> other = bytes;
  other[kHead + 8] ^= std::byte{1};  // the first letter of the build's identity
  EXPECT_EQ(load(engine_, sealed(other)), "saved");
  std::string features = engine_->target().features;
  std::string all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  size_t at = all.find(features);
  ASSERT_NE(at, std::string::npos);
  size_t plus = features.find(" +");
  if (plus == std::string::npos) GTEST_SKIP() << "a processor without features";
  other = bytes;
  std::memcpy(other.data() + at + plus + 2, "z", 1);
  EXPECT_EQ(load(engine_, sealed(other)), "target");
}

}  // namespace
}  // namespace tile::test
