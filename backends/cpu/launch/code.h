// Compiled code of one nest and how it is launched.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/code_symbols.h"
#include "backends/cpu/jit/object_linker.h"
#include "backends/cpu/plan/plan.h"

namespace tile::cpu {

// What launching the functions of an object takes.
struct LaunchPlan {
  struct Entry {
    bool parallel = false;
    bool chained = false;  // with the next two
    Expr extent;           // of the parallel loop, over parameters
    int64_t grain = 1;
  };
  std::vector<bool> written;            // of each argument
  std::vector<std::string> parameters;  // given at launch, in order
  size_t workspace_bytes = 0;
  size_t scratch_bytes = 0;
  bool asks = false;  // whether it is to end (long_loops.h)
  std::vector<Entry> entries;
};
LaunchPlan launch_plan(const nest::Nest& nest, const Plan& plan);

// The object of the disk cache: the plan, then the machine code as the linker takes it.
std::vector<char> packed(const LaunchPlan& plan, std::span<const char> code);
struct Unpacked {
  LaunchPlan plan;
  std::span<const char> code;
};
std::optional<Unpacked> unpacked(std::span<const char> object);  // nullopt: no such object

class CpuCode : public Code {
 public:
  // What links the machine code of an object; null and Failure: nobody can.
  using Link = std::unique_ptr<LinkedCode> (*)(std::span<const char> code);
  // Throws Failure (compile, "backend").
  CpuCode(std::vector<char> object, const Target& target, Link link);

  std::span<const std::byte> object() const override { return std::as_bytes(std::span(object_)); }
  size_t workspace_bytes() const override { return plan_.workspace_bytes; }
  size_t scratch_bytes() const override { return plan_.scratch_bytes; }
  const Takes* takes() const override { return &takes_; }
  Function plain_function() const override;
  int64_t iterations() const override;
  void run_iterations(std::span<void* const> pointers, int64_t begin, int64_t end) const override;
  std::vector<CodeSymbol> symbols() const;
  std::string frames() const;
  void launch(std::span<void* const> pointers, std::span<const int64_t> parameters,
              const LaunchOptions& options) const;

 private:
  struct EntryPoint {
    Function function = nullptr;
    bool parallel = false;
    bool chained = false;
    Expr extent;
    int64_t grain = 1;
  };
  struct Call {
    void* const* pointers;
    const int64_t* parameters;
    std::byte* workspace;
    int threads;
    Control* control;
    const ParallelFor* pool;
    bool is_over() const { return control != nullptr && control->is_over(); }
  };
  std::vector<uint64_t> addresses() const;  // of the entries
  void run_entries(const Call& call) const;
  void run_parallel(const EntryPoint& entry, const Call& call) const;
  void run_doacross(const EntryPoint* entries, const Call& call) const;
  void run_chunk(const EntryPoint& entry, const Call& call, int64_t begin, int64_t end) const;
  int64_t extent_of(const EntryPoint& entry, const int64_t* parameters) const;

  std::vector<char> object_;
  LaunchPlan plan_;
  Takes takes_;
  std::vector<EntryPoint> entries_;
  int threads_ = 1;
  std::unique_ptr<LinkedCode> linked_;
};

// As Backend::run_parallel() is meant to. `threads`: at most; > 0.
void run_parallel(int64_t count, const std::function<void(int64_t)>& work, int threads,
                  const LaunchOptions& options);

}  // namespace tile::cpu
