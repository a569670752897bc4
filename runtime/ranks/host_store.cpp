#include "runtime/ranks/host_store.h"

#include <cstring>
#include <utility>

#include "core/ir/ranks/reduce_part.h"
#include "runtime/ranks/box_rows.h"
#include "runtime/transport/courier.h"

namespace tile {
namespace {

void copy_rows(const RowCopy& c) {
  for (size_t s = 0; s < c.rows[0]; ++s) {
    for (size_t r = 0; r < c.rows[1]; ++r) {
      std::memcpy(c.to.first + s * c.to.slice + r * c.to.pitch,
                  c.from.first + s * c.from.slice + r * c.from.pitch, c.width);
    }
  }
}

}  // namespace

std::byte* HostStore::constant(TensorId id) {
  // Segments have constants of their own; exchanges only read them.
  return const_cast<std::byte*>(of_.program().program.tensors[id].constant->data());
}

void HostStore::clear(std::byte* at, size_t bytes) { std::memset(at, 0, bytes); }

void HostStore::copy(std::byte* to, const std::byte* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}

void HostStore::run_segment(size_t segment, std::vector<TensorView> inputs,
                            std::vector<TensorView> outputs) {
  tile::run(*of_.executables()[segment], inputs, outputs);
}

void HostStore::pack(size_t exchange, size_t i, const std::byte* source, std::byte* part) const {
  const Exchange& what = of_.program().exchanges[exchange].what;
  const BoundTensor& tensor = of_.program().program.tensors[what.source];
  copy_out(source, tensor.shape, what.sends[i].box, byte_size(tensor.type), part);
}

// Failures get the place of the statement that the exchange serves.
template <class Work>
void HostStore::located(size_t exchange, const Work& work) const {
  try {
    work();
  } catch (const Failure& failure) {
    Diagnostic located = failure.diagnostic();
    located.span = of_.program().exchanges[exchange].what.span;
    throw Failure(located);
  }
}

void HostStore::begin(size_t exchange, Moved what) {
  std::vector<SentPart> out;
  std::vector<ReceivedPart> in;
  for (const Moved::Packed& part : what.packed) pack(exchange, part.part, what.source, part.data);
  for (const LinkPart& part : what.sent) out.push_back({part.rank, part.data, part.bytes});
  for (const LinkPart& part : what.received) in.push_back({part.rank, part.data, part.bytes});
  const std::string& name = of_.names()[exchange];
  if (of_.program().exchanges[exchange].travels()) {
    Courier& courier = transport_.courier();
    travels_ = true;
    courier.begin(std::move(out), std::move(in), name);
  } else {
    located(exchange, [&] { transport_.exchange(out, in, name); });
  }
  copy_own(exchange, what);
  begun_[exchange] = std::move(what);
}

void HostStore::end(size_t exchange) {
  if (of_.program().exchanges[exchange].travels()) {
    located(exchange, [&] { transport_.courier().end(); });
  }
  unpack(exchange, begun_[exchange]);
  begun_.erase(exchange);
}

void HostStore::copy_own(size_t exchange, const Moved& what) const {
  DType type = of_.program().program.tensors[of_.program().exchanges[exchange].what.result].type;
  for (const BoxLevels& levels : of_.own_copies(exchange)) {
    for (const RowCopy& c : copies_to_tensor(levels, byte_size(type), what.source, what.result)) {
      copy_rows(c);
    }
  }
}

void HostStore::stop(const std::string& why) noexcept {
  if (travels_) transport_.courier().stop(why);
}

void HostStore::unpack(size_t exchange, const Moved& moved) const {
  const Exchange& what = of_.program().exchanges[exchange].what;
  PartReducer reducer(what, of_.program().program.tensors[what.result]);
  for (size_t i = 0; i < moved.arrived.size(); ++i) {
    if (moved.arrived[i] == nullptr) continue;
    reducer.receive(what.receives[i].box, moved.arrived[i], moved.result);
  }
}

}  // namespace tile
