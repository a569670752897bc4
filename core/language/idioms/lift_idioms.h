// What people type who know other languages, and how Lift says it.
#pragma once

#include <string_view>

namespace tile::lift {

// Of a name that nothing has; "": nothing is known of it.
std::string_view idiom_hint(std::string_view name);

// Of a word that an expression does not go on with, such as `and` or the `lambda` of `lambda v: v`.
std::string_view word_hint(std::string_view word);

// Of a symbol that is no expression, and of a character that no token begins with.
std::string_view symbol_hint(std::string_view symbol);

// How a pattern is written, such as "Slide(size, step) $ a"; "" where its name says it all.
std::string_view pattern_form(std::string_view pattern);

}  // namespace tile::lift
