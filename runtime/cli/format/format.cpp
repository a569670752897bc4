#include "runtime/cli/format/format.h"

#include <algorithm>
#include <set>
#include <vector>

#include "core/language/lift/syntax.h"
#include "core/language/mfg/syntax.h"
#include "core/language/tile/syntax.h"
#include "runtime/cli/format/pieces.h"
#include "runtime/cli/format/spacing.h"

namespace tile::cli {
namespace {

constexpr size_t kIndentation = 2;  // columns for each level

bool opens(const Piece& piece) { return piece.is("(") || piece.is("[") || piece.is("{"); }
bool closes(const Piece& piece) { return piece.is(")") || piece.is("]") || piece.is("}"); }

class Formatter {
 public:
  Formatter(Language language, const std::vector<Piece>& pieces)
      : language_(language), pieces_(pieces), sides_(sides_of(language, pieces)) {}

  std::string run() {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const Piece& piece = pieces_[i];
      if (i == 0) {
        begin_line(i);
      } else if (int lines = line_ends_before(i); lines > 0) {
        out_.append(static_cast<size_t>(lines), '\n');
        ++line_;
        begin_line(i);
      } else {
        out_.append(spaces_before(i), ' ');
      }
      out_ += piece.text;
      follow(piece);
    }
    if (!out_.empty()) out_ += '\n';
    return std::move(out_);
  }

 private:
  // 0: on the same line; 2: behind an empty line.
  int line_ends_before(size_t i) const {
    const Piece& before = pieces_[i - 1];
    const Piece& piece = pieces_[i];
    bool must = before.kind == PieceKind::line_comment || before.kind == PieceKind::escape;
    bool behind_comment = piece.is_comment() && piece.newlines == 0;
    if (language_ == Language::tile && !behind_comment) {
      bool statement = (before.is(";") || before.is("{")) && !piece.is("}");
      bool end = piece.is("}") && !before.is("{");
      bool behind_program = before.is("}");
      // A comment behind a statement, on its line, ends the line.
      bool remark = before.is_comment() && before.newlines == 0 && piece.begins_statement;
      must = must || statement || end || behind_program || remark;
    }
    int lines = must ? std::max(1, piece.newlines) : piece.newlines;
    // Of two ends behind a `\` the second is one of a statement.
    bool edge = before.kind != PieceKind::escape && (opens(before) || closes(piece));
    return std::min(lines, edge ? 1 : 2);
  }

  size_t spaces_before(size_t i) const {
    const Piece& piece = pieces_[i];
    // Comments behind statements may stand below one another.
    bool remark = piece.kind == PieceKind::line_comment;
    if (remark) return static_cast<size_t>(std::max(1, piece.blanks));
    return space_between(pieces_[i - 1], sides_[i - 1], piece, sides_[i]) ? 1 : 0;
  }

  void begin_line(size_t i) {
    size_t depth = open_.size();
    // Of the brackets that close on this line.
    for (size_t k = i; k < pieces_.size() && closes(pieces_[k]) && depth > 0; ++k) {
      if (k > i && line_ends_before(k) > 0) break;
      --depth;
    }
    std::set<int> lines(open_.begin(), open_.begin() + static_cast<ptrdiff_t>(depth));
    size_t level = lines.size();
    const Piece& piece = pieces_[i];
    bool goes_on = !piece.begins_statement && depth == open_.size() && depth == statement_depth_;
    if (goes_on) ++level;
    out_.append(level * kIndentation, ' ');
  }

  void follow(const Piece& piece) {
    if (piece.begins_statement && !piece.is_comment()) statement_depth_ = open_.size();
    if (opens(piece)) open_.push_back(line_);
    if (closes(piece) && !open_.empty()) open_.pop_back();
    // Behind a block the statement around it may go on at its own depth.
    if (piece.is("}")) statement_depth_ = std::min(statement_depth_, open_.size());
    line_ += static_cast<int>(std::count(piece.text.begin(), piece.text.end(), '\n'));
  }

  Language language_;
  const std::vector<Piece>& pieces_;
  std::vector<Sides> sides_;
  std::string out_;
  int line_ = 0;
  std::vector<int> open_;  // the lines of open brackets
  size_t statement_depth_ = 0;
};

// Names need not be known: half of a program may be formatted, if its grammar is right.
void check_syntax(Language language, std::string_view text) {
  if (language == Language::tile) parse_syntax(text);
  if (language == Language::mfg) mfg::parse_syntax(text);
  if (language == Language::lift) lift::parse_syntax(text);
}

// A formatter must not change what a program says: the same tokens, comments and ends of
// statements.
bool same(const std::vector<Piece>& a, const std::vector<Piece>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Piece& x, const Piece& y) {
    return x.kind == y.kind && x.text == y.text && x.begins_statement == y.begins_statement;
  });
}

}  // namespace

std::string formatted(Language language, const SourcePtr& source) {
  check_syntax(language, source->text);
  std::vector<Piece> pieces = pieces_of(language, source->text);
  std::string text = Formatter(language, pieces).run();
  internal_check(same(pieces, pieces_of(language, text)), "formatting changed the program");
  return text;
}

}  // namespace tile::cli
