// The printed text of kernels and what the compiler may take from it: of memory that `__restrict__`
// names it moves loads over barriers and reads them through the read-only cache, so that a thread
// would not see what others of its block wrote (a variance in the gradient of a layer norm).
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <set>

#include "backends/cuda/source.h"
#include "bench/measure/workload.h"
#include "core/autodiff/differentiate.h"
#include "core/fusion/group.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/schedule.h"
#include "core/lower/lower.h"
#include "core/nest/nest.h"
#include "core/nest/passes/nest_passes.h"
#include "core/passes/bind/bind.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/space/candidates.h"
#include "runtime/engine/parameters.h"
#include "tests/random/training_programs.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

using Buffers = std::set<nest::BufferId>;

struct Uses {
  Buffers stored, loaded, copied;  // the last: read by copies that happen later
};

void collect(const nest::Block& block, Uses& uses) {
  auto loads = [&](const std::vector<nest::Access>& list, Buffers& into) {
    for (const nest::Access& a : list) into.insert(a.buffer);
  };
  for (const nest::Statement& s : block) {
    if (const auto* loop = std::get_if<nest::For>(&s.what)) {
      collect(loop->body, uses);
    } else if (const auto* condition = std::get_if<nest::If>(&s.what)) {
      loads(condition->loads, uses.loaded);
      collect(condition->then, uses);
      collect(condition->otherwise, uses);
    } else if (const auto* store = std::get_if<nest::Store>(&s.what)) {
      uses.stored.insert(store->target.buffer);
      loads(store->loads, store->asynchronous ? uses.copied : uses.loaded);
    } else if (const auto* copy = std::get_if<nest::Copy>(&s.what)) {
      uses.copied.insert(copy->from);
    }
  }
}

std::vector<Uses> uses_of_kernels(const nest::Nest& nest) {
  std::vector<Uses> list;
  for (const nest::Statement& s : nest.body) {
    const auto* grid = std::get_if<nest::For>(&s.what);
    if (grid != nullptr) collect(grid->body, list.emplace_back());
  }
  return list;
}

// The declarations of a kernel's parameters.
std::vector<std::string> parameters_of(const std::string& text, const std::string& kernel) {
  size_t begin = text.find(" " + kernel + "(");
  EXPECT_NE(begin, std::string::npos) << kernel;
  begin += kernel.size() + 2;
  std::string all = text.substr(begin, text.find(") {", begin) - begin);
  std::vector<std::string> list;
  for (size_t at = 0; at < all.size();) {
    size_t end = std::min(all.find(", ", at), all.size());
    list.push_back(all.substr(at, end - at));
    at = end + 2;
  }
  return list;
}

bool contains(const std::string& text, const char* what) {
  return text.find(what) != std::string::npos;
}

// What was seen, so that a test can say that it looked at the thing.
struct Seen {
  int kernels = 0;
  int restricted = 0;        // arguments
  int written_and_read = 0;  // arguments of one kernel
};

void check_kernel(const nest::Nest& nest, const Uses& uses, const std::string& text,
                  const std::string& name, Seen& seen) {
  std::vector<std::string> parameters = parameters_of(text, name);
  size_t arguments = nest.argument_count();
  ASSERT_GT(parameters.size(), arguments) << name;
  for (size_t i = 0; i < arguments; ++i) {
    nest::BufferId id(i);
    bool restricted = contains(parameters[i], "__restrict__");
    bool written = uses.stored.contains(id), read = uses.loaded.contains(id);
    seen.restricted += restricted;
    seen.written_and_read += written && read;
    EXPECT_FALSE(written && restricted) << name << ": " << parameters[i];
    EXPECT_FALSE(written && contains(parameters[i], "const ")) << name << ": " << parameters[i];
    EXPECT_FALSE(written && uses.copied.contains(id)) << name << ": " << parameters[i];
  }
  EXPECT_TRUE(contains(parameters[arguments], "workspace")) << name;
  EXPECT_FALSE(contains(parameters[arguments], "__restrict__")) << name;
  ++seen.kernels;
}

void check_nest(const nest::Nest& nest, const Target& target, Seen& seen) {
  cuda::CudaSource source = cuda::print_cuda(nest, target);
  std::vector<Uses> uses = uses_of_kernels(nest);
  ASSERT_EQ(source.kernels.size(), uses.size());
  EXPECT_FALSE(contains(source.text, "__ldg")) << nest.name;
  EXPECT_FALSE(contains(source.text, "ld.global.nc")) << nest.name;
  for (size_t k = 0; k < uses.size(); ++k) {
    check_kernel(nest, uses[k], source.text, source.kernels[k].name, seen);
  }
}

