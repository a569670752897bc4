// `tile new`: starting programs, one for each language, that show what the language is for.
#include <filesystem>
#include <iostream>

#include "runtime/cli/files.h"
#include "runtime/cli/tools/tools.h"

namespace tile::cli {
namespace {

constexpr std::string_view kTile =
    R"(// Rows of A with columns of B, a bias, and a smooth step: a layer of a network.
//
// Tensors and dimensions begin with a capital letter, indices with a small one. The inputs name
// their dimensions: A has M rows and L columns. A bare name, such as D, has any shape.
function (A[M, L], B[L, N], D) -> (O) {
  // A contraction: for each cell C[i, j] the sum, over all k, of what stands in the brackets. The
  // sizes of C stand behind the colon. Other aggregations: > (maximum), < (minimum), * (product).
  C[i, j: M, N] = +(A[i, k] * B[k, j]);
  // Whole tensors, element by element; shapes are broadcast as in NumPy.
  O = sigmoid(C + D);
}
)";
constexpr std::string_view kMfg = R"(@title "Soften"
# The mean of the pixels around each pixel.
#
# A parameter can be changed without another compilation: --param radius=4.
@param_i32 radius(SLIDER, label="Radius", min=1, max=16, init=2)

# Pixels outside of the picture are those at its border.
let source = sampler<input_u8>(address=.ClampToEdge)

# The result: a block that says the colour (blue, green, red, alpha) of the pixel at x, y.
def result_u8 |x, y| {
  let sum = rsum(-radius..<radius+1, -radius..<radius+1) |i, j| { i32(source(x+i, y+j)) }
  let count = (2*radius + 1)^2
  u8(sum/count)
}
)";
constexpr std::string_view kLift =
    R"(// The mean of three neighbours in a row of numbers; the ends see themselves twice.
//
// Functions are put together with `o`, from right to left, and applied with `$`: the row is padded
// at both ends, cut into windows of three that move by one, each window is reduced to a row of one
// sum, the rows are joined, and each sum is divided by three.
val mean = fun(
  ArrayType(Float, N), A =>
  Map(s => s / 3.0f) o Join() o Map(Reduce(add, 0.0f)) o Slide(3, 1) o Pad(1, 1, clamp) $ A)
)";

struct Start {
  Language language;
  std::string_view text;
  std::string_view arguments;  // of `tile run`, behind the file
};
constexpr Start kStarts[] = {
    {Language::tile, kTile, "--in A=random:4x3 --in B=random:3x2 --in D=random:2 --out O=-"},
    {Language::mfg, kMfg, "--in input_u8=picture:48x64 --out result_u8=soft.png"},
    {Language::lift, kLift, "--in A=iota:8 --out out=-"},
};

}  // namespace

int command_new(const std::string& language, std::string file) {
  std::optional<Language> wanted = parse_language(language);
  if (!wanted) {
    fail(Stage::run, "argument", {}, "there is no language " + language, "tile, mfg or lift");
  }
  if (file.empty()) file = "start." + language;
  std::error_code none;
  if (std::filesystem::exists(std::filesystem::symlink_status(file, none))) {
    fail(Stage::run, "file", {}, file + " is there already", "give the new file another name");
  }
  bool named = language_of_suffix(file) == wanted;
  for (const Start& start : kStarts) {
    if (start.language != *wanted) continue;
    write_new_text(file, start.text);
    std::cout << file << " is written; run it with\n  tile run " << file
              << (named ? "" : " --lang " + language) << " " << start.arguments << "\n";
  }
  return 0;
}

}  // namespace tile::cli
