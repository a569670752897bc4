#include "runtime/ranks/rank_executable.h"

#include <cstring>
#include <map>

#include "core/ir/analysis/uses.h"
#include "core/ir/ranks/reduce_part.h"
#include "runtime/engine/compile_bound.h"

namespace tile {

RankExecutable::RankExecutable(const std::shared_ptr<Engine>& engine,
                               const std::shared_ptr<const Program>& source, RankProgram rank,
                               std::vector<std::string> names)
    : rank_(std::move(rank)), segments_(segments_of(rank_)), names_(std::move(names)) {
  for (const Segment& segment : segments_) {
    executables_.push_back(segment.empty() ? nullptr
                                           : compile_bound(engine, source, segment.program));
  }
}

// The elements of a run.
class RankExecutable::Run {
 public:
  Run(const RankExecutable& of, Transport& transport, const std::vector<TensorView>& inputs,
      const std::vector<TensorView>& outputs)
      : of_(of),
        program_(of.rank_.program),
        transport_(transport),
        views_(program_.tensors.size()),
        owned_(program_.tensors.size()) {
    for (size_t i = 0; i < inputs.size(); ++i) views_[program_.inputs[i]] = inputs[i];
    // A tensor that is an input too, or an output twice, is copied at the end.
    for (size_t o = 0; o < outputs.size(); ++o) {
      TensorView& view = views_[program_.outputs[o]];
      if (view.data == nullptr) view = outputs[o];
    }
  }

  void run(const std::vector<TensorView>& outputs) {
    for (size_t s = 0; s < of_.segments_.size(); ++s) {
      segment(s);
      if (s < of_.rank_.exchanges.size()) exchange(s);
    }
    for (size_t o = 0; o < outputs.size(); ++o) {
      const TensorView& from = view(program_.outputs[o]);
      if (from.data == outputs[o].data) continue;
      auto bytes = static_cast<size_t>(element_count(from.shape)) * byte_size(from.type);
      if (bytes != 0) std::memcpy(outputs[o].data, from.data, bytes);
    }
  }

 private:
  // Where a tensor's elements are; of one that has none yet new ones, which are zero.
  const TensorView& view(TensorId id) {
    TensorView& view = views_[id];
    if (view.data != nullptr) return view;
    const BoundTensor& tensor = program_.tensors[id];
    owned_[id] = HostTensor(tensor.type, tensor.shape);
    owned_[id].bytes.resize(owned_[id].bytes.size() + 1);  // never without an address
    view = {owned_[id].bytes.data(), tensor.type, tensor.shape, {}};
    if (tensor.constant) std::memcpy(view.data, tensor.constant->data(), tensor.constant->size());
    return view;
  }

  void segment(size_t s) {
    if (!of_.executables_[s]) return;
    const Segment& segment = of_.segments_[s];
    std::vector<TensorView> inputs, outputs;
    for (TensorId id : segment.inputs) inputs.push_back(view(id));
    for (TensorId id : segment.outputs) outputs.push_back(view(id));
    tile::run(*of_.executables_[s], inputs, outputs);
  }

  void exchange(size_t e) {
    const Exchange& what = of_.rank_.exchanges[e].what;
    auto self = static_cast<int64_t>(transport_.rank());
    const BoundTensor& source = program_.tensors[what.source];
    const BoundTensor& result = program_.tensors[what.result];
    size_t width = byte_size(source.type);
    const auto* from = static_cast<const std::byte*>(view(storage_of(program_, what.source)).data);
    std::vector<std::vector<std::byte>> out, in, own;
    std::vector<SentPart> sent;
    for (const Exchange::Part& part : what.sends) {
      std::vector<std::byte> bytes(static_cast<size_t>(part.box.count()) * width);
      copy_out(from, source.shape, part.box, width, bytes.data());
      (part.rank == self ? own : out).push_back(std::move(bytes));
      if (part.rank == self) continue;
      sent.push_back({static_cast<size_t>(part.rank), out.back().data(), out.back().size()});
    }
    std::vector<ReceivedPart> received;
    for (const Exchange::Part& part : what.receives) {
      if (part.rank == self) continue;
      in.emplace_back(static_cast<size_t>(part.box.count()) * width);
      received.push_back({static_cast<size_t>(part.rank), in.back().data(), in.back().size()});
    }
    transport_.exchange(sent, received, of_.names_[e]);
    auto* to = static_cast<std::byte*>(view(what.result).data);
    PartReducer reducer(what, result);
    size_t next = 0, next_own = 0;
    for (const Exchange::Part& part : what.receives) {
      const std::vector<std::byte>& bytes = part.rank == self ? own[next_own++] : in[next++];
      reducer.receive(part.box, bytes.data(), to);
    }
  }

  const RankExecutable& of_;
  const BoundProgram& program_;
  Transport& transport_;
  IdVector<TensorId, TensorView> views_;  // null: not made yet
  IdVector<TensorId, HostTensor> owned_;
};

void RankExecutable::run(Transport& transport, const std::vector<TensorView>& inputs,
                         const std::vector<TensorView>& outputs) const {
  try {
    Run(*this, transport, inputs, outputs).run(outputs);
  } catch (...) {
    transport.abort();
    throw;
  }
}

}  // namespace tile
