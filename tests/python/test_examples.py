"""The examples, run as a reader would run them, on small sizes; what they print is looked at."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "runtime" / "examples" / "python"


def run(name, *arguments):
    result = subprocess.run([sys.executable, FOLDER / name, *map(str, arguments)], capture_output=True, text=True,
                            timeout=500, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_wave(tmp_path):
    printed = run("wave.py", "--size", 48, "--steps", 60, "--every", 20, "--out", tmp_path)
    frames = sorted(tmp_path.iterdir())
    assert [f.name for f in frames] == ["wave000.png", "wave001.png", "wave002.png"]
    assert all(f.read_bytes().startswith(b"\x89PNG") for f in frames) and frames[0].read_bytes() != frames[2].read_bytes()
    assert float(re.search(r"changed by (\S+) of itself", printed)[1]) < 1e-9


def test_windowed_attention():
    pytest.importorskip("torch")
    printed = run("windowed_attention.py", "--length", 40, "--window", 7, "--width", 8, "--backend", "aot_eager")
    assert printed.count("gradients differ") == 2


def test_train_characters():
    pytest.importorskip("torch")
    printed = run("train_characters.py", "--steps", 60, "--length", 16, "--width", 16)
    losses = [tuple(map(float, line.split()[1:])) for line in printed.splitlines() if re.match(r" *\d+ ", line)]
    assert len(losses) == 10
    assert all(abs(ours - theirs) < 0.01 * theirs for ours, theirs in losses), losses
    assert losses[-1][0] < 0.8 * losses[0][0], losses


def test_every_example_is_run():
    assert {p.name for p in FOLDER.glob("*.py")} == {"wave.py", "windowed_attention.py", "train_characters.py"}
