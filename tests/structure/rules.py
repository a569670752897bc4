#!/usr/bin/env python3
"""Lists the numbered rules of the specifications (rules.txt) that no test names.

A test names a rule in a comment or a string, `rule 4.3`, `rules 4.3, 4.4` or `rules 20-23`, or in its name, `Rule4_3`,
`Rule_4_3`, `Rule_17`.
The rule is of the language that stands before it (`lift rule 2.1`), else of the language in the file's path, else Tile's.

Usage: rules.py ROOT [LANGUAGE...]. Prints `missing: LANGUAGE NUMBER  subject` lines and a count, of all languages
or of those named; exits 1 if any of their rules has no test."""
import pathlib
import re
import sys

TEXT = {".cpp", ".h", ".c", ".py", ".sh", ".json", ".tile", ".mfg", ".lift", ".txt", ".cmake"}
NUMBER = r"\d{1,2}(?:\.\d{1,2}a?)?"
RANGE = re.compile(rf"({NUMBER})\s*(?:-|to)\s*({NUMBER})")
CITATION = re.compile(rf"(?:\b(tile|mfg|lift)(?:\.md)?\s+)?\brules?\s+({NUMBER}(?:\s*(?:,|and|to|-)\s*{NUMBER})*)", re.I)
NAME = re.compile(r"[Rr]ules?_?(\d{1,2})(?:_(\d{1,2}a?))?(?![0-9])")


def language_of(path):
    return next((language for language in ("mfg", "lift") if language in str(path).lower()), "tile")


def between(first, last):
    """The rules from first to last, both included: of one chapter, or plainly numbered."""
    chapter, dot, start = first.rpartition(".")
    end = last.rpartition(".")[2]
    return [f"{chapter}{dot}{number}" for number in range(int(start.rstrip("a")), int(end.rstrip("a")) + 1)] + [first, last]


def cited(path, text):
    """The (language, number) pairs that one test file names."""
    home = language_of(path)
    pairs = set()
    for language, numbers in CITATION.findall(text):
        numbers = RANGE.sub(lambda found: ", ".join(between(*found.groups())), numbers)
        pairs |= {(language.lower() or home, number) for number in re.findall(NUMBER, numbers)}
    return pairs | {(home, f"{chapter}.{section}" if section else chapter) for chapter, section in NAME.findall(text)}


def main():
    root = pathlib.Path(sys.argv[1])
    here = root / "tests" / "structure"
    rules = [line.split(maxsplit=2) for line in (here / "rules.txt").read_text().splitlines()
             if line and not line.startswith("#")]
    rules = [rule for rule in rules if len(sys.argv) < 3 or rule[0] in sys.argv[2:]]
    named = set()
    for path in (root / "tests").rglob("*"):
        if path.is_file() and (path.suffix in TEXT or path.name == "CMakeLists.txt") and here not in path.parents:
            named |= cited(path.relative_to(root), path.read_text(encoding="utf-8", errors="replace"))
    missing = [rule for rule in rules if (rule[0], rule[1]) not in named]
    for language, number, subject in missing:
        print(f"missing: {language} {number}  {subject}")
    print(f"{len(rules)} rules, {len(missing)} without a test")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
