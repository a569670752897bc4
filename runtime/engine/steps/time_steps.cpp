#include "runtime/engine/steps/time_steps.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>

#include "core/support/failure_in_text.h"
#include "runtime/engine/arguments/argument.h"
#include "runtime/engine/constants.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/device_run.h"
#include "runtime/engine/launch/host_memory.h"
#include "runtime/engine/launch/memory_plan.h"
#include "runtime/engine/launch/shared_memory.h"
#include "runtime/engine/launch/strided_copy.h"
#include "runtime/engine/parameter_ranges.h"
#include "runtime/engine/steps/known_blocks.h"
#include "runtime/engine/steps/trips.h"

namespace tile {
namespace {

// Making blocks of steps takes some hundredths of a second: what is left of a run must be worth it.
constexpr double kWorthBlocksNs = 1e9;
// Steps after which that is asked; the first ones meet memory that nobody has touched.
constexpr uint64_t kTimedSteps = 4;

// What a feed asks of an output: an error of the call, at the output's place in the program's text.
[[noreturn]] void fail_at_output(const Executable& e, size_t output, std::string message,
                                 std::string hint = "") {
  const std::vector<Span>& spans = e.source->output_spans;
  Span where = output < spans.size() ? spans[output] : Span{};
  throw FailureInText({Stage::run, "argument", std::move(message), std::move(hint), where},
                      e.source->source);
}

// Why the output's elements cannot be the next step's input; empty: they can.
std::string mismatch(const InputLayout& input, const BoundTensor& output) {
  const InputType& to = input.type;
  if (to.type != output.type || to.shape != output.shape) {
    return "is " + text_of(output.type, output.shape) + ", which differs from its " +
           text_of(to.type, to.shape);
  }
  if (input.constant) return "cannot be given to a constant input";
  if (to.value) return "cannot be given to an input that sets a size";
  if (!input.strides.empty()) return "is dense, but the input was compiled for other strides";
  return "";
}

// Where the output has a dimension of one element more, as sums of Lift's windows have.
std::string hint_of_mismatch(const InputLayout& input, const BoundTensor& output) {
  Shape longer = input.type.shape;
  longer.push_back(1);
  if (output.shape != longer) return "";
  return "its last dimension is of one element; in Lift At(0) takes out what Reduce leaves: Map(w "
         "=> At(0) o Reduce(add, 0.0f) $ w)";
}

// The memory of one output that is fed, for one step after the other.
class Alternating {
 public:
  // `last`: the caller's. With strides of its own only the last step writes it.
  explicit Alternating(const TensorView& last) : last_(last), dense_(last) {
    dense_.strides.clear();
  }
  // How many tensors of its bytes it needs beside the caller's.
  size_t spares(uint64_t steps) const {
    uint64_t most = last_.strides.empty() ? 1 : 2;
    return static_cast<size_t>(std::min(most, steps - 1));
  }
  void give(void* memory) { memory_[given_++] = memory; }
  void* spare() const { return memory_[0]; }

  // Where a step is that so many steps follow.
  TensorView at(uint64_t left) const {
    if (left == 0) return last_;
    TensorView view = dense_;
    bool callers = last_.strides.empty() && left % 2 == 0;
    if (!callers) view.data = memory_[last_.strides.empty() ? 0 : (left - 1) % 2];
    return view;
  }

 private:
  TensorView last_, dense_;
  void* memory_[2] = {};
  size_t given_ = 0;
};

class Steps {
 public:
  Steps(const Executable& e, std::span<const TensorView> inputs,
        std::span<const TensorView> outputs, std::span<const Feed> feeds, const RunOptions& options)
      : e_(e),
        inputs_(inputs.begin(), inputs.end()),
        outputs_(outputs.begin(), outputs.end()),
        first_inputs_(inputs_),
        last_outputs_(outputs_),
        feeds_(feeds),
        options_(options) {
    for (const Feed& feed : feeds) fed_.try_emplace(feed.output, outputs[feed.output]);
  }

