#include "backends/cpu/jit/code_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace tile::cpu {
namespace {

constexpr int kWritable = PROT_READ | PROT_WRITE, kExecutable = PROT_READ | PROT_EXEC;

size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

CodePool::~CodePool() {
  for (const auto& slab : slabs_) munmap(slab->base, slab->bytes);
}

size_t CodePool::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}
size_t CodePool::slabs() const {
  std::lock_guard lock(mutex_);
  return slabs_.size();
}

std::byte* CodePool::allocate(size_t bytes) noexcept {
  if (bytes > SIZE_MAX - kSlab) return nullptr;
  std::lock_guard lock(mutex_);
  try {
    return placed(rounded(std::max<size_t>(bytes, 1), kPage));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

std::byte* CodePool::placed(size_t bytes) {
  for (const auto& slab : slabs_) {
    if (std::byte* block = take(*slab, bytes)) return block;
  }
  Slab* slab = add_slab(rounded(bytes, kSlab));
  return slab == nullptr ? nullptr : take(*slab, bytes);
}

// First fit, so that blocks gather at the front of the first slabs.
std::byte* CodePool::take(Slab& slab, size_t bytes) {
  auto at = std::find_if(slab.free.begin(), slab.free.end(),
                         [&](const auto& hole) { return hole.second >= bytes; });
  if (at == slab.free.end()) return nullptr;
  auto [offset, size] = *at;
  // What may fail comes before anything is changed.
  auto used = slab.used.emplace(offset, bytes).first;
  try {
    if (size > bytes) slab.free.emplace(offset + bytes, size - bytes);
  } catch (...) {
    slab.used.erase(used);
    throw;
  }
  std::byte* block = slab.base + offset;
  if (mprotect(block, bytes, kWritable) != 0) {
    slab.used.erase(used);
    slab.free.erase(offset + bytes);
    return nullptr;
  }
  slab.free.erase(offset);
  bytes_ += bytes;
  return block;
}

CodePool::Slab* CodePool::add_slab(size_t bytes) {
  auto slab = std::make_unique<Slab>();
  slab->bytes = bytes;
  slab->free.emplace(0, bytes);
  slabs_.reserve(slabs_.size() + 1);
  void* base =
      mmap(nullptr, bytes, kExecutable, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  slab->base = static_cast<std::byte*>(base);
  // The system makes one mapping of neighbours only if they have a common origin: the first page
  // that is written is that of all later ones.
  if (mprotect(base, kPage, kWritable) == 0) {
    *static_cast<volatile std::byte*>(slab->base) = std::byte{0};
    mprotect(base, kPage, kExecutable);
  }
  slabs_.push_back(std::move(slab));
  return slabs_.back().get();
}

CodePool::Slab* CodePool::slab_of(const std::byte* block) {
  auto at = std::find_if(slabs_.begin(), slabs_.end(), [&](const auto& slab) {
    return slab->base <= block && block < slab->base + slab->bytes;
  });
  return at == slabs_.end() ? nullptr : at->get();
}

bool CodePool::seal(std::byte* block) noexcept {
  std::lock_guard lock(mutex_);
  Slab* slab = slab_of(block);
  if (slab == nullptr) return false;
  auto used = slab->used.find(static_cast<size_t>(block - slab->base));
  return used != slab->used.end() && mprotect(block, used->second, kExecutable) == 0;
}

void CodePool::release(std::byte* block) noexcept {
  std::lock_guard lock(mutex_);
  Slab* slab = slab_of(block);
  if (slab == nullptr) return;
  auto used = slab->used.find(static_cast<size_t>(block - slab->base));
  if (used == slab->used.end()) return;
  size_t bytes = used->second;
  bytes_ -= bytes;
  // The system gives zeros for what it takes here. If it refuses either, the block stays taken.
  bool clean =
      madvise(block, bytes, MADV_DONTNEED) == 0 && mprotect(block, bytes, kExecutable) == 0;
  if (!clean) return;
  // The node moves from one map to the other: nothing is allocated.
  auto hole = slab->free.insert(slab->used.extract(used)).position;
  if (auto next = std::next(hole);
      next != slab->free.end() && hole->first + hole->second == next->first) {
    hole->second += next->second;
    slab->free.erase(next);
  }
  if (hole != slab->free.begin()) {
    auto before = std::prev(hole);
    if (before->first + before->second == hole->first) {
      before->second += hole->second;
      slab->free.erase(hole);
    }
  }
  drop_empty();
}

// All slabs without a block but one, for what comes next.
void CodePool::drop_empty() {
  bool kept = false;
  std::erase_if(slabs_, [&](const auto& slab) {
    if (!slab->used.empty()) return false;
    if (!kept && slab->bytes == kSlab) {
      kept = true;
      return false;
    }
    return munmap(slab->base, slab->bytes) == 0;
  });
}

}  // namespace tile::cpu
