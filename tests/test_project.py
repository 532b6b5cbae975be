"""The rules of the project that no linter knows, as tests."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "crossroads"

MODULE_LINES_MAX = 600  # a reader holds one module in the head
FUNCTION_LINES_MAX = 80  # kernels are the longest; anything longer is two functions
# Code that a reader meets only once, as data or as a proof, may be longer: path → reason.
LONGER_MODULES: dict[str, str] = {}

UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b|\bNotImplemented" + r"Error\b")
# Folders of somebody's machine have no place in a project. URLs have a colon before the slash.
MACHINE_PATH = re.compile(r"(?<![\w.:/~$}])/(?:home|root|Users|work|opt/wheels)/\w")
DRAWERS = {"utils", "util", "helpers", "misc", "common"}
TEXT_SUFFIXES = {".py", ".md", ".toml", ".txt", ".yaml", ".yml", ".cfg", ".properties", ""}
NOT_OURS = {".venv", ".git", "__pycache__", "build", "dist", "node_modules"}


def python_files(*folders: str) -> list[Path]:
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in found if not NOT_OURS & set(path.parts))


def text_files() -> Iterator[Path]:
    for path in sorted(ROOT.rglob("*")):
        inside = path.relative_to(ROOT)
        hidden_tool = any(part.startswith(".") and part.endswith("_cache") for part in inside.parts)
        if hidden_tool or NOT_OURS & set(inside.parts) or inside.parts[0] == ".hypothesis":
            continue
        if path.is_file() and path.suffix in TEXT_SUFFIXES and ".egg-info" not in str(inside):
            yield path


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


SOURCES = python_files("src")
TESTS = [path for path in python_files("tests") if path.name.startswith("test_")]


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_a_module_is_short(path: Path) -> None:
    lines = path.read_text().count("\n")
    if named(path) in LONGER_MODULES:
        assert lines > MODULE_LINES_MAX, f"{named(path)} no longer needs its exemption"
    else:
        assert lines <= MODULE_LINES_MAX, f"{named(path)} has {lines} lines: split it"


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_a_function_is_short(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= FUNCTION_LINES_MAX, f"{named(path)}:{node.lineno} {node.name}: {lines}"


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    text = path.read_text()
    assert not text.strip() or ast.get_docstring(ast.parse(text)), f"{named(path)}: no docstring"


def test_no_drawer_is_called_utils() -> None:
    assert not [named(path) for path in SOURCES if path.stem in DRAWERS]


def test_nothing_is_left_unfinished() -> None:
    left = [
        f"{named(path)}:{number}"
        for path in text_files()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert not left


def test_no_file_names_a_folder_of_one_machine() -> None:
    left = [
        f"{named(path)}:{number}: {line.strip()}"
        for path in text_files()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert not left


@pytest.mark.parametrize("path", TESTS, ids=named)
def test_every_test_file_has_tests(path: Path) -> None:
    tree = ast.parse(path.read_text())
    names = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    machines = [node for node in tree.body if isinstance(node, ast.Assign)]  # stateful tests
    assert any(name.startswith("test_") for name in names) or machines, named(path)


@pytest.mark.parametrize("path", TESTS, ids=named)
def test_no_test_sleeps(path: Path) -> None:
    """Tests wait for what they need; a sleep is a guess about the machine."""
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    assert "time.sleep" not in {ast.unparse(call.func) for call in calls}


def test_there_is_a_licence() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[^\s;@]+", line) for line in wanted), wanted
    return {canonicalize_name(name): version for name, version in (w.split("==") for w in wanted)}


def declared() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    return [
        Requirement(line) for line in [*project["dependencies"], *(x for e in extras for x in e)]
    ]


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_every_dependency_is_pinned_within_its_range(requirement: Requirement) -> None:
    version = pins().get(canonicalize_name(requirement.name))
    assert version is not None, f"{requirement.name} is missing in constraints.txt"
    assert requirement.specifier.contains(version), f"{requirement} but pinned to {version}"


def test_what_is_pinned_carries_its_own_dependencies() -> None:
    """Everything pip would bring along is pinned too, as far as it is installed here."""
    import importlib.metadata

    known = pins()
    missing = set()
    for name in known:
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # an extra that is not installed on this machine
        for need in map(Requirement, needs):
            wanted = need.marker is None or need.marker.evaluate({"extra": ""})
            if wanted and canonicalize_name(need.name) not in known:
                missing.add(f"{need.name} (for {name})")
    assert not missing


def test_the_command_answers_without_loading_the_heavy_parts() -> None:
    """`crossroads --help` must not wait for Spark, Arrow or a compiler."""
    program = (
        "import sys\n"
        "from crossroads.cli.main import build_app\n"
        "build_app()\n"
        "print(sorted({'pyspark', 'pyarrow', 'numba', 'numpy', 'pandas'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_command_module_is_registered() -> None:
    from crossroads.cli.main import COMMANDS

    modules = {path.stem for path in (SOURCE / "cli").glob("*.py")}
    has_register = {
        name
        for name in modules
        if re.search(r"^def register\(", (SOURCE / "cli" / f"{name}.py").read_text(), re.MULTILINE)
    }
    assert has_register == set(COMMANDS)


def test_the_version_is_in_the_changelog() -> None:
    import crossroads

    text = (ROOT / "CHANGELOG.md").read_text()
    assert "## [Unreleased]" in text or f"## [{crossroads.__version__}]" in text


def test_decisions_are_numbered_without_gaps_and_have_their_four_parts() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    assert [int(path.name[:4]) for path in decisions] == list(range(1, len(decisions) + 1))
    for path in decisions:
        text = path.read_text()
        for part in ("Decided:", "Rejected:", "Accepted cost:", "Enforced by:"):
            assert part in text, f"{path.name} lacks {part!r}"
