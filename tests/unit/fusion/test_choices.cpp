// Choices of the model that are written down and taken again.
#include <gtest/gtest.h>

#include "core/support/choices.h"
#include "core/support/diagnostic.h"

namespace tile {
namespace {

TEST(Choices, AreTakenFromTheRecord) {
  ChoiceRecord record;
  {
    RecordedChoices now(record);
    EXPECT_TRUE(agreed("a", [] { return true; }));
    EXPECT_EQ(chosen("b", [] { return size_t{7}; }), 7U);
    EXPECT_FALSE(agreed("a", [] { return false; }));
  }
  EXPECT_FALSE(agreed("a", [] { return false; }));  // nobody remembers
  RepeatedChoices again(record);
  auto never = []() -> size_t { throw InternalError("asked"); };
  EXPECT_EQ(chosen("a", never), 1U);
  EXPECT_EQ(chosen("b", never), 7U);
  EXPECT_EQ(chosen("a", never), 0U);
  EXPECT_EQ(again.answered_anew(), 0U);
  EXPECT_EQ(chosen("a", [] { return size_t{3}; }), 3U);
  EXPECT_EQ(again.answered_anew(), 1U);
}

// A question that one size does not have, or has beside, leaves the others their answers.
TEST(Choices, OtherQuestionsDisturbNothing) {
  ChoiceRecord record;
  {
    RecordedChoices now(record);
    for (const char* q : {"a", "b", "c"}) chosen(q, [&] { return static_cast<size_t>(q[0]); });
  }
  RepeatedChoices again(record);
  EXPECT_EQ(chosen("x", [] { return size_t{5}; }), 5U);
  EXPECT_EQ(chosen("a", [] { return size_t{0}; }), size_t{'a'});
  EXPECT_EQ(chosen("c", [] { return size_t{0}; }), size_t{'c'});
}

// What is asked on the way to an answer is a part of it.
TEST(Choices, NestedQuestionsAreNotOnRecord) {
  ChoiceRecord record;
  auto ask = [](bool inner) {
    return agreed("outer", [&] { return agreed("inner", [&] { return inner; }); });
  };
  {
    RecordedChoices now(record);
    EXPECT_TRUE(ask(true));
  }
  EXPECT_EQ(record.choices.size(), 1U);
  RepeatedChoices again(record);
  EXPECT_TRUE(ask(false));
}

// Who is told no need not make what is asked about; any other answer is still to be asked for.
TEST(Choices, DeclinedOnRecord) {
  ChoiceRecord record;
  EXPECT_FALSE(declined("a"));
  {
    RecordedChoices now(record);
    EXPECT_FALSE(declined("a"));  // nothing is on record yet
    EXPECT_FALSE(agreed("a", [] { return false; }));
    EXPECT_TRUE(agreed("b", [] { return true; }));
    EXPECT_FALSE(choices_are_repeated());
  }
  RepeatedChoices again(record);
  EXPECT_TRUE(choices_are_repeated());
  EXPECT_TRUE(declined("a"));
  EXPECT_FALSE(declined("a")) << "it is taken";
  EXPECT_FALSE(declined("b"));
  EXPECT_TRUE(agreed("b", [] { return false; })) << "it is still there";
  EXPECT_FALSE(declined("c"));
  EXPECT_EQ(again.answered_anew(), 0U);
}

}  // namespace
}  // namespace tile
