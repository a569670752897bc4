#!/usr/bin/env python3
"""Checks the recipes of packages beside the build that they describe: the wheel's pyproject.toml, conda's meta.yaml and
build.sh, and vcpkg's manifest and portfile.

Versions, licence and description are those of the CMake project; what the project finds is what the recipes ask for;
options that they give CMake are options of the build; and the recipes' own tests and steps pass on the installed build.

Usage: recipes.py ROOT BUILD-FOLDER. Prints one line for each fault; exits 1 if there is one, 77 (left out) without PyYAML."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PACKAGES = "third_party/packages"
# What the project finds, as the two systems call it. The compiler's own threads are no package.
FOUND = {"LLVM": ("llvmdev", None), "TBB": ("tbb-devel", "tbb"), "XXHash": ("xxhash", "xxhash"), "PNG": ("libpng", "libpng"),
         "nlohmann_json": ("nlohmann_json", "nlohmann-json"), "CLI11": ("cli11", "cli11"),
         "JPEG": ("libjpeg-turbo", "libjpeg-turbo")}
NO_PACKAGE = {"Threads", "CudaHeaders", "Python", "nanobind"}  # of the system; of parts that the recipes leave out


def rendered(text):
    """conda's template: its variables, and its functions as their own names; lines for other systems stay."""
    values = dict(re.findall(r'{% set (\w+) = "([^"]*)" %}', text))
    text = re.sub(r"{%.*?%}", "", text)
    text = re.sub(r"{{ (\w+) }}", lambda found: json.dumps(values[found[1]]), text)
    return re.sub(r'{{ (\w+)\(("[^"]*")[^{}]*\) }}', lambda found: f"{found[1]}-{found[2].strip(chr(34))}", text)


class Project:
    """What the CMake files say."""

    def __init__(self, root):
        self.text = (root / "CMakeLists.txt").read_text(encoding="utf-8")
        self.version = re.search(r"project\(\w+ VERSION ([\d.]+)", self.text)[1]
        self.packages = {}
        for name in ("third_party/cmake/TileDependencies.cmake", "runtime/CMakeLists.txt", "runtime/python/CMakeLists.txt"):
            found = re.findall(r"find_package\((\w+) ?([\d.]*)", (root / name).read_text(encoding="utf-8"))
            self.packages.update(found)


def versions(root, project, conda, vcpkg, python):
    header = (root / "runtime/include/tile/tile.h").read_text(encoding="utf-8")
    module = (root / "runtime/python/tilejit/__init__.py").read_text(encoding="utf-8")
    said = {"vcpkg.json": vcpkg["version"], "meta.yaml": conda["package"]["version"], "pyproject.toml": python["version"],
            "tile.h": ".".join(re.findall(r"define TILE_VERSION_\w+ (\d+)", header)),
            "tilejit": re.search(r'^__version__ = "(.*)"', module, re.M)[1]}
    for name, version in said.items():
        if version != project.version:
            yield f"{name}: version {version}, not {project.version}"


def descriptions(conda, vcpkg, python):
    for name, said in (("meta.yaml", conda["about"]["summary"]), ("vcpkg.json", vcpkg["description"])):
        if said != python["description"]:
            yield f"{name}: described as {said!r}, in pyproject.toml as {python['description']!r}"
    if {conda["about"]["license"], vcpkg["license"], python["license"]} != {"MIT"}:
        yield "not all recipes say MIT"


def dependencies(project, conda, vcpkg, portfile):
    host = dict((entry.split() + [""])[:2] for entry in conda["requirements"]["host"])
    port = {entry for entry in vcpkg["dependencies"] if isinstance(entry, str)}
    found = set(project.packages) - NO_PACKAGE
    for name in sorted(found - set(FOUND)):
        yield f"{name}: found by CMake, unknown to this test"
    wanted = [FOUND[name] for name in found & set(FOUND)]
    for name, asked, needed in (("meta.yaml", set(host), {w[0] for w in wanted}),
                                ("vcpkg.json", port, {w[1] for w in wanted} - {None})):
        for package in sorted(asked ^ needed):
            yield f"{name}: {package} is {'needed' if package in needed else 'not needed'}"
    if host.get("llvmdev") != project.packages["LLVM"] + ".*":
        yield f"meta.yaml: LLVM {host.get('llvmdev')}, CMake's is {project.packages['LLVM']}"
    if f"llvm-{project.packages['LLVM'].partition('.')[0]}/" not in portfile:
        yield f"portfile.cmake: another LLVM than {project.packages['LLVM']}"
    compilers = conda["requirements"]["build"]
    least = re.search(r"cmake_minimum_required\(VERSION ([\d.]+)", project.text)[1]
    if f"cmake >={least}" not in compilers:
        yield f"meta.yaml: CMake {least} is needed"


