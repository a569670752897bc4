// A square matrix product to measure the runtime around it.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/engine/engine.h"

namespace tile::bench {

// One product of n x n matrices of f32: engine, program, data.
class Product {
 public:
  Product(const std::shared_ptr<Engine>& engine, int64_t n);

  LoadedProgram& program() { return *program_; }
  const std::vector<InputLayout>& layouts() const { return layouts_; }
  const std::vector<TensorView>& inputs() const { return inputs_; }
  const std::vector<TensorView>& outputs() const { return outputs_; }

  static SourcePtr text();

 private:
  std::vector<float> a_, b_, c_;
  std::shared_ptr<LoadedProgram> program_;
  std::vector<InputLayout> layouts_;
  std::vector<TensorView> inputs_, outputs_;
};

// One kernel on a product's tensors, as the backend launches it: nothing of the runtime around it.
class KernelLaunch {
 public:
  // `code` is that of the launch, or another one with its arguments.
  KernelLaunch(const Product& product, const Executable& executable, const Launch& launch,
               std::shared_ptr<const Code> code, std::vector<int64_t> parameters);
  void operator()() { backend_.launch(*code_, pointers_, parameters_, options_); }

 private:
  Backend& backend_;
  std::shared_ptr<const Code> code_;
  std::vector<int64_t> parameters_;
  std::vector<void*> pointers_;
  std::vector<std::byte> workspace_;
  LaunchOptions options_;
};

// An engine of its own; an empty folder means that nothing is kept on disk.
std::shared_ptr<Engine> fresh_engine(const std::string& cache_folder = "");

// A folder that is removed with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace tile::bench
