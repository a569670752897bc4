// What a plugin does with the library: the host's memory and threads, a compilation beside the
// host's own work, a filter in place, an executable that is kept for the next start.
#include <cstdlib>
#include <future>
#include <iostream>
#include <thread>
#include <tile/tile.hpp>

namespace jit = tile::jit;

namespace {

// Softmax of each row.
const char* const kText =
    "function (X[M, N]) -> (P) {\n"
    "  Top[m, 0: M, 1] = >(X[m, n]);\n"
    "  E = exp(X - Top);\n"
    "  Sum[m, 0: M, 1] = +(E[m, n]);\n"
    "  P = E / Sum;\n"
    "}\n";

// The host's memory: here the C library's, counted.
std::size_t given = 0;
void* allocate(void*, std::size_t bytes, std::size_t alignment, void*) {
  given += bytes;
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
void release(void*, void* memory, std::size_t, void*) { std::free(memory); }

// The host's threads: here new ones for each loop; a real host has a pool.
void parallel_for(void*, std::size_t count, tile_task task, void* context) {
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < count; ++i) threads.emplace_back(task, context, i);
  task(context, 0);
  for (std::thread& thread : threads) thread.join();
}

jit::Engine engine_of_host() {
  tile_allocator memory = {sizeof memory, allocate, release, nullptr};
  tile_engine_options options = {};
  options.struct_size = sizeof options;
  options.backend = "cpu";
  options.host_allocator = &memory;
  options.parallel_for = parallel_for;
  return jit::Engine(options);
}

// Compiles while the host goes on, and takes the result when it is there.
jit::Executable compiled(const jit::Engine& engine, const jit::View& x) {
  std::promise<jit::Executable> made;
  jit::Compilation compilation = engine.parse("tile", kText, "softmax.tile")
                                     .compile_async({x}, [&](std::optional<jit::Executable> e,
                                                             std::shared_ptr<jit::Error> error) {
                                       if (error) {
                                         made.set_exception(std::make_exception_ptr(*error));
                                       } else {
                                         made.set_value(std::move(*e));
                                       }
                                     });
  // … the host's own work …
  compilation.wait();
  return made.get_future().get();
}

void run() {
  jit::Engine engine = engine_of_host();
  std::vector<float> data = {1, 2, 3, 3, 2, 1};
  jit::View x = jit::view(data.data(), {2, 3});
  jit::Executable softmax = compiled(engine, x);

  // Kept for the next start, where neither text nor compiler is needed.
  std::vector<std::byte> bytes = softmax.save();
  jit::Executable loaded = engine.load(bytes.data(), bytes.size());

  // In place where the executable allows it.
  std::vector<float> other(data.size());
  bool in_place = loaded.may_donate(0, 0);
  loaded.run({x}, {in_place ? x : jit::view(other.data(), {2, 3})});
  const std::vector<float>& result = in_place ? data : other;
  std::cout << "softmax" << (in_place ? " in place" : "") << ":";
  for (float value : result) std::cout << " " << value;
  std::cout << "\n";
}

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const jit::Error& error) {
    std::cerr << error.what();
    return 1;
  }
}