def cache_of(build):
    return dict(re.findall(r"^(\w+):\w+=(.*)$", (build / "CMakeCache.txt").read_text(encoding="utf-8"), re.M))


def options(name, text, cache):
    for option in sorted(set(re.findall(r"-D(\w+)=", text))):
        if option not in cache:
            yield f"{name}: {option} is no option of the build"


def wheel(root, settings):
    folder = root / "runtime/python"
    modules = {path.stem for path in (folder / "tilejit").glob("*.py")}
    exported = (root / "runtime/tile_private.map").read_text(encoding="utf-8")
    for command, target in settings["project"]["scripts"].items():
        module, _, function = target.partition(":")
        text = (folder / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")
        called = re.search(rf'^def {function}\((?:(?!^def ).)*?"(private_\w+)"', text, re.M | re.S)
        if not called or called[1] + ";" not in exported:
            yield f"pyproject.toml: the program {command} calls nothing that the library exports"
    build = settings["tool"]["scikit-build"]
    lists = (folder / "CMakeLists.txt").read_text(encoding="utf-8")
    components = set(re.findall(r"COMPONENT (\w+)", lists))
    if set(build["install"]["components"]) != components:
        yield f"pyproject.toml: components {build['install']['components']}, CMake has {sorted(components)}"
    for target in build["build"]["targets"]:
        if f"nanobind_add_module({target} " not in lists:
            yield f"pyproject.toml: there is no target {target}"
    for module in sorted(set(settings["project"]["optional-dependencies"]) & {"torch", "jax"} - modules):
        yield f"pyproject.toml: the extra {module} has no module"
    for name in (settings["project"]["readme"], "tilejit/py.typed", "tilejit/_core.pyi"):
        if not (folder / name).is_file():
            yield f"runtime/python/{name}: not there"


def conda_tests(conda, build, folder):
    prefix = folder / "conda"
    subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
    environment = {**os.environ, "PREFIX": str(prefix), "PATH": f"{prefix}/bin:{os.environ['PATH']}", "TILE_CACHE": "off"}
    for command in conda["test"]["commands"]:
        done = subprocess.run(["bash", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            yield f"meta.yaml: {command} fails: {done.stdout}{done.stderr}"


def port_steps(root, build, folder, cache):
    done = subprocess.run(["cmake", f"-DBUILD={build}", f"-DROOT={root}", f"-DCURRENT_PACKAGES_DIR={folder / 'vcpkg'}",
                           f"-DTILE_LLVM_DIR={cache['LLVM_DIR']}", "-P", root / "tests/install/portfile.cmake"],
                          capture_output=True, text=True)
    if done.returncode:
        yield f"portfile.cmake: {done.stderr.strip()}"
    yield from options("portfile.cmake", done.stderr, cache)


def faults(root, build, yaml, tomllib):
    conda = yaml.safe_load(rendered((root / PACKAGES / "conda/meta.yaml").read_text(encoding="utf-8")))
    vcpkg = json.loads((root / PACKAGES / "vcpkg/tile-jit/vcpkg.json").read_text(encoding="utf-8"))
    portfile = (root / PACKAGES / "vcpkg/tile-jit/portfile.cmake").read_text(encoding="utf-8")
    script = root / PACKAGES / "conda/build.sh"
    settings = tomllib.loads((root / "runtime/python/pyproject.toml").read_text(encoding="utf-8"))
    project, cache = Project(root), cache_of(build)
    yield from versions(root, project, conda, vcpkg, settings["project"])
    yield from descriptions(conda, vcpkg, settings["project"])
    yield from dependencies(project, conda, vcpkg, portfile)
    yield from options("build.sh", script.read_text(encoding="utf-8"), {**cache, "CMAKE_PREFIX_PATH": ""})
    yield from wheel(root, settings)
    if subprocess.run(["sh", "-n", script]).returncode:
        yield "build.sh: no shell script"
    with tempfile.TemporaryDirectory() as folder:
        yield from conda_tests(conda, build, pathlib.Path(folder))
        yield from port_steps(root, build, pathlib.Path(folder), cache)


def main():
    try:
        import tomllib
        import yaml
    except ImportError as error:
        print(f"left out: {error} (Python 3.11 and sh third_party/install.sh --python have all)")
        return 77
    found = list(faults(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), yaml, tomllib))
    print("\n".join(found + [f"recipes: {len(found)} faults"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
