#include "tests/cpu/nests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <span>

#include "backends/cpu/cpu_backend.h"
#include "core/support/diagnostic.h"
#include "tests/executors/guarded_memory.h"

namespace tile::cpu {
namespace {

constexpr std::byte kSentinel{0xa5};

// A tensor laid out as the nest's buffer says, against a page that nothing may touch.
class Laid {
 public:
  Laid(const nest::Buffer& buffer, const HostTensor& dense, test::Edge edge) : buffer_(buffer) {
    int64_t low = 0, high = 0;
    for (size_t d = 0; d < buffer.shape.size(); ++d) {
      int64_t reach = (buffer.shape[d] - 1) * buffer.strides[d];
      (reach < 0 ? low : high) += reach;
    }
    size_t size = byte_size(buffer.type);
    memory_ = std::make_unique<test::GuardedMemory>(
        buffer.name, static_cast<size_t>(high - low + 1) * size, edge, kSentinel, size);
    first_ = memory_->data() + static_cast<size_t>(-low) * size;
    each(dense, [&](int64_t flat, std::byte* at) { store_element(at, dense.at(flat)); });
  }
  void* data() { return first_; }
  // The elements; checks that what lies between and around them is untouched.
  HostTensor gathered(const HostTensor& like) {
    HostTensor dense(like.type, like.shape);
    std::span<std::byte> all = memory_->accessible();
    std::vector<std::byte> rest(all.begin(), all.end());
    each(dense, [&](int64_t flat, std::byte* at) {
      dense.set(flat, load_element(at, dense.type));
      std::fill_n(&rest[static_cast<size_t>(at - all.data())], byte_size(dense.type), kSentinel);
    });
    bool intact = std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == kSentinel; });
    EXPECT_TRUE(intact) << "memory around " << buffer_.name << " was written";
    return dense;
  }

 private:
  template <class F>
  void each(const HostTensor& dense, F f) {
    for (int64_t flat = 0; flat < dense.count(); ++flat) {
      int64_t rest = flat, offset = 0;
      for (size_t d = buffer_.shape.size(); d-- > 0;) {
        offset += rest % buffer_.shape[d] * buffer_.strides[d];
        rest /= buffer_.shape[d];
      }
      f(flat, first_ + offset * static_cast<int64_t>(byte_size(buffer_.type)));
    }
  }

  const nest::Buffer& buffer_;
  std::unique_ptr<test::GuardedMemory> memory_;
  std::byte* first_ = nullptr;
};

int precision(DType type) {
  switch (type) {
    case DType::f8e4m3:
      return 4;
    case DType::f8e5m2:
      return 3;
    case DType::f16:
      return 11;
    case DType::bf16:
      return 8;
    default:
      return type == DType::f32 ? 24 : 53;
  }
}

// Of the smallest normal number, as frexp gives it.
int lowest_exponent(DType type) {
  if (type == DType::f8e4m3) return -5;
  bool half = type == DType::f16 || type == DType::f8e5m2;
  return type == DType::f64 ? -1021 : half ? -13 : -125;
}

bool close(const Scalar& got, const Scalar& wanted, double tolerance) {
  if (same_value(got, wanted)) return true;
  if (tolerance == 0 || !is_float(got.type) || !std::isfinite(wanted.f)) return false;
  int exponent = 0;
  std::frexp(wanted.f, &exponent);
  double unit =
      std::ldexp(1.0, std::max(exponent, lowest_exponent(got.type)) - precision(got.type));
  return std::fabs(got.f - wanted.f) <= tolerance * unit;
}

std::string text_of(const Scalar& s) {
  return is_float(s.type) ? std::to_string(s.f) : std::to_string(s.i);
}

void compare(const HostTensor& got, const HostTensor& wanted, const std::string& what,
             double tolerance) {
  int shown = 0;
  for (int64_t i = 0; i < wanted.count() && shown < 5; ++i) {
    if (close(got.at(i), wanted.at(i), tolerance)) continue;
    ++shown;
    ADD_FAILURE() << what << "[" << i << "] is " << text_of(got.at(i)) << " instead of "
                  << text_of(wanted.at(i));
  }
}

void launch_and_compare(const nest::Nest& nest, const Code& code,
                        const std::vector<HostTensor>& arguments,
                        const std::vector<HostTensor>& wanted, const Run& run, test::Edge edge,
                        const std::string& where) {
  std::vector<Laid> laid;
  std::vector<void*> pointers;
  laid.reserve(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    laid.emplace_back(nest.buffers[i], arguments[i], edge);
    pointers.push_back(laid.back().data());
  }
  std::vector<std::byte> workspace(code.workspace_bytes() + 64, std::byte{0x7f});
  void* aligned = workspace.data();
  size_t space = workspace.size();
  std::align(64, code.workspace_bytes(), aligned, space);
  LaunchOptions options;
  options.threads = run.threads;
  options.workspace = static_cast<std::byte*>(aligned);
  shared_backend()->launch(code, pointers, run.parameters, options);
  EXPECT_EQ(test::touches(), "") << where;
  for (size_t i = 0; i < arguments.size(); ++i) {
    compare(laid[i].gathered(arguments[i]), wanted[i], where + " " + nest.buffers[i].name,
            run.tolerance);
  }
}

}  // namespace

nest::Nest parse(const std::string& text) {
  auto source = std::make_shared<Source>(Source{"nest", text});
  try {
    nest::Nest nest = nest::parse_nest(source);
    nest::verify(nest);
    return nest;
  } catch (const Failure& f) {
    throw InternalError(render(f.diagnostic(), *source));
  }
}

std::vector<HostTensor> small_integers(const nest::Nest& nest, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<HostTensor> tensors;
  for (size_t i = 0; i < nest.argument_count(); ++i) {
    const nest::Buffer& b = nest.buffers[i];
    HostTensor t(b.type, b.shape);
    bool negative = is_float(b.type) || is_signed_integer(b.type);
    for (int64_t j = 0; j < t.count(); ++j) {
      auto value = static_cast<int64_t>(random() % 7) - (negative ? 3 : 0);
      t.set(j, integer_scalar(b.type == DType::bool_ ? value & 1 : value, b.type));
    }
    tensors.push_back(std::move(t));
  }
  return tensors;
}

void expect_as_interpreted(const nest::Nest& nest, const std::vector<HostTensor>& arguments,
                           const Run& run) {
  std::vector<HostTensor> wanted;
  std::vector<HostTensor*> pointers;
  // Through the layout, so that elements that share memory (stride 0) have one value.
  for (size_t i = 0; i < arguments.size(); ++i) {
    Laid laid(nest.buffers[i], arguments[i], test::Edge::end);
    wanted.push_back(laid.gathered(arguments[i]));
  }
  for (HostTensor& t : wanted) pointers.push_back(&t);
  nest::interpret(nest, pointers, run.parameters);
  auto backend = shared_backend();
  int tried = 0;
  for (const std::string& name : run.targets) {
    Target target;
    try {
      target = backend->target_named(name);
    } catch (const Failure&) {
      continue;
    }
    ++tried;
    auto code = backend->compile(nest, target);
    for (test::Edge edge : {test::Edge::end, test::Edge::start}) {
      launch_and_compare(nest, *code, arguments, wanted, run, edge, nest.name + " on " + name);
    }
  }
  EXPECT_GT(tried, 0);
}

void expect_as_interpreted(const std::string& text, const Run& run) {
  nest::Nest nest = parse(text);
  expect_as_interpreted(nest, small_integers(nest, 1), run);
}

}  // namespace tile::cpu
