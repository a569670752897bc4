#include "runtime/engine/cache/saved_executable.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "backends/build_identity.h"
#include "runtime/engine/cache/byte_stream.h"
#include "runtime/engine/cache/executable_record.h"
#include "runtime/engine/constants.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/memory_plan.h"
#include "runtime/engine/launch/verify_launches.h"
#include "runtime/engine/steps/loop_run.h"
#include "runtime/engine/steps/steps_in_blocks.h"

namespace tile {
namespace {

constexpr std::string_view kMagic = "TILEEXE1";
constexpr size_t kHead = kMagic.size() + sizeof(XXH64_hash_t);  // the magic, then the checksum

[[noreturn]] void fail_saved(const std::string& why, const std::string& hint = "") {
  fail(Stage::run, "saved", {}, why, hint);
}

void write(ByteWriter& out, DType type, const Shape& shape) {
  out.number(static_cast<int64_t>(type));
  out.numbers(shape);
}
DType read_type(ByteReader& in) {
  return static_cast<DType>(in.count(static_cast<size_t>(DType::f64) + 1));
}

void write(ByteWriter& out, const InputLayout& input) {
  write(out, input.type.type, input.type.shape);
  out.number(input.type.value ? 1 : 0);
  out.number(input.type.value.value_or(0));
  out.numbers(input.strides);
}
InputLayout read_input(ByteReader& in) {
  InputLayout input;
  input.type.type = read_type(in);
  input.type.shape = in.numbers();
  bool valued = in.count(2) != 0;
  int64_t value = in.number();
  if (valued) input.type.value = value;
  input.strides = in.numbers();
  if (!input.strides.empty() && input.strides.size() != input.type.shape.size()) throw Damaged{};
  return input;
}

void write(ByteWriter& out, const std::optional<HostTensor>& given) {
  out.number(given ? 1 : 0);
  if (!given) return;
  write(out, given->type, given->shape);
  out.bytes(given->bytes.data(), given->bytes.size());
}
std::optional<HostTensor> read_default(ByteReader& in) {
  if (in.count(2) == 0) return std::nullopt;
  HostTensor tensor;
  tensor.type = read_type(in);
  tensor.shape = in.numbers();
  std::span<const std::byte> bytes = in.bytes();
  // Defaults are scalars and short vectors.
  constexpr size_t kMost = 1 << 10;
  size_t count = 1;
  for (int64_t extent : tensor.shape) {
    if (extent < 0 || static_cast<size_t>(extent) > kMost) throw Damaged{};
    count *= static_cast<size_t>(extent);
    if (count > kMost) throw Damaged{};
  }
  if (bytes.size() != count * byte_size(tensor.type)) throw Damaged{};
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}

// Codes by numbers, each once, whatever launches use it.
class CodeTable {
 public:
  std::string number_of(const std::shared_ptr<const Code>& code) {
    auto [at, fresh] = numbers_.emplace(code.get(), numbers_.size());
    if (fresh) codes_.push_back(code.get());
    return std::to_string(at->second);
  }
  void write(ByteWriter& out) const {
    out.number(static_cast<int64_t>(codes_.size()));
    for (const Code* code : codes_) out.bytes(code->object().data(), code->object().size());
  }

