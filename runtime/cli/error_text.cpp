#include "runtime/cli/error_text.h"

#include <new>

#include "runtime/ranks/division.h"

namespace tile::cli {
namespace {

ErrorText in_source(const Options& options, const Diagnostic& d, const Source& source) {
  return {d.message, options.json_diagnostics ? render_json(d, source) + "\n" : render(d, source)};
}

ErrorText plain(const Options& options, const Diagnostic& d) {
  if (options.json_diagnostics) return in_source(options, d, Source{"tile", ""});
  std::string text = "tile: " + d.message + "\n";
  if (!d.hint.empty()) text += " hint: " + d.hint + "\n";
  return {d.message, text};
}

}  // namespace

ErrorText error_text(const std::exception_ptr& error, const Options& options) {
  try {
    std::rethrow_exception(error);
  } catch (const Located& e) {
    bool of_program = e.diagnostic.code != "argument" && e.diagnostic.code != "file";
    if (!of_program) return plain(options, e.diagnostic);
    return in_source(options, e.diagnostic, *e.source);
  } catch (const FailureInText& e) {
    return in_source(options, e.diagnostic(), *e.text());
  } catch (const Failure& e) {
    return plain(options, e.diagnostic());
  } catch (const std::bad_alloc&) {
    return plain(options, {Stage::run, "memory", "out of memory", "", {}});
  } catch (const std::exception& e) {
    return plain(options, {Stage::run, "internal", e.what(), "", {}});
  }
}

}  // namespace tile::cli
