// Every hostile text ends with a result or an error that says where, within the time that the
// engine allows and 1 GiB, in parsing, printing, differentiating and compiling for each backend.
// Each runs in a process of its own, which nothing else disturbs and which the system stops.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <ctime>
#include <set>
#include <string>
#include <vector>

#include "../support/sanitized.h"
#include "texts.h"
#include "tile/tile.h"

namespace tile::test {
namespace {

constexpr uint64_t kAllowedMs = 300;
// Beyond what is allowed: until somebody asks, and the machine code of one kernel, which takes up
// to 20 s for a tuple of 1,000 components.
constexpr double kSeconds = 1e-3 * kAllowedMs + 60;
constexpr long kMegabytes = 1024;
constexpr unsigned kKilledAfter = 300;  // seconds: a test that fails ends

double seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// In the child: what was wrong with a call goes to the parent as a line.
class Watched {
 public:
  explicit Watched(int to) : to_(to) {}
  // Whether the call gave a result.
  template <class Call>
  bool operator()(const char* what, const Call& call) {
    double start = seconds();
    tile_error* error = call();
    double took = seconds() - start;
    if (took > kSeconds && !kSanitized) tell(what, "took " + std::to_string(took) + " s");
    if (error == nullptr) return true;
    std::string code = tile_error_code(error);
    bool planned = code == "memory" && std::strstr(tile_error_rendered(error), "memory_limit");
    if (code == "internal" || (code == "memory" && !planned) || code == "backend" ||
        code == "cancelled") {
      tell(what, tile_error_rendered(error));
    }
    if (tile_error_stage(error) != TILE_STAGE_API && tile_error_line(error) < 1) {
      tell(what, "nowhere: " + std::string(tile_error_message(error)));
    }
    if (code == "limit" && std::strlen(tile_error_message(error)) == 0) tell(what, "no message");
    tile_error_free(error);
    return false;
  }

 private:
  void tell(const char* what, std::string said) const {
    said = std::string(what) + ": " + said.substr(0, 400) + "\n";
    if (write(to_, said.data(), said.size()) < 0) _exit(3);
  }
  int to_;
};

void compile(Watched& watched, tile_program* program) {
  std::vector<std::vector<int64_t>> shapes;
  size_t count = tile_program_input_count(program);
  for (size_t i = 0; i < count; ++i) {
    int rank = tile_program_input_rank(program, i);
    shapes.emplace_back(rank < 0 ? 1 : rank, int64_t{100});
  }
  std::vector<DLTensor> tensors(count);
  std::vector<const DLTensor*> inputs;
  for (size_t i = 0; i < count; ++i) {
    tensors[i].device = {kDLCPU, 0};
    tensors[i].ndim = static_cast<int>(shapes[i].size());
    tensors[i].dtype = {kDLFloat, 32, 1};
    tensors[i].shape = shapes[i].data();
    inputs.push_back(&tensors[i]);
  }
  tile_executable* executable = nullptr;
  watched("compile",
          [&] { return tile_program_compile(program, inputs.data(), inputs.size(), &executable); });
  tile_executable_free(executable);
}

void work(const HostileText& hostile, const char* backend, Watched& watched) {
  tile_engine_options options{};
  options.struct_size = sizeof options;
  options.backend = backend;
  options.cache_mode = "off";
  options.limit_compile_ms = kAllowedMs;
  if (std::strcmp(backend, "cuda") == 0) options.features = "sm_90a";
  tile_engine* engine = nullptr;
  tile_error* absent = tile_engine_create(&options, &engine);
  tile_error_free(absent);
  if (absent != nullptr) return;  // no such backend here
  tile_program *program = nullptr, *gradient = nullptr;
  bool parsed = watched("parse", [&] {
    return tile_program_parse(engine, hostile.language.c_str(), "text", hostile.text.data(),
                              hostile.text.size(), &program);
  });
  if (!parsed) return;
  compile(watched, program);
  if (tile_program_input_count(program) == 0) return;
  const char* input = tile_program_input_name(program, 0);
  bool differentiated = watched("differentiate", [&] {
    return tile_program_differentiate(program, tile_program_output_name(program, 0), &input, 1,
                                      &gradient);
  });
  if (differentiated) compile(watched, gradient);
}

struct Case {
  size_t text;
  const char* backend;
};
std::vector<Case> cases() {
  std::vector<Case> all;
  for (size_t i = 0; i < hostile_texts().size(); ++i) {
    for (const char* backend : {"reference", "cpu", "cuda"}) all.push_back({i, backend});
  }
  return all;
}

class Hostile : public testing::TestWithParam<Case> {};

TEST_P(Hostile, EndsInTimeAndMemory) {  // rule 8.2
  const HostileText& hostile = hostile_texts()[GetParam().text];
  SCOPED_TRACE(hostile.name);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    close(ends[0]);
    alarm(kKilledAfter);
    Watched watched(ends[1]);
    work(hostile, GetParam().backend, watched);
    _exit(0);
  }
  close(ends[1]);
  std::string told;
  char some[4096];
  for (ssize_t got; (got = read(ends[0], some, sizeof some)) > 0;) {
    told.append(some, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  rusage used{};
  ASSERT_EQ(wait4(child, &status, 0, &used), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(told, "");
  if (!kSanitized) {
    EXPECT_LT(used.ru_maxrss / 1024, kMegabytes);
  }
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  std::string name = hostile_texts()[info.param.text].name + "_" + info.param.backend;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}
INSTANTIATE_TEST_SUITE_P(Texts, Hostile, testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace tile::test
