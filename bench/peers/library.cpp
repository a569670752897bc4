#include "bench/peers/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "core/support/diagnostic.h"

namespace tile::bench {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders() {
  const char* set = std::getenv("TILE_BENCH_LIBRARIES");
  std::istringstream list(set != nullptr ? set : TILE_PEER_LIBRARIES);
  std::vector<fs::path> result;
  for (std::string folder; std::getline(list, folder, ':');) {
    if (!folder.empty()) result.emplace_back(folder);
  }
  return result;
}

// Its own names come first: the process may hold another version of the same library.
void* load(const fs::path& path) {
  return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
}

// "libX.so.1: cannot open shared object file: …" names what `path` needs and the loader does not
// find: wheels put it beside the library. `depth` ends a circle.
void* load_with_neighbours(const fs::path& path, int depth = 8) {
  for (std::string missing_before;;) {
    if (void* handle = load(path)) return handle;
    const char* error = dlerror();
    std::string text = error != nullptr ? error : "";
    std::string missing = fs::path(text.substr(0, text.find(':'))).filename().string();
    fs::path neighbour = path.parent_path() / missing;
    bool helps = depth > 0 && missing != path.filename() && missing != missing_before &&
                 text.find("cannot open shared object file") != std::string::npos &&
                 fs::exists(neighbour);
    if (!helps || load_with_neighbours(neighbour, depth - 1) == nullptr) return nullptr;
    missing_before = missing;
  }
}

}  // namespace

std::shared_ptr<Library> Library::open(const std::vector<std::string>& names) {
  for (const fs::path& folder : folders()) {
    for (const std::string& name : names) {
      std::error_code ignored;
      if (!fs::exists(folder / name, ignored)) continue;
      if (void* handle = load_with_neighbours(fs::absolute(folder) / name)) {
        return std::shared_ptr<Library>(new Library(handle));
      }
    }
  }
  for (const std::string& name : names) {
    if (void* handle = load(name)) return std::shared_ptr<Library>(new Library(handle));
  }
  return nullptr;
}

void* Library::find(const char* name) const { return dlsym(handle_, name); }

void* Library::address(const char* name) const {
  void* found = find(name);
  if (found == nullptr) fail(Stage::run, "peer", {}, std::string("the library has no ") + name);
  return found;
}

}  // namespace tile::bench
