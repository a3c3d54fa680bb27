"""The public surface: each name in one module, documented, with public types."""

from __future__ import annotations

import inspect
import pickle
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

import kafkaguard
from kafkaguard._errors.generated import BY_CODE
from kafkaguard._errors.made import CLASS_NAMES

ROOT = Path(__file__).resolve().parents[2]
MODULES = [
    "kafkaguard",
    *(
        f"kafkaguard.{name}"
        for name in kafkaguard.__all__
        if inspect.ismodule(getattr(kafkaguard, name))
    ),
]
#: Each public name by its path.
NAMES = {
    f"{module}.{name}": getattr(import_module(module), name)
    for module in MODULES
    for name in import_module(module).__all__
}
OBJECTS = {
    path: value
    for path, value in NAMES.items()
    if inspect.isclass(value) or inspect.isfunction(value)
}
DIRECTIVE = re.compile(
    r"^\.\. auto(\w+):: (kafkaguard[\w.]*)(\(\))?(?:\(\*.*\))?\n(?:   :members: (.*)\n)?",
    re.MULTILINE,
)
#: A class that is no protocol.
CLASS = re.compile(r"^class (\w+)\b(?!\(Protocol\))", re.MULTILINE)
WORD = re.compile(r"[A-Za-z_][\w.]*")
#: Attributes of guarded clients that only the guard itself uses.
OWN = {"cluster_view"}


def documented():
    """Return what directives of the pages describe, with whether users build it."""
    found = {f"kafkaguard.errors.{cls.__name__}": False for cls in BY_CODE.values()}
    for page in (ROOT / "docs").glob("*.md"):
        for kind, path, closed, members in DIRECTIVE.findall(page.read_text()):
            if kind == "module" and members:
                found |= {f"{path}.{each}": True for each in members.split(", ")}
            else:
                found[path] = not closed
    return found


DOCUMENTED = documented()


def test_every_public_name_is_documented_and_every_documented_name_public():
    """A page has a directive for each, and the table of codes each error with one."""
    modules = {*MODULES, "kafkaguard.__version__"}
    assert set(NAMES) - modules == set(DOCUMENTED)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_lists_what_it_has(module):
    """__all__ is sorted, and dir() is the same."""
    front = import_module(module)
    assert sorted(front.__all__) == front.__all__ == dir(front)
    with pytest.raises(AttributeError, match=f"module '{module}' has no .* 'nonsense'"):
        front.nonsense  # noqa: B018 - asking for it is what raises


def test_type_checkers_see_the_same_names():
    """Each module imports for type checkers what it loads at the first use."""
    for path, value in OBJECTS.items():
        module = import_module(path.rpartition(".")[0])
        text = Path(module.__file__).read_text()
        name = value.__name__
        assert f"{name} as {name}" in text or name in CLASS_NAMES, path


def test_nothing_is_public_in_two_places():
    """A class or function has one path."""
    assert len(set(map(id, OBJECTS.values()))) == len(OBJECTS)


@pytest.mark.parametrize("path", OBJECTS)
def test_a_name_shows_where_it_is_imported_from_also_in_a_pickle(path):
    """As in a traceback."""
    value = OBJECTS[path]
    assert f"{value.__module__}.{value.__qualname__}" == path
    assert pickle.loads(pickle.dumps(value)) is value
    assert value.__module__.encode() in pickle.dumps(value)


ERRORS = [
    path
    for path, value in OBJECTS.items()
    if inspect.isclass(value) and issubclass(value, BaseException | Warning)
]


