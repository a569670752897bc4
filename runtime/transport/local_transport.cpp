#include "runtime/transport/local_transport.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "core/support/diagnostic.h"

namespace tile {
namespace {

// Parts on their way, by sender and receiver.
struct Mail {
  explicit Mail(size_t count, double seconds) : ranks(count), timeout(seconds) {}

  const size_t ranks;
  const std::chrono::duration<double> timeout;
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<std::pair<size_t, size_t>, std::deque<std::vector<std::byte>>> parts;
  bool dead = false;
};

class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<Mail> mail, size_t rank) : mail_(std::move(mail)), rank_(rank) {}

  size_t rank() const override { return rank_; }
  size_t ranks() const override { return mail_->ranks; }

  void exchange(std::span<const SentPart> sent, std::span<const ReceivedPart> received,
                const std::string& what) override {
    for (const SentPart& part : sent) {
      std::vector<std::byte> bytes(part.data, part.data + part.bytes);
      std::lock_guard lock(mail_->mutex);
      mail_->parts[{rank_, part.rank}].push_back(std::move(bytes));
    }
    mail_->arrived.notify_all();
    for (const ReceivedPart& part : received) receive(part, what);
  }

  void abort() noexcept override {
    {
      std::lock_guard lock(mail_->mutex);
      mail_->dead = true;
    }
    mail_->arrived.notify_all();
  }

 private:
  void receive(const ReceivedPart& part, const std::string& what) {
    std::unique_lock lock(mail_->mutex);
    std::deque<std::vector<std::byte>>& queue = mail_->parts[{part.rank, rank_}];
    bool here = mail_->arrived.wait_for(lock, mail_->timeout,
                                        [&] { return mail_->dead || !queue.empty(); });
    if (mail_->dead) {
      fail(Stage::run, "rank", {}, "another rank of the mesh failed before the " + what);
    }
    if (!here) {
      lock.unlock();
      abort();
      fail(Stage::run, "rank", {},
           "rank " + std::to_string(part.rank) + " of " + std::to_string(ranks()) +
               " was silent for " + std::to_string(static_cast<int>(mail_->timeout.count())) +
               " s in the " + what);
    }
    std::vector<std::byte> bytes = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    internal_check(bytes.size() == part.bytes, "transport: a part of another size");
    if (part.bytes != 0) std::memcpy(part.data, bytes.data(), part.bytes);
  }

  std::shared_ptr<Mail> mail_;
  size_t rank_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> local_transports(size_t ranks, double timeout_seconds) {
  auto mail = std::make_shared<Mail>(ranks, timeout_seconds);
  std::vector<std::unique_ptr<Transport>> ends;
  for (size_t r = 0; r < ranks; ++r) ends.push_back(std::make_unique<LocalTransport>(mail, r));
  return ends;
}

}  // namespace tile
