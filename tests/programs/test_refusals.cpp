// What becomes of a drawn program that the product refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/programs/campaign.h"
#include "tests/programs/subjects.h"

namespace tile::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What a campaign over the items 0, 1 and 2 prints.
std::string printed(const std::function<Outcome(uint64_t)>& run, int& status) {
  CampaignOptions options;
  options.processes = {1, 60, 3};
  Items items;
  items.run = run;
  items.describe = [](uint64_t item) { return "item " + std::to_string(item); };
  ::testing::internal::CaptureStdout();
  status = Campaign(options, items).run(0, 3);
  return ::testing::internal::GetCapturedStdout();
}

TEST(Campaign, WhatAnItemThrowsIsItsFailureAndTheOthersRun) {
  int status = 0;
  std::string text = printed(
      [](uint64_t item) {
        if (item == 0) fail(Stage::bind, "derivative", {}, "no derivative of T");
        if (item == 1) throw InternalError("no such node");
        return Outcome{"", 4};
      },
      status);
  EXPECT_EQ(status, 1);
  EXPECT_THAT(text, HasSubstr("\"wrong\":\"bind error derivative: no derivative of T\""));
  EXPECT_THAT(text, HasSubstr("\"wrong\":\"internal error: no such node\""));
  EXPECT_THAT(text, HasSubstr("\"programs\":3,\"runs\":4,\"refused\":0,\"failed\":2"));
}

TEST(Campaign, GradientsThatMayBeRefusedAreCounted) {
  int status = 1;
  std::string text = printed(
      [](uint64_t item) {
        Outcome outcome{"", 1};
        if (item == 2) outcome.refused = "no bound of k";
        return outcome;
      },
      status);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(text, HasSubstr("\"what\":\"item 2\",\"refused\":\"no bound of k\""));
  EXPECT_THAT(text, Not(HasSubstr("\"wrong\"")));
  EXPECT_THAT(text, HasSubstr("\"programs\":3,\"runs\":3,\"refused\":1,\"failed\":0"));
}

TEST(Refusals, OfGradientsAreAllowedWhereTheSpecificationDoesNotPromiseThem) {
  Diagnostic derivative{Stage::bind, "derivative", "no derivative", "", {}};
  Diagnostic limit{Stage::compile, "limit", "too large", "", {}};
  Diagnostic rank{Stage::bind, "rank", "another rank", "", {}};
  for (Language language : {Language::mfg, Language::lift}) {
    EXPECT_TRUE(may_refuse_gradient(language, derivative));
    EXPECT_TRUE(may_refuse_gradient(language, limit));
    EXPECT_FALSE(may_refuse_gradient(language, rank));
  }
  EXPECT_FALSE(may_refuse_gradient(Language::tile, derivative));  // 7.1
  EXPECT_TRUE(may_refuse_gradient(Language::tile, limit));        // 8.2
  EXPECT_FALSE(may_refuse_gradient(Language::tile, rank));
}

// Second derivatives of these need a bound that the text gives by a size times an index only.
TEST(Refusals, AProgramIsDrawnWithoutTheGradientThatIsRefused) {
  for (uint64_t seed : {86012716, 86015939}) {
    Drawn drawn = drawn_cases(Language::lift, seed, random_configuration(seed, "cpu", ""));
    ASSERT_EQ(drawn.cases.size(), 1U);
    EXPECT_FALSE(drawn.cases[0].program->outputs.empty());
  }
}

}  // namespace
}  // namespace tile::test
