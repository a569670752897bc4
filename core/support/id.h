// Numbers of things as types of their own: a tensor's number is no node's, and neither is a
// position in some other list.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tile {

// The number of one thing among its like, from 0; without one, none (-1). The tag, a type that need
// not be complete, tells kinds apart.
template <typename Tag>
class Id {
 public:
  constexpr Id() = default;
  template <std::integral Number>
  constexpr explicit Id(Number number) : number_(static_cast<int32_t>(number)) {}

  constexpr bool valid() const { return number_ >= 0; }
  constexpr int number() const { return number_; }
  constexpr size_t index() const { return static_cast<size_t>(number_); }  // of a valid one
  constexpr Id& operator++() {
    ++number_;
    return *this;
  }
  constexpr Id& operator--() {
    --number_;
    return *this;
  }
  friend constexpr auto operator<=>(Id, Id) = default;
  template <typename Stream>
  friend Stream& operator<<(Stream& out, Id id) {
    out << id.number_;
    return out;
  }
  friend std::string to_string(Id id) { return std::to_string(id.number_); }

 private:
  int32_t number_ = -1;
};

// All ids from 0 up to a count, for loops.
template <typename IdType>
class IdRange {
 public:
  explicit IdRange(size_t count) : end_(count) {}

  struct Iterator {
    IdType id;
    IdType operator*() const { return id; }
    Iterator& operator++() {
      ++id;
      return *this;
    }
    friend bool operator==(Iterator, Iterator) = default;
  };
  Iterator begin() const { return {IdType(0)}; }
  Iterator end() const { return {end_}; }

 private:
  IdType end_;
};

// A vector with one element for each thing of a kind: ids of that kind, and no others, name its
// elements. Whoever goes through all of them may count positions, as in any vector.
template <typename IdType, typename T>
class IdVector : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  using std::vector<T>::operator[];
  IdVector() = default;
  explicit IdVector(std::vector<T> elements) : std::vector<T>(std::move(elements)) {}

  decltype(auto) operator[](IdType id) { return (*this)[id.index()]; }
  decltype(auto) operator[](IdType id) const { return (*this)[id.index()]; }
  bool contains(IdType id) const { return id.valid() && id.index() < this->size(); }
  IdRange<IdType> ids() const { return IdRange<IdType>(this->size()); }
  // Appends an element and returns its id.
  IdType add(T element) {
    this->push_back(std::move(element));
    return IdType(this->size() - 1);
  }
};

}  // namespace tile

template <typename Tag>
struct std::hash<tile::Id<Tag>> {
  size_t operator()(tile::Id<Tag> id) const noexcept { return std::hash<int>()(id.number()); }
};
