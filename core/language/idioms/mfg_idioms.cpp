#include "core/language/idioms/mfg_idioms.h"

#include "core/language/idioms/idiom.h"

namespace tile::mfg {
namespace {

constexpr std::string_view kChoice = "a value is chosen by ifel(condition, this, that)";
constexpr std::string_view kLet = "a value is named by `let a = …`, once";
constexpr std::string_view kLoop =
    "loops are rsum(A..<B) |i| { … } for sums and reduce(init=v, A..<B) |i, m| { … }";
constexpr std::string_view kExtent = "the size is written T.extent(0) along x, T.extent(1) along y";

constexpr std::array kFunctions = {
    Idiom{"pow", "a power is written x^e"},
    Idiom{"sum", "write rsum(begin..<end) |i| { … }"},
    Idiom{"if", "write ifel(condition, this, that)"},
    Idiom{"where", "write ifel(condition, this, that)"},
    Idiom{"select", "write ifel(condition, this, that)"},
    Idiom{"sampler",
          "a sampler is named: let s = sampler<T>(address=.ClampToEdge); it is read like T, s(x, "
          "y)"},
    Idiom{"clip", "write clamp(x, low, high)"},
    Idiom{"lerp", "write mix(a, b, t)"},
    Idiom{"frac", "write fract(x)"},
    Idiom{"rsqrt", "write 1.0/sqrt(x)"},
    Idiom{"tanh", "write 1.0 - 2.0/(exp(2.0*x) + 1.0)"},
    Idiom{"range", kLoop},
};

constexpr std::array kStatements = {
    Idiom{"if", kChoice}, Idiom{"return", "the last line of a block is its value"},
    Idiom{"for", kLoop},  Idiom{"while", kLoop},
    Idiom{"var", kLet},   Idiom{"const", kLet},
    Idiom{"mut", kLet},   Idiom{"float", kLet},
    Idiom{"int", kLet},   Idiom{"auto", kLet},
};

constexpr std::array kOperators = {
    Idiom{"and", "both of two conditions is written a && b"},
    Idiom{"or", "one of two conditions is written a || b"},
    Idiom{"not", "the opposite of a condition is written !a"},
    Idiom{"if", kChoice},
    Idiom{"else", kChoice},
};

constexpr std::array kMembers = {
    Idiom{"width", kExtent}, Idiom{"height", kExtent}, Idiom{"shape", kExtent},
    Idiom{"size", kExtent},  Idiom{"extent", kExtent},
};

constexpr std::array kCharacters = {
    Idiom{"?", kChoice},
    Idiom{";", "a statement ends with its line"},
    Idiom{"'", "texts are in double quotes: label=\"Radius\""},
    Idiom{"×", "a product is written *"},
    Idiom{"·", "a product is written *"},
    Idiom{"÷", "a quotient is written /"},
    Idiom{"−", "a minus is written -"},
    Idiom{"≤", "written <="},
    Idiom{"≥", "written >="},
    Idiom{"≠", "written !="},
};

}  // namespace

std::string_view idiom_hint(std::string_view name) { return find_hint(kFunctions, name); }

std::string_view statement_hint(std::string_view word) { return find_hint(kStatements, word); }

std::string_view operator_hint(std::string_view word) { return find_hint(kOperators, word); }

std::string_view member_hint(std::string_view name) { return find_hint(kMembers, name); }

std::string_view character_hint(std::string_view character) {
  return find_hint(kCharacters, character);
}

}  // namespace tile::mfg