  void run(uint64_t steps) {
    std::vector<HostMemory> host;
    std::vector<std::unique_ptr<DeviceMemory>> device;
    DeviceSession* session = e_.engine->session();
    check_room(steps);
    steps_ = steps;
    for (auto& [output, memory] : fed_) {
      size_t bytes = byte_count(outputs_[output]);
      for (size_t i = 0; i < memory.spares(steps); ++i) {
        if (session == nullptr) {
          host.emplace_back(*e_.engine, bytes);
          memory.give(host.back().data());
        } else {
          device.push_back(std::make_unique<DeviceMemory>(*session, bytes, options_.stream));
          memory.give(device.back()->data());
        }
      }
    }
    bool blocks = session == nullptr && allows_blocks();
    uint64_t first = blocks ? run_until_known(session) : 0;
    bool known = false;
    auto found = blocks ? known_blocks(e_, feeds_, known) : nullptr;
    found != nullptr ? run_with_blocks(*found, first) : run_plainly(first, steps - first, session);
  }

 private:
  // Steps first … first + count - 1.
  void run_plainly(uint64_t first, uint64_t count, DeviceSession* session) {
    for (uint64_t left = steps_ - first; count-- > 0;) {
      --left;
      for (auto& [output, memory] : fed_) outputs_[output] = memory.at(left);
      tile::run(e_, inputs_, outputs_, options_);
      for (const Feed& feed : feeds_) inputs_[feed.input] = outputs_[feed.output];
      if (left != 0) between(session);
    }
  }

  // Whether trips could be run out of the order of cells: all is dense and where it is said to be.
  bool allows_blocks() const {
    constexpr auto kMost = uint64_t{1} << 62;
    if (options_.profile != nullptr || steps_ > kMost || !may_have_blocks(e_)) return false;
    // Temporaries of blocks are beside those of single steps.
    if (e_.arena_bytes > 0 && e_.engine->options().memory_limit != 0) return false;
    auto dense = [](const TensorView& t) { return t.strides.empty(); };
    if (!std::all_of(outputs_.begin(), outputs_.end(), dense)) return false;
    return std::none_of(outputs_.begin(), outputs_.end(), [&](const TensorView& output) {
      return std::any_of(inputs_.begin(), inputs_.end(), [&](const TensorView& input) {
        return input.data != nullptr && shares_memory(output, input);
      });
    });
  }

  // Runs some steps, to see whether those that are left are worth making blocks for, unless it is
  // known what there is. Returns how many.
  uint64_t run_until_known(DeviceSession* session) {
    bool known = false;
    known_blocks(e_, feeds_, known);
    if (known || steps_ <= 2 * kTimedSteps) return 0;
    run_plainly(0, kTimedSteps / 2, session);
    auto begin = std::chrono::steady_clock::now();
    run_plainly(kTimedSteps / 2, kTimedSteps / 2, session);
    std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    uint64_t left = steps_ - kTimedSteps;
    double all = took.count() / (kTimedSteps / 2) * static_cast<double>(left);
    if (all > kWorthBlocksNs) make_blocks(e_, feeds_, static_cast<int64_t>(left));
    return kTimedSteps;
  }

  void run_with_blocks(const StepsInBlocks& blocks, uint64_t first) {
    std::vector<void*> tensors, spare(outputs_.size(), nullptr);
    for (const TensorView& t : first_inputs_) tensors.push_back(t.data);
    for (const ConstantInput& c : e_.constants) tensors[c.input] = c.copy.data;
    for (const TensorView& t : last_outputs_) tensors.push_back(t.data);
    for (const auto& [output, memory] : fed_) spare[output] = memory.spare();
    auto steps = static_cast<int64_t>(steps_);
    std::vector<GivenInTime> given = given_in_time(tensors, inputs_.size(), feeds_, spare, steps);
    HostMemory arena(*e_.engine, e_.arena_bytes);
    auto plain = [&](int64_t at, int64_t count) {
      if (at > 0) {
        for (const Feed& feed : feeds_) inputs_[feed.input].data = given[feed.input].at(at);
      }
      run_plainly(static_cast<uint64_t>(at), static_cast<uint64_t>(count), nullptr);
    };
    run_trips({e_, blocks, given, arena.data(), options_.control, plain},
              static_cast<int64_t>(first), steps);
  }

