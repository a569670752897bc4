// What a statement computes from one byte of a tensor alone, at a cost above a table's, is computed
// once for each value of a byte and looked up.
#include <algorithm>
#include <bit>
#include <set>

#include "core/ir/analysis/uses.h"
#include "core/ir/operation_cost.h"
#include "core/passes/normalize/substitution.h"
#include "core/passes/optimize/optimize.h"

namespace tile {
namespace {

constexpr int64_t kBytes = 256;
constexpr double kLookUp = 24;     // a gather and its index, in the unit of cycles_in_turn()
constexpr double kFewPoints = 16;  // points for each entry of the table

double node_cost(const Node& node) {
  if (node.kind != NodeKind::operation || node.op == Op::cast || node.op == Op::ident) return 0;
  return cycles_in_turn(node.op);
}

// What a node depends on beside literals and values that are the same at every point.
struct Support {
  bool one = true;                  // on at most one load of a byte
  std::optional<size_t> slot = {};  // that load
};

class Tabulator {
 public:
  Tabulator(BoundProgram& program, std::vector<BoundStatement>& made, Contraction& statement)
      : program_(program), made_(made), piece_(statement.pieces[0]), statement_(statement.span) {}

  void run() {
    for (const Node& node : piece_.body.nodes) support_.push_back(support(node));
    for (NodeId root : roots()) tables_.insert(root);
    for (auto it = tables_.begin(); it != tables_.end();) {
      it = cost(*it) > kLookUp ? std::next(it) : tables_.erase(it);
    }
    if (tables_.empty()) return;
    Body before = piece_.body, after;
    IdVector<NodeId, NodeId> at;
    for (NodeId i : before.nodes.ids()) {
      auto id = i;
      if (tables_.contains(id)) {
        at.push_back(looked_up(after, before, id, at));
        continue;
      }
      Node copy = before.nodes[i];
      for (NodeId& arg : copy.args) arg = at[arg];
      at.push_back(after.add(std::move(copy)));
    }
    for (NodeId id : before.results) after.results.push_back(at[id]);
    piece_.body = tidied(after);
    drop_unused_loads(piece_);
  }

 private:
  const Access& access(size_t slot) const { return piece_.loads[slot]; }
  static bool uniform(const Access& a) {
    return std::all_of(a.index.begin(), a.index.end(),
                       [](const Index& i) { return i.value < 0 && i.affine.is_constant(); });
  }

  Support support(const Node& node) const {
    if (node.kind == NodeKind::integer || node.kind == NodeKind::real) return {};
    if (node.kind == NodeKind::load) {
      if (uniform(access(node.slot))) return {};
      bool byte = node.type == DType::u8 && node.args.empty();
      return byte ? Support{true, node.slot} : Support{false};
    }
    if (node.kind != NodeKind::operation || info(node.op).rule == TypeRule::random) {
      return {false};
    }
    Support all;
    for (NodeId arg : node.args) {
      const Support& s = support_[arg];
      bool other = s.slot && all.slot && s.slot != all.slot;
      if (!s.one || other) return {false};
      if (s.slot) all.slot = s.slot;
    }
    return all;
  }
  bool of_a_byte(NodeId id) const {
    const Support& s = support_[id];
    return s.one && s.slot;
  }

  // Values of one byte that something else than such a value uses.
  std::vector<NodeId> roots() const {
    std::set<NodeId> found;
    auto add = [&](NodeId id) {
      const Node& node = piece_.body[id];
      bool stored = node.type != DType::bool_ && node.type != DType::none;
      if (of_a_byte(id) && stored) found.insert(id);
    };
    for (NodeId i : piece_.body.nodes.ids()) {
      if (of_a_byte(i)) continue;
      for (NodeId arg : piece_.body.nodes[i].args) add(arg);
    }
    for (NodeId id : piece_.body.results) add(id);
    return {found.begin(), found.end()};
  }

  // Calls visit(node) for each value of the byte that the root is made of.
  template <class Visit>
  void for_parts(NodeId root, const Visit& visit) const {
    IdVector<NodeId, bool> needed(piece_.body.nodes.size());
    needed[root] = true;
    for (size_t i = needed.size(); i-- > 0;) {
      if (!needed[i] || !of_a_byte(NodeId(i))) continue;
      visit(piece_.body.nodes[i]);
      for (NodeId arg : piece_.body.nodes[i].args) needed[arg] = true;
    }
  }
  double cost(NodeId root) const {
    double sum = 0;
    for_parts(root, [&](const Node& node) { sum += node_cost(node); });
    return sum;
  }
  // Where the text has what a table is for, its costliest operation; what passes have made stands
  // nowhere.
  Span place_of(NodeId root) const {
    Span place = statement_;
    double most = 0;
    for_parts(root, [&](const Node& node) {
      if (node_cost(node) <= most || node.span.end <= node.span.begin) return;
      most = node_cost(node);
      place = node.span;
    });
    return place;
  }

