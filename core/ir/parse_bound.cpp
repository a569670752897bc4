// Reads the text form that print_bound.cpp describes.
#include <algorithm>
#include <map>
#include <utility>

#include "core/ir/bound.h"
#include "core/ir/bound_text.h"
#include "core/ir/ranks/rank_program.h"
#include "core/ir/scalar.h"
#include "core/ir/text.h"

namespace tile {
namespace {

bool at_digit(const TextReader& reader) {
  for (char digit = '0'; digit <= '9'; ++digit) {
    if (reader.peek(std::string_view(&digit, 1))) return true;
  }
  return false;
}

// "2*i - 1/3*k + 1" over the given names.
class AffineReader {
 public:
  AffineReader(TextReader& reader, const std::vector<std::string>& names)
      : reader_(reader), names_(names) {}

  Affine read() {
    Affine form = term(reader_.accept("-"));
    while (true) {
      if (reader_.accept("+")) {
        form = form + term(false);
      } else if (reader_.accept("-")) {
        form = form + term(true);
      } else {
        return form;
      }
    }
  }

 private:
  Affine term(bool negative) {
    Rational factor = 1;
    bool number = at_digit(reader_);
    if (number) factor = reader_.rational();
    if (negative) factor = -factor;
    if (number && !reader_.accept("*")) return constant_affine(factor);
    return iterator() * factor;
  }

  Affine iterator() {
    std::string name = reader_.name();
    auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) reader_.wrong("an unknown of the piece");
    return iterator_affine(static_cast<size_t>(found - names_.begin()));
  }

  TextReader& reader_;
  const std::vector<std::string>& names_;
};

// The end of an exchange before it is read.
constexpr size_t kTravels = SIZE_MAX;

class Parser {
 public:
  // `rank` gets the exchanges and parts of a rank's program; null: the text is of another one.
  Parser(SourcePtr source, RankProgram* rank) : reader_(source), rank_(rank) {
    program_.source = std::move(source);
  }

  BoundProgram run() {
    declarations();
    while (!reader_.at_end()) statement();
    return std::move(program_);
  }

 private:
  void declarations() {
    while (reader_.accept("tensor")) tensor();
    reader_.expect("inputs");
    program_.inputs = tensor_list();
    reader_.expect("outputs");
    program_.outputs = tensor_list();
  }

  template <size_t N>
  size_t word(const std::array<std::string_view, N>& words, const char* expected) {
    for (size_t i = 0; i < N; ++i) {
      if (reader_.accept(words[i])) return i;
    }
    reader_.wrong(expected);
  }

  void tensor() {
    BoundTensor t;
    t.name = reader_.name();
    reader_.expect(":");
    t.type = reader_.type();
    t.shape = reader_.integers();
    t.role = static_cast<TensorRole>(word(kRoleNames, "input, temporary or output"));
    if (reader_.accept("view")) t.view_of = tensor_id();
    t.tf32_parts = reader_.accept("parts");
    t.fixed = reader_.accept("fixed");
    if (reader_.accept("constant")) t.constant = elements(t.type);
    auto id = TensorId(program_.tensors.size());
    if (!ids_.emplace(t.name, id).second) reader_.wrong("a new tensor name");
    program_.tensors.push_back(std::move(t));
  }

  std::shared_ptr<const std::vector<std::byte>> elements(DType type) {
    std::vector<Scalar> values = list([&] {
      return is_float(type) ? real_scalar(reader_.real(), type)
                            : integer_scalar(reader_.integer(), type);
    });
    std::vector<std::byte> bytes(values.size() * byte_size(type));
    for (size_t i = 0; i < values.size(); ++i) {
      store_element(&bytes[i * byte_size(type)], values[i]);
    }
    return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  }

  TensorId tensor_id() {
    auto found = ids_.find(reader_.name());
    if (found == ids_.end()) reader_.wrong("a tensor after its declaration");
    return found->second;
  }

  template <class Element>
  auto list(Element element) -> std::vector<decltype(element())> {
    std::vector<decltype(element())> all;
    reader_.expect("[");
    while (!reader_.accept("]")) {
      if (!all.empty()) reader_.expect(",");
      all.push_back(element());
    }
    return all;
  }
  std::vector<TensorId> tensor_list() {
    return list([this] { return tensor_id(); });
  }

  void statement() {
    if (reader_.accept("contraction")) {
      program_.statements.emplace_back(contraction());
    } else if (reader_.accept("sort")) {
      program_.statements.emplace_back(sort());
    } else if (reader_.accept("scatter")) {
      program_.statements.emplace_back(scatter());
    } else if (reader_.accept("repeat")) {
      program_.statements.emplace_back(repeat());
    } else if (rank_ != nullptr && reader_.accept("exchange")) {
      exchange();
    } else if (rank_ != nullptr && reader_.accept("end")) {
      end_of_exchange();
    } else if (rank_ != nullptr && reader_.accept("part")) {
      part_of_tensor();
    } else {
      reader_.wrong("contraction, sort, scatter or repeat");
    }
  }

