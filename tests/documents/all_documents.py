#!/usr/bin/env python3
"""Finds documents with examples that no test runs: all_documents.py ROOT DOCUMENT...

DOCUMENT are those whose examples are run, relative to ROOT. A document has examples where a fenced block is for a
console or for Python and its info string does not say `sketch`. Documents of other projects, of builds and of hidden
folders do not count. Prints one line for each fault; exits 1 if there is one."""
import pathlib
import sys

import run_examples

FOREIGN = {"build", "third_party", "node_modules"}


def documents(root):
    for path in sorted(root.rglob("*.md")):
        parts = path.relative_to(root).parts
        if not any(part in FOREIGN or part.startswith(".") for part in parts):
            yield path


def has_examples(path):
    return any(language in ("console", "python", "pycon") and "sketch" not in words
               for _, language, words, _ in run_examples.blocks(path.read_text(encoding="utf-8")))


def main():
    root, run = pathlib.Path(sys.argv[1]).resolve(), set(sys.argv[2:])
    faults = [f"{name}: there is no such document" for name in sorted(run) if not (root / name).is_file()]
    found = {str(path.relative_to(root)) for path in documents(root) if has_examples(path)}
    faults += [f"{name}: no test runs its examples" for name in sorted(found - run)]
    faults += [f"{name}: it has no examples" for name in sorted(run - found) if (root / name).is_file()]
    print("\n".join(faults + [f"{len(found)} documents with examples, {len(faults)} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
