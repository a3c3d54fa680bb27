"""Where policies come from: presets, files, mappings, the environment."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import yaml
from jsonschema import Draft202012Validator

from kafkaguard import RetryPolicy, load_policy
from kafkaguard.errors import PolicyError
from kafkaguard_policies.reading.schema import policy_schema
from kafkaguard_policies.reading.sources import preset_text, presets

SCHEMA = Draft202012Validator(policy_schema())
NAMES = [
    "admin",
    "bulk-load",
    "consumer",
    "default",
    "idempotent-producer",
    "low-latency",
    "none",
    "spark-sink",
    "transactional-producer",
]


def problems(source):
    """Everything that is said about a policy that cannot be used."""
    with pytest.raises(PolicyError) as caught:
        load_policy(source)
    return caught.value


def written(path, text):
    """Write a policy file and return its path."""
    path.write_text(text)
    return str(path)


def test_the_presets():
    """The nine that the documentation speaks of."""
    assert tuple(NAMES) == presets()


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_loads_and_goes_round(name, tmp_path):
    """Through YAML, JSON and the JSON Schema, and it is the same policy."""
    policy = load_policy(name)
    assert policy.name == name
    assert policy.description
    assert SCHEMA.is_valid(yaml.safe_load(preset_text(name)))
    dumped = policy.model_dump(mode="json")
    assert SCHEMA.is_valid(dumped)
    path = written(tmp_path / "again.yaml", yaml.safe_dump(dumped))
    assert policy == load_policy(path) == load_policy(json.loads(json.dumps(dumped)))


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_says_what_it_is_for(name):
    """Its file begins with when to use it, duplicates, order and latency."""
    head = preset_text(name).partition("\nname:")[0]
    for word in ("# Use it", "# Duplicates:", "# Order:", "# Latency:"):
        assert word in head


def test_default_is_the_default():
    """What Python says without settings is what the file says."""
    assert RetryPolicy().policy_id == load_policy("default").policy_id


def test_a_policy_is_returned_as_it_is():
    """Functions can take a policy or a name."""
    policy = RetryPolicy()
    assert load_policy(policy) is policy


def test_yaml_toml_and_a_mapping_say_the_same(tmp_path):
    """The same settings give the same policy from every source."""
    settings = {"extends": "admin", "deadline": 10, "backoff": {"base": 0.2}}
    settings["overrides"] = [{"when": {"code": 29}, "action": "RETRY"}]
    toml = (
        'extends = "admin"\ndeadline = 10\nbackoff.base = 0.2\n'
        '[[overrides]]\naction = "RETRY"\nwhen = {code = 29}\n'
    )
    loaded = [
        load_policy(settings),
        load_policy(written(tmp_path / "a.yaml", yaml.safe_dump(settings))),
        load_policy(tmp_path / "a.yaml"),
        load_policy(written(tmp_path / "a.toml", toml)),
    ]
    assert len({policy.policy_id for policy in loaded}) == 1
    assert loaded[0].deadline == 10


def test_none_stands_for_null_in_toml(tmp_path):
    """TOML has no null, so the word does."""
    path = written(tmp_path / "a.toml", 'budget = "none"\nbreaker = "none"\n')
    assert load_policy(path).budget is None


def test_inheritance_is_key_by_key(tmp_path):
    """A file extends a file beside it that extends a preset; overrides add up."""
    written(
        tmp_path / "base.yaml",
        "extends: low-latency\nname: base\nbackoff: {base: 0.05}\n"
        "overrides: [{when: {code: 29}, action: RETRY}]\n",
    )
    (tmp_path / "below").mkdir()
    path = written(
        tmp_path / "below" / "mine.yaml",
        "extends: ../base.yaml\nbackoff: {jitter: none}\nbudget: null\n"
        "overrides: [{when: {code: 30}, action: RETRY}]\n",
    )
    policy = load_policy(path)
    assert policy.name == "custom"
    assert (
        policy.backoff.base,
        policy.backoff.jitter,
        policy.backoff.cap,
    ) == (0.05, "none", 0.2)
    assert policy.budget is None
    assert [override.when.code for override in policy.overrides] == [(29,), (30,)]


def test_a_circle_of_files_is_refused(tmp_path):
    """Each extends the other: said, not followed for ever."""
    written(tmp_path / "a.yaml", "extends: b.yaml\n")
    path = written(tmp_path / "b.yaml", "extends: a.yaml\n")
    assert "leads back to itself" in str(problems(path))


def test_a_mistake_in_a_parent_names_the_parent(tmp_path):
    """File and line are those where it must be mended."""
    parent = written(tmp_path / "base.yaml", "name: base\nmax_attempts: none\n")
    path = written(tmp_path / "a.yaml", "extends: base.yaml\ndeadline: 3\n")
    error = problems(path)
    assert (parent, 2) == (error.problems[0].source, error.problems[0].line)
    assert f"{parent}: line 2: max_attempts" in str(error)


def test_mistakes_of_both_files_are_told_together(tmp_path):
    """Each with its file, as far as it is another one."""
    written(tmp_path / "base.yaml", "max_attempts: none\n")
    path = written(tmp_path / "a.yaml", "extends: base.yaml\ndeadline: x\n")
    own, inherited = problems(path).problems
    assert (own.source, own.line, own.path) == (None, 2, ("deadline",))
    assert inherited.source.endswith("base.yaml")


@pytest.mark.parametrize(
    ("name", "text", "line", "path", "said"),
    [
        (
            "a.yaml",
            "deadline: 1\nbackoff:\n  base: x\n",
            3,
            ("backoff", "base"),
            "a number of seconds",
        ),
        ("a.yaml", "deadline: 1\ndeadline: 2\n", 2, ("deadline",), "stands twice"),
        ("a.yaml", "a: [1\nb: 2\n", 2, (), "not well-formed YAML"),
        ("a.yaml", "- 1\n", 1, (), "a mapping of settings, not a list"),
        ("a.yaml", "", 1, (), "not nothing"),
        ("a.yaml", "extends: 3\n", 1, ("extends",), "must be a text"),
        (
            "a.yaml",
            "overrides:\n  - when: {code: 29}\n    action: AGAIN\n",
            3,
            ("overrides", 0, "action"),
            "RETRY",
        ),
        ("a.yaml", "x: !!python/name:os.system\n", 1, (), "not well-formed YAML"),
        (
            "a.toml",
            "deadline = 1\n[backoff]\nbase = 'x'\n",
            None,
            ("backoff", "base"),
            "a number of seconds",
        ),
        (
            "a.toml",
            "deadline = 1\nmax_attemps = 3\n",
            None,
            ("max_attemps",),
            "max_attempts",
        ),
        ("a.toml", "deadline = 1\ndeadline = \n", 2, (), "not well-formed TOML"),
        (
            "a.toml",
            "[[overrides]]\nwhen = {code = 29}\naction = 'RETRY'\n[[overrides]]\nwhen = {code = 29}\naction = 'X'\n",
            None,
            ("overrides", 1, "action"),
            "RETRY",
        ),
    ],
)
def test_a_mistake_has_file_line_path_and_what_is_allowed(
    tmp_path, name, text, line, path, said
):
    """Enough to mend it without the documentation."""
    file = written(tmp_path / name, text)
    error = problems(file)
    problem = error.problems[0]
    assert (file, line, path) == (error.source, problem.line, problem.path)
    assert said in problem.message
    assert line is None or f"line {line}: " in str(error)


def test_overrides_are_counted_as_in_the_document(tmp_path):
    """Inherited ones do not shift the numbers that the reader sees."""
    text = "extends: base.yaml\noverrides:\n  - when: {code: 29}\n    action: AGAIN\n"
    written(tmp_path / "base.yaml", "overrides: [{when: {code: 30}, action: RETRY}]\n")
    problem = problems(written(tmp_path / "a.yaml", text)).problems[0]
    assert (problem.line, problem.path) == (4, ("overrides", 0, "action"))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("bulk-lod", "did you mean 'bulk-load'?"),
        ("nowhere.yaml", "cannot be read: No such file"),
        ({"extends": "bulk-lod"}, "did you mean 'bulk-load'?"),
        ({"max_attemps": 1}, "did you mean 'max_attempts'?"),
    ],
)
def test_a_source_that_is_not_there(source, said):
    """The nearest preset, or the reason of the operating system."""
    assert said in str(problems(source))


def test_what_is_no_source_is_refused():
    """The TypeError of load_policy() lists what a source can be."""
    with pytest.raises(TypeError, match=r"a preset's name, a path, a mapping"):
        load_policy(3)


def test_the_environment(monkeypatch):
    """A base by name, single settings, nested ones and lists as JSON."""
    monkeypatch.setenv("KAFKAGUARD_POLICY", "admin")
    monkeypatch.setenv("KAFKAGUARD_POLICY_MAX_ATTEMPTS", "3")
    monkeypatch.setenv("KAFKAGUARD_POLICY_BACKOFF__BASE", "0.5")
    monkeypatch.setenv("KAFKAGUARD_POLICY_BREAKER", "none")
    monkeypatch.setenv(
        "KAFKAGUARD_POLICY_OVERRIDES", '[{"when": {"code": 29}, "action": "RETRY"}]'
    )
    policy = load_policy("env")
    assert (
        policy.max_attempts,
        policy.backoff.base,
        policy.deadline,
        policy.backoff.cap,
    ) == (3, 0.5, 30, 3)
    assert policy.overrides[-1].when.code == (29,)


def test_an_empty_environment_is_the_default():
    """Without variables the policy is the preset `default`."""
    assert load_policy("env").policy_id == load_policy("default").policy_id


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (
            "KAFKAGUARD_POLICY_MAX_ATTEMPS",
            "3",
            "KAFKAGUARD_POLICY_MAX_ATTEMPS: no such setting; did you mean 'max_attempts'?",
        ),
        ("KAFKAGUARD_POLICY_BACKOFF__BAS", "3", "did you mean 'base'?"),
        ("KAFKAGUARD_POLICY_MAX_ATTEMPTS", "x", "a whole number of attempts"),
        ("KAFKAGUARD_POLICY_OVERRIDES", "[{", "write it as JSON"),
        ("KAFKAGUARD_POLICY", "bulk-lod", "did you mean 'bulk-load'?"),
    ],
)
def test_mistakes_in_the_environment(monkeypatch, name, value, said):
    """The variable or the setting, and what is allowed."""
    monkeypatch.setenv(name, value)
    assert said in str(problems("env"))


def test_the_schema_refuses_what_the_model_refuses():
    """Unknown keys, values out of range, and words that are none of the allowed."""
    for wrong in (
        {"max_attemps": 3},
        {"max_attempts": 0},
        {"deadline": "30s"},
        {"backoff": {"jitter": "some"}},
        {"overrides": [{"action": "RETRY"}]},
    ):
        assert not SCHEMA.is_valid(wrong)
    for right in ({"deadline": "unbounded"}, {"budget": "none"}, {"breaker": None}):
        assert SCHEMA.is_valid(right)
    override = {"when": {"code": 29, "api": ["Fetch"]}, "action": "RETRY"}
    assert SCHEMA.is_valid({"extends": "admin", "overrides": [override]})


def test_the_front_door_loads_no_pydantic():
    """Importing kafkaguard costs nobody the models that they do not use."""
    script = "import kafkaguard, sys; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