 private:
  std::map<const Code*, size_t> numbers_;
  std::vector<const Code*> codes_;
};

void write_constants(ByteWriter& out, const Executable& e) {
  out.number(static_cast<int64_t>(e.constants.size()));
  for (const ConstantInput& c : e.constants) {
    out.number(static_cast<int64_t>(c.input));
    out.bytes(c.copy.data, c.host->bytes());
  }
}

void read_constants(ByteReader& in, Executable& e) {
  size_t count = in.count();
  for (size_t i = 0; i < count; ++i) {
    ConstantInput c;
    c.input = in.count(e.inputs.size());
    if (constant_at(e, c.input) != nullptr) throw Damaged{};
    InputLayout& input = e.inputs[c.input];
    input.constant = true;
    std::span<const std::byte> bytes = in.bytes();
    c.copy.type = input.type.type;
    c.copy.shape = input.type.shape;
    size_t expected = byte_size(c.copy.type);
    for (int64_t extent : c.copy.shape) {
      bool fits = extent >= 0 && !__builtin_mul_overflow(expected, extent, &expected);
      if (!fits) throw Damaged{};
    }
    if (bytes.size() != expected || !input.strides.empty()) throw Damaged{};
    c.host = std::make_shared<const ConstantMemory>(e.engine, bytes.size());
    if (!bytes.empty()) std::memcpy(c.host->data(), bytes.data(), bytes.size());
    c.copy.data = c.host->data();
    e.constants.push_back(std::move(c));
  }
}

std::set<std::string> words_with_plus(const std::string& features) {
  std::set<std::string> words;
  for (size_t at = 0; at < features.size();) {
    size_t end = std::min(features.find(' ', at), features.size());
    if (features[at] == '+') words.insert(features.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// Whether the engine's processor has what the code was made for.
void check_target(const Engine& engine, const std::string& features, bool tiles) {
  const Target& host = engine.backend().target();
  std::string name = features.substr(0, features.find(' '));
  if (features == name) {
    engine.backend().target_named(name);  // throws
  } else {
    std::set<std::string> mine = words_with_plus(host.features);
    for (const std::string& word : words_with_plus(features)) {
      if (mine.contains(word)) continue;
      fail(Stage::run, "target", {},
           "the executable was saved for a processor with " + word.substr(1) +
               ", which this one does not have",
           "compile it here, or save it from an engine with fewer features");
    }
  }
  if (tiles && host.tiles.count == 0) {
    fail(Stage::run, "target", {},
         "the executable was saved where tile registers are, which this system does not grant");
  }
}

using CodeOf = std::function<std::shared_ptr<const Code>(const std::string& number)>;
// A loop's blocks with their codes.
std::shared_ptr<const StepsInBlocks> with_codes(const Launch& launch, const CodeOf& code_of) {
  auto blocks = std::make_shared<StepsInBlocks>(*launch.loop->blocks);
  for (LaunchInBlocks& l : blocks->launches) l.code = code_of(l.key);
  if (!takes_blocks(*launch.loop->step, *blocks)) throw Damaged{};
  return blocks;
}

void give_codes(Executable& e, const CodeOf& code_of) {
  for (Launch& launch : e.launches) {
    if (launch.sort) continue;
    if (launch.loop) {
      auto step = std::make_shared<Executable>(*launch.loop->step);
      give_codes(*step, code_of);
      step->saved = true;
      step->call = call_plan(*step);
      launch.loop->step = std::move(step);
      if (launch.loop->blocks) launch.loop->blocks = with_codes(launch, code_of);
      continue;
    }
    launch.code = code_of(launch.key);
    if (launch.code->workspace_bytes() > e.workspace_bytes) throw Damaged{};
    for (PrepackedCopy& p : launch.prepared) p.code = code_of(p.key);
  }
}

void find_codes(Executable& e, ByteReader& in) {
  std::vector<std::shared_ptr<const Code>> codes(in.count());
  for (auto& code : codes) {
    code = e.engine->backend().restore_saved(e.engine->target(), in.bytes());
    if (!code) throw Damaged{};
  }
  auto code_of = [&](const std::string& number) {
    for (size_t i = 0; i < codes.size(); ++i) {
      if (std::to_string(i) == number) return codes[i];
    }
    throw Damaged{};
  };
  give_codes(e, code_of);
}

// What is saved must load: the linker of saved code knows the forms that LLVM gives it so far.
void check_loads(const Engine& engine, const Code& code) {
  if (engine.backend().restore_saved(engine.target(), code.object())) return;
  fail(Stage::run, "unsupported", {}, "the code of this executable cannot be saved",
       "keep the program's text; please report the program");
}

// What depends on the machine: its threads sort in a workspace each.
void fit_workspace(Executable& e) {
  for (Launch& launch : e.launches) {
    if (launch.loop) {
      auto step = std::make_shared<Executable>(*launch.loop->step);
      fit_workspace(*step);
      launch.loop->step = std::move(step);
      e.workspace_bytes = std::max(e.workspace_bytes, loop_workspace(*launch.loop));
    }
    if (!launch.sort) continue;
    const BoundTensor& source = e.program.tensors[launch.sort->source];
    size_t bytes = e.engine->backend().sort_workspace(*launch.sort, source);
    e.workspace_bytes = std::max(e.workspace_bytes, bytes);
  }
}

std::shared_ptr<const Executable> read(const std::shared_ptr<Engine>& engine, ByteReader in) {
  std::string features = in.text();
  bool tiles = in.count(2) != 0;
  check_target(*engine, features, tiles);
  auto e = std::make_shared<Executable>();
  e->engine = engine;
  auto program = std::make_shared<Program>();
  program->source = std::make_shared<Source>(Source{in.text(), ""});
  e->source = program;
  e->inputs.resize(in.count());
  for (InputLayout& input : e->inputs) input = read_input(in);
  for (size_t i = 0; i < e->inputs.size(); ++i) e->defaults.push_back(read_default(in));
  read_constants(in, *e);
  if (!unpack_record(in.bytes(), *e)) throw Damaged{};
  e->bound.source = e->program.source = program->source;
  find_codes(*e, in);
  if (!in.at_end()) throw Damaged{};
  verify_launches(*e);
  fit_workspace(*e);
  check_memory_limit(*e, Stage::run);
  prepare_copies(*e);
  e->restored = e->saved = true;
  e->call = call_plan(*e);
  return e;
}

// Launches name their codes by numbers in the table.
void number_codes(Executable& e, CodeTable& codes) {
  for (Launch& launch : e.launches) {
    if (launch.loop) {
      auto step = std::make_shared<Executable>(*launch.loop->step);
      number_codes(*step, codes);
      launch.loop->step = std::move(step);
      if (!launch.loop->blocks) continue;
      auto blocks = std::make_shared<StepsInBlocks>(*launch.loop->blocks);
      for (LaunchInBlocks& l : blocks->launches) {
        check_loads(*e.engine, *l.code);
        l.key = codes.number_of(l.code);
      }
      launch.loop->blocks = std::move(blocks);
    } else if (!launch.sort) {
      check_loads(*e.engine, *launch.code);
      launch.key = codes.number_of(launch.code);
    }
    for (PrepackedCopy& p : launch.prepared) {
      check_loads(*e.engine, *p.code);
      p.key = codes.number_of(p.code);
    }
  }
}

}  // namespace

std::vector<std::byte> saved_executable(const Executable& executable) {
  const Engine& engine = *executable.engine;
  if (engine.is_reference() || is_gpu(engine.target())) {
    fail(Stage::run, "unsupported", {}, "only executables of the cpu backend can be saved");
  }
  Executable e = executable;
  CodeTable codes;
  number_codes(e, codes);
  ByteWriter out;
  out.text(build_identity());
  out.text(engine.target().features);
  out.number(engine.target().tiles.count > 0 ? 1 : 0);
  out.text(e.source->source ? e.source->source->name : "");
  out.number(static_cast<int64_t>(e.inputs.size()));
  for (const InputLayout& input : e.inputs) write(out, input);
  for (const auto& given : e.defaults) write(out, given);
  write_constants(out, e);
  std::vector<std::byte> record = packed_record(e);
  out.bytes(record.data(), record.size());
  codes.write(out);
  std::vector<std::byte> body = out.take(), all(kHead);
  XXH64_hash_t checksum = XXH3_64bits(body.data(), body.size());
  std::memcpy(all.data(), kMagic.data(), kMagic.size());
  std::memcpy(all.data() + kMagic.size(), &checksum, sizeof checksum);
  all.insert(all.end(), body.begin(), body.end());
  return all;
}

std::shared_ptr<const Executable> loaded_executable(const std::shared_ptr<Engine>& engine,
                                                    std::span<const std::byte> bytes) {
  if (engine->is_reference() || is_gpu(engine->target())) {
    fail(Stage::run, "unsupported", {}, "only engines of the cpu backend load executables");
  }
  if (bytes.size() < kHead || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    fail_saved("these bytes are no saved executable of this version");
  }
  XXH64_hash_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + kMagic.size(), sizeof checksum);
  std::span<const std::byte> body = bytes.subspan(kHead);
  if (XXH3_64bits(body.data(), body.size()) != checksum) {
    fail_saved("the saved executable is damaged", "its checksum does not fit its bytes");
  }
  try {
    ByteReader in(body);
    if (in.text() != build_identity()) {
      fail_saved("the executable was saved by another build of the library",
                 "only the same build loads it: compile and save it again");
    }
    return read(engine, in);
  } catch (const Damaged&) {
    fail_saved("the saved executable is damaged");
  } catch (const InternalError&) {  // launches that do not hold together
    fail_saved("the saved executable is damaged");
  }
}

}  // namespace tile
