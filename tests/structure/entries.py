#!/usr/bin/env python3
"""Checks what stands at the top of the repository, that every source file is formatted text of a bearable length,
and that nothing committed names a path of one machine.

Usage: entries.py ROOT. Prints one line for each fault; exits 1 if there is one."""
import pathlib
import re
import subprocess
import sys

ALLOWED = {"core", "backends", "runtime", "bench", "tests", "third_party", "README.md", "CMakeLists.txt",
           "CMakePresets.json", "LICENSE"}
SOURCE = {".h", ".c", ".cpp", ".py", ".sh", ".cmake"}
LONGEST = 800
PATHS = re.compile(r"(^|[\s\"'=(])/(home|work|root)/\w")


def tracked(root):
    """The repository's files; of an unpacked archive without git, every file outside build and dot folders."""
    listed = subprocess.run(["git", "-C", str(root), "-c", "safe.directory=*", "ls-files", "-z"],
                            capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        return [name for name in listed.stdout.split("\0") if name and (root / name).is_file()]
    return [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()
            and not re.match(r"build|out$|\.", path.relative_to(root).parts[0])]


def main():
    root = pathlib.Path(sys.argv[1])
    names = tracked(root)
    faults = []
    for entry in sorted({name.split("/")[0] for name in names}):
        if entry not in ALLOWED and not entry.startswith("."):
            faults.append(f"{entry}: not an entry of the layout")
    for entry in sorted(ALLOWED - {name.split("/")[0] for name in names}):
        faults.append(f"{entry}: missing")
    for name in names:
        path = root / name
        if path.suffix not in SOURCE and path.name != "CMakeLists.txt":
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) > LONGEST:
            faults.append(f"{name}: {len(lines)} lines; the longest file has {LONGEST}")
        faults += [f"{name}:{number}: a path of one machine: {line.strip()}"
                   for number, line in enumerate(lines, 1) if PATHS.search(line)]
    print("\n".join(faults + [f"{len(names)} files, {len(faults)} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
