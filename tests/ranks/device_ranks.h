// Ranks that are threads of this process, each with an engine on a GPU, and programs that run again
// and again on tensors that stay in the GPUs' memory.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/engine/launch/device_run.h"
#include "runtime/ranks/rank_mesh.h"

namespace tile::test {

// A dense tensor in an engine's memory.
class TensorOnDevice {
 public:
  TensorOnDevice(Engine& engine, DType type, const Shape& shape);
  const TensorView& view() const { return view_; }
  // Both wait for the device. `bytes`: as many as the tensor has.
  void set(const void* bytes);
  HostTensor get() const;

 private:
  Engine& engine_;
  DeviceMemory memory_;
  TensorView view_;
};
using TensorsOnDevice = std::vector<std::unique_ptr<TensorOnDevice>>;
std::vector<TensorView> views_of(const TensorsOnDevice& tensors);

class DeviceRanks {
 public:
  using EngineOf = std::function<std::shared_ptr<Engine>(size_t rank)>;
  DeviceRanks(const std::string& mesh, double timeout, const EngineOf& engine_of);
  ~DeviceRanks();

  size_t count() const { return meshes_.size(); }
  const std::shared_ptr<Engine>& engine(size_t rank) const { return engines_[rank]; }
  const std::shared_ptr<RankMesh>& mesh(size_t rank) const { return meshes_[rank]; }
  // Every rank does this on a thread of its own; throws the first error.
  void on_each(const std::function<void(size_t rank)>& work) const;
  // The whole outputs after each of so many runs with the same tensors, which are set anew before
  // each: `inputs`, whole, and nonsense in outputs.
  std::vector<std::vector<HostTensor>> run(const std::shared_ptr<const Program>& source,
                                           const MeshProgramOptions& options,
                                           const std::vector<HostTensor>& inputs, int runs) const;

 private:
  Mesh axes_;
  std::vector<std::shared_ptr<Engine>> engines_;
  std::vector<std::shared_ptr<RankMesh>> meshes_;
};

}  // namespace tile::test
