// What single passes make of programs, as texts: one file of cases/ each. The expected texts are
// brought up to date by `cmake --build BUILD --target update_transforms`, and read in review.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <set>

#include "core/fusion/group.h"
#include "core/nest/passes/nest_passes.h"
#include "core/pipeline/pipeline.h"
#include "core/support/diagnostic.h"
#include "tests/transforms/transform_case.h"

namespace tile::test {
namespace {

using std::filesystem::path;

std::vector<path> case_files() {
  std::vector<path> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(TILE_SOURCE_DIR "/tests/transforms/cases")) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The text that the pass makes; what went wrong otherwise.
std::string made_of(const TransformCase& c, bool& right) {
  right = false;
  try {
    std::string text = transformed(c);
    right = true;
    return text;
  } catch (const Failure& failure) {
    return render(failure.diagnostic(), Source{"case", c.program});
  } catch (const std::exception& wrong) {
    return wrong.what();
  }
}

class Transforms : public testing::TestWithParam<path> {};

TEST_P(Transforms, GivesTheText) {
  TransformCase c = read_case(GetParam());
  bool right = false;
  std::string text = made_of(c, right);
  ASSERT_TRUE(right) << text;
  if (std::getenv("TILE_UPDATE_TRANSFORMS") != nullptr) {
    std::ofstream(GetParam()) << c.head << text;
    return;
  }
  EXPECT_EQ(text, c.expected) << "if that is meant: cmake --build BUILD --target update_transforms";
}

std::string name_of(const testing::TestParamInfo<path>& info) {
  std::string name = info.param.stem().string();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Each, Transforms, testing::ValuesIn(case_files()), name_of);

// No pass is without a text that shows what it does.
TEST(TransformCases, ShowEveryPass) {
  std::set<std::string> shown;
  for (const path& file : case_files()) {
    TransformCase c = read_case(file);
    if (!c.unchanged) shown.insert(c.pass);
  }
  auto expect_shown = [&](const PassInfo& pass) {
    EXPECT_TRUE(shown.contains(std::string(pass.name))) << "no case for " << pass.name;
  };
  for (const Pass& pass : passes()) expect_shown(pass);
  for (const FusionPass& pass : fusion_passes()) expect_shown(pass);
  for (const nest::NestPass& pass : nest::nest_passes()) expect_shown(pass);
}

}  // namespace
}  // namespace tile::test
