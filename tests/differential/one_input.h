// Random programs of one input whose values are exact.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "core/language/language.h"
#include "core/passes/bind.h"
#include "tests/executors/run_backends.h"
#include "tests/random/agreement.h"

namespace tile::test {

// Compiled code and nests give what the reference interpreter gives, bit for bit.
inline void expect_exact(const std::shared_ptr<Engine>& engine, Language language,
                         const std::string& text, const HostTensor& x) {
  auto source = std::make_shared<const Source>(Source{"random", text});
  try {
    auto program = std::make_shared<const Program>(parse(language, source));
    Interpretation expected = interpret(bind(*program, {{x.type, x.shape}}), {x}, {}, true);
    std::shared_ptr<Executable> e = compile(engine, program, {InputLayout{{x.type, x.shape}, {}}});
    EXPECT_EQ(difference(expected, run_code(*e, {x}), true), "") << "compiled code";
    EXPECT_EQ(difference(expected, run_nests(*e, {x}), true), "") << "nests";
  } catch (const Failure& failure) {
    ADD_FAILURE() << render(failure.diagnostic(), *source);
  } catch (const InternalError& error) {
    ADD_FAILURE() << error.what();
  }
}

}  // namespace tile::test
