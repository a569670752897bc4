#include <map>

#include "core/ir/text.h"
#include "core/nest/nest.h"

namespace tile::nest {
namespace {

constexpr int kDepthLimit = 200;

class Parser {
 public:
  explicit Parser(SourcePtr source) : reader_(std::move(source)) {}

  Nest run() {
    reader_.expect("nest");
    nest_.name = reader_.name();
    while (declaration()) {
    }
    while (!reader_.at_end()) nest_.body.push_back(statement(0));
    return std::move(nest_);
  }

 private:
  bool declaration() {
    if (reader_.accept("argument")) return buffer(Scope::argument);
    if (reader_.accept("workspace")) return buffer(Scope::workspace);
    if (reader_.accept("shared")) return buffer(Scope::shared);
    if (reader_.accept("scratch")) return buffer(Scope::scratch);
    if (reader_.accept("fragment")) return buffer(Scope::fragment);
    if (reader_.accept("registers")) return buffer(Scope::registers);
    if (!reader_.accept("parameter")) return false;
    Parameter p;
    p.name = reader_.name();
    std::vector<int64_t> range = reader_.integers();
    if (range.size() != 2) reader_.wrong("a range of two integers before this");
    p.lo = range[0];
    p.hi = range[1];
    if (reader_.accept("from")) p.from = buffer_reference();
    nest_.parameters.push_back(p);
    return true;
  }

  bool buffer(Scope scope) {
    Buffer b;
    b.scope = scope;
    b.name = reader_.name();
    reader_.expect(":");
    b.type = reader_.type();
    b.shape = reader_.integers();
    reader_.expect("strides");
    b.strides = reader_.integers();
    b.written = reader_.accept("written");
    b.read_soon = reader_.accept("read_soon");
    if (reader_.accept("align")) b.alignment = reader_.integer();
    if (reader_.accept("extent")) {
      std::vector<Expr> one = reader_.expressions();
      if (one.size() != 1) reader_.wrong("one expression before this");
      b.extent = one[0];
    }
    std::string name = b.name;
    buffers_[name] = nest_.buffers.add(std::move(b));
    return true;
  }

  BufferId buffer_reference() {
    auto it = buffers_.find(reader_.name());
    if (it == buffers_.end()) reader_.wrong("a declared buffer before this");
    return it->second;
  }

  Access access() {
    Access a;
    a.buffer = buffer_reference();
    reader_.expect("[");
    bool by_value = false;
    while (!reader_.accept("]")) {
      if (!a.index.empty()) reader_.expect(",");
      if (reader_.accept("%")) {
        by_value = true;
        a.values.push_back(static_cast<int>(reader_.integer()));
        a.index.emplace_back(0);
      } else {
        a.values.push_back(-1);
        a.index.push_back(reader_.expression());
      }
    }
    if (!by_value) a.values.clear();
    return a;
  }
  std::vector<Access> accesses() {
    std::vector<Access> list;
    reader_.expect("(");
    while (!reader_.accept(")")) {
      if (!list.empty()) reader_.expect(",");
      list.push_back(access());
    }
    return list;
  }

  Block block(int depth) {
    if (depth > kDepthLimit) reader_.wrong("less nesting");
    Block b;
    reader_.expect("{");
    while (!reader_.accept("}")) b.push_back(statement(depth + 1));
    return b;
  }

  Statement statement(int depth) {
    if (reader_.accept("serial")) return {loop(LoopKind::serial, depth)};
    if (reader_.accept("parallel")) return {loop(LoopKind::parallel, depth)};
    if (reader_.accept("unrolled")) return {loop(LoopKind::unrolled, depth)};
    if (reader_.accept("vector")) return {loop(LoopKind::vector, depth)};
    if (reader_.accept("grid")) return {loop(LoopKind::grid, depth)};
    if (reader_.accept("thread")) return {loop(LoopKind::thread, depth)};
    if (reader_.accept("sync")) {
      return {Sync{reader_.accept("pending") ? reader_.integer() : 0}};
    }
    if (reader_.accept("copy")) return {copy()};
    if (reader_.accept("matrix")) return {matrix_tile()};
    if (reader_.accept("move")) return {matrix_move()};
    if (reader_.accept("if")) return {condition(depth)};
    if (reader_.accept("alloc")) return {Alloc{buffer_reference()}};
    if (reader_.accept("assign")) return {store(StoreKind::assign)};
    if (reader_.accept("add")) return {store(StoreKind::add)};
    if (reader_.accept("multiply")) return {store(StoreKind::multiply)};
    if (reader_.accept("max")) return {store(StoreKind::max)};
    if (reader_.accept("min")) return {store(StoreKind::min)};
    if (reader_.accept("fma")) return {store(StoreKind::fma)};
    reader_.wrong("a statement");
  }

