// The exchanges of one run on a device: started on its streams, and waited for with an eye on the
// other ranks.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/support/diagnostic.h"
#include "runtime/ranks/device/device_end.h"

namespace tile {

class DeviceExchanges {
 public:
  // An exchange, for errors: what it is, and where in the program's text it belongs.
  struct Named {
    std::string what;
    Span where;
  };
  // Both must outlive this. `recorded`: takes the place of the end's link, for a recording.
  DeviceExchanges(Transport& transport, DeviceEnd& end, RecordingLink* recorded = nullptr)
      : transport_(transport), end_(end), link_(recorded != nullptr ? recorded : end.link()) {}

  // The next exchange beside comes behind what the session's own stream was given until now.
  void mark(Span where);
  // Parts are in the device's memory. What they are sent from may change, and what they are
  // received in is there, for work that the session's own stream is given from now on, or behind
  // await() of the number that is returned: the exchange runs beside that stream then, and the
  // other ranks need not have come to it yet. `where` in the program's text errors belong. Throws
  // Failure (run): "rank" as Transport::exchange does, "nccl"; the link is then to be ended.
  std::optional<size_t> exchange(const LinkExchange& parts, LinkManner how, const std::string& what,
                                 Span where);
  // The same of a link's own, which is there.
  std::optional<size_t> exchange(const LinkCollective& collective, LinkLane lane,
                                 const std::string& what, Span where);
  void await(size_t number, Span where);
  // Gives the device what it can be given meanwhile of an exchange beside: what other ranks have
  // offered since.
  void look();
  // Before the stream is given so many kernels: a stream that holds too many waits, and with it its
  // thread.
  void before_kernels(size_t count);
  // Waits until all exchanges are done.
  void finish();
  // Until the device was given all of what was started.
  void settle();

  // What all ranks say before the run whose first exchange this is, once they have said it.
  std::vector<uint64_t> said_by_all(LinkedPeers& peers, uint64_t own, const Named& first);
  // Where the parts land that this rank pushes in a recording, once all ranks have said so.
  std::vector<std::byte*> landings(std::span<const LinkPart> sent, RecordingLink& link,
                                   const Named& first);
  // The exchanges that a recording has been given.
  const std::vector<Named>& started() const { return started_; }
  // Waits until these ones of a recording that runs are done, and the device with the recording.
  void finish_replay(std::vector<Named> exchanges);

 private:
  size_t started(const std::function<size_t(DeviceLink&)>& start, LinkLane lane,
                 const std::string& what, Span where);
  void staged(const LinkExchange& parts, const std::string& what);
  void copy(std::span<const RowCopy> copies);
  // Until `is_over`; `moves` says whether anything has changed since it was asked.
  void wait(const Named& of, const std::function<bool()>& is_over,
            const std::function<bool()>& moves);
  bool of_link(const Named& of, const std::function<bool()>& question);
  void look_around(const Named& of);
  [[noreturn]] void fail_without_answer(const Named& of);

  Transport& transport_;
  DeviceEnd& end_;
  DeviceLink* link_;                // null: parts go through the host's memory
  std::vector<Named> started_;      // over the link
  std::optional<Named> unsettled_;  // the last of them, until the device was given all of it
  size_t before_ = 0;               // exchanges that the link had done before this run
  size_t queued_ = 0;               // kernels since all exchanges were done
};

}  // namespace tile
