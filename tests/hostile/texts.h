// Texts that ask for too much, in the three languages: deep, long, wide, many, or over sizes that
// no memory holds. Each is what it is for any machine.
#pragma once

#include <string>
#include <vector>

namespace tile::test {

struct HostileText {
  std::string name;
  std::string language;
  std::string text;
};
const std::vector<HostileText>& hostile_texts();

}  // namespace tile::test
