#!/usr/bin/env python3
"""The networks, forward and as steps of training, compute in f64 what their peers do, to its last digits: what f32
differs by is rounding, of which `tile-bench accuracy` says how much is to be expected. A peer whose gradient is wrong
is found.

Usage: network_accuracy.py TILE-BENCH. Status 77, and why, where no Python has PyTorch."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from peers import has_torch

# PyTorch's f64 is f64 throughout; JAX rounds the scores of attention to f32.
MOST = {"torch f64": 1e-9, "jax f64": 1e-6}


def accuracy(program, folder, *options):
    path = pathlib.Path(folder) / "accuracy.json"
    command = [program, "accuracy", "--small", "--peer", "torch", "--peer", "jax", "--json", str(path), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout, done.stderr, sep="", end="")
    return done.returncode, json.loads(path.read_text())


def check_networks(program, folder):
    status, found = accuracy(program, folder, "--filter", "networks")
    there = {peer.split(":")[0] for peer in found["peers"] if "not found" not in peer}
    wrong = 0 if status == 0 else 1
    for case in found["cases"]:
        for who, most in MOST.items():
            if who.split()[0] in there and not case.get(who, float("inf")) <= most:
                print(f"{case['name']}: {who} differs by {case.get(who)}")
                wrong += 1
    if len(found["cases"]) < 20:
        print(f"only {len(found['cases'])} cases")
        wrong += 1
    return wrong


def check_wrong_peer(program, folder):
    """A loss whose gradient is a tenth too long is refused, by `accuracy` and before a timing."""
    source = pathlib.Path(__file__).parents[2] / "bench/workloads/networks"
    copied = pathlib.Path(folder) / "networks"
    shutil.copytree(source, copied)
    code = copied / "unet_torch.py"
    text = code.read_text()
    longer = text.replace("F.mse_loss(y, t[\"Target\"])", "1.1 * F.mse_loss(y, t[\"Target\"])")
    code.write_text(longer)
    wrong = 0 if longer != text else 1
    status, found = accuracy(program, folder, "unet_stage_1x64_train", "--workloads", str(copied))
    if status != 1 or not found["cases"][0]["torch f64"] > 0.05:
        print("accuracy lets a wrong gradient pass")
        wrong += 1
    path = pathlib.Path(folder) / "run.json"
    command = [program, "run", "unet_stage_1x64_train", "--small", "--peer", "torch", "--rounds", "1", "--round-ms", "1"]
    subprocess.run([*command, "--workloads", str(copied), "--json", str(path)], capture_output=True)
    error = json.loads(path.read_text())["benchmarks"][0].get("error_message", "")
    if "differs from torch's" not in error or "from f64's: tile" not in error:
        print(f"run lets a wrong gradient pass: {error}")
        wrong += 1
    return wrong


def main():
    if not has_torch(sys.argv[1]):
        print("skipped: no Python of TILE_BENCH_PYTHON has PyTorch")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        wrong = check_networks(sys.argv[1], folder)
        wrong += check_wrong_peer(sys.argv[1], folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
