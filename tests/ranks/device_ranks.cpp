#include "tests/ranks/device_ranks.h"

#include <exception>
#include <thread>

#include "runtime/engine/launch/strided_copy.h"
#include "runtime/transport/local_transport.h"

namespace tile::test {

TensorOnDevice::TensorOnDevice(Engine& engine, DType type, const Shape& shape)
    : engine_(engine),
      memory_(*engine.session(), static_cast<size_t>(element_count(shape)) * byte_size(type),
              nullptr),
      view_{memory_.data(), type, shape, {}, Memory::device, engine.ordinal()} {}

void TensorOnDevice::set(const void* bytes) {
  engine_.session()->copy_in(memory_.data(), bytes, byte_count(view_), nullptr);
  engine_.session()->finish();
}

HostTensor TensorOnDevice::get() const {
  HostTensor tensor(view_.type, view_.shape);
  engine_.session()->copy_out(tensor.bytes.data(), memory_.data(), byte_count(view_), nullptr);
  engine_.session()->finish();
  return tensor;
}

std::vector<TensorView> views_of(const TensorsOnDevice& tensors) {
  std::vector<TensorView> views;
  for (const auto& tensor : tensors) views.push_back(tensor->view());
  return views;
}

DeviceRanks::DeviceRanks(const std::string& mesh, double timeout, const EngineOf& engine_of)
    : axes_(mesh_of(mesh, "mesh")) {
  for (std::unique_ptr<Transport>& end : local_transports(axes_.ranks(), timeout)) {
    meshes_.push_back(std::make_shared<RankMesh>(axes_, std::move(end)));
    engines_.push_back(engine_of(engines_.size()));
  }
}
DeviceRanks::~DeviceRanks() = default;

void DeviceRanks::on_each(const std::function<void(size_t)>& work) const {
  std::vector<std::exception_ptr> errors(count());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < count(); ++r) {
    threads.emplace_back([&, r] {
      try {
        work(r);
      } catch (const std::exception& error) {
        errors[r] = std::current_exception();
        meshes_[r]->transport().abort(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

std::vector<std::vector<HostTensor>> DeviceRanks::run(const std::shared_ptr<const Program>& source,
                                                      const MeshProgramOptions& options,
                                                      const std::vector<HostTensor>& inputs,
                                                      int runs) const {
  std::vector<std::unique_ptr<MeshProgram>> programs(count());
  using Outputs = std::vector<HostTensor>;
  std::vector<std::vector<Outputs>> parts(static_cast<size_t>(runs), std::vector<Outputs>(count()));
  on_each([&](size_t r) {
    Engine& engine = *engines_[r];
    programs[r] = std::make_unique<MeshProgram>(engines_[r], source, meshes_[r], options);
    const MeshProgram& program = *programs[r];
    TensorsOnDevice given, results;
    for (const MeshProgram::Part& part : program.inputs()) {
      given.push_back(std::make_unique<TensorOnDevice>(engine, part.type, part.boxes[r].shape()));
    }
    for (const MeshProgram::Part& part : program.outputs()) {
      results.push_back(std::make_unique<TensorOnDevice>(engine, part.type, part.boxes[r].shape()));
    }
    for (std::vector<Outputs>& all : parts) {
      for (size_t i = 0; i < given.size(); ++i) {
        given[i]->set(program.part_of_input(inputs[i], i).bytes.data());
      }
      for (const auto& result : results) {
        result->set(std::vector<uint8_t>(byte_count(result->view()), 0xA5).data());
      }
      program.run(views_of(given), views_of(results));
      for (const auto& result : results) all[r].push_back(result->get());
    }
  });
  std::vector<std::vector<HostTensor>> whole;
  for (const std::vector<Outputs>& all : parts) {
    std::vector<HostTensor>& outputs = whole.emplace_back();
    for (size_t o = 0; o < programs[0]->outputs().size(); ++o) {
      std::vector<const std::byte*> bytes;
      for (const Outputs& rank : all) bytes.push_back(rank[o].bytes.data());
      outputs.push_back(put_together(programs[0]->outputs()[o], axes_, bytes));
    }
  }
  return whole;
}

}  // namespace tile::test
