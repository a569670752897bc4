// Random programs of one input whose values are exact.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "core/language/language.h"
#include "core/passes/bind/bind.h"
#include "tests/executors/run_backends.h"
#include "tests/random/agreement/agreement.h"

namespace tile::test {

// Compiled code and nests give what the reference interpreter gives, bit for bit, in any layout of
// the input: dense, strided, with elements that share memory.
inline void expect_exact(const std::shared_ptr<Engine>& engine, Language language,
                         const std::string& text, const HostTensor& x) {
  auto source = std::make_shared<const Source>(Source{"random", text});
  InputType type{x.type, x.shape, std::nullopt};
  try {
    auto program = std::make_shared<const Program>(parse(language, source));
    for (const Laid& laid : {dense_layouts({type}, {x}),
                             random_layouts(std::hash<std::string>()(text), {type}, {x})}) {
      SCOPED_TRACE(described(laid));
      Interpretation expected = interpret(bind(*program, {type}), laid.inputs, {}, true);
      std::shared_ptr<Executable> e = compile(engine, program, laid.layouts);
      EXPECT_EQ(difference(expected, run_code(*e, laid.inputs), true), "") << "compiled code";
      EXPECT_EQ(difference(expected, run_nests(*e, laid.inputs), true), "") << "nests";
    }
  } catch (const Failure& failure) {
    ADD_FAILURE() << render(failure.diagnostic(), *source);
  } catch (const InternalError& error) {
    ADD_FAILURE() << error.what();
  }
}

}  // namespace tile::test
