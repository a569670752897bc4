// The one interface between the runtime and a backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/host_services.h"
#include "core/ir/bound.h"
#include "core/nest/nest.h"
#include "core/support/control.h"
#include "core/support/pass.h"
#include "core/target/target.h"

namespace tile {

// Compiled code of one nest, ready to launch. Immutable; launched by any number of threads at once.
class Code {
 public:
  virtual ~Code() = default;
  // The relocatable object for the disk cache; load() makes Code from it again.
  virtual std::span<const std::byte> object() const = 0;
  // Bytes that launch() needs as workspace (aligned to 64), shared by the threads of the launch.
  virtual size_t workspace_bytes() const = 0;
  // Bytes of its own that each thread of a launch takes beside, and keeps.
  virtual size_t scratch_bytes() const { return 0; }
  // Whether the compiler had to put registers into memory: a search drops such a candidate.
  virtual bool spills() const { return false; }
  // How many kernels one launch() gives a device.
  virtual size_t kernels() const { return 1; }
  // What launch() is given.
  struct Takes {
    std::vector<bool> written;  // of each argument: whether it is written, else only read
    size_t parameters = 0;
  };
  // Null where code does not say.
  virtual const Takes* takes() const { return nullptr; }
  // All that launch() does where it takes no workspace: a function that runs on the calling thread,
  // given the pointers, the parameters, and what code without memory of its own ignores. Null where
  // there is more to do.
  using Function = void (*)(void* const*, const int64_t*, std::byte*, std::byte*, int64_t, int64_t);
  virtual Function plain_function() const { return nullptr; }
  // Of code that is one parallel loop without memory that its iterations share and without
  // parameters: how many there are; 0: it is something else.
  virtual int64_t iterations() const { return 0; }
  // Does iterations begin … end - 1 of such code on the calling thread.
  virtual void run_iterations(std::span<void* const> pointers, int64_t begin, int64_t end) const {
    (void)pointers, (void)begin, (void)end;
  }
};

// Work that a device was told once and does again and again. Thread safe.
class Recording {
 public:
  virtual ~Recording() = default;
  // Gives the stream the work once more. Runs of one recording follow each other, whatever their
  // streams. Throws Failure (run).
  virtual void run(void* stream) = 0;
};

// One engine's use of a device with memory of its own: a pool, a stream, and the errors of launches
// that nobody has waited for yet. Thread safe. A stream is the caller's, or the session's own where
// it is null; work on one stream runs in order, and only what says so waits for it. Every function
// throws Failure of stage run: "memory" where the pool's limit or the device's memory does not
// suffice, and "launch" with the kernels' names where an earlier launch has failed.
class DeviceSession {
 public:
  virtual ~DeviceSession() = default;
  // Memory that work on the stream may use from now on, aligned to 256 bytes; nullptr for 0 bytes.
  virtual void* allocate(size_t bytes, void* stream) = 0;
  // Given back once the stream's work so far is done.
  virtual void release(void* memory, size_t bytes, void* stream) noexcept = 0;
  // The host's bytes may change or go once this returns.
  virtual void copy_in(void* device, const void* host, size_t bytes, void* stream) = 0;
  // Waits: the host's bytes are there once this returns.
  virtual void copy_out(void* host, const void* device, size_t bytes, void* stream) = 0;
  virtual void copy(void* to, const void* from, size_t bytes, void* stream) = 0;
  virtual void synchronize(void* stream) = 0;
  // Waits for the work of every stream.
  virtual void finish() = 0;
  // Calls `work` with a stream that keeps what it is given, launches and copies on the device,
  // instead of doing it; the pointers must be good in every run of the recording. Null where the
  // device does not record that.
  virtual std::unique_ptr<Recording> record(const std::function<void(void* stream)>& work) {
    (void)work;
    return nullptr;
  }
  // Whether the caller makes a recording of its own of what this stream is given: nothing runs now,
  // nobody can wait for it, and it may run many times later, beside what other streams do.
  virtual bool is_recorded(void* stream) {
    (void)stream;
    return false;
  }
  // Runs `work`, which gives the stream its work, and tells the nanoseconds that the device took.
  virtual double elapsed_ns(void* stream, const std::function<void()>& work) = 0;
};

struct LaunchOptions {
  int threads = 0;                   // 0: all of the target's
  void* stream = nullptr;            // a GPU stream; unused on the CPU
  std::byte* workspace = nullptr;    // at least workspace_bytes()
  DeviceSession* session = nullptr;  // of the same backend, where that has one
  // Ends a launch on the CPU early, on whichever of its threads, and then throws its reason; null:
  // nothing does. On a device it is asked between launches.
  Control* control = nullptr;
  Span where;  // of what is launched, in the program's text
  // The host's threads for parallel loops on the CPU, which outlive the launch; null: oneTBB's.
  const ParallelFor* pool = nullptr;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  // The host's or device's description, probed once.
  virtual const Target& target() const = 0;
  // A target for other features of the same kind ("avx2", "avx512"); throws Failure (compile) if it
  // cannot run here.
  virtual Target target_named(std::string_view features) const = 0;

