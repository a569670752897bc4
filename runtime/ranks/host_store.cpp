#include "runtime/ranks/host_store.h"

#include <cstring>
#include <utility>

#include "core/ir/ranks/reduce_part.h"
#include "runtime/transport/courier.h"

namespace tile {

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

void HostStore::pack(size_t exchange, size_t i, const std::byte* source, std::byte* part) {
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

void HostStore::begin(size_t exchange, const std::byte*, const std::vector<Part>& sent,
                      const std::vector<Part>& received, std::byte*) {
  std::vector<SentPart> out;
  std::vector<ReceivedPart> in;
  for (const Part& part : sent) out.push_back({part.rank, part.data, part.bytes});
  for (const Part& part : received) in.push_back({part.rank, part.data, part.bytes});
  const std::string& what = of_.names()[exchange];
  if (of_.program().exchanges[exchange].travels()) {
    Courier& courier = transport_.courier();
    travels_ = true;
    courier.begin(std::move(out), std::move(in), what);
  } else {
    located(exchange, [&] { transport_.exchange(out, in, what); });
  }
}

void HostStore::end(size_t exchange) {
  if (!of_.program().exchanges[exchange].travels()) return;
  located(exchange, [&] { transport_.courier().end(); });
}

void HostStore::stop(const std::string& why) noexcept {
  if (travels_) transport_.courier().stop(why);
}

void HostStore::unpack(size_t exchange, const std::vector<const std::byte*>& parts,
                       std::byte* result) {
  const Exchange& what = of_.program().exchanges[exchange].what;
  PartReducer reducer(what, of_.program().program.tensors[what.result]);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] != nullptr) reducer.receive(what.receives[i].box, parts[i], result);
  }
}

}  // namespace tile
