#include "core/language/idioms/lift_idioms.h"

#include "core/language/idioms/idiom.h"

namespace tile::lift {
namespace {

constexpr std::string_view kChoice = "a value is chosen by condition ? value : other";
constexpr std::string_view kSum = "a sum is Reduce(add, 0.0f) $ a";
constexpr std::string_view kMean = "a mean is (At(0) o Reduce(add, 0.0f) $ w) / 3.0f";
constexpr std::string_view kLambda = "a function is written v => v + 1, of two (a, b) => a + b";
constexpr std::string_view kNamed =
    "a value is named as the argument of a function: (y => …) $ (…), or by a definition before: "
    "val "
    "g = fun(…)";
constexpr std::string_view kLoop =
    "there are no loops: Map(f) $ a takes each element, Iterate(10, f) $ a applies f ten times";
constexpr std::string_view kApplied =
    "a function is applied from the left: Map(f) o Slide(3, 1) $ a";
constexpr std::string_view kPower = "a square is square(v), a power pow(v, e)";

constexpr std::array kNames = {
    Idiom{"sum", kSum},
    Idiom{"Sum", kSum},
    Idiom{"mean", kMean},
    Idiom{"Mean", kMean},
    Idiom{"avg", kMean},
    Idiom{"if", kChoice},
    Idiom{"where", kChoice},
    Idiom{"Filter", "there is no filter: a length does not depend on data"},
    Idiom{"fold", "a fold is Reduce(f, init) $ a"},
    Idiom{"Fold", "a fold is Reduce(f, init) $ a"},
    Idiom{"scan", "sums of all before are ScanSeq(add, 0.0f) $ a"},
    Idiom{"Scan", "sums of all before are ScanSeq(add, 0.0f) $ a"},
    Idiom{"plus", "written add"},
    Idiom{"times", "written mult"},
    Idiom{"len", "the length is the size in the type: N of ArrayType(Float, N)"},
    Idiom{"PadConstant", "written Pad(1, 1, Constant(0.0f))"},
    Idiom{"padConstant", "written Pad(1, 1, Constant(0.0f))"},
    Idiom{"clamp", "bounds are written max(min(v, high), low)"},
};

constexpr std::array kWords = {
    Idiom{"lambda", kLambda},
    Idiom{"if", kChoice},
    Idiom{"then", kChoice},
    Idiom{"else", kChoice},
    Idiom{"let", kNamed},
    Idiom{"val", kNamed},
    Idiom{"in", kNamed},
    Idiom{"for", kLoop},
    Idiom{"while", kLoop},
    Idiom{"and", "both of two conditions is written a && b"},
    Idiom{"or", "one of two conditions is written a || b"},
    Idiom{"not", "the opposite of a condition is written !a"},
};

constexpr std::array kSymbols = {
    Idiom{"^", kPower},
    Idiom{"*", kPower},
    Idiom{"+", "functions have names: add, sub, mult, div, max, min"},
    Idiom{"\\", kLambda},
    Idiom{".", "components of a tuple are Get(0) $ p, elements At(0) $ w; f after g is f o g"},
    Idiom{"|", kApplied},
    Idiom{"<", kApplied},
    Idiom{">", "a function has a double arrow, v => v + 1; it is applied by $"},
    Idiom{"#", "a comment begins with //"},
    Idiom{"{", "a body is one expression; functions are defined before: val g = fun(…)"},
    Idiom{"@",
          "a product of matrices is in the guide: Map over rows, Map over columns of a Transpose"},
    Idiom{"−", "a minus is written -"},
    Idiom{"×", "a product is written *"},
    Idiom{"∘", "f after g is written f o g"},
    Idiom{"→", "a function is written v => v + 1"},
};

constexpr std::array kForms = {
    Idiom{"Map", "Map(f) $ a"},
    Idiom{"Reduce", "Reduce(f, init) $ a, with (sum, v) => … or add as f and 0.0f as init"},
    Idiom{"ReduceSeq", "ReduceSeq(f, init) $ a, with (sum, v) => … or add as f and 0.0f as init"},
    Idiom{"ScanSeq", "ScanSeq(f, init) $ a"},
    Idiom{"Iterate", "Iterate(steps, f) $ a, with a number of steps: Iterate(10, f) $ a"},
    Idiom{"Split", "Split(length) $ a"},
    Idiom{"At", "At(i) $ a; of rows At(j) o At(i) $ w takes row i, then its element j"},
    Idiom{"Get", "Get(i) $ t"},
    Idiom{"Gather", "Gather(i => …) $ a, or Gather(reverse), Gather(shift(1))"},
    Idiom{"Scatter", "Scatter(i => …) $ a"},
    Idiom{"Zip", "Zip(a, b)"},
    Idiom{"Generate", "Generate(i => …, length)"},
    Idiom{"Slide", "Slide(size, step) $ a"},
    Idiom{"Slide2D", "Slide2D(size, step) $ a"},
    Idiom{"Slide3D", "Slide3D(size, step) $ a"},
    Idiom{"SlideND", "SlideND(dimensions, size, step) $ a"},
    Idiom{"Pad", "Pad(left, right, Clamp) $ a; others are Mirror, Wrap and Constant(0.0f)"},
    Idiom{"Pad2D", "Pad2D(left, right, Clamp) $ a; others are Mirror, Wrap and Constant(0.0f)"},
    Idiom{"Pad3D", "Pad3D(left, right, Clamp) $ a; others are Mirror, Wrap and Constant(0.0f)"},
    Idiom{"PadND", "PadND(dimensions, left, right, Clamp) $ a"},
};

}  // namespace

std::string_view idiom_hint(std::string_view name) { return find_hint(kNames, name); }

std::string_view word_hint(std::string_view word) { return find_hint(kWords, word); }

std::string_view symbol_hint(std::string_view symbol) { return find_hint(kSymbols, symbol); }

std::string_view pattern_form(std::string_view pattern) { return find_hint(kForms, pattern); }

}  // namespace tile::lift
