#include <algorithm>
#include <cmath>

#include "tests/random/draw/draft.h"

namespace tile::test {
namespace {

// A shape that broadcasts with x's.
Shape broadcast_shape(Draft& draft, const Shape& shape) {
  Shape other(shape);
  if (!other.empty() && draft.random.percent(40)) {
    other.erase(other.begin(), other.begin() + draft.random.in(1, std::ssize(other)));
  }
  for (int64_t& size : other) {
    if (draft.random.percent(30)) size = 1;
  }
  if (other != shape) draft.feature("broadcast");
  return other;
}

Known draw_unary(Draft& draft, const Known& x) {
  std::string name = draft.fresh(), set = name + " = ";
  double b = x.bound;
  switch (draft.random.in(draft.may_compare() ? 0 : 1, 8)) {
    case 0:
      return draft.assign(name, set + x.name + " > 0 ? " + x.name + " : 2", std::max(b, 2.0));
    case 5:
      return draft.assign(name, set + "relu(" + x.name + ") + 1", b + 1);
    case 1:
      return draft.assign(name, set + x.name + " * 2 + 1", 2 * b + 1);
    case 2:
      return draft.assign(name, set + "-" + x.name, b);
    case 3:
      return draft.assign(name, set + "abs(" + x.name + ")", b);
    case 4:
      return draft.assign(name, set + x.name + " * " + x.name, b * b);
    case 6:
      draft.inexact();
      return draft.assign(name, set + "tanh(" + x.name + ") / 3", 1);
    case 7:
      draft.inexact();
      return draft.assign(name, set + "sigmoid(" + x.name + " * 0.25) + sqrt(abs(" + x.name + "))",
                          b + 1);
    default:
      return draft.assign(name, set + "min(" + x.name + ", 5) - max(" + x.name + ", 1)", 2 * b + 6);
  }
}

Known draw_binary(Draft& draft, const Known& x) {
  Known y = draft.input(draft.another_type(x.type), broadcast_shape(draft, x.shape));
  std::string name = draft.fresh(), set = name + " = ";
  double a = x.bound, b = y.bound;
  switch (draft.random.in(0, draft.may_compare() ? 5 : 4)) {
    case 0:
      return draft.assign(name, set + x.name + " + " + y.name, a + b);
    case 1:
      return draft.assign(name, set + y.name + " * " + x.name, a * b);
    case 2:
      return draft.assign(name, set + x.name + " - 2 * " + y.name, a + 2 * b);
    case 3:
      return draft.assign(name, set + "max(" + x.name + ", " + y.name + ")", std::max(a, b));
    case 4:
      return draft.assign(name, set + x.name + " < " + y.name + " ? " + y.name + " : " + x.name,
                          std::max(a, b));
    default:
      return draft.assign(name, set + x.name + " <= " + y.name, 1);
  }
}

std::string sizes_text(const Shape& shape) {
  std::string text;
  for (int64_t size : shape) text += ", " + std::to_string(size);
  return text;
}

// A call on a tensor of rank 1 or more along `axis`.
Known draw_axis_call(Draft& draft, const Known& x, size_t axis) {
  std::string name = draft.fresh(), set = name + " = ", along = ", " + std::to_string(axis);
  int64_t size = x.shape[axis];
  auto length = static_cast<double>(size);
  switch (draft.random.in(draft.may_compare() ? 0 : 2, 7)) {
    case 0:
      return draft.assign(name, set + "argmax(" + x.name + along + ")", length);
    case 1:
      return draft.assign(name, set + "argmin(" + x.name + along + ") + 1", length);
    case 2:
      return draft.assign(name, set + "cumsum(" + x.name + along + ")", x.bound * length);
    case 3:
      draft.feature("sort");
      return draft.assign(name, set + "sort(" + x.name + along + ")", x.bound);
    case 4:
      return draft.assign(name, set + "index(" + x.name + along + ") + " + x.name,
                          x.bound + length);
    case 5: {
      Known y = draft.input(x.type, x.shape);
      return draft.assign(
          name, set + "concat(" + std::to_string(axis) + ", " + x.name + ", " + y.name + ")",
          std::max(x.bound, y.bound));
    }
    case 6: {
      int64_t start = draft.random.in(0, std::max<int64_t>(0, size / 2));
      return draft.assign(name,
                          set + "slice(" + x.name + along + sizes_text({start, size}) + ", " +
                              std::to_string(draft.random.in(1, 2)) + ")",
                          x.bound);
    }
    default: {
      Known y = draft.input(DType::i32, {draft.random.in(1, 4)});
      return draft.assign(name, set + "gather(" + x.name + ", " + y.name + ")", x.bound);
    }
  }
}

}  // namespace

Known draw_elementwise(Draft& draft, const Known& x) {
  draft.feature("elementwise");
  return draft.random.percent(45) ? draw_unary(draft, x) : draw_binary(draft, x);
}

Known draw_call(Draft& draft, const Known& x) {
  draft.feature("whole-tensor call");
  std::string name = draft.fresh(), set = name + " = ";
  if (!x.shape.empty() && draft.random.percent(65)) {
    auto axis = static_cast<size_t>(draft.random.in(0, std::ssize(x.shape) - 1));
    return draw_axis_call(draft, x, axis);
  }
  switch (draft.random.in(0, 4)) {
    case 0:
      return draft.assign(name, set + "transpose(" + x.name + ")", x.bound);
    case 1:
      return draft.assign(
          name, set + "reshape(" + x.name + ", " + std::to_string(element_count(x.shape)) + ", 1)",
          x.bound);
    case 2: {
      Known seed = draft.input(DType::i64, {});
      return draft.assign(name, set + "prng_uniform(" + seed.name + sizes_text(x.shape) + ") < 0.5",
                          1);
    }
    case 3: {
      Known like = draft.input(x.type, broadcast_shape(draft, x.shape));
      return draft.assign(name, set + "sum_to(" + x.name + ", " + like.name + ")",
                          x.bound * static_cast<double>(element_count(x.shape)));
    }
    default: {
      if (x.shape.empty()) throw Redraw();
      Known at = draft.input(DType::i64, {x.shape[0]});
      return draft.assign(name, set + "scatter(" + x.name + ", " + at.name + ", 4)",
                          x.bound * static_cast<double>(x.shape[0]));
    }
  }
}

}  // namespace tile::test
