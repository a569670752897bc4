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

// Of what stands behind a dot, such as the T of `A.T`, where tensors have methods or properties, or
// modules functions: `np.exp`.
std::string member_hint(std::string_view owner, std::string_view name);

// Of a word that begins a statement elsewhere, such as `for`.
std::string_view statement_hint(std::string_view word);

// Of a word that is an operator elsewhere or adds a condition, such as `and` and `where`.
std::string_view operator_hint(std::string_view word);

// Element types are not written in a program.
inline constexpr std::string_view kTypes =
    "element types are not written: a program takes those of its inputs, as in --shape A=4:f16; "
    "as_float(A, 16) converts";

// A number behind `default`.
inline constexpr std::string_view kDefault =
    "empty cells are 0 without a default; other values are those of a tensor: Z[i: N] = =(1.0); "
    "then … default Z";

// How a function is called, such as "sort(A, axis)"; "" where the names of arguments tell nothing.
std::string_view call_form(std::string_view function);

// Of a character that no token begins with.
std::string_view character_hint(std::string_view character);

}  // namespace tile
