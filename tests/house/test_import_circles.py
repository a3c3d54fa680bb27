"""No import circle in the product: of files, or of what stands in one package.

Imports count wherever they stand, also those for types and inside a function.
"""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "kafkaguard": ROOT,
    "kafkaguard_policies": ROOT / "policies",
    "kafkaguard_adapters": ROOT / "adapters",
}


def modules():
    """Return the file of each module of the product by its name."""
    found = {}
    for package, folder in PACKAGES.items():
        for file in (folder / package).rglob("*.py"):
            parts = file.relative_to(folder).with_suffix("").parts
            name = ".".join(parts).removesuffix(".__init__")
            found[name] = file
    return found


def imported(file, known):
    """Return the modules of the product that a file imports, wherever it does so."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                names.add(inner if inner in known else node.module)
    return names & set(known)


def between_children(package, edges):
    """Return the imports between the files and folders that stand in a package."""

    def child(name):
        return name.removeprefix(f"{package}.").partition(".")[0]

    within = {name for name in edges if name.startswith(f"{package}.")}
    found = {}
    for name in within:
        targets = {child(other) for other in edges[name] & within} - {child(name)}
        found.setdefault(child(name), set()).update(targets)
    return found


def circle_of(edges):
    """Return a circle, or an empty list."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return error.args[1]
    return []


KNOWN = modules()
EDGES = {name: imported(file, KNOWN) - {name} for name, file in KNOWN.items()}
FOLDERS = sorted(name for name, file in KNOWN.items() if file.name == "__init__.py")


def test_there_is_no_import_circle_of_files():
    """Each module can be read before those that import it."""
    assert len(KNOWN) > 200
    assert circle_of(EDGES) == []


@pytest.mark.parametrize("package", FOLDERS)
def test_there_is_no_import_circle_of_folders(package):
    """Each folder of a package can be read before those that import from it."""
    assert circle_of(between_children(package, EDGES)) == []


def test_a_circle_for_types_or_inside_a_function_is_found(tmp_path):
    """The search for circles finds imports for types and inside functions."""
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("if TYPE_CHECKING:\n    from two import Thing\n")
    two.write_text("def f():\n    import one\n")
    known = {"one": one, "two": two}
    edges = {name: imported(file, known) for name, file in known.items()}
    assert {"one", "two"} == set(circle_of(edges))


def test_a_circle_of_folders_without_one_of_files_is_found():
    """The tests above would notice it, also if one of the two is a file."""
    edges = {"p.a.x": {"p.b.x"}, "p.b.y": {"p.a.y"}, "p.b.x": set(), "p.a.y": set()}
    assert circle_of(edges) == []
    assert {"a", "b"} == set(circle_of(between_children("p", edges)))
    edges = {"p.a.x": {"p.file"}, "p.file": {"p.a.y"}, "p.a.y": set()}
    assert {"a", "file"} == set(circle_of(between_children("p", edges)))
