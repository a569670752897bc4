#include "tests/random/sized_program.h"

#include <algorithm>

namespace tile::test {
namespace {

std::string list_of(const std::vector<std::string>& dims) {
  std::string text;
  for (const std::string& d : dims) text += (text.empty() ? "" : ", ") + d;
  return text;
}

}  // namespace

SizedProgram::SizedProgram(uint64_t seed) : random_(seed) {
  for (int i = 0; i < 3; ++i) widths_.push_back(random_.in(1, 9));
  input({"S", "A"});
  int64_t steps = random_.in(2, 6);
  for (int64_t i = 0; i < steps; ++i) step();
  std::string arguments;
  for (const Tensor& t : inputs_) {
    arguments += (arguments.empty() ? "" : ", ") + t.name + "[" + list_of(t.dims) + "]";
  }
  // What the last statements made, so that everything before is needed.
  std::string results;
  for (const Tensor& t : tensors_) {
    bool given = std::any_of(inputs_.begin(), inputs_.end(),
                             [&](const Tensor& i) { return i.name == t.name; });
    if (!given) results = results.empty() ? t.name : results + ", " + t.name;
  }
  text_ = "function (" + arguments + ") -> (" + results + ") {" + body_ + " }";
}

std::vector<HostTensor> SizedProgram::inputs(int64_t size) const {
  std::vector<HostTensor> list;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Shape shape;
    for (const std::string& d : inputs_[i].dims) {
      shape.push_back(d == "S" ? size : widths_[static_cast<size_t>(d[0] - 'A')]);
    }
    HostTensor t(DType::f32, shape);
    RandomSource values(i + 1);
    for (int64_t e = 0; e < t.count(); ++e) {
      t.set(e, real_scalar(static_cast<double>(values.in(-16, 16)) / 16, DType::f32));
    }
    list.push_back(std::move(t));
  }
  return list;
}

const SizedProgram::Tensor& SizedProgram::input(const std::vector<std::string>& dims) {
  inputs_.push_back({fresh("X"), dims});
  return tensors_.emplace_back(inputs_.back());
}

const SizedProgram::Tensor& SizedProgram::add(const std::string& name,
                                              std::vector<std::string> dims) {
  return tensors_.emplace_back(Tensor{name, std::move(dims)});
}

SizedProgram::Tensor SizedProgram::last(const std::vector<std::string>& dims) {
  for (size_t i = tensors_.size(); i-- > 0;) {
    if (tensors_[i].dims == dims) return tensors_[i];
  }
  return input(dims);
}

void SizedProgram::step() {
  using Step = void (SizedProgram::*)();
  const std::vector<Step> steps{
      &SizedProgram::product, &SizedProgram::scores,   &SizedProgram::weigh,
      &SizedProgram::mean,    &SizedProgram::centred,  &SizedProgram::softmax,
      &SizedProgram::taps,    &SizedProgram::running,  &SizedProgram::turned,
      &SizedProgram::batches, &SizedProgram::pointwise};
  (this->*random_.pick(steps))();
}

void SizedProgram::product() {
  Tensor x = last({"S", "A"}), w = last({"A", "B"});
  std::string y = fresh("Y");
  statement(y + "[s, o: S, B] = +(" + x.name + "[s, i] * " + w.name + "[i, o])");
  add(y, {"S", "B"});
}
// Both dimensions, maybe a triangle of them.
void SizedProgram::scores() {
  Tensor x = last({"S", "A"}), z = random_.percent(50) ? x : input({"S", "A"});
  std::string y = fresh("G"), when = random_.percent(30) ? ", s - t < S" : "";
  statement(y + "[s, t: S, S] = +(" + x.name + "[s, i] * " + z.name + "[t, i] / A)" + when);
  add(y, {"S", "S"});
}
// The size is a reduction.
void SizedProgram::weigh() {
  Tensor p = last({"S", "S"}), x = last({"S", "A"});
  std::string y = fresh("U"), when = random_.percent(30) ? ", s - t < S" : "";
  statement(y + "[s, c: S, A] = +(" + p.name + "[s, t] * " + x.name + "[t, c] / S)" + when);
  add(y, {"S", "A"});
}
void SizedProgram::mean() {
  Tensor x = last({"S", "A"});
  std::string m = fresh("M"), d = fresh("D"), op = random_.percent(70) ? "+" : ">";
  statement(m + "[c: A] = " + op + "(" + x.name + "[s, c])");
  statement(d + " = " + m + " / S");
  add(d, {"A"});
}
void SizedProgram::centred() {
  Tensor x = last({"S", "A"}), m = last({"A"});
  std::string y = fresh("C");
  statement(y + " = " + x.name + " - 0.5 * " + m.name);
  add(y, {"S", "A"});
}
// Over the size, or of rows of the program's own sizes.
void SizedProgram::softmax() {
  bool square = random_.percent(60);
  Tensor x = last({"S", square ? "S" : "A"});
  std::string top = fresh("T"), e = fresh("E"), sum = fresh("N"), y = fresh("P");
  statement(top + "[r, 0: S, 1] = >(" + x.name + "[r, c])");
  statement(e + " = exp(" + x.name + " - " + top + ")");
  statement(sum + "[r, 0: S, 1] = +(" + e + "[r, c])");
  statement(y + " = " + e + " / " + sum);
  add(y, x.dims);
}
// A window along the size, whose ends are conditions.
void SizedProgram::taps() {
  Tensor x = last({"S", "A"}), k = input({"C", "A", "B"});
  std::string y = fresh("Y");
  statement(y + "[s, o: S, B] = +(" + x.name + "[s + j - C / 2, i] * " + k.name + "[j, i, o])");
  add(y, {"S", "B"});
}
void SizedProgram::running() {
  Tensor x = last({"S", "A"});
  std::string y = fresh("R");
  statement(y + "[s, c: S, A] = +(" + x.name + "[t, c]), s - t < S");
  std::string z = fresh("R");
  statement(z + " = " + y + " / S");
  add(z, {"S", "A"});
}
// The size is the last dimension.
void SizedProgram::turned() {
  Tensor x = last({"S", "A"}), w = last({"A", "B"});
  std::string y = fresh("Y"), z = fresh("Y");
  statement(y + "[o, s: B, S] = +(" + x.name + "[s, i] * " + w.name + "[i, o])");
  statement(z + " = " + y + " * 0.5 + 0.25");
  add(z, {"B", "S"});
}
void SizedProgram::pointwise() {
  Tensor x = last(random_.percent(50) ? std::vector<std::string>{"S", "A"}
                                      : std::vector<std::string>{"S", "S"});
  std::string y = fresh("F");
  statement(y + " = relu(" + x.name + ") * 0.75 - 0.125");
  add(y, x.dims);
}
// The size is in the stride of the outermost dimension, and a reduction.
void SizedProgram::batches() {
  Tensor x = input({"B", "S", "A"});
  std::string y = fresh("Y"), z = fresh("Y");
  statement(y + "[b, c: B, A] = +(" + x.name + "[b, s, c])");
  statement(z + "[b, s, c: B, S, A] = +(" + x.name + "[b, s, c] - " + y + "[b, c] / S)");
  add(z, {"B", "S", "A"});
}

}  // namespace tile::test
