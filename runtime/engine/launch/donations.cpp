#include "runtime/engine/launch/donations.h"

#include <algorithm>

#include "core/kernel/in_place.h"
#include "runtime/engine/engine.h"

namespace tile {
namespace {

class Pair {
 public:
  Pair(const Executable& e, Donation pair) : e_(e), pair_(pair) {}

  // Every read of the input is before the output's first element is written, or in a kernel that
  // works in place.
  bool is_in_time() const {
    size_t writer = e_.launches.size();
    for (size_t l = 0; l < e_.launches.size(); ++l) {
      const Launch& launch = e_.launches[l];
      std::vector<TensorId> reads = those_at(launch, {Place::Kind::input, pair_.input});
      std::vector<TensorId> writes = those_at(launch, {Place::Kind::output, pair_.output});
      if (!reads.empty() && l > writer) return false;
      if (writes.empty()) continue;
      if (writer == e_.launches.size()) {
        writer = l;
        if (!works(launch, reads, writes)) return false;
      }
    }
    return copies_are_in_time(writer != e_.launches.size());
  }

 private:
  std::vector<TensorId> those_at(const Launch& launch, const Place& place) const {
    std::vector<TensorId> ids;
    for (TensorId id : launch.arguments) {
      const Place& own = e_.places[id];
      if (own.kind == place.kind && own.at == place.at) ids.push_back(id);
    }
    return ids;
  }

  static bool works(const Launch& launch, const std::vector<TensorId>& reads,
                    const std::vector<TensorId>& writes) {
    if (reads.empty()) return true;
    if (!launch.kernel || !launch.begins.empty()) return false;
    return std::all_of(reads.begin(), reads.end(), [&](TensorId read) {
      return std::all_of(writes.begin(), writes.end(), [&](TensorId written) {
        return works_in_place(*launch.kernel, read, written);
      });
    });
  }

  // Outputs that are copies are written behind all launches, one after the other.
  bool copies_are_in_time(bool written) const {
    for (const OutputCopy& copy : e_.copies) {
      const Place& from = e_.places[copy.from];
      bool reads = from.kind == Place::Kind::input && from.at == pair_.input;
      bool itself = copy.output == pair_.output;
      if (reads && !itself && written) return false;
      // An output that is the input stays what it is.
      written = written || (itself && !reads);
    }
    return true;
  }

  const Executable& e_;
  Donation pair_;
};

bool alike(const Executable& e, const Donation& pair) {
  const InputLayout& input = e.inputs[pair.input];
  const BoundTensor& output = e.output(pair.output);
  return input.strides.empty() && !input.constant && !input.type.value &&
         input.type.type == output.type && input.type.shape == output.shape;
}

}  // namespace

std::vector<Donation> donations_of(const Executable& e) {
  std::vector<Donation> list;
  if (is_gpu(e.engine->target())) return list;
  for (size_t input = 0; input < e.inputs.size(); ++input) {
    for (size_t output = 0; output < e.bound.outputs.size(); ++output) {
      Donation pair{input, output};
      if (!alike(e, pair)) continue;
      // The interpreter has copies of its own.
      if (e.engine->is_reference() || Pair(e, pair).is_in_time()) list.push_back(pair);
    }
  }
  return list;
}

bool may_donate(const Executable& e, size_t input, size_t output) {
  Donation pair{input, output};
  return std::find(e.donations.begin(), e.donations.end(), pair) != e.donations.end();
}

}  // namespace tile
