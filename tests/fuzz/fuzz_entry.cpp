// Any bytes as an entry of the disk cache, as a record of an executable, and as a kernel's object
// without its code: each is what it should be, or no such thing.
#include <span>
#include <string>

#include "backends/cpu/launch/code.h"
#include "runtime/engine/cache/disk_cache.h"
#include "runtime/engine/cache/executable_record.h"
#include "tests/fuzz/file_target.h"

namespace {

using namespace tile;

Executable program_of_two_inputs() {
  Executable e;
  e.inputs = {{{DType::f32, {4, 6}}, {}}, {{DType::f32, {6, 5}}, {}}};
  return e;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  std::string why;
  auto payload = cache_payload(bytes, "key", why);
  if (!payload && why.empty()) fuzz::fault("an entry refused without a reason");
  if (payload && cache_entry("key", *payload).size() != size) fuzz::fault("an entry's size");
  Executable e = program_of_two_inputs();
  if (unpack_record(bytes, e)) {
    std::vector<std::byte> again = packed_record(e);
    if (!std::ranges::equal(again, bytes))
      fuzz::fault("a record that is not what it was read from");
  }
  cpu::unpacked({reinterpret_cast<const char*>(data), size});
  return 0;
}
