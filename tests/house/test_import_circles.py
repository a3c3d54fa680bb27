"""No import circle in the product, also not for types or inside a function."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "kafkaguard": ROOT,
    "kafkaguard_policies": ROOT / "policies",
    "kafkaguard_adapters": ROOT / "adapters",
}
#: An error knows its verdict, and a verdict the class of the error: the one exception.
ERRORS_AND_VERDICTS = ("kafkaguard.errors", "kafkaguard._verdicts")


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
    """Return the modules of the product that a file imports, wherever it does so.

    Except what a public module exports: it names those files for type checkers, and
    loads them when a user asks for a name.
    """
    names = set()
    tree = ast.parse(file.read_text())
    if "\nexports(" in file.read_text():
        tree.body = [node for node in tree.body if not isinstance(node, ast.If)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                names.add(inner if inner in known else node.module)
    return names & set(known)


def circle_of(edges):
    """Return a circle among modules, or an empty list."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_there_is_no_import_circle_but_errors_and_verdicts():
    """Each module can be read before those that import it."""
    known = modules()
    edges = {name: imported(file, known) - {name} for name, file in known.items()}
    for name in [each for each in edges if each.startswith(ERRORS_AND_VERDICTS)]:
        edges[name] = {e for e in edges[name] if not e.startswith(ERRORS_AND_VERDICTS)}
    assert len(known) > 200
    assert circle_of(edges) == []


def test_a_circle_for_types_or_inside_a_function_is_found(tmp_path):
    """The search for circles finds imports for types and inside functions."""
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("if TYPE_CHECKING:\n    from two import Thing\n")
    two.write_text("def f():\n    import one\n")
    known = {"one": one, "two": two}
    edges = {name: imported(file, known) for name, file in known.items()}
    assert {"one", "two"} == set(circle_of(edges))
