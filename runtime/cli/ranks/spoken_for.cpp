// Errors of many processes, told once.
#include <iostream>

#include "runtime/cli/error_text.h"
#include "runtime/cli/ranks/rank_commands.h"

namespace tile::cli {
namespace {

// How long rank 0 waits for the others' last words, and they for it: behind that time each speaks
// for itself. A launcher ends all processes once one has failed.
constexpr double kWordsSeconds = 2, kDismissalSeconds = 3;

std::string name_of(size_t rank, const Transport& transport) {
  return "rank " + std::to_string(rank) + " of " + std::to_string(transport.ranks()) + ": ";
}

// Whether one message tells what the other does: who fails because of another rank repeats it.
bool says_the_same(const std::string& a, const std::string& b) {
  return a.find(b) != std::string::npos || b.find(a) != std::string::npos;
}

void speak_for_all(PluginTransport& transport, const ErrorText& own) {
  std::cerr << own.text << std::flush;
  std::vector<std::string> said{own.message};
  for (const auto& [rank, words] : transport.last_words(kWordsSeconds)) {
    bool known = false;
    for (const std::string& before : said) known = known || says_the_same(before, words);
    if (known) continue;
    std::cerr << "tile: " << name_of(rank, transport) << words << "\n" << std::flush;
    said.push_back(words);
  }
  transport.dismiss();
}

// Drops what is printed to a stream for as long as it lives.
class Silent {
 public:
  explicit Silent(std::ostream& stream, bool really)
      : stream_(stream), before_(really ? stream.rdbuf(nullptr) : nullptr) {}
  ~Silent() {
    if (before_ == nullptr) return;
    stream_.rdbuf(before_);
    stream_.clear();
  }
  Silent(const Silent&) = delete;
  Silent& operator=(const Silent&) = delete;

 private:
  std::ostream& stream_;
  std::streambuf* before_;
};

}  // namespace

int spoken_for(PluginTransport& transport, const Options& options,
               const std::function<int()>& work) {
  try {
    Silent out(std::cout, transport.rank() != 0);
    return work();
  } catch (...) {
    ErrorText own = error_text(std::current_exception(), options);
    transport.abort(own.message);
    if (transport.rank() == 0) {
      speak_for_all(transport, own);
    } else if (!transport.is_dismissed(kDismissalSeconds)) {
      std::cerr << name_of(transport.rank(), transport) << own.text << std::flush;
    }
    return 1;
  }
}

}  // namespace tile::cli
