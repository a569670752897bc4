// A vector of a few values that holds them in itself.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>

namespace tile {

// As std::vector, for values that are copied as bytes: up to Inline of them lie in the vector
// itself, more of them on the heap. A compilation makes tens of thousands of short lists of numbers
// (the coefficients of an index, the rows of a lattice), and each was an allocation.
// Moving one that holds its values in itself copies them, so that references to elements are void
// after a move.
template <typename T, size_t Inline>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T> && Inline > 0);

 public:
  using value_type = T;
  using size_type = size_t;
  using difference_type = std::ptrdiff_t;
  using reference = T&;
  using const_reference = const T&;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() {}  // not "= default": the values stay unwritten
  explicit SmallVector(size_t size, const T& value = T()) { resize(size, value); }
  SmallVector(std::initializer_list<T> values) : SmallVector(values.begin(), values.end()) {}
  template <std::forward_iterator Iterator>
  SmallVector(Iterator first, Iterator last) {
    assign(first, last);
  }
  SmallVector(const SmallVector& other) { assign(other.begin(), other.end()); }
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) {
      release();
      take(other);
    }
    return *this;
  }
  ~SmallVector() { release(); }

  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  bool empty() const { return size_ == 0; }
  T* data() { return on_heap() ? heap_ : here_; }
  const T* data() const { return on_heap() ? heap_ : here_; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T& front() { return data()[0]; }
  const T& front() const { return data()[0]; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }

  void reserve(size_t wanted) {
    if (wanted > capacity_) grow(wanted);
  }
  void clear() { size_ = 0; }
  void push_back(const T& value) {
    T copy = value;  // may be an element, which growing moves
    reserve_one();
    ::new (static_cast<void*>(data() + size_)) T(copy);
    ++size_;
  }
  template <typename... Parts>
  void emplace_back(Parts&&... parts) {
    push_back(T(std::forward<Parts>(parts)...));
  }
  void pop_back() { --size_; }
  void resize(size_t size, const T& value = T()) {
    T copy = value;
    reserve(size);
    if (size > size_) std::uninitialized_fill(data() + size_, data() + size, copy);
    size_ = static_cast<uint32_t>(size);
  }
  // The range does not lie in this vector.
  template <std::forward_iterator Iterator>
  void assign(Iterator first, Iterator last) {
    size_ = 0;
    reserve(static_cast<size_t>(std::distance(first, last)));
    std::uninitialized_copy(first, last, data());
    size_ = static_cast<uint32_t>(std::distance(first, last));
  }
  void assign(size_t size, const T& value) {
    T copy = value;
    size_ = 0;
    resize(size, copy);
  }
  T* erase(const T* at) {
    T* place = data() + (at - data());
    std::copy(place + 1, end(), place);
    --size_;
    return place;
  }

  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }
  friend auto operator<=>(const SmallVector& a, const SmallVector& b) {
    return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  bool on_heap() const { return capacity_ > Inline; }
  void reserve_one() {
    if (size_ == capacity_) grow(size_t{2} * capacity_);
  }
  void grow(size_t capacity) {
    T* wider = std::allocator<T>().allocate(capacity);
    std::uninitialized_copy(begin(), end(), wider);
    release();
    heap_ = wider;
    capacity_ = static_cast<uint32_t>(capacity);
  }
  void release() {
    if (on_heap()) std::allocator<T>().deallocate(heap_, capacity_);
    capacity_ = Inline;
  }
  // This one holds nothing on the heap.
  void take(SmallVector& other) {
    size_ = other.size_;
    capacity_ = other.capacity_;
    if (other.on_heap()) {
      heap_ = other.heap_;
      other.capacity_ = Inline;
    } else {
      std::uninitialized_copy(other.begin(), other.end(), here_);
    }
    other.size_ = 0;
  }

  union {
    T here_[Inline];
    T* heap_;
  };
  uint32_t size_ = 0;
  uint32_t capacity_ = Inline;
};

}  // namespace tile
