#include "runtime/cli/format/spacing.h"

#include <algorithm>
#include <array>
#include <string>

namespace tile::cli {
namespace {

template <size_t N>
bool one_of(std::string_view text, const std::array<std::string_view, N>& list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Apart on both sides in every language.
constexpr auto kApart = std::to_array<std::string_view>(
    {"->", "=>", "?", "==", "!=", "<=", ">=", "&&", "||", "|>", "+=", "$"});
// As the author wrote them, apart or close on both sides alike: x*y + 1.
constexpr auto kArithmetic =
    std::to_array<std::string_view>({"+", "-", "*", "/", "%", "^", "&", "<<", ">>", "<", ">", "|"});
// Names behind which an expression or a pattern begins.
constexpr auto kKeywords =
    std::to_array<std::string_view>({"function", "let", "in", "by", "def", "fn", "val", "default"});
// Symbols of several characters, which two pieces put together must not become.
constexpr auto kLong = std::to_array<std::string_view>(
    {"->", "=>", "==", "!=", "<=", ">=", "<<", ">>", "&&", "||", "|>", "+=", "..", "//", "/*"});

class Wishes {
 public:
  Wishes(Language language, std::span<const Piece> pieces)
      : mfg_(language == Language::mfg), lift_(language == Language::lift), pieces_(pieces) {}

  std::vector<Sides> run() {
    std::vector<Sides> sides;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const Piece& piece = pieces_[i];
      sides.push_back(wish(i));
      in_bars_ = opens_block(i) || (in_bars_ && !piece.is("|"));
      follow(piece);
      if (!piece.is_comment() && piece.kind != PieceKind::escape) last_ = &piece;
    }
    return sides;
  }

 private:
  Sides wish(size_t i) const {
    const Piece& piece = pieces_[i];
    if (piece.kind == PieceKind::escape) return {Space::one, Space::one};
    if (piece.kind == PieceKind::word) {
      bool composition = lift_ && piece.text == "o" && !operand_expected(piece);
      return composition ? Sides{Space::one, Space::one} : Sides{};
    }
    if (piece.kind != PieceKind::symbol) return {};
    std::string_view text = piece.text;
    if (text == "," || text == ";") return {Space::none, Space::one};
    if (text == ")" || text == "]") return {Space::none, Space::keep};
    if (text == "(" || text == "[") return {before_bracket(piece), Space::none};
    if (text == "{" || text == "}") return braces(i);
    if (text == "@") return {Space::keep, Space::none};
    if (text == ".") return {Space::keep, Space::none};
    if (text == "..<") return {Space::none, Space::none};
    return operator_wish(i);
  }

  Sides braces(size_t i) const {
    bool empty_begin = pieces_[i].is("{") && i + 1 < pieces_.size() && pieces_[i + 1].is("}");
    bool empty_end = pieces_[i].is("}") && i > 0 && pieces_[i - 1].is("{");
    if (empty_begin) return {Space::one, Space::none};
    if (empty_end) return {Space::none, Space::keep};
    return pieces_[i].is("{") ? Sides{Space::one, Space::one} : Sides{Space::one, Space::keep};
  }

  Space before_bracket(const Piece& bracket) const {
    bool keyword =
        last_ != nullptr && last_->kind == PieceKind::word && one_of(last_->text, kKeywords);
    if (keyword || composed_) return Space::one;
    if (operand_expected(bracket)) return Space::keep;
    if (last_->kind == PieceKind::word) {
      return mfg_ && bracket.is("[") ? Space::keep : Space::none;
    }
    return lift_ ? Space::none : Space::keep;
  }

  // MFG's blocks begin with names between bars: |x, y: i32| {.
  bool opens_block(size_t i) const {
    if (!mfg_ || !pieces_[i].is("|")) return false;
    size_t end = i + 1;
    auto within = [](const Piece& p) {
      return p.kind == PieceKind::word || p.is(",") || p.is(":");
    };
    while (end < pieces_.size() && within(pieces_[end])) ++end;
    return end + 1 < pieces_.size() && pieces_[end].is("|") && pieces_[end + 1].is("{");
  }

  Sides operator_wish(size_t i) const {
    const Piece& piece = pieces_[i];
    if (opens_block(i)) return {Space::one, Space::none};
    if (piece.is("|") && in_bars_) return {Space::none, Space::one};
    std::string_view text = piece.text;
    bool prefix = operand_expected(piece);
    if (text == ":") {
      bool arm = !open_.empty() ? open_.back().questions > 0 : questions_ > 0;
      return {arm ? Space::one : Space::none, Space::one};
    }
    if (prefix && (text == "!" || text == "~" || text == "=" || one_of(text, kArithmetic))) {
      return {Space::keep, Space::none};
    }
    if (text == "=") {
      bool argument = mfg_ && !open_.empty() && open_.back().bracket != '{';
      return argument ? Sides{Space::none, Space::none} : Sides{Space::one, Space::one};
    }
    if (one_of(text, kApart)) return {Space::one, Space::one};
    if (!one_of(text, kArithmetic)) return {};
    bool apart = piece.newlines + piece.blanks > 0;
    if (i + 1 < pieces_.size()) {
      const Piece& next = pieces_[i + 1];
      // In front of a comment there is a space in any case.
      bool visible = next.kind == PieceKind::word || next.kind == PieceKind::symbol;
      apart = apart || next.newlines + next.blanks > 0 || !visible;
    }
    return apart ? Sides{Space::one, Space::one} : Sides{Space::none, Space::none};
  }

  // Whether `piece` stands where an operand does, so that an operator is a prefix.
  bool operand_expected(const Piece& piece) const {
    if (last_ == nullptr || piece.begins_statement) return true;
    if (last_->kind == PieceKind::word) {
      return last_->text == "in" || last_->text == "let" || composed_;
    }
    bool closed = last_->is(")") || last_->is("]") || last_->is("}") || last_->is("...");
    return !closed;
  }

  void follow(const Piece& piece) {
    composed_ =
        lift_ && piece.kind == PieceKind::word && piece.text == "o" && !operand_expected(piece);
    if (piece.kind != PieceKind::symbol) return;
    char c = piece.text[0];
    int& questions = open_.empty() ? questions_ : open_.back().questions;
    if (piece.is("?")) ++questions;
    if (piece.is(":") && questions > 0) --questions;
    if (c == '(' || c == '[' || c == '{') open_.push_back({c, 0});
    if ((c == ')' || c == ']' || c == '}') && !open_.empty()) open_.pop_back();
  }

  struct Open {
    char bracket;
    int questions;  // whose `:` is still to come
  };
  bool mfg_, lift_;
  std::span<const Piece> pieces_;
  const Piece* last_ = nullptr;  // the token before
  bool composed_ = false;        // it is Lift's composition
  bool in_bars_ = false;         // behind the first bar of a block
  std::vector<Open> open_;
  int questions_ = 0;
};

bool would_join(std::string_view left, std::string_view right) {
  std::string joined = std::string(1, left.back()) + right[0];
  return one_of(joined, kLong);
}

// Beside a point a number would be another one.
bool is_number(const Piece& piece) {
  return piece.kind == PieceKind::word && piece.text[0] >= '0' && piece.text[0] <= '9';
}

}  // namespace

std::vector<Sides> sides_of(Language language, std::span<const Piece> pieces) {
  return Wishes(language, pieces).run();
}

bool space_between(const Piece& left, const Sides& of_left, const Piece& right,
                   const Sides& of_right) {
  bool was = right.blanks > 0;
  bool words = left.kind == PieceKind::word && right.kind == PieceKind::word;
  if (words) return true;
  bool symbols = left.kind == PieceKind::symbol && right.kind == PieceKind::symbol;
  if (was && symbols && would_join(left.text, right.text)) return true;
  if (was && (is_number(left) || is_number(right)) && (left.is(".") || right.is("."))) return true;
  if (of_left.after == Space::none || of_right.before == Space::none) return false;
  if (of_left.after == Space::one || of_right.before == Space::one) return true;
  // A word stands apart from what closes before it: [[attribute]] O.
  bool after_bracket = (left.is("]") || left.is(")")) && right.kind == PieceKind::word;
  return was || after_bracket;
}

}  // namespace tile::cli
