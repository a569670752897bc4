#include "tests/cuda/races.h"

#include <algorithm>

namespace tile_emulation {
namespace {

constexpr size_t kMostFound = 4;

uintptr_t address(const void* p) { return reinterpret_cast<uintptr_t>(p); }

}  // namespace

void Races::add(const void* begin, size_t bytes, bool shared) {
  auto range = std::make_unique<Range>();
  range->begin = address(begin);
  range->end = range->begin + bytes;
  range->shared = shared;
  range->pages.resize((bytes + kPage - 1) / kPage);
  lowest_ = std::min(lowest_, range->begin);
  highest_ = std::max(highest_, range->end);
  auto above = [](const auto& a, const auto& b) { return a->begin < b->begin; };
  ranges_.insert(std::upper_bound(ranges_.begin(), ranges_.end(), range, above), std::move(range));
}

void Races::drop(const void* begin) {
  last_ = nullptr;
  std::erase_if(ranges_, [&](const auto& r) { return r->begin == address(begin); });
}

void Races::restrict_to(const void* begin, bool restricted) {
  for (auto& range : ranges_) {
    if (range->begin == address(begin)) range->restricted = restricted;
  }
}

void Races::begin_launch() {
  first_ = cluster_ + 1;
  found.clear();
}

void Races::begin_cluster(unsigned block, const std::string& name) {
  block_ = block;
  name_ = name;
  ++cluster_;
  ++now_;
  known_.clear();
}

void Races::barrier(Group group, unsigned thread) {
  ++now_;
  unsigned block = thread / block_;
  if (group == Group::cluster) cluster_barrier_ = now_;
  if (group == Group::block) block_barrier_[block] = now_;
  if (group == Group::warp) warp_barrier_[block * block_ + thread % block_ / 32 * 32] = now_;
}

void Races::hand_over(unsigned thread, Known& known) {
  ++now_;
  unsigned first = thread / block_ * block_ + thread % block_ / 32 * 32;
  Known own = thread < known_.size() ? known_[thread] : Known();
  own.resize(std::max<size_t>(own.size(), thread / 32 + 1));
  own[thread / 32] = std::max(own[thread / 32], warp_barrier_[first]);
  known.resize(std::max(known.size(), own.size()));
  for (size_t w = 0; w < own.size(); ++w) known[w] = std::max(known[w], own[w]);
}

void Races::take_over(unsigned thread, const Known& known) {
  if (known_.size() <= thread) known_.resize(thread + 1);
  Known& own = known_[thread];
  own.resize(std::max(own.size(), known.size()));
  for (size_t w = 0; w < known.size(); ++w) own[w] = std::max(own[w], known[w]);
}

Races::Range* Races::range_of(const void* memory) {
  uintptr_t at = address(memory);
  if (at < lowest_ || at >= highest_) return nullptr;
  if (last_ != nullptr && at >= last_->begin && at < last_->end) return last_;
  auto next = std::upper_bound(ranges_.begin(), ranges_.end(), at,
                               [](uintptr_t a, const auto& range) { return a < range->begin; });
  if (next == ranges_.begin() || at >= (*--next)->end) return nullptr;
  return last_ = next->get();
}

bool Races::watches(const void* memory) const {
  return const_cast<Races*>(this)->range_of(memory) != nullptr;
}

// Every granule that the bytes touch.
template <class Each>
void Races::cells(Range& range, const void* memory, size_t bytes, const Each& each) {
  uintptr_t at = address(memory), end = std::min(at + bytes, range.end);
  while (at < end) {
    size_t offset = at - range.begin, inside = offset % kPage;
    std::unique_ptr<Page>& page = range.pages[offset / kPage];
    if (!page) {
      page = std::make_unique<Page>();
      page->cells.resize(kPage >> page->shift);
    }
    size_t last = std::min(kPage, inside + (end - at));
    while (page->shift > 0 && ((inside | last) & ((size_t{1} << page->shift) - 1)) != 0) {
      std::vector<Cell> halves;
      for (const Cell& c : page->cells) halves.insert(halves.end(), 2, c);
      page->cells = std::move(halves);
      --page->shift;
    }
    for (size_t c = inside >> page->shift; c < last >> page->shift; ++c) each(page->cells[c]);
    at += last - inside;
  }
}

bool Races::ordered(const Range& range, unsigned thread, uint32_t time) const {
  if (thread == self_) return true;
  if (range.restricted) return false;
  if (time < cluster_barrier_) return true;
  unsigned block = thread / block_;
  if (block != self_ / block_) return false;
  if (time < block_barrier_[block]) return true;
  if (self_ < known_.size() && thread / 32 < known_[self_].size() &&
      time < known_[self_][thread / 32]) {
    return true;
  }
  unsigned warp = thread % block_ / 32, own = self_ % block_ / 32;
  return warp == own && time < warp_barrier_[block * block_ + warp * 32];
}

std::string Races::name_of(unsigned thread) const {
  return "thread " + std::to_string(thread % block_) +
         (thread < block_ ? "" : " of block " + std::to_string(thread / block_));
}

void Races::add_fault(const std::string& what) {
  if (found.size() < kMostFound) found.push_back(name_ + ": " + what);
}

void Races::report(const Range& range, const void* memory, const std::string& what) {
  if (found.size() >= kMostFound) return;
  auto number = std::find_if(ranges_.begin(), ranges_.end(),
                             [&](const auto& r) { return r.get() == &range; });
  std::string place =
      range.shared ? "shared memory" : "memory " + std::to_string(number - ranges_.begin());
  found.push_back(name_ + ": byte " + std::to_string(address(memory) - range.begin) + " of " +
                  place + " " + what);
}

void Races::read(const Range& range, Cell& cell, const void* memory) {
  if (on_its_way(cell)) {
    report(range, memory, "is read by " + name_of(self_) + " before its copy has been waited for");
  } else if (!range.shared && in_launch(cell.writer_cluster) && cell.writer_cluster != cluster_) {
    report(range, memory, "is read by " + name_of(self_) + " and was written by another block");
  } else if (cell.writer_cluster == cluster_ &&
             !ordered(range, cell.write_thread, cell.write_time)) {
    report(range, memory,
           "is read by " + name_of(self_) + " and was written by " + name_of(cell.write_thread) +
               " with no barrier between" +
               (range.restricted ? " that holds for __restrict__" : ""));
  }
  if (cell.reader_cluster != cluster_) {
    cell.more_readers = in_launch(cell.reader_cluster);
    cell.reader_cluster = cluster_;
    cell.reads = {};
  }
  std::array<Read, 3>& reads = cell.reads;
  if (reads[0].thread != self_ && reads[0].time != 0) {
    if (reads[0].thread / block_ != self_ / block_) reads[2] = reads[0];
    reads[1] = reads[0];
  }
  reads[0] = {now_, static_cast<uint16_t>(self_)};
}

void Races::write(const Range& range, Cell& cell, const void* memory) {
  bool others =
      in_launch(cell.reader_cluster) && (cell.reader_cluster != cluster_ || cell.more_readers);
  if (on_its_way(cell)) {
    report(range, memory,
           "is written by " + name_of(self_) + " before a copy to it has been waited for");
  } else if (!range.shared && in_launch(cell.writer_cluster) && cell.writer_cluster != cluster_) {
    report(range, memory, "is written by " + name_of(self_) + " and by another block");
  } else if (!range.shared && others) {
    report(range, memory, "is written by " + name_of(self_) + " and read by another block");
  } else if (cell.writer_cluster == cluster_ &&
             !ordered(range, cell.write_thread, cell.write_time)) {
    report(range, memory,
           "is written by " + name_of(self_) + " and by " + name_of(cell.write_thread) +
               " with no barrier between");
  } else if (cell.reader_cluster == cluster_) {
    for (const Read& r : cell.reads) {
      if (r.time == 0 || ordered(range, r.thread, r.time)) continue;
      report(range, memory,
             "is written by " + name_of(self_) + " and was read by " + name_of(r.thread) +
                 " with no barrier between");
      break;
    }
  }
  cell.writer_cluster = cluster_;
  cell.write_time = now_;
  cell.write_thread = static_cast<uint16_t>(self_);
  cell.reader_cluster = 0;
  cell.more_readers = false;
}

void Races::access(unsigned thread, const void* memory, size_t bytes, bool writes) {
  self_ = thread;
  Range& range = *range_of(memory);
  cells(range, memory, bytes,
        [&](Cell& cell) { writes ? write(range, cell, memory) : read(range, cell, memory); });
}

void Races::begin_copy(unsigned thread, void* to, const void* from, size_t bytes) {
  if (watches(from)) access(thread, from, bytes, false);
  if (!watches(to)) return;
  access(thread, to, bytes, true);
  auto copier = static_cast<uint16_t>(thread + 1);
  cells(*range_of(to), to, bytes, [&](Cell& cell) { cell.copier = copier; });
}

void Races::end_copy(unsigned thread, void* to, const void* from, size_t bytes, uint32_t begun) {
  self_ = thread;
  if (watches(from)) {
    Range& range = *range_of(from);
    cells(range, from, bytes, [&](Cell& cell) {
      bool changed = in_launch(cell.writer_cluster) && cell.write_time >= begun;
      if (changed) report(range, from, "is written while " + name_of(thread) + " copies it");
    });
  }
  if (!watches(to)) return;
  cells(*range_of(to), to, bytes, [&](Cell& cell) { cell.copier = 0; });
  access(thread, to, bytes, true);
}

}  // namespace tile_emulation
