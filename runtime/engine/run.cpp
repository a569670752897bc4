#include <algorithm>
#include <cstring>
#include <new>

#include "core/interpret/interpret.h"
#include "core/support/checked.h"
#include "runtime/engine/engine.h"

namespace tile {
namespace {

// Memory for temporaries, kept by the thread for the next run: a hot call allocates nothing.
class Arena {
 public:
  std::byte* reserve(size_t bytes) {
    if (bytes > size_) {
      release();
      data_ = static_cast<std::byte*>(::operator new(bytes, std::align_val_t{64}));
      size_ = bytes;
    }
    return data_;
  }
  ~Arena() { release(); }

 private:
  void release() {
    if (data_ != nullptr) ::operator delete(data_, std::align_val_t{64});
    data_ = nullptr;
    size_ = 0;
  }
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Copies elements between two layouts of one shape; empty strides: dense.
class StridedCopy {
 public:
  StridedCopy(const Shape& shape, size_t element, const std::vector<int64_t>& from,
              const std::vector<int64_t>& to)
      : shape_(shape), element_(element), from_(from), to_(to) {}
  void run(const std::byte* from, std::byte* to) const { level(0, from, to); }

 private:
  void level(size_t d, const std::byte* from, std::byte* to) const {
    if (d == shape_.size()) {
      std::memcpy(to, from, element_);
      return;
    }
    for (int64_t i = 0; i < shape_[d]; ++i) {
      level(d + 1, from + i * from_[d] * static_cast<int64_t>(element_),
            to + i * to_[d] * static_cast<int64_t>(element_));
    }
  }
  const Shape& shape_;
  size_t element_;
  const std::vector<int64_t>& from_;
  const std::vector<int64_t>& to_;
};

std::vector<int64_t> dense_strides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) {
    strides[d - 1] = strides[d] * std::max<int64_t>(shape[d], 1);
  }
  return strides;
}

void copy_dense(const TensorView& from, std::byte* to) {
  std::vector<int64_t> dense = dense_strides(from.shape);
  const std::vector<int64_t>& strides = from.strides.empty() ? dense : from.strides;
  StridedCopy(from.shape, byte_size(from.type), strides, dense)
      .run(static_cast<const std::byte*>(from.data), to);
}
void copy_out(const std::byte* from, const TensorView& to) {
  std::vector<int64_t> dense = dense_strides(to.shape);
  const std::vector<int64_t>& strides = to.strides.empty() ? dense : to.strides;
  StridedCopy(to.shape, byte_size(to.type), dense, strides)
      .run(from, static_cast<std::byte*>(to.data));
}

size_t byte_count(const TensorView& t) {
  return static_cast<size_t>(element_count(t.shape)) * byte_size(t.type);
}

void run_reference(const Executable& e, std::span<const TensorView> inputs,
                   std::span<const TensorView> outputs, const RunOptions& options) {
  std::vector<HostTensor> given;
  for (const TensorView& view : inputs) {
    HostTensor t(view.type, view.shape);
    if (!t.bytes.empty()) copy_dense(view, t.bytes.data());
    given.push_back(std::move(t));
  }
  InterpretOptions limits;
  limits.cancelled = options.cancelled;
  Interpretation result = interpret(e.bound, given, limits);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!result.outputs[i].bytes.empty()) copy_out(result.outputs[i].bytes.data(), outputs[i]);
  }
}

// One run of the launches with outputs that are dense.
void run_launches(const Executable& e, std::span<const TensorView> inputs,
                  std::span<const TensorView> outputs, const RunOptions& options) {
  thread_local Arena memory;
  std::byte* arena = memory.reserve(e.arena_bytes + e.workspace_bytes);
  auto address = [&](TensorId id) -> void* {
    Place at = e.places[static_cast<size_t>(id)];
    if (at.kind == Place::Kind::input) return inputs[at.at].data;
    if (at.kind == Place::Kind::output) return outputs[at.at].data;
    return arena + at.at;
  };
  for (auto [input, offset] : e.densified) {
    if (byte_count(inputs[input]) != 0) copy_dense(inputs[input], arena + offset);
  }
  LaunchOptions launching;
  launching.threads = e.engine->options().threads;
  launching.stream = options.stream;
  launching.workspace = arena + e.arena_bytes;
  std::vector<void*> pointers;
  for (const Launch& launch : e.launches) {
    if (options.cancelled && options.cancelled()) {
      fail(Stage::run, "cancelled", {}, "the run was cancelled");
    }
    pointers.clear();
    for (TensorId id : launch.arguments) pointers.push_back(address(id));
    if (launch.sort) {
      const BoundTensor& source = e.program.tensors[static_cast<size_t>(launch.sort->source)];
      e.engine->backend().sort(*launch.sort, source, pointers[0], pointers[1], launching);
    } else {
      e.engine->backend().launch(*launch.code, pointers, {}, launching);
    }
  }
  for (const OutputCopy& copy : e.copies) {
    size_t bytes = byte_count(outputs[copy.output]);
    if (bytes != 0) std::memcpy(outputs[copy.output].data, address(copy.from), bytes);
  }
}

