// A vector of which copies share what none of them has changed.
#pragma once

#include <compare>
#include <cstddef>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/support/id.h"

namespace tile {

// A persistent vector: its elements lie in blocks, which copies share until one of them edits an
// element, so that a copy costs one pointer for each block and an edit at most one block. Ids name
// the elements, as in an IdVector. Reading is the default; whoever writes says so by `edit`, after
// which references to elements of that block are void, as they are after an element is added.
// Threads may read and edit copies of their own at the same time.
template <typename IdType, typename T>
class PersistentVector {
  // Elements in a block: an edit copies a kilobyte or two of tensors, and a copy of a table of ten
  // thousand is some six hundred pointers.
  static constexpr size_t kBlock = 16;
  using Block = std::vector<T>;

 public:
  using value_type = T;

  class const_iterator {
   public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = const T*;
    using reference = const T&;

    const_iterator() = default;
    const_iterator(const PersistentVector* of, size_t at) : of_(of), at_(at) {}

    reference operator*() const { return (*of_)[at_]; }
    pointer operator->() const { return &(*of_)[at_]; }
    reference operator[](difference_type n) const { return *(*this + n); }
    const_iterator& operator++() { return *this += 1; }
    const_iterator operator++(int) { return std::exchange(*this, *this + 1); }
    const_iterator& operator--() { return *this += -1; }
    const_iterator operator--(int) { return std::exchange(*this, *this + -1); }
    const_iterator& operator+=(difference_type n) {
      at_ = static_cast<size_t>(static_cast<difference_type>(at_) + n);
      return *this;
    }
    const_iterator& operator-=(difference_type n) { return *this += -n; }
    friend const_iterator operator+(const_iterator i, difference_type n) { return i += n; }
    friend const_iterator operator+(difference_type n, const_iterator i) { return i += n; }
    friend const_iterator operator-(const_iterator i, difference_type n) { return i -= n; }
    friend difference_type operator-(const_iterator a, const_iterator b) {
      return static_cast<difference_type>(a.at_) - static_cast<difference_type>(b.at_);
    }
    friend bool operator==(const_iterator a, const_iterator b) { return a.at_ == b.at_; }
    friend auto operator<=>(const_iterator a, const_iterator b) { return a.at_ <=> b.at_; }

   private:
    const PersistentVector* of_ = nullptr;
    size_t at_ = 0;
  };
  using iterator = const_iterator;

  PersistentVector() = default;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool contains(IdType id) const { return id.valid() && id.index() < size_; }
  IdRange<IdType> ids() const { return IdRange<IdType>(size_); }
  const_iterator begin() const { return {this, 0}; }
  const_iterator end() const { return {this, size_}; }

  const T& operator[](size_t i) const { return (*blocks_[i / kBlock])[i % kBlock]; }
  const T& operator[](IdType id) const { return (*this)[id.index()]; }
  const T& back() const { return (*this)[size_ - 1]; }
  const T& at(size_t i) const {
    if (i >= size_) throw std::out_of_range("PersistentVector::at");
    return (*this)[i];
  }

  T& edit(size_t i) { return own(i / kBlock)[i % kBlock]; }
  T& edit(IdType id) { return edit(id.index()); }

  void push_back(T element) {
    if (size_ % kBlock == 0) {
      blocks_.push_back(std::make_shared<Block>());
      blocks_.back()->reserve(kBlock);
    }
    own(blocks_.size() - 1).push_back(std::move(element));
    ++size_;
  }
  // Appends an element and returns its id.
  IdType add(T element) {
    push_back(std::move(element));
    return IdType(size_ - 1);
  }
  void pop_back() {
    Block& last = own(blocks_.size() - 1);
    last.pop_back();
    if (last.empty()) blocks_.pop_back();
    --size_;
  }
  // Drops the last elements, or appends ones without a value.
  void resize(size_t size) {
    while (size_ > size) pop_back();
    while (size_ < size) push_back(T());
  }

 private:
  Block& own(size_t b) {
    std::shared_ptr<Block>& block = blocks_[b];
    if (block.use_count() > 1) {
      auto copy = std::make_shared<Block>();
      copy->reserve(kBlock);
      copy->assign(block->begin(), block->end());
      block = std::move(copy);
    }
    return *block;
  }

  std::vector<std::shared_ptr<Block>> blocks_;  // all but the last are full
  size_t size_ = 0;
};

}  // namespace tile
