// What people type who know other languages, and how Tile says it.
#pragma once

#include <string>
#include <string_view>

namespace tile {

// Of a function or word that Tile does not have; "": nothing is known of it.
std::string_view idiom_hint(std::string_view name);

// Of a function that is named like an element type of another language, such as `float32(A)` and
// `as_float32(A)`: the cast.
std::string cast_hint(std::string_view name);

// Of a function in the place of an aggregation, as in `S[i: M] = sum(A[i, j])`.
std::string_view aggregation_hint(std::string_view name);

// Of what stands behind a dot, such as the T of `A.T`, where tensors have methods or properties.
std::string_view member_hint(std::string_view name);

// Of a word that begins a statement elsewhere, such as `for`.
std::string_view statement_hint(std::string_view word);

}  // namespace tile
