// Several GPUs and an NCCL of ours, for ranks that are threads of this process.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/ranks/local_ranks.h"
#include "runtime/ranks/rank_mesh.h"
#include "tests/cuda_runtime/fake_device.h"

namespace tile::test {

// The functions at the end of fake/nccl.cpp.
struct FakeNccl {
  FakeNccl();
  void (*fail)(const char* name, int rank, int result, int after) = nullptr;
  void (*mute)(int rank) = nullptr;
  void (*reset)(int version) = nullptr;
  int (*calls)(const char* name) = nullptr;
  int (*live)() = nullptr;
};
const FakeNccl& fake_nccl();

// Each test begins with four GPUs, and with kernels that others compiled.
class OnFakeGpus : public OnFakeDevice {
 protected:
  static constexpr int kGpus = 4;
  void SetUp() override;
  void TearDown() override;

  // With a log of its own.
  std::shared_ptr<Engine> engine(const std::string& backend = "cuda");
  std::string log();  // what engines said until now

  // Every rank does its work on a thread, with an engine on a GPU of its own; what each throws, as
  // "code: message".
  using Work =
      std::function<void(const std::shared_ptr<Engine>&, const std::shared_ptr<RankMesh>&)>;
  std::vector<std::string> errors_of(const std::string& mesh, double timeout, const Work& work);
  // Whether errors_of() connects ranks as processes are, by a table of functions.
  bool as_processes_ = false;

 private:
  std::mutex mutex_;
  std::string log_;
};

std::shared_ptr<const Program> program_named(const std::string& text);

}  // namespace tile::test
