#include "runtime/ranks/device/landings.h"

#include <algorithm>
#include <utility>

#include "core/ir/analysis/uses.h"
#include "runtime/engine/launch/device_run.h"

namespace tile {
namespace {

constexpr size_t kAlignment = 256;
// A tensor of which others push less than such a part is not kept for it: the part lands elsewhere
// and is copied.
constexpr size_t kLeastShare = 4;

size_t bytes_of(const BoundTensor& t) {
  return static_cast<size_t>(element_count(t.shape)) * byte_size(t.type);
}

// Whether one launch, which is no sort and no loop, and nothing else has to do with the output.
bool is_set_once(const Executable& e, size_t output) {
  auto is_it = [&](TensorId id) {
    return e.places[id].kind == Place::Kind::output && e.places[id].at == output;
  };
  size_t uses = 0;
  for (const Launch& launch : e.launches) {
    auto count = static_cast<size_t>(std::ranges::count_if(launch.arguments, is_it));
    if (count != 0 && !launch.code) return false;
    uses += count;
  }
  bool copied = std::ranges::any_of(
      e.copies, [&](const OutputCopy& copy) { return copy.output == output || is_it(copy.from); });
  return uses == 1 && !copied;
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

// Whether one kernel sets the tensor, and only its exchange reads it.
bool LandingPlan::is_made_alone(TensorId id) const {
  const RankProgram& rank = of_.program();
  auto is_it = [&](TensorId other) { return of_.place_of(other).tensor == id; };
  auto of_parts = [&](const PartOfTensor& part) { return part.part == id || part.whole == id; };
  auto of_zeros = [&](const RankMemory::Zeros& zeros) { return zeros.tensor == id; };
  bool in_arena = of_.memory().places[id] && !rank.program.tensors[id].constant;
  if (!in_arena || std::ranges::any_of(rank.parts, of_parts)) return false;
  if (std::ranges::any_of(of_.memory().zeros, of_zeros)) return false;
  size_t sent = 0;
  for (const PlacedExchange& exchange : rank.exchanges) {
    if (is_it(exchange.what.result)) return false;
    if (is_it(exchange.what.source)) ++sent;
  }
  size_t makers = 0;
  for (size_t s = 0; s < of_.executables().size(); ++s) {
    const Segment& segment = of_.segmented().segments[s];
    if (std::ranges::any_of(segment.inputs, is_it)) return false;
    for (size_t o = 0; o < segment.outputs.size(); ++o) {
      if (!is_it(segment.outputs[o])) continue;
      if (!is_set_once(*of_.executables()[s], o)) return false;
      ++makers;
    }
  }
  return sent == 1 && makers == 1;
}

void LandingPlan::add_sent(size_t exchange) {
  const Exchange& what = of_.program().exchanges[exchange].what;
  const BoundProgram& program = of_.program().program;
  TensorId source = storage_of(program, what.source);
  for (size_t i = 0; i < what.sends.size(); ++i) {
    auto rank = static_cast<size_t>(what.sends[i].rank);
    if (rank == of_.number()) continue;
    const RankMemory::Part& part = of_.memory().exchanges[exchange].sends[i];
    bool is_all = what.sends.size() == 1 && part.in_tensor && part.bytes != 0 &&
                  part.bytes == bytes_of(program.tensors[source]);
    Sent& sent = exchanges_[exchange].sent.emplace_back();
    sent = {i, rank, part.bytes, std::nullopt};
    if (is_all && is_made_alone(source)) sent.made = source;
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
    for (const LandingPlan::Sent& part : plan.sent(e)) {
      bool aligned = reinterpret_cast<uintptr_t>(*next) % kTensorAlignment == 0;
      if (part.made && aligned) made_[*part.made] = *next;
      of.push_back(*next++);
    }
  }
}

std::byte* Landings::place_of(TensorId id) const {
  if (auto made = made_.find(id); made != made_.end()) return made->second;
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