  // The statement that fills the table of one value.
  Contraction filled(const Body& body, NodeId root) const {
    Piece piece;
    piece.iterators = {"value"};
    piece.box = {kBytes};
    piece.parallel_dims = 1;
    size_t byte = support_[root].slot.value();
    NodeId value = graft(piece.body, body, root, [&](Body& into, const Node& node) -> NodeId {
      if (node.kind != NodeKind::load) return NodeId();
      if (node.slot == byte) {
        NodeId index = into.index(0, DType::i64, node.span);
        return into.cast(index, DType::u8, node.span);
      }
      Node load = node;
      load.slot = position_of(piece.loads, access(node.slot));
      return into.add(std::move(load));
    });
    piece.body.results = {value};
    Contraction c;
    c.accumulator = body[root].type;
    c.normalized = true;
    c.span = place_of(root);
    c.pieces.push_back(std::move(piece));
    return c;
  }

  NodeId looked_up(Body& after, const Body& before, NodeId root, const std::vector<NodeId>& at) {
    TensorId table = table_of(filled(before, root), before[root].type);
    Access a;
    a.tensor = table;
    Index index;
    index.affine = constant_affine(0);
    index.value = 0;
    index.boundary = Boundary::clamp;
    a.index.push_back(index);
    size_t byte = support_[root].slot.value();
    NodeId value;
    for (size_t i = 0; i < at.size() && !value.valid(); ++i) {
      const Node& node = before.nodes[i];
      if (node.kind == NodeKind::load && node.slot == byte) value = at[i];
    }
    Span span = before[root].span;
    return after.load(position_of(piece_.loads, a), before[root].type, span,
                      {after.cast(value, DType::i32, span)});
  }

  // Two components of a pixel often share a table.
  TensorId table_of(Contraction c, DType type) {
    std::string key = text_of(c);
    for (const auto& [known, id] : known_) {
      if (known == key) return id;
    }
    BoundTensor table;
    table.name = fresh_name();
    table.type = type;
    table.shape = {kBytes};
    TensorId id = program_.tensors.add(std::move(table));
    Access store;
    store.tensor = id;
    Index index;
    index.affine = iterator_affine(0);
    store.index.push_back(index);
    c.outputs = {id};
    c.pieces[0].stores.push_back(store);
    made_.emplace_back(std::move(c));
    known_.emplace_back(std::move(key), id);
    return id;
  }
  std::string fresh_name() const {
    std::string name = "table";
    auto taken = [&](const BoundTensor& t) { return t.name == name; };
    for (int i = 1; std::any_of(program_.tensors.begin(), program_.tensors.end(), taken); ++i) {
      name = "table" + std::to_string(i);
    }
    return name;
  }
  // What the table holds, as text: nodes in the order in which the result needs them.
  static std::string text_of(const Contraction& c) {
    const Body& body = c.pieces[0].body;
    IdVector<NodeId, int> order(body.nodes.size(), -1);
    std::string text;
    int next = 0;
    write(body, body.results[0], order, next, text);
    for (const Access& a : c.pieces[0].loads) {
      text += to_string(a.tensor);
      for (const Index& i : a.index) text += "," + std::to_string(i.affine.constant.num());
      text += ";";
    }
    return text;
  }
  static void write(const Body& body, NodeId id, IdVector<NodeId, int>& order, int& next,
                    std::string& text) {
    if (order[id] >= 0) return;
    const Node& n = body[id];
    for (NodeId arg : n.args) write(body, arg, order, next, text);
    order[id] = next++;
    for (int part : {static_cast<int>(n.kind), static_cast<int>(n.op), static_cast<int>(n.type)}) {
      text += std::to_string(part) + " ";
    }
    text += std::to_string(n.integer) + " " + std::to_string(std::bit_cast<int64_t>(n.real)) + " " +
            std::to_string(n.slot);
    for (NodeId arg : n.args) text += " " + std::to_string(order[arg]);
    text += ";";
  }

  BoundProgram& program_;
  std::vector<BoundStatement>& made_;
  Piece& piece_;
  Span statement_;
  IdVector<NodeId, Support> support_;
  std::set<NodeId> tables_;
  std::vector<std::pair<std::string, TensorId>> known_;
};

bool worth(const Contraction& c) {
  return c.normalized && c.pieces.size() == 1 &&
         c.pieces[0].parallel_dims == c.pieces[0].iterators.size() &&
         point_count(c.pieces[0]) >= kFewPoints * kBytes;
}

}  // namespace

void tabulate(BoundProgram& program, const Target& target) {
  if (is_gpu(target)) return;  // functions cost little more than a look-up there
  std::vector<BoundStatement> statements;
  for (BoundStatement& statement : program.statements) {
    Contraction* c = std::get_if<Contraction>(&statement);
    if (c != nullptr && worth(*c)) Tabulator(program, statements, *c).run();
    statements.push_back(std::move(statement));
  }
  program.statements = std::move(statements);
}

}  // namespace tile
