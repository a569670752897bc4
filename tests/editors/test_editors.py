"""The editors' grammars on every program of the repository: test_editors.py PATH_OF_TILE ROOT.

A grammar must know every token of a program that its language accepts, and call what no token begins with invalid."""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

TILE, ROOT = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
del sys.argv[1:3]
EDITORS = ROOT / "runtime" / "editors"
LANGUAGES = ("tile", "mfg", "lift")
# Texts of which no token is right, and programs with one wrong token.
WRONG = {"tile": ["function (A) -> (O) { O = A $ 1; }", "function (A) -> (O) { O = 1x; }", "_a", "1.2.3"],
         "mfg": ["let a = ~b", "let a = `", 'let a = "open'], "lift": ["val a = [1]", "val f = 3x", "val a = @"]}


class Grammar:
    """As an editor reads a TextMate grammar: the leftmost match of a line, of those the first rule's."""

    def __init__(self, path):
        grammar = json.loads(path.read_text())
        self.rules = [(rule, re.compile(rule.get("match", rule.get("begin", "")))) for rule in grammar["patterns"]]

    def scopes(self, text):
        """(scope, text) of each token; white space has none."""
        inside = None
        for line in text.split("\n"):
            at = 0
            while at <= len(line):
                if inside:
                    end = re.compile(inside["end"]).search(line, at)
                    yield inside["name"], line[at:end.end() if end else len(line)]
                    if not end:
                        break
                    at, inside = end.end(), None
                    continue
                found = [(m.start(), number, rule, m) for number, (rule, pattern) in enumerate(self.rules)
                         for m in [pattern.search(line, at)] if m]
                if not found:
                    if line[at:].strip():
                        yield "none", line[at:]
                    break
                start, _, rule, match = min(found, key=lambda row: row[:2])
                if line[at:start].strip():
                    yield "none", line[at:start]
                if "begin" in rule:
                    inside = rule
                    yield rule["name"], match[0]
                elif "captures" in rule:
                    for group, scope in rule["captures"].items():
                        yield scope["name"], match[int(group)]
                else:
                    yield rule["name"], match[0]
                at = match.end()
                assert match[0], f"{rule} matches nothing"


def accepted():
    """The programs of the repository that are some: (path, text)."""
    left = [path for language in LANGUAGES for top in ("bench", "runtime", "tests")
            for path in sorted((ROOT / top).rglob(f"*.{language}"))]
    while left:  # each run ends at the first that is none
        done = subprocess.run([TILE, "fmt", "--check", *map(str, left)], capture_output=True, text=True, timeout=60)
        told = done.stderr.splitlines()
        number = next((i for i, path in enumerate(left) if any(str(path) in line for line in told)), len(left))
        assert number < len(left) or not told, told
        for path in left[:number]:
            yield path, path.read_text(encoding="utf-8")
        left = left[number + 1:]


ACCEPTED = list(accepted())


class Editors(unittest.TestCase):
    def test_the_grammars_know_every_token(self):
        self.assertGreater(len(ACCEPTED), 150)
        grammars = {name: Grammar(EDITORS / "vscode" / "syntaxes" / f"{name}.tmLanguage.json") for name in LANGUAGES}
        for path, text in ACCEPTED:
            with self.subTest(path):
                for scope, token in grammars[path.suffix[1:]].scopes(text):
                    self.assertNotIn("invalid", scope, token)
                    self.assertNotEqual(scope, "none", token)
        for language, texts in WRONG.items():
            for text in texts:
                scopes = [scope for scope, _ in grammars[language].scopes(text)]
                self.assertTrue(any("invalid" in scope for scope in scopes), (text, scopes))

    def test_the_extension_is_whole(self):
        package = json.loads((EDITORS / "vscode" / "package.json").read_text())
        contributed = package["contributes"]
        self.assertEqual({row["id"] for row in contributed["languages"]}, set(LANGUAGES))
        named = [row["path"] for row in contributed["grammars"]] + [package["main"]]
        named += [row["configuration"] for row in contributed["languages"]]
        for name in named:
            self.assertTrue((EDITORS / "vscode" / name).is_file(), name)
        for row in contributed["grammars"]:
            grammar = json.loads((EDITORS / "vscode" / row["path"]).read_text())
            self.assertEqual(grammar["scopeName"], row["scopeName"])
        for row in contributed["languages"]:
            json.loads((EDITORS / "vscode" / row["configuration"]).read_text())

    def test_the_extension_keeps_the_editors_rules(self):
        """What `vsce package` refuses or asks about, and what a folder that is not trusted may do."""
        package = json.loads((EDITORS / "vscode" / "package.json").read_text())
        self.assertRegex(package["name"], r"^[a-z0-9][a-z0-9\-]*$")
        self.assertRegex(package["publisher"], r"^[A-Za-z0-9][A-Za-z0-9\-]*$")
        self.assertRegex(package["version"], r"^\d+\.\d+\.\d+$")
        self.assertLessEqual(set(package["categories"]), {"Programming Languages", "Formatters", "Linters", "Other"})
        # The client's version 9 is for 1.82 and later (its own "engines").
        least = tuple(map(int, re.fullmatch(r"\^(\d+)\.(\d+)\.\d+", package["engines"]["vscode"]).groups()))
        self.assertTrue(package["dependencies"]["vscode-languageclient"].startswith("^9."))
        self.assertGreaterEqual(least, (1, 82))
        self.assertIn("activationEvents", package)  # with "main"; empty: whenever a file of a language is opened
        suffixes = [suffix for row in package["contributes"]["languages"] for suffix in row["extensions"]]
        self.assertEqual(sorted(suffixes), sorted("." + name for name in LANGUAGES))
        # A folder's own settings may not name a program that is run before the user trusts it.
        setting = package["contributes"]["configuration"]["properties"]["tile.server"]
        self.assertEqual(setting["scope"], "machine-overridable")
        self.assertIn("tile.server", package["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"])
        guide = (ROOT / "runtime" / "guides" / "editors.md").read_text()
        self.assertIn(f"{package['name']}-{package['version']}.vsix", guide)

    def test_the_lexers_yield_no_error(self):
        try:
            import pygments
        except ImportError:
            self.skipTest("no Pygments")
        sys.path.insert(0, str(EDITORS / "pygments"))
        from pygments.token import Error
        import tile_pygments
        lexers = {"tile": tile_pygments.TileLexer(), "mfg": tile_pygments.MfgLexer(), "lift": tile_pygments.LiftLexer()}
        for path, text in ACCEPTED:
            with self.subTest(path):
                for kind, token in lexers[path.suffix[1:]].get_tokens(text):
                    self.assertIsNot(kind, Error, token)
        for language, texts in WRONG.items():
            for text in texts:
                self.assertIn(Error, [kind for kind, _ in lexers[language].get_tokens(text)], text)


if __name__ == "__main__":
    unittest.main()
