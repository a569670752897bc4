// Trial assignments inside the ranges: a bound that one of them breaks need not be searched for.
// They only save work; nothing is concluded from them.
#include <limits>

#include "core/simplify/simplifier.h"
#include "core/support/checked.h"

namespace tile::algebra {
namespace {

uint64_t hash(const std::string& name) {
  uint64_t h = 1469598103934665603u;
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return h >> 7;
}

// All at their lower ends, all at their upper ends, mixed ends, and two inside.
int64_t pick(size_t sample, const std::string& name, int64_t lo, int64_t hi) {
  uint64_t h = hash(name);
  switch (sample) {
    case 0:
      return lo;
    case 1:
      return hi;
    case 2:
      return h & 1 ? lo : hi;
    case 3:
      return h & 1 ? hi : lo;
    default: {
      auto span = static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo);
      uint64_t step =
          (h >> sample) % (span == std::numeric_limits<uint64_t>::max() ? span : span + 1);
      return static_cast<int64_t>(static_cast<uint64_t>(lo) + step);
    }
  }
}

}  // namespace

bool Simplifier::refuted(const Polynomial& p, Wide target) {
  for (size_t i = 0; i < kSamples; ++i) {
    auto value = sample(p, i);
    if (value && *value < target) return true;
  }
  return false;
}

std::optional<int64_t> Simplifier::sample(const Polynomial& p, size_t i) {
  int64_t sum = 0;
  for (const Term& term : p.terms) {
    int64_t product = term.coefficient;
    for (const Expr& e : term.atoms) {
      const Samples& values = samples(e);
      if (!values[i] || __builtin_mul_overflow(product, *values[i], &product)) return std::nullopt;
    }
    if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
  }
  return sum;
}

const Simplifier::Samples& Simplifier::samples(const Expr& e) {
  if (e.kind() == ExprKind::variable) {
    VariableInfo& info = variable_info(e.name());
    if (!info.samples) {
      info.samples.emplace();  // what ranges in a circle find meanwhile
      info.samples = variable_samples(e.name(), info);
    }
    return *info.samples;
  }
  AtomInfo& info = atom_info(e);
  if (!info.samples) info.samples = atom_samples(e, info);
  return *info.samples;
}

Simplifier::Samples Simplifier::variable_samples(const std::string& name,
                                                 const VariableInfo& info) {
  Samples values;
  for (size_t i = 0; i < kSamples; ++i) {
    std::optional<int64_t> lo, hi;
    if (info.has_lo) lo = sample(info.lo, i);
    if (info.has_hi) hi = sample(info.hi, i);
    if ((info.has_lo && !lo) || (info.has_hi && !hi)) continue;
    constexpr int64_t kWidth = 9;
    if (!lo && !hi) lo = -4;
    if (!lo && __builtin_sub_overflow(*hi, kWidth, &lo.emplace())) continue;
    if (!hi && __builtin_add_overflow(*lo, kWidth, &hi.emplace())) continue;
    if (*lo <= *hi) values[i] = pick(i, name, *lo, *hi);
  }
  return values;
}

Simplifier::Samples Simplifier::atom_samples(const Expr& e, const AtomInfo& info) {
  Samples values;
  for (size_t i = 0; i < kSamples; ++i) {
    std::vector<Expr> args;
    for (const Polynomial& arg : info.args) {
      auto value = sample(arg, i);
      if (!value) break;
      args.emplace_back(*value);
    }
    if (args.size() != info.args.size()) continue;
    try {
      values[i] = evaluate(Expr::make(e.kind(), std::move(args)),
                           [](std::string_view) { return std::optional<int64_t>(); });
    } catch (const Overflow&) {
    }
  }
  return values;
}

}  // namespace tile::algebra