  void check_room(uint64_t steps) const {
    size_t bytes = 0;
    for (const auto& [output, memory] : fed_) {
      bytes += memory.spares(steps) * byte_count(outputs_[output]);
    }
    check_memory_limit(e_, Stage::run, bytes);
  }

  // What a stream has been given is not taken back: it gets one step at a time.
  void between(DeviceSession* session) const {
    if (options_.control == nullptr) return;
    if (session != nullptr) session->synchronize(options_.stream);
    if (options_.control->is_over()) throw options_.control->reason({});
  }

  const Executable& e_;
  std::vector<TensorView> inputs_, outputs_;  // of the next step
  const std::vector<TensorView> first_inputs_, last_outputs_;
  std::span<const Feed> feeds_;
  const RunOptions& options_;
  uint64_t steps_ = 0;
  std::map<size_t, Alternating> fed_;  // by output
};

// Tensors of the host in a device's memory for all steps, and their results back.
class Staged {
 public:
  Staged(const Executable& e, std::span<const TensorView> inputs,
         std::span<const TensorView> outputs, const RunOptions& options)
      : session_(*e.engine->session()),
        ordinal_(e.engine->ordinal()),
        options_(options),
        inputs_(inputs.begin(), inputs.end()),
        outputs_(outputs.begin(), outputs.end()) {
    for (TensorView& view : inputs_) bring_in(view);
    for (TensorView& view : outputs_) make_room(view);
  }

  const std::vector<TensorView>& inputs() const { return inputs_; }
  const std::vector<TensorView>& outputs() const { return outputs_; }

  // Once all steps are given to the stream: what is staged is free when they are done.
  void bring_out(std::span<const TensorView> to) {
    if (copies_.empty() && rooms_.empty()) return;
    for (size_t i = 0; i < to.size(); ++i) {
      size_t bytes = byte_count(to[i]);
      if (to[i].memory == Memory::device || bytes == 0) continue;
      if (to[i].strides.empty()) {
        session_.copy_out(to[i].data, outputs_[i].data, bytes, options_.stream);
        continue;
      }
      std::vector<std::byte> dense(bytes);
      session_.copy_out(dense.data(), outputs_[i].data, bytes, options_.stream);
      copy_from_dense(dense.data(), to[i]);
    }
    session_.synchronize(options_.stream);
  }

 private:
  void bring_in(TensorView& view) {
    // A constant is left out, or its copy is on the device.
    if (view.memory == Memory::device || view.data == nullptr) return;
    TensorView from = view;
    copies_.push_back(device_copy(session_, from, view));
    view.memory = Memory::device;
    view.device = ordinal_;
  }
  void make_room(TensorView& view) {
    if (view.memory == Memory::device) return;
    rooms_.push_back(std::make_unique<DeviceMemory>(session_, byte_count(view), options_.stream));
    view.data = rooms_.back()->data();
    view.strides.clear();
    view.memory = Memory::device;
    view.device = ordinal_;
  }

