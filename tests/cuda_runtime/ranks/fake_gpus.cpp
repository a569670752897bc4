#include "tests/cuda_runtime/ranks/fake_gpus.h"

#include <dlfcn.h>

#include <cstdlib>
#include <thread>

#include "core/language/tile/tile.h"
#include "runtime/transport/local_transport.h"
#include "tests/cuda_runtime/ranks/table_transport.h"

namespace tile::test {
namespace {

// Kernels of all tests of the process: compiling one takes a second.
class CacheFolder {
 public:
  CacheFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tile-ranks-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~CacheFolder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string cache_folder() {
  static const CacheFolder folder;
  return folder.path();
}

}  // namespace

FakeNccl::FakeNccl() {
  void* library = dlopen(TILE_FAKE_NCCL, RTLD_NOW | RTLD_LOCAL);
  auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
  };
  find(fail, "fake_nccl_fail");
  find(mute, "fake_nccl_mute");
  find(reset, "fake_nccl_reset");
  find(calls, "fake_nccl_calls");
  find(live, "fake_nccl_live");
}

const FakeNccl& fake_nccl() {
  static const FakeNccl nccl;
  return nccl;
}

void OnFakeGpus::SetUp() {
  OnFakeDevice::SetUp();
  setenv("TILE_NCCL", TILE_FAKE_NCCL, 1);
  fake_driver().set(13000, kGpus);
  fake_driver().peers(1);
  fake_nccl().reset(22809);
}
void OnFakeGpus::TearDown() {
  fake_driver().hold_events(0);
  EXPECT_EQ(fake_nccl().live(), 0) << "communicators are left";
  unsetenv("TILE_NCCL");
  OnFakeDevice::TearDown();
}

std::shared_ptr<Engine> OnFakeGpus::engine(const std::string& backend) {
  EngineOptions options;
  options.backend = backend;
  options.cache_dir = cache_folder();
  options.log = [this](LogLevel, const std::string& message) {
    std::lock_guard lock(mutex_);
    log_ += message + "\n";
  };
  return Engine::create(std::move(options));
}

std::string OnFakeGpus::log() {
  std::lock_guard lock(mutex_);
  return log_;
}

std::vector<std::string> OnFakeGpus::errors_of(const std::string& mesh, double timeout,
                                               const Work& work) {
  Mesh axes = mesh_of(mesh, "mesh");
  auto ends = as_processes_ ? table_transports(axes.ranks(), timeout)
                            : local_transports(axes.ranks(), timeout);
  std::vector<std::string> errors(ends.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ends.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        work(engine("cuda:" + std::to_string(r)),
             std::make_shared<RankMesh>(axes, std::move(ends[r])));
      } catch (const Failure& failure) {
        errors[r] = failure.diagnostic().code + ": " + failure.diagnostic().message;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

std::shared_ptr<const Program> program_named(const std::string& text) {
  return std::make_shared<const Program>(
      parse_tile(std::make_shared<const Source>(Source{"test.tile", text})));
}

}  // namespace tile::test
