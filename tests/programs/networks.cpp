#include "tests/programs/networks.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "core/language/tile/tile.h"
#include "core/simplify/expr.h"
#include "tests/random/random_source.h"

namespace tile::test {
namespace {

Sizes sizes_of(std::istream& words) {
  Sizes sizes;
  for (std::string word; words >> word;) {
    size_t at = word.find('=');
    sizes[word.substr(0, at)] = std::stoll(word.substr(at + 1));
  }
  return sizes;
}

void read_type(Network& network, std::istream& words) {
  std::string input, type, size;
  words >> input >> type;
  network.types[input] = parse_dtype(type).value();
  if (words >> size) network.below[input] = size;
}

void read_gradient(Network& network, std::istream& words) {
  WholeGradient gradient;
  words >> gradient.of;
  gradient.of.pop_back();  // the colon
  for (std::string name; words >> name;) gradient.wrt.push_back(name);
  network.gradients.push_back(std::move(gradient));
}

Network network_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) fail(Stage::parse, "file", {}, "cannot read " + path.string());
  Network network;
  network.name = path.stem().string();
  network.text.assign(std::istreambuf_iterator<char>(file), {});
  std::istringstream lines(network.text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string slashes, what;
    words >> slashes >> what;
    if (slashes != "//") break;
    if (what == "sizes") network.sizes.push_back(sizes_of(words));
    if (what == "type") read_type(network, words);
    if (what == "gradient" || what == "second") read_gradient(network, words);
  }
  if (network.sizes.empty()) {
    fail(Stage::parse, "file", {},
         path.string() + " begins with no line of sizes: // sizes B=2 S=7");
  }
  return network;
}

HostTensor values(RandomSource& random, DType type, const Shape& shape, int64_t below) {
  HostTensor t(type, shape);
  for (int64_t i = 0; i < t.count(); ++i) {
    t.set(i, is_float(type) ? real_scalar(random.unit() * 2 - 1, type)
                            : integer_scalar(random.in(0, below - 1), type));
  }
  return t;
}

Shape shape_of(const Tensor& tensor, const Sizes& sizes) {
  Shape shape;
  for (const Expr& dim : tensor.dims) {
    std::optional<int64_t> size = value_at(dim, sizes);
    if (!size) fail(Stage::bind, "size", tensor.span, "no size for " + tensor.name);
    shape.push_back(*size);
  }
  return shape;
}

}  // namespace

std::vector<Network> networks_in(const std::string& folder) {
  std::vector<Network> list;
  std::error_code error;
  std::filesystem::directory_iterator files(folder, error);
  if (error) fail(Stage::parse, "file", {}, "cannot read " + folder);
  for (const auto& entry : files) {
    if (entry.path().extension() == ".tile") list.push_back(network_in(entry.path()));
  }
  std::sort(list.begin(), list.end(),
            [](const Network& a, const Network& b) { return a.name < b.name; });
  return list;
}

WholeCase case_of(const Network& network, size_t size, size_t gradients, uint64_t seed) {
  const Sizes& sizes = network.sizes.at(size);
  RandomSource random(seed);
  std::vector<HostTensor> inputs;
  Program program = parse_tile(std::make_shared<const Source>(Source{network.name, network.text}));
  for (TensorId id : program.inputs) {
    const Tensor& t = program.tensors[id];
    auto type = network.types.find(t.name);
    auto below = network.below.find(t.name);
    inputs.push_back(values(random, type == network.types.end() ? DType::f32 : type->second,
                            shape_of(t, sizes),
                            below == network.below.end() ? 2 : sizes.at(below->second)));
  }
  WholeCase c = case_of(std::move(program), std::move(inputs));
  for (size_t g = 0; g < gradients; ++g) differentiate(c, network.gradients.at(g));
  c.drawn.text = print(*c.program);
  return c;
}

}  // namespace tile::test
