#include "runtime/ranks/local_ranks.h"

#include <exception>
#include <map>
#include <system_error>
#include <thread>

#include "backends/cuda/cuda_backend.h"
#include "runtime/engine/engine.h"
#include "runtime/transport/local_transport.h"

namespace tile {
namespace {

// Others fail because one did: that one's error is told.
void throw_first(const std::vector<std::exception_ptr>& errors) {
  std::exception_ptr first;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    if (!first) first = error;
    try {
      std::rethrow_exception(error);
    } catch (const Failure& failure) {
      if (failure.diagnostic().code != "rank") first = error;
    } catch (...) {
      first = error;
    }
  }
  if (first) std::rethrow_exception(first);
}

std::shared_ptr<Engine> engine_on(const Engine& like, int gpu) {
  EngineOptions options = like.options();
  options.backend = "cuda:" + std::to_string(gpu);
  return Engine::create(std::move(options));
}

}  // namespace

LocalRanks::LocalRanks(const std::shared_ptr<Engine>& engine, size_t ranks, double timeout_seconds)
    : timeout_(timeout_seconds) {
  const std::string& backend = engine->options().backend;
  bool spread = engine->session() != nullptr && (backend == "cuda" || backend == "auto");
  int gpus = spread ? cuda::gpu_count() : 1;
  std::map<int, std::shared_ptr<Engine>> by_gpu{{engine->ordinal(), engine}};
  for (size_t r = 0; r < ranks; ++r) {
    int gpu = gpus > 1 ? static_cast<int>(r % static_cast<size_t>(gpus)) : engine->ordinal();
    std::shared_ptr<Engine>& own = by_gpu[gpu];
    if (!own) own = engine_on(*engine, gpu);
    engines_.push_back(own);
  }
}

std::vector<LinkOffer> LocalRanks::offers() const {
  std::vector<LinkOffer> offers;
  std::string why;
  for (const std::shared_ptr<Engine>& engine : engines_) {
    if (engine->session() == nullptr) return {};
    offers.push_back(cuda::rank_device(*engine->session())->offer(why));
  }
  return offers;
}

std::string LocalRanks::transport() const {
  std::vector<LinkOffer> all = offers();
  return all.empty() ? "" : transport_text(all, why_staged(all));
}

bool LocalRanks::is_linked() const {
  std::vector<LinkOffer> all = offers();
  return all.size() > 1 && why_staged(all).empty();
}

void LocalRanks::run(const Work& work) {
  std::lock_guard lock(mutex_);
  try {
    run_threads(work);
  } catch (...) {
    connected_ = false;
    throw;
  }
}

void LocalRanks::run_threads(const Work& work) {
  size_t ranks = count();
  std::vector<std::unique_ptr<Transport>> ends = local_transports(ranks, timeout_);
  if (!connected_) devices_.assign(ranks, nullptr);
  std::vector<std::exception_ptr> errors(ranks);
  auto rank_work = [&](size_t r) {
    try {
      if (!connected_) devices_[r] = connect_devices(engines_[r], *ends[r]);
      work(r, *ends[r], devices_[r]);
    } catch (...) {
      errors[r] = std::current_exception();
      ends[r]->abort("");
      if (devices_[r]) devices_[r]->abort();
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(ranks);
  try {
    for (size_t r = 0; r < ranks; ++r) threads.emplace_back(rank_work, r);
  } catch (const std::system_error&) {  // those that are there wait for the others' parts
    ends[threads.size()]->abort("it got no thread");
  }
  for (std::thread& thread : threads) thread.join();
  if (threads.size() < ranks) {
    fail(Stage::run, "memory", {},
         "no thread for rank " + std::to_string(threads.size()) + " of " + std::to_string(ranks),
         "a smaller mesh, or a larger limit of processes (ulimit -u), does");
  }
  throw_first(errors);
  connected_ = true;
}

}  // namespace tile
