#include "tests/emulation/emulated.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "backends/cuda/matrix/matrix_mma.h"
#include "backends/cuda/print/prelude.h"
#include "core/support/diagnostic.h"
#include "tests/cuda/machine.h"

namespace tile::test {
namespace {

std::string kernel_name(size_t source, const std::string& name) {
  return "source" + std::to_string(source) + "_" + name;
}

// The kernels of a text under names of their own.
std::string renamed(const cuda::CudaSource& source, size_t index) {
  std::string text = source.text.substr(cuda::prelude().size());
  const std::string mma = cuda::mma_prelude();  // once for all
  if (size_t at = text.find(mma); at != std::string::npos) text.erase(at, mma.size());
  for (const cuda::CudaKernel& k : source.kernels) {
    std::string from = " " + k.name + "(";
    size_t at = text.find(from);
    internal_check(at != std::string::npos, "emulation: a kernel without text");
    text.replace(at, from.size(), " " + kernel_name(index, k.name) + "(");
  }
  return text;
}

// Whether each argument and the workspace are declared `__restrict__`.
std::vector<bool> restricted(const cuda::CudaSource& source, const std::string& kernel) {
  std::string from = " " + kernel + "(";
  size_t at = source.text.find(from) + from.size();
  std::stringstream all(source.text.substr(at, source.text.find(')', at) - at));
  std::vector<bool> list;
  for (std::string one; std::getline(all, one, ',');) {
    list.push_back(one.find("__restrict__") != std::string::npos);
  }
  return list;
}

tile_emulation::BoxMap box_map(const cuda::TensorMap& map, const void* base) {
  tile_emulation::BoxMap box{};
  box.base = static_cast<const unsigned char*>(base);
  box.rank = static_cast<unsigned>(map.sizes.size());
  box.element_bytes = static_cast<unsigned>(byte_size(map.type));
  internal_check(map.swizzle_bytes == 128, "emulation: a box that is not swizzled");
  for (size_t d = 0; d < map.sizes.size(); ++d) {
    box.sizes[d] = map.sizes[d];
    if (d > 0) box.strides_bytes[d] = map.strides_bytes[d - 1];
    box.box[d] = map.box[d];
    box.steps[d] = map.element_strides.empty() ? 1 : map.element_strides[d];
  }
  return box;
}

// Memory that kernels share while this lives, filled with nonsense.
class DeviceMemory {
 public:
  explicit DeviceMemory(size_t bytes) {
    constexpr size_t kAlignment = 256;
    bytes = (bytes + kAlignment) / kAlignment * kAlignment;
    data_.reset(std::aligned_alloc(kAlignment, bytes));
    tile_emulation::fill_with_nonsense(data_.get(), bytes);
    tile_emulation::add_memory(data_.get(), bytes);
  }
  ~DeviceMemory() {
    if (data_) tile_emulation::drop_memory(data_.get());
  }
  DeviceMemory(DeviceMemory&&) = default;
  void* get() const { return data_.get(); }

 private:
  std::unique_ptr<void, void (*)(void*)> data_{nullptr, std::free};
};

}  // namespace

Emulated::Emulated(const std::vector<cuda::CudaSource>& sources) : sources_(sources) {
  std::string pattern = std::filesystem::temp_directory_path() / "tile-emulation-XXXXXX";
  internal_check(mkdtemp(pattern.data()) != nullptr, "emulation: no temporary folder");
  folder_ = pattern;
  std::ofstream(folder_ + "/kernels.cpp") << [&] {
    std::string text = "#include \"" TILE_SOURCE_DIR "/tests/cuda/emulation.h\"\n";
    text += std::string(cuda::prelude()) + cuda::mma_prelude();
    for (size_t i = 0; i < sources_.size(); ++i) text += renamed(sources_[i], i);
    return text;
  }();
  const char* compiler = std::getenv("CXX");
  // Without the compiler's own libraries, of which one would be the sanitizer's.
  std::string command = std::string(compiler != nullptr ? compiler : "g++") +
                        " -std=c++20 -O1 -fwrapv -fno-strict-aliasing -ffp-contract=off -w -shared"
                        " -fPIC -fsanitize=thread -nodefaultlibs -o " +
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
  const cuda::CudaSource& source = sources_[index];
  std::vector<DeviceMemory> memory;
  for (HostTensor* t : arguments) {
    memory.emplace_back(t->bytes.size());
    std::memcpy(memory.back().get(), t->bytes.data(), t->bytes.size());
  }
  memory.emplace_back(source.workspace_bytes);
  std::vector<void*> pointers;
  for (const DeviceMemory& m : memory) pointers.push_back(m.get());
  std::vector<int64_t> numbers = parameters;
  std::vector<void*> values;
  for (void*& p : pointers) values.push_back(&p);
  for (int64_t& n : numbers) values.push_back(&n);
  for (const cuda::CudaKernel& k : source.kernels) {
    std::optional<int64_t> grid = evaluate(k.grid, [&](std::string_view parameter) {
      for (size_t i = 0; i < numbers.size(); ++i) {
        if (nest.parameters[i].name == parameter) return std::optional<int64_t>(numbers[i]);
      }
      return std::optional<int64_t>();
    });
    if (*grid <= 0) continue;
    std::vector<bool> of_kernel = restricted(source, k.name);
    for (size_t i = 0; i < pointers.size(); ++i) {
      tile_emulation::restrict_memory(pointers[i], of_kernel.at(i));
    }
    std::vector<tile_emulation::BoxMap> maps;
    for (const cuda::TensorMap& map : k.maps) {
      maps.push_back(box_map(map, pointers[static_cast<size_t>(map.argument)]));
    }
    std::vector<const void*> places;
    for (const tile_emulation::BoxMap& map : maps) places.push_back(&map);
    std::vector<void*> given = values;
    for (const void*& place : places) given.push_back(&place);
    launch(kernel_name(index, k.name), k, *grid, given);
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!nest.buffers[i].written) continue;
    std::memcpy(arguments[i]->bytes.data(), pointers[i], arguments[i]->bytes.size());
  }
}

void Emulated::launch(const std::string& name, const cuda::CudaKernel& k, int64_t grid,
                      const std::vector<void*>& values) const {
  auto kernel = reinterpret_cast<void (*)()>(dlsym(library_, name.c_str()));
  internal_check(kernel != nullptr, "emulation: a kernel that is not there");
  auto extents = [](int64_t x, const std::array<int, 2>& yz) {
    return std::array{static_cast<unsigned>(x), static_cast<unsigned>(yz[0]),
                      static_cast<unsigned>(yz[1])};
  };
  const char* wrong = tile_emulation::emulate(
      kernel, static_cast<int>(values.size()), values.data(), extents(grid, k.grid_yz).data(),
      extents(k.block, k.block_yz).data(), k.shared_bytes,
      static_cast<unsigned>(k.cluster.empty() ? 1 : k.cluster[0]));
  if (wrong != nullptr) throw InternalError(std::string("emulation: ") + wrong);
  auto running = reinterpret_cast<bool (*)()>(dlsym(library_, "tile_products_run_on"));
  internal_check(running == nullptr || !running(),
                 "emulation: a kernel ends before its products, which nobody has waited for");
}

}  // namespace tile::test
