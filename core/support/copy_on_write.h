// A value that copies share until one of them changes its own.
#pragma once

#include <memory>
#include <utility>

namespace tile {

template <class T>
class CopyOnWrite {
 public:
  CopyOnWrite() = default;
  CopyOnWrite(T value) : value_(std::make_shared<T>(std::move(value))) {}  // NOLINT: it is one

  const T& operator*() const {
    static const T kNone{};
    return value_ ? *value_ : kNone;
  }
  const T* operator->() const { return &**this; }
  T& change() {
    if (!value_ || value_.use_count() > 1) value_ = std::make_shared<T>(**this);
    return *value_;
  }

 private:
  std::shared_ptr<T> value_;
};

}  // namespace tile
