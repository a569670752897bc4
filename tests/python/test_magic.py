"""The cell magics in real shells of IPython: what they bind, what they give, and how errors look."""
import subprocess
import sys

import numpy as np
import pytest

import tilejit as tile

pytest.importorskip("IPython")
from IPython.core.interactiveshell import InteractiveShell  # noqa: E402

TWICE = "function (A[N]) -> (B) {\n  B = 2 * A;\n}\n"
MEANS = "def result_f32 |x, y| { input_f32(x, y) / 2.0 }\n"
SUMS = "val sums = fun(ArrayType(Float, N), input =>\n  Map(Reduce(add, 0.0f)) o Slide(3, 1) o Pad(1, 1, Clamp) $ input)\n"


@pytest.fixture
def shell():
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(history_length=0)
    made.history_manager.enabled = False
    made.run_line_magic("load_ext", "tilejit")
    yield made
    InteractiveShell.clear_instance()


def run(shell, cell):
    result = shell.run_cell(cell)
    result.raise_error()
    return result.result


def test_binds_the_name(shell):
    assert run(shell, "%%tile twice\n" + TWICE) is None
    assert isinstance(shell.user_ns["twice"], tile.Program) and shell.user_ns["twice"].name == "twice.tile"
    assert run(shell, "import numpy as np\ntwice(np.arange(3.0)).tolist()") == [0.0, 2.0, 4.0]


def test_gives_the_program_without_a_name(shell):
    made = run(shell, "%%tile\n" + TWICE)
    assert isinstance(made, tile.Program)
    np.testing.assert_array_equal(run(shell, "import numpy as np\n_(np.ones(2))"), [2.0, 2.0])


@pytest.mark.parametrize("language, text", [("tile", TWICE), ("mfg", MEANS), ("lift", SUMS)])
@pytest.mark.parametrize("magic", ["%%{0} made", "%%tile made --language {0}"])
def test_languages(shell, language, text, magic):
    run(shell, magic.format(language) + "\n" + text)
    assert shell.user_ns["made"].language == language


def test_errors_are_shown_as_located_text_alone(shell, capsys):
    result = shell.run_cell("%%tile bad\nfunction (A[N]) -> (O) {\n  O[i: N] = +(A[i * i]);\n}\n")
    assert isinstance(result.error_in_exec, tile.ParseError) and result.error_in_exec.line == 3  # of the cell
    assert capsys.readouterr().out.splitlines() == [
        "bad.tile:3:17: parse error [linearity]: the index expression 'i * i' is not linear: it multiplies index 'i' by "
        "index 'i'",
        " 3 |   O[i: N] = +(A[i * i]);",
        "   |                 ^~~~~",
        " hint: an index may be multiplied or divided by integers and dimensions only"]
    assert "bad" not in shell.user_ns


def test_a_failed_cell_keeps_what_the_name_was(shell):
    run(shell, "%%tile twice\n" + TWICE)
    before = shell.user_ns["twice"]
    shell.run_cell("%%tile twice\nfunction (")
    assert shell.user_ns["twice"] is before


@pytest.mark.parametrize("line, said", [("%%tile 2x", "cannot be the name"), ("%%tile a b", "unrecognized arguments: b"),
                                        ("%%tile a --language c", "invalid choice"), ("%%mfg a --language tile", "unrecognized")])
def test_a_wrong_line_is_a_usage_error(shell, capsys, line, said):
    result = shell.run_cell(line + "\n" + TWICE)
    printed = capsys.readouterr()
    assert not result.success and said in printed.out + printed.err and "Traceback" not in printed.out + printed.err


def test_unloading_takes_the_magics_away(shell):
    shell.run_line_magic("unload_ext", "tilejit")
    assert not shell.run_cell("%%tile twice\n" + TWICE).success and "twice" not in shell.user_ns


def test_the_package_needs_no_ipython():
    code = "import sys, tilejit; assert not any(m.partition('.')[0] == 'IPython' for m in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
