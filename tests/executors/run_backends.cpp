#include "tests/executors/run_backends.h"

#include <algorithm>
#include <map>

#include "core/ir/analysis/uses.h"
#include "core/language/tile/tile.h"
#include "tests/executors/guarded_run.h"

namespace tile::test {
namespace {

constexpr double kUnknownExtent = 4;

// Every storage tensor of a program by its id, as bytes; views share them.
class Memory {
 public:
  Memory(const BoundProgram& program, const std::vector<HostTensor>& inputs) : program_(program) {
    for (size_t i = 0; i < program.tensors.size(); ++i) {
      const BoundTensor& t = program.tensors[i];
      tensors_.emplace_back(t.type, t.shape);
      // What no launch has written shows.
      std::fill(tensors_.back().bytes.begin(), tensors_.back().bytes.end(), std::byte{0x7f});
      if (t.constant) tensors_.back().bytes = *t.constant;
    }
    for (size_t i = 0; i < inputs.size(); ++i) storage(program.inputs[i]).bytes = inputs[i].bytes;
  }
  // The tensor with its own shape and the storage's bytes.
  HostTensor get(TensorId id) {
    const BoundTensor& t = program_.tensors[id];
    HostTensor copy(t.type, t.shape);
    copy.bytes = storage(id).bytes;
    return copy;
  }
  void put(TensorId id, const HostTensor& value) { storage(id).bytes = value.bytes; }

 private:
  HostTensor& storage(TensorId id) { return tensors_[storage_of(program_, id)]; }
  const BoundProgram& program_;
  IdVector<TensorId, HostTensor> tensors_;
};

class Counter {
 public:
  StoreCount count;
  void block(const nest::Block& statements, double times, bool vector) {
    for (const nest::Statement& s : statements) {
      std::visit([&](const auto& what) { statement(what, times, vector); }, s.what);
    }
  }

