// Classes of sizes over whole networks (issue 23, item 4): however many sizes come, each kernel has
// few codes. What decides that is the compiler without code, so that it is counted for machines
// that are not at hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "bench/measure/size_networks.h"
#include "core/fusion/group.h"
#include "core/kernel/canonical.h"
#include "core/language/language.h"
#include "core/lower/lower.h"
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

// What code is made of: what launches decide left out, and how much work is worth a thread, which
// is the typical size's.
void forget_sizes(nest::Block& block) {
  for (nest::Statement& s : block) {
    if (auto* f = std::get_if<nest::For>(&s.what)) {
      f->grain = 1;
      forget_sizes(f->body);
    } else if (auto* i = std::get_if<nest::If>(&s.what)) {
      forget_sizes(i->then);
      forget_sizes(i->otherwise);
    }
  }
}
std::string text_without_sizes(nest::Nest nest) {
  for (nest::Buffer& b : nest.buffers) {
    if (b.extent) b.shape[0] = 0;
  }
  forget_sizes(nest.body);
  return print(nest, true);
}

class Network {
 public:
  Network(const SizeNetwork& network, const Target& target) : network_(network), target_(target) {
    auto source = std::make_shared<Source>(Source{network.name, network.text});
    program_ = parse(Language::tile, source);
  }

  // The codes of each kernel over the sizes. A class's kernel has one, any other one for each of
  // its sizes.
  std::vector<size_t> codes(int64_t most) {
    std::vector<std::set<std::string>> keys;
    for (int64_t n = 1; n <= most; ++n) {
      const ClassProgram& shared = class_at(span_of(n));
      BoundProgram bound = bound_at(n);
      RepeatedChoices repeat(shared.choices);
      std::vector<Step> steps = steps_of(bound, target_, {});
      if (keys.size() < steps.size()) keys.resize(steps.size());
      for (size_t i = 0; i < steps.size(); ++i) {
        const auto* kernel = std::get_if<Kernel>(&steps[i]);
        if (kernel == nullptr) continue;
        ClassProgram::Found of = shared.step_of(i, *kernel);
        if (of.step && !serves(*of.step)) of = {nullptr, 0, "no schedule that serves all sizes"};
        if (!of.why_not.empty()) reasons_[of.why_not].insert(n);
        keys[i].insert(of.step ? of.step->key : "own " + key_of(canonical(*kernel)));
      }
    }
    std::vector<size_t> counts;
    for (const std::set<std::string>& of_kernel : keys) counts.push_back(of_kernel.size());
    return counts;
  }

  // Whether a size gets the steps that all passes make without those that are idle in its class;
  // so many are added to `idle`.
  testing::AssertionResult same_without_idle(int64_t n, size_t& idle) {
    const ClassProgram& shared = class_at(span_of(n));
    idle += shared.idle.size();
    auto steps_without = [&](const std::vector<std::string>& passes, bool& whole) {
      BoundProgram bound = bound_at(n);
      RepeatedChoices repeat(shared.choices);
      std::vector<Step> steps = steps_of(bound, target_, {passes});
      std::vector<ClassProgram::Found> found;
      whole = shared.is_whole(steps, found);
      return print(steps, bound);
    };
    bool whole = false, whole_with_all = false;
    std::string all = steps_without({}, whole_with_all), fewer = steps_without(shared.idle, whole);
    if (whole != whole_with_all) return testing::AssertionFailure() << "not of the class";
    if (whole && all != fewer) return testing::AssertionFailure() << all << "\nand\n" << fewer;
    return testing::AssertionSuccess();
  }

  // The sizes at which some kernel shares no code, by the reason.
  const std::map<std::string, std::set<int64_t>>& reasons() const { return reasons_; }

  // Nests of the classes, and those that would be others if they were made of another size: then
  // some number of a size were left in them.
  struct Nests {
    size_t made = 0, of_one_size = 0;
  };
  Nests nests(int64_t most) {
    Nests found;
    for (int64_t n = 1; n <= most; ++n) {
      const ClassProgram& shared = class_at(span_of(n));
      if (!looked_at_.insert(&shared).second) continue;
      for (const auto& step : shared.steps) {
        std::optional<Schedule> schedule =
            step ? class_schedule(step->kernel, target_) : std::nullopt;
        if (!schedule) continue;
        ClassKernel other = step->kernel;
        other.kernel = with_size(other.kernel, other.extent, other.span.typical - 1);
        if (!suits_class(*schedule, other))
          continue;  // its blocks are as large as the typical size
        ++found.made;
        bool same = text_without_sizes(lower(step->kernel, *schedule, target_)) ==
                    text_without_sizes(lower(other, *schedule, target_));
        if (!same) ++found.of_one_size;
      }
    }
    return found;
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
          class_program(bound_at(span.typical), bound_at(other), {{span, other}}, target_, {});
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
  std::set<const ClassProgram*> looked_at_;
  std::map<std::string, std::set<int64_t>> reasons_;
};

TEST(SizeNetworks, SizesDoWithoutPassesThatAreIdleInTheirClass) {
  Target target = target_of(kMachines[0]);
  for (const SizeNetwork& network : size_networks()) {
    Network tested(network, target);
    size_t idle = 0;
    for (int64_t n : {2, 7, 13, 40, 63}) {
      EXPECT_TRUE(tested.same_without_idle(n, idle)) << network.name << ", size " << n;
    }
    EXPECT_GE(idle, 5U * 15) << network.name;
  }
}

TEST(SizeNetworks, NestsOfClassesHaveNoSizes) {
  for (const Machine& machine : {kMachines[0], kMachines[3]}) {
    Target target = target_of(machine);
    size_t made = 0;
    for (const SizeNetwork& network : size_networks()) {
      Network::Nests nests = Network(network, target).nests(64);
      EXPECT_EQ(nests.of_one_size, 0U) << machine.name << ", " << network.name;
      made += nests.made;
    }
    EXPECT_GT(made, 40U) << machine.name;
  }
}

TEST(SizeNetworks, KernelsHaveFewCodesOnEveryMachine) {
  EXPECT_EQ(size_networks().size(), 20U);
  for (const Machine& machine : kMachines) {
    Target target = target_of(machine);
    size_t hold = 0, kernels = 0, all_beyond = 0;
    for (const SizeNetwork& network : size_networks()) {
      Network at_sizes(network, target);
      std::vector<size_t> codes = at_sizes.codes(64);
      auto few = [](size_t count) { return count <= kMostCodes; };
      auto beyond =
          codes.size() - static_cast<size_t>(std::count_if(codes.begin(), codes.end(), few));
      std::printf("%-28s %-34s %zu of %zu kernels beyond, most %zu\n", machine.name, network.name,
                  beyond, codes.size(), *std::max_element(codes.begin(), codes.end()));
      for (const auto& [why, sizes] : at_sizes.reasons()) {
        std::printf("    own code at %zu sizes, first %d: %s\n", sizes.size(),
                    static_cast<int>(*sizes.begin()), why.c_str());
      }
      kernels += codes.size();
      all_beyond += beyond;
      if (beyond == 0) ++hold;
    }
    std::printf("%-28s %zu networks hold, %zu of %zu kernels beyond\n", machine.name, hold,
                all_beyond, kernels);
    std::fflush(stdout);
    EXPECT_EQ(hold, size_networks().size()) << machine.name;
  }
}

}  // namespace
}  // namespace tile::bench
