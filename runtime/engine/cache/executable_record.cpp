#include "runtime/engine/cache/executable_record.h"

#include <algorithm>

#include "core/passes/bind/bind.h"
#include "core/support/checked.h"
#include "runtime/engine/cache/byte_stream.h"
#include "runtime/engine/constants.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/memory_plan.h"
#include "runtime/engine/launch/verify_launches.h"
#include "runtime/engine/steps/loop_run.h"
#include "runtime/engine/steps/steps_in_blocks.h"

namespace tile {
namespace {

constexpr int64_t kFormat = 8;
constexpr int kMostNested = 64;  // loops in each other

// How a launch is kept.
enum class LaunchKind : uint8_t { code, sort, loop };

// Tensors, inputs and outputs of a program; its statements are not needed to run it.
void write(ByteWriter& out, const BoundProgram& program) {
  out.number(static_cast<int64_t>(program.tensors.size()));
  for (const BoundTensor& t : program.tensors) {
    out.text(t.name);
    out.number(static_cast<int64_t>(t.type));
    out.numbers(t.shape);
    out.number(t.view_of ? t.view_of->number() + 1 : 0);
    out.number(t.constant ? 1 : 0);
    if (t.constant) out.bytes(t.constant->data(), t.constant->size());
  }
  out.numbers(program.inputs);
  out.numbers(program.outputs);
}

size_t byte_count_of(const BoundTensor& t) {
  if (std::ranges::any_of(t.shape, [](int64_t extent) { return extent < 0; })) throw Damaged{};
  try {
    auto bytes = static_cast<int64_t>(byte_size(t.type));
    return static_cast<size_t>(checked_mul(element_count(t.shape), bytes));
  } catch (const Overflow&) {
    throw Damaged{};
  }
}

// Views end at a tensor that is none.
void check_views(const BoundProgram& program) {
  for (const BoundTensor& t : program.tensors) {
    size_t steps = 0;
    for (const BoundTensor* at = &t; at->view_of; ++steps) {
      at = &program.tensors[*at->view_of];
      if (steps > program.tensors.size()) throw Damaged{};
    }
  }
}

BoundProgram read_program(ByteReader& in) {
  BoundProgram program;
  program.tensors.resize(in.count());
  for (TensorId id : program.tensors.ids()) {
    BoundTensor& t = program.tensors.edit(id);
    t.name = in.text();
    t.type = static_cast<DType>(in.count(static_cast<size_t>(DType::f64) + 1));
    t.shape = in.numbers();
    size_t source = in.count(program.tensors.size() + 1);
    if (source > 0) t.view_of = TensorId(source - 1);
    size_t bytes = byte_count_of(t);
    if (in.count(2) == 0) continue;
    std::span<const std::byte> elements = in.bytes();
    if (elements.size() != bytes) throw Damaged{};
    t.constant = std::make_shared<const std::vector<std::byte>>(elements.begin(), elements.end());
  }
  program.inputs = in.ids(program.tensors.size());
  program.outputs = in.ids(program.tensors.size());
  check_views(program);
  return program;
}

void write(ByteWriter& out, const TimeTiles& tiles) {
  out.number(tiles.turns);
  out.number(static_cast<int64_t>(tiles.dimensions.size()));
  for (const TiledDimension& d : tiles.dimensions) {
    for (int64_t n : {d.iterations, d.reach, int64_t{d.wraps}, d.blocks}) out.number(n);
  }
}
TimeTiles read_tiles(ByteReader& in) {
  TimeTiles tiles;
  tiles.turns = in.number();
  tiles.dimensions.resize(in.count());
  for (TiledDimension& d : tiles.dimensions) {
    d.iterations = in.number();
    d.reach = in.number();
    d.wraps = in.count(2) != 0;
    d.blocks = in.number();
  }
  return tiles;
}

void write(ByteWriter& out, const StepsInBlocks& blocks) {
  out.number(blocks.turns);
  out.number(static_cast<int64_t>(blocks.tiles.size()));
  for (const TimeTiles& tiles : blocks.tiles) write(out, tiles);
  out.number(static_cast<int64_t>(blocks.launches.size()));
  for (const LaunchInBlocks& launch : blocks.launches) {
    out.text(launch.key);
    out.number(launch.turn);
  }
}
// They are looked at once they and the step have their code.
std::shared_ptr<const StepsInBlocks> read_blocks(ByteReader& in) {
  auto blocks = std::make_shared<StepsInBlocks>();
  blocks->turns = in.number();
  blocks->tiles.resize(in.count());
  for (TimeTiles& tiles : blocks->tiles) tiles = read_tiles(in);
  blocks->launches.resize(in.count());
  for (LaunchInBlocks& launch : blocks->launches) {
    launch.key = in.text();
    launch.turn = in.number();
  }
  blocks->race = std::make_shared<WayRace>(1 + blocks->tiles.size());
  return blocks;
}

// The step with the types of its inputs before it.
void write(ByteWriter& out, const StepLoop& loop) {
  out.number(loop.trips);
  out.number(static_cast<int64_t>(loop.step->inputs.size()));
  for (const InputLayout& input : loop.step->inputs) {
    out.number(static_cast<int64_t>(input.type.type));
    out.numbers(input.type.shape);
  }
  std::vector<std::byte> step = packed_record(*loop.step);
  out.bytes(step.data(), step.size());
  out.number(loop.blocks ? 1 : 0);
  if (loop.blocks) write(out, *loop.blocks);
}

void unpack(std::span<const std::byte> bytes, Executable& e, int nested);

StepLoop read_loop(ByteReader& in, const Executable& around, int nested) {
  if (nested >= kMostNested) throw Damaged{};
  StepLoop loop;
  loop.trips = in.number();
  if (loop.trips < 1) throw Damaged{};
  auto step = std::make_shared<Executable>();
  step->engine = around.engine;
  step->source = around.source;
  step->inputs.resize(in.count());
  for (InputLayout& input : step->inputs) {
    input.type.type = static_cast<DType>(in.count(static_cast<size_t>(DType::f64) + 1));
    input.type.shape = in.numbers();
  }
  step->defaults.resize(step->inputs.size());
  step->own_code = step->restored = true;
  unpack(in.bytes(), *step, nested + 1);
  if (step->bound.outputs.size() != 1) throw Damaged{};
  loop.step = std::move(step);
  if (in.count(2) != 0) loop.blocks = read_blocks(in);
  return loop;
}

void write(ByteWriter& out, const Launch& launch) {
  out.numbers(launch.arguments);
  out.numbers(std::vector<int64_t>(launch.begins.begin(), launch.begins.end()));
  out.numbers(launch.parameters);
  LaunchKind kind = launch.loop   ? LaunchKind::loop
                    : launch.sort ? LaunchKind::sort
                                  : LaunchKind::code;
  out.number(static_cast<int64_t>(kind));
  if (launch.loop) {
    write(out, *launch.loop);
  } else if (launch.sort) {
    out.number(launch.sort->source);
    out.number(launch.sort->result);
    out.number(launch.sort->axis);
    out.number(launch.sort->indices ? 1 : 0);
  } else {
    out.text(launch.key);
  }
  out.number(static_cast<int64_t>(launch.prepared.size()));
  for (const PrepackedCopy& p : launch.prepared) {
    out.number(p.source);
    out.text(p.key);
    out.number(static_cast<int64_t>(p.bytes));
  }
}

Launch read_launch(ByteReader& in, const Executable& e, int nested) {
  Launch launch;
  size_t tensors = e.program.tensors.size();
  launch.arguments = in.ids(tensors);
  launch.begins.resize(in.count());
  for (size_t& begin : launch.begins) begin = in.size();
  launch.parameters = in.numbers();
  auto kind = static_cast<LaunchKind>(in.count(static_cast<size_t>(LaunchKind::loop) + 1));
  if (kind == LaunchKind::code) {
    launch.key = in.text();
  } else if (kind == LaunchKind::loop) {
    launch.loop = read_loop(in, e, nested);
  } else {
    launch.sort.emplace();
    launch.sort->source = TensorId(in.count(tensors));
    launch.sort->result = TensorId(in.count(tensors));
    launch.sort->axis = in.number();
    launch.sort->indices = in.count(2) != 0;
  }
  launch.prepared.resize(in.count());
  for (PrepackedCopy& p : launch.prepared) {
    p.source = TensorId(in.count(tensors));
    p.key = in.text();
    p.bytes = in.size();
  }
  return launch;
}

}  // namespace

std::vector<std::byte> packed_record(const Executable& e) {
  ByteWriter out;
  out.number(kFormat);
  write(out, e.bound);
  write(out, e.program);
  out.number(static_cast<int64_t>(e.launches.size()));
  for (const Launch& launch : e.launches) write(out, launch);
  for (const Place& place : e.places) {
    out.number(static_cast<int64_t>(place.kind));
    out.number(static_cast<int64_t>(place.at));
  }
  out.number(static_cast<int64_t>(e.copies.size()));
  for (const OutputCopy& copy : e.copies) {
    out.number(copy.from);
    out.number(static_cast<int64_t>(copy.output));
  }
  out.number(static_cast<int64_t>(e.densified.size()));
  for (auto [input, offset] : e.densified) {
    out.number(static_cast<int64_t>(input));
    out.number(static_cast<int64_t>(offset));
  }
  out.number(static_cast<int64_t>(e.donations.size()));
  for (const Donation& pair : e.donations) {
    out.number(static_cast<int64_t>(pair.input));
    out.number(static_cast<int64_t>(pair.output));
  }
  out.number(static_cast<int64_t>(e.arena_bytes));
  out.number(static_cast<int64_t>(e.workspace_bytes));
  return out.take();
}

namespace {

Place read_place(ByteReader& in, const Executable& e) {
  Place place;
  place.kind = static_cast<Place::Kind>(in.count(static_cast<size_t>(Place::Kind::constant) + 1));
  place.at = in.size();
  size_t end = SIZE_MAX;
  if (place.kind == Place::Kind::input) end = e.program.inputs.size();
  if (place.kind == Place::Kind::output) end = e.program.outputs.size();
  if (place.kind == Place::Kind::constant) end = e.program.tensors.size();
  if (place.at >= end) throw Damaged{};
  if (place.kind == Place::Kind::constant && !e.program.tensors[place.at].constant) throw Damaged{};
  return place;
}

// Inputs and outputs are those of the call, and everything in the arena ends within it.
void check_extents(const Executable& e) {
  if (e.program.inputs.size() != e.inputs.size()) throw Damaged{};
  for (size_t i = 0; i < e.inputs.size(); ++i) {
    const BoundTensor& t = e.bound.tensors[e.bound.inputs[i]];
    if (t.type != e.inputs[i].type.type || t.shape != e.inputs[i].type.shape) throw Damaged{};
  }
  if (e.program.outputs.size() != e.bound.outputs.size()) throw Damaged{};
  auto fits = [&](size_t at, size_t bytes) {
    if (at > e.arena_bytes || bytes > e.arena_bytes - at) throw Damaged{};
  };
  for (size_t i = 0; i < e.places.size(); ++i) {
    size_t bytes = byte_count_of(e.program.tensors[i]);
    if (e.places[i].kind == Place::Kind::arena) fits(e.places[i].at, bytes);
  }
  for (auto [input, offset] : e.densified) {
    fits(offset, byte_count_of(e.bound.tensors[e.bound.inputs[input]]));
  }
}

void check_sort(const Sort& sort, const BoundProgram& program) {
  const Shape& shape = program.tensors[sort.source].shape;
  const Shape& result = program.tensors[sort.result].shape;
  bool axis = sort.axis >= 0 && static_cast<size_t>(sort.axis) < shape.size();
  if (!axis || element_count(shape) != element_count(result)) throw Damaged{};
}

void unpack(std::span<const std::byte> bytes, Executable& e, int nested) {
  ByteReader in(bytes);
  if (in.number() != kFormat) throw Damaged{};
  e.bound = read_program(in);
  e.program = read_program(in);
  size_t tensors = e.program.tensors.size(), outputs = e.bound.outputs.size();
  if (e.bound.inputs.size() != e.inputs.size()) throw Damaged{};
  e.launches.resize(in.count());
  for (Launch& launch : e.launches) launch = read_launch(in, e, nested);
  for (size_t i = 0; i < tensors; ++i) e.places.push_back(read_place(in, e));
  for (const Launch& launch : e.launches) {
    for (const PrepackedCopy& p : launch.prepared) {
      const Place& place = e.places[p.source];
      bool constant = place.kind == Place::Kind::input && constant_at(e, place.at) != nullptr;
      if (!constant) throw Damaged{};
    }
  }
  e.copies.resize(in.count());
  for (OutputCopy& copy : e.copies) {
    copy.from = TensorId(in.count(tensors));
    copy.output = in.count(outputs);
  }
  e.densified.resize(in.count());
  for (auto& [input, offset] : e.densified) {
    input = in.count(e.inputs.size());
    offset = in.size();
  }
  e.donations.resize(in.count());
  for (Donation& pair : e.donations) {
    pair.input = in.count(e.inputs.size());
    pair.output = in.count(outputs);
  }
  e.arena_bytes = in.size();
  e.workspace_bytes = in.size();
  if (!in.at_end()) throw Damaged{};
  check_extents(e);
  for (const Launch& launch : e.launches) {
    if (launch.sort) check_sort(*launch.sort, e.program);
    if (launch.loop && !fits_loop(*launch.loop, e.workspace_bytes)) throw Damaged{};
  }
}

// False where a kernel is no longer there.
bool find_codes(const Executable& e, StepLoop& loop) {
  auto blocks = std::make_shared<StepsInBlocks>(*loop.blocks);
  for (LaunchInBlocks& launch : blocks->launches) {
    launch.code = e.engine->kernels().find(launch.key, e.engine->target());
  }
  loop.blocks = blocks;
  return takes_blocks(*loop.step, *blocks);
}
bool find_codes(Executable& e) {
  for (Launch& launch : e.launches) {
    if (launch.sort) continue;
    if (launch.loop) {
      auto step = std::make_shared<Executable>(*launch.loop->step);
      if (!find_codes(*step)) return false;
      step->call = call_plan(*step);
      launch.loop->step = std::move(step);
      if (launch.loop->blocks && !find_codes(e, *launch.loop)) return false;
      continue;
    }
    launch.code = e.engine->kernels().find(launch.key, e.engine->target());
    if (!launch.code) return false;
    for (PrepackedCopy& p : launch.prepared) {
      p.code = e.engine->kernels().find(p.key, e.engine->target());
      if (!p.code) return false;
    }
  }
  return true;
}

// Nobody has written what does not hold together.
bool is_sound(const Executable& e) {
  try {
    verify_launches(e);
    return true;
  } catch (const InternalError& error) {
    e.engine->log(LogLevel::warning,
                  std::string("an executable record was ignored: ") + error.what());
    return false;
  }
}

// What binding reads of a program beside its text.
std::string conditions_of(const Program& program) {
  std::string out;
  for (const Tensor& t : program.tensors) {
    out += t.differentiated ? "d" : "";
    if (t.seed_of) out += "s" + to_string(*t.seed_of);
    out += ",";
  }
  for (const SizeDefinition& d : program.sizes) out += "\n" + d.name + "=" + to_string(d.value);
  for (const SizeCheck& c : program.checks) {
    out += "\n" + to_string(c.left) + "?" + std::to_string(static_cast<int>(c.relation)) + "?" +
           to_string(c.right);
  }
  return out;
}

}  // namespace

bool unpack_record(std::span<const std::byte> bytes, Executable& executable) {
  try {
    unpack(bytes, executable, 0);
    return true;
  } catch (const Damaged&) {
    return false;
  }
}

std::string record_key(Engine& engine, const Program& program,
                       const std::vector<InputLayout>& inputs) {
  if (is_gpu(engine.target()) || !engine.kernels().keeps_records()) return "";
  std::string key =
      "executable " + std::to_string(kFormat) + "\n" + engine.backend().identity() + "\n" +
      to_string(engine.target()) + "\nin " + std::to_string(engine.options().memory_limit) +
      " bytes\ntuned " +
      (engine.options().deterministic ? "never" : engine.kernels().tuning_stamp(engine.target()));
  key += "\nwithout " + engine.skipped_passes();
  for (const InputLayout& i : inputs) {
    key += "\n" + std::string(to_string(i.type.type));
    for (int64_t n : i.type.shape) key += " " + std::to_string(n);
    if (i.type.value) key += " value " + std::to_string(*i.type.value);
    if (!i.strides.empty()) key += " strides";
    for (int64_t n : i.strides) key += " " + std::to_string(n);
    if (i.constant) key += " constant";
  }
  return key + "\n" + conditions_of(program) + "\n" + print(program);
}

bool load_record(Executable& executable, const std::string& key) {
  std::optional<std::vector<std::byte>> bytes = executable.engine->kernels().record(key);
  if (!bytes) return false;
  Executable e = executable;
  if (!unpack_record(*bytes, e)) {
    executable.engine->log(LogLevel::warning, "an executable record was ignored: damaged");
    return false;
  }
  if (!find_codes(e) || !is_sound(e)) return false;
  // Beyond the limit it is compiled, which tells so.
  size_t limit = e.engine->options().memory_limit;
  if (limit != 0 && memory_needed(e) > limit) return false;
  prepare_copies(e);
  e.restored = true;
  e.call = call_plan(e);
  e.own_code = std::all_of(e.launches.begin(), e.launches.end(),
                           [](const Launch& launch) { return launch.parameters.empty(); });
  executable = std::move(e);
  return true;
}

void save_record(const Executable& executable, const std::string& key) {
  executable.engine->kernels().keep_record(key, packed_record(executable));
}

}  // namespace tile
