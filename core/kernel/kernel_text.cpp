// The text form of kernels: stages and arguments by number, then the statements as a bound program.
//
//   kernel C
//   stage attach -1 registers
//   stage attach 0 global
//   stage attach -1 row rows [0, 2]
//   stage attach -1 row rows [0, 2] stream 3 rescale 1
//   merged 1 [2, 3]
//   begins 0 4096
//   reads [0, 1]
//   writes [2]
//   program
//   tensor A: …
#include "core/ir/text.h"
#include "core/kernel/coverage.h"
#include "core/kernel/kernel.h"
#include "core/kernel/rows.h"

namespace tile {
namespace {

constexpr std::string_view kMarker = "\nprogram\n";

template <typename IdType>
std::string ids(const std::vector<IdType>& list) {
  std::vector<int64_t> numbers;
  for (IdType id : list) numbers.push_back(id.number());
  return print_integers(numbers);
}
std::vector<TensorId> tensor_ids(TextReader& in) {
  std::vector<TensorId> list;
  for (int64_t id : in.integers()) list.push_back(TensorId(id));
  return list;
}

std::string_view word(Residence r) {
  switch (r) {
    case Residence::registers:
      return "registers";
    case Residence::row:
      return "row";
    case Residence::global:
      return "global";
  }
  return "?";
}
Residence residence(TextReader& in) {
  for (Residence r : {Residence::registers, Residence::row}) {
    if (in.accept(word(r))) return r;
  }
  in.expect("global");
  return Residence::global;
}

}  // namespace

std::string print(const Kernel& kernel) {
  std::string s = "kernel " + kernel.name + "\n";
  BoundProgram program;
  program.tensors = kernel.tensors;
  for (const KernelStage& stage : kernel.stages) {
    s += "stage attach " + to_string(stage.attach) + " " + std::string(word(stage.residence));
    if (!stage.rows.empty()) {
      s += " rows " + ids(stage.rows);
    }
    if (stage.stream.valid()) s += " stream " + to_string(stage.stream);
    if (stage.rescale.valid()) s += " rescale " + to_string(stage.rescale);
    s += "\n";
    program.statements.emplace_back(stage.contraction);
  }
  for (size_t i = 0; i < kernel.shapes.size(); ++i) {
    if (kernel.shapes[i].empty()) continue;
    s += "merged " + std::to_string(i) + " " + print_integers(kernel.shapes[i]) + "\n";
  }
  for (size_t i = 0; i < kernel.begins.size(); ++i) {
    if (kernel.begins[i] == 0) continue;
    s += "begins " + std::to_string(i) + " " + std::to_string(kernel.begins[i]) + "\n";
  }
  s += "reads " + ids(kernel.reads) + "\nwrites " + ids(kernel.writes);
  return s + std::string(kMarker) + print(program);
}

Kernel parse_kernel(SourcePtr source) {
  size_t marker = source->text.find(kMarker);
  std::string head = source->text.substr(0, marker);
  TextReader in(std::make_shared<Source>(Source{source->name, head}));
  Kernel kernel;
  in.expect("kernel");
  kernel.name = in.name();
  while (in.accept("stage")) {
    KernelStage stage;
    in.expect("attach");
    stage.attach = StageId(in.integer());
    stage.residence = residence(in);
    if (in.accept("rows")) {
      for (int64_t u : in.integers()) stage.rows.push_back(IteratorId(u));
    }
    if (in.accept("stream")) stage.stream = IteratorId(in.integer());
    if (in.accept("rescale")) stage.rescale = StageId(in.integer());
    kernel.stages.push_back(std::move(stage));
  }
  std::vector<std::pair<size_t, Shape>> merged;
  while (in.accept("merged")) {
    auto at = static_cast<size_t>(in.integer());
    merged.emplace_back(at, in.integers());
  }
  std::vector<std::pair<size_t, int64_t>> begins;
  while (in.accept("begins")) {
    auto at = static_cast<size_t>(in.integer());
    begins.emplace_back(at, in.integer());
  }
  in.expect("reads");
  kernel.reads = tensor_ids(in);
  in.expect("writes");
  kernel.writes = tensor_ids(in);
  if (!in.at_end() || marker == std::string::npos) in.wrong("program");
  std::string rest = source->text.substr(marker + kMarker.size());
  BoundProgram program = parse_bound(std::make_shared<Source>(Source{source->name, rest}));
  kernel.tensors = program.tensors;
  for (auto& [at, shape] : merged) {
    if (at >= kernel.tensors.size()) in.wrong("a tensor of the program");
    kernel.shapes.resize(kernel.tensors.size());
    kernel.shapes[at] = std::move(shape);
  }
  for (const auto& [at, element] : begins) {
    if (at >= kernel.tensors.size()) in.wrong("a tensor of the program");
    kernel.begins.resize(kernel.tensors.size());
    kernel.begins[at] = element;
  }
  if (program.statements.size() != kernel.stages.size()) in.wrong("a statement for each stage");
  for (size_t i = 0; i < kernel.stages.size(); ++i) {
    Contraction* c = std::get_if<Contraction>(&program.statements[i]);
    if (c == nullptr) in.wrong("contractions only");
    kernel.stages[i].contraction = std::move(*c);
  }
  return kernel;
}

namespace {

// An attached stage is pointwise, on one piece, and reads what its tile made cell by cell.
void verify_attached(const Kernel& kernel, size_t at) {
  const KernelStage& stage = kernel.stages[at];
  const Contraction& c = stage.contraction;
  internal_check(stage.attach.valid() && stage.attach.index() < at,
                 "kernel: a stage attached to a later one");
  internal_check(c.pieces.size() == 1 && c.pieces[0].parallel_dims == c.pieces[0].iterators.size(),
                 "kernel: an attached stage that reduces");
  internal_check(c.pieces[0].constraints.empty(), "kernel: an attached stage with conditions");
  StageId root = stage.attach;
  while (kernel.stages[root].attach.valid()) root = kernel.stages[root].attach;
  const Contraction& main = kernel.stages[root].contraction;
  internal_check(main.pieces.size() == 1 && covers_output(main, kernel.tensors),
                 "kernel: a stage attached to a result with gaps");
}

}  // namespace

void verify(const Kernel& kernel) {
  internal_check(!kernel.stages.empty() && !kernel.stages[0].attach.valid(),
                 "kernel: the first stage has loops of its own");
  auto listed = [](const std::vector<TensorId>& list, TensorId id) {
    return std::find(list.begin(), list.end(), id) != list.end();
  };
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    const Contraction& c = kernel.stages[s].contraction;
    internal_check(c.normalized, "kernel: a contraction that is not normalized");
    for (const Piece& piece : c.pieces) {
      internal_check(piece.box.size() == piece.iterators.size(), "kernel: a piece without a box");
      internal_check(piece.parallel_dims <= piece.box.size(),
                     "kernel: more parallel dimensions than iterators");
    }
    for (TensorId out : c.outputs) {
      bool global = kernel.stages[s].residence == Residence::global;
      internal_check(listed(kernel.writes, out) == global, "kernel: a result's residence");
    }
    if (kernel.stages[s].attach.valid()) verify_attached(kernel, s);
  }
  std::string rows = broken_rows(kernel);
  internal_check(rows.empty(), ("kernel: " + rows).c_str());
}

}  // namespace tile
