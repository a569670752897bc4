#include "core/support/choices.h"

namespace tile {
namespace {

struct State {
  ChoiceRecord* record = nullptr;        // written
  const ChoiceRecord* repeat = nullptr;  // read
  size_t next = 0;                       // of `repeat`
  size_t anew = 0;
};
thread_local constinit State state;
thread_local constinit bool prefers_space = false;

// What is asked on the way to an answer is a part of it.
class Undisturbed {
 public:
  Undisturbed() : before_(state) { state = {}; }
  ~Undisturbed() { state = before_; }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  State before_;
};

// The answer on record, from where the last one was found on; null: there is none.
const ChoiceRecord::Choice* on_record(std::string_view question) {
  if (state.repeat == nullptr) return nullptr;
  const auto& all = state.repeat->choices;
  for (size_t i = state.next; i < all.size(); ++i) {
    if (all[i].question == question) return &all[i];
  }
  return nullptr;
}

void take(const ChoiceRecord::Choice& known) {
  state.next = static_cast<size_t>(&known - state.repeat->choices.data()) + 1;
}

void write_down(std::string_view question, size_t answer) {
  if (state.record != nullptr) state.record->choices.push_back({std::string(question), answer});
}

}  // namespace

RecordedChoices::RecordedChoices(ChoiceRecord& record) : before_(state.record) {
  state.record = &record;
}
RecordedChoices::~RecordedChoices() { state.record = before_; }

RepeatedChoices::RepeatedChoices(const ChoiceRecord& record)
    : before_(state.repeat), next_before_(state.next), anew_before_(state.anew) {
  state.repeat = &record;
  state.next = 0;
  state.anew = 0;
}
RepeatedChoices::~RepeatedChoices() {
  state.repeat = before_;
  state.next = next_before_;
  state.anew = anew_before_;
}
size_t RepeatedChoices::answered_anew() const { return state.anew; }

size_t chosen(std::string_view question, const std::function<size_t()>& decide) {
  size_t answer = 0;
  if (const ChoiceRecord::Choice* known = on_record(question)) {
    answer = known->answer;
    take(*known);
  } else {
    if (state.repeat != nullptr) ++state.anew;
    Undisturbed alone;
    answer = decide();
  }
  write_down(question, answer);
  return answer;
}

bool declined(std::string_view question) {
  const ChoiceRecord::Choice* known = on_record(question);
  if (known == nullptr || known->answer != 0) return false;
  take(*known);
  write_down(question, 0);
  return true;
}

bool choices_are_repeated() { return state.repeat != nullptr; }

bool agreed(std::string_view question, const std::function<bool()>& decide) {
  return chosen(question, [&] { return decide() ? size_t{1} : size_t{0}; }) != 0;
}

SpaceFirst::SpaceFirst() : before_(prefers_space) { prefers_space = true; }
SpaceFirst::~SpaceFirst() { prefers_space = before_; }
bool space_first() { return prefers_space; }

}  // namespace tile
