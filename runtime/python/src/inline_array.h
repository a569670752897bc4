// An array whose size is set once, without an allocation where it is small.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace tilejit {

template <class T, size_t kInline>
class InlineArray {
 public:
  // Elements are default-initialized: plain pointers hold anything.
  explicit InlineArray(size_t size)
      : size_(size), data_(size <= kInline ? reinterpret_cast<T*>(place_) : allocate(size)) {
    std::uninitialized_default_construct_n(data_, size_);
  }
  ~InlineArray() {
    std::destroy_n(data_, size_);
    if (size_ > kInline) std::allocator<T>().deallocate(data_, size_);
  }
  InlineArray(const InlineArray&) = delete;
  InlineArray& operator=(const InlineArray&) = delete;

  size_t size() const { return size_; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  static T* allocate(size_t size) { return std::allocator<T>().allocate(size); }

  size_t size_;
  T* data_;
  alignas(T) unsigned char place_[kInline * sizeof(T)];
};

}  // namespace tilejit
