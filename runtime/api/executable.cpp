// What executables are beside their runs: their tensors, their memory, their saved form.
#include <cstdlib>
#include <cstring>

#include "backends/fork.h"
#include "runtime/api/handles.h"
#include "runtime/api/mesh_executable.h"
#include "runtime/engine/cache/saved_executable.h"
#include "runtime/engine/launch/donations.h"
#include "runtime/engine/lean.h"

using namespace tile;
using namespace tile::api;

namespace {

tile_error* described(const std::vector<LiveExecutable::Output>& tensors, size_t i,
                      const char* missing, DLTensor* description) {
  if (i >= tensors.size()) return argument_error(missing);
  describe(tensors[i], *description);
  return nullptr;
}

const std::vector<LiveExecutable::Output>& inputs_of(const tile_executable& e) {
  return e.on_mesh ? e.on_mesh->inputs() : e.executable->inputs();
}
const std::vector<LiveExecutable::Output>& outputs_of(const tile_executable& e) {
  return e.on_mesh ? e.on_mesh->outputs() : e.executable->outputs();
}

// `box`: null where the tensor is whole.
tile_error* tell_box(const LiveExecutable::Output& tensor, const MeshExecutable::Box* box,
                     int64_t* begin, int64_t* whole) {
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if (begin != nullptr) begin[d] = box == nullptr ? 0 : box->begin[d];
    if (whole != nullptr) whole[d] = box == nullptr ? tensor.shape[d] : box->whole[d];
  }
  return nullptr;
}

}  // namespace

extern "C" {

void tile_executable_free(tile_executable* executable) { freed(executable); }

size_t tile_executable_input_count(const tile_executable* executable) {
  return executable == nullptr ? 0 : inputs_of(*executable).size();
}
size_t tile_executable_output_count(const tile_executable* executable) {
  return executable == nullptr ? 0 : outputs_of(*executable).size();
}
tile_error* tile_executable_input(const tile_executable* executable, size_t i,
                                  DLTensor* description) {
  REQUIRE(executable);
  REQUIRE(description);
  return described(inputs_of(*executable), i, "no such input", description);
}
tile_error* tile_executable_output(const tile_executable* executable, size_t i,
                                   DLTensor* description) {
  REQUIRE(executable);
  REQUIRE(description);
  return described(outputs_of(*executable), i, "no such output", description);
}
tile_error* tile_executable_input_box(const tile_executable* executable, size_t i, int64_t* begin,
                                      int64_t* whole) {
  REQUIRE(executable);
  if (i >= inputs_of(*executable).size()) return argument_error("no such input");
  return tell_box(inputs_of(*executable)[i],
                  executable->on_mesh ? &executable->on_mesh->input_box(i) : nullptr, begin, whole);
}
tile_error* tile_executable_output_box(const tile_executable* executable, size_t i, int64_t* begin,
                                       int64_t* whole) {
  REQUIRE(executable);
  if (i >= outputs_of(*executable).size()) return argument_error("no such output");
  return tell_box(outputs_of(*executable)[i],
                  executable->on_mesh ? &executable->on_mesh->output_box(i) : nullptr, begin,
                  whole);
}

tile_error* tile_executable_workspace_size(const tile_executable* executable, size_t* bytes) {
  REQUIRE(bytes);
  *bytes = 0;
  REQUIRE_ALONE(executable);
  return guarded(nullptr, [&] {
    std::shared_ptr<const Executable> e = executable->executable->snapshot();
    *bytes = e->arena_bytes + e->workspace_bytes;
  });
}

tile_error* tile_executable_may_donate(const tile_executable* executable, size_t input,
                                       size_t output, int* allowed) {
  REQUIRE(allowed);
  *allowed = 0;
  REQUIRE_ALONE(executable);
  const LiveExecutable& live = *executable->executable;
  if (input >= live.inputs().size()) return argument_error("no such input");
  if (output >= live.outputs().size()) return argument_error("no such output");
  return guarded(nullptr, [&] { *allowed = may_donate(*live.snapshot(), input, output) ? 1 : 0; });
}

tile_error* tile_executable_save(const tile_executable* executable, void** bytes, size_t* size) {
  REQUIRE(bytes);
  *bytes = nullptr;
  REQUIRE(size);
  *size = 0;
  REQUIRE_ALONE(executable);
  const LiveExecutable& live = *executable->executable;
  return guarded(live.source()->source.get(), [&] {
    std::vector<std::byte> all = saved_executable(*live.snapshot());
    void* copy = std::malloc(all.size());
    if (copy == nullptr) throw std::bad_alloc();
    std::memcpy(copy, all.data(), all.size());
    *bytes = copy;
    *size = all.size();
  });
}
void tile_bytes_free(void* bytes) { std::free(bytes); }

tile_error* tile_executable_load(tile_engine* engine, const void* bytes, size_t size,
                                 tile_executable** executable) {
  REQUIRE(executable);
  *executable = nullptr;
  REQUIRE(engine);
  REQUIRE(bytes);
  return guarded(nullptr, [&] {
    LockingCall call;
    auto made = std::make_unique<tile_executable>();
    made->executable = std::make_shared<LiveExecutable>(
        loaded_executable(engine->engine, {static_cast<const std::byte*>(bytes), size}));
    *executable = made.release();
  });
}

}  // extern "C"
