#include <algorithm>
#include <map>

#include "core/ir/text.h"
#include "core/nest/nest.h"

namespace tile::nest {
namespace {

std::string_view word(Scope scope) {
  switch (scope) {
    case Scope::argument:
      return "argument";
    case Scope::workspace:
      return "workspace";
    case Scope::shared:
      return "shared";
    case Scope::scratch:
      return "scratch";
    case Scope::fragment:
      return "fragment";
    case Scope::registers:
      return "registers";
  }
  return "?";
}
std::string_view word(LoopKind kind) {
  switch (kind) {
    case LoopKind::serial:
      return "serial";
    case LoopKind::parallel:
      return "parallel";
    case LoopKind::unrolled:
      return "unrolled";
    case LoopKind::vector:
      return "vector";
    case LoopKind::grid:
      return "grid";
    case LoopKind::thread:
      return "thread";
  }
  return "?";
}
std::string_view word(StoreKind kind) {
  switch (kind) {
    case StoreKind::assign:
      return "assign";
    case StoreKind::add:
      return "add";
    case StoreKind::multiply:
      return "multiply";
    case StoreKind::max:
      return "max";
    case StoreKind::min:
      return "min";
    case StoreKind::fma:
      return "fma";
  }
  return "?";
}

class Printer {
 public:
  Printer(const Nest& nest, bool anonymous) : nest_(nest), anonymous_(anonymous) {}

  std::string run() {
    out_ = "nest " + (anonymous_ ? std::string("n") : nest_.name) + "\n";
    for (BufferId id : nest_.buffers.ids()) buffer(id);
    for (const Parameter& p : nest_.parameters) {
      out_ += "parameter " + rename(p.name) + " " + print_integers({p.lo, p.hi});
      if (p.from.valid()) out_ += " from " + buffer_name(p.from);
      out_ += "\n";
    }
    block(nest_.body, 0);
    return out_;
  }

 private:
  std::string rename(const std::string& name) {
    if (!anonymous_) return name;
    auto [it, added] = names_.try_emplace(name, "v" + std::to_string(names_.size()));
    return it->second;
  }
  std::string buffer_name(BufferId id) const {
    return anonymous_ ? "b" + to_string(id) : nest_.buffers[id].name;
  }
  Expr renamed(const Expr& e) {
    if (!anonymous_) return e;
    std::vector<std::string> used;
    collect_variables(e, used);
    std::map<std::string, Expr> replacement;
    for (const std::string& name : used) replacement[name] = Expr::variable(rename(name));
    return substitute(e, replacement);
  }
  std::string text(const Expr& e) { return to_string(renamed(e)); }
  std::string text(const std::vector<Expr>& list) {
    std::vector<Expr> copy;
    for (const Expr& e : list) copy.push_back(renamed(e));
    return print_expressions(copy);
  }
  std::string text(Body body) {
    if (!anonymous_) return tile::print(body);
    change_nodes(body, [&](Node& node) {
      if (node.kind == NodeKind::size || node.kind == NodeKind::fold)
        node.expr = renamed(node.expr);
    });
    return tile::print(body);
  }

  void buffer(BufferId id) {
    const Buffer& b = nest_.buffers[id];
    out_ += std::string(word(b.scope)) + " " + buffer_name(id) + ": " +
            std::string(to_string(b.type)) + " " + print_integers(b.shape) + " strides " +
            print_integers(b.strides);
    if (b.written) out_ += " written";
    if (b.read_soon) out_ += " read_soon";
    if (b.alignment != 0) out_ += " align " + std::to_string(b.alignment);
    if (b.extent) out_ += " extent " + text(std::vector<Expr>{*b.extent});
    out_ += "\n";
  }

  std::string access(const Access& a) {
    std::string s = buffer_name(a.buffer) + "[";
    for (size_t d = 0; d < a.index.size(); ++d) {
      bool by_value = d < a.values.size() && a.values[d] >= 0;
      s += (d == 0 ? "" : ", ") + (by_value ? "%" + std::to_string(a.values[d]) : text(a.index[d]));
    }
    return s + "]";
  }
  std::string accesses(const std::vector<Access>& list) {
    std::string s = "(";
    for (size_t i = 0; i < list.size(); ++i) s += (i == 0 ? "" : ", ") + access(list[i]);
    return s + ")";
  }