// No written argument of a launch shares its memory with another one, whatever their shapes.
void check_arguments(const BoundProgram& program, const std::vector<TensorId>& arguments,
                     const nest::Nest& nest) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!nest.buffers[i].written) continue;
    for (size_t j = 0; j < arguments.size(); ++j) {
      bool shared =
          i != j && storage_of(program, arguments[i]) == storage_of(program, arguments[j]);
      EXPECT_FALSE(shared) << nest.name << ": " << nest.buffers[i].name << " and "
                           << nest.buffers[j].name;
    }
  }
}

void check_program(BoundProgram program, const Target& target, Seen& seen) {
  run_pipeline(program, target);
  for (const Step& step : group(program, target)) {
    if (const auto* kernel = std::get_if<Kernel>(&step)) {
      nest::Nest nest =
          nest::run_passes(lower(*kernel, analytic_schedule(*kernel, target), target), target);
      check_arguments(program, arguments_of(*kernel), nest);
      check_nest(nest, target, seen);
    } else if (const auto* scatter = std::get_if<Scatter>(&step)) {
      nest::Nest nest = nest::run_passes(lower_scatter(*scatter, program.tensors, target), target);
      check_arguments(program, {scatter->updates, scatter->indices, scatter->result}, nest);
      check_nest(nest, target, seen);
    }
  }
}

// The first case of every workload of a suite; of all suites where none is named.
std::vector<bench::Case> workloads(const std::string& suite = "") {
  std::vector<bench::Case> list;
  std::set<const bench::Workload*> known;
  for (bench::Case& c : bench::read_cases(TILE_SOURCE_DIR "/bench/workloads")) {
    bool asked = suite.empty() || c.workload->suite == suite;
    if (asked && known.insert(c.workload.get()).second) list.push_back(std::move(c));
  }
  return list;
}

std::vector<std::string> suites() {
  std::set<std::string> names;
  for (const bench::Case& c : workloads()) names.insert(c.workload->suite);
  return {names.begin(), names.end()};
}

// Nothing where no input has a derivative.
std::optional<BoundProgram> bound_gradient(const Program& program, std::vector<InputType> types) {
  BoundProgram bound = tile::bind(program, types);
  const BoundTensor& output = bound.tensors[bound.outputs[0]];
  if (!is_float(output.type)) return std::nullopt;
  std::vector<std::string> wrt;
  std::vector<bool> keeps = index_inputs(program);
  for (size_t i = 0; i < types.size(); ++i) {
    const Tensor& input = program.tensors[program.inputs[i]];
    if (!keeps[i] && is_float(types[i].type)) wrt.push_back(input.name);
  }
  if (wrt.empty()) return std::nullopt;
  types.push_back({output.type, output.shape});
  const std::string& of = program.tensors[program.outputs[0]].name;
  return tile::bind(differentiate(program, of, wrt), types);
}

class WorkloadText : public ::testing::TestWithParam<std::string> {};

// The programs and the gradients of their first outputs with respect to all inputs that have one.
// Steps of training are gradients already, and what repeats its parts many times has the kernels of
// others.
TEST_P(WorkloadText, NoWrittenArgumentIsRestricted) {
  constexpr size_t kFewStatements = 80;
  for (const bench::Case& c : workloads(GetParam())) {
    SCOPED_TRACE(c.name);
    if (c.workload->optimiser) continue;
    Program program = bench::program_of(c);
    if (program.statements.size() > kFewStatements) continue;
    Target target = h200_target();
    if (c.workload->precision) target.precision = *c.workload->precision;
    std::vector<InputType> types = bench::input_types(program, c);
    Seen seen;
    check_program(tile::bind(program, types), target, seen);
    EXPECT_GT(seen.kernels, 0);
    std::optional<BoundProgram> gradient = bound_gradient(program, types);
    if (gradient) check_program(*gradient, target, seen);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, WorkloadText, ::testing::ValuesIn(suites()),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

// The kernels that hand a value from one thread to others through global memory are among these.
TEST(TrainingText, NoWrittenArgumentIsRestricted) {
  Seen seen;
  for (const TrainingProgram& program : training_programs()) {
    for (DType type : {DType::f32, DType::bf16}) {
      for (auto [rows, columns] : {std::pair{512, 128}, {48, 96}, {16, 4096}}) {
        if (program.name == "convolution_block" && rows > 48) continue;
        SCOPED_TRACE(program.name + " " + std::to_string(rows) + "x" + std::to_string(columns));
        for (bool gradient : {false, true}) {
          RandomCase c = training_types(program, type, rows, columns, gradient);
          for (const Target& target : {h200_target(), a100_target()}) {
            check_program(bind_text(c.text, c.types), target, seen);
          }
        }
      }
    }
  }
  EXPECT_GT(seen.restricted, 0);
  EXPECT_GT(seen.written_and_read, 0);
}

}  // namespace
}  // namespace tile::test
