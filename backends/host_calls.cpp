#include "backends/host_calls.h"

#include <cstdint>
#include <exception>
#include <string>

#include "core/support/diagnostic.h"

namespace tile {
namespace {

// Of what is thrown now; an exception need not be a std::exception.
std::string text_of_thrown() {
  try {
    throw;
  } catch (const std::exception& thrown) {
    return std::string(" threw: ") + thrown.what();
  } catch (...) {
    return " threw";
  }
}

}  // namespace

void* take_memory(const Allocator& host, size_t bytes, size_t alignment, void* stream,
                  const char* what) {
  void* memory = nullptr;
  std::string why = " gave none";
  try {
    memory = host.allocate(host.user, bytes, alignment, stream);
  } catch (...) {
    why = text_of_thrown();
  }
  if (memory == nullptr) {
    fail(Stage::run, "memory", {},
         "no " + std::to_string(bytes) + " bytes of " + what + ": the host's allocator" + why);
  }
  if (reinterpret_cast<uintptr_t>(memory) % alignment != 0) {
    give_back_memory(host, memory, bytes, stream);
    fail(Stage::run, "argument", {},
         std::string("the host's allocator gave ") + what + " that is not aligned to " +
             std::to_string(alignment) + " bytes");
  }
  return memory;
}

void give_back_memory(const Allocator& host, void* memory, size_t bytes, void* stream) noexcept {
  try {
    host.release(host.user, memory, bytes, stream);
  } catch (...) {  // the host's memory is the host's loss
  }
}

void run_on(const ParallelFor& host, size_t count, ParallelFor::Task task, void* context) {
  try {
    host.run(host.user, count, task, context);
  } catch (...) {
    fail(Stage::run, "argument", {}, "the host's parallel_for" + text_of_thrown(),
         "it must not throw");
  }
}

}  // namespace tile
