// Choices of the cost model that decide what kernels a program becomes. Made once for a class of
// sizes and taken again for each of its sizes, they give all of them the same kernels.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tile {

// What was asked, in order, and what was chosen.
struct ChoiceRecord {
  struct Choice {
    std::string question;
    size_t answer = 0;
  };
  std::vector<Choice> choices;
};

// Writes down this thread's choices for as long as it lives.
class RecordedChoices {
 public:
  explicit RecordedChoices(ChoiceRecord& record);
  ~RecordedChoices();
  RecordedChoices(const RecordedChoices&) = delete;
  RecordedChoices& operator=(const RecordedChoices&) = delete;

 private:
  ChoiceRecord* before_;
};

// Takes this thread's choices from a record, in its order, for as long as it lives. A question that
// is not on what is left of it is answered anew.
class RepeatedChoices {
 public:
  // The record must outlive this.
  explicit RepeatedChoices(const ChoiceRecord& record);
  ~RepeatedChoices();
  RepeatedChoices(const RepeatedChoices&) = delete;
  RepeatedChoices& operator=(const RepeatedChoices&) = delete;

  // How many questions were not on record.
  size_t answered_anew() const;

 private:
  const ChoiceRecord* before_;
  size_t next_before_, anew_before_;
};

// The answer of decide(), or the one on record; the question names who asks, of what.
size_t chosen(std::string_view question, const std::function<size_t()>& decide);
bool agreed(std::string_view question, const std::function<bool()>& decide);
// Whether the answer on record is no, or 0: then it is taken, and who asks need not make what only
// another answer asks for. False where nothing is on record: the question is still to be asked.
bool declined(std::string_view question);
// Whether this thread takes its choices from a record.
bool choices_are_repeated();

// Where this thread chooses between what is faster and what stores less, for as long as it lives it
// takes what stores less: for programs that do not fit into memory otherwise.
class SpaceFirst {
 public:
  SpaceFirst();
  ~SpaceFirst();
  SpaceFirst(const SpaceFirst&) = delete;
  SpaceFirst& operator=(const SpaceFirst&) = delete;

 private:
  bool before_;
};
bool space_first();

// What is chosen by. The smaller one is the better.
struct Price {
  double ns = 0;     // by the model
  double bytes = 0;  // that are stored
  Price& operator+=(const Price& more) {
    ns += more.ns;
    bytes += more.bytes;
    return *this;
  }
  friend bool operator<(const Price& a, const Price& b) {
    return space_first() && a.bytes != b.bytes ? a.bytes < b.bytes : a.ns < b.ns;
  }
};

}  // namespace tile
