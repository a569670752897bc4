"""The examples, run as a reader would run them, on small sizes; what they print is looked at."""
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

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


def test_train_characters(tmp_path):
    pytest.importorskip("torch")
    drawn = tmp_path / "loss.svg"
    printed = run("train_characters.py", "--steps", 60, "--length", 16, "--width", 16, "--svg", drawn)
    curves = [line.get("points").split() for line in ElementTree.parse(drawn).iter("{http://www.w3.org/2000/svg}polyline")]
    assert [len(points) for points in curves] == [60, 60]
    losses = [tuple(map(float, line.split()[1:])) for line in printed.splitlines() if re.match(r" *\d+ ", line)]
    assert len(losses) == 10
    assert all(abs(ours - theirs) < 0.01 * theirs for ours, theirs in losses), losses
    assert losses[-1][0] < 0.8 * losses[0][0], losses


def outputs(notebook, identifier):
    return next(cell["outputs"] for cell in notebook.cells if cell["id"] == identifier)


def test_filter_notebook(monkeypatch, tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    for package in ("ipykernel", "PIL"):
        pytest.importorskip(package)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(FOLDER / "filter.ipynb", 4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells), "outputs are not stored"
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()

    text = "".join(o["text"] for cell in notebook.cells for o in cell.get("outputs", []) if o["output_type"] == "stream")
    distance = {name: float(value) for name, value in re.findall(r"^(\w+): ([\d.]+)", text, re.M)}
    assert distance["smoothed"] < distance["learned"] < distance["blurred"] < distance["noisy"] / 2
    error = outputs(notebook, "error")[0]
    assert error["ename"] == "ParseError" and error["traceback"][0].startswith("smooth.mfg:6:18: parse error [name]")
    assert len(error["traceback"]) == 3 and error["traceback"][2].endswith("^~~~~~~~~~~~~~")
    assert all("image/png" in outputs(notebook, cell)[-1]["data"] for cell in ("photograph", "blurred", "choice"))


def test_every_example_is_run():
    examples = {p.name for p in FOLDER.iterdir() if p.suffix in (".py", ".ipynb")}
    assert examples == {"wave.py", "windowed_attention.py", "train_characters.py", "filter.ipynb"}