  Expr bracketed() {
    reader_.expect("[");
    Expr e = reader_.expression();
    reader_.expect("]");
    return e;
  }

  For loop(LoopKind kind, int depth) {
    For f;
    f.kind = kind;
    f.variable = reader_.name();
    reader_.expect("from");
    f.begin = bracketed();
    reader_.expect("extent");
    f.extent = bracketed();
    if (reader_.accept("width")) f.width = reader_.integer();
    if (reader_.accept("grain")) f.grain = reader_.integer();
    if (reader_.accept("pipeline")) f.pipeline = reader_.integer();
    if (reader_.accept("cluster")) f.cluster = reader_.integer();
    f.blocks = reader_.accept("blocks");
    f.ordered = reader_.accept("ordered");
    f.body = block(depth);
    return f;
  }
  If condition(int depth) {
    If i;
    i.nonnegative = reader_.expressions();
    if (reader_.accept("when")) {
      i.loads = accesses();
      i.predicate = parse_body(reader_);
    }
    i.then = block(depth);
    if (reader_.accept("else")) i.otherwise = block(depth);
    return i;
  }
  Copy copy() {
    Copy c;
    c.to = buffer_reference();
    c.from = buffer_reference();
    reader_.expect("origin");
    c.origin = reader_.expressions();
    reader_.expect("extent");
    c.extent = reader_.integers();
    reader_.expect("stride");
    c.stride = reader_.integers();
    reader_.expect("limit");
    c.limit = reader_.integers();
    reader_.expect("order");
    for (int64_t d : reader_.integers()) c.order.push_back(static_cast<size_t>(d));
    return c;
  }
  MatrixTile matrix_tile() {
    MatrixTile m;
    m.sum = buffer_reference();
    m.a = buffer_reference();
    m.a_transposed = reader_.accept("transposed");
    m.b = buffer_reference();
    m.b_transposed = reader_.accept("transposed");
    m.split = reader_.accept("split");
    m.unrounded = reader_.accept("unrounded");
    if (reader_.accept("rest")) {
      m.a_rest = buffer_reference();
      m.b_rest = buffer_reference();
    }
    if (reader_.accept("terms")) {
      m.terms = reader_.integer();
      m.a_type = reader_.type();
      m.a_part = part();
      m.b_type = reader_.type();
      m.b_part = part();
    }
    return m;
  }
  MatrixPart part() {
    MatrixPart p;
    reader_.expect("origin");
    p.origin = reader_.expressions();
    reader_.expect("row");
    p.row = reader_.integers();
    reader_.expect("column");
    p.column = reader_.integers();
    return p;
  }
  MatrixMove matrix_move() {
    MatrixMove m;
    bool zero = reader_.accept("zero"), load = !zero && reader_.accept("load");
    if (!zero && !load) reader_.expect("store");
    m.kind = zero   ? MatrixMove::Kind::zero
             : load ? MatrixMove::Kind::load
                    : MatrixMove::Kind::store;
    m.fragment = buffer_reference();
    if (zero) return m;
    m.buffer = buffer_reference();
    m.part = part();
    return m;
  }
  Store store(StoreKind kind) {
    Store s;
    s.kind = kind;
    s.asynchronous = reader_.accept("asynchronous");
    s.target = access();
    s.loads = accesses();
    s.body = parse_body(reader_);
    return s;
  }

  TextReader reader_;
  Nest nest_;
  std::map<std::string, BufferId> buffers_;
};

}  // namespace

Nest parse_nest(SourcePtr source) { return Parser(std::move(source)).run(); }

}  // namespace tile::nest
