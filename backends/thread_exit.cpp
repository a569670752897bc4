#include "backends/thread_exit.h"

#include <pthread.h>

#include <new>

namespace tile {
namespace {

void run_all(void* first) {
  for (auto* at = static_cast<ThreadExit*>(first); at != nullptr;) {
    ThreadExit* next = at->next;
    at->noted = false;  // other libraries' ends of this thread may come back here
    at->run(*at);
    at = next;
  }
}

// One key for the process: its value is the list of what this thread has noted.
pthread_key_t made_key() {
  pthread_key_t key{};
  if (pthread_key_create(&key, run_all) != 0) throw std::bad_alloc();
  return key;
}

constexpr std::align_val_t kAlignment{64};

}  // namespace

void at_thread_exit(ThreadExit& self, void (*run)(ThreadExit& self)) {
  if (self.noted) return;
  static const pthread_key_t key = made_key();
  self.run = run;
  self.next = static_cast<ThreadExit*>(pthread_getspecific(key));
  if (pthread_setspecific(key, &self) != 0) throw std::bad_alloc();
  self.noted = true;
}

std::byte* ThreadMemory::grown(size_t bytes) {
  at_thread_exit(*this, [](ThreadExit& self) { static_cast<ThreadMemory&>(self).release(); });
  release();
  data_ = static_cast<std::byte*>(::operator new(bytes, kAlignment));
  size_ = bytes;
  return data_;
}

void ThreadMemory::release() {
  if (data_ != nullptr) ::operator delete(data_, kAlignment);
  data_ = nullptr;
  size_ = 0;
}

}  // namespace tile
