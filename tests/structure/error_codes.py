#!/usr/bin/env python3
"""Checks that the table of error codes in tile.h lists what the library can give: every code in it, and no other.

A code is a string literal of one word that is an argument of what makes an error, behind its stage or its place:
`fail(Stage::bind, "rank", …)`, `Failure({stage_, "cancelled", …})`, `fail_at(span, "axis", …)`, `require({…, "split", …})`.

Usage: error_codes.py ROOT. Prints the codes that only one side has; exits 1 if there are any."""
import pathlib
import re
import sys

ROW = re.compile(r'^ \*   "([a-z]+)"  ', re.M)
# What stands before a code: a stage, or the first arguments of a function that adds the stage.
BEFORE = (
    r"(?:\bStage::\w+|\bstage_?)\s*,\s*",
    r"\bfail_at\((?:[^;\"]|\((?:[^;\"])*\))*?,\s*",
    r"\bSizeCheck::Relation::\w+,[^;\"]*?,\s*",
    r"\berror\([^;]*?,\s*(?=\"\w+\"\))",
    r"\bcode = ",
)
# The code, or a choice of two.
CODE = re.compile("(?:" + "|".join(BEFORE) + r')(?:\w+ \? "(\w+)" : )?"(\w+)"\s*[,;)]')


def given(root):
    """The codes in the library's sources, each with a file that gives it."""
    codes = {}
    for layer in ("core", "backends", "runtime"):
        for path in sorted((root / layer).rglob("*")):
            own = path.relative_to(root).parts[:2]
            if path.suffix not in (".cpp", ".h") or own in (("runtime", "cli"), ("runtime", "examples")):
                continue
            text = re.sub(r"//[^\n]*", "", path.read_text())
            for match in CODE.finditer(text):
                for code in filter(None, match.groups()):
                    codes.setdefault(code, path.relative_to(root))
    return codes


def main():
    root = pathlib.Path(sys.argv[1])
    listed = set(ROW.findall((root / "runtime/include/tile/tile.h").read_text()))
    codes = given(root)
    for code in sorted(codes.keys() - listed):
        print(f"{codes[code]}: tile.h does not list the code \"{code}\"")
    for code in sorted(listed - codes.keys()):
        print(f"tile.h lists the code \"{code}\", which nothing gives")
    print(f"{len(codes)} codes")
    return 1 if codes.keys() != listed else 0


if __name__ == "__main__":
    sys.exit(main())
