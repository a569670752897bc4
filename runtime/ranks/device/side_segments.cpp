#include "runtime/ranks/device/side_segments.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace tile {

void SideSegments::mark() {
  join();
  since_.clear();
  other_since_ = false;
}

bool SideSegments::await(size_t exchange) {
  if (link_ == nullptr) return false;
  awaited_.push_back(exchange);
  return true;
}

// Parts of a tensor share no cell, though their strides may interlace them.
bool SideSegments::is_apart(const Use& one, const Use& other) const {
  if (!one.written && !other.written) return true;
  if (!overlap(one.view, other.view)) return true;
  auto whole_of = [&](TensorId id) -> std::optional<TensorId> {
    auto part = std::ranges::find(program_.parts, id, &PartOfTensor::part);
    if (part == program_.parts.end()) return std::nullopt;
    return part->whole;
  };
  std::optional<TensorId> whole = whole_of(one.tensor);
  return whole && one.tensor != other.tensor && whole == whole_of(other.tensor);
}

bool SideSegments::may_run(std::span<const Use> uses) const {
  if (awaited_.empty() || other_since_) return false;
  return std::ranges::all_of(uses, [&](const Use& one) {
    return std::ranges::all_of(since_, [&](const Use& other) { return is_apart(one, other); });
  });
}

void* SideSegments::stream_for(std::vector<Use> uses) {
  if (link_ == nullptr) return nullptr;
  if (may_run(uses)) {
    ran_ = true;
    return link_->beside(awaited_.back());
  }
  bool other = other_since_;
  join();
  other_since_ = other;
  std::move(uses.begin(), uses.end(), std::back_inserter(since_));
  return nullptr;
}

void SideSegments::join() {
  if (link_ == nullptr) return;
  other_since_ = true;
  for (size_t exchange : std::exchange(awaited_, {})) link_->await(exchange);
  if (std::exchange(ran_, false)) link_->join();
}

}  // namespace tile
