// Runs of ranks in the host's memory.
#pragma once

#include <map>
#include <memory>

#include "runtime/ranks/rank_store.h"

namespace tile {

class HostStore final : public RankStore {
 public:
  HostStore(const RankExecutable& of, Transport& transport, std::unique_ptr<HostMemory> arena)
      : of_(of), transport_(transport), arena_(std::move(arena)) {}

  std::byte* arena() override { return arena_->data(); }
  std::byte* bring_in(const TensorView& input) override { return bytes(input); }
  std::byte* make_room(const TensorView& output) override { return bytes(output); }
  std::byte* constant(TensorId id) override;
  void clear(std::byte* at, size_t bytes) override;
  void copy(std::byte* to, const std::byte* from, size_t bytes) override;
  void run_segment(size_t segment, std::vector<TensorView> inputs,
                   std::vector<TensorView> outputs) override;
  // One that travels is made on the transport's other thread.
  void begin(size_t exchange, Moved what) override;
  void end(size_t exchange) override;
  void finish() override {}
  void stop(const std::string& why) noexcept override;
  bool let_go() noexcept override { return !transport_.in_flight(); }
  // Of a run that is over.
  std::unique_ptr<HostMemory> take_arena() { return std::move(arena_); }

 private:
  template <class Work>
  void located(size_t exchange, const Work& work) const;
  void pack(size_t exchange, size_t i, const std::byte* source, std::byte* part) const;
  void copy_own(size_t exchange, const Moved& what) const;
  void unpack(size_t exchange, const Moved& what) const;
  static std::byte* bytes(const TensorView& view) { return static_cast<std::byte*>(view.data); }

  const RankExecutable& of_;
  Transport& transport_;
  std::unique_ptr<HostMemory> arena_;
  bool travels_ = false;           // some exchange is, or was, given to the other thread
  std::map<size_t, Moved> begun_;  // exchanges, until they end
};

}  // namespace tile
