// The linker of saved executables: what LLVM links it links alike, and damaged objects are refused
// or harmless.
#include <gtest/gtest.h>

#include <cstring>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/jit/object_linker.h"
#include "backends/cpu/launch/code.h"
#include "tests/cpu/nests.h"

namespace tile::cpu {
namespace {

// Constants in memory (a polynomial), a table, several entries.
const char* const kFunctions = R"(
nest functions
argument X: f32 [64] strides [1]
argument Z: f32 [64] strides [1] written
parallel i from [0] extent [4] grain 1 {
  vector l from [0] extent [16] width 16 {
    assign Z[16*i + l] (X[16*i + l]) { %0:f32 = load 0; %1:f32 = sin %0; %2:f32 = exp %1; yield %2 }
  }
}
)";

std::vector<char> object_of(const Code& code) {
  const auto* bytes = reinterpret_cast<const char*>(code.object().data());
  return {bytes, bytes + code.object().size()};
}

std::vector<float> results(Backend& backend, const Code& code) {
  std::vector<float> x(64), z(64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.3f * static_cast<float>(i) - 7;
  void* pointers[] = {x.data(), z.data()};
  backend.launch(code, pointers, {}, {});
  return z;
}

TEST(ObjectLinker, CodeIsThatOfTheLinker) {
  auto backend = shared_backend();
  auto code = backend->compile(parse(kFunctions), backend->target());
  std::vector<char> object = object_of(*code);
  std::optional<Unpacked> parts = unpacked(object);
  ASSERT_TRUE(parts);
  ASSERT_NE(link_object(parts->code), nullptr) << "no object of ours is left to LLVM";
  auto again = backend->restore_saved(backend->target(), std::as_bytes(std::span(object)));
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(results(*backend, *again), results(*backend, *code));
  EXPECT_THROW(link_object(parts->code)->address("nothing"), Failure);
}

// Not run: a flipped bit of code is other code. Nothing is read or written outside.
TEST(ObjectLinker, DamagedObjects) {
  auto backend = shared_backend();
  auto code = backend->compile(parse(kFunctions), backend->target());
  std::vector<char> object = object_of(*code);
  std::optional<Unpacked> parts = unpacked(object);
  ASSERT_TRUE(parts);
  std::vector<char> bytes(parts->code.begin(), parts->code.end());
  EXPECT_EQ(link_object({}), nullptr);
  size_t refused = 0;
  for (size_t size = 0; size < bytes.size(); size += 7) {
    std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    refused += link_object(cut) == nullptr ? 1 : 0;
  }
  EXPECT_GT(refused, bytes.size() / 7 - 20) << "the section headers stand at the end";
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int bit : {0, 5, 7}) {
      std::vector<char> other = bytes;
      other[at] = static_cast<char>(other[at] ^ (1 << bit));
      link_object(other);
    }
  }
  std::vector<char> foreign = bytes;
  foreign[18] = static_cast<char>(183);  // e_machine: AArch64
  EXPECT_EQ(link_object(foreign), nullptr);
}

}  // namespace
}  // namespace tile::cpu
