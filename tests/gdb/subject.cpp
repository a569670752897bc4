// A program to stop in: what the printers of core/support/gdb show.
#include "core/nest/nest.h"

namespace tile {
namespace {

[[gnu::noinline]] void stop_here(const Expr& expression, const Body& body, const nest::Nest& nest) {
  asm volatile("" : : "r"(&expression), "r"(&body), "r"(&nest) : "memory");
}

nest::Nest copy_nest() {
  nest::Nest nest;
  nest.name = "double_it";
  for (const char* name : {"A", "B"}) {
    nest::Buffer buffer;
    buffer.name = name;
    buffer.shape = {8};
    buffer.strides = {1};
    nest.buffers.push_back(std::move(buffer));
  }
  nest.buffers[1].written = true;
  nest::Store store;
  store.target = {nest::BufferId(1), {Expr::variable("i")}, {}};
  store.loads = {{nest::BufferId(0), {Expr::variable("i")}, {}}};
  NodeId value = store.body.load(0, DType::f32);
  store.body.results = {store.body.operation(Op::add, {value, value}, DType::f32)};
  nest::For loop;
  loop.variable = "i";
  loop.begin = Expr(0);
  loop.extent = Expr(8);
  loop.kind = nest::LoopKind::parallel;
  loop.body = {{store}};
  nest.body = {{loop}};
  return nest;
}

}  // namespace
}  // namespace tile

int main() {
  using namespace tile;
  Expr i = Expr::variable("i"), expression = Expr::variable("M") * 8 + min(i, Expr(3));
  nest::Nest nest = copy_nest();
  const auto& loop = std::get<nest::For>(nest.body[0].what);
  const auto& store = std::get<nest::Store>(loop.body[0].what);
  stop_here(expression, store.body, nest);
  return 0;
}