  DeviceSession& session_;
  int ordinal_;
  const RunOptions& options_;
  std::vector<TensorView> inputs_, outputs_;
  std::vector<std::shared_ptr<const DeviceMemory>> copies_;
  std::vector<std::unique_ptr<DeviceMemory>> rooms_;
};

// Inputs that are fed are read by the first step alone: a run of it says what is allowed there.
void check_overlaps(const Executable& e, std::span<const TensorView> inputs,
                    std::span<const TensorView> outputs, std::span<const Feed> feeds) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool fed = std::any_of(feeds.begin(), feeds.end(), [&](const Feed& f) { return f.input == i; });
    if (fed || constant_at(e, i) != nullptr) continue;
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (!shares_memory(outputs[o], inputs[i])) continue;
      fail(Stage::run, "overlap", {},
           text_of(output_of(e.bound, o)) + " overlaps " + text_of(input_of(e.bound, i)) +
               ", which every step reads",
           "give " + e.output(o).name + " memory of its own");
    }
  }
}

// The host's copy of a tensor's elements.
std::vector<std::byte> elements_of(const Executable& e, const TensorView& view, void* stream) {
  std::vector<std::byte> dense(byte_count(view));
  if (view.memory == Memory::device) {
    e.engine->session()->copy_out(dense.data(), view.data, dense.size(), stream);
  } else {
    copy_to_dense(view, dense.data());
  }
  return dense;
}

// No step: the outputs are the inputs that they feed.
void copy_inputs(const Executable& e, std::span<const TensorView> inputs,
                 std::span<const TensorView> outputs, std::span<const Feed> feeds, void* stream) {
  for (size_t o = 0; o < outputs.size(); ++o) {
    auto feed =
        std::find_if(feeds.begin(), feeds.end(), [&](const Feed& f) { return f.output == o; });
    if (feed == feeds.end()) {
      fail_at_output(e, o,
                     "no steps leave " + text_of(output_of(e.bound, o)) +
                         ", which feeds no input, without a value");
    }
    if (byte_count(outputs[o]) == 0) continue;
    std::vector<std::byte> dense = elements_of(e, inputs[feed->input], stream);
    if (outputs[o].memory == Memory::host) {
      copy_from_dense(dense.data(), outputs[o]);
    } else {
      e.engine->session()->copy_in(outputs[o].data, dense.data(), dense.size(), stream);
    }
  }
}

}  // namespace

void check_feeds(const Executable& e, std::span<const Feed> feeds) {
  std::map<size_t, size_t> known;  // outputs by the inputs that they feed
  for (const Feed& feed : feeds) {
    if (feed.output >= e.bound.outputs.size() || feed.input >= e.inputs.size()) {
      fail(Stage::run, "argument", {},
           "a feed from output " + std::to_string(feed.output) + " to input " +
               std::to_string(feed.input) + "; the program has " +
               std::to_string(e.bound.outputs.size()) + " outputs and " +
               std::to_string(e.inputs.size()) + " inputs");
    }
    std::string output = text_of(output_of(e.bound, feed.output));
    std::string input = text_of(input_of(e.bound, feed.input));
    auto [first, fresh] = known.emplace(feed.input, feed.output);
    if (!fresh) {
      fail_at_output(e, feed.output,
                     input + " is fed twice: by " + text_of(output_of(e.bound, first->second)) +
                         " and " + output);
    }
    std::string why = mismatch(e.inputs[feed.input], e.output(feed.output));
    if (why.empty()) continue;
    fail_at_output(e, feed.output, output + " cannot feed " + input + ": it " + why,
                   hint_of_mismatch(e.inputs[feed.input], e.output(feed.output)));
  }
}

void run_steps(const Executable& e, std::span<const TensorView> inputs,
               std::span<const TensorView> outputs, std::span<const Feed> feeds, uint64_t steps,
               const RunOptions& options) {
  if (e.ranges) e.ranges->look_at(*e.engine, inputs);
  if (steps == 0) return copy_inputs(e, inputs, outputs, feeds, options.stream);
  if (steps > 1) check_overlaps(e, inputs, outputs, feeds);
  if (e.engine->session() == nullptr) return Steps(e, inputs, outputs, feeds, options).run(steps);
  Staged staged(e, inputs, outputs, options);
  Steps(e, staged.inputs(), staged.outputs(), feeds, options).run(steps);
  staged.bring_out(outputs);
}

}  // namespace tile
