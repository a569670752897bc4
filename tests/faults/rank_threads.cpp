// A mesh whose ranks do not all get a thread: an error, nobody waits for the rank that is missing,
// and with threads again the mesh runs.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "core/distribute/mesh/layout.h"
#include "core/distribute/partition.h"
#include "core/language/tile/tile.h"
#include "core/passes/bind/bind.h"
#include "runtime/ranks/local_mesh.h"
#include "tests/faults/failing_threads.h"

namespace {

using namespace tile;

constexpr unsigned kSeconds = 60;
constexpr int kRanks = 4;
// Each rank needs the others' parts of B.
constexpr const char* kProduct =
    "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";

LocalMesh mesh_of_product() {
  EngineOptions options;
  options.backend = "reference";
  auto text = std::make_shared<const Source>(Source{"mm.tile", kProduct});
  auto program = std::make_shared<const Program>(parse_tile(text));
  BoundProgram bound = bind(*program, {{DType::f32, {8, 8}}, {DType::f32, {8, 8}}});
  Mesh mesh = parse_mesh(std::make_shared<const Source>(Source{"mesh", "x=4"}));
  auto layouts = std::make_shared<const Source>(Source{"layout", "A[x, *] B[*, x] C[x, *]"});
  Distribution distribution = distribution_of(bound, mesh, parse_layouts(layouts, mesh));
  return LocalMesh(Engine::create(options), program, bound,
                   partition(bound, std::move(distribution), {}));
}

bool fails_and_recovers(int threads) {
  LocalMesh mesh = mesh_of_product();
  std::vector<HostTensor> inputs(2, HostTensor(DType::f32, {8, 8}));
  test::threads_left = threads;
  bool told = false;
  try {
    mesh.run(inputs);
  } catch (const Failure& failure) {
    told = failure.diagnostic().code == "memory";
  }
  test::threads_left = 1 << 30;
  return told == (threads < kRanks) && mesh.run(inputs).size() == 1;
}

}  // namespace

int main() {
  int bad = 0;
  for (int threads = 0; threads <= kRanks; ++threads) {
    pid_t child = fork();
    if (child == 0) {
      alarm(kSeconds);
      _exit(fails_and_recovers(threads) ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    ++bad;
    std::fprintf(stderr, "%d threads for %d ranks: %s\n", threads, kRanks,
                 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "another error, or none");
  }
  return bad;
}