// The bytes that a tensor may touch: for overlap checks.
struct Extent {
  const std::byte* begin;
  const std::byte* end;
};
Extent extent_of(const TensorView& t) {
  const auto* base = static_cast<const std::byte*>(t.data);
  if (element_count(t.shape) == 0) return {base, base};
  int64_t low = 0, high = 0;
  std::vector<int64_t> dense = dense_strides(t.shape);
  const std::vector<int64_t>& strides = t.strides.empty() ? dense : t.strides;
  for (size_t d = 0; d < t.shape.size(); ++d) {
    int64_t reach = checked_mul(t.shape[d] - 1, strides[d]);
    (reach < 0 ? low : high) = checked_add(reach < 0 ? low : high, reach);
  }
  auto size = static_cast<int64_t>(byte_size(t.type));
  return {base + low * size, base + (high + 1) * size};
}
bool overlap(const TensorView& a, const TensorView& b) {
  Extent x = extent_of(a), y = extent_of(b);
  return x.begin < y.end && y.begin < x.end;
}

std::string text_of(DType type, const Shape& shape) {
  std::string out(to_string(type));
  out += "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return out + "]";
}
// `kind` is "input" or "output"; texts are made only for errors.
void check_tensor(const char* kind, const TensorView& given, const BoundTensor& expected) {
  if (given.type != expected.type || given.shape != expected.shape) {
    fail(Stage::run, "argument", {},
         std::string(kind) + " " + expected.name + " is " + text_of(given.type, given.shape) +
             ", expected " + text_of(expected.type, expected.shape));
  }
  if (given.data == nullptr && element_count(expected.shape) != 0) {
    fail(Stage::run, "argument", {},
         std::string(kind) + " " + expected.name + " has a null data pointer");
  }
}

}  // namespace

void check_tensors(const Executable& e, std::span<const TensorView> inputs,
                   std::span<const TensorView> outputs) {
  auto count = [](const char* what, size_t given, size_t expected) {
    if (given == expected) return;
    fail(Stage::run, "argument", {},
         std::to_string(given) + " " + what + " given, expected " + std::to_string(expected));
  };
  count("inputs", inputs.size(), e.inputs.size());
  count("outputs", outputs.size(), e.bound.outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const BoundTensor& t = e.bound.tensors[static_cast<size_t>(e.bound.inputs[i])];
    check_tensor("input", inputs[i], t);
    if (inputs[i].strides != e.inputs[i].strides) {
      fail(Stage::run, "argument", {}, "input " + t.name + " has other strides than compiled for");
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const BoundTensor& t = e.output(i);
    check_tensor("output", outputs[i], t);
    for (const TensorView& input : inputs) {
      if (overlap(outputs[i], input)) {
        fail(Stage::run, "overlap", {}, "output " + t.name + " overlaps an input");
      }
    }
    for (size_t j = 0; j < i; ++j) {
      if (overlap(outputs[i], outputs[j])) {
        fail(Stage::run, "overlap", {},
             "output " + t.name + " overlaps output " + e.output(j).name);
      }
    }
  }
}

void run(const Executable& e, std::span<const TensorView> inputs,
         std::span<const TensorView> outputs, const RunOptions& options) {
  if (e.engine->is_reference()) {
    run_reference(e, inputs, outputs, options);
    return;
  }
  bool dense = std::all_of(outputs.begin(), outputs.end(),
                           [](const TensorView& t) { return t.strides.empty(); });
  if (dense) {
    run_launches(e, inputs, outputs, options);
    return;
  }
  std::vector<HostTensor> staged;
  std::vector<TensorView> views(outputs.begin(), outputs.end());
  for (TensorView& view : views) {
    staged.emplace_back(view.type, view.shape);
    view.data = staged.back().bytes.data();
    view.strides.clear();
  }
  run_launches(e, inputs, views, options);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!staged[i].bytes.empty()) copy_out(staged[i].bytes.data(), outputs[i]);
  }
}

}  // namespace tile
