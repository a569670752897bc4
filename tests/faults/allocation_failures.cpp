// Fails one allocation, or all from one on, at many places of every stage of the C interface, each
// in a process of its own: the call gives an error or its result, and the same call succeeds
// afterwards, with the right values. Nothing may end the process or hang.
//
//   allocation_failures POINTS [STAGE [NUMBER one|from]]   POINTS places for each stage, fewer
//   where
//                                                          it has been done before; 0: all
#include <execinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>

#include "tests/faults/failing_allocations.h"
#include "tests/faults/stages.h"

namespace {

using namespace tile::test;

constexpr unsigned kSeconds = 60;    // a child that takes longer hangs; a stage takes milliseconds
constexpr long kPlacesOfLong = 400;  // of stages that repeat what others do
enum Outcome { kUnharmed, kErrorThenSuccess, kRetryFailed, kWrong, kNoCode };
const char* const kNames[] = {"unharmed", "an error, then success", "THE RETRY FAILED",
                              "WRONG VALUES", "AN ERROR WITHOUT A CODE"};

// Where a child ends: addresses, for people.
void trace(int signal) {
  void* frames[60];
  backtrace_symbols_fd(frames, backtrace(frames, 60), 2);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

// In a child: the stage under the fault, then again without, then all that follows.
Outcome tried(Work& work, size_t stage, long number, Refuse refuse) {
  const std::vector<CallStage>& stages = call_stages();
  arm_allocations(number, refuse);
  tile_error* error = (work.*stages[stage].call)();
  disarm_allocations();
  bool failed = error != nullptr;
  if (failed && std::strlen(tile_error_code(error)) == 0) return kNoCode;
  tile_error_free(error);
  for (size_t next = failed ? stage : stage + 1; next < stages.size(); ++next) {
    bool needed = next == stage || next < 4;  // up to the run
    if (!needed) continue;
    error = (work.*stages[next].call)();
    if (error == nullptr) continue;
    std::fprintf(stderr, "%s", tile_error_rendered(error));
    return kRetryFailed;
  }
  if (error = work.run(); error != nullptr) return kRetryFailed;
  if (!work.is_right()) return kWrong;
  return failed ? kErrorThenSuccess : kUnharmed;
}

std::string outcome_of(Work& work, size_t stage, long number, Refuse refuse) {
  pid_t child = fork();
  if (child == 0) {
    alarm(kSeconds);
    for (int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGALRM}) std::signal(signal, trace);
    _exit(tried(work, stage, number, refuse));
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    return WTERMSIG(status) == SIGALRM ? "A HANG" : strsignal(WTERMSIG(status));
  }
  int code = WEXITSTATUS(status);
  return code < 5 ? kNames[code] : "EXIT " + std::to_string(code);
}

// Allocations of the stage, counted in a child.
long allocations_of(Work& work, size_t stage) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  if (fork() == 0) {
    arm_allocations(0, Refuse::one);
    tile_error* error = (work.*call_stages()[stage].call)();
    long count = disarm_allocations();
    if (error != nullptr) std::fprintf(stderr, "%s", tile_error_rendered(error));
    if (write(ends[1], &count, sizeof count) != sizeof count) std::abort();
    _exit(0);
  }
  long count = 0;
  if (read(ends[0], &count, sizeof count) != sizeof count) std::abort();
  wait(nullptr);
  for (int end : ends) close(end);
  return count;
}

struct Totals {
  std::map<std::string, long> counts;
  long bad = 0;
};

void try_stage(Work& work, size_t stage, long points, const char* kind, Totals& all) {
  long total = allocations_of(work, stage);
  std::map<std::string, long> counts, first;
  for (Refuse refuse : {Refuse::one, Refuse::all_from}) {
    bool is_long = call_stages()[stage].is_long;
    long most = !is_long ? points : points == 0 ? kPlacesOfLong : (points + 2) / 3;
    long tries = most == 0 || most > total ? total : most;
    for (long i = 0; i < tries; ++i) {
      long number = 1 + static_cast<long>(static_cast<double>(i) * static_cast<double>(total) /
                                          static_cast<double>(tries));
      std::string outcome = outcome_of(work, stage, number, refuse);
      ++all.counts[outcome];
      bool good = outcome == kNames[kUnharmed] || outcome == kNames[kErrorThenSuccess];
      all.bad += good ? 0 : 1;
      if (refuse == Refuse::all_from) outcome += " (all from there on)";
      ++counts[outcome];
      first.try_emplace(outcome, number);
    }
  }
  std::printf("%s %s: %ld allocations\n", kind, call_stages()[stage].name, total);
  for (const auto& [outcome, count] : counts) {
    std::printf("  %6ld %s, first at %ld\n", count, outcome.c_str(), first[outcome]);
  }
  std::fflush(stdout);
}

// Each stage is tried in children before this process does it, so that what is made once in a
// process is made under the fault.
bool try_stages(Work& work, long points, const std::string& only, const char* kind, Totals& all) {
  for (size_t stage = 0; stage < call_stages().size(); ++stage) {
    if (only.empty() || only == call_stages()[stage].name) {
      try_stage(work, stage, points, kind, all);
    }
    if (tile_error* error = (work.*call_stages()[stage].call)()) {
      std::fprintf(stderr, "%s", tile_error_rendered(error));
      return false;
    }
  }
  return true;
}

int single(const char* name, long number, Refuse refuse) {
  Work work("");
  for (size_t stage = 0; stage < call_stages().size(); ++stage) {
    if (std::strcmp(name, call_stages()[stage].name) == 0) {
      Outcome outcome = tried(work, stage, number, refuse);
      std::printf("%s\n", kNames[outcome]);
      return outcome > kErrorThenSuccess;
    }
    if ((work.*call_stages()[stage].call)() != nullptr) return 2;
  }
  return 2;
}

}  // namespace

int main(int count, char** arguments) {
  long points = count > 1 ? std::atol(arguments[1]) : 40;
  std::string only = count > 2 ? arguments[2] : "";
  if (count > 4) {
    bool one = std::strcmp(arguments[4], "one") == 0;
    return single(arguments[2], std::atol(arguments[3]), one ? Refuse::one : Refuse::all_from);
  }
  std::string folder = (std::filesystem::temp_directory_path() / "tile-faults-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 2;
  // Loads what backtrace() needs, before memory is short.
  void* frame = nullptr;
  if (std::getenv("TILE_TEST_TRACES") != nullptr) backtrace(&frame, 1);
  Totals all;
  bool done = true;
  {
    Work cold(""), warm(""), stored(folder + "/cache");
    // Later ones mostly do again what the first did.
    long fewer = (points + 1) / 2;
    done = try_stages(cold, points, only, "cold", all) &&
           try_stages(warm, fewer, only, "warm", all) &&
           try_stages(stored, fewer, only, "from a cache", all);
  }
  std::filesystem::remove_all(folder);
  std::printf("in all\n");
  for (const auto& [outcome, number] : all.counts) {
    std::printf("  %6ld %s\n", number, outcome.c_str());
  }
  return !done || all.bad != 0;
}