 private:
  void statement(const nest::For& f, double times, bool vector) {
    double extent = f.extent.is_constant() ? static_cast<double>(f.extent.value()) : kUnknownExtent;
    block(f.body, times * std::max(0.0, extent), vector || f.kind == nest::LoopKind::vector);
  }
  // A tile with two bodies runs the interior one nearly always.
  void statement(const nest::If& i, double times, bool vector) {
    block(i.then, times, vector);
    if (i.then.empty()) block(i.otherwise, times, vector);
  }
  void statement(const nest::Sync&, double, bool) {}
  void statement(const nest::Copy&, double, bool) {}
  void statement(const nest::MatrixTile&, double, bool) {}
  void statement(const nest::MatrixMove&, double, bool) {}
  void statement(const nest::Store&, double times, bool vector) {
    count.all += times;
    if (!vector) count.scalar += times;
  }
  void statement(const nest::Alloc&, double, bool) {}
};

}  // namespace

std::shared_ptr<Engine> test_engine(const std::string& backend, const std::string& features,
                                    int threads) {
  EngineOptions options;
  options.backend = backend;
  options.features = features;
  options.threads = threads;
  options.cache_mode = "off";
  options.strict_skip = true;
  options.compile_seconds = 120;  // of slow builds: results are what is tested
  return Engine::create(std::move(options));
}

std::shared_ptr<LoadedProgram> loaded(const std::shared_ptr<Engine>& engine,
                                      const std::string& text) {
  auto source = std::make_shared<Source>(Source{"random", text});
  return std::make_shared<LoadedProgram>(engine, std::make_shared<Program>(parse_tile(source)));
}

std::shared_ptr<const Executable> compiled(const std::shared_ptr<Engine>& engine,
                                           const RandomCase& drawn) {
  return compiled(engine, drawn, dense_layouts(drawn.types, drawn.inputs));
}
std::shared_ptr<const Executable> compiled(const std::shared_ptr<Engine>& engine,
                                           const RandomCase& drawn, const Laid& laid) {
  return loaded(engine, drawn.text)->executable(laid.layouts);
}

std::vector<TensorView> views_of(const std::vector<HostTensor>& list) {
  std::vector<TensorView> views;
  for (const HostTensor& t : list) {
    views.push_back({const_cast<std::byte*>(t.bytes.data()), t.type, t.shape, {}});
  }
  return views;
}

HostTensor integers(const Shape& shape, int64_t seed) {
  HostTensor t(DType::f32, shape);
  auto* cells = reinterpret_cast<float*>(t.bytes.data());
  for (int64_t i = 0; i < t.count(); ++i) {
    cells[i] = static_cast<float>((i * 7 + i / 13 + seed) % 5 - 2);
  }
  return t;
}

std::vector<HostTensor> run_code(const Executable& e, const std::vector<HostTensor>& inputs) {
  return run_guarded(e, inputs);
}

namespace {

void run_kernel(const Launch& launch, Memory& memory, std::vector<HostTensor>& arguments) {
  std::vector<HostTensor> copies;
  for (const PrepackedCopy& p : launch.prepared) {
    HostTensor source = memory.get(p.source);
    copies.emplace_back(p.nest.buffers[1].type, p.nest.buffers[1].shape);
    nest::interpret(p.nest, {&source, &copies.back()});
  }
  std::vector<HostTensor*> pointers;
  for (HostTensor& t : arguments) pointers.push_back(&t);
  for (HostTensor& t : copies) pointers.push_back(&t);
  nest::interpret(*launch.nest, pointers, launch.parameters);
}

// The arguments are the operands, of which the state is the first, and the result.
void run_loop(const StepLoop& loop, std::vector<HostTensor>& arguments) {
  const BoundProgram& step = loop.step->program;
  std::vector<HostTensor> inputs(arguments.begin(), arguments.end() - 1);
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i].shape = step.tensors[step.inputs[i]].shape;
  for (int64_t trip = 0; trip < loop.trips; ++trip) inputs[0] = run_nests(*loop.step, inputs)[0];
  arguments.back().bytes = inputs[0].bytes;
}

// Whether the launch writes the argument.
bool writes(const Launch& launch, size_t argument) {
  if (launch.sort) return argument == 1;
  if (launch.loop) return argument + 1 == launch.arguments.size();
  return launch.nest->buffers[argument].written;
}

// What a launch is given as its argument: a tensor, or the part that its kernel reads.
HostTensor argument_of(const Launch& launch, size_t i, const HostTensor& whole) {
  if (launch.begins.empty()) return whole;
  const BoundTensor& part = launch.kernel->tensors[launch.arguments[i]];
  if (element_count(part.shape) == whole.count()) return whole;
  HostTensor t(part.type, part.shape);
  std::copy_n(whole.bytes.begin() + static_cast<std::ptrdiff_t>(launch.begins[i]), t.bytes.size(),
              t.bytes.begin());
  return t;
}

}  // namespace

std::vector<HostTensor> run_nests(const Executable& e, const std::vector<HostTensor>& inputs) {
  if (e.restored) return run_nests(*compile_stages(e), inputs);
  Memory memory(e.program, inputs);
  for (const Launch& launch : e.launches) {
    std::vector<HostTensor> arguments;
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      arguments.push_back(argument_of(launch, i, memory.get(launch.arguments[i])));
    }
    if (launch.sort) {
      const BoundTensor& source = e.program.tensors[launch.sort->source];
      e.engine->backend().sort(*launch.sort, source, arguments[0].bytes.data(),
                               arguments[1].bytes.data(), {});
    } else if (launch.loop) {
      run_loop(*launch.loop, arguments);
    } else {
      run_kernel(launch, memory, arguments);
    }
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (writes(launch, i)) memory.put(launch.arguments[i], arguments[i]);
    }
  }
  std::vector<HostTensor> outputs;
  for (TensorId id : e.program.outputs) outputs.push_back(memory.get(id));
  return outputs;
}

StoreCount count_stores(const nest::Nest& nest) {
  Counter counter;
  counter.block(nest.body, 1, false);
  return counter.count;
}

}  // namespace tile::test
