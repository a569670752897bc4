#include "core/language/idioms/tile_idioms.h"

#include <algorithm>
#include <array>

#include "core/ir/operation.h"
#include "core/language/idioms/idiom.h"
#include "core/language/type_names.h"

namespace tile {
namespace {

constexpr std::string_view kProduct =
    "a product of matrices is a contraction: O[i, j: M, N] = +(A[i, k] * B[k, j])";
constexpr std::string_view kSum = "a sum is a contraction: S[i: M] = +(A[i, j])";
constexpr std::string_view kMean =
    "a mean is a contraction and a division: S[i: M] = +(A[i, j]); then Mean = S / N";
constexpr std::string_view kClamp = "bounds are written max(min(X, high), low)";
constexpr std::string_view kSilu = "write X * sigmoid(X)";
constexpr std::string_view kVariance =
    "a variance is a mean of squares: D = X - Mean; S[i, 0: M, 1] = +(D[i, j] * D[i, j]); V = S / "
    "N";
constexpr std::string_view kNorm =
    "a norm is written out: S[i, 0: M, 1] = +(X[i, j]); D = X - S / N; Q = D * D; V[i, 0: M, 1] = "
    "+(Q[i, j]); Y = D * rsqrt(V / N + 1e-5)";
constexpr std::string_view kConvolution =
    "a convolution is a contraction: O[y, x: H, W] = +(I[y + j - 1, x + i - 1] * K[j, i])";
constexpr std::string_view kSelect = "write `condition ? value : other`";
constexpr std::string_view kCast = "write as_float(x, 32), as_int(x, 32), as_uint(x, 8) …";
constexpr std::string_view kFilled =
    "a tensor of one number is a contraction without reads: Z[i, j: M, N] = =(0.0)";
constexpr std::string_view kShape = "another shape is reshape(A, M, N), which names every size";
constexpr std::string_view kRandom =
    "random numbers are prng_uniform(Seed, M, N), in [0, 1), with an input Seed[]";
constexpr std::string_view kRolled =
    "rows are put together from parts: concat(0, slice(A, 0, M - 1, M, 1), slice(A, 0, 0, M - 1, "
    "1))";
constexpr std::string_view kRepeated = "shapes are broadcast where statements need it";
constexpr std::string_view kTriangle =
    "a triangle is a condition: T[i, j: M, N] = =(A[i, j]), i - j < M";
constexpr std::string_view kAny = "over an axis that is T[i: M] = >(A[i, j] > 0.0 ? 1 : 0)";
constexpr std::string_view kLength = "the extent of axis 0 of A is A.0, that of axis 1 A.1";
constexpr std::string_view kConditions = "conditions follow the contraction: +(A[i, j]), j < 3";
constexpr std::array kIdioms = {
    Idiom{"sum", kSum},
    Idiom{"reduce_sum", kSum},
    Idiom{"mean", kMean},
    Idiom{"average", kMean},
    Idiom{"avg", kMean},
    Idiom{"matmul", kProduct},
    Idiom{"mm", kProduct},
    Idiom{"dot", kProduct},
    Idiom{"bmm", kProduct},
    Idiom{"einsum", kProduct},
    Idiom{"amax", "a maximum over an axis is a contraction: T[i: M] = >(A[i, j])"},
    Idiom{"amin", "a minimum over an axis is a contraction: T[i: M] = <(A[i, j])"},
    Idiom{"prod", "a product over an axis is a contraction: P[i: M] = *(A[i, j])"},
    Idiom{"softmax",
          "softmax is written out: T[i, 0: M, 1] = >(X[i, j]); E = exp(X - T); S[i, 0: M, 1] = "
          "+(E[i, j]); P = E / S; or, along the last dimension, P = builtin_softmax(X)"},
    Idiom{"log_softmax",
          "the logarithm of softmax along the last dimension is builtin_logsoftmax(X)"},
    Idiom{"layer_norm", kNorm},
    Idiom{"layernorm", kNorm},
    Idiom{"batch_norm", kNorm},
    Idiom{
        "rms_norm",
        "an RMS norm is written out: Q = X * X; S[i, 0: M, 1] = +(Q[i, j]); Y = X * rsqrt(S / N + "
        "1e-5)"},
    Idiom{"conv2d", kConvolution},
    Idiom{"conv", kConvolution},
    Idiom{"zeros", kFilled},
    Idiom{"ones", kFilled},
    Idiom{"full", kFilled},
    Idiom{"flip", "backwards along axis 0 is slice(A, 0, M - 1, -1, -1)"},
    Idiom{"pad", "zeros around are P[i + 1, j + 1: M + 2, N + 2] = =(A[i, j])"},
    Idiom{"roll", kRolled},
    Idiom{"topk",
          "the three largest along axis 1, ascending, are slice(sort(A, 1), 1, N - 3, N, 1)"},
    Idiom{"stack",
          "a new axis is a size of 1: concat(0, reshape(A, 1, M, N), reshape(B, 1, M, N))"},
    Idiom{"vstack", "rows behind rows are concat(0, A, B)"},
    Idiom{"hstack", "columns behind columns are concat(1, A, B)"},
    Idiom{"cat", "written concat(axis, A, B)"},
    Idiom{"concatenate", "written concat(axis, A, B)"},
    Idiom{"expand_dims", kShape},
    Idiom{"unsqueeze", kShape},
    Idiom{"squeeze", kShape},
    Idiom{"flatten", kShape},
    Idiom{"view", kShape},
    Idiom{"permute", "written transpose(A, 1, 0), with every axis once"},
    Idiom{"swapaxes", "written transpose(A, 1, 0), with every axis once"},
    Idiom{"take", "rows by number are gather(A, I)"},
    Idiom{"embedding", "rows by number are gather(A, I)"},
    Idiom{"norm", "a norm is S[] = +(A[i, j] * A[i, j]); then L = sqrt(S)"},
    Idiom{"tril", kTriangle},
    Idiom{"triu", kTriangle},
    Idiom{"one_hot", "written H[b, k: B, K] = =(I[b] == k ? 1.0 : 0.0)"},
    Idiom{"any", kAny},
    Idiom{"all", "over an axis that is T[i: M] = <(A[i, j] > 0.0 ? 1 : 0)"},
    Idiom{"cross_entropy",
          "from logits: L = builtin_logsoftmax(X); Loss[] = +(-T[b, k] * L[b, k])"},
    Idiom{"linear", kProduct},
    Idiom{"len", kLength},
    Idiom{"size", kLength},
    Idiom{"broadcast_to", kRepeated},
    Idiom{"repeat", kRepeated},
    Idiom{"tile", kRepeated},
    Idiom{"random", kRandom},
    Idiom{"rand", kRandom},
    Idiom{"randn", kRandom},
    Idiom{"uniform", kRandom},
    Idiom{"dropout",
          "written prng_uniform(Seed, M, N) < 0.5 ? 0.0 : 2.0 * A, with an input Seed[]"},
    Idiom{"eye", "an identity is E[i, j: N, N] = =(i == j ? 1.0 : 0.0)"},
    Idiom{"leaky_relu", "write X > 0 ? X : 0.01 * X"},
    Idiom{"elu", "write X > 0 ? X : expm1(X)"},
    Idiom{"arange", "positions along an axis are index(A, axis)"},
    Idiom{"clip", kClamp},
    Idiom{"clamp", kClamp},
    Idiom{"maximum", "the larger of two is max(a, b)"},
    Idiom{"minimum", "the smaller of two is min(a, b)"},
    Idiom{"silu", kSilu},
    Idiom{"swish", kSilu},
    Idiom{"var", kVariance},
    Idiom{"std", kVariance},
    Idiom{"where", kSelect},
    Idiom{"select", kSelect},
    Idiom{"if", kSelect},
    Idiom{"float", kCast},
    Idiom{"int", kCast},
    Idiom{"cast", kCast},
    Idiom{"astype", kCast},
};

constexpr std::array kForms = {
    Idiom{"pow", "pow(x, y) is x to the power y"},
    Idiom{"max",
          "max(x, y) takes element by element; a maximum over an axis is T[i: M] = >(A[i, j])"},
    Idiom{"min",
          "min(x, y) takes element by element; a minimum over an axis is T[i: M] = <(A[i, j])"},
    Idiom{"as_float", "as_float(x, 32), or 16 or 64"},
    Idiom{"as_int", "as_int(x, 32), or 8, 16 or 64"},
    Idiom{"as_uint", "as_uint(x, 8), or 16, 32 or 64"},
    Idiom{"select", "select(condition, value, other)"},
    Idiom{"index", "index(A, axis)"},
    Idiom{"reshape", "reshape(A, M, N) names every size"},
    Idiom{"gather", "gather(A, I) takes the rows of A whose numbers I holds"},
    Idiom{"scatter", "scatter(U, I, N) adds rows up into N rows"},
    Idiom{"concat", "concat(axis, A, B, …)"},
    Idiom{"slice", "slice(A, axis, start, stop, step)"},
    Idiom{"argmax", "argmax(A, axis)"},
    Idiom{"argmin", "argmin(A, axis)"},
    Idiom{"sort", "sort(A, axis)"},
    Idiom{"argsort", "argsort(A, axis)"},
    Idiom{"cumsum", "cumsum(A, axis)"},
};

constexpr std::string_view kMaximum = "a maximum is written O[i: M] = >(A[i, j])";
constexpr std::string_view kMinimum = "a minimum is written O[i: M] = <(A[i, j])";
constexpr std::string_view kEach =
    "what is assigned element by element has the aggregation =, as in O[i: M] = =(A[i, 0] + 1)";
constexpr std::array kAggregations = {
    Idiom{"max", kMaximum},
    Idiom{"amax", kMaximum},
    Idiom{"min", kMinimum},
    Idiom{"amin", kMinimum},
};

constexpr std::string_view kTransposed =
    "a transposed tensor is transpose(A); a contraction reads A with its indices exchanged, A[j, "
    "i] "
    "in place of A[i, j]";
constexpr std::array kMembers = {
    Idiom{"T", kTransposed},  Idiom{"t", kTransposed},
    Idiom{"mT", kTransposed}, Idiom{"transpose", kTransposed},
    Idiom{"shape", kLength},  Idiom{"astype", kCast},
    Idiom{"to", kCast},       Idiom{"float", kCast},
    Idiom{"half", kCast},
};
constexpr std::array<std::string_view, 8> kModules = {"np",  "numpy", "torch", "jnp",
                                                      "jax", "tf",    "math",  "F"};

// What follows a whole expression elsewhere.
constexpr std::array kOperators = {
    Idiom{"and", "both of two conditions is written a && b"},
    Idiom{"or", "one of two conditions is written a || b"},
    Idiom{"not", "the opposite of a condition is written !a"},
    Idiom{"if", kSelect},
    Idiom{"else", kSelect},
    Idiom{"where", kConditions},
    Idiom{"for", kConditions},
};

constexpr std::array kCharacters = {
    Idiom{"_", "names start with a letter"},
    Idiom{"@", kProduct},
    Idiom{"#", "a comment begins with //"},
    Idiom{".", "numbers need digits before the dot, as in 0.5"},
    Idiom{"\"", "programs hold no texts: indices are written out, as in O[i: M] = +(A[i, j])"},
    Idiom{"'", "programs hold no texts: indices are written out, as in O[i: M] = +(A[i, j])"},
    Idiom{"⋅", "a product is written *"},
    Idiom{"·", "a product is written *"},
    Idiom{"×", "a product is written *"},
    Idiom{"∗", "a product is written *"},
    Idiom{"÷", "a quotient is written /"},
    Idiom{"−", "a minus is written -"},
    Idiom{"–", "a minus is written -"},
    Idiom{"≤", "written <="},
    Idiom{"≥", "written >="},
    Idiom{"≠", "written !="},
    Idiom{"→", "written ->"},
    Idiom{"²", "a square is square(A), a power pow(A, e)"},
    Idiom{"√", "a root is sqrt(A)"},
    Idiom{"Σ", kSum},
    Idiom{"∑", kSum},
};

constexpr std::string_view kLoop =
    "there are no loops: a contraction visits all values of its indices, as in O[i: M] = +(A[i, "
    "j])";
constexpr std::array kWords = {
    Idiom{"for", kLoop},
    Idiom{"while", kLoop},
    Idiom{"if", kSelect},
    Idiom{"print", "outputs are printed by the command line, --out O=-"},
    Idiom{"return", "the outputs stand in the first line: function (A) -> (O) { O = …; }"},
    Idiom{"let", "a name for a value stands behind the =: O = let v = exp(A) in v / (1 + v)"},
    Idiom{"def", "a program is one function; its statements are NAME = …;"},
};

}  // namespace

std::string_view idiom_hint(std::string_view name) { return find_hint(kIdioms, name); }

std::string_view aggregation_hint(std::string_view name) {
  std::string_view hint = find_hint(kAggregations, name);
  if (hint.empty()) hint = idiom_hint(name);
  bool tensor = !name.empty() && name[0] >= 'A' && name[0] <= 'Z';
  return hint.empty() && tensor ? kEach : hint;
}

std::string cast_hint(std::string_view name) {
  constexpr std::string_view kAs = "as_";
  std::string_view type_name = name.starts_with(kAs) ? name.substr(kAs.size()) : name;
  std::optional<DType> type = foreign_dtype(type_name);
  if (!type) type = parse_dtype(type_name);
  if (!type) return "";
  std::string own(to_string(*type));
  bool named = *type == DType::bool_ || *type == DType::bf16 || is_f8(*type);
  if (named) return "a cast to " + own + " is as_" + own + "(A)";
  std::string family = is_float(*type) ? "float" : is_signed_integer(*type) ? "int" : "uint";
  return "a cast to " + own + " is as_" + family + "(A, " + std::to_string(bit_width(*type)) + ")";
}

std::string member_hint(std::string_view owner, std::string_view name) {
  if (std::find(kModules.begin(), kModules.end(), owner) != kModules.end()) {
    std::string_view idiom = idiom_hint(name);
    return idiom.empty() ? "functions have no prefix: " + std::string(name) + "(A)"
                         : std::string(idiom);
  }
  std::string_view hint = find_hint(kMembers, name);
  if (hint.empty() && name != "sum") hint = idiom_hint(name);
  if (!hint.empty()) return std::string(hint);
  if (std::optional<Op> op = find_function(name)) {
    std::string more = info(*op).arity > 1 ? ", …)" : ")";
    return "a function takes its tensor in parentheses: " + std::string(name) + "(" +
           std::string(owner) + more;
  }
  return "tensors have no methods: X.sum(1) is the contraction S[i: M] = +(X[i, j])";
}

std::string_view statement_hint(std::string_view word) { return find_hint(kWords, word); }

std::string_view call_form(std::string_view function) { return find_hint(kForms, function); }

std::string_view operator_hint(std::string_view word) { return find_hint(kOperators, word); }

std::string_view character_hint(std::string_view character) {
  return find_hint(kCharacters, character);
}

}  // namespace tile
