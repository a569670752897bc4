#include "tests/random/draw/workshop.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "core/interpret/interpret.h"
#include "core/language/tile/tile.h"
#include "core/passes/bind/bind.h"

namespace tile::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Values beyond it are no use: what follows overflows soon.
constexpr double kLargest = 1 << 20;
constexpr size_t kLongestDim = 14;  // characters of a size expression; longer ones are numbers

double digits(DType type) { return type == DType::f64 ? 0x1p53 : 0x1p24; }

// The size of the largest element; `finite`: NaN and infinities do not count.
double largest_of(const HostTensor& t, bool finite) {
  double largest = 0;
  for (int64_t i = 0; i < t.count(); ++i) {
    double value = std::fabs(convert(t.at(i), DType::f64).f);
    if (finite && !std::isfinite(value)) continue;
    if (!(value <= largest)) largest = value;  // NaN too
  }
  return largest;
}

}  // namespace

CompilerContext::CompilerContext(RandomSource& random_source, const WholeOptions& drawing)
    : random(random_source), options(drawing) {
  static const std::vector<DType> kFamilies = {DType::f32, DType::f32,  DType::f32, DType::f32,
                                               DType::f64, DType::bf16, DType::f16, DType::i32,
                                               DType::i64, DType::i8,   DType::u8,  DType::i16,
                                               DType::u16, DType::u32,  DType::u64, DType::bool_};
  static const std::vector<DType> kFloats = {DType::f32, DType::f32, DType::f32, DType::f64};
  family_ = random.percent(45) ? DType::f32 : random.pick(kFamilies);
  if (options.floats || (options.inexact && !is_float(family_))) family_ = random.pick(kFloats);
  choose_sizes();
}

void CompilerContext::choose_sizes() {
  static const std::vector<int64_t> kPrimes = {11, 13, 17, 19, 23, 29, 31, 37};
  static const std::vector<int64_t> kNearVectors = {15, 16, 32, 33, 48, 63, 64, 65, 66};
  static const std::vector<int64_t> kBeyondTiles = {97, 128, 131, 200, 257, 300};
  int64_t count = random.in(2, 4);
  for (int64_t i = 0; i < count; ++i) {
    int64_t kind = random.in(0, 99);
    int64_t size = kind < 2    ? 0
                   : kind < 9  ? 1
                   : kind < 60 ? random.in(2, 9)
                   : kind < 80 ? random.pick(kPrimes)
                   : kind < 94 ? random.pick(kNearVectors)
                               : random.pick(kBeyondTiles);
    names_.push_back("N" + std::to_string(i));
    program.sizes[names_.back()] = size;
  }
}

const Made& CompilerContext::pick(const std::function<bool(const Made&)>& fits) {
  std::vector<const Made*> list;
  for (const Made& m : made_) {
    if (fits(m)) list.push_back(&m);
  }
  if (list.empty()) throw Redraw();
  bool late = random.percent(60);
  auto first = late ? std::max<int64_t>(0, std::ssize(list) - 4) : 0;
  return *list[static_cast<size_t>(random.in(first, std::ssize(list) - 1))];
}

int64_t CompilerContext::size(const std::string& dim) const {
  std::optional<int64_t> value = size_of(dim, program.sizes);
  if (!value) throw Redraw();
  return *value;
}
std::string CompilerContext::any_dim() { return random.pick(names_); }

DType CompilerContext::any_type() {
  static const std::vector<DType> kOthers = {
      DType::bool_, DType::i8,  DType::u8,  DType::i32, DType::i64,    DType::bf16,
      DType::f16,   DType::f32, DType::f32, DType::f64, DType::f8e4m3, DType::f8e5m2};
  if (options.floats) return random.percent(92) ? family_ : DType::f32;
  return random.percent(82) ? family_ : random.pick(kOthers);
}

Scalar CompilerContext::element(DType type) {
  if (type == DType::bool_) return integer_scalar(random.percent(60) ? 1 : 0, type);
  if (is_float(type) && options.special && random.percent(3)) {
    if (random.percent(50)) return real_scalar(std::numeric_limits<double>::quiet_NaN(), type);
    return real_scalar(random.percent(50) ? kInfinity : -kInfinity, type);
  }
  if (is_float(type) && options.real_values) return real_scalar(random.unit() * 4 - 2, type);
  int64_t size = random.percent(8) ? 0 : random.in(1, 3);
  return integer_scalar(!is_unsigned_integer(type) && random.percent(45) ? -size : size, type);
}

