#include "tests/emulation/versions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/lower/lower.h"
#include "core/nest/passes/nest_passes.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/legality/tensor_core_gemm_legality.h"
#include "tests/emulation/emulated.h"

namespace tile::testing {
namespace {

struct Version {
  const Kernel* kernel;
  Schedule schedule;
  Strides strides;
  nest::Nest nest;
};

bool is_strided(const Strides& strides, TensorId id) {
  return strides.contains(id) && !strides[id].empty();
}

// What memory holds where the inputs lie by `strides`, and what the inputs then are: those that
// share an element have the last one's value.
Values laid_out(const Strides& strides, Values& values) {
  Values memory = values;
  for (TensorId id : values.ids()) {
    if (!is_strided(strides, id)) continue;
    HostTensor& dense = values[id];
    std::vector<int64_t> at;
    for (int64_t i = 0; i < dense.count(); ++i) {
      int64_t rest = i, place = 0;
      for (size_t d = dense.shape.size(); d-- > 0; rest /= dense.shape[d]) {
        place += rest % dense.shape[d] * strides[id][d];
      }
      at.push_back(place);
    }
    HostTensor lain(dense.type, {*std::max_element(at.begin(), at.end()) + 1});
    for (size_t i = 0; i < at.size(); ++i) lain.set(at[i], dense.at(static_cast<int64_t>(i)));
    for (size_t i = 0; i < at.size(); ++i) dense.set(static_cast<int64_t>(i), lain.at(at[i]));
    memory[id].bytes = lain.bytes;  // the shape stays that of the indices
  }
  return memory;
}

Values emulate(const test::Emulated& code, size_t index, const Version& v, const Values& inputs) {
  Values values = inputs;
  std::vector<HostTensor*> arguments;
  auto written = [&](TensorId id) {
    return std::find(v.kernel->writes.begin(), v.kernel->writes.end(), id) !=
           v.kernel->writes.end();
  };
  for (TensorId id : v.kernel->reads) {
    if (!written(id)) arguments.push_back(&values[id]);
  }
  for (TensorId id : v.kernel->writes) {
    std::vector<std::byte>& bytes = values[id].bytes;
    std::fill(bytes.begin(), bytes.end(), std::byte{0x7e});
    arguments.push_back(&values[id]);
  }
  code.run(index, v.nest, arguments);
  return values;
}

// As difference(), but the host's functions (erfc, exp …) may round otherwise than the reference.
std::string far_apart(const Kernel& kernel, const Values& a, const Values& b) {
  for (TensorId id : kernel.writes) {
    const HostTensor& x = a[id];
    const HostTensor& y = b[id];
    for (int64_t i = 0; i < x.count(); ++i) {
      double p = is_float(x.type) ? x.at(i).f : static_cast<double>(x.at(i).i);
      double q = is_float(y.type) ? y.at(i).f : static_cast<double>(y.at(i).i);
      if (p == q || (std::isnan(p) && std::isnan(q))) continue;
      double near = is_float(x.type) ? 1e-6 * std::max(1.0, std::abs(p)) : 0;
      if (!(std::abs(p - q) <= near)) {
        return "element " + std::to_string(i) + ": " + std::to_string(p) + " and " +
               std::to_string(q);
      }
    }
  }
  return {};
}

}  // namespace

void expect_versions(const std::vector<std::pair<const Kernel*, Schedule>>& list,
                     const Target& target, Values (*values)(const Kernel&, uint64_t seed)) {
  std::vector<StridedVersion> dense;
  for (const auto& [k, s] : list) {
    ASSERT_EQ(illegal(s, *k, target), "") << print(s);
    dense.push_back({k, s, {}});
  }
  expect_versions(dense, target, values);
}

void expect_versions(const std::vector<StridedVersion>& list, const Target& target,
                     Values (*values)(const Kernel&, uint64_t seed)) {
  std::vector<Version> versions;
  std::vector<cuda::CudaSource> sources;
  for (const auto& [k, s, strides] : list) {
    ASSERT_TRUE(tensor_cores::fits_strides(s, *k, target, strides)) << print(s);
    ASSERT_EQ(parse_schedule(print(s)), s);
    nest::Nest nest = nest::run_passes(lower(*k, s, target, strides), target);
    nest::verify(nest);
    sources.push_back(cuda::print_cuda(nest, target));
    versions.push_back({k, s, strides, std::move(nest)});
  }
  test::Emulated code(sources);
  for (size_t i = 0; i < versions.size(); ++i) {
    const Version& v = versions[i];
    SCOPED_TRACE(print(*v.kernel) + print(v.schedule));
    Values inputs = values(*v.kernel, 7), memory = laid_out(v.strides, inputs);
    Values expected = inputs;
    brute_force(*v.kernel, expected);
    // The interpreter's indices are those of dense tensors.
    EXPECT_EQ(difference(*v.kernel, expected, run_nest(v.nest, *v.kernel, inputs)), "")
        << nest::print(v.nest);
    EXPECT_EQ(far_apart(*v.kernel, expected, emulate(code, i, v, memory)), "") << sources[i].text;
  }
}

}  // namespace tile::testing
