// What people type who know other languages, and how MFG says it.
#pragma once

#include <string_view>

namespace tile::mfg {

// Of a function that MFG does not have; "": nothing is known of it.
std::string_view idiom_hint(std::string_view name);

// Of a word that begins a statement in other languages, or stands before a name there.
std::string_view statement_hint(std::string_view word);

// Of a word that is an operator elsewhere, such as `and`.
std::string_view operator_hint(std::string_view word);

// Of a method that tensors do not have.
std::string_view member_hint(std::string_view name);

// Of a character that no token begins with.
std::string_view character_hint(std::string_view character);

}  // namespace tile::mfg