  // Thread safe. Throws Failure of stage compile. The observer, which may be null, is told of the
  // passes of code_passes.h on the calling thread.
  virtual std::shared_ptr<const Code> compile(const nest::Nest& nest, const Target& target,
                                              PassObserver* observer = nullptr) = 0;
  // From a cached object of the same nest and target; nullptr if it does not load.
  virtual std::shared_ptr<const Code> load(const nest::Nest& nest, const Target& target,
                                           std::span<const std::byte> object) = 0;
  // The same without the nest; nullptr also where objects do not describe their launches.
  virtual std::shared_ptr<const Code> restore(const Target& target,
                                              std::span<const std::byte> object) {
    (void)target, (void)object;
    return nullptr;
  }
  // The same of a saved executable's object: as fast as can be, without starting what compiles.
  virtual std::shared_ptr<const Code> restore_saved(const Target& target,
                                                    std::span<const std::byte> object) {
    return restore(target, object);
  }
  // Text of a later stage: "llvm", "asm" on the CPU; "cuda", "ptx", "sass" on a GPU.
  virtual std::string emit(const nest::Nest& nest, const Target& target,
                           std::string_view stage) = 0;
  // Pointers to the first element of each argument, in the nest's order; parameters in the nest's
  // order. Returns when done on the CPU. Throws Failure of stage run.
  virtual void launch(const Code& code, std::span<void* const> pointers,
                      std::span<const int64_t> parameters, const LaunchOptions& options) = 0;
  // Calls work(0) … work(count - 1), each once, on threads that a launch with the options would
  // use, unless the control ends it earlier. Throws what a call throws.
  virtual void run_parallel(int64_t count, const std::function<void(int64_t)>& work,
                            const LaunchOptions& options) {
    for (int64_t i = 0; i < count; ++i) {
      if (options.control != nullptr && options.control->is_over()) return;
      work(i);
    }
  }
  // Null where tensors live in the host's memory. Otherwise every pointer that launch and sort are
  // given is the device's, aligned to 16 bytes. `memory_limit`: bytes in use at a time, 0: no
  // limit. `allocator`: where that memory comes from; not given: a pool of the session's own.
  virtual std::unique_ptr<DeviceSession> session(size_t memory_limit, const Allocator& allocator) {
    (void)memory_limit, (void)allocator;
    return nullptr;
  }

  // Bytes that sort() needs as workspace.
  virtual size_t sort_workspace(const Sort& sort, const BoundTensor& source) const {
    (void)sort, (void)source;
    return 0;
  }
  // Dense source to dense result.
  virtual void sort(const Sort& sort, const BoundTensor& source, const void* from, void* to,
                    const LaunchOptions& options) = 0;
  // The device and what makes its code, for people.
  virtual std::string description() const { return identity(); }
  // The model of the processor or GPU as its maker names it ("AMD EPYC 9B45", "NVIDIA H200"), the
  // same for every build and version; empty where it is not known.
  virtual std::string processor() const { return ""; }
  // What cache keys must name: compiler version, device, driver.
  virtual std::string identity() const = 0;
};

}  // namespace tile
