#!/usr/bin/env python3
"""The peers' code of the networks gives at small sizes what ours does: tile-bench compares before it times.

Usage: network_peers.py TILE-BENCH. Status 77, and why, where no Python has PyTorch."""
import json
import pathlib
import subprocess
import sys
import tempfile

from peers import has_torch


def main():
    if not has_torch(sys.argv[1]):
        print("skipped: no Python of TILE_BENCH_PYTHON has PyTorch")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "result.json"
        command = [sys.argv[1], "run", "--filter", "networks", "--small", "--peer", "torch", "--peer", "jax"]
        command += ["--rounds", "1", "--round-ms", "1", "--json", str(path)]
        done = subprocess.run(command)
        result = json.loads(path.read_text())
    peers = {peer.split(":")[0]: "not found" not in peer for peer in result["context"]["peers"]}
    wrong = 0
    for entry in result["benchmarks"]:
        errors = [entry[key] for key in entry if key.endswith("_error") or key == "error_message"]
        checked = entry.get("checked_with", "")
        missing = [name for name, there in peers.items() if there and name not in checked.split(", ")]
        if errors or missing:
            print(f"{entry['name']}: compared with {checked or 'nothing'}; {' '.join(errors)}")
            wrong += 1
    return 1 if wrong or done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
