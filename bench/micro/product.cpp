#include "bench/micro/product.h"

#include <cstdlib>
#include <system_error>

namespace tile::bench {

SourcePtr Product::text() {
  return std::make_shared<Source>(
      Source{"product.tile",
             "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"});
}

Product::Product(const std::shared_ptr<Engine>& engine, int64_t n)
    : a_(static_cast<size_t>(n * n), 0.5F), b_(a_), c_(a_) {
  program_ = std::make_shared<LoadedProgram>(
      engine, std::make_shared<Program>(parse(Language::tile, text())));
  InputLayout square{{DType::f32, {n, n}}, {}};
  layouts_ = {square, square};
  inputs_ = {{a_.data(), DType::f32, {n, n}, {}}, {b_.data(), DType::f32, {n, n}, {}}};
  outputs_ = {{c_.data(), DType::f32, {n, n}, {}}};
}

KernelLaunch::KernelLaunch(const Product& product, const Executable& executable,
                           const Launch& launch, std::shared_ptr<const Code> code,
                           std::vector<int64_t> parameters)
    : backend_(executable.engine->backend()),
      code_(std::move(code)),
      parameters_(std::move(parameters)),
      workspace_(code_->workspace_bytes() + 64) {
  for (TensorId id : launch.arguments) {
    const Place& place = executable.places[id];
    bool output = place.kind == Place::Kind::output;
    pointers_.push_back((output ? product.outputs() : product.inputs())[place.at].data);
  }
  auto address = reinterpret_cast<uintptr_t>(workspace_.data());
  options_.workspace = workspace_.data() + (64 - address % 64) % 64;
}

std::shared_ptr<Engine> fresh_engine(const std::string& cache_folder) {
  EngineOptions options;
  options.backend = "cpu";
  options.cache_dir = cache_folder;
  options.cache_mode = cache_folder.empty() ? "off" : "rw";
  return Engine::create(options);
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "tile-micro-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), name);
  }
  path_ = name;
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tile::bench
