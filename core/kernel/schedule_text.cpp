// The text form of schedules (runtime/guides/schedules.md), with iterators by number, e.g.
//   schedule {
//     stage {
//       piece outer (0:32 parallel) reduce (2:1 serial) tile (0:1 unroll, 1:1 vector)
//     }
//   }
#include "core/ir/text.h"
#include "core/kernel/schedule.h"

namespace tile {
namespace {

std::string_view word(Binding b) {
  switch (b) {
    case Binding::serial:
      return "serial";
    case Binding::parallel:
      return "parallel";
    case Binding::unroll:
      return "unroll";
    case Binding::vector:
      return "vector";
    case Binding::dot:
      return "dot";
    case Binding::matrix:
      return "matrix";
  }
  return "?";
}

std::string text(const std::vector<Loop>& loops) {
  std::string s = "(";
  for (size_t i = 0; i < loops.size(); ++i) {
    if (i > 0) s += ", ";
    s += to_string(loops[i].iterator) + ":" + std::to_string(loops[i].step) + " " +
         std::string(word(loops[i].binding));
  }
  return s + ")";
}

std::vector<Loop> parse_loops(TextReader& in) {
  std::vector<Loop> loops;
  in.expect("(");
  while (!in.accept(")")) {
    if (!loops.empty()) in.expect(",");
    Loop l;
    l.iterator = IteratorId(in.integer());
    in.expect(":");
    l.step = in.integer();
    bool known = false;
    for (Binding b : {Binding::serial, Binding::parallel, Binding::unroll, Binding::vector,
                      Binding::dot, Binding::matrix}) {
      if (known || !in.accept(word(b))) continue;
      l.binding = b;
      known = true;
    }
    if (!known) in.wrong("serial, parallel, unroll, vector, dot or matrix");
    loops.push_back(l);
  }
  return loops;
}

std::string listed(const char* name, std::initializer_list<int64_t> values) {
  std::string s = std::string(" ") + name;
  for (int64_t v : values) s += " " + std::to_string(v);
  return s;
}

struct GpuFormText {
  std::string operator()(const std::monostate&) const { return {}; }
  std::string operator()(const TensorCoreGemm& t) const {
    std::string s = " tensor_cores " + print_integers(t.tile) + " stages " +
                    std::to_string(t.stages) + " group " + std::to_string(t.group);
    if (t.split > 1) s += " split " + std::to_string(t.split);
    if (t.cluster > 1) s += " cluster " + std::to_string(t.cluster);
    if (t.stream_k > 1) s += " stream_k " + std::to_string(t.stream_k);
    return s;
  }
  std::string operator()(const GpuReduction& r) const {
    return listed("gpu_reduction",
                  {r.parallel_dims, r.lanes, r.vector, r.vector_parallel_dims ? 1 : 0,
                   r.parallel_dims_fastest ? 1 : 0, r.split});
  }
  std::string operator()(const GpuScan& c) const { return listed("gpu_scan", {c.lanes, c.vector}); }
  std::string operator()(const GpuTranspose& t) const {
    return listed("gpu_transpose", {t.tile, t.rows});
  }
  std::string operator()(const SimtGemm& m) const {
    std::string s = listed("simt_gemm", {m.m, m.n, m.k, m.thread_m, m.thread_n, m.split});
    if (m.stages != 2) s += " stages " + std::to_string(m.stages);
    return m.ahead ? s + " ahead" : s;
  }
};

TensorCoreGemm parse_tensor_cores(TextReader& in) {
  TensorCoreGemm t;
  t.tile = IterationBox(in.integers());
  in.expect("stages");
  t.stages = in.integer();
  in.expect("group");
  t.group = in.integer();
  if (in.accept("split")) t.split = in.integer();
  if (in.accept("cluster")) t.cluster = in.integer();
  if (in.accept("stream_k")) t.stream_k = in.integer();
  return t;
}

GpuReduction parse_gpu_reduction(TextReader& in) {
  GpuReduction r;
  for (int64_t* v : {&r.parallel_dims, &r.lanes, &r.vector}) *v = in.integer();
  r.vector_parallel_dims = in.integer() != 0;
  r.parallel_dims_fastest = in.integer() != 0;
  r.split = in.integer();
  return r;
}

SimtGemm parse_simt_gemm(TextReader& in) {
  SimtGemm m;
  for (int64_t* v : {&m.m, &m.n, &m.k, &m.thread_m, &m.thread_n, &m.split}) *v = in.integer();
  if (in.accept("stages")) m.stages = in.integer();
  m.ahead = in.accept("ahead");
  return m;
}

// At most one form: what follows it is refused as any other unexpected word.
GpuForm parse_gpu_form(TextReader& in) {
  if (in.accept("tensor_cores")) return parse_tensor_cores(in);
  if (in.accept("gpu_reduction")) return parse_gpu_reduction(in);
  if (in.accept("simt_gemm")) return parse_simt_gemm(in);
  if (in.accept("gpu_scan")) {
    GpuScan c;
    for (int64_t* v : {&c.lanes, &c.vector}) *v = in.integer();
    return c;
  }
  if (in.accept("gpu_transpose")) {
    GpuTranspose t;
    for (int64_t* v : {&t.tile, &t.rows}) *v = in.integer();
    return t;
  }
  return {};
}

}  // namespace

std::string print(const Schedule& schedule) {
  std::string s = "schedule {\n";
  if (schedule.shared > 0) s += "  shared " + std::to_string(schedule.shared) + "\n";
  if (const auto& l = schedule.gpu_lines) {
    s += "  gpu_lines " + std::to_string(l->lanes) + " " + std::to_string(l->rows) + " " +
         std::to_string(l->vector);
    if (l->blocks > 1) s += " blocks " + std::to_string(l->blocks);
    s += "\n";
  }
  if (const auto& g = schedule.gpu_stream) {
    s += " " + listed("gpu_stream", {g->rows, g->columns, g->stages}) + "\n";
  }
  for (const std::vector<PieceSchedule>& stage : schedule.stages) {
    s += "  stage {\n";
    for (const PieceSchedule& p : stage) {
      s += "    piece outer " + text(p.outer) + " reduce " + text(p.reduce) + " tile " +
           text(p.tile);
      if (p.carried.valid()) s += " carry " + to_string(p.carried);
      s += std::visit(GpuFormText{}, p.gpu_form) + "\n";
      for (const Packing& k : p.packings) {
        s += "      pack " + std::to_string(k.load) + " level " + std::to_string(k.level) + " " +
             text(k.order) + "\n";
      }
    }
    s += "  }\n";
  }
  return s + "}\n";
}

Schedule parse_schedule(std::string_view text) {
  auto source = std::make_shared<Source>(Source{"<schedule>", std::string(text)});
  TextReader in(source);
  Schedule schedule;
  in.expect("schedule");
  in.expect("{");
  if (in.accept("shared")) schedule.shared = static_cast<size_t>(in.integer());
  if (in.accept("gpu_lines")) {
    GpuLines l;
    for (int64_t* v : {&l.lanes, &l.rows, &l.vector}) *v = in.integer();
    if (in.accept("blocks")) l.blocks = in.integer();
    schedule.gpu_lines = l;
  }
  if (in.accept("gpu_stream")) {
    GpuStream g;
    for (int64_t* v : {&g.rows, &g.columns, &g.stages}) *v = in.integer();
    schedule.gpu_stream = g;
  }
  while (in.accept("stage")) {
    in.expect("{");
    schedule.stages.emplace_back();
    while (in.accept("piece")) {
      PieceSchedule p;
      in.expect("outer");
      p.outer = parse_loops(in);
      in.expect("reduce");
      p.reduce = parse_loops(in);
      in.expect("tile");
      p.tile = parse_loops(in);
      if (in.accept("carry")) p.carried = IteratorId(in.integer());
      p.gpu_form = parse_gpu_form(in);
      while (in.accept("pack")) {
        Packing k;
        k.load = static_cast<size_t>(in.integer());
        in.expect("level");
        k.level = static_cast<size_t>(in.integer());
        k.order = parse_loops(in);
        p.packings.push_back(std::move(k));
      }
      schedule.stages.back().push_back(std::move(p));
    }
    in.expect("}");
  }
  in.expect("}");
  if (!in.at_end()) in.wrong("the end of the schedule");
  return schedule;
}

}  // namespace tile
