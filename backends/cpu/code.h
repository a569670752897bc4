// Compiled code of one nest and how it is launched.
#pragma once

#include <memory>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/jit.h"
#include "backends/cpu/plan.h"

namespace tile::cpu {

class CpuCode : public Code {
 public:
  // Links the object; throws Failure (compile, "backend").
  CpuCode(const nest::Nest& nest, const Plan& plan, const Target& target, Jit& jit,
          std::span<const char> object);

  std::span<const std::byte> object() const override { return std::as_bytes(std::span(object_)); }
  size_t workspace_bytes() const override { return workspace_bytes_; }
  void launch(std::span<void* const> pointers, std::span<const int64_t> parameters,
              const LaunchOptions& options) const;

 private:
  using Function = void (*)(void* const*, const int64_t*, std::byte*, std::byte*, int64_t, int64_t);
  struct EntryPoint {
    Function function = nullptr;
    bool parallel = false;
    Expr extent;  // of the parallel loop, over parameters
    int64_t grain = 1;
  };
  struct Call {
    void* const* pointers;
    const int64_t* parameters;
    std::byte* workspace;
    int threads;
  };
  void run(const EntryPoint& entry, const Call& call) const;
  void run_chunk(const EntryPoint& entry, const Call& call, int64_t begin, int64_t end) const;
  int64_t extent_of(const EntryPoint& entry, const int64_t* parameters) const;

  std::vector<char> object_;
  std::vector<EntryPoint> entries_;
  std::vector<std::string> parameters_;
  int threads_ = 1;
  size_t arguments_ = 0;
  size_t workspace_bytes_ = 0;
  size_t scratch_bytes_ = 0;
  std::unique_ptr<Linked> linked_;
};

}  // namespace tile::cpu
