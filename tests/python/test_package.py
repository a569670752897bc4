"""What is around the package: its version, and the bill of materials of the code inside that is others'. Of the build tree,
or of an installed wheel."""
import json
import pathlib
import re

import pytest

import tilejit as tile
from tilejit import _core

PACKAGE = pathlib.Path(tile.__file__).parent
# Libraries that are either inside, and then on the bill, or needed from the system.
EITHER = {"LLVM": "libLLVM", "oneTBB": "libtbb.", "xxHash": "libxxhash.", "libstdc++": "libstdc++."}


def bill():
    places = [PACKAGE.parent / "tile-jit.cdx.json", *PACKAGE.parent.glob("tile_jit-*.dist-info/sboms/tile-jit.cdx.json")]
    (place,) = [place for place in places if place.exists()]
    return json.loads(place.read_text(encoding="utf-8"))


def needed(library):
    """The names of the libraries that a shared library asks the system for."""
    elf = pytest.importorskip("elftools.elf.elffile")
    with open(library, "rb") as file:
        dynamic = elf.ELFFile(file).get_section_by_name(".dynamic")
        return [tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"]


def test_the_module_and_the_library_are_of_one_version():
    major, minor, patch = map(int, tile.__version__.split("."))
    assert _core.version() == 10000 * major + 100 * minor + patch


def test_every_component_is_named_with_version_and_licence():
    described = bill()
    assert (described["bomFormat"], described["specVersion"]) == ("CycloneDX", "1.6")
    assert described["metadata"]["component"]["version"] == tile.__version__
    names = [component["name"] for component in described["components"]]
    assert len(set(names)) == len(names) and {"nanobind", "nlohmann-json"} <= set(names)
    for component in described["components"]:
        assert re.fullmatch(r"\d+(\.\d+)+", component["version"]), component
        assert component["purl"].endswith("@" + component["version"]) and component["licenses"][0]["expression"], component


def test_what_is_not_needed_from_the_system_is_on_the_bill():
    core = PACKAGE / "_core.abi3.so"
    (name,) = [name for name in needed(core) if name.startswith("libtile.so")]
    library = next(p for p in (PACKAGE / name, PACKAGE.parents[1] / "runtime" / name) if p.exists())
    from_system = needed(library)
    inside = {component["name"] for component in bill()["components"]}
    assert inside & set(EITHER) == {name for name, file in EITHER.items()
                                    if not any(n.startswith(file) for n in from_system)}, from_system


def test_the_library_is_there_once():
    """A wheel holds no links: a second name would be a second copy."""
    assert len([path for path in PACKAGE.glob("libtile*") if not path.is_symlink()]) <= 1
