#include "tests/cuda_runtime/ranks/table_transport.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace tile::test {
namespace {

struct Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<size_t, size_t>, std::deque<std::string>> parts;    // from, to
  std::map<size_t, std::deque<std::pair<size_t, std::string>>> notices;  // of a rank: who, what
  std::map<size_t, std::set<size_t>> gave_up;                            // of a rank: who told it
};
struct End {
  std::shared_ptr<Shared> shared;
  size_t rank;
};

std::chrono::duration<double> seconds(double count) { return std::chrono::duration<double>(count); }

int exchange(void* state, const tile_sent_part* sent, size_t sent_count,
             const tile_received_part* received, size_t received_count, double timeout,
             int (*)(void*), int (*)(void*), void*, tile_transport_fault* fault) {
  auto& [shared, rank] = *static_cast<End*>(state);
  std::unique_lock lock(shared->mutex);
  for (size_t i = 0; i < sent_count; ++i) {
    const auto* data = static_cast<const char*>(sent[i].data);
    shared->parts[{rank, sent[i].rank}].emplace_back(data, data + sent[i].bytes);
  }
  shared->changed.notify_all();
  for (size_t i = 0; i < received_count; ++i) {
    std::deque<std::string>& queue = shared->parts[{received[i].rank, rank}];
    auto in_vain = [&] { return shared->gave_up[rank].contains(received[i].rank); };
    bool here = shared->changed.wait_for(lock, seconds(timeout),
                                         [&] { return !queue.empty() || in_vain(); });
    if (queue.empty()) {
      fault->rank = received[i].rank;
      return here ? TILE_EXCHANGE_NOTICE : TILE_EXCHANGE_SILENT;
    }
    std::memcpy(received[i].data, queue.front().data(), received[i].bytes);
    queue.pop_front();
  }
  return TILE_EXCHANGE_DONE;
}

void tell(void* state, size_t to, const void* notice, size_t bytes) {
  auto& [shared, rank] = *static_cast<End*>(state);
  std::lock_guard lock(shared->mutex);
  const auto* text = static_cast<const char*>(notice);
  shared->notices[to].emplace_back(rank, std::string(text, text + bytes));
  shared->gave_up[to].insert(rank);
  shared->changed.notify_all();
}

int hear(void* state, double timeout, size_t* from, void* notice) {
  auto& [shared, rank] = *static_cast<End*>(state);
  std::unique_lock lock(shared->mutex);
  auto& queue = shared->notices[rank];
  if (!shared->changed.wait_for(lock, seconds(timeout), [&] { return !queue.empty(); })) return -1;
  auto [who, text] = queue.front();
  queue.pop_front();
  *from = who;
  std::memcpy(notice, text.data(), text.size());
  return static_cast<int>(text.size());
}

void close(void* state) { delete static_cast<End*>(state); }

}  // namespace

std::vector<std::unique_ptr<Transport>> table_transports(size_t ranks, double timeout_seconds) {
  auto shared = std::make_shared<Shared>();
  std::vector<std::unique_ptr<Transport>> ends;
  for (size_t r = 0; r < ranks; ++r) {
    tile_transport table{r, ranks, new End{shared, r}, exchange, tell, hear, close, 0};
    ends.push_back(std::make_unique<PluginTransport>(table, timeout_seconds));
  }
  return ends;
}

}  // namespace tile::test
