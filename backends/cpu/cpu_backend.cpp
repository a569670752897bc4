#include "backends/cpu/cpu_backend.h"

#include <llvm/Config/llvm-config.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <mutex>

#include "backends/build_identity.h"
#include "backends/code_passes.h"
#include "backends/cpu/jit/codegen.h"
#include "backends/cpu/jit/jit.h"
#include "backends/cpu/launch/aligned_memory.h"
#include "backends/cpu/launch/code.h"
#include "backends/cpu/launch/sort.h"
#include "backends/cpu/launch/thread_supply.h"
#include "backends/cpu/plan/plan.h"
#include "backends/cpu/probe/host.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {
namespace {

std::unique_ptr<LinkedCode> link_by_llvm(std::span<const char> code) {
  return Jit::shared()->link(code);
}
// LLVM's linker trusts what it reads. A saved executable's objects are linked by ours, which checks
// it, and by no other.
std::unique_ptr<LinkedCode> link_checked(std::span<const char> code) {
  std::unique_ptr<LinkedCode> linked = link_object(code);
  if (!linked) fail(Stage::run, "backend", {}, "the code is of no form that is known");
  return linked;
}

class CpuBackend : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }
  const Target& target() const override { return host_; }
  Target target_named(std::string_view features) const override {
    return limited_to(host_, features);
  }

  std::shared_ptr<const Code> compile(const nest::Nest& nest, const Target& target,
                                      PassObserver* observer = nullptr) override {
    Plan p = plan(nest);
    llvm::SmallVector<char> object = generator_.object(nest, p, target, observer);
    std::span<const char> bytes(object.data(), object.size());
    std::shared_ptr<const Code> code;
    run_pass(kLinkCode, observer, [&] {
      code = std::make_shared<CpuCode>(packed(launch_plan(nest, p), bytes), target, link_by_llvm);
    });
    return code;
  }

  std::shared_ptr<const Code> load(const nest::Nest& nest, const Target& target,
                                   std::span<const std::byte> object) override {
    const auto* bytes = reinterpret_cast<const char*>(object.data());
    std::optional<Unpacked> parts = unpacked({bytes, object.size()});
    bool same = parts && packed(parts->plan, {}) == packed(launch_plan(nest, plan(nest)), {});
    return same ? restore(target, object) : nullptr;
  }

  std::shared_ptr<const Code> restore(const Target& target,
                                      std::span<const std::byte> object) override {
    return restored(target, object, link_by_llvm);
  }
  std::shared_ptr<const Code> restore_saved(const Target& target,
                                            std::span<const std::byte> object) override {
    return restored(target, object, link_checked);
  }

  std::string emit(const nest::Nest& nest, const Target& target, std::string_view stage) override {
    if (stage == "llvm") return generator_.ir(nest, plan(nest), target);
    if (stage == "asm") return generator_.assembly(nest, plan(nest), target);
    fail(Stage::compile, "stage", {}, "the CPU backend has no stage '" + std::string(stage) + "'",
         "one of: llvm, asm");
  }

  void launch(const Code& code, std::span<void* const> pointers,
              std::span<const int64_t> parameters, const LaunchOptions& options) override {
    static_cast<const CpuCode&>(code).launch(pointers, parameters, options);
  }

  void run_parallel(int64_t count, const std::function<void(int64_t)>& work,
                    const LaunchOptions& options) override {
    cpu::run_parallel(count, work, options.threads > 0 ? options.threads : host_.threads, options);
  }

  void sort(const Sort& sort, const BoundTensor& source, const void* from, void* to,
            const LaunchOptions& options) override {
    AlignedMemory own;
    std::byte* workspace = options.workspace;
    if (workspace == nullptr) {
      own = allocate_aligned(std::max<size_t>(1, sort_workspace(sort, source)));
      workspace = own.get();
    }
    int threads = options.threads > 0 ? std::min(options.threads, host_.threads) : host_.threads;
    SortCall call{sort,      source,          from,          to,          threads,
                  workspace, options.control, options.where, options.pool};
    if (threads > 1 && options.pool == nullptr) limit_threads_to_supply();
    // As in CpuCode::run: no host task runs on this thread while it waits.
    tbb::this_task_arena::isolate([&] { sort_axis(call); });
  }
  // Fewer threads need no more.
  size_t sort_workspace(const Sort& sort, const BoundTensor& source) const override {
    return cpu::sort_workspace(sort, source, host_.threads);
  }

  std::string processor() const override { return processor_name(); }
  std::string identity() const override {
    return "llvm " LLVM_VERSION_STRING " " + host_.features.substr(0, host_.features.find(' ')) +
           " build " + build_identity();
  }

 private:
  static std::shared_ptr<const Code> restored(const Target& target,
                                              std::span<const std::byte> object,
                                              CpuCode::Link link) {
    try {
      const auto* bytes = reinterpret_cast<const char*>(object.data());
      return std::make_shared<CpuCode>(std::vector<char>(bytes, bytes + object.size()), target,
                                       link);
    } catch (const Failure&) {
      return nullptr;
    }
  }

  Target host_ = probe_host();
  CodeGenerator generator_;
};

}  // namespace

std::shared_ptr<Backend> shared_backend() {
  static std::mutex mutex;
  static std::weak_ptr<Backend> known;
  std::lock_guard lock(mutex);
  std::shared_ptr<Backend> backend = known.lock();
  if (!backend) known = backend = std::make_shared<CpuBackend>();
  return backend;
}

}  // namespace tile::cpu
