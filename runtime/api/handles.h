// What the opaque handles of tile.h are, and how exceptions become tile_error.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "core/autodiff/differentiate.h"
#include "core/support/checked.h"
#include "core/support/diagnostic.h"
#include "runtime/api/call_site.h"
#include "runtime/engine/arguments/argument.h"
#include "runtime/engine/engine.h"
#include "runtime/ranks/division.h"
#include "tile/tile.h"

struct tile_error {
  tile_stage stage = TILE_STAGE_API;
  std::string code, message, rendered, json;
  int line = 0, column = 0;
};

struct tile_engine {
  std::shared_ptr<tile::Engine> engine;
};

struct tile_program {
  std::shared_ptr<tile::LoadedProgram> loaded;
  tile::GivenGradients given;
};

namespace tile::api {
class MeshExecutable;
}

// One of the two.
struct tile_executable {
  std::shared_ptr<tile::LiveExecutable> executable;
  std::shared_ptr<const tile::api::MeshExecutable> on_mesh;
};

namespace tile::api {

// The error of the exception that is being handled, with its place if `source` (may be null) is
// what the work was about. A shared out-of-memory error stands in where none can be made.
tile_error* error_in_hand(const Source* source) noexcept;
tile_error* argument_error(const char* message) noexcept;

// Runs `work` and turns whatever it throws into an error; NULL on success.
template <class Work>
tile_error* guarded(const Source* source, Work&& work) noexcept {
  try {
    work();
    return nullptr;
  } catch (...) {
    return error_in_hand(source);
  }
}

// The same with work that the engine's options may cancel, and that has its limits.
template <class Work>
tile_error* watched(const Source* source, const Engine& engine, Stage stage, Work&& work,
                    double seconds = CallControl::kForever) noexcept {
  return guarded(source, [&] {
    CallControl control(stage, engine.options().cancelled, seconds);
    Controlled now(&control, &engine.options().limits);
    work();
  });
}
// The same with the time that the engine allows.
template <class Work>
tile_error* timed(const Source* source, const Engine& engine, Stage stage, Work&& work) noexcept {
  return watched(source, engine, stage, std::forward<Work>(work), engine.options().compile_seconds);
}

// Fields beyond what the caller's struct has stay zero.
template <class Options>
Options given_options(const Options* options) {
  Options copy{};
  if (options == nullptr) return copy;
  if (options->struct_size < sizeof(size_t)) {
    fail(Stage::run, "argument", {}, "struct_size is not set", "set it to sizeof the struct");
  }
  std::memcpy(&copy, options, std::min(options->struct_size, sizeof copy));
  return copy;
}

// A DLTensor on the host as the runtime sees it; throws Failure (code "argument").
TensorView view_of(const DLTensor* tensor, const Argument& argument, bool needs_data);
// A tensor that a run only reads.
TensorView view_of(const HostTensor& tensor);
// The inputs of a call of a program; parameters that are left out have their `defaults`.
std::vector<TensorView> input_views(const Program& program, const InputDefaults& defaults,
                                    const DLTensor* const* tensors, size_t count, bool needs_data);
inline std::vector<TensorView> input_views(const LoadedProgram& loaded,
                                           const DLTensor* const* tensors, size_t count,
                                           bool needs_data) {
  return input_views(loaded.program(), loaded.defaults(), tensors, count, needs_data);
}
// Those of a run; constants that are left out are empty views.
std::vector<TensorView> input_views(const Executable& executable, const DLTensor* const* tensors,
                                    size_t count);
std::vector<TensorView> output_views(const Executable& executable, DLTensor* const* tensors,
                                     size_t count);

// As tile_executable_output; the arrays are those of `output`.
void describe(const LiveExecutable::Output& output, DLTensor& description);

// A copy that tile_string_free takes.
char* duplicate(const std::string& text);

// What a run of another thread kept from being freed may be free now.
template <class Handle>
void freed(Handle* handle) {
  delete handle;
  reclaim();
}

inline const Source* source_of(const tile_program* program) {
  return program->loaded->program().source.get();
}

}  // namespace tile::api

// For functions of tile.h that return an error.
#define REQUIRE(pointer) \
  if ((pointer) == nullptr) return tile::api::argument_error(#pointer " is NULL")
// For those that look into an executable of one rank alone.
#define REQUIRE_ALONE(handle) \
  REQUIRE(handle);            \
  if ((handle)->on_mesh) return tile::api::argument_error("not for an executable on a mesh")
