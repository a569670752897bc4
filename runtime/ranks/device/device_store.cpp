#include "runtime/ranks/device/device_store.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/ir/analysis/uses.h"
#include "core/ir/ranks/reduce_part.h"
#include "runtime/engine/launch/strided_copy.h"
#include "runtime/ranks/device/combine_nest.h"

namespace tile {
namespace {

constexpr size_t kAlignment = 256;  // of memory for a segment's temporaries
// A sort is many kernels: before one the stream is to hold nothing that may wait.
constexpr size_t kSortKernels = 512;

size_t rounded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

size_t kernels_of(const Executable& executable) {
  size_t kernels = executable.copies.size() + executable.densified.size();
  for (const Launch& launch : executable.launches) {
    kernels += launch.code ? launch.code->kernels() : kSortKernels;
  }
  return kernels;
}

// Whether all parts begin at multiples of what a thread loads at once: those of the rank itself may
// lie where they are sent from.
bool are_aligned(const RankMemory::Moved& moved) {
  return std::all_of(moved.sends.begin(), moved.sends.end(), [](const RankMemory::Part& part) {
    return !part.in_tensor || part.offset % kTensorAlignment == 0;
  });
}

// What is in the boxes and not in this one.
std::vector<Box> without(const std::vector<Box>& boxes, const Box& box) {
  std::vector<Box> left;
  for (const Box& one : boxes) {
    for (Box& rest : difference(one, box)) {
      if (!rest.empty()) left.push_back(std::move(rest));
    }
  }
  return left;
}

LinkCollective linked(const Collective& collective, DType type, const RankStore::Moved& what) {
  LinkCollective linked;
  linked.kind = collective.kind;
  linked.type = type;
  linked.elements = collective.elements;
  bool gathers = collective.kind == LinkCollective::Kind::all_gather;
  linked.from = gathers ? what.sent[0].data : what.source;
  linked.to = what.result;
  return linked;
}

// Whether pieces that are given one after the other are of one source, whose memory stays as it is
// until the last of them ends.
bool are_a_group(const Exchange& one, const Exchange& next) {
  return one.piece && next.piece && one.source == next.source;
}

}  // namespace

DevicePlan::DevicePlan(const RankExecutable& of) : of_(of) {
  const BoundProgram& program = of.program().program;
  for (size_t e = 0; e < of.program().exchanges.size(); ++e) {
    const Exchange& what = of.program().exchanges[e].what;
    steps_.push_back(steps_of(what, of.memory().exchanges[e]));
    TensorId source = storage_of(program, what.source);
    if (program.tensors[source].constant) upload(source);
  }
  for (TensorId id : program.outputs) {
    TensorId storage = storage_of(program, id);
    if (program.tensors[storage].constant) upload(storage);
  }
  for (const auto& executable : of.executables()) kernels_.push_back(kernels_of(*executable));
  bool behind_exchange = false;
  for (const SegmentStep& step : of.segmented().steps) {
    bool is_segment = step.kind == SegmentStep::Kind::segment;
    if (is_segment) {
      const Executable& executable = *of.executables()[step.number];
      size_t bytes = rounded(executable.arena_bytes + executable.workspace_bytes);
      workspace_bytes_ = std::max(workspace_bytes_, bytes);
      if (behind_exchange) side_bytes_ = std::max(side_bytes_, bytes);
    }
    behind_exchange = step.kind == SegmentStep::Kind::end || (is_segment && behind_exchange);
  }
  arena_bytes_ = rounded(of.memory().bytes);
  for (const RankMemory::Moved& moved : of.memory().exchanges) {
    size_t bytes = 0;
    for (const auto* parts : {&moved.sends, &moved.receives}) {
      for (const RankMemory::Part& part : *parts) bytes += rounded(part.bytes);
    }
    staging_bytes_ = std::max(staging_bytes_, bytes);
  }
}

void DevicePlan::upload(TensorId id) {
  const BoundTensor& tensor = of_.program().program.tensors[id];
  std::shared_ptr<const DeviceMemory>& memory = constants_[id.index()];
  if (memory) return;
  TensorView copy,
      view{const_cast<std::byte*>(tensor.constant->data()), tensor.type, tensor.shape, {}};
  memory = device_copy(*of_.engine()->session(), view, copy);
}

std::shared_ptr<const Code> DevicePlan::combining(const Exchange& what, const Step& step,
                                                  bool aligned) const {
  const BoundTensor& result = of_.program().program.tensors[what.result];
  Combination how{result.type, operation_of(*what.reduction), step.levels,
                  element_count(result.shape), what.receives[step.part].box.count()};
  how.of_two = step.first.has_value();
  how.aligned = aligned;
  return of_.engine()->kernels().get(combine_nest(how), of_.engine()->target());
}

std::vector<DevicePlan::Step> DevicePlan::steps_of(const Exchange& what,
                                                   const RankMemory::Moved& moved) const {
  const Shape& shape = of_.program().program.tensors[what.result].shape;
  bool aligned = are_aligned(moved);
  std::vector<Step> steps;
  auto add = [&](size_t part, const Box& box, std::optional<size_t> first, bool combines) {
    Step& step = steps.emplace_back();
    step.part = part;
    step.levels = levels_of(shape, what.receives[part].box, box);
    step.first = first;
    if (combines) step.combines = combining(what, step, aligned);
  };
  std::vector<Box> covered;  // share no cell
  for (size_t i = 0; i < what.receives.size(); ++i) {
    const Box& part = what.receives[i].box;
    if (part.empty()) continue;
    bool two = what.reduction && covered.empty() && i + 1 < what.receives.size() &&
               what.receives[i + 1].box == part;
    if (two) {
      add(i + 1, part, i, true);
      ++i;
    } else if (what.reduction) {
      std::vector<Box> fresh{part};
      for (const Box& before : covered) {
        Box both = intersection(part, before);
        if (both.empty()) continue;
        add(i, both, std::nullopt, true);
        fresh = without(fresh, before);
      }
      for (const Box& box : fresh) add(i, box, std::nullopt, false);
    } else {
      add(i, part, std::nullopt, false);
    }
    add_disjoint(covered, part);
  }
  return steps;
}

DeviceStore::DeviceStore(const RankExecutable& of, const DevicePlan& plan, Transport& transport,
                         std::shared_ptr<DeviceEnd> end, const RecordedRun& recorded)
    : of_(of),
      plan_(plan),
      transport_(transport),
      end_(std::move(end)),
      recorded_(recorded),
      arena_(recorded.memory),
      exchanges_(transport, *end_, recorded.link),
      sides_(of.program(), recorded.link) {
  if (arena_ == nullptr) {
    memory_ = std::make_unique<DeviceMemory>(session(), plan.bytes(), nullptr);
    arena_ = memory_->data();
  }
  if (end_->link() == nullptr) end_->staging(plan.staging_bytes());
}

std::byte* DeviceStore::temporary(size_t bytes) {
  temporaries_.push_back(
      std::make_unique<DeviceMemory>(session(), std::max<size_t>(bytes, 1), nullptr));
  return temporaries_.back()->data();
}

std::byte* DeviceStore::bring_in(const TensorView& input) {
  if (end_->takes_in_place(input)) return static_cast<std::byte*>(input.data);
  size_t bytes = byte_count(input);
  std::byte* memory = temporary(bytes);
  if (input.memory == Memory::device) {
    session().copy(memory, input.data, bytes, nullptr);
  } else {
    session().copy_in(memory, input.data, bytes, nullptr);
  }
  return memory;
}

std::byte* DeviceStore::make_room(const TensorView& output) {
  if (end_->takes_in_place(output)) return static_cast<std::byte*>(output.data);
  outputs_.push_back({output, temporary(byte_count(output))});
  return outputs_.back().data;
}

void DeviceStore::copy(std::byte* to, const std::byte* from, size_t bytes) {
  sides_.join();
  session().copy(to, from, bytes, recorded_.stream);
}

void DeviceStore::run_segment(size_t segment, std::vector<TensorView> inputs,
                              std::vector<TensorView> outputs) {
  exchanges_.before_kernels(plan_.kernels(segment));
  for (auto* views : {&inputs, &outputs}) {
    for (TensorView& view : *views) {
      view.memory = Memory::device;
      view.device = end_->engine().ordinal();
    }
  }
  const Segment& tensors = of_.segmented().segments[segment];
  std::vector<SideSegments::Use> uses;
  auto use = [&](TensorId id, const TensorView& view, bool written) {
    uses.push_back({storage_of(of_.program().program, id), view, written});
  };
  for (size_t i = 0; i < inputs.size(); ++i) use(tensors.inputs[i], inputs[i], false);
  for (size_t o = 0; o < outputs.size(); ++o) use(tensors.outputs[o], outputs[o], true);
  void* beside = sides_.stream_for(std::move(uses));
  RunOptions options;
  options.memory = arena_ + (beside != nullptr ? plan_.side_workspace() : plan_.workspace());
  options.stream = beside != nullptr ? beside : recorded_.stream;
  tile::run(*of_.executables()[segment], inputs, outputs, options);
  give_waiting();
  exchanges_.look();
}

bool DeviceStore::Given::is_nothing() const {
  auto moves = [](const LinkPart& part) { return part.bytes != 0; };
  bool parts = std::ranges::any_of(sent, moves) || std::ranges::any_of(received, moves);
  return !collective && !parts && packs.empty() && unpacks.empty();
}

void DeviceStore::add_pack(Given& given, const Moved& what, const Moved::Packed& part) const {
  const Exchange& exchange = of_.program().exchanges[given.exchange].what;
  const BoundTensor& tensor = of_.program().program.tensors[exchange.source];
  const Box& box = exchange.sends[part.part].box;
  if (box.empty()) return;
  BoxLevels levels = levels_of(tensor.shape, box, box);
  for (const RowCopy& rows :
       copies_to_part(levels, byte_size(tensor.type), what.source, part.data)) {
    given.packs.push_back(rows);
  }
}

// What the rank gives itself, and what others have given.
void DeviceStore::add_unpacks(Given& given, const Moved& what) const {
  const Exchange& exchange = of_.program().exchanges[given.exchange].what;
  size_t width = byte_size(of_.program().program.tensors[exchange.result].type);
  auto add = [&](const BoxLevels& levels, const std::byte* from) {
    for (const RowCopy& rows : copies_to_tensor(levels, width, from, what.result)) {
      given.unpacks.push_back(rows);
    }
  };
  for (const BoxLevels& levels : of_.own_copies(given.exchange)) add(levels, what.source);
  for (const DevicePlan::Step& step : plan_.steps(given.exchange)) {
    if (const std::byte* part = what.arrived[step.part]) add(step.levels, part);
  }
}

DeviceStore::Given DeviceStore::given(size_t exchange, const Moved& what) const {
  Given given;
  given.exchange = exchange;
  std::optional<Collective> collective = collective_of(exchange);
  if (collective) {
    const Exchange& program = of_.program().exchanges[exchange].what;
    DType type = of_.program().program.tensors[program.source].type;
    given.collective = linked(*collective, type, what);
  }
  for (const Moved::Packed& part : what.packed) {
    // A collective takes one part, or the tensor itself.
    if (!collective || part.data == given.collective->from) add_pack(given, what, part);
  }
  if (collective) return given;
  given.sent = what.sent;
  given.received = what.received;
  if (!of_.program().exchanges[exchange].what.reduction) add_unpacks(given, what);
  return given;
}

void DeviceStore::begin(size_t exchange, Moved what) {
  if (recorded_.pushes(exchange)) recorded_.landings->redirect(exchange, what);
  Given now = given(exchange, what);
  if (of_.program().exchanges[exchange].what.reduction && !now.collective) {
    begun_[exchange] = std::move(what);
  }
  if (end_->link() != nullptr && now.is_nothing() && !end_->is_dead()) return;
  if (travels(exchange)) {
    sides_.mark();
    exchanges_.mark(of_.program().exchanges[exchange].what.span);
    waiting_.push_back(std::move(now));
  } else {
    give_waiting();
    sides_.join();
    waiting_.push_back(std::move(now));
    give_waiting();
  }
}

void DeviceStore::give(const Given& given) {
  const Exchange& what = of_.program().exchanges[given.exchange].what;
  const std::string& name = of_.names()[given.exchange];
  LinkLane lane = travels(given.exchange) ? LinkLane::beside : LinkLane::in_line;
  exchanges_.before_kernels(given.packs.size() + given.unpacks.size());
  std::optional<size_t> number;
  if (given.collective) {
    LinkCollective collective = *given.collective;
    collective.packs = given.packs;
    number = exchanges_.exchange(collective, lane, name, what.span);
  } else {
    LinkExchange parts{given.packs, given.sent, given.received, given.unpacks};
    LinkManner how{lane, what.piece, recorded_.pushes(given.exchange), given.more};
    number = exchanges_.exchange(parts, how, name, what.span);
  }
  if (number && lane == LinkLane::beside) beside_[given.exchange] = *number;
}

void DeviceStore::give_waiting() {
  std::vector<Given> all = std::exchange(waiting_, {});
  std::set<size_t> later;  // ranks to which the group sends something behind
  for (size_t i = all.size(); i-- > 0;) {
    // What is packed does not stay.
    all[i].more = i + 1 < all.size() && all[i].packs.empty() && all[i + 1].packs.empty() &&
                  are_a_group(of_.program().exchanges[all[i].exchange].what,
                              of_.program().exchanges[all[i + 1].exchange].what);
    if (!all[i].more) later.clear();
    for (size_t part = all[i].sent.size(); part-- > 0;) {
      LinkPart& sent = all[i].sent[part];
      if (sent.bytes != 0) sent.more = !later.insert(sent.rank).second;
    }
  }
  for (const Given& given : all) give(given);
}

void DeviceStore::end(size_t exchange) {
  give_waiting();
  const Exchange& what = of_.program().exchanges[exchange].what;
  auto begun = begun_.find(exchange);
  auto beside = beside_.find(exchange);
  if (beside != beside_.end()) {
    // What waits for a piece is the next part of a large product, not the end of a small one.
    bool may_wait = begun == begun_.end() && !what.piece;
    exchanges_.settle();
    if (!may_wait || !sides_.await(beside->second)) exchanges_.await(beside->second, what.span);
  }
  if (begun != begun_.end()) combine(exchange, begun->second);
}

void DeviceStore::combine(size_t exchange, const Moved& what) {
  const Exchange& program = of_.program().exchanges[exchange].what;
  size_t width = byte_size(of_.program().program.tensors[program.result].type);
  LaunchOptions launching;
  launching.session = &session();
  launching.stream = recorded_.stream;
  sides_.join();
  for (const DevicePlan::Step& step : plan_.steps(exchange)) {
    const std::byte* part = what.arrived[step.part];
    if (part == nullptr) continue;
    if (step.combines) {
      exchanges_.before_kernels(1);
      std::vector<void*> arguments{what.result};
      if (step.first) arguments.push_back(const_cast<std::byte*>(what.arrived[*step.first]));
      arguments.push_back(const_cast<std::byte*>(part));
      end_->engine().backend().launch(*step.combines, arguments, {}, launching);
      continue;
    }
    std::vector<RowCopy> copies = copies_to_tensor(step.levels, width, part, what.result);
    exchanges_.before_kernels(copies.size());
    for (const RowCopy& copy : copies) end_->device().copy(copy, recorded_.stream);
  }
}

std::vector<DeviceExchanges::Named> DeviceStore::end_of_recording() {
  give_waiting();
  exchanges_.settle();
  sides_.join();
  return exchanges_.started();
}

void DeviceStore::finish() {
  give_waiting();
  exchanges_.finish();
  for (const Output& output : outputs_) {
    size_t bytes = byte_count(output.view);
    if (output.view.memory == Memory::device) {
      session().copy(output.view.data, output.data, bytes, nullptr);
    } else {
      session().copy_out(output.view.data, output.data, bytes, nullptr);
    }
  }
  session().synchronize(nullptr);
}

bool DeviceStore::let_go() noexcept {
  bool quiet = end_->abort();
  return quiet && !transport_.in_flight();
}

}  // namespace tile
