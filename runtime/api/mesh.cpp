// The functions of tile.h that make meshes.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "runtime/api/mesh_executable.h"
#include "runtime/transport/local_transport.h"
#include "runtime/transport/plugin_transport.h"

using namespace tile;
using namespace tile::api;

namespace {

double timeout_of(const tile_mesh_options& o) {
  if (o.timeout_seconds == 0) return kRankTimeoutSeconds;
  if (o.timeout_seconds > 0 && std::isfinite(o.timeout_seconds)) return o.timeout_seconds;
  fail(Stage::run, "argument", {}, "timeout_seconds is negative or not finite");
}

Mesh axes_of(const tile_mesh_options& o) {
  if (o.axes == nullptr) fail(Stage::run, "argument", {}, "axes is NULL");
  return mesh_of(o.axes, "<axes>");
}

std::unique_ptr<Transport> transport_of(const tile_mesh_options& o) {
  if ((o.given == nullptr) == (o.transport == nullptr)) {
    fail(Stage::run, "argument", {}, "one of transport and given is to be set");
  }
  if (o.given != nullptr) return std::make_unique<PluginTransport>(*o.given, timeout_of(o));
  return open_plugin({plugin_path(o.transport), timeout_of(o), o.communicator});
}

std::unique_ptr<tile_mesh> end_of(tile_engine& engine, const Mesh& mesh,
                                  std::unique_ptr<Transport> transport) {
  auto made = std::make_unique<tile_mesh>();
  made->engine = engine.engine;
  made->mesh = std::make_shared<RankMesh>(mesh, std::move(transport));
  return made;
}

}  // namespace

extern "C" {

tile_error* tile_mesh_create(tile_engine* engine, const tile_mesh_options* options,
                             tile_mesh** mesh) {
  REQUIRE(mesh);
  *mesh = nullptr;
  REQUIRE(engine);
  REQUIRE(options);
  return guarded(nullptr, [&] {
    tile_mesh_options o = given_options(options);
    Mesh axes = axes_of(o);
    *mesh = end_of(*engine, axes, transport_of(o)).release();
  });
}

tile_error* tile_mesh_create_local_on(tile_engine* const* engines, const tile_mesh_options* options,
                                      tile_mesh** meshes, size_t count) {
  REQUIRE(meshes);
  for (size_t r = 0; r < count; ++r) meshes[r] = nullptr;
  REQUIRE(engines);
  for (size_t r = 0; r < count; ++r) REQUIRE(engines[r]);
  REQUIRE(options);
  return guarded(nullptr, [&] {
    tile_mesh_options o = given_options(options);
    if (o.given != nullptr || o.transport != nullptr) {
      fail(Stage::run, "argument", {}, "ranks that are threads need no transport");
    }
    double timeout = timeout_of(o);
    Mesh axes = axes_of(o);
    if (axes.ranks() != count) {
      fail(Stage::run, "mesh", {},
           "the mesh " + to_string(axes) + " has " + std::to_string(axes.ranks()) +
               " ranks; there is room for " + std::to_string(count));
    }
    std::vector<std::unique_ptr<tile_mesh>> made;
    std::vector<std::unique_ptr<Transport>> ends = local_transports(count, timeout);
    for (size_t r = 0; r < count; ++r) {
      made.push_back(end_of(*engines[r], axes, std::move(ends[r])));
    }
    for (size_t r = 0; r < count; ++r) meshes[r] = made[r].release();
  });
}

tile_error* tile_mesh_create_local(tile_engine* engine, const tile_mesh_options* options,
                                   tile_mesh** meshes, size_t count) {
  REQUIRE(meshes);
  for (size_t r = 0; r < count; ++r) meshes[r] = nullptr;
  REQUIRE(engine);
  std::vector<tile_engine*> engines;
  if (tile_error* error = guarded(nullptr, [&] { engines.assign(count, engine); })) return error;
  return tile_mesh_create_local_on(engines.data(), options, meshes, count);
}

void tile_mesh_free(tile_mesh* mesh) { freed(mesh); }
size_t tile_mesh_rank(const tile_mesh* mesh) { return mesh == nullptr ? 0 : mesh->mesh->rank(); }
size_t tile_mesh_rank_count(const tile_mesh* mesh) {
  return mesh == nullptr ? 0 : mesh->mesh->mesh().ranks();
}

tile_error* tile_mesh_abort(tile_mesh* mesh, const char* reason) {
  REQUIRE(mesh);
  return guarded(nullptr, [&] {
    std::unique_lock<std::mutex> entered = mesh->mesh->enter();
    mesh->mesh->transport().abort(reason == nullptr ? "" : reason);
  });
}

}  // extern "C"