  void block(const Block& statements, size_t depth) {
    for (const Statement& s : statements) {
      std::visit([&](const auto& what) { statement(what, depth); }, s.what);
    }
  }
  void line(size_t depth, const std::string& s) { out_ += std::string(2 * depth, ' ') + s + "\n"; }
  void statement(const For& f, size_t depth) {
    std::string head = std::string(word(f.kind)) + " " + rename(f.variable) + " from [" +
                       text(f.begin) + "] extent [" + text(f.extent) + "]";
    if (f.kind == LoopKind::vector) head += " width " + std::to_string(f.width);
    if (f.kind == LoopKind::parallel) head += " grain " + std::to_string(f.grain);
    if (f.pipeline != 0) head += " pipeline " + std::to_string(f.pipeline);
    if (f.cluster != 1) head += " cluster " + std::to_string(f.cluster);
    if (f.blocks) head += " blocks";
    if (f.ordered) head += " ordered";
    line(depth, head + " {");
    block(f.body, depth + 1);
    line(depth, "}");
  }
  void statement(const If& i, size_t depth) {
    std::string head = "if " + text(i.nonnegative);
    if (!i.predicate.results.empty()) {
      head += " when " + accesses(i.loads) + " " + text(i.predicate);
    }
    line(depth, head + " {");
    block(i.then, depth + 1);
    if (!i.otherwise.empty()) {
      line(depth, "} else {");
      block(i.otherwise, depth + 1);
    }
    line(depth, "}");
  }
  void statement(const Store& s, size_t depth) {
    line(depth, std::string(word(s.kind)) + (s.asynchronous ? " asynchronous " : " ") +
                    access(s.target) + " " + accesses(s.loads) + " " + text(s.body));
  }
  void statement(const Alloc& a, size_t depth) { line(depth, "alloc " + buffer_name(a.buffer)); }

  void statement(const Sync& s, size_t depth) {
    line(depth, s.pending == 0 ? "sync" : "sync pending " + std::to_string(s.pending));
  }
  void statement(const Copy& c, size_t depth) {
    std::vector<int64_t> order(c.order.begin(), c.order.end());
    line(depth, "copy " + buffer_name(c.to) + " " + buffer_name(c.from) + " origin " +
                    text(c.origin) + " extent " + print_integers(c.extent) + " stride " +
                    print_integers(c.stride) + " limit " + print_integers(c.limit) + " order " +
                    print_integers(order));
  }
  void statement(const MatrixTile& m, size_t depth) {
    line(depth,
         "matrix " + buffer_name(m.sum) + " " + buffer_name(m.a) +
             (m.a_transposed ? " transposed " : " ") + buffer_name(m.b) +
             (m.b_transposed ? " transposed" : "") + (m.split ? " split" : "") +
             (m.unrounded ? " unrounded" : "") +
             (!m.a_rest.valid() ? ""
                                : " rest " + buffer_name(m.a_rest) + " " + buffer_name(m.b_rest)) +
             (m.terms == 0
                  ? ""
                  : " terms " + std::to_string(m.terms) + " " + std::string(to_string(m.a_type)) +
                        part(m.a_part) + " " + std::string(to_string(m.b_type)) + part(m.b_part)));
  }
  void statement(const MatrixMove& m, size_t depth) {
    constexpr const char* kKinds[] = {"zero", "load", "store"};
    std::string s =
        std::string("move ") + kKinds[static_cast<size_t>(m.kind)] + " " + buffer_name(m.fragment);
    if (m.kind != MatrixMove::Kind::zero) {
      s += " " + buffer_name(m.buffer) + part(m.part);
    }
    line(depth, s);
  }
  std::string part(const MatrixPart& p) {
    return " origin " + text(p.origin) + " row " + print_integers(p.row) + " column " +
           print_integers(p.column);
  }

  const Nest& nest_;
  bool anonymous_;
  std::map<std::string, std::string> names_;
  std::string out_;
};

}  // namespace

std::string print(const Nest& nest, bool anonymous) { return Printer(nest, anonymous).run(); }

int64_t packed_factors(DType type) { return 32 / bit_width(type); }

size_t Nest::argument_count() const {
  size_t n = 0;
  while (n < buffers.size() && buffers[n].scope == Scope::argument) ++n;
  return n;
}
size_t Nest::launch_parameter_count() const {
  return static_cast<size_t>(std::count_if(parameters.begin(), parameters.end(),
                                           [](const Parameter& p) { return !p.from.valid(); }));
}

}  // namespace tile::nest
