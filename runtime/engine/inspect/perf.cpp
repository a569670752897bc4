#include "runtime/engine/inspect/perf.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <string_view>

#include "runtime/engine/inspect/bytes.h"

namespace tile::perf {
namespace {

enum Kinds : unsigned { kMap = 1, kDump = 2 };

unsigned asked() {
  const char* value = std::getenv("TILE_PERF");
  std::string_view text = value == nullptr ? "" : value;
  unsigned kinds = 0;
  while (!text.empty()) {
    size_t comma = std::min(text.find(','), text.size());
    std::string_view word = text.substr(0, comma);
    if (word == "map") kinds |= kMap;
    if (word == "dump") kinds |= kDump;
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return kinds;
}
unsigned kinds() {
  static const unsigned all = asked();
  return all;
}

// perf's clock with `-k mono`.
uint64_t timestamp() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

constexpr uint32_t kMagic = 0x4A695444, kVersion = 1, kHeaderBytes = 40;
constexpr uint32_t kCodeLoad = 0, kDebugInfo = 2;
constexpr uint32_t kRecordBytes = 16;  // of a record's own header

// tools/perf/Documentation/jitdump-specification.txt of Linux.
std::string record(uint32_t kind, const Bytes& body) {
  Bytes whole;
  whole.put(kind).put(static_cast<uint32_t>(kRecordBytes + body.size())).put(timestamp());
  return whole.raw(body.all().data(), body.size()).all();
}

// The files of this process; made when code is first told of, and again in a forked child.
class Files {
 public:
  void tell(const cpu::CodeSymbol& symbol, const std::string& name, const SourceLine& line) {
    std::lock_guard lock(mutex_);
    if (owner_ != getpid()) open();
    if (map_ >= 0) {
      char head[64];
      std::snprintf(head, sizeof head, "%zx %zx ", address(symbol), symbol.bytes);
      put(map_, head + name + "\n");
    }
    if (dump_ >= 0) put(dump_, debug_info(symbol, line) + code_load(symbol, name));
  }

 private:
  static size_t address(const cpu::CodeSymbol& symbol) {
    return reinterpret_cast<size_t>(symbol.address);
  }
  // Whole or not at all: nobody reads the file before the process ends.
  static void put(int file, const std::string& bytes) {
    if (write(file, bytes.data(), bytes.size()) < 0) return;
  }

  static int create(const std::string& path) {
    constexpr mode_t kOwner = 0600;
    // In /tmp a file of that name may be another user's, or a link to anything.
    return ::open(path.c_str(), O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kOwner);
  }

  void open() {
    owner_ = getpid();
    map_ = dump_ = -1;
    std::string pid = std::to_string(owner_);
    if ((kinds() & kMap) != 0) map_ = create("/tmp/perf-" + pid + ".map");
    if ((kinds() & kDump) == 0) return;
    const char* folder = std::getenv("JITDUMPDIR");
    dump_ = create(std::string(folder == nullptr ? "." : folder) + "/jit-" + pid + ".dump");
    if (dump_ < 0) return;
    Bytes header;
    header.put(kMagic).put(kVersion).put(kHeaderBytes).put(uint32_t{EM_X86_64}).put(uint32_t{0});
    header.put(static_cast<uint32_t>(owner_)).put(timestamp()).put(uint64_t{0});
    put(dump_, header.all());
    // perf learns of the file by seeing it mapped as code; the mapping stays.
    void* marker = mmap(nullptr, static_cast<size_t>(sysconf(_SC_PAGESIZE)), PROT_READ | PROT_EXEC,
                        MAP_PRIVATE, dump_, 0);
    static_cast<void>(marker);
  }

  static std::string debug_info(const cpu::CodeSymbol& symbol, const SourceLine& line) {
    Bytes body;
    body.put(uint64_t{address(symbol)}).put(uint64_t{1});
    body.put(uint64_t{address(symbol)}).put(int32_t{line.number}).put(int32_t{0}).text(line.file);
    return record(kDebugInfo, body);
  }
  std::string code_load(const cpu::CodeSymbol& symbol, const std::string& name) {
    Bytes body;
    body.put(static_cast<uint32_t>(owner_)).put(static_cast<uint32_t>(gettid()));
    body.put(uint64_t{address(symbol)}).put(uint64_t{address(symbol)});
    body.put(uint64_t{symbol.bytes}).put(index_++).text(name);
    return record(kCodeLoad, body.raw(symbol.address, symbol.bytes));
  }

  std::mutex mutex_;
  pid_t owner_ = 0;
  int map_ = -1, dump_ = -1;
  uint64_t index_ = 0;
};

}  // namespace

bool is_on() { return kinds() != 0; }

void tell(const cpu::CodeSymbol& symbol, const std::string& name, const SourceLine& line) {
  static Files& files = *new Files;
  files.tell(symbol, name, line);
}

}  // namespace tile::perf
