#include "bench/prepared.h"

#include <chrono>

namespace tile::bench {
namespace {

constexpr double kInterpretedPoints = 1 << 23;

}  // namespace

Prepared::Prepared(const std::shared_ptr<Engine>& engine, const Case& c) : case_(c) {
  program_ = load(engine, c);
  std::vector<InputLayout> given = layouts(*program_, c);
  auto start = std::chrono::steady_clock::now();
  executable_ = program_->executable(given);
  auto took = std::chrono::steady_clock::now() - start;
  compile_ms_ = std::chrono::duration<double, std::milli>(took).count();
  for (const InputLayout& layout : given) {
    inputs_.emplace_back(layout.type);
    fill(inputs_.back(), static_cast<uint32_t>(inputs_.size()));
  }
  for (size_t i = 0; i < executable_->bound.outputs.size(); ++i) {
    const BoundTensor& t = executable_->output(i);
    outputs_.emplace_back(InputType{t.type, t.shape});
  }
  input_views_ = views(inputs_);
  output_views_ = views(outputs_);
  check_tensors(*executable_, input_views_, output_views_);
  work_ = work_of(executable_->bound, engine->target());
}

std::optional<double> difference_from_reference(const Prepared& prepared) {
  if (prepared.work().points > kInterpretedPoints) return std::nullopt;
  EngineOptions options;
  options.backend = "reference";
  Prepared reference(Engine::create(options), prepared.what());
  prepared.run();
  reference.run();
  return difference(prepared.output(), reference.output());
}

}  // namespace tile::bench
