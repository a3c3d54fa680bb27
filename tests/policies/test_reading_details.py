"""Reading policies: which line and file are named, and where the limits are."""

from __future__ import annotations

import logging
from inspect import signature

import pytest

from kafkaguard import load_policy
from kafkaguard.errors import PolicyError
from kafkaguard.policies import PolicyWatcher
from kafkaguard_policies.reading import nodes
from kafkaguard_policies.reading.documents import parse, read_document


def told(source):
    """The problems of a source, as (source, line, path, message)."""
    with pytest.raises(PolicyError) as caught:
        load_policy(source)
    return [(p.source, p.line, p.path, p.message) for p in caught.value.problems]


def of_text(text, name="a.yaml"):
    """The one problem of a document's text: its line and message."""
    with pytest.raises(PolicyError) as caught:
        parse(text, name)
    (problem,) = caught.value.problems
    return problem.line, problem.message


def files(folder, **texts):
    """Write YAML files, and return the path of the first."""
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    return str(folder / f"{next(iter(texts))}.yaml")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("\n\x01", 2, "is not text: it contains a control character"),
        ("a: 1\nb: \x01\n", 2, "is not text: it contains a control character"),
        ("", 1, "must be a mapping of settings, not nothing"),
        ("- 1\n", 1, "must be a mapping of settings, not a list"),
        ("a: 1\nb: 2\na: 3\n", 3, "stands twice: keep one"),
    ],
)
def test_a_mistake_of_yaml_has_its_line_and_words(text, line, said):
    """A mistake in YAML is reported with its line, counted from 1."""
    assert of_text(text) == (line, said)


def test_a_variable_in_braces_is_explained_where_it_stands():
    """`${NAME}` within braces is answered with the quotes to write."""
    line, said = of_text("deadline: 1\nname: {a: ${A}}\n")
    assert line == 2
    assert said.endswith('within braces or brackets write "${NAME}" in quotes')
    assert "write" not in of_text("a: [1\nb: 2\nc: ${A}\n")[1]
    assert of_text("a:\n\t- 1\n")[1].endswith("; indent with spaces")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a = 1\nb = \n", 2, "is not well-formed TOML: Invalid value (at line 2, colu"),
        ("a = 1\nb = [", None, "is not well-formed TOML: "),
        ("a = " + "[" * 3000, None, "is nested too deeply: "),
        ("", 1, "must be a mapping of settings, not nothing"),
    ],
)
def test_a_mistake_of_toml_has_its_line_and_words(text, line, said):
    """A line is given where Python's parser gives one."""
    found, message = of_text(text, "a.toml")
    assert (found, message.startswith(said)) == (line, True), message


def test_a_place_without_a_line_has_that_of_what_is_around_it():
    """The line of a missing key is that of its parent, or None."""
    document = read_document("a: {b: 1}\n", "a.yaml")
    assert document.line_of(("a", "b", "c")) == 1
    assert document.line_of(("x",)) is None
    assert document.line_of(()) is None


def test_what_is_not_utf_8_has_its_line(tmp_path):
    """A byte that is not UTF-8 is reported with its line, counted from 1."""
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\n\xff")
    assert told(str(path)) == [(None, 2, (), "is not UTF-8: save it as UTF-8")]


def test_number_of_values_has_a_limit(monkeypatch):
    """A document with as many values as the limit is read; one more is refused."""
    monkeypatch.setattr(nodes, "_MOST_VALUES", 3)
    assert parse("a: 1\nb: 2\nc: 3\n", "a").content == {"a": 1, "b": 2, "c": 3}
    assert of_text("a: 1\nb: 2\nc: 3\nd: 4\n") == (
        4,
        "has more than 3 values once aliases are followed",
    )


def test_words_that_yaml_1_1_reads_as_other_values_are_text():
    """on, 010, 1:30 and dates stay what people have written."""
    text = "a: on\nb: 010\nc: 1:30\nd: 2020-01-01\ne: yes\nf: -3\ng: 1.5e-3\n"
    assert list(parse(text, "a").content.values()) == [
        *("on", "010", "1:30", "2020-01-01", True, -3, 0.0015)
    ]


def test_merge_keys_are_yaml_and_no_mistake():
    """Several merge keys in a mapping are no duplicates."""
    text = "a: &a {x: 1}\nb: &b {y: 2}\nc:\n  <<: *a\n  <<: *b\n"
    assert parse(text, "a").content["c"] == {"x": 1, "y": 2}


@pytest.mark.parametrize("source", ["a.conf", "a/b", "./default"])
def test_what_looks_like_a_file_is_no_preset(source):
    """By its ending, or by a folder."""
    ((_, _, _, said),) = told(source)
    assert said.startswith("a policy file's name ends in .yaml, .yml or .toml, and ")


def test_a_preset_that_there_is_not_is_told_which_there_are():
    """A full stop where no name is near."""
    ((_, _, _, said),) = told("xyzzyxyzzy")
    assert said.startswith("there is no preset 'xyzzyxyzzy'. The presets are admin, ")


@pytest.mark.parametrize("name", ["x" * 300, "\N{SNOWMAN}" * 90, "x\0", "\ud800"])
def test_a_name_that_no_file_can_have_is_no_preset(name):
    """A name that is too long was an OSError, found by fuzzing of ``extends``."""
    with pytest.raises(PolicyError, match="there is no preset"):
        load_policy(name)
    with pytest.raises(PolicyError, match="there is no preset"):
        load_policy({"extends": name})


