// What a rank of a mesh does on a device beside launches: it moves boxes, and gives other ranks'
// devices memory over a link.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/ir/dtype.h"

namespace tile {

class Recording;

// Rows of `width` bytes: rows[0] groups of rows[1] neighbours, `pitch` bytes apart, the groups
// `slice`, a multiple of `pitch`, apart.
struct RowCopy {
  struct Side {
    std::byte* first = nullptr;
    size_t pitch = 0, slice = 0;
  };
  Side from, to;
  size_t width = 0;
  std::array<size_t, 2> rows{1, 1};
};

// A part of an exchange, in the memory of where the rank runs.
struct LinkPart {
  size_t rank = 0;  // the other one, never the caller's own
  std::byte* data = nullptr;
  size_t bytes = 0;  // may be 0: nothing is sent
  // Of a part that is sent in a recording. Pushed: where it lands in the other rank's memory, which
  // may be where it is packed. Fetched: whether more of the same group goes to that rank.
  std::byte* to = nullptr;
  bool more = false;
};

// An exchange of parts, with the copies on the device that make what is sent and that put what
// was received where it belongs.
struct LinkExchange {
  std::span<const RowCopy> packs;
  std::span<const LinkPart> sent, received;
  std::span<const RowCopy> unpacks;
};

// What all ranks of a link do together, each with parts of as many elements.
struct LinkCollective {
  enum class Kind : uint8_t {
    all_gather,      // `to` has every rank's `from`, in the order of the ranks
    reduce_scatter,  // `to` is the sum of the parts, one for each rank, that `from`s have for this
                     // one
    all_reduce,      // `to` is the sum of all `from`s
  };
  // Whether sums of the type are a link's own.
  static bool adds(DType type) {
    return type != DType::none && type != DType::bool_ && !is_f8(type) && type != DType::i16 &&
           type != DType::u16;
  }
  Kind kind = Kind::all_gather;
  DType type = DType::none;
  size_t elements = 0;  // of what a rank gives to an all-gather, else of what it gets
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::span<const RowCopy> packs = {};  // that make `from`
};

// Where an exchange stands among the work of a session.
enum class LinkLane : uint8_t {
  in_line,  // on the session's own stream, behind the work that this was given and before the rest
  beside,   // on a stream of the link's: behind the same work, and beside the rest
};

// How an exchange of parts runs.
struct LinkManner {
  LinkLane lane = LinkLane::in_line;
  // Parts between GPUs that reach each other's memory are copied by their copy engines rather than
  // sent by kernels: the same for the exchange on all ranks.
  bool copies = false;
  // In a recording: who sends a part puts it where the other rank wants it, and nobody waits
  // before; else who receives it fetches it. The same on all ranks.
  bool pushes = false;
  // The next exchange fetches of the same source, which stays as it is until that one is awaited,
  // too, and the session's own stream is given nothing in between: they are a group.
  bool more = false;
};

class LinkedPeers;

// One rank's end of what connects the devices of all ranks. Used by one thread at a time.
class DeviceLink {
 public:
  // Waits for nobody. The device is done with what was started, or abort() was called.
  virtual ~DeviceLink() = default;
  // An exchange beside that is started later comes behind the work that the session's own stream
  // was given until now, not until then. Exchanges take marks in their order. Throws as start().
  virtual void mark() = 0;
  // Gives the device an exchange, and returns how many were started before. Exchanges run one after
  // the other, whatever their lanes; parts between two ranks arrive in the order in which they are
  // given. Throws Failure (run, "nccl"; "cuda").
  virtual size_t start(const LinkExchange& what, LinkManner how) = 0;
  virtual size_t start(const LinkCollective& what, LinkLane lane) = 0;
  // Whether the link is made and the stream has been given what was started. Until then nothing
  // else is started or awaited, and no other work given to the exchange's stream. Throws Failure
  // (run, "nccl"; "cuda").
  virtual bool is_given() = 0;
  // What the session's own stream is given from now on comes behind this exchange, which was given.
  // Waits for nobody. Throws as start().
  virtual void await(size_t exchange) = 0;
  // How many exchanges the device has begun, and how many it has done. Throws as start().
  struct Progress {
    size_t begun = 0, done = 0;
  };
  virtual Progress progress() = 0;
  // Ends what runs, and the link for good. False where the device did not let go of the memory of
  // its parts within the time: it may be read and written as long as the process lives.
  virtual bool abort(double seconds) noexcept = 0;
  // Null where runs of ranks on this link cannot be recorded.
  virtual LinkedPeers* peers() { return nullptr; }
};

// A link whose exchanges become part of a recording: a stream that records is given them, and ranks
// wait for each other by words in memory instead of events. Once the recording is made the link
// runs it, and says by progress() how far it is.
class RecordingLink : public DeviceLink {
 public:
  // Before anything is recorded: where parts land that others push, in the order in which they are
  // sent. Nobody else uses that memory while a recording runs, but for who awaits the parts.
  virtual void land(std::span<const LinkPart> parts) = 0;
  // Where the parts land that this rank pushes, in order; none: not all ranks have said so yet.
  // Throws as start().
  virtual std::optional<std::vector<std::byte*>> landings(std::span<const LinkPart> sent) = 0;
  // DeviceSession::record() of a session's work and of this link's exchanges among it.
  virtual std::unique_ptr<Recording> record(const std::function<void(void* stream)>& work) = 0;
  // What is given to the returned stream comes behind this exchange, which was given, and behind
  // what exchanges beside come behind; until join() it runs beside what the recording stream is
  // given, before blocks of kernels there that have not started yet. Throws as start().
  virtual void* beside(size_t exchange) = 0;
  // What the recording stream is given from now on comes behind all of that.
  virtual void join() = 0;
  // The session's own stream is given the recording. All ranks run theirs. Throws as start().
  virtual void run(Recording& recording) = 0;
};

// The ranks of a link where all are of one process, on devices that reach each other's memory:
// their runs may be recorded, where all ranks record the same ones.
class LinkedPeers {
 public:
  virtual ~LinkedPeers() = default;
  // Before each of its runs a rank says something, and then learns what every rank has said.
  virtual void say(uint64_t what) = 0;
  virtual std::optional<std::vector<uint64_t>> said() = 0;  // none: not all have
  // For a recording of that run, which sends at most so many parts. Throws Failure (run).
  virtual std::unique_ptr<RecordingLink> recording(size_t parts) = 0;
  // This rank cannot record that run: is_given() of the others' recordings throws from now on.
  virtual void refuse() = 0;
};

// What ranks tell each other before they make a link.
struct LinkOffer {
  int32_t version = 0;                // of the library that links devices; 0: there is none
  int32_t ordinal = -1;               // of the GPU in its process; -1: none
  uint64_t machine = 0, process = 0;  // which, as digests
  uint64_t device = 0;                // of the machine
  uint64_t own_memory = 0;  // 1: the session's memory is of a pool that other GPUs can be let into
};
using LinkId = std::array<char, 128>;

// Of one session, which outlives it. Work is given to the session's own stream, where none is
// named. Functions throw Failure of stage run.
class RankDevice {
 public:
  virtual ~RankDevice() = default;
  virtual void copy(const RowCopy& rows, void* stream = nullptr) = 0;
  virtual void clear(void* memory, size_t bytes, void* stream = nullptr) = 0;
  // To page-locked memory; returns at once.
  virtual void copy_to_host(void* host, const void* device, size_t bytes) = 0;
  virtual size_t memory_bytes() = 0;                 // of the device, used and free
  virtual void* take_host_memory(size_t bytes) = 0;  // page-locked
  virtual void give_back_host_memory(void* memory) noexcept = 0;

  // `why`: why there is no library.
  virtual LinkOffer offer(std::string& why) = 0;
  // Names a link that all ranks then make with it.
  virtual LinkId new_link() = 0;
  // This rank's end, which is_given() says is made. `offers`: of all ranks. The session's memory is
  // opened to the GPUs of other ranks in this process.
  virtual std::unique_ptr<DeviceLink> link(const LinkId& id, size_t rank,
                                           std::span<const LinkOffer> offers) = 0;
  // Whether a link may send this memory where it is: that of another owner may be closed to the
  // GPUs of this process's other ranks.
  virtual bool may_send(const void* memory) = 0;
};

}  // namespace tile
