// Memory for machine code: many small blocks in few large mappings, as a process may have some
// 65,000 mappings only.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace tile::cpu {

// A block is writable from allocate() to seal(), and executable from then on; no page is both at
// any time. Pages of no block are executable and hold zeros, so that a slab of sealed blocks, free
// ones among them, is one mapping. Thread safe.
class CodePool {
 public:
  static constexpr size_t kPage = 4096;
  static constexpr size_t kSlab = 16 << 20;  // bytes of address space

  CodePool() = default;
  ~CodePool();
  CodePool(const CodePool&) = delete;
  CodePool& operator=(const CodePool&) = delete;

  // Whole pages of zeros; null where the system gives none.
  std::byte* allocate(size_t bytes) noexcept;
  // False where the system refuses: the block is then still writable.
  bool seal(std::byte* block) noexcept;
  // Gives the pages back to the system.
  void release(std::byte* block) noexcept;

  size_t bytes() const;  // of all blocks
  size_t slabs() const;

 private:
  struct Slab {
    std::byte* base = nullptr;
    size_t bytes = 0;
    std::map<size_t, size_t> free;  // offset: size
    std::map<size_t, size_t> used;
  };
  std::byte* placed(size_t bytes);
  std::byte* take(Slab& slab, size_t bytes);
  Slab* add_slab(size_t bytes);
  Slab* slab_of(const std::byte* block);
  void drop_empty();

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Slab>> slabs_;
  size_t bytes_ = 0;
};

}  // namespace tile::cpu
