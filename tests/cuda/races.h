// Finds pairs of accesses to one byte, at least one a write, that no barrier orders, whatever the
// order in which the threads ran. Kernels without such pairs do the same under every interleaving,
// and see no value that is older than the last barrier.
//
// Every granule of memory remembers who wrote it last and who read it since, with the time, which
// each barrier moves on. Barriers are for warps, blocks or clusters, one inside the other, so that
// an access happened before one of another thread if the smallest barrier for both came between.
// Barriers in shared memory hand on what a thread knows to have happened when it arrives at them:
// what the threads of its warp did before the warp's last barrier, and what it was handed itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tile_emulation {

enum class Group : uint8_t { warp, block, cluster };

class Races {
 public:
  static constexpr unsigned kMostThreads = 8 * 1024;  // of a cluster

  void add(const void* begin, size_t bytes, bool shared);
  void drop(const void* begin);
  void restrict_to(const void* begin, bool restricted);

  void begin_launch();
  // Of blocks of `block` threads; nothing is in their shared memory.
  void begin_cluster(unsigned block, const std::string& name);
  // All threads of the group that this one is in have come to a barrier.
  void barrier(Group group, unsigned thread);
  // By warp of the cluster: the time before which its accesses have happened.
  using Known = std::vector<uint32_t>;
  void hand_over(unsigned thread, Known& known);
  void take_over(unsigned thread, const Known& known);

  bool watches(const void* memory) const;
  void access(unsigned thread, const void* memory, size_t bytes, bool writes);
  // A copy that may happen between now and the wait for it: until then its bytes belong to nobody.
  void begin_copy(unsigned thread, void* to, const void* from, size_t bytes);
  void end_copy(unsigned thread, void* to, const void* from, size_t bytes, uint32_t begun);
  uint32_t now() const { return now_; }

  void add_fault(const std::string& what);  // of another kind, of the kernel
  std::vector<std::string> found;           // the first few

 private:
  struct Read {
    uint32_t time = 0;  // 0: none
    uint16_t thread = 0;
  };
  struct Cell {
    uint32_t writer_cluster = 0, reader_cluster = 0;  // the last ones
    uint32_t write_time = 0;
    uint16_t write_thread = 0;
    uint16_t copier = 0;        // thread + 1, of a copy on its way
    std::array<Read, 3> reads;  // by the last thread, the one before it, the last of another block
    bool more_readers = false;  // of clusters before the last
  };
  // Of kPage bytes; granules are as large as the smallest access so far.
  struct Page {
    unsigned shift = 2;
    std::vector<Cell> cells;
  };
  static constexpr size_t kPage = 4096;
  struct Range {
    uintptr_t begin = 0, end = 0;
    bool shared = false, restricted = false;
    std::vector<std::unique_ptr<Page>> pages;
  };

  Range* range_of(const void* memory);
  template <class Each>
  void cells(Range& range, const void* memory, size_t bytes, const Each& each);
  bool ordered(const Range& range, unsigned thread, uint32_t time) const;
  void read(const Range& range, Cell& cell, const void* memory);
  void write(const Range& range, Cell& cell, const void* memory);
  void report(const Range& range, const void* memory, const std::string& what);
  bool in_launch(uint32_t cluster) const { return cluster >= first_; }
  bool on_its_way(const Cell& cell) const {
    return cell.copier != 0 && cell.writer_cluster == cluster_;
  }
  std::string name_of(unsigned thread) const;

  std::vector<std::unique_ptr<Range>> ranges_;
  Range* last_ = nullptr;
  uintptr_t lowest_ = ~uintptr_t{0}, highest_ = 0;
  uint32_t now_ = 1, cluster_ = 1, first_ = 1;
  unsigned block_ = 1;
  std::string name_;
  unsigned self_ = 0;
  uint32_t cluster_barrier_ = 0;
  std::array<uint32_t, 8> block_barrier_{};
  std::array<uint32_t, kMostThreads> warp_barrier_{};  // by the warp's first thread
  std::vector<Known> known_;                           // by thread of the cluster
};

}  // namespace tile_emulation