def test_a_folder_beside_the_file_is_no_preset(tmp_path):
    """`extends` with the name of a folder is refused."""
    (tmp_path / "orders").mkdir()
    path = files(tmp_path, a="deadline: 3\nextends: orders\n")
    ((source, line, place, said),) = told(path)
    assert (source, line, place) == (None, 2, ("extends",))
    assert said.startswith("'orders' is a directory: name a file, or a preset: admin")


def test_a_chain_of_files_has_a_longest(tmp_path):
    """Ten steps; an eleventh is taken for a circle."""
    texts = {f"f{n}": f"extends: f{n + 1}.yaml\n" for n in range(12)}
    files(tmp_path, **texts, f12="max_attempts: 3\n")
    assert load_policy(tmp_path / "f2.yaml").max_attempts == 3
    ((source, line, place, said),) = told(tmp_path / "f1.yaml")
    assert source.endswith("f11.yaml")
    assert (line, place) == (1, ("extends",))
    assert said.startswith("leads back to itself: name a preset, or a file beside")


def test_a_mistake_has_the_file_that_it_is_in_however_deep(tmp_path):
    """A value, and a text that cannot be read at all."""
    path = files(
        tmp_path,
        a="extends: b.yaml\n",
        b="extends: c.yaml\n",
        c="name: c\nmax_attempts: x\n",
    )
    ((source, line, _, _),) = told(path)
    assert (source, line) == (str(tmp_path / "c.yaml"), 2)
    (tmp_path / "c.yaml").write_text("deadline: 1\na: [\n")
    ((source, line, _, said),) = told(path)
    assert (source, line) == (str(tmp_path / "c.yaml"), 3)
    assert said.startswith("is not well-formed YAML")


def test_a_description_is_not_inherited(tmp_path):
    """It is about the other policy; so is its name."""
    path = files(tmp_path, a="extends: b.yaml\n", b="name: b\ndescription: of b\n")
    policy = load_policy(path)
    assert (policy.name, policy.description) == ("custom", "")


def test_overrides_that_are_no_list_are_said_to_be_none(tmp_path):
    """Also where those of another file come before them."""
    path = files(
        tmp_path,
        a="extends: b.yaml\noverrides: 3\n",
        b="overrides: [{when: {code: 29}, action: RETRY}]\n",
    )
    ((source, line, place, said),) = told(path)
    assert (source, line, place, said) == (None, 2, ("overrides",), "must be a list")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        *((word, True) for word in ("true", "yes", " Yes ", "TRUE")),
        *((word, False) for word in ("false", "no", "NO")),
    ],
)
def test_the_environment_has_words_for_true_and_false(monkeypatch, word, meant):
    """As in YAML; any other word is refused."""
    monkeypatch.setenv("KAFKAGUARD_POLICY_BACKOFF__HONOUR_THROTTLE", word)
    assert load_policy("env").backoff.honour_throttle is meant
    monkeypatch.setenv("KAFKAGUARD_POLICY_BACKOFF__HONOUR_THROTTLE", "perhaps")
    with pytest.raises(PolicyError, match="must be true or false") as caught:
        load_policy("env")
    assert caught.value.source == "environment"


def test_a_topic_in_the_environment_is_a_text(monkeypatch):
    """Also one whose name is a number."""
    monkeypatch.setenv("KAFKAGUARD_POLICY_DEAD_LETTER__TOPIC", "2026")
    assert load_policy("env").dead_letter.topic == "2026"


def test_a_mistake_in_an_override_of_the_environment_has_its_place(monkeypatch):
    """The variable has them all, so the place within it is told."""
    monkeypatch.setenv("KAFKAGUARD_POLICY_OVERRIDES", '[{"when": {"code": "x"}}]')
    said = " ".join(message for _, _, _, message in told("env"))
    assert "KAFKAGUARD_POLICY_OVERRIDES overrides[0]" in said


@pytest.mark.parametrize("ending", ["yaml", "yml"])
def test_both_endings_of_yaml_are_files(tmp_path, ending):
    """A name with either ending is never taken for a preset."""
    path = tmp_path / f"a.{ending}"
    path.write_text("max_attempts: 44\n")
    assert load_policy(str(path)).max_attempts == 44


def test_a_watcher_looks_every_five_seconds():
    """The default interval of a PolicyWatcher is 5 s."""
    assert signature(PolicyWatcher).parameters["interval"].default == 5.0


def test_a_watcher_says_what_holds_now(tmp_path, caplog):
    """The log of a PolicyWatcher has the id of the new policy."""
    path = tmp_path / "a.yaml"
    path.write_text("max_attempts: 3\n")
    watcher = PolicyWatcher(path)
    path.write_text("max_attempts: 44\n")
    with caplog.at_level(logging.INFO, "kafkaguard.policies"):
        watcher.reload()
    now = load_policy(path).policy_id
    assert f"policy {path}: now {now}" in caplog.text


def test_nothing_is_printed_where_nobody_has_set_up_logging():
    """Python prints warnings of a logger without any handler."""
    handlers = logging.getLogger("kafkaguard.policies").handlers
    assert any(isinstance(each, logging.NullHandler) for each in handlers)
