// Each stage of the C interface succeeds on a stack of the size that SECURITY.md states, in a
// process of its own, also for the deepest text that is accepted.
//
//   small_stacks [sizes]   sizes: prints the smallest stack of each, found by bisection
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "tests/faults/stages.h"

namespace {

using namespace tile::test;

constexpr size_t kKiB = 1024;
constexpr size_t kStated = 1024;  // KiB: what SECURITY.md says suffices for everything

struct Task {
  std::function<tile_error*()> call;
  tile_error* error = nullptr;
};

// Whether the call succeeds on a stack of so many KiB; in a child, as too small a one ends it.
bool fits(size_t kib, const std::function<tile_error*()>& call) {
  pid_t child = fork();
  if (child == 0) {
    Task task{call};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    // Memory of its own above a page that nothing may touch: the C library would reuse the larger
    // stack of a thread that has ended.
    constexpr size_t kGuard = 64 * kKiB;
    void* memory = mmap(nullptr, kGuard + kib * kKiB, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, kGuard, PROT_NONE) != 0) _exit(2);
    pthread_attr_setstack(&attributes, static_cast<char*>(memory) + kGuard, kib * kKiB);
    pthread_t thread;
    auto run = [](void* t) -> void* {
      auto* what = static_cast<Task*>(t);
      what->error = what->call();
      return nullptr;
    };
    if (pthread_create(&thread, &attributes, run, &task) != 0) _exit(2);
    pthread_join(thread, nullptr);
    _exit(task.error == nullptr ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// KiB to a sixteenth.
size_t least(const std::function<tile_error*()>& call) {
  size_t low = 0, high = 16 * kStated;
  if (!fits(high, call)) return SIZE_MAX;
  while (high - low > std::max<size_t>(high / 16, 4)) {
    size_t middle = (low + high) / 2;
    (middle >= 16 && fits(middle, call) ? high : low) = middle;
  }
  return high;
}

bool bisects = false;

bool report(const char* what, const std::function<tile_error*()>& call) {
  if (!bisects) {
    bool good = fits(kStated, call);
    if (!good) std::printf("%s does not fit\n", what);
    return good;
  }
  size_t kib = least(call);
  std::printf("%-40s %zu KiB\n", what, kib);
  std::fflush(stdout);
  return kib <= kStated;
}

// A text with a part that is repeated, in a language; its program, which is compiled with its
// gradient if `gradient`.
struct Form {
  const char* language;
  const char *before, *open, *middle, *close, *after;
  bool gradient;
  std::string text(int depth) const {
    std::string out = before;
    for (int i = 0; i < depth; ++i) out += open;
    out += middle;
    for (int i = 0; i < depth; ++i) out += close;
    return out + after;
  }
};
constexpr Form kForms[] = {
    {"tile", "function (A[N]) -> (B) { B = ", "(", "A", ")", "; }", true},
    {"tile", "function (A[N]) -> (B) { B = ", "-", "A", "", "; }", true},
    {"tile", "function (A[N]) -> (B) { B = ", "exp(", "A", ")", "; }", true},
    {"tile", "function (A[N]) -> (B) { B = ", "A + (", "A", ")", "; }", true},
    {"mfg", "@bounds(1, 1)\ndef t |x, y| {\n", "(", "1.0", ")", "\n}", false},
    {"mfg", "@bounds(1, 1)\ndef t |x, y| {\n", "1.0 + sin(", "1.0", ")", "\n}", false},
    {"lift", "val f = fun( ArrayType(Float, N), input => ", "Join() o Split(2) $ (", "input", ")",
     " )", false},
};

tile_error* done(const Form& form, const std::string& text) {
  tile_engine_options options{};
  options.struct_size = sizeof options;
  options.backend = "cpu";
  options.threads = 1;
  options.cache_mode = "off";
  tile_engine* engine = nullptr;
  tile_program *program = nullptr, *gradient = nullptr;
  tile_executable* executable = nullptr;
  tile_error* error = tile_engine_create(&options, &engine);
  if (error == nullptr) {
    error = tile_program_parse(engine, form.language, "deep", text.data(), text.size(), &program);
  }
  if (error == nullptr && form.gradient) {
    const char* wrt = "A";
    error = tile_program_differentiate(program, "B", &wrt, 1, &gradient);
    int64_t shape[] = {8};
    DLTensor a{nullptr, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0};
    const DLTensor* inputs[] = {&a, &a};
    if (error == nullptr) error = tile_program_compile(gradient, inputs, 2, &executable);
  }
  tile_executable_free(executable);
  tile_program_free(gradient);
  tile_program_free(program);
  tile_engine_free(engine);
  return error;
}

// The greatest depth that the language accepts, tried on a stack that is certainly large enough.
int deepest(const Form& form) {
  constexpr size_t kPlenty = 256 * kStated;
  int depth = 1 << 12;
  while (depth > 0 && !fits(kPlenty, [&] { return done(form, form.text(depth)); })) {
    depth = depth * 4 / 5;
  }
  return depth;
}

bool deep_texts() {
  bool good = true;
  for (const Form& form : kForms) {
    int depth = deepest(form);
    std::string what =
        std::string(form.language) + ": " + std::to_string(depth) + " times " + form.open;
    std::string text = form.text(depth);
    good = depth > 0 && report(what.c_str(), [&] { return done(form, text); }) && good;
  }
  return good;
}

}  // namespace

int main(int count, char** arguments) {
  bisects = count > 1 && std::strcmp(arguments[1], "sizes") == 0;
  bool good = true;
  Work work("");
  for (const CallStage& stage : call_stages()) {
    if (stage.is_long) continue;
    good = report(stage.name, [&] { return (work.*stage.call)(); }) && good;
    if ((work.*stage.call)() != nullptr) return 1;
  }
  good = deep_texts() && good;
  if (!good) std::printf("more than the %zu KiB that are stated\n", kStated);
  return good ? 0 : 1;
}