def test_errors_show_it_before_anybody_imports_the_module_of_errors():
    """A traceback may be the first that a user sees of one."""
    script = """
import pkgutil, sys, kafkaguard
from importlib import import_module
for package in ("_delivery.report", "_processing.exceptions", "_retries.breaker", "protocol._errors",
                "testing.cluster.errors", "testing.proxy.language", "testing.proxy.proxy"):
    import_module(f"kafkaguard.{package}")
import_module("kafkaguard_policies.advice.stacking")
import_module("kafkaguard_policies.model.problems")
def below(cls):
    for child in type.__subclasses__(cls):
        yield child
        yield from below(child)
print(*(f"{cls.__module__}.{cls.__qualname__}" for cls in below(BaseException)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    )
    assert set(ERRORS) - set(done.stdout.split()) == set(), done.stderr


def test_a_pickled_error_can_be_read_in_a_fresh_process(tmp_path):
    """Also one that is of a client's class, too, and one with an unknown code."""
    import kafka.errors

    from kafkaguard import errors

    both = errors.dual(errors.InvalidRecordError, kafka.errors.InvalidRecordError)
    made = [both("text"), errors.for_code(999)("text"), errors.DeliveryFailed("text")]
    (tmp_path / "errors").write_bytes(pickle.dumps(made))
    script = f"""
import pickle
for error in pickle.loads(open({str(tmp_path / "errors")!r}, "rb").read()):
    print(f"{{type(error).__module__}}.{{type(error).__qualname__}}")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == [
        "kafkaguard.errors.InvalidRecordError",
        "kafkaguard.errors.UnrecognisedCodeError",
        "kafkaguard.errors.DeliveryFailed",
    ], done.stderr


def annotated(path):
    """Return the annotations of a public name and its public members."""
    value = OBJECTS[path]
    if inspect.isfunction(value):
        yield path, value.__annotations__
        return
    if issubclass(value, BaseException):
        yield path, dict(inspect.get_annotations(value))
        return
    for owner in value.__mro__:
        if not owner.__module__.startswith("kafkaguard"):
            continue
        fields = inspect.get_annotations(owner)
        for name, field in getattr(owner, "model_fields", {}).items():
            fields[name] = field.annotation  # without the bounds of its value
        yield path, {k: v for k, v in fields.items() if not k.startswith("_")}
        for name, member in vars(owner).items():
            is_constructor = name == "__init__" and DOCUMENTED[path]
            if name.startswith("_") and not is_constructor:
                continue
            function = getattr(member, "fget", getattr(member, "__func__", member))
            if inspect.isfunction(function):
                yield f"{path}.{name}", function.__annotations__


def words_of(annotation):
    """Return the type names in an annotation, without bounds of values."""
    if isinstance(annotation, str):
        text = re.sub(r"Literal\[[^\]]*\]", "", annotation)
        return {word.rpartition(".")[2] for word in WORD.findall(text)}
    parts = get_args(annotation)[: 1 if hasattr(annotation, "__metadata__") else None]
    if not parts:
        return {getattr(annotation, "__name__", "")}
    return set().union(*(words_of(part) for part in parts))


def test_types_in_public_signatures_are_public():
    """Or come from the standard library or a client.

    A protocol has no name that a user needs, and a base of a public class stands for
    that class.
    """
    ours = set()
    for package, folder in {
        "kafkaguard": ROOT,
        "kafkaguard_policies": ROOT / "policies",
        "kafkaguard_adapters": ROOT / "adapters",
    }.items():
        for file in (folder / package).rglob("*.py"):
            ours |= set(CLASS.findall(file.read_text()))
    classes = [value for value in OBJECTS.values() if inspect.isclass(value)]
    public = {base.__name__ for value in classes for base in value.__mro__}
    private = {
        (place, name, word)
        for path in OBJECTS
        for place, annotations in annotated(path)
        for name, annotation in annotations.items()
        if name not in OWN
        for word in words_of(annotation)
        if word in ours - public
    }
    assert private == set()


def test_pages_and_examples_import_public_modules_only():
    """Nothing of a private package, and no private file."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    texts = [*pages, *(ROOT / "examples").rglob("*.py")]
    private = re.compile(
        r"(?:from|import) kafkaguard(?:\.\w+)*\.?_\w+|:: kafkaguard\S*\._"
    )
    assert [t.name for t in texts if private.search(t.read_text())] == []
