#include "runtime/cli/lsp/uses.h"

#include <algorithm>
#include <map>

namespace tile::lsp {
namespace {

bool contains(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// Behind a dot stands a component or member, as in c.x; but `..` is a range.
bool is_member(std::string_view text, const Word& word) {
  bool dot = word.begin > 0 && text[word.begin - 1] == '.';
  return dot && (word.begin < 2 || text[word.begin - 2] != '.');
}

// The places of one name, and where it gets its meaning.
class Scopes {
 public:
  Scopes(Language language, std::string_view text, std::string_view name)
      : text_(text), words_(words_of(language, text)) {
    for (const Declaration& d : declarations(language, text, words_)) {
      if (text_of(text, d.word) == name) declared_.push_back(d);
    }
    std::stable_sort(declared_.begin(), declared_.end(),
                     [](const auto& a, const auto& b) { return a.word.begin < b.word.begin; });
    std::erase_if(words_, [&](const Word& w) {
      bool sign = !w.name && text_of(text, w) != ";" && text_of(text, w) != "{";
      bool other = w.name && (text_of(text, w) != name || is_member(text, w));
      return sign || other;
    });
  }

  // What a value's place means is its declaration; of all other kinds there is one for the text.
  std::optional<size_t> meaning(const Word& word) const {
    if (declared_.empty()) return std::nullopt;
    auto behind =
        std::upper_bound(declared_.begin(), declared_.end(), word.begin,
                         [](size_t at, const Declaration& d) { return at < d.word.begin; });
    const Declaration& d = behind == declared_.begin() ? *behind : *(behind - 1);
    return d.kind == NameKind::value ? d.word.begin : std::string_view::npos;
  }
  std::vector<Word> with_meaning(std::optional<size_t> of) const {
    std::vector<Word> found;
    for (const Word& w : words_) {
      if (w.name && meaning(w) == of) found.push_back(w);
    }
    return found;
  }
  std::vector<Word> declarations_with_meaning(std::optional<size_t> of) const {
    std::vector<Word> found;
    for (const Declaration& d : declared_) {
      bool again = !found.empty() && found.back().begin == d.word.begin;
      if (!again && meaning(d.word) == of) found.push_back(d.word);
    }
    return found;
  }
  // Those between the ends of the statement that the offset is in.
  std::vector<Word> in_statement(size_t offset) const {
    std::vector<Word> found;
    for (const Word& w : words_) {
      if (w.name) {
        found.push_back(w);
      } else if (w.begin < offset) {
        found.clear();
      } else {
        break;
      }
    }
    return found;
  }

 private:
  std::string_view text_;
  std::vector<Word> words_;
  std::vector<Declaration> declared_;
};

// Names of a printed program, with what stands between them.
std::vector<std::string_view> pieces(std::string_view text) {
  std::vector<std::string_view> list;
  size_t at = 0;
  for (const Word& w : words_of(Language::tile, text)) {
    if (!w.name) continue;
    list.push_back(text.substr(at, w.begin - at));
    list.push_back(text_of(text, w));
    at = w.end;
  }
  list.push_back(text.substr(at));
  return list;
}

// One name for each, and each for one: of tensors and dimensions everywhere, of others in a line.
class Pairs {
 public:
  bool add(std::string_view a, std::string_view b) { return put(there_, a, b) && put(back_, b, a); }
  void end_line() {
    for (auto* names : {&there_, &back_}) {
      std::erase_if(*names,
                    [](const auto& n) { return !(n.first[0] >= 'A' && n.first[0] <= 'Z'); });
    }
  }

 private:
  using Names = std::map<std::string_view, std::string_view>;
  static bool put(Names& names, std::string_view from, std::string_view to) {
    return names.try_emplace(from, to).first->second == to;
  }
  Names there_, back_;
};

}  // namespace

std::optional<Uses> uses_at(Language language, std::string_view text, size_t offset) {
  std::optional<Word> word = name_at(words_of(language, text), offset);
  if (!word || is_member(text, *word)) return std::nullopt;
  std::string_view name = text_of(text, *word);
  if (contains(keywords(language), name)) return std::nullopt;
  Scopes scopes(language, text, name);
  Uses uses{std::string(name), *word, {}, {}};
  if (std::optional<size_t> meaning = scopes.meaning(*word)) {
    uses.words = scopes.with_meaning(meaning);
    uses.declared = scopes.declarations_with_meaning(meaning);
    return uses;
  }
  bool index = language == Language::tile && !contains(function_names(language), name);
  if (!index) return std::nullopt;
  uses.words = scopes.in_statement(word->begin);
  return uses;
}

std::string renamed(std::string_view text, const Uses& uses, const std::string& name) {
  std::string out;
  size_t at = 0;
  for (const Word& w : uses.words) {
    out += std::string(text.substr(at, w.begin - at)) + name;
    at = w.end;
  }
  return out + std::string(text.substr(at));
}

std::string fault_of_name(Language language, std::string_view text, const Uses& uses,
                          const std::string& name) {
  std::vector<Word> words = words_of(language, name);
  bool whole =
      words.size() == 1 && words[0].name && words[0].begin == 0 && words[0].end == name.size();
  if (!whole) return "\"" + name.substr(0, 40) + "\" is no name";
  if (contains(keywords(language), name) || contains(function_names(language), name)) {
    return name + " is the language's own";
  }
  if (name == uses.name) return "";
  for (const Word& w : words_of(language, text)) {
    if (w.name && text_of(text, w) == name && !is_member(text, w)) {
      return "there is a " + name + " already";
    }
  }
  return "";
}

bool same_but_for_names(const Program& a, const Program& b) {
  std::string first = print(a), second = print(b);
  std::vector<std::string_view> x = pieces(first), y = pieces(second);
  if (x.size() != y.size()) return false;
  Pairs names;
  for (size_t i = 0; i < x.size(); ++i) {
    bool name = i % 2 == 1;
    if (name ? !names.add(x[i], y[i]) : x[i] != y[i]) return false;
    if (!name && x[i].find('\n') != x[i].npos) names.end_line();
  }
  return true;
}

}  // namespace tile::lsp
