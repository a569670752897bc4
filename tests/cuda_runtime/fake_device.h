// The fake driver and NVRTC as this process's, steered by a test.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/engine/engine.h"

namespace tile::test {

// The functions at the end of fake/driver.cpp.
struct FakeDriver {
  FakeDriver();
  void (*fail)(const char* name, int result, int after) = nullptr;
  void (*break_all)(int result) = nullptr;
  void (*set)(int version, int devices) = nullptr;
  int (*calls)(const char* name) = nullptr;
  int (*live)() = nullptr;
  int (*first_arguments)() = nullptr;
  void (*record)(void* stream) = nullptr;
  void* (*recorded)(void* stream) = nullptr;
  void (*run_recording)(void* recording) = nullptr;
  void (*drop_recording)(void* recording) = nullptr;
  void (*hold_events)(int hold) = nullptr;
  void (*peers)(int reach) = nullptr;
  void (*trace)(int on) = nullptr;
  const char* (*traced)() = nullptr;
  void (*late)(unsigned number) = nullptr;
};
const FakeDriver& fake_driver();

// Each test begins with a driver that works and must leave nothing alive in it.
class OnFakeDevice : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
};

std::shared_ptr<Engine> cuda_engine(size_t memory_limit = 0, const std::string& name = "cuda");
std::shared_ptr<LoadedProgram> program_of(const std::shared_ptr<Engine>& engine,
                                          const std::string& text);
HostTensor ramp(DType type, Shape shape);  // 0, 1, 2 …
TensorView view(HostTensor& tensor, Memory memory = Memory::host);
// Compiles for the tensors as they are and runs; outputs are dense in host memory.
std::vector<HostTensor> run_on(const std::shared_ptr<Engine>& engine, const std::string& text,
                               std::vector<TensorView> inputs);
// The diagnostic that `work` throws; its code is empty where it throws nothing.
template <class Work>
Diagnostic failure_of(Work&& work) {
  try {
    work();
  } catch (const Failure& failure) {
    return failure.diagnostic();
  }
  return {};
}

}  // namespace tile::test
