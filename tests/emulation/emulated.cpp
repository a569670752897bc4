#include "tests/emulation/emulated.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "backends/cuda/prelude.h"
#include "core/support/diagnostic.h"

namespace tile::test {
namespace {

std::string kernel_name(size_t source, const std::string& name) {
  return "source" + std::to_string(source) + "_" + name;
}

// The kernels of a text under names of their own.
std::string renamed(const cuda::CudaSource& source, size_t index) {
  std::string text = source.text.substr(cuda::prelude().size());
  for (const cuda::CudaKernel& k : source.kernels) {
    std::string from = " " + k.name + "(";
    size_t at = text.find(from);
    internal_check(at != std::string::npos, "emulation: a kernel without text");
    text.replace(at, from.size(), " " + kernel_name(index, k.name) + "(");
  }
  return text;
}

}  // namespace

Emulated::Emulated(const std::vector<cuda::CudaSource>& sources) : sources_(sources) {
  std::string pattern = std::filesystem::temp_directory_path() / "tile-emulation-XXXXXX";
  internal_check(mkdtemp(pattern.data()) != nullptr, "emulation: no temporary folder");
  folder_ = pattern;
  std::ofstream(folder_ + "/kernels.cpp") << [&] {
    std::string text = "#include \"" TILE_SOURCE_DIR "/tests/cuda/emulation.h\"\n";
    text += cuda::prelude();
    for (size_t i = 0; i < sources_.size(); ++i) text += renamed(sources_[i], i);
    return text;
  }();
  const char* compiler = std::getenv("CXX");
  std::string command = std::string(compiler != nullptr ? compiler : "g++") +
                        " -std=c++20 -O1 -fwrapv -fno-strict-aliasing -ffp-contract=off -w -shared"
                        " -fPIC -o " +
                        folder_ + "/kernels.so " + folder_ + "/kernels.cpp 2> " + folder_ + "/log";
  if (std::system(command.c_str()) != 0) {
    std::ifstream log(folder_ + "/log");
    std::stringstream text;
    text << log.rdbuf();
    throw InternalError("emulation: " + text.str());
  }
  library_ = dlopen((folder_ + "/kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) throw InternalError(std::string("emulation: ") + dlerror());
}

Emulated::~Emulated() {
  if (library_ != nullptr) dlclose(library_);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void Emulated::run(size_t index, const nest::Nest& nest, const std::vector<HostTensor*>& arguments,
                   const std::vector<int64_t>& parameters) const {
  using Launch = void (*)(void (*)(), int, void* const*, const unsigned*, const unsigned*,
                          unsigned long, unsigned);
  auto launch = reinterpret_cast<Launch>(dlsym(library_, "tile_emulate"));
  const cuda::CudaSource& source = sources_[index];
  auto aligned = [](size_t bytes) {
    void* memory = std::aligned_alloc(256, (bytes + 511) / 256 * 256);
    std::memset(memory, 0x7f, (bytes + 511) / 256 * 256);
    return std::unique_ptr<void, void (*)(void*)>(memory, std::free);
  };
  auto workspace = aligned(source.workspace_bytes);
  std::vector<std::unique_ptr<void, void (*)(void*)>> copies;
  std::vector<void*> pointers;
  for (HostTensor* t : arguments) {
    copies.push_back(aligned(t->bytes.size()));
    std::memcpy(copies.back().get(), t->bytes.data(), t->bytes.size());
    pointers.push_back(copies.back().get());
  }
  pointers.push_back(workspace.get());
  std::vector<int64_t> numbers = parameters;
  std::vector<void*> values;
  for (void*& p : pointers) values.push_back(&p);
  for (int64_t& n : numbers) values.push_back(&n);
  for (const cuda::CudaKernel& k : source.kernels) {
    std::string name = kernel_name(index, k.name);
    auto kernel = reinterpret_cast<void (*)()>(dlsym(library_, name.c_str()));
    internal_check(kernel != nullptr, "emulation: a kernel that is not there");
    std::optional<int64_t> grid = evaluate(k.grid, [&](std::string_view parameter) {
      for (size_t i = 0; i < numbers.size(); ++i) {
        if (nest.parameters[i].name == parameter) return std::optional<int64_t>(numbers[i]);
      }
      return std::optional<int64_t>();
    });
    if (*grid <= 0) continue;
    auto extents = [](int64_t x, const std::array<int, 2>& yz) {
      return std::array{static_cast<unsigned>(x), static_cast<unsigned>(yz[0]),
                        static_cast<unsigned>(yz[1])};
    };
    launch(kernel, static_cast<int>(values.size()), values.data(), extents(*grid, k.grid_yz).data(),
           extents(k.block, k.block_yz).data(), k.shared_bytes,
           static_cast<unsigned>(k.cluster.empty() ? 1 : k.cluster[0]));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!nest.buffers[i].written) continue;
    std::memcpy(arguments[i]->bytes.data(), copies[i].get(), arguments[i]->bytes.size());
  }
}

}  // namespace tile::test
