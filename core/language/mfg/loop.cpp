// rsum, reduce, T.sum, T.for_each and reduce<T>.
#include <functional>
#include <set>

#include "core/language/mfg/elaborate.h"

namespace tile::mfg {

Elaborator::Range Elaborator::range(const Syntax& node) {
  std::vector<Ref> ends;
  for (SyntaxId id : node.args) {
    Value v = expression(id);
    if (v.type.tuple || !is_integer(v.type.parts[0])) {
      fail(Stage::parse, "type", at(id).span,
           "expected integers as the ends of a range, found " + to_string(v.type));
    }
    ends.push_back(arithmetic_.convert(v.part(0), DType::i32).ref);
  }
  return {ends[0], ends[1]};
}

Elaborator::LoopArguments Elaborator::loop_arguments(const Syntax& call, bool takes_init) {
  LoopArguments loop;
  std::string name(call.text);
  for (SyntaxId id : call.args) {
    const Syntax& arg = at(id);
    bool init = takes_init && arg.kind == SyntaxKind::named && arg.text == "init" && !loop.init;
    if (init) {
      loop.init = expression(arg.args[0]);
    } else if (arg.kind == SyntaxKind::range) {
      loop.ranges.push_back(range(arg));
    } else {
      fail(Stage::parse, "syntax", arg.span,
           "expected a range such as 0..<4 as an argument of " + name +
               (takes_init ? ", or one init=…" : ""));
    }
  }
  if (loop.ranges.empty() || loop.ranges.size() > 2) {
    fail(Stage::parse, "arity", call.span,
         "expected one or two ranges in " + name + ", found " + std::to_string(loop.ranges.size()));
  }
  if (takes_init && !loop.init) {
    fail(Stage::parse, "arity", call.span, "expected init=… among the arguments of " + name);
  }
  if (call.block < 0) {
    fail(Stage::parse, "syntax", {call.span.end - 1, call.span.end},
         "expected a block after " + name + "(…), as in |i| {…}");
  }
  return loop;
}

// The first range is the innermost.
std::vector<Ref> Elaborator::ordered_loop(const std::vector<Range>& ranges,
                                          const std::vector<Ref>& starts, const Ordered& body) {
  Counters counters(ranges.size());
  std::function<std::vector<Ref>(size_t, const std::vector<Ref>&)> nest =
      [&](size_t levels, const std::vector<Ref>& carried) {
        if (levels == 0) return body(counters, carried);
        const Range& r = ranges[levels - 1];
        return frames_.fold(Op::ident, r.begin, r.end, carried,
                            [&](Ref counter, const std::vector<Ref>& state) {
                              counters[levels - 1] = counter;
                              counters_.push_back(counter);
                              std::vector<Ref> next = nest(levels - 1, state);
                              counters_.pop_back();
                              return next;
                            });
      };
  return nest(ranges.size(), starts);
}

std::vector<Ref> Elaborator::unordered_loop(const std::vector<Range>& ranges,
                                            const Unordered& body) {
  Counters counters(ranges.size());
  std::function<std::vector<Ref>(size_t)> nest = [&](size_t levels) {
    if (levels == 0) return body(counters);
    const Range& r = ranges[levels - 1];
    return frames_.fold(Op::add, r.begin, r.end, {}, [&](Ref counter, const std::vector<Ref>&) {
      counters[levels - 1] = counter;
      counters_.push_back(counter);
      std::vector<Ref> parts = nest(levels - 1);
      counters_.pop_back();
      return parts;
    });
  };
  return nest(ranges.size());
}

Value Elaborator::rsum(const Syntax& node) {
  LoopArguments loop = loop_arguments(node, false);
  return sum_over(loop.ranges, node.block,
                  "rsum over " + std::to_string(loop.ranges.size()) +
                      (loop.ranges.size() == 1 ? " range" : " ranges"),
                  nullptr);
}

// The sum of a block's values; narrow integers add as i32. With a tensor the block is given the
// element too.
Value Elaborator::sum_over(const std::vector<Range>& ranges, BlockId block, const std::string& what,
                           const TensorUse* tensor) {
  Type type;
  std::vector<Ref> sums = unordered_loop(ranges, [&](const Counters& counters) {
    std::vector<Value> values;
    for (Ref c : counters) values.push_back(scalar_value({c, DType::i32}));
    if (tensor != nullptr) values.push_back(read_addressed(*tensor, counters));
    Value v = run_block(block, block_arguments(block, values, what));
    v = arithmetic_.map(v, [&](Part p) { return arithmetic_.widen(p, compute_type(p.type)); });
    type = v.type;
    return v.parts;
  });
  return {type, sums};
}

Value Elaborator::reduce(const Syntax& node) {
  LoopArguments loop = loop_arguments(node, true);
  const Value& init = *loop.init;
  std::vector<Ref> result = ordered_loop(
      loop.ranges, init.parts, [&](const Counters& counters, const std::vector<Ref>& carried) {
        std::vector<Value> values;
        for (Ref c : counters) values.push_back(scalar_value({c, DType::i32}));
        values.push_back({init.type, carried});
        Value next = run_block(
            node.block, block_arguments(node.block, values,
                                        "reduce over " + std::to_string(loop.ranges.size()) +
                                            (loop.ranges.size() == 1 ? " range" : " ranges")));
        if (next.type != init.type) {
          fail(Stage::parse, "type", at(block_at(node.block).value).span,
               "expected a block value of init's type " + to_string(init.type) + ", found " +
                   to_string(next.type));
        }
        return next.parts;
      });
  return {init.type, result};
}

std::vector<Elaborator::Range> Elaborator::ranges_of(const TensorUse& tensor) {
  std::vector<Range> ranges;
  for (int d = 0; d < tensor.rank(); ++d) {
    ranges.push_back({frames_.integer(0), extent(tensor, d)});
  }
  return ranges;
}

Value Elaborator::tensor_sum(const TensorUse& tensor, const Syntax& node) {
  if (!node.args.empty() || node.block < 0) {
    fail(Stage::parse, "syntax", node.span,
         "expected a block and no arguments after sum, as in T.sum |i, j, e| {…}");
  }
  return sum_over(ranges_of(tensor), node.block, "sum over '" + tensor.name() + "'", &tensor);
}

// The local tensors that a block's mut! may change.
std::vector<std::shared_ptr<LocalTensor>> Elaborator::changed_in(BlockId block) {
  std::vector<std::shared_ptr<LocalTensor>> changed;
  std::vector<BlockId> todo = {block};
  std::set<std::string_view> seen;
  while (!todo.empty()) {
    const BlockSyntax& b = block_at(todo.back());
    todo.pop_back();
    for (const StatementSyntax& s : b.statements) {
      if (s.kind == StatementKind::for_each && at(s.value).block >= 0) {
        todo.push_back(at(s.value).block);
      }
      if (s.kind != StatementKind::mutate || !seen.insert(at(s.target).text).second) continue;
      const Binding* binding = find_local(at(s.target).text);
      const auto* use = binding != nullptr ? std::get_if<TensorUse>(binding) : nullptr;
      if (use != nullptr && use->local) changed.push_back(use->local);
    }
  }
  return changed;
}

void Elaborator::for_each(const Syntax& node) {
  TensorUse tensor = tensor_named(node.text, node.span);
  if (!node.args.empty() || node.block < 0) {
    fail(Stage::parse, "syntax", node.span,
         "expected a block and no arguments after for_each, as in T.for_each |i, j, e| {…}");
  }
  std::vector<std::shared_ptr<LocalTensor>> changed = changed_in(node.block);
  std::vector<Ref> starts;
  std::vector<size_t> depths;
  for (const auto& local : changed) {
    starts.insert(starts.end(), local->cells.begin(), local->cells.end());
    depths.push_back(local->depth);
    if (local->depth != frames_.depth()) {
      fail(Stage::parse, "type", node.span,
           "mut! changes '" + local->name + "' inside a loop that is not a for_each");
    }
  }
  auto put_back = [&](const std::vector<Ref>& cells) {
    size_t next = 0;
    for (const auto& local : changed) {
      for (Ref& cell : local->cells) cell = cells[next++];
      local->depth = frames_.depth();
    }
  };
  std::vector<Ref> result = ordered_loop(
      ranges_of(tensor), starts, [&](const Counters& counters, const std::vector<Ref>& carried) {
        put_back(carried);
        std::vector<Value> values;
        for (Ref c : counters) values.push_back(scalar_value({c, DType::i32}));
        values.push_back(read_addressed(tensor, counters));
        run_statements(node.block, block_arguments(node.block, values,
                                                   "for_each over '" + tensor.name() + "'"));
        std::vector<Ref> cells;
        for (const auto& local : changed) {
          cells.insert(cells.end(), local->cells.begin(), local->cells.end());
        }
        return cells;
      });
  put_back(result);
}

Elaborator::Reduction Elaborator::reduction(const Syntax& node) {
  Reduction r;
  r.tensor = tensor_named(node.text, node.span);
  r.block = node.block;
  r.span = node.span;
  r.finds_index = node.member == "find_first_index";
  if (!r.finds_index && node.member != "accumulate") {
    fail(Stage::parse, "name", node.span,
         "expected accumulate or find_first_index after reduce<T>, found '" +
             std::string(node.member) + "'");
  }
  bool dim = false;
  for (SyntaxId id : node.args) {
    const Syntax& arg = at(id);
    std::string_view name = arg.kind == SyntaxKind::named ? arg.text : "";
    if (name == "init" && !r.finds_index && !r.init) {
      r.init = expression(arg.args[0]);
      continue;
    }
    std::optional<Scalar> which;
    if (name == "dim" && !dim) {
      Value v = expression(arg.args[0]);
      if (!v.type.tuple && is_integer(v.type.parts[0])) which = frames_.constant(v.parts[0]);
    }
    if (!which || which->i < 0 || which->i >= r.tensor.rank()) {
      fail(Stage::parse, "syntax", arg.span,
           std::string("expected dim=… with the number of a dimension") +
               (r.finds_index ? "" : " and one init=…"));
    }
    dim = true;
    r.dimension = static_cast<int>(which->i);
  }
  if (!dim || (!r.finds_index && !r.init)) {
    fail(Stage::parse, "arity", node.span,
         std::string("expected dim=…") + (r.finds_index ? "" : " and init=…") +
             " among the arguments of " + std::string(node.member));
  }
  if (r.finds_index) r.init = scalar_value(arithmetic_.integer(-1));
  return r;
}

Value Elaborator::reduce_along(const Reduction& r, std::optional<Ref> position) {
  const Value& init = *r.init;
  Range along = ranges_of(r.tensor)[static_cast<size_t>(r.dimension)];
  std::vector<Ref> result = ordered_loop(
      {along}, init.parts, [&](const Counters& counters, const std::vector<Ref>& carried) {
        std::vector<Ref> index = {counters[0]};
        if (position) index.insert(r.dimension == 0 ? index.end() : index.begin(), *position);
        std::vector<Value> values;
        for (Ref i : index) values.push_back(scalar_value({i, DType::i32}));
        values.push_back(read_addressed(r.tensor, index));
        if (!r.finds_index) values.push_back({init.type, carried});
        Value next = run_block(r.block, block_arguments(r.block, values, "reduce<T>"));
        if (!r.finds_index && next.type == init.type) return next.parts;
        bool condition = r.finds_index && !next.type.tuple && is_integer(next.type.parts[0]);
        if (!condition) {
          fail(Stage::parse, "type", at(block_at(r.block).value).span,
               r.finds_index ? "expected an integer condition, found " + to_string(next.type)
                             : "expected a block value of init's type " + to_string(init.type) +
                                   ", found " + to_string(next.type));
        }
        Ref found = frames_.operation(Op::ge, {carried[0], frames_.integer(0)}, DType::bool_);
        Ref here =
            frames_.select(frames_.condition(next.parts[0]), counters[0], frames_.integer(-1));
        return std::vector<Ref>{frames_.select(found, carried[0], here)};
      });
  return {init.type, result};
}

// As an expression: the reduction of a tensor of one dimension is a value.
Value Elaborator::tensor_reduce_value(const Syntax& node) {
  Reduction r = reduction(node);
  if (r.tensor.rank() != 1) {
    fail(Stage::parse, "type", node.span,
         "expected a tensor of one dimension: the reduction of '" + r.tensor.name() +
             "' is a tensor",
         "write def NAME by reduce<…>…");
  }
  return reduce_along(r, std::nullopt);
}

}  // namespace tile::mfg
