"""The guide's examples: blocks of Python are executed in order in one namespace, and the block of text that follows one is
what it prints. An ellipsis there stands for anything. Blocks that need PyTorch or JAX say so: ```python torch. Those marked
IPython are cells of a notebook."""
import contextlib
import importlib.util
import io
import pathlib
import re

import pytest

GUIDE = pathlib.Path(__file__).parents[2] / "runtime" / "python" / "GUIDE.md"
BLOCK = re.compile(r"^```(\w+) ?(\w*)\n(.*?)^```$", re.M | re.S)


def blocks():
    found = BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    for i, (language, needs, code) in enumerate(found):
        if language == "python":
            printed = found[i + 1][2] if i + 1 < len(found) and found[i + 1][0] == "text" else None
            yield needs, code, printed


def run_cell(code, namespace):
    from IPython.core.interactiveshell import InteractiveShell
    shell = InteractiveShell.instance(history_length=0, user_ns=namespace)  # the first call makes it
    shell.run_cell(code)


def run_block(code, needs, namespace):
    if needs == "IPython":
        run_cell(code, namespace)
    else:
        exec(compile(code, str(GUIDE), "exec"), namespace)


def test_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace, run = {"__name__": "guide"}, 0
    for needs, code, expected in blocks():
        if needs and importlib.util.find_spec(needs) is None:
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            run_block(code, needs, namespace)
        if expected is not None:
            pattern = ".*?".join(re.escape(part) for part in expected.strip().split("…"))
            assert re.fullmatch(pattern, out.getvalue().strip(), re.S), f"{code}\nprints\n{out.getvalue()}"
        run += 1
    assert run >= 10


def test_a_block_that_prints_something_else_is_found(monkeypatch, tmp_path):
    wrong = tmp_path / "GUIDE.md"
    wrong.write_text("```python\nprint(1)\n```\n\n```text\n2\n```\n")
    monkeypatch.setattr(f"{__name__}.GUIDE", wrong)
    with pytest.raises(AssertionError, match="prints"):
        test_examples(tmp_path, monkeypatch)
