// Opening the shared library of a transport: it runs with the rights of the process.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "core/support/diagnostic.h"
#include "runtime/transport/plugin_transport.h"

namespace tile {
namespace {

[[noreturn]] void bad(const std::string& path, const std::string& why,
                      const std::string& hint = "") {
  fail(Stage::run, "transport", {}, "the transport " + path + " cannot be used: " + why, hint);
}

// A file in a folder that others may write could be another one by the time it is opened; a sticky
// folder keeps it.
void check_owner(const std::string& path, bool folder) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) bad(path, std::strerror(errno));
  bool kind = folder ? S_ISDIR(info.st_mode) : S_ISREG(info.st_mode);
  if (!kind) bad(path, folder ? "not a folder" : "not a regular file");
  if (info.st_uid != geteuid() && info.st_uid != 0) bad(path, "it belongs to another user");
  bool sticky = folder && (info.st_mode & S_ISVTX) != 0;
  if ((info.st_mode & 0022) != 0 && !sticky) {
    bad(path, "others may write it", "chmod go-w closes it");
  }
}

tile_transport_open_function function_of(const std::string& path) {
  std::error_code error;
  std::string real = std::filesystem::canonical(path, error).string();
  if (error) bad(path, error.message());
  check_owner(real, false);
  check_owner(std::filesystem::path(real).parent_path().string(), true);
  // It stays open: threads of what it draws in may outlive every mesh.
  void* library = dlopen(real.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) bad(path, dlerror());
  void* found = dlsym(library, "tile_transport_open");
  if (found == nullptr) bad(path, "it has no function tile_transport_open");
  return reinterpret_cast<tile_transport_open_function>(found);
}

}  // namespace

std::string plugin_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  if (name != "mpi") {
    fail(Stage::run, "argument", {}, "no transport is called \"" + name + "\"",
         "mpi, or the path of a plug-in with a slash in it, such as ./libtile_mpi.so");
  }
  const char* path = secure_getenv("TILE_MPI");  // not with more rights than the user's
  if (path != nullptr && *path != '\0') return path;
  fail(Stage::run, "argument", {}, "TILE_MPI does not say where the plug-in for MPI is",
       "mpicc -O2 -shared -fPIC -I PREFIX/include PREFIX/share/tile/tile_mpi.c -o "
       "libtile_mpi.so makes it");
}

std::unique_ptr<PluginTransport> open_plugin(const PluginOptions& options) {
  tile_transport_open_function open = function_of(options.path);
  tile_transport table{};
  std::array<char, 256> why{};
  int fault = open(TILE_TRANSPORT_VERSION, options.communicator, options.timeout_seconds, &table,
                   why.data(), why.size());
  why.back() = '\0';
  if (fault != 0) bad(options.path, why.data());
  return std::make_unique<PluginTransport>(table, options.timeout_seconds);
}

}  // namespace tile
