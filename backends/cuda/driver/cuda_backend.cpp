#include "backends/cuda/cuda_backend.h"

#include <map>
#include <mutex>

#include "backends/build_identity.h"
#include "backends/code_passes.h"
#include "backends/cuda/architecture.h"
#include "backends/cuda/driver/code.h"
#include "backends/cuda/driver/disassemble.h"
#include "backends/cuda/driver/nvrtc.h"
#include "backends/cuda/driver/sort.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

std::vector<std::string> parameter_names(const nest::Nest& nest) {
  std::vector<std::string> names;
  for (const nest::Parameter& p : nest.parameters) names.push_back(p.name);
  return names;
}

std::string virtual_architecture(const Target& target) {
  return "compute_" + target.features.substr(3);  // of "sm_…"
}

std::string as_text(const std::vector<std::byte>& bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

// The driver and device are opened when first needed; a host without them still compiles and emits.
class CudaBackend : public Backend {
 public:
  explicit CudaBackend(int ordinal) : ordinal_(ordinal) {}
  std::string_view name() const override { return "cuda"; }
  const Target& target() const override { return device()->target(); }
  Target target_named(std::string_view features) const override {
    return target_of_architecture(features);
  }

  std::shared_ptr<const Code> compile(const nest::Nest& nest, const Target& target,
                                      PassObserver* observer = nullptr) override {
    CudaSource source;
    run_pass(kPrintCuda, observer, [&] { source = print_cuda(nest, target); });
    return code_of(source, target, nest.name, parameter_names(nest), observer);
  }

  std::shared_ptr<const Code> load(const nest::Nest& nest, const Target& target,
                                   std::span<const std::byte> object) override {
    std::optional<Object> unpacked = unpack(object);
    if (!unpacked) return nullptr;
    try {
      return std::make_shared<CudaCode>(std::move(*unpacked), nest.name, parameter_names(nest),
                                        device_for(target));
    } catch (const Failure&) {
      return nullptr;
    }
  }

  std::string emit(const nest::Nest& nest, const Target& target, std::string_view stage) override {
    if (stage != "cuda" && stage != "ptx" && stage != "sass") {
      fail(Stage::compile, "stage", {},
           "the CUDA backend has no stage '" + std::string(stage) + "'", "one of: cuda, ptx, sass");
    }
    CudaSource source = print_cuda(nest, target);
    if (stage == "cuda") return source.text;
    if (stage == "ptx")
      return as_text(nvrtc().compile(source.text, virtual_architecture(target)).image);
    return disassemble(nvrtc().compile(source.text, target.features).image);
  }

  void launch(const Code& code, std::span<void* const> pointers,
              std::span<const int64_t> parameters, const LaunchOptions& options) override {
    static_cast<const CudaCode&>(code).launch(pointers, parameters, options.workspace,
                                              session_of(options), options.stream);
  }

  std::unique_ptr<DeviceSession> session(size_t memory_limit, const Allocator& allocator) override {
    return std::make_unique<Session>(device(), memory_limit, allocator);
  }

  size_t sort_workspace(const Sort& sort, const BoundTensor& source) const override {
    return sort_workspace_bytes(sort, source);
  }
  void sort(const Sort& sort, const BoundTensor& source, const void* from, void* to,
            const LaunchOptions& options) override {
    sort_on_device(*sort_code(source.type), sort, source, from, to, options, session_of(options));
  }

  std::string processor() const override {
    try {
      return device()->name();
    } catch (const Failure&) {  // code for a device elsewhere
      return "";
    }
  }
  std::string description() const override {
    std::string name = processor();
    if (name.empty()) name = "no device";
    auto text = [](int version) {
      return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
    };
    return name + ", driver " + text(driver_version()) + ", NVRTC " + text(nvrtc().version());
  }
  std::string identity() const override {
    std::lock_guard lock(mutex_);
    if (identity_.empty()) {
      identity_ = "nvrtc " + std::to_string(nvrtc_locked().version()) + " [" + Nvrtc::options() +
                  "] driver " + std::to_string(driver_version()) + " build " + build_identity();
    }
    return identity_;
  }

 private:
  static Session& session_of(const LaunchOptions& options) {
    internal_check(options.session != nullptr, "launches on a GPU have a session");
    return static_cast<Session&>(*options.session);
  }

  std::shared_ptr<const Device> device() const {
    std::lock_guard lock(mutex_);
    if (!device_) device_ = std::make_shared<const Device>(Driver::open(), ordinal_);
    return device_;
  }
  // The device, if there is one and it is of the target's architecture; null: code is made but not
  // loaded.
  std::shared_ptr<const Device> device_for(const Target& target) const {
    std::shared_ptr<const Device> found;
    try {
      found = device();
    } catch (const Failure&) {
      return nullptr;
    }
    return found->target().features == target.features ? found : nullptr;
  }
  // 0 without a driver.
  int driver_version() const {
    try {
      return Driver::open()->version();
    } catch (const Failure&) {
      return 0;
    }
  }
  const Nvrtc& nvrtc() const {
    std::lock_guard lock(mutex_);
    return nvrtc_locked();
  }
  const Nvrtc& nvrtc_locked() const {
    if (!nvrtc_) nvrtc_ = Nvrtc::open(driver_version());
    return *nvrtc_;
  }

  std::shared_ptr<const CudaCode> code_of(const CudaSource& source, const Target& target,
                                          const std::string& label,
                                          std::vector<std::string> parameters,
                                          PassObserver* observer = nullptr) const {
    Compiled compiled;
    run_pass(kCompileCuda, observer,
             [&] { compiled = nvrtc().compile(source.text, target.features); });
    Object object{source.kernels, source.workspace_bytes,
                  !compiled.spills.empty() || compiled.serialized_wgmma, std::move(compiled.image)};
    std::shared_ptr<const CudaCode> code;
    run_pass(kLinkCode, observer, [&] {
      code = std::make_shared<CudaCode>(std::move(object), label, std::move(parameters),
                                        device_for(target));
    });
    return code;
  }

  std::shared_ptr<const CudaCode> sort_code(DType type) {
    std::lock_guard lock(sort_mutex_);
    std::shared_ptr<const CudaCode>& code = sorts_[type];
    if (!code) code = code_of(sort_source(type), target(), "sort", sort_parameters());
    return code;
  }

  int ordinal_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Device> device_;
  mutable std::shared_ptr<const Nvrtc> nvrtc_;
  mutable std::string identity_;
  std::mutex sort_mutex_;
  std::map<DType, std::shared_ptr<const CudaCode>> sorts_;
};

}  // namespace

std::shared_ptr<Backend> shared_backend(int ordinal) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<Backend>> known;
  std::lock_guard lock(mutex);
  std::weak_ptr<Backend>& slot = known[ordinal];
  std::shared_ptr<Backend> backend = slot.lock();
  if (!backend) slot = backend = std::make_shared<CudaBackend>(ordinal);
  return backend;
}

}  // namespace tile::cuda
