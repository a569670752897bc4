#include "bench/measure/prepared.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <set>

#include "bench/measure/training.h"
#include "runtime/engine/constants.h"

namespace tile::bench {
namespace {

constexpr double kInterpretedPoints = 1 << 23;

// Of the largest magnitude in a result of floats: sums are exact on our data, functions differ in
// their last bits.
constexpr double kTolerance = 5e-5;

}  // namespace

Prepared::Prepared(const std::shared_ptr<Engine>& engine, const Case& c) : case_(c) {
  program_ = load(engine, c);
  std::vector<InputLayout> given = layouts(*program_, c);
  std::vector<std::string> names = input_names(program_->program(), c);
  std::vector<size_t> constants;
  Draw draw(*c.workload);
  for (const InputLayout& layout : given) {
    inputs_.emplace_back(layout.type);
    size_t number = inputs_.size() - 1;
    const std::vector<std::string>& list = c.workload->constants;
    if (std::find(list.begin(), list.end(), names[number]) != list.end()) {
      constants.push_back(number);
    }
    const auto& value = program_->defaults()[number];
    if (value && c.shapes.count(names[number]) == 0) {
      std::memcpy(inputs_.back().data(), value->bytes.data(), value->bytes.size());
    } else {
      Workload::Range range = draw.range(names[number], layout.type.shape);
      auto seed = static_cast<uint32_t>(inputs_.size());
      fill(inputs_.back(), seed, range.low, range.high, range.bits);
    }
  }
  if (c.workload->optimiser) {
    for (const std::string& name : training_step(*c.workload).replaced) {
      auto at = std::find(names.begin(), names.end(), name);
      replaced_.push_back(name.empty() ? std::nullopt : std::optional<size_t>(at - names.begin()));
    }
  }
  if (constants.size() != c.workload->constants.size()) {
    fail(Stage::run, "file", {}, c.name + ": a constant that is no input");
  }
  input_views_ = views(inputs_);
  auto start = std::chrono::steady_clock::now();
  executable_ = constants.empty() ? program_->executable(given)
                                  : program_->executable(std::span(input_views_), constants);
  auto took = std::chrono::steady_clock::now() - start;
  compile_ms_ = std::chrono::duration<double, std::milli>(took).count();
  for (size_t i = 0; i < executable_->bound.outputs.size(); ++i) {
    const BoundTensor& t = executable_->output(i);
    outputs_.emplace_back(InputType{t.type, t.shape});
  }
  output_views_ = views(outputs_);
  if (DeviceSession* session = engine->session()) move_to_device(*session);
  check_tensors(*executable_, input_views_, output_views_);
  if (executable_->restored) executable_ = compile_stages(*executable_);
  work_ = work_of(executable_->bound, engine->target());
}

Prepared::Difference Prepared::differences(const std::vector<Tensor>& got,
                                           const std::vector<Tensor>& expected) const {
  Difference worst;
  double share = case_.workload->share;
  const Program& program = program_->program();
  for (size_t i = 0; i < std::min(expected.size(), got.size()); ++i) {
    std::optional<size_t> before = replaced(i);
    double off = before ? difference_of_change(got[i], expected[i], inputs_[*before])
                        : difference(got[i], expected[i], share);
    if (off <= worst.most) continue;
    worst = {off, program.tensors[program.outputs[i]].name};
  }
  return worst;
}

size_t Prepared::temporary_bytes() const {
  return executable_->arena_bytes + executable_->workspace_bytes;
}

size_t Prepared::distinct_kernels() const {
  std::set<std::string> keys;
  for (const Launch& launch : executable_->launches) {
    if (launch.kernel) keys.insert(launch.key);
  }
  return keys.size();
}

std::vector<std::string> Prepared::schedules() const {
  std::vector<std::string> all;
  for (const Launch& launch : executable_->launches) {
    if (launch.kernel) all.push_back(print(launch.schedule));
  }
  return all;
}

// Copies of the tensors in a device's memory.
struct Prepared::OnDevice {
  explicit OnDevice(DeviceSession& s) : session(s) {}
  ~OnDevice() {
    for (auto [data, bytes] : blocks) session.release(data, bytes, nullptr);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  void place(const Tensor& tensor, TensorView& view) {
    view.data = session.allocate(tensor.bytes(), nullptr);
    view.memory = Memory::device;
    blocks.emplace_back(view.data, tensor.bytes());
    session.copy_in(view.data, tensor.data(), tensor.bytes(), nullptr);
  }

  DeviceSession& session;
  std::vector<std::pair<void*, size_t>> blocks;
};

void Prepared::move_to_device(DeviceSession& session) {
  device_ = std::make_shared<OnDevice>(session);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    bool constant = constant_at(*executable_, i) != nullptr;  // has a copy there
    if (!constant) device_->place(inputs_[i], input_views_[i]);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) device_->place(outputs_[i], output_views_[i]);
}

void Prepared::fetch() {
  if (!device_) return;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    device_->session.copy_out(outputs_[i].data(), output_views_[i].data, outputs_[i].bytes(),
                              nullptr);
  }
}

Calls Prepared::calls() const {
  if (!device_) return timed([this] { run(); });
  return [this](int64_t count) {
    return device_->session.elapsed_ns(nullptr, [&] {
      for (int64_t i = 0; i < count; ++i) run();
    });
  };
}

std::vector<double> Prepared::launch_ns() const {
  // The first warms caches and pages; so many milliseconds are more than other work has a processor
  // at once.
  constexpr int kFewest = 10, kMost = 1000;
  constexpr double kNs = 30e6;
  std::vector<double> least;
  double spent = 0;
  for (int i = 0; i < kFewest || (spent < kNs && i < kMost); ++i) {
    std::vector<double> ns;
    RunOptions options;
    options.profile = &ns;
    tile::run(*executable_, input_views_, output_views_, options);
    if (i <= 1) least = ns;
    spent += std::accumulate(ns.begin(), ns.end(), 0.0);
    for (size_t l = 0; l < least.size(); ++l) least[l] = std::min(least[l], ns[l]);
  }
  return least;
}

double tolerance_of(const Prepared& prepared) {
  double stated = prepared.what().workload->tolerance;
  return is_float(prepared.output().type()) ? std::max(kTolerance, stated) : stated;
}

std::optional<double> difference_from_reference(Prepared& prepared) {
  const Work& work = prepared.work();
  if (!work.counted || work.points > kInterpretedPoints) return std::nullopt;
  EngineOptions options;
  options.backend = "reference";
  Prepared reference(Engine::create(options), prepared.what());
  prepared.run();
  prepared.fetch();
  reference.run();
  return prepared.differences(prepared.outputs(), reference.outputs()).most;
}

}  // namespace tile::bench
