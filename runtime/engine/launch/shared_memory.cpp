#include "runtime/engine/launch/shared_memory.h"

#include <algorithm>
#include <cstdlib>

#include "core/support/checked.h"
#include "runtime/engine/launch/strided_copy.h"

namespace tile {
namespace {

constexpr int kMostSteps = 100'000;  // well below a millisecond

// A sum of factor * x over terms, 0 <= x <= most.
struct Term {
  int64_t factor = 0, most = 0;
};

// Whether the terms can sum up to a number: largest factors first, each value of x that what the
// rest can make leaves.
class BoundedSum {
 public:
  // Negative factors are turned around, which moves the target.
  BoundedSum(const std::vector<Term>& terms, int64_t target) : target_(target) {
    for (Term t : terms) {
      if (t.factor < 0) {
        target_ = checked_sub(target_, checked_mul(t.factor, t.most));
        t.factor = checked_neg(t.factor);
      }
      if (t.factor != 0 && t.most != 0) terms_.push_back(t);
    }
    std::sort(terms_.begin(), terms_.end(),
              [](const Term& a, const Term& b) { return a.factor > b.factor; });
    join_equal_factors();
    reach_.assign(terms_.size() + 1, 0);
    divisor_.assign(terms_.size() + 1, 0);
    for (size_t k = terms_.size(); k-- > 0;) {
      reach_[k] = checked_add(reach_[k + 1], checked_mul(terms_[k].factor, terms_[k].most));
      divisor_[k] = gcd(divisor_[k + 1], terms_[k].factor);
    }
  }

  bool possible() { return from(0, target_); }

 private:
  void join_equal_factors() {
    std::vector<Term> joined;
    for (const Term& t : terms_) {
      bool same = !joined.empty() && joined.back().factor == t.factor;
      if (same) {
        joined.back().most = checked_add(joined.back().most, t.most);
      } else {
        joined.push_back(t);
      }
    }
    terms_ = std::move(joined);
  }

  bool from(size_t k, int64_t rest) {
    if (rest < 0 || rest > reach_[k]) return false;
    if (rest == 0) return true;
    if (rest % divisor_[k] != 0) return false;
    const Term& t = terms_[k];
    int64_t least = rest <= reach_[k + 1] ? 0 : ceil_div(rest - reach_[k + 1], t.factor);
    for (int64_t x = std::min(t.most, rest / t.factor); x >= least; --x) {
      if (++steps_ > kMostSteps || from(k + 1, rest - t.factor * x)) return true;
    }
    return false;
  }

  int64_t target_;
  std::vector<Term> terms_;
  std::vector<int64_t> reach_, divisor_;  // of the terms from each one on
  int steps_ = 0;
};

// How the address moves along each dimension that has more than one element.
std::vector<Term> terms_of(const TensorView& t, int64_t unit) {
  std::vector<Term> terms;
  std::vector<int64_t> dense = dense_strides(t.shape);
  const std::vector<int64_t>& strides = t.strides.empty() ? dense : t.strides;
  for (size_t d = 0; d < t.shape.size(); ++d) {
    if (t.shape[d] > 1) terms.push_back({checked_mul(strides[d], unit), t.shape[d] - 1});
  }
  return terms;
}

}  // namespace

// The differences of two positions: the first dimension in which they differ moves forward, those
// before it not at all, the others both ways.
bool shares_with_itself(const TensorView& tensor) {
  if (tensor.strides.empty() || byte_count(tensor) == 0) return false;
  std::vector<Term> terms = terms_of(tensor, 1);
  for (size_t first = 0; first < terms.size(); ++first) {
    if (terms[first].factor == 0) return true;
    std::vector<Term> differences{{terms[first].factor, terms[first].most - 1}};
    int64_t target = checked_neg(terms[first].factor);
    for (size_t d = first + 1; d < terms.size(); ++d) {
      differences.push_back({terms[d].factor, checked_mul(2, terms[d].most)});
      target = checked_add(target, checked_mul(terms[d].factor, terms[d].most));
    }
    if (BoundedSum(differences, target).possible()) return true;
  }
  return false;
}

bool shares_memory(const TensorView& a, const TensorView& b) {
  if (byte_count(a) == 0 || byte_count(b) == 0 || !overlap(a, b)) return false;
  auto bytes_a = static_cast<int64_t>(byte_size(a.type));
  auto bytes_b = static_cast<int64_t>(byte_size(b.type));
  std::vector<Term> terms = terms_of(a, bytes_a);
  for (Term t : terms_of(b, bytes_b)) terms.push_back({checked_neg(t.factor), t.most});
  terms.push_back({1, bytes_a - 1});   // the byte of one element
  terms.push_back({-1, bytes_b - 1});  // and of the other
  return BoundedSum(terms,
                    static_cast<const std::byte*>(b.data) - static_cast<const std::byte*>(a.data))
      .possible();
}

}  // namespace tile
