// Classes of sizes over whole networks (issue 23, item 4): however many sizes come, each kernel has
// few codes. What decides that is the compiler without code, so that it is counted for machines
// that are not at hand.
#include <gtest/gtest.h>

#include <set>

#include "bench/size_networks.h"
#include "core/kernel/canonical.h"
#include "core/language/language.h"
#include "core/passes/bind/bind.h"
#include "core/pipeline/class_program.h"

namespace tile::bench {
namespace {

constexpr size_t kMostCodes = 4;

// Vectors, caches and threads of servers: Ice Lake and Sapphire Rapids, Zen 3 and Zen 5, and a part
// of each as a virtual machine has it.
struct Machine {
  const char* name;
  const char* features;
  int bits, registers;
  int64_t l2_bytes, l3_bytes;
  double fma_per_ns, l2_bytes_per_ns, l3_bytes_per_ns;
  int threads;
};
constexpr Machine kMachines[] = {
    {"Intel, AVX-512, 2 threads", "avx512", 512, 32, 2 << 20, 60 << 20, 96, 192, 30, 2},
    {"Intel, AVX-512, 32 threads", "avx512", 512, 32, 1 << 20, 48 << 20, 96, 150, 25, 32},
    {"AMD, AVX-512, 16 threads", "avx512", 512, 32, 1 << 20, 64 << 20, 140, 250, 110, 16},
    {"AMD, AVX2, 8 threads", "avx2", 256, 16, 512 << 10, 32 << 20, 54, 100, 60, 8},
};

Target target_of(const Machine& m) {
  Target t;
  t.device = "cpu";
  t.features = m.features;
  t.vector_bits = m.bits;
  t.vector_registers = m.registers;
  t.threads = m.threads;
  t.l1_bytes = 32 << 10;
  t.l2_bytes = m.l2_bytes;
  t.l2_shared_bytes = m.l2_bytes / 4;
  t.l3_bytes = m.l3_bytes;
  t.fma_per_ns = m.fma_per_ns;
  t.l2_bytes_per_ns = m.l2_bytes_per_ns;
  t.l3_bytes_per_ns = m.l3_bytes_per_ns;
  t.parallel_overhead_ns = 500;
  return t;
}

class Network {
 public:
  Network(const SizeNetwork& network, const Target& target) : network_(network), target_(target) {
    auto source = std::make_shared<Source>(Source{network.name, network.text});
    program_ = parse(Language::tile, source);
  }

  // The most codes of one kernel over the sizes. A class's kernel has one, any other one for each
  // of its sizes.
  size_t most_codes(int64_t most) {
    std::vector<std::set<std::string>> codes;
    for (int64_t n = 1; n <= most; ++n) {
      SizeSpan span = span_of(n);
      const ClassProgram& shared = class_at(span);
      BoundProgram bound = bound_at(n);
      RepeatedChoices repeat(shared.choices);
      std::vector<Step> steps = steps_of(bound, target_, {});
      if (codes.size() < steps.size()) codes.resize(steps.size());
      for (size_t i = 0; i < steps.size(); ++i) {
        const auto* kernel = std::get_if<Kernel>(&steps[i]);
        if (kernel == nullptr) continue;
        std::optional<ClassStep> of = shared.step_of(i, *kernel);
        if (of && !serves(*of)) of = std::nullopt;
        codes[i].insert(of ? of->key : "own " + key_of(canonical(*kernel)));
      }
    }
    size_t worst = 0;
    for (const std::set<std::string>& keys : codes) worst = std::max(worst, keys.size());
    return worst;
  }

 private:
  BoundProgram bound_at(int64_t n) const {
    std::vector<InputType> types;
    for (const Shape& shape : network_.at(n)) types.push_back({DType::f32, shape, {}});
    return tile::bind(program_, types);
  }
  const ClassProgram& class_at(const SizeSpan& span) {
    auto [at, fresh] = classes_.try_emplace(span.most);
    int64_t other = span.typical - 1;
    if (fresh) {
      at->second =
          class_program(bound_at(span.typical), bound_at(other), {span, other}, target_, {});
    }
    return at->second;
  }
  bool serves(const ClassStep& of) {
    auto [at, fresh] = serves_.try_emplace(of.key);
    if (fresh) at->second = class_schedule(of.kernel, target_).has_value();
    return at->second;
  }

  const SizeNetwork& network_;
  const Target& target_;
  Program program_;
  std::map<int64_t, ClassProgram> classes_;
  std::map<std::string, bool> serves_;
};

// Networks with a kernel that has code for each size: the open size is in a stride, a condition, a
// constant or a reduction; or, on some of the machines, no schedule of its streamed rows suits a
// class.
const std::set<std::string> kBeyond{"attention",
                                    "attention to a memory",
                                    "causal attention",
                                    "classifier of a mean",
                                    "convolution of a sequence",
                                    "transformer block"};

TEST(SizeNetworks, KernelsHaveFewCodesOnEveryMachine) {
  EXPECT_EQ(size_networks().size(), 20U);
  for (const Machine& machine : kMachines) {
    Target target = target_of(machine);
    for (const SizeNetwork& network : size_networks()) {
      size_t most = Network(network, target).most_codes(64);
      std::printf("%-28s %-34s %zu\n", machine.name, network.name, most);
      bool few = most <= kMostCodes;
      EXPECT_TRUE(few || kBeyond.contains(network.name))
          << network.name << " on " << machine.name << ": " << most << " codes";
    }
  }
}

}  // namespace
}  // namespace tile::bench