  BoundRepeat repeat() {
    BoundRepeat r;
    r.result = tensor_id();
    reader_.expect("=");
    r.trips = reader_.integer();
    reader_.expect("of");
    r.operands = tensor_list();
    reader_.expect("{");
    BoundProgram around = std::exchange(program_, {});
    program_.source = around.source;
    auto ids = std::exchange(ids_, {});
    declarations();
    while (!reader_.accept("}")) statement();
    r.step = std::make_shared<const BoundProgram>(std::exchange(program_, std::move(around)));
    ids_ = std::move(ids);
    return r;
  }

  void exchange() {
    PlacedExchange placed{program_.statements.size(), {}};
    Exchange& e = placed.what;
    e.result = tensor_id();
    reader_.expect("=");
    e.source = tensor_id();
    bool plain = reader_.peek("{") || reader_.peek("sparse") || reader_.peek("piece") ||
                 reader_.peek("travels");
    if (!plain) e.reduction = aggregation();
    e.sparse = reader_.accept("sparse");
    e.piece = reader_.accept("piece");
    if (reader_.accept("travels")) placed.end = kTravels;
    reader_.expect("{");
    while (reader_.accept("send")) e.sends.push_back(part());
    while (reader_.accept("receive")) e.receives.push_back(part());
    reader_.expect("}");
    rank_->exchanges.push_back(std::move(placed));
  }

  void end_of_exchange() {
    TensorId result = tensor_id();
    for (PlacedExchange& placed : rank_->exchanges) {
      if (placed.end != kTravels || placed.what.result != result) continue;
      placed.end = program_.statements.size();
      return;
    }
    reader_.wrong("the result of an exchange that travels");
  }

  void part_of_tensor() {
    PartOfTensor part;
    part.part = tensor_id();
    reader_.expect("of");
    part.whole = tensor_id();
    part.at = reader_.integers();
    rank_->parts.push_back(std::move(part));
  }

  Exchange::Part part() {
    Exchange::Part p;
    p.rank = reader_.integer();
    p.box.lo = reader_.integers();
    reader_.expect("to");
    p.box.hi = reader_.integers();
    if (p.box.hi.size() != p.box.lo.size()) reader_.wrong("a box whose ends have one rank");
    return p;
  }

  Aggregation aggregation() {
    constexpr auto kAggregations = std::to_array<std::string_view>({"+", "*", ">", "<", "="});
    return static_cast<Aggregation>(word(kAggregations, "an aggregation"));
  }

  Contraction contraction() {
    Contraction c;
    c.outputs = tensor_list();
    c.aggregation = aggregation();
    c.accumulator = reader_.type();
    if (reader_.accept("default")) c.fill = tensor_id();
    c.normalized = reader_.accept("normalized");
    c.promised_injective = reader_.accept("injective");
    reader_.expect("{");
    while (!reader_.accept("}")) c.pieces.push_back(piece());
    return c;
  }

  Sort sort() {
    Sort s;
    s.result = tensor_id();
    reader_.expect("=");
    s.source = tensor_id();
    reader_.expect("axis");
    s.axis = reader_.integer();
    s.indices = reader_.accept("indices");
    return s;
  }

  Scatter scatter() {
    Scatter s;
    s.result = tensor_id();
    reader_.expect("=");
    s.updates = tensor_id();
    reader_.expect("at");
    s.indices = tensor_id();
    return s;
  }

  Piece piece() {
    Piece p;
    reader_.expect("piece");
    p.iterators = IdVector<IteratorId, std::string>(list([this] { return reader_.name(); }));
    if (reader_.accept("box")) p.box = IterationBox(reader_.integers());
    if (reader_.accept("parallel")) p.parallel_dims = static_cast<size_t>(reader_.integer());
    reader_.expect("{");
    while (reader_.accept("where")) p.constraints.push_back(constraint(p));
    while (reader_.accept("store")) p.stores.push_back(access(p));
    while (reader_.accept("load")) p.loads.push_back(access(p));
    reader_.expect("body");
    p.body = parse_body(reader_);
    reader_.expect("}");
    return p;
  }

  Constraint constraint(const Piece& p) {
    Constraint c;
    c.integral = reader_.accept("integral");
    c.lo = reader_.integer();
    reader_.expect("<=");
    c.form = AffineReader(reader_, p.iterators).read();
    reader_.expect("<");
    c.hi = reader_.integer();
    return c;
  }

  Access access(const Piece& p) {
    Access a;
    a.tensor = tensor_id();
    a.index = list([&] { return index(p); });
    return a;
  }

  Index index(const Piece& p) {
    Index i;
    if (reader_.accept("%")) {
      i.value = static_cast<int>(reader_.integer());
    } else {
      i.affine = AffineReader(reader_, p.iterators).read();
    }
    if (reader_.accept("!")) {
      i.boundary = static_cast<Boundary>(word(kBoundaryNames, "a boundary rule"));
    }
    return i;
  }

  TextReader reader_;
  RankProgram* rank_;
  BoundProgram program_;
  std::map<std::string, TensorId> ids_;
};

}  // namespace

BoundProgram parse_bound(SourcePtr source) { return Parser(std::move(source), nullptr).run(); }

RankProgram parse_rank_program(SourcePtr source) {
  RankProgram result;
  result.program = Parser(std::move(source), &result).run();
  return result;
}

}  // namespace tile
