#include "runtime/cli/lsp/words.h"

#include <algorithm>

namespace tile::lsp {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_capital(std::string_view name) { return !name.empty() && name[0] >= 'A' && name[0] <= 'Z'; }

// Behind a comment or string that begins at `at`; `at` itself where none does.
size_t behind_blank(Language language, std::string_view text, size_t at) {
  std::string_view rest = text.substr(at);
  auto behind = [&](std::string_view end, size_t from) {
    size_t found = rest.find(end, from);
    return found == rest.npos ? text.size() : at + found + end.size();
  };
  if (language == Language::mfg) {
    if (rest[0] == '#') return behind("\n", 0);
    if (rest[0] != '"') return at;
    size_t close = rest.find_first_of("\"\n", 1);
    return close == rest.npos ? text.size() : at + close + 1;
  }
  if (rest.starts_with("//")) return behind("\n", 0);
  if (rest.starts_with("/*")) return behind("*/", 2);
  return at;
}

// Declarations of one text, found in one walk.
class Finder {
 public:
  Finder(Language language, std::string_view text, const std::vector<Word>& words)
      : language_(language), text_(text), words_(words) {}

  std::vector<Declaration> run() {
    for (size_t i = 0; i < words_.size(); ++i) {
      if (language_ == Language::tile) at_tile(i);
      if (language_ == Language::mfg) at_mfg(i);
      if (language_ == Language::lift) at_lift(i);
    }
    return std::move(found_);
  }

 private:
  std::string_view word(size_t i) const {
    if (i >= words_.size()) return "";
    return text_of(text_, words_[i]);
  }
  bool name(size_t i) const { return i < words_.size() && words_[i].name; }
  void add(size_t i, NameKind kind) {
    if (name(i)) found_.push_back({words_[i], kind});
  }

  void at_tile(size_t i) {
    std::string_view w = word(i), before = i == 0 ? "" : word(i - 1);
    if (w == "{") body_ = true;
    if (w == "[") ++brackets_;
    if (w == "]") --brackets_;
    if (w == ")" && !body_) outputs_ = true;
    if (!name(i)) return;
    if (before == "let" || (letting_ && before == ",")) add(i, NameKind::value);
    if (w == "let") letting_ = true;
    if (w == "in") letting_ = false;
    if (!is_capital(w)) return;
    if (!body_ && !outputs_) {
      add(i, brackets_ > 0 ? NameKind::dimension : NameKind::tensor);
    } else if (before == ";" || before == "{" || before == "]") {
      bool statement = word(i + 1) == "=" || word(i + 1) == "[";
      if (statement) add(i, NameKind::tensor);
    }
  }

  void at_mfg(size_t i) {
    std::string_view w = word(i), before = i == 0 ? "" : word(i - 1);
    if (w == "|") {
      // Names between bars, with types behind colons, in front of a block.
      size_t end = i + 1;
      while (name(end) || word(end) == "," || word(end) == ":") ++end;
      if (word(end) != "|" || word(end + 1) != "{") return;
      for (size_t k = i + 1; k < end; ++k) {
        if (name(k) && word(k - 1) != ":") add(k, NameKind::value);
      }
      return;
    }
    if (!name(i)) return;
    if (before == "def") add(i, NameKind::tensor);
    if (before == "fn") add(i, NameKind::function);
    if (before.starts_with("param_") && i >= 2 && word(i - 2) == "@") {
      add(i, NameKind::parameter);
    }
    if (w != "let") return;
    size_t k = i + 1;
    bool pattern = word(k) == "[";
    if (pattern) ++k;
    for (; name(k); k += 2) {
      add(k, NameKind::value);
      if (word(k + 1) != ",") break;
    }
  }

  void at_lift(size_t i) {
    if (i > 0 && word(i - 1) == "val") add(i, NameKind::function);
    bool arrow = word(i) == "=" && word(i + 1) == ">" && words_[i].end == words_[i + 1].begin;
    if (!arrow || i == 0) return;
    if (name(i - 1)) add(i - 1, NameKind::value);
    if (word(i - 1) != ")") return;
    for (size_t k = i - 1; k-- > 0 && (name(k) || word(k) == ",");) {
      if (name(k)) add(k, NameKind::value);
    }
  }

  Language language_;
  std::string_view text_;
  const std::vector<Word>& words_;
  std::vector<Declaration> found_;
  bool body_ = false, outputs_ = false, letting_ = false;
  int brackets_ = 0;
};

}  // namespace

std::vector<Word> words_of(Language language, std::string_view text) {
  std::vector<Word> words;
  for (size_t at = 0; at < text.size();) {
    size_t behind = behind_blank(language, text, at);
    if (behind != at) {
      at = behind;
      continue;
    }
    size_t begin = at++;
    char c = text[begin];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') continue;
    bool word = is_letter(c) || is_digit(c);
    while (word && at < text.size() && (is_letter(text[at]) || is_digit(text[at]))) ++at;
    bool prime = word && at < text.size() && text[at] == '\'';
    if (prime) ++at;
    words.push_back({begin, at, is_letter(c)});
  }
  return words;
}

std::optional<Word> name_at(const std::vector<Word>& words, size_t offset) {
  auto after = std::upper_bound(words.begin(), words.end(), offset,
                                [](size_t at, const Word& w) { return at < w.begin; });
  for (int back = 0; back < 2 && after != words.begin(); ++back) {
    --after;
    if (after->name && after->begin <= offset && offset <= after->end) return *after;
  }
  return std::nullopt;
}

std::vector<Declaration> declarations(Language language, std::string_view text,
                                      const std::vector<Word>& words) {
  return Finder(language, text, words).run();
}

std::optional<Declaration> declaration_of(std::string_view text,
                                          const std::vector<Declaration>& all, const Word& word) {
  std::optional<Declaration> first, nearest;
  for (const Declaration& d : all) {
    if (text_of(text, d.word) != text_of(text, word)) continue;
    if (!first) first = d;
    bool before = d.word.begin <= word.begin;
    if (before && (!nearest || d.word.begin > nearest->word.begin)) nearest = d;
  }
  return nearest ? nearest : first;
}

}  // namespace tile::lsp
