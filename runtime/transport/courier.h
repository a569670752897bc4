// A thread that makes a transport's exchanges, so that whoever needs them can compute meanwhile.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/support/control.h"
#include "runtime/transport/transport.h"

namespace tile {

class Courier {
 public:
  // The transport must outlive its exchanges, but not this.
  explicit Courier(Transport& transport) : transport_(transport) {}
  // Nothing is under way any more.
  ~Courier();
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  // Exchanges are made one after the other, in the order in which they begin. The control of the
  // caller's thread holds for them; it, and the parts' memory, must last until they end or are
  // stopped.
  void begin(std::vector<SentPart> sent, std::vector<ReceivedPart> received, std::string what);
  // Waits for the first one that has begun and not ended. Throws what Transport::exchange throws,
  // also if that was in an exchange before. What the other thread has not come to, or where there
  // is none, is made here.
  void end();
  // Gives up what has begun, and tells other ranks why. Returns when nothing is under way.
  void stop(const std::string& why) noexcept;

 private:
  struct Job {
    std::vector<SentPart> sent;
    std::vector<ReceivedPart> received;
    std::string what;
    Control* control = nullptr;  // of whoever began it
  };
  class Stop;

  bool has_thread();
  void work();
  void make(const Job& job);
  void make_here(std::unique_lock<std::mutex>& lock);
  template <class Make>
  std::exception_ptr make_first(std::unique_lock<std::mutex>& lock, const Make& how);
  // Between two looks of an exchange; see Transport::rest.
  bool rest();

  Transport& transport_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;  // that have begun and are not made; the first one may be under way
  size_t made_ = 0;       // that have not ended
  bool under_way_ = false;
  bool awaited_ = false;  // whoever began it does nothing else any more
  std::exception_ptr failure_;
  std::optional<std::string> stopped_;  // why
  bool leaves_ = false;
};

}  // namespace tile
