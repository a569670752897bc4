#include "runtime/transport/local_transport.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include "core/support/control.h"

namespace tile {
namespace {

// How often a rank that waits asks whether its call is cancelled.
constexpr std::chrono::milliseconds kAsked(5);

// Parts on their way, by sender and receiver.
struct Mail {
  explicit Mail(size_t count, double seconds) : ranks(count), timeout(seconds) {
    words.reserve(count);
  }

  const size_t ranks;
  const std::chrono::duration<double> timeout;
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<std::pair<size_t, size_t>, std::deque<std::vector<std::byte>>> parts;
  // Of the first rank that failed, and of all.
  std::optional<std::pair<size_t, std::string>> failed;
  std::vector<std::pair<size_t, std::string>> words;
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
    try {
      for (const ReceivedPart& part : received) receive(part, what);
    } catch (const Failure& failure) {
      abort(failure.diagnostic().message);
      throw;
    }
  }

  void abort(const std::string& why) noexcept override {
    try {
      tell(why);
    } catch (const std::bad_alloc&) {
      tell("");  // takes no memory
    }
    mail_->arrived.notify_all();
  }

  double timeout() const override { return mail_->timeout.count(); }

  std::vector<std::pair<size_t, std::string>> last_words(double seconds) override {
    std::unique_lock lock(mail_->mutex);
    std::vector<std::pair<size_t, std::string>> others;
    auto all_spoke = [&] {
      others = mail_->words;
      std::erase_if(others, [&](const auto& word) { return word.first == rank_; });
      return others.size() + 1 >= mail_->ranks;
    };
    mail_->arrived.wait_for(lock, std::chrono::duration<double>(seconds), all_spoke);
    return others;
  }

 private:
  void tell(const std::string& why) {
    auto word_of = [](const auto& word) { return word.first; };
    std::lock_guard lock(mail_->mutex);
    if (!mail_->failed) mail_->failed = {rank_, why};
    if (std::ranges::find(mail_->words, rank_, word_of) == mail_->words.end()) {
      mail_->words.emplace_back(rank_, why);
    }
  }

  // Whether a part from the rank is there, before the timeout; the control of this thread is asked
  // meanwhile.
  bool arrives(std::unique_lock<std::mutex>& lock,
               const std::deque<std::vector<std::byte>>& queue) {
    auto over = std::chrono::steady_clock::now() + mail_->timeout;
    auto is_here = [&] { return mail_->failed || !queue.empty(); };
    while (!mail_->arrived.wait_for(lock, kAsked, is_here)) {
      if (std::chrono::steady_clock::now() > over) return false;
      Control* control = current_control();
      if (control != nullptr && control->is_over()) throw control->reason({});
    }
    return true;
  }

  void receive(const ReceivedPart& part, const std::string& what) {
    std::unique_lock lock(mail_->mutex);
    std::deque<std::vector<std::byte>>& queue = mail_->parts[{part.rank, rank_}];
    bool here = arrives(lock, queue);
    // What a rank sent before one failed is still taken: all ranks end where the failure is.
    if (queue.empty() && mail_->failed) {
      fail_with(mail_->failed->first, *this, what, mail_->failed->second);
    }
    if (!here) fail_silent(part.rank, *this, mail_->timeout.count(), what);
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
