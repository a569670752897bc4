#include "tests/executors/layouts.h"

#include <algorithm>
#include <numeric>

#include "runtime/engine/launch/strided_copy.h"

namespace tile::test {
namespace {

constexpr int64_t kMostSpread = 1 << 22;  // elements that a layout with gaps spans

// As the C interface hands them on: none where they are dense or there are no elements, zero for
// extents of one.
std::vector<int64_t> canonical(const Shape& shape, std::vector<int64_t> strides) {
  int64_t expected = 1;
  bool dense = true;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 0) return {};
    if (shape[d] == 1) strides[d] = 0;
    dense = dense && (shape[d] == 1 || strides[d] == expected);
    expected *= shape[d];
  }
  return dense ? std::vector<int64_t>{} : strides;
}

std::vector<size_t> random_order(RandomSource& random, size_t rank) {
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  if (random.percent(40)) return order;
  for (size_t i = rank; i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(random.in(0, static_cast<int64_t>(i) - 1))]);
  }
  return order;
}

// Elements, or rows, apart from one another.
int64_t with_gap(RandomSource& random, int64_t span) {
  if (random.percent(50) || span > kMostSpread) return span;
  return random.percent(50) ? span + random.in(1, 5) : span * random.in(2, 3);
}

}  // namespace

std::vector<int64_t> random_strides(RandomSource& random, const Shape& shape, Sharing sharing) {
  std::vector<int64_t> strides(shape.size(), 0);
  std::vector<size_t> order = random_order(random, shape.size());
  int64_t span = 1;  // of the dimensions so far, in elements
  for (size_t i = order.size(); i-- > 0;) {
    size_t d = order[i];
    if (shape[d] == 0) return {};
    int64_t stride = with_gap(random, span);
    if (sharing == Sharing::yes && random.percent(20)) {
      stride = random.percent(60) ? 0 : random.in(1, std::max<int64_t>(1, span / 2));
    }
    span = std::max(span, (shape[d] - 1) * stride + span);
    strides[d] = random.percent(25) ? -stride : stride;
  }
  return canonical(shape, std::move(strides));
}

std::vector<int64_t> transposed_strides(const Shape& shape) {
  std::vector<int64_t> strides;
  int64_t span = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    strides.push_back(d % 2 == 0 ? span : -span);
    span = span * std::max<int64_t>(1, shape[d]) + 1;
  }
  return canonical(shape, std::move(strides));
}

Laid dense_layouts(const std::vector<InputType>& types, const std::vector<HostTensor>& inputs) {
  Laid laid;
  for (const InputType& type : types) laid.layouts.push_back({type, {}});
  laid.inputs = inputs;
  return laid;
}

Laid random_layouts(uint64_t seed, const std::vector<InputType>& types,
                    const std::vector<HostTensor>& inputs, Sharing sharing) {
  RandomSource random(seed);
  Laid laid = dense_layouts(types, inputs);
  for (size_t i = 0; i < types.size(); ++i) {
    std::vector<int64_t> strides = random_strides(random, inputs[i].shape, sharing);
    laid.layouts[i].strides = strides;
    if (strides.empty()) continue;
    HostTensor& values = laid.inputs[i];
    // Any address serves to learn where elements lie around the first one.
    TensorView view{values.bytes.data(), values.type, values.shape, strides};
    Extent extent = extent_of(view);
    std::vector<std::byte> memory(static_cast<size_t>(extent.end - extent.begin));
    view.data = memory.data() + (values.bytes.data() - extent.begin);
    copy_from_dense(values.bytes.data(), view);
    copy_to_dense(view, values.bytes.data());
  }
  return laid;
}

std::string described(const InputLayout& layout) {
  auto list = [](const std::vector<int64_t>& numbers) {
    std::string out;
    for (int64_t n : numbers) out += (out.empty() ? "" : ", ") + std::to_string(n);
    return "[" + out + "]";
  };
  std::string text = std::string(to_string(layout.type.type)) + list(layout.type.shape);
  return layout.strides.empty() ? text : text + " strides " + list(layout.strides);
}
std::string described(const Laid& laid) {
  std::string text;
  for (const InputLayout& layout : laid.layouts) text += described(layout) + "\n";
  return text;
}

}  // namespace tile::test