const Made& CompilerContext::input(DType type, const std::vector<std::string>& dims) {
  Shape shape;
  for (const std::string& dim : dims) shape.push_back(size(dim));
  if (element_count(shape) > options.elements) throw Redraw();
  WholeInput in{"I" + std::to_string(next_++), type, dims, HostTensor(type, shape)};
  for (int64_t i = 0; i < in.values.count(); ++i) in.values.set(i, element(type));
  bool exact = !(options.real_values && is_float(type));
  made_.push_back({in.name, type, dims, in.values, 3, exact ? 1 : 0x1p-30, exact});
  program.inputs.push_back(std::move(in));
  return made_.back();
}

const Made& CompilerContext::integers(const std::vector<std::string>& dims, int64_t least,
                                      int64_t most) {
  DType type = random.percent(50) ? DType::i32 : DType::i64;
  input(type, dims);
  HostTensor& values = program.inputs.back().values;
  for (int64_t i = 0; i < values.count(); ++i) {
    values.set(i, integer_scalar(random.in(least, most), type));
  }
  made_.back().values = values;
  made_.back().bound = static_cast<double>(std::max(std::abs(least), std::abs(most)));
  return made_.back();
}

HostTensor CompilerContext::evaluated(const WholeStatement& statement,
                                      HostTensor& magnitudes) const {
  WholeProgram one;
  one.sizes = program.sizes;
  std::vector<std::string> words = words_of(statement.text);
  for (const Made& m : made_) {
    if (std::find(words.begin(), words.end(), m.name) == words.end()) continue;
    one.inputs.push_back({m.name, m.type, m.dims, m.values});
  }
  one.statements = {statement};
  one.outputs = {statement.result};
  InterpretOptions limits;
  limits.point_limit = options.points;
  limits.byte_limit = 1 << 24;
  try {
    WholeCase c = case_of(one);
    auto source = std::make_shared<const Source>(Source{"whole.tile", c.drawn.text});
    BoundProgram bound = tile::bind(parse_tile(source), c.drawn.types);
    check_assignments(bound);
    const BoundTensor& t = bound.tensors[bound.outputs[0]];
    if (element_count(t.shape) > options.elements) throw Redraw();
    Interpretation done = interpret(bound, c.drawn.inputs, limits, true);
    magnitudes = std::move(done.magnitudes.at(0));
    return std::move(done.outputs.at(0));
  } catch (const Failure&) {
    throw Redraw();
  }
}

const Made& CompilerContext::assign(const std::string& text, const std::vector<std::string>& dims,
                                    const Term& what) {
  WholeStatement s;
  s.result = "T" + std::to_string(next_++);
  s.text = s.result + text;
  HostTensor magnitudes;
  Made m;
  m.values = evaluated(s, magnitudes);
  m.name = s.result;
  m.type = m.values.type;
  bool finite = options.special;
  m.bound = largest_of(m.values, finite);
  m.dims = dims;
  m.dims.resize(m.values.shape.size(), "?");
  for (size_t d = 0; d < m.dims.size(); ++d) {
    int64_t actual = m.values.shape[d];
    bool named = m.dims[d] != "?" && m.dims[d].size() <= kLongestDim && size(m.dims[d]) == actual;
    if (!named) m.dims[d] = std::to_string(actual);
  }
  bool floats = is_float(m.type);
  double summed = std::max({largest_of(magnitudes, finite), m.bound, what.bound});
  m.unit = floats ? what.unit : 1;
  bool fits = summed <= (floats ? digits(m.type) * m.unit : 0x1p31);
  m.exact = what.exact && fits;
  if (floats && !(m.bound <= kLargest)) throw Redraw();
  if (!options.inexact && !options.real_values && !m.exact) throw Redraw();
  if (!floats && !m.exact) throw Redraw();  // truncation would turn a rounding into a difference
  s.dims = m.dims;
  s.exact = m.exact;
  program.statements.push_back(std::move(s));
  made_.push_back(std::move(m));
  return made_.back();
}

CompilerContext::Mark CompilerContext::mark() const {
  return {program.inputs.size(), program.statements.size(), made_.size()};
}
void CompilerContext::back_to(const Mark& mark) {
  program.inputs.resize(mark.inputs);
  program.statements.resize(mark.statements);
  while (made_.size() > mark.made) made_.pop_back();
}

}  // namespace tile::test
