// Waiting for what another thread is about to do.
#pragma once

#include <thread>

namespace tile::cpu {

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// One wait: next() between two looks. It watches first, and lets other threads run when what it
// waits for takes long; true: it does.
class Spin {
 public:
  bool next() {
    if (looks_ == kLooks) {
      std::this_thread::yield();
      return true;
    }
    ++looks_;
    pause();
    return false;
  }

 private:
  static constexpr int kLooks = 4096;
  int looks_ = 0;
};

}  // namespace tile::cpu
