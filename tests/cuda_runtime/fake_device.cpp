#include "tests/cuda_runtime/fake_device.h"

#include <dlfcn.h>

#include "core/language/language.h"

namespace tile::test {

FakeDriver::FakeDriver() {
  void* library = dlopen(TILE_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
  auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
  };
  find(fail, "fake_cuda_fail");
  find(break_all, "fake_cuda_break");
  find(set, "fake_cuda_set");
  find(calls, "fake_cuda_calls");
  find(live, "fake_cuda_live");
  find(first_arguments, "fake_cuda_first_arguments");
  find(record, "fake_cuda_record");
  find(recorded, "fake_cuda_recorded");
  find(peers, "fake_cuda_peers");
  find(trace, "fake_cuda_trace");
  find(traced, "fake_cuda_traced");
  find(late, "fake_cuda_late");
  find(run_recording, "fake_cuda_run_recording");
  find(drop_recording, "fake_cuda_drop_recording");
  find(hold_events, "fake_cuda_hold_events");
}

const FakeDriver& fake_driver() {
  static const FakeDriver driver;
  return driver;
}

void OnFakeDevice::SetUp() {
  setenv("TILE_CUDA_DRIVER", TILE_FAKE_DRIVER, 1);
  setenv("TILE_NVRTC", TILE_FAKE_NVRTC, 1);
  unsetenv("TILE_FAKE_NVRTC_REFUSES");
  fake_driver().set(13000, 1);
  fake_driver().break_all(0);
  ASSERT_EQ(fake_driver().live(), 0);
}
void OnFakeDevice::TearDown() {
  fake_driver().break_all(0);
  fake_driver().late(0);
  EXPECT_EQ(fake_driver().live(), 0) << "objects of the driver are left";
}

std::shared_ptr<Engine> cuda_engine(size_t memory_limit, const std::string& name) {
  EngineOptions options;
  options.backend = name;
  options.cache_mode = "off";
  options.memory_limit = memory_limit;
  return Engine::create(std::move(options));
}

std::shared_ptr<LoadedProgram> program_of(const std::shared_ptr<Engine>& engine,
                                          const std::string& text) {
  auto source = std::make_shared<Source>(Source{"test", text});
  return std::make_shared<LoadedProgram>(engine,
                                         std::make_shared<Program>(parse(Language::tile, source)));
}

HostTensor ramp(DType type, Shape shape) {
  HostTensor t(type, std::move(shape));
  for (int64_t i = 0; i < t.count(); ++i) {
    t.set(i, is_float(type) ? real_scalar(static_cast<double>(i), type) : integer_scalar(i, type));
  }
  return t;
}

TensorView view(HostTensor& tensor, Memory memory) {
  return {tensor.bytes.data(), tensor.type, tensor.shape, {}, memory, 0};
}

std::vector<HostTensor> run_on(const std::shared_ptr<Engine>& engine, const std::string& text,
                               std::vector<TensorView> inputs) {
  std::shared_ptr<const Executable> e = program_of(engine, text)->executable(std::span(inputs));
  std::vector<HostTensor> outputs;
  std::vector<TensorView> views;
  for (size_t i = 0; i < e->bound.outputs.size(); ++i) {
    outputs.emplace_back(e->output(i).type, e->output(i).shape);
  }
  for (HostTensor& output : outputs) views.push_back(view(output));
  check_tensors(*e, inputs, views);
  run(*e, inputs, views);
  return outputs;
}

}  // namespace tile::test
