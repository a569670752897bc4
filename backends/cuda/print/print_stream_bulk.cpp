// Streams whose boxes come by bulk copies (sm_90a): one group of warps copies, as far ahead as
// there are stages; the others multiply, each waiting for what it needs alone, so that one
// multiplies while another makes weights.
#include <algorithm>

#include "backends/cuda/matrix/matrix_parts.h"
#include "backends/cuda/print/stream_layout.h"
#include "backends/cuda/print/stream_pipeline.h"
#include "core/support/checked.h"

namespace tile::cuda {
namespace {

constexpr size_t kMostDimensions = 5;  // of a tensor map
constexpr int64_t kMostBox = 256;      // elements along one of them
constexpr int64_t kCopiedBytes = 16;   // that strides are multiples of
constexpr int64_t kBoxElements = 64;   // of 16 bits: a swizzled line of 128 bytes
// Registers of a thread that copies, and of one that multiplies where two or three groups do:
// multiples of 8 whose sum over all groups a launch of as many threads has. With one more the
// groups would wait for registers that never come.
constexpr int kCopyingRegisters = 24;
constexpr int kRegistersOfTwo = 240, kRegistersOfThree = 160;
constexpr int registers_of_launch(int groups) { return 512 / groups / 8 * 8 * groups; }
static_assert(kCopyingRegisters + 2 * kRegistersOfTwo <= registers_of_launch(3));
static_assert(kCopyingRegisters + 3 * kRegistersOfThree <= registers_of_launch(4));

int multiplying_registers(int64_t groups) {
  return groups == 2 ? kRegistersOfTwo : groups == 3 ? kRegistersOfThree : 0;
}

constexpr int64_t kValueWarps = 3;  // of the group that copies, beside the one of bulk copies

std::string number(int64_t n) { return std::to_string(n); }

}  // namespace

int64_t Printer::multiplying_groups(const StreamLayout& l) {
  return l.threads / kStreamGroupThreads;
}
// Groups issue the products of a turn one after the other: while the tensor cores multiply for one,
// another makes weights. Without an order both would multiply, and then both make weights. (Shah et
// al., FlashAttention-3, section 3.1.)
bool Printer::takes_turns(const StreamLayout& l) { return multiplying_groups(l) > 1; }

bool Printer::is_bulk_copy(const nest::Copy& copy) const {
  const nest::Buffer& from = buffer(copy.from);
  size_t inner = copy.order.back();
  size_t lines = copy.order[copy.order.size() - 2];
  if (written_.contains(copy.from) || from.shape[inner] < 2 || from.shape[lines] < 2) return false;
  size_t rank = 0;
  for (size_t d = 0; d < from.shape.size(); ++d) {
    if (from.shape[d] == 1) continue;
    ++rank;
    int64_t bytes = from.strides[d] * static_cast<int64_t>(byte_size(from.type));
    bool fits = d == inner ? from.strides[d] == 1 : bytes > 0 && bytes % kCopiedBytes == 0;
    if (!fits || copy.stride[d] != 1) return false;
  }
  return rank <= kMostDimensions && copy.extent[lines] <= kMostBox;
}

// One box for each 64 elements of a line.
std::string Printer::stream_boxes(const nest::Copy& copy, const std::string& part,
                                  const std::string& barrier, int64_t& bytes) {
  const nest::Buffer& from = buffer(copy.from);
  const nest::Buffer& to = buffer(copy.to);
  std::vector<size_t> dimensions = mapped(from, {copy.order.rbegin(), copy.order.rend()});
  size_t inner = dimensions[0];
  std::vector<int64_t> box = copy.extent;
  box[inner] = kBoxElements;
  std::string map = "map_" + std::to_string(stream_->kernel->maps.size());
  stream_->kernel->maps.push_back(
      tensor_map(from, copy.from, dimensions, copy.limit, box, copy.stride));
  std::string text;
  int64_t count = ceil_div(to.shape[1], kBoxElements), each = to.shape[0] * kStreamLineBytes;
  for (int64_t i = 0; i < count; ++i) {
    text += "box_load(" + part + " + " + number(stream_->at.at(copy.to) + i * each) + ", &" + map +
            ", " + barrier;
    for (size_t d : dimensions) {
      Expr at = d == inner ? copy.origin[d] + Expr(i * kBoxElements) : copy.origin[d];
      text += ", " + coordinate(at);
    }
    text += ");\n";
  }
  bytes += count * each;
  return text;
}

// Of the boxes before the loop one barrier; of each stage that it is full, and that it is empty; of
// each group that multiplies that it may issue its products.
void Printer::set_up_barriers() {
  const StreamLayout& l = *stream_;
  const std::string stages = number(l.stages);
  line("const u32 loaded = base + " + number(l.bytes()) +
       ", unloaded = loaded + 8, full = loaded + 16, empty = full + 8 * " + stages +
       ", turns = empty + 8 * " + stages + ";");
  open("if (threadIdx.x == 0) {");
  line("barrier_init(loaded, 1);");
  if (l.resident > 0) {
    line("barrier_init(unloaded, " + number(l.threads / target_.gpu.warp_size) + ");");
  }
  open("for (int i = 0; i < " + number(l.stages) + "; ++i) {");
  line("barrier_init(full + 8 * i, " + number(l.values.empty() ? 1 : 1 + kValueWarps) + ");");
  line("barrier_init(empty + 8 * i, " + number(l.threads / target_.gpu.warp_size) + ");");
  close();
  if (takes_turns(l)) {
    line("for (int i = 0; i < " + number(multiplying_groups(l)) +
         "; ++i) barrier_init(turns + 8 * i, " +
         number(kStreamGroupThreads / target_.gpu.warp_size) + ");");
  }
  close();
  line("barriers_ready();");
  line("const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);");
}

// What copies, and the beginning of what multiplies.
void Printer::divide_groups() {
  StreamLayout& l = *stream_;
  l.divided = true;
  int registers = multiplying_registers(multiplying_groups(l));
  std::string indices;
  if (l.resident > 0) {
    indices = text_.substr(l.indices_at);
    text_.resize(l.indices_at);
  }
  open("if (group == 0) {");
  if (registers > 0) line("fewer_registers<" + number(kCopyingRegisters) + ">();");
  copying_thread(indices);
  value_warps(indices);
  close(" else {");
  ++indent_;
  if (registers > 0) line("more_registers<" + number(registers) + ">();");
  if (l.resident == 0) return;
  line("u32 before = 0, slot = 0, next = 0, phase = 0, again = 0;");
  if (takes_turns(l)) line("u32 turn = group == 1;");
  open_tiles(indices);
}

// The loop of those that fill stages, each once it is empty.
void Printer::open_filling() {
  const nest::For& loop = *stream_->loop;
  Expr end = simplify(loop.begin + loop.extent, ranges_);
  line("#pragma unroll 1");
  open("for (int step = " + expression(loop.begin).text + "; step < " + expression(end).text +
       "; ++step) {");
  known(loop, "step");
}

void Printer::copying_thread(const std::string& indices) {
  const StreamLayout& l = *stream_;
  const nest::For& loop = *l.loop;
  const std::string first = expression(loop.begin).text;
  const std::string end = expression(simplify(loop.begin + loop.extent, ranges_)).text;
  open("if (threadIdx.x == 0) {");
  line("u32 slot = 0, phase = 0" + std::string(l.resident > 0 ? ", again = 1;" : ";"));
  if (l.resident > 0) open_tiles(indices);
  if (l.resident == 0) load_boxes_of_tile(first, end);
  open_filling();
  int64_t bytes = 0;
  std::string loads;
  for (const nest::Copy* c : l.steps) loads += stream_boxes(*c, "part", "full + 8 * slot", bytes);
  line("barrier_wait(empty + 8 * slot, phase ^ 1);");
  line("barrier_expect(full + 8 * slot, " + number(bytes) + ");");
  line(stream_stage("slot"));
  text_ += loads;
  if (l.resident > 0) load_boxes_of_tile(first, end);
  next_stage("slot");
  close();
  if (l.resident > 0) close();
  close();
}

// The other warps of the group that copies bring the values of columns.
void Printer::value_warps(const std::string& indices) {
  if (stream_->values.empty()) return;
  open("if (threadIdx.x >= 32) {");
  line("u32 slot = 0, phase = 0;");
  if (stream_->resident > 0) open_tiles(indices);
  open_filling();
  line("barrier_wait(empty + 8 * slot, phase ^ 1);");
  fill_values(target_.gpu.warp_size, kValueWarps * target_.gpu.warp_size);
  line("__syncwarp();");
  line("if (lane == 0) barrier_arrive(full + 8 * slot);");
  next_stage("slot");
  close();
  if (stream_->resident > 0) close();
  close();
}

// The stage of shared memory that products read.
std::string Printer::stream_stage(const std::string& slot) const {
  return "const u32 part = base + " + number(stream_->once_bytes) + " + " + slot + " * " +
         number(stream_->stage_bytes) + ";";
}
void Printer::next_stage(const std::string& slot) {
  open("if (++" + slot + " == " + number(stream_->stages) + ") {");
  line(slot + " = 0;");
  line("phase ^= 1;");
  close();
}
// The stage behind a tile's last one is the first of the next tile.
void Printer::advance_next(const std::string& when) {
  if (stream_->resident > 0) open("if (" + when + ") {");
  next_stage("next");
  if (stream_->resident > 0) close();
}
void Printer::release_stage(const std::string& slot, const std::string& when) {
  line("__syncwarp();");
  line("if (lane == 0" + when + ") barrier_arrive(empty + 8 * " + slot + ");");
}

void Printer::bulk_turns(const nest::For& loop, const std::string& first, const std::string& end) {
  auto cleared = [](const nest::Statement& s, nest::BufferId id) { return clears(s, id); };
  await_boxes(first, end);
  if (std::optional<ProductOrder> order = product_order(loop.body, nest_.buffers, cleared)) {
    return overlapped_turns(loop, *order, first, end);
  }
  if (stream_->resident == 0) line("u32 slot = 0, phase = 0;");
  line("#pragma unroll 1");
  open("for (int step = " + first + "; step < " + end + "; ++step) {");
  line("barrier_wait(full + 8 * slot, phase);");
  line(stream_stage("slot"));
  name_values();
  stream_exponentials_ = true;
  stream_block(loop.body);
  stream_exponentials_ = false;
  release_stage("slot", "");
  next_stage("slot");
  close();
  release_boxes(first, end, false);
}

// What makes registers that products read or add to may not move between products that run, nor
// what needs their results before the wait.
void Printer::settle(nest::BufferId fragment) { line("group_settle(" + names_[fragment] + ");"); }
// The sums that live through the loop.
void Printer::settle_sums(const nest::Block& body, const ProductOrder& order) {
  for (const ProductOrder::Issue& one : order.issues) {
    if (!one.ahead) settle(std::get<nest::MatrixTile>(body[one.statement].what).sum);
  }
}
void Printer::wait_for_products(const nest::Block& body, const ProductOrder& order, size_t at) {
  auto wait = order.waits.find(at);
  if (wait == order.waits.end()) return;
  line("group_wait<" + number(wait->second.running) + ">();");
  for (size_t i : wait->second.ended) settle(std::get<nest::MatrixTile>(body[i].what).sum);
}

void Printer::issue_product(const nest::MatrixTile& m, bool fresh) {
  multiply_by_groups(m, fresh);
  line("group_commit();");
}

// Products of the first turn: of those that a turn issues for itself there are empty groups, so
// that waits count alike in all turns.
void Printer::first_products(const nest::Block& body, const ProductOrder& order,
                             const std::string& first, const std::string& end) {
  settle_sums(body, order);
  open("{");
  line("if (" + first + " < " + end + ") barrier_wait(full + 8 * next, phase);");
  line(stream_stage("next"));
  for (const ProductOrder::Issue& one : order.issues) {
    if (!one.ahead) {
      line("group_commit();");
    } else {
      issue_product(std::get<nest::MatrixTile>(body[one.statement].what), true);
    }
  }
  close();
  wait_for_products(body, order, body.size());
}

// The first group's first turn passes a barrier whose phase before is taken for over.
void Printer::await_turn() {
  if (!takes_turns(*stream_)) return;
  const std::string turn = "(turns + 8 * (group - 1), turn)";
  line("if (!barrier_passed" + turn + ") barrier_wait" + turn + ";");
}
void Printer::pass_turn() {
  if (!takes_turns(*stream_)) return;
  line("__syncwarp();");
  line("if (lane == 0) barrier_arrive(turns + 8 * (group % " +
       number(multiplying_groups(*stream_)) + "));");
  line("turn ^= 1;");
}

void Printer::await_next_stage(const std::string& end) {
  line("if (step + 1 < " + end + ") barrier_wait(full + 8 * next, phase);");
  next_awaited_ = true;
}

// ptxas moves exponentials of the maxima ahead of the branch that waits for the stage, where they
// stand alone: sums, conversions and scaling, which could be issued between them, stay behind it.
// A shuffle stays where it is, and what needs its result.
void Printer::hold_maxima(const nest::Statement& maxima) {
  const auto* loop = std::get_if<nest::For>(&maxima.what);
  if (loop == nullptr) return;
  for (const nest::Store* s : stores_in(loop->body)) {
    if (s->kind != nest::StoreKind::max || !is_row_fragment(s->target.buffer)) continue;
    const std::string& name = names_[s->target.buffer];
    line("for (int h = 0; h < " + number(stream_->lane_rows) + "; ++h) " + name +
         "[h] = stream_held(" + name + "[h]);");
  }
}

// The products that are issued before the statement, or at the end; those of the next turn first.
void Printer::issue_products(const nest::Block& body, const ProductOrder& order, size_t before,
                             const std::string& end) {
  for (const ProductOrder::Issue& one : order.issues) {
    if (one.ahead || one.before != before) continue;
    settle(std::get<nest::MatrixTile>(body[one.statement].what).sum);
    settle(std::get<nest::MatrixTile>(body[one.statement].what).a);
  }
  if (order.issues.front().before == before) await_turn();
  bool some = false;
  for (const ProductOrder::Issue& one : order.issues) {
    if (one.before != before) continue;
    if (one.ahead && !some) {
      open("{");
      if (!next_awaited_) await_next_stage(end);
      line(stream_stage("next"));
    }
    if (!one.ahead && some) close();
    some = one.ahead;
    if (order.waiting_issue > 0 && &one == &order.issues[order.waiting_issue]) {
      line("group_wait<1>();");
      settle_sums(body, order);
    }
    const auto& product = std::get<nest::MatrixTile>(body[one.statement].what);
    bool fresh = one.statement > 0 && clears(body[one.statement - 1], product.sum);
    issue_product(product, fresh);
  }
  if (some) close();
  if (order.issues.back().before == before) pass_turn();
}

// The statement is a product, or clears the sum of the product behind it, which does that itself.
bool Printer::is_product(const nest::Block& body, size_t i) {
  if (std::holds_alternative<nest::MatrixTile>(body[i].what)) return true;
  const auto* next =
      i + 1 < body.size() ? std::get_if<nest::MatrixTile>(&body[i + 1].what) : nullptr;
  return next != nullptr && clears(body[i], next->sum);
}
// Nothing is issued, waited for or released before the statement.
bool Printer::stands_alone(const nest::Block& body, const ProductOrder& order, size_t i) {
  bool issues = std::any_of(order.issues.begin(), order.issues.end(),
                            [&](const auto& one) { return one.before == i; });
  return !issues && !is_product(body, i) && !order.waits.contains(i) && order.released != i;
}

// Statements from the given one on that are printed together.
size_t Printer::end_of_run(const nest::Block& body, const ProductOrder& order, size_t begin) const {
  size_t last = begin + 1;
  while (last < body.size() && stands_alone(body, order, last)) ++last;
  return last;
}

// `slot` is the turn's stage, `next` the one that products ahead read; `before` the last turn's.
void Printer::overlapped_turns(const nest::For& loop, const ProductOrder& order,
                               const std::string& first, const std::string& end) {
  const nest::Block& body = loop.body;
  if (stream_->resident == 0) {
    line("u32 before = 0, slot = 0, next = 0, phase = 0;");
    if (takes_turns(*stream_)) line("u32 turn = group == 1;");
  }
  first_products(body, order, first, end);
  advance_next(first + " < " + end);
  line("#pragma unroll 1");
  open("for (int step = " + first + "; step < " + end + "; ++step) {");
  line(stream_stage("slot"));
  name_values();
  stream_exponentials_ = true;
  next_awaited_ = false;
  for (size_t i = 0; i < body.size(); ++i) {
    issue_products(body, order, i, end);
    if (is_product(body, i)) continue;
    if (i == order.behind_maximum && stream_->stages > 2) await_next_stage(end);
    wait_for_products(body, order, i);
    if (i > 0 && i == order.behind_maximum && stream_->stages > 2) hold_maxima(body[i - 1]);
    if (i == order.released) release_stage("before", " && step > " + first);
    size_t last = end_of_run(body, order, i);
    stream_block({body.begin() + static_cast<std::ptrdiff_t>(i),
                  body.begin() + static_cast<std::ptrdiff_t>(last)});
    i = last - 1;
  }
  issue_products(body, order, body.size(), end);
  wait_for_products(body, order, body.size());
  stream_exponentials_ = false;
  line("before = slot;");
  line("slot = next;");
  advance_next("step + 1 < " + end);
  close();
  line("group_wait<0>();");
  settle_sums(body, order);
  release_boxes(first, end, true);
}

}  // namespace tile::cuda
