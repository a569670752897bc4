// Where the tensors of the program lie on the ranks, and how a rank gets the parts that it has not.
#include <algorithm>

#include "core/distribute/partitioner.h"
#include "core/support/checked.h"

namespace tile {

StoredTensor& Partitioner::store(TensorId id, TensorId local, TensorLayout layout) {
  StoredTensor stored;
  stored.local = local;
  stored.boxes = boxes_of(layout, at(id).shape, d_.mesh);
  stored.layout = std::move(layout);
  return stored_[id].emplace(std::move(stored));
}

// A view is made where it is read first.
const StoredTensor& Partitioner::stored(TensorId id) {
  if (stored_[id]) return *stored_[id];
  const BoundTensor& view = at(id);
  internal_check(view.view_of.has_value(), "partition: a tensor is read before it is made");
  TensorId of = *view.view_of;
  StoredTensor source = stored(of);
  TensorLayout kept = followed_by_view(program_, id, source.layout);
  kept.partial.clear();
  if (kept != source.layout) {
    source.boxes = boxes_of(kept, at(of).shape, d_.mesh);
    source.local = exact(of, source.boxes, {});
    source.layout = kept;
  }
  std::optional<TensorLayout> layout = layout_of_view(program_, id, source.layout);
  internal_check(layout.has_value(), "partition: a view that does not follow its source");
  std::vector<Box> boxes = boxes_of(*layout, view.shape, d_.mesh);
  TensorId local = ranks_.declare(view.name, view.type, TensorRole::temporary, boxes);
  for (size_t r = 0; r < ranks_.ranks(); ++r) ranks_.edit(r, local).view_of = source.local;
  return store(id, local, std::move(*layout));
}

TensorId Partitioner::declare_result(TensorId id, const std::vector<Box>& boxes) {
  return ranks_.declare(at(id).name, at(id).type, at(id).role, boxes);
}

const TensorLayout& Partitioner::computed_layout(TensorId id) const {
  auto other = d_.computed.find(id);
  return other != d_.computed.end() ? other->second : d_.layouts[id];
}

void Partitioner::store_computed(TensorId id, const TensorLayout& computed, TensorId local,
                                 Span span) {
  const TensorLayout& layout = d_.layouts[id];
  if (computed == layout) {
    store(id, local, layout);
    return;
  }
  StoredTensor from{local, computed, boxes_of(computed, at(id).shape, d_.mesh)};
  std::vector<Box> boxes = boxes_of(layout, at(id).shape, d_.mesh);
  TensorId result = declare_result(id, boxes);
  ranks_.exchange(from, result, needs_of_boxes(boxes), std::nullopt, span);
  store(id, result, layout);
}

TensorId Partitioner::gathered(TensorId id, const std::vector<Box>& windows,
                               const std::vector<std::vector<Box>>& needed, Span span) {
  std::string key;
  for (size_t r = 0; r < windows.size(); ++r) {
    key += to_string(windows[r]) + ":";
    for (const Box& box : needed[r]) key += to_string(box);
    key += ";";
  }
  auto [known, fresh] = gathered_.emplace(WindowKey{id, std::move(key)}, TensorId());
  if (!fresh) return known->second;
  std::vector<std::vector<NeedPart>> needs(windows.size());
  for (size_t r = 0; r < windows.size(); ++r) {
    for (const Box& box : needed[r]) {
      for (NeedPart& part : unwrapped(box, at(id).shape)) {
        for (size_t d = 0; d < part.at.size(); ++d) part.at[d] -= windows[r].lo[d];
        needs[r].push_back(std::move(part));
      }
    }
  }
  const StoredTensor& from = stored(id);
  TensorId local =
      ranks_.declare(at(id).name + ".part", at(id).type, TensorRole::temporary, windows);
  std::optional<Aggregation> sums;
  if (!from.layout.partial.empty()) sums = Aggregation::sum;
  ranks_.exchange(from, local, needs, sums, span);
  return known->second = local;
}

Partitioner::LocalTensor Partitioner::local(const Window& window, Span span) {
  const StoredTensor& from = stored(window.tensor);
  bool here = from.layout.partial.empty() && !window.wraps;
  for (size_t r = 0; r < window.boxes.size() && here; ++r) {
    here = contains(from.boxes[r], window.boxes[r]);
  }
  if (here) return {from.local, from.boxes};
  return {gathered(window.tensor, window.boxes, window.needed, span), window.boxes};
}

TensorId Partitioner::exact(TensorId id, const std::vector<Box>& boxes, Span span) {
  const StoredTensor& from = stored(id);
  if (from.layout.partial.empty() && from.boxes == boxes) return from.local;
  std::vector<std::vector<Box>> needed(boxes.size());
  for (size_t r = 0; r < boxes.size(); ++r) {
    if (!boxes[r].empty()) needed[r].push_back(boxes[r]);
  }
  return gathered(id, boxes, needed, span);
}

}  // namespace tile
