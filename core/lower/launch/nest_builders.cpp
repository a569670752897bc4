#include "core/lower/launch/nest_builders.h"

#include <iterator>
#include <optional>
#include <utility>

namespace tile::lowering {

using nest::Block;
using nest::LoopKind;

nest::Statement statement(nest::For loop) { return {std::move(loop)}; }
nest::Statement statement(nest::Store store) { return {std::move(store)}; }
nest::Statement statement(nest::If guard) { return {std::move(guard)}; }
void append(nest::Block& block, nest::Block more) {
  std::move(more.begin(), more.end(), std::back_inserter(block));
}
nest::For make_loop(std::string variable, Expr begin, Expr extent, nest::LoopKind kind) {
  nest::For loop;
  loop.variable = std::move(variable);
  loop.begin = std::move(begin);
  loop.extent = std::move(extent);
  loop.kind = kind;
  return loop;
}

Expr tidy(const Expr& e) {
  std::optional<LinearForm> form = linear_form(e);
  return form ? from_linear(*form) : e;
}

Block looped(const std::string& name, const Expr& begin, const Expr& extent, LoopKind kind,
             const std::function<Block(const Expr&)>& body) {
  if (extent.is_constant() && extent.value() <= 0) return {};
  nest::For loop = make_loop(name, begin, extent, kind);
  if (kind == LoopKind::vector) loop.width = extent.value();
  loop.body = body(Expr::variable(name));
  if (loop.body.empty()) return {};
  return {statement(std::move(loop))};
}

Block bound_to(const std::string& name, const Expr& value,
               const std::function<Block(const Expr&)>& body) {
  if (linear_form(value)) return body(tidy(value));
  return looped(name, value, 1, LoopKind::serial, body);
}

Block vector_lanes(const std::string& name, int64_t lanes,
                   const std::function<Block(const Expr&)>& body) {
  if (lanes == 1) return body(0);
  return looped(name, 0, lanes, LoopKind::vector, body);
}

Block only_if(std::vector<Expr> nonnegative, Block body) {
  if (nonnegative.empty() || body.empty()) return body;
  nest::If guard;
  guard.nonnegative = std::move(nonnegative);
  guard.then = std::move(body);
  return {statement(std::move(guard))};
}

}  // namespace tile::lowering
