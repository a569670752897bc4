#include "runtime/ranks/device/landings.h"

#include <algorithm>
#include <utility>

namespace tile {
namespace {

constexpr size_t kAlignment = 256;
// A tensor of which others push less than such a part is not kept for it: the part lands elsewhere
// and is copied.
constexpr size_t kLeastShare = 4;

size_t bytes_of(const BoundTensor& t) {
  return static_cast<size_t>(element_count(t.shape)) * byte_size(t.type);
}

}  // namespace

LandingPlan::LandingPlan(const RankExecutable& of) : of_(of) {
  const std::vector<PlacedExchange>& all = of.program().exchanges;
  exchanges_.resize(all.size());
  for (size_t e = 0; e < all.size(); ++e) {
    const Exchange& what = all[e].what;
    auto same = std::ranges::count_if(all, [&](const PlacedExchange& other) {
      return other.what.piece && other.what.source == what.source;
    });
    exchanges_[e].is_pushed = !what.piece || same < 2;
  }
  find_tensors();
  for (size_t e = 0; e < all.size(); ++e) {
    if (!is_pushed(e)) continue;
    add_sent(e);
    add_received(e);
  }
}

size_t LandingPlan::taken(size_t bytes) {
  size_t offset = bytes_;
  bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return offset;
}

void LandingPlan::find_tensors() {
  const RankMemory& memory = of_.memory();
  std::map<TensorId, size_t> landing;  // bytes
  for (size_t e = 0; e < exchanges_.size(); ++e) {
    const Exchange& what = of_.program().exchanges[e].what;
    if (!is_pushed(e)) continue;
    size_t& bytes = landing[of_.place_of(what.result).tensor];
    for (size_t i = 0; i < what.receives.size(); ++i) {
      const RankMemory::Part& part = memory.exchanges[e].receives[i];
      if (part.in_tensor) bytes += part.bytes;
    }
  }
  for (size_t e = 0; e < exchanges_.size(); ++e) {
    TensorId result = of_.place_of(of_.program().exchanges[e].what.result).tensor;
    if (memory.exchanges[e].clears) landing.erase(result);
  }
  for (const RankMemory::Zeros& zeros : memory.zeros) landing.erase(zeros.tensor);
  for (auto [id, bytes] : landing) {
    const BoundTensor& tensor = of_.program().program.tensors[id];
    bool in_arena = memory.places[id] && !tensor.constant;
    if (!in_arena || bytes == 0 || bytes < bytes_of(tensor) / kLeastShare) continue;
    tensors_[id] = taken(bytes_of(tensor));
  }
}

void LandingPlan::add_sent(size_t exchange) {
  const Exchange& what = of_.program().exchanges[exchange].what;
  for (size_t i = 0; i < what.sends.size(); ++i) {
    auto rank = static_cast<size_t>(what.sends[i].rank);
    if (rank == of_.number()) continue;
    size_t bytes = of_.memory().exchanges[exchange].sends[i].bytes;
    exchanges_[exchange].sent.push_back({i, rank, bytes});
  }
}

void LandingPlan::add_received(size_t exchange) {
  const Exchange& what = of_.program().exchanges[exchange].what;
  RankExecutable::PlaceOf result = of_.place_of(what.result);
  auto tensor = tensors_.find(result.tensor);
  for (size_t i = 0; i < what.receives.size(); ++i) {
    auto rank = static_cast<size_t>(what.receives[i].rank);
    if (rank == of_.number()) continue;
    const RankMemory::Part& part = of_.memory().exchanges[exchange].receives[i];
    Received received{i, rank, part.bytes, 0, part.in_tensor && tensor != tensors_.end()};
    received.offset =
        received.in_tensor ? tensor->second + result.offset + part.offset : taken(part.bytes);
    exchanges_[exchange].received.push_back(received);
  }
}

std::vector<LinkPart> LandingPlan::received(std::byte* memory) const {
  std::vector<LinkPart> all;
  for (const Of& exchange : exchanges_) {
    for (const Received& part : exchange.received) {
      all.push_back({part.rank, memory + part.offset, part.bytes});
    }
  }
  return all;
}
std::vector<LinkPart> LandingPlan::sent() const {
  std::vector<LinkPart> all;
  for (const Of& exchange : exchanges_) {
    for (const Sent& part : exchange.sent) all.push_back({part.rank, nullptr, part.bytes});
  }
  return all;
}

Landings::Landings(const LandingPlan& plan, std::byte* memory, std::vector<std::byte*> there)
    : plan_(plan), memory_(memory) {
  auto next = there.begin();
  for (size_t e = 0; next != there.end(); ++e) {
    std::vector<std::byte*>& of = there_.emplace_back();
    for (size_t i = 0; i < plan.sent(e).size(); ++i) of.push_back(*next++);
  }
}

std::byte* Landings::place_of(TensorId id) const {
  auto tensor = plan_.tensors().find(id);
  return tensor == plan_.tensors().end() ? nullptr : memory_ + tensor->second;
}

void Landings::redirect(size_t exchange, RankStore::Moved& what) const {
  const std::vector<LandingPlan::Sent>& sent = plan_.sent(exchange);
  for (size_t i = 0; i < sent.size(); ++i) {
    std::byte* to = there_[exchange][i];
    what.sent[i].to = to;
    for (RankStore::Moved::Packed& packed : what.packed) {
      if (packed.part == sent[i].part) packed.data = what.sent[i].data = to;
    }
  }
  const std::vector<LandingPlan::Received>& received = plan_.received(exchange);
  for (size_t i = 0; i < received.size(); ++i) {
    std::byte* at = memory_ + received[i].offset;
    internal_check(!received[i].in_tensor || received[i].bytes == 0 || what.received[i].data == at,
                   "a part lands where it does not belong");
    what.received[i].data = at;
    if (!received[i].in_tensor && received[i].bytes != 0) what.arrived[received[i].part] = at;
  }
}

}  // namespace tile
