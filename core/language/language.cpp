#include "core/language/language.h"

#include <array>
#include <utility>

#include "core/language/lift/lift.h"
#include "core/language/mfg/mfg.h"
#include "core/language/tile/tile.h"

namespace tile {
namespace {

struct LanguageInfo {
  Language language;
  std::string_view name;  // also the suffix of its files
  Program (*parse)(SourcePtr source);
};

constexpr auto kLanguages = std::to_array<LanguageInfo>({
    {Language::tile, "tile", parse_tile},
    {Language::lift, "lift", parse_lift},
    {Language::mfg, "mfg", parse_mfg},
});

}  // namespace

std::optional<Language> parse_language(std::string_view name) {
  for (const LanguageInfo& row : kLanguages) {
    if (row.name == name) return row.language;
  }
  return std::nullopt;
}

std::optional<Language> language_of_suffix(std::string_view path) {
  size_t dot = path.rfind('.');
  return dot == path.npos ? std::nullopt : parse_language(path.substr(dot + 1));
}

std::string_view to_string(Language language) {
  for (const LanguageInfo& row : kLanguages) {
    if (row.language == language) return row.name;
  }
  return "unknown";
}

Program parse(Language language, SourcePtr source) {
  for (const LanguageInfo& row : kLanguages) {
    if (row.language == language) return row.parse(std::move(source));
  }
  throw InternalError("a language without a front end");
}

}  // namespace tile
