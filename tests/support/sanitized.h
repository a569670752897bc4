// Whether the tests are built with a sanitizer that takes several times as much time and memory.
#pragma once

namespace tile::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

}  // namespace tile::test
