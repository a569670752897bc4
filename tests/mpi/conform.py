#!/usr/bin/env python3
"""conform.py RANKS MESH BACKEND OVERLAP FILES...: conformance cases on so many processes."""
import os
import pathlib
import re
import subprocess
import sys


def main():
    ranks, mesh, backend, overlap, *names = sys.argv[1:]
    folder = pathlib.Path(os.environ["TILE_ROOT"], "tests/conformance")
    files = [str(folder / f"{name}.json") for name in names]
    # Small programs would mostly be whole everywhere: tensors that follow each other exchange more.
    done = subprocess.run(["mpirun", "-n", ranks, "tile", "conform", *files, "--mesh", mesh, "--layout", "follow", "--transport",
                           "mpi", "--backend", backend, "--threads", "1", "--overlap", overlap], text=True, capture_output=True, timeout=1400)
    lines = done.stdout.splitlines()
    last = lines[-1] if lines else ""
    print(f"{backend}, {ranks} ranks, overlap {overlap}: {last}")
    # One rank alone prints, and some cases passed.
    counts = re.fullmatch(r"(\d+) passed, 0 failed.*", last)
    if done.returncode == 0 and counts and int(counts[1]) > 0 and done.stdout.count(" passed, ") == 1:
        return 0
    print(done.stdout[-3000:], done.stderr[-3000:])
    return 1


if __name__ == "__main__":
    sys.exit(main())
