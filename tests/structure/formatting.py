#!/usr/bin/env python3
"""Checks that clang-format would change no C or C++ file of the repository.

Usage: formatting.py ROOT. Exits 1 where it would, 77 (left out) where clang-format 19 is not installed: other versions
format a few lines differently."""
import pathlib
import shutil
import subprocess
import sys

from entries import tracked

FORMATTER = "clang-format-19"


def main():
    root = pathlib.Path(sys.argv[1])
    if not shutil.which(FORMATTER):
        print(f"left out: no {FORMATTER}")
        return 77
    names = [name for name in tracked(root) if pathlib.Path(name).suffix in {".h", ".c", ".cpp"}]
    if not names:
        print("no C or C++ file found")
        return 1
    return subprocess.run([FORMATTER, "--dry-run", "-Werror", *names], cwd=root).returncode


if __name__ == "__main__":
    sys.exit(main())
