// The disk cache's object: a line of numbers, the kernels as text, the cubin.
#include <charconv>
#include <sstream>

#include "backends/cuda/driver/code.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

constexpr const char* kMagic = "tile-cuda-2";
constexpr size_t kListLimit = 1 << 12;

template <class T>
void put(std::ostream& out, const std::vector<T>& list) {
  out << list.size();
  for (const T& value : list) out << " " << value;
  out << "\n";
}
template <class T>
bool get(std::istream& in, std::vector<T>& list) {
  size_t count = 0;
  if (!(in >> count) || count > kListLimit) return false;
  list.resize(count);
  for (T& value : list) in >> value;
  return static_cast<bool>(in);
}

void put(std::ostream& out, const TensorMap& map) {
  out << map.argument << " " << static_cast<int>(map.type) << " " << map.swizzle_bytes << " "
      << map.l2_promotion << " " << (map.tf32 ? 1 : 0) << "\n";
  put(out, map.sizes);
  put(out, map.strides_bytes);
  put(out, map.box);
  put(out, map.element_strides);
}
bool get(std::istream& in, TensorMap& map) {
  int type = 0;
  if (!(in >> map.argument >> type >> map.swizzle_bytes >> map.l2_promotion >> map.tf32)) {
    return false;
  }
  map.type = static_cast<DType>(type);
  return get(in, map.sizes) && get(in, map.strides_bytes) && get(in, map.box) &&
         get(in, map.element_strides);
}

void put(std::ostream& out, const CudaKernel& kernel) {
  out << kernel.name << "\n" << to_string(kernel.grid) << "\n";
  out << kernel.block << " " << kernel.shared_bytes << " " << kernel.maps.size() << "\n";
  out << kernel.grid_yz[0] << " " << kernel.grid_yz[1] << " " << kernel.block_yz[0] << " "
      << kernel.block_yz[1] << "\n";
  put(out, kernel.cluster);
  for (const TensorMap& map : kernel.maps) put(out, map);
}
bool get(std::istream& in, CudaKernel& kernel) {
  std::string grid;
  size_t maps = 0;
  in >> std::ws;
  if (!std::getline(in, kernel.name) || !std::getline(in, grid)) return false;
  kernel.grid = parse_expr(grid);
  if (!(in >> kernel.block >> kernel.shared_bytes >> maps) || maps > kListLimit) return false;
  in >> kernel.grid_yz[0] >> kernel.grid_yz[1] >> kernel.block_yz[0] >> kernel.block_yz[1];
  if (!get(in, kernel.cluster)) return false;
  kernel.maps.resize(maps);
  for (TensorMap& map : kernel.maps) {
    if (!get(in, map)) return false;
  }
  return true;
}

}  // namespace

std::vector<std::byte> pack(const Object& object) {
  std::ostringstream out;
  out << kMagic << " " << object.kernels.size() << " " << object.workspace_bytes << " "
      << object.spills << " " << object.image.size() << "\n";
  for (const CudaKernel& kernel : object.kernels) put(out, kernel);
  std::string head = out.str();
  auto bytes = std::as_bytes(std::span(head.data(), head.size()));
  std::vector<std::byte> packed(bytes.begin(), bytes.end());
  packed.insert(packed.end(), object.image.begin(), object.image.end());
  return packed;
}

std::optional<Object> unpack(std::span<const std::byte> bytes) {
  try {
    std::istringstream in(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    std::string magic;
    size_t kernels = 0, image = 0;
    Object object;
    if (!(in >> magic >> kernels >> object.workspace_bytes >> object.spills >> image) ||
        magic != kMagic || kernels > kListLimit || image > bytes.size()) {
      return std::nullopt;
    }
    object.kernels.resize(kernels);
    for (CudaKernel& kernel : object.kernels) {
      if (!get(in, kernel)) return std::nullopt;
    }
    std::span<const std::byte> tail = bytes.last(image);
    object.image.assign(tail.begin(), tail.end());
    return object;
  } catch (const Failure&) {
    return std::nullopt;
  }
}

}  // namespace tile::cuda
