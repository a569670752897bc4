// Random programs on the GPU against the reference interpreter, for gpu_check: one process for a
// range of seeds, so that the caller fills all cores and a kernel that breaks the GPU's context
// takes only one range with it.
//
//   tile-gpu-check differential|reals|large|gradients FIRST COUNT
//   tile-gpu-check several                 two GPUs in one process (several.h)
//   tile-gpu-check cancel                  calls that are cancelled (cancel.h)
//   tile-gpu-check ranks FIRST COUNT       programs divided among GPUs (ranks.h)
//   tile-gpu-check rank-times [SIZE]       times of divided products, of 8192 terms and columns
//
// Prints a JSON line for each program that disagrees or fails, and one at the end with the number
// of programs that were compared. Exit status: 0 all agree, 1 some do not, 3 the context is lost
// ("next" of the last line is the seed to go on from), 77 no GPU.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/executors/run_backends.h"
#include "tests/gpu/cancel.h"
#include "tests/gpu/ranks.h"
#include "tests/gpu/several.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/agreement/gradient_case.h"

namespace tile::test {
namespace {

using Json = nlohmann::ordered_json;

// Gradients: relative to the largest element, as the sums' orders differ.
std::string gradient_difference(const std::vector<HostTensor>& expected,
                                const std::vector<HostTensor>& got) {
  for (size_t o = 0; o < got.size(); ++o) {
    double largest = 1;
    for (int64_t i = 0; i < expected[o].count(); ++i) {
      double value = std::abs(convert(expected[o].at(i), DType::f64).f);
      if (std::isfinite(value)) largest = std::max(largest, value);
    }
    for (int64_t i = 0; i < expected[o].count(); ++i) {
      double x = convert(expected[o].at(i), DType::f64).f, y = convert(got[o].at(i), DType::f64).f;
      bool close = std::isnan(x) ? std::isnan(y) : x == y || std::abs(x - y) <= 1e-5 * largest;
      if (close) continue;
      return "output " + std::to_string(o) + ", element " + std::to_string(i) + ": expected " +
             std::to_string(x) + ", got " + std::to_string(y);
    }
  }
  return "";
}

class Check {
 public:
  Check(std::string kind, uint64_t first, uint64_t count)
      : kind_(std::move(kind)), next_(first), end_(first + count), engine_(test_engine("cuda")) {}

  int run() {
    bool lost = false;
    while (next_ < end_ && !lost) {
      uint64_t seed = next_++;
      std::string wrong = one(seed, lost);
      if (wrong.empty()) continue;
      ++failed_;
      std::cout << Json{{"seed", seed}, {"wrong", wrong}, {"program", text_}}.dump() << std::endl;
    }
    std::cout << Json{{"compared", compared_}, {"failed", failed_}, {"next", next_}}.dump()
              << std::endl;
    return lost ? 3 : failed_ != 0 ? 1 : 0;
  }

 private:
  bool draw(uint64_t seed, RandomCase& drawn) const {
    if (kind_ == "gradients") return gradient_case(seed, drawn);
    RandomOptions options;
    options.real_values = kind_ == "reals";
    options.large = kind_ == "large";
    drawn = random_case(seed, options);
    return true;
  }

  std::string one(uint64_t seed, bool& lost) {
    RandomCase drawn;
    if (!draw(seed, drawn)) return "";
    text_ = drawn.text;
    try {
      std::shared_ptr<const Executable> e = compiled(engine_, drawn);
      bool gradients = kind_ == "gradients";
      Interpretation expected = interpret(e->bound, drawn.inputs, {}, !gradients);
      if (gradients && overflows(expected.outputs)) return "";
      std::vector<HostTensor> got = run_code(*e, drawn.inputs);
      ++compared_;
      return gradients ? gradient_difference(expected.outputs, got)
                       : difference(expected, got, drawn.exact);
    } catch (const Failure& failure) {
      lost = failure.diagnostic().code == "launch";
      return failure.what();
    } catch (const InternalError& error) {
      return error.what();
    }
  }

  std::string kind_;
  uint64_t next_, end_;
  std::shared_ptr<Engine> engine_;
  std::string text_;
  int compared_ = 0, failed_ = 0;
};

int main_of(int argc, char** argv) {
  std::string kind = argc > 1 ? argv[1] : "";
  if (argc == 2 && kind == "several") return check_several();
  if (argc == 2 && kind == "cancel") return check_cancel();
  bool times = (argc == 2 || argc == 3) && kind == "rank-times";
  if (argc != 4 && !times) {
    std::cerr << "usage: tile-gpu-check differential|reals|large|gradients|ranks FIRST COUNT | "
                 "several | cancel | rank-times [SIZE]\n";
    return 2;
  }
  try {
    constexpr int64_t kSize = 8192;
    if (times) return time_ranks(argc == 3 ? std::max(16LL, std::atoll(argv[2])) : kSize);
    uint64_t first = std::strtoull(argv[2], nullptr, 10);
    uint64_t count = std::strtoull(argv[3], nullptr, 10);
    if (kind == "ranks") return check_ranks(first, count);
    return Check(kind, first, count).run();
  } catch (const Failure& failure) {
    std::cerr << "tile-gpu-check: " << failure.what() << "\n";
    bool none = failure.diagnostic().code == "driver" || failure.diagnostic().code == "device";
    return none ? 77 : 1;
  }
}

}  // namespace
}  // namespace tile::test

int main(int argc, char** argv) { return tile::test::main_of(argc, argv); }
