#include <map>

#include "core/language/mfg/elaborate.h"

namespace tile::mfg {
namespace {

// An index as a form in the statement's indices and in sizes, which hold at most 2^29; `most`
// bounds its magnitude, so that it is known to stay inside i32.
struct Form {
  Expr expr;
  double most = 0;
  bool constant = false;
};
constexpr double kSizeLimit = 536870912;
constexpr double kIndexLimit = 2147483647;

class FormReader {
 public:
  FormReader(const Body& body, const std::vector<std::string>& indices) {
    for (const Node& n : body.nodes) forms_.push_back(read(n, indices));
  }
  const std::optional<Form>& operator[](NodeId id) const { return forms_[id]; }

 private:
  std::optional<Form> read(const Node& n, const std::vector<std::string>& indices) const {
    std::optional<Form> form;
    if (n.kind == NodeKind::integer && n.type == DType::i32) {
      form = Form{Expr(n.integer), std::abs(static_cast<double>(n.integer)), true};
    } else if (n.kind == NodeKind::index) {
      form = Form{Expr::variable(indices[n.slot]), kSizeLimit, false};
    } else if (n.kind == NodeKind::size) {
      form = Form{n.expr, kSizeLimit, false};
    } else if (n.kind == NodeKind::operation) {
      form = operation(n);
    }
    return form && form->most <= kIndexLimit ? form : std::nullopt;
  }

  std::optional<Form> operation(const Node& n) const {
    std::vector<Form> a;
    for (NodeId arg : n.args) {
      if (!forms_[arg]) return std::nullopt;
      a.push_back(*forms_[arg]);
    }
    if (n.op == Op::cast && n.type == DType::i32) return a[0];
    if (n.type != DType::i32) return std::nullopt;
    if (n.op == Op::add) return Form{a[0].expr + a[1].expr, a[0].most + a[1].most, false};
    if (n.op == Op::sub) return Form{a[0].expr - a[1].expr, a[0].most + a[1].most, false};
    if (n.op == Op::neg) return Form{-a[0].expr, a[0].most, false};
    if (n.op == Op::mul && (a[0].constant || a[1].constant)) {
      return Form{a[0].expr * a[1].expr, a[0].most * a[1].most, false};
    }
    return std::nullopt;
  }

  IdVector<NodeId, std::optional<Form>> forms_;
};

class Settler {
 public:
  Settler(SymbolicContraction& statement, const std::vector<Frames::AccessKey>& accesses,
          const std::function<std::vector<Expr>(TensorId)>& extents)
      : statement_(statement), accesses_(accesses), extents_(extents) {}

  void run() {
    FormReader forms(statement_.body, statement_.indices);
    for (Node& n : statement_.body.nodes) {
      if (n.kind == NodeKind::load) settle(n, &forms);
      if (n.kind == NodeKind::fold) n.region = settled_region(*n.region);
    }
    statement_.body = tidied(statement_.body);
  }

 private:
  // Inside a loop indices stay operands.
  std::shared_ptr<const Body> settled_region(const Body& region) {
    auto copy = std::make_shared<Body>(region);
    for (Node& n : copy->nodes) {
      if (n.kind == NodeKind::load) settle(n, nullptr);
      if (n.kind == NodeKind::fold) n.region = settled_region(*n.region);
    }
    return copy;
  }

  void settle(Node& load, const FormReader* forms) {
    const Frames::AccessKey& key = accesses_[load.slot];
    SymbolicAccess access;
    access.tensor = key.tensor;
    access.span = load.span;
    std::vector<NodeId> operands;
    std::vector<Expr> sizes = extents_(key.tensor);
    for (size_t d = 0; d < load.args.size(); ++d) {
      std::optional<Form> form = forms != nullptr ? (*forms)[load.args[d]] : std::nullopt;
      access.index.push_back(form ? form->expr : Expr(0));
      access.values.push_back(form ? -1 : static_cast<int>(operands.size()));
      access.boundary.push_back(form && covers(form->expr, sizes[d]) ? Boundary::in_range
                                                                     : Boundary::clamp);
      if (!form) operands.push_back(load.args[d]);
    }
    if (key.component >= 0) {
      access.index.emplace_back(key.component);
      access.values.push_back(-1);
      access.boundary.push_back(Boundary::in_range);
    }
    load.args = std::move(operands);
    load.slot = slot_of(std::move(access));
  }

  // Whether the form is one of the statement's indices over a dimension of the same size.
  bool covers(const Expr& form, const Expr& size) const {
    for (size_t d = 0; d < statement_.out_index.size(); ++d) {
      if (form == statement_.out_index[d] && size == statement_.out_size[d]) return true;
    }
    return false;
  }

  int slot_of(SymbolicAccess access) {
    std::string key = to_string(access.tensor);
    for (size_t d = 0; d < access.index.size(); ++d) {
      key += "," + (access.values[d] >= 0 ? "#" + std::to_string(access.values[d])
                                          : to_string(access.index[d]));
      key += access.boundary[d] == Boundary::clamp ? "c" : "";
    }
    auto [known, fresh] = slots_.emplace(key, static_cast<int>(statement_.accesses.size()));
    if (fresh) statement_.accesses.push_back(std::move(access));
    return known->second;
  }

  SymbolicContraction& statement_;
  const std::vector<Frames::AccessKey>& accesses_;
  const std::function<std::vector<Expr>(TensorId)>& extents_;
  std::map<std::string, int> slots_;
};

}  // namespace

void settle_accesses(SymbolicContraction& statement, const std::vector<Frames::AccessKey>& accesses,
                     const std::function<std::vector<Expr>(TensorId)>& extents) {
  Settler(statement, accesses, extents).run();
}

}  // namespace tile::mfg
