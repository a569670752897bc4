// The bodies under construction: one for the tensor that is being defined and, inside it, one for
// the region of each open loop. A value is named by the frame that holds it; using a value of an
// outer frame captures it in every frame in between. Operations on constants are computed at once,
// so that indices of unrolled loops become constants.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/body.h"
#include "core/ir/program.h"
#include "core/ir/scalar.h"

namespace tile::mfg {

// A scalar value. Narrow integers are carried in i32, truth values in i32 as 0 and 1.
struct Ref {
  size_t frame = 0;
  NodeId id;
};

inline constexpr size_t kMaxNodes = 40'000;  // of a tensor's body, regions included
inline constexpr int64_t kMaxUnrolledTrips = 32;
inline constexpr size_t kMaxUnrolledNodes = 1024;  // a loop that unrolls to more stays a loop

class Frames {
 public:
  Frames() { frames_.emplace_back(); }

  // Where errors that name no place of their own point.
  void at(Span span) { span_ = span; }
  Span span() const { return span_; }
  size_t depth() const { return current_; }

  Ref integer(int64_t value, DType type = DType::i32);
  Ref real(double value);
  Ref index(size_t slot);      // i32
  Ref size(const Expr& expr);  // i32
  Ref operation(Op op, const std::vector<Ref>& args, DType type);
  Ref cast(Ref value, DType type);  // between i32, u32, f32, i64
  Ref condition(Ref value);         // bool: not equal to zero
  Ref truth(Ref condition);         // i32: 0 or 1
  Ref select(Ref condition, Ref yes, Ref no);
  // The element that access `slot` reads at the i32 indices.
  Ref load(size_t slot, const std::vector<Ref>& indices, DType type);

  DType type_of(Ref value) const { return node(value).type; }
  std::optional<Scalar> constant(Ref value) const;

  // for counter in begin ..< end (i32): carried = region(counter, carried). The region's results
  // have the starts' types. With op add: the sum of the region's results, whose types are free;
  // starts are empty.
  using Region = std::function<std::vector<Ref>(Ref counter, const std::vector<Ref>& carried)>;
  std::vector<Ref> fold(Op op, Ref begin, Ref end, const std::vector<Ref>& starts,
                        const Region& region);

  // Runs `build` with the outermost frame as the current one.
  void in_root(const std::function<void()>& build);

  // The outermost body with the given results.
  Body finish(const std::vector<Ref>& results);
  const Body& root() const { return frames_[0].body; }

  // Accesses of the body: one for each tensor and component.
  struct AccessKey {
    TensorId tensor;
    int component = -1;  // -1: the tensor has no component dimension
    int rank = 0;        // of the indices given at run time
  };
  int access(const AccessKey& key);
  const std::vector<AccessKey>& accesses() const { return accesses_; }
  // The element of a literal tensor at constant indices; empty: not a literal.
  std::function<std::optional<Scalar>(TensorId, std::span<const int64_t>)> literal;

 private:
  struct Frame {
    Body body;
    std::map<NodeId, NodeId> captured;  // node of the enclosing frame → argument node here
    std::vector<NodeId> captures;       // nodes of the enclosing frame, in order
    IdVector<NodeId, uint8_t> cheap;    // for each node: how many nodes a copy takes, 0: too many
  };

  Frame& top() { return frames_[current_]; }
  const Node& node(Ref value) const { return frames_[value.frame].body[value.id]; }
  NodeId use(Ref value) { return use_in(current_, value); }
  NodeId use_in(size_t frame, Ref value);
  NodeId copy_cheap(size_t frame, Ref value);
  NodeId add_to(size_t frame, Node node);
  Ref add(Node node) { return {current_, add_to(current_, std::move(node))}; }
  void set_arguments(Frame& frame, size_t carried);
  bool unrolls(const Frame& frame, std::optional<Scalar> begin, std::optional<Scalar> end) const;
  std::vector<Ref> unroll(Op op, const Frame& frame, int64_t begin, int64_t end,
                          const std::vector<Ref>& starts);
  std::vector<Ref> copy_region(const Frame& frame, Ref counter, const std::vector<Ref>& carried);
  Ref copy_node(const Node& node, const IdVector<NodeId, Ref>& copies);
  std::vector<Ref> emit_fold(Op op, Ref begin, Ref end, const std::vector<Ref>& starts, Frame frame,
                             const std::vector<DType>& types);

  std::vector<Frame> frames_;
  std::vector<AccessKey> accesses_;
  size_t current_ = 0;
  size_t nodes_ = 0;
  Span span_;
};

}  // namespace tile::mfg
