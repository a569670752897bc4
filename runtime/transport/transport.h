// Transports: how the ranks of a mesh give each other bytes. One object is one rank's end.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tile {

// [guide] As long as other runtimes of collectives wait.
constexpr double kRankTimeoutSeconds = 30;

struct SentPart {
  size_t rank = 0;  // that gets it
  const std::byte* data = nullptr;
  size_t bytes = 0;
};
struct ReceivedPart {
  size_t rank = 0;  // that sends it
  std::byte* data = nullptr;
  size_t bytes = 0;
};

class Courier;

class Transport {
 public:
  Transport();
  virtual ~Transport();
  virtual size_t rank() const = 0;
  virtual size_t ranks() const = 0;
  // Returns when all parts are sent and received. Parts between two ranks arrive in the order in
  // which they are given. No part is the rank's own. `what` names the exchange in errors: all ranks
  // make the same exchanges in the same order. Throws Failure (stage run, code "rank") when another
  // rank failed, or was silent for the transport's timeout; the transport is dead from then on, and
  // so are those of all other ranks. May be called by one thread at a time.
  virtual void exchange(std::span<const SentPart> sent, std::span<const ReceivedPart> received,
                        const std::string& what) = 0;
  // Lets the others know that this rank will take no further part, and why: a sentence, which may
  // be cut. Only the first call says anything.
  virtual void abort(const std::string& why) noexcept = 0;
  // Seconds that a silent rank is waited for.
  virtual double timeout() const = 0;
  // Why each other rank failed, as far as they say so within the time; 0: have said so. Not while
  // an exchange is under way.
  virtual std::vector<std::pair<size_t, std::string>> last_words(double seconds) = 0;
  // Whether an exchange that failed may still write to the memory that it was given.
  virtual bool in_flight() const noexcept { return false; }
  // Whether exchanges may be made by other threads than the one that made this.
  virtual bool serves_any_thread() const { return true; }
  // Makes exchanges while the caller does something else. While one is under way nothing else of
  // the transport is called. It is there from the first call on.
  Courier& courier();

 protected:
  // Where an exchange looks again and again whether something has moved: what it does between two
  // looks, so that a computation beside it has the processor. False, or none: nothing computes, and
  // it waits as it likes.
  const std::function<bool()>& rest() const { return rest_; }

 private:
  friend class Courier;

  std::function<bool()> rest_;
  std::unique_ptr<Courier> courier_;
};

// "rank 3 of 8 was silent for 30 s in the all-gather of A": errors of all transports.
[[noreturn]] void fail_silent(size_t rank, const Transport& end, double seconds,
                              const std::string& what);
// "rank 3 of 8 failed before the all-gather of A: out of memory".
[[noreturn]] void fail_with(size_t rank, const Transport& end, const std::string& what,
                            const std::string& why);

}  // namespace tile
