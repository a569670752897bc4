// Machine code of one nest on a GPU.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/cuda/driver/device.h"
#include "backends/cuda/driver/session.h"
#include "backends/cuda/source.h"

namespace tile::cuda {

// A cubin with what a launch needs: the disk cache's object.
struct Object {
  std::vector<CudaKernel> kernels;
  size_t workspace_bytes = 0;
  bool spills = false;
  std::vector<std::byte> image;
};
std::vector<std::byte> pack(const Object& object);
std::optional<Object> unpack(std::span<const std::byte> bytes);  // nullopt: damaged

// Code loaded into a device's context.
class Module {
 public:
  Module(std::shared_ptr<const Device> device, const void* image, const std::string& label);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  CUmodule handle() const { return handle_; }

 private:
  std::shared_ptr<const Device> device_;
  CUmodule handle_ = nullptr;
};

class CudaCode : public Code {
 public:
  static constexpr size_t kMapLimit = 8;  // of one kernel
  // `label` names the nest in errors, `parameters` are its parameters' names. With a device the
  // code is loaded at once. Throws Failure (run).
  CudaCode(Object object, std::string label, std::vector<std::string> parameters,
           std::shared_ptr<const Device> device);
  std::span<const std::byte> object() const override { return packed_; }
  size_t workspace_bytes() const override { return object_.workspace_bytes; }
  bool spills() const override { return object_.spills; }
  size_t kernels() const override { return object_.kernels.size(); }

  // Gives the stream every kernel in order; `arguments` stand for the kernels' own pointers.
  void launch(std::span<void* const> arguments, std::span<const int64_t> parameters,
              void* workspace, Session& session, void* stream) const;
  // The same for the kernel at one position.
  void launch_one(size_t kernel, std::span<void* const> arguments,
                  std::span<const int64_t> parameters, void* workspace, Session& session,
                  void* stream) const;

 private:
  void load();
  int64_t blocks(const CudaKernel& kernel, std::span<const int64_t> parameters) const;
  using Maps = std::array<CUtensorMap, kMapLimit>;
  // The maps of a kernel's arguments, encoded or as they were encoded for the same pointers.
  void fill_maps(size_t kernel, std::span<void* const> arguments, Maps& maps) const;
  CUtensorMap encode(const TensorMap& map, void* pointer) const;

  Object object_;
  std::vector<std::byte> packed_;
  std::string label_;
  KernelNames names_;  // the label
  std::vector<std::string> parameters_;
  std::shared_ptr<const Device> device_;
  std::unique_ptr<Module> module_;
  std::vector<CUfunction> functions_;
  struct Encoded {
    size_t kernel = 0;
    std::array<void*, kMapLimit> pointers{};
    Maps maps;
  };
  static constexpr size_t kEncoded = 4;
  mutable std::mutex encoded_mutex_;
  mutable std::vector<Encoded> encoded_;  // the latest, a ring
  mutable size_t encoded_next_ = 0;
};

}  // namespace tile::cuda
