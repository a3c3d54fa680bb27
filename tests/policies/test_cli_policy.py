"""`kafkaguard policy` and `kafkaguard explain --policy`, as a person types them."""

from __future__ import annotations

import json

import pytest
import yaml
from click.testing import CliRunner

from kafkaguard import load_policy
from kafkaguard.cli.group import cli
from kafkaguard_adapters.guard import _HOMES
from kafkaguard_adapters.policy_in_effect import policy_for
from kafkaguard_adapters.policy_uses import USES, obeyed_by
from kafkaguard_policies.advice.client_settings import DEFAULTS
from kafkaguard_policies.reading.schema import policy_schema
from kafkaguard_policies.reading.sources import preset_text, presets


def invoke(*arguments, code=0):
    """Run the command line and return what it printed."""
    result = CliRunner(env={"COLUMNS": "300"}).invoke(cli, arguments)
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def wrong(tmp_path):
    """A file with a mistake on its second line."""
    path = tmp_path / "wrong.yaml"
    path.write_text("deadline: 3\nmax_attemps: 3\n")
    return str(path)


def test_check_of_good_policies():
    """`policy check` names each valid policy with its id."""
    output = invoke("policy", "check", "default", "admin")
    assert f"default: good (default, {load_policy('default').policy_id})" in output
    assert output.count(": good (") == 2


def test_check_says_what_each_use_obeys_and_ignores(tmp_path):
    """Text and JSON list the settings of the file, overrides included."""
    path = tmp_path / "mine.yaml"
    path.write_text(
        "max_attempts: 3\non_reject: drop\n"
        "overrides: [{when: {code: 7}, backoff: {base: 1}}]\n"
    )
    rows = {
        " ".join(line.split())
        for line in invoke("policy", "check", str(path)).splitlines()
    }
    obeyed = "max_attempts, on_reject, overrides.backoff"
    assert f"aiokafka producer {obeyed} nothing" in rows
    assert f"consumer {obeyed} nothing" in rows
    assert "@retry max_attempts, overrides.backoff on_reject" in rows
    (result,) = json.loads(invoke("policy", "check", str(path), "--json"))
    assert result["uses"]["@retry"] == {
        "obeys": ["max_attempts", "overrides.backoff"],
        "ignores": ["on_reject"],
    }
    assert set(USES) == set(result["uses"])


@pytest.mark.parametrize("preset", presets())
@pytest.mark.parametrize("client", list(DEFAULTS))
def test_check_says_what_a_policy_becomes_for_a_client(preset, client):
    """Instead of the uses: each setting, what it becomes, and who obeys it."""
    expected = policy_for(load_policy(preset), client)
    text = invoke("policy", "check", preset, "--for", client)
    lines = {" ".join(line.split()) for line in text.splitlines()}
    for row in expected.settings:
        cells = (row.setting, row.value, row.became, row.obeyed_by)
        assert " ".join(" ".join(cells).split()) in lines
    assert "Spark write" not in text
    output = invoke("policy", "check", preset, "--for", client, "--json")
    (result,) = json.loads(output)
    assert result["becomes"] == list(expected.to_dict()["settings"])


def test_every_guarded_producer_and_consumer_has_a_use():
    """A client whose module has no use would be warned about every setting."""
    clients = {home for home in _HOMES.values() if not home.endswith(".admin")}
    assert set() == {home for home in clients if not obeyed_by(home)}


def test_check_of_a_bad_policy_exits_2(wrong):
    """The good one is still checked; the mistake has its line."""
    output = invoke("policy", "check", wrong, "default", code=2)
    assert (
        "line 2: max_attemps: no such setting; did you mean 'max_attempts'?" in output
    )
    assert "default: good" in output


def test_check_as_json(wrong):
    """For scripts: valid or not, and the problems with line and path."""
    bad, good = json.loads(
        invoke("policy", "check", wrong, "default", "--json", code=2)
    )
    assert (bad["valid"], good["valid"]) == (False, True)
    assert (
        bad["problems"][0]["line"],
        bad["problems"][0]["path"],
    ) == (2, ["max_attemps"])


def test_show_lists_the_presets():
    """Without a source: names, and what each is for."""
    output = invoke("policy", "show")
    assert all(name in output for name in presets())
    listed = json.loads(invoke("policy", "show", "--json"))
    assert list(presets()) == [one["name"] for one in listed]


def test_show_a_preset_with_its_comments():
    """It is the file itself, to be copied and changed."""
    assert preset_text("admin").rstrip() == invoke("policy", "show", "admin").rstrip()


MINE = """\
extends: admin
deadline: unbounded
budget: none
dead_letter: {topic: x, limit: {consecutive: 9}}
overrides:
  - when: {code: 29, topic: "audit-*"}
    action: RETRY
    on_reject: dead_letter
  - when: {code: 7}
    backoff: {base: 2}
"""


@pytest.mark.parametrize("text", ["extends: admin\ndeadline: 3\n", MINE])
def test_show_a_file_with_all_that_it_inherits(tmp_path, text):
    """As YAML that loads again as the same policy, and as JSON with the id."""
    path, copy = tmp_path / "mine.yaml", tmp_path / "copy.yaml"
    path.write_text(text)
    mine = load_policy(path)
    shown = invoke("policy", "show", str(path))
    copy.write_text(shown)
    assert f"# policy_id: {mine.policy_id}" == shown.splitlines()[0]
    assert mine.policy_id == load_policy(copy).policy_id
    assert ": good (" in invoke("policy", "check", str(copy))
    assert yaml.safe_load(shown)["max_attempts"] == 8
    assert "null" not in shown.replace("null_key", "")
    assert "breaker: none" in shown
    told = json.loads(invoke("policy", "show", str(path), "--json"))
    assert mine.policy_id == told.pop("policy_id")
    assert mine.policy_id == load_policy(told).policy_id


def test_problems_as_json_have_their_file(wrong, tmp_path):
    """The file itself, or the one that it extends; a preset is not a file."""
    child = tmp_path / "child.yaml"
    child.write_text(f"extends: {wrong}\nrescue: maybe\n")
    for source, files in (
        (wrong, {wrong}),
        (str(child), {wrong, str(child)}),
        (str(tmp_path / "nosuch.yaml"), {str(tmp_path / "nosuch.yaml")}),
        ("bulk-lod", {None}),
    ):
        (result,) = json.loads(invoke("policy", "check", source, "--json", code=2))
        assert files == {problem["file"] for problem in result["problems"]}


def test_preview_warns_as_check_does(tmp_path):
    """A deadline before the first wait: no attempt, and the reason why."""
    path = tmp_path / "short.yaml"
    path.write_text("deadline: 1\nbackoff: {base: 5, jitter: none}\n")
    warning = "deadline (1 s) is over before the first wait (5 s at least)"
    assert f"warning: {warning}" in invoke("policy", "preview", str(path))
    assert f"warning: {warning}" in invoke("policy", "check", str(path))
    told = json.loads(invoke("policy", "preview", str(path), "--json"))
    assert [warning] == [text.partition(": no retry")[0] for text in told["warnings"]]


def test_preview_as_table_and_json():
    """The command prints the numbers of RetryPolicy.preview in both forms."""
    table = invoke("policy", "preview", "admin", "--seed", "7")
    preview = load_policy("admin").preview(seed=7)
    assert str(preview) == table.rstrip("\n")
    data = json.loads(invoke("policy", "preview", "admin", "--seed", "7", "--json"))
    assert {**json.loads(preview.to_json()), "warnings": []} == data


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("preview", "admin", "--action", "AGAIN"), "there are IGNORE, RETRY"),
        (("preview", "admin", "--runs", "1"), "is not in the range 2<=x"),
        (("preview", "bulk-lod"), "did you mean 'bulk-load'?"),
        (("diff", "admin", "bulk-lod"), "did you mean 'bulk-load'?"),
    ],
)
def test_mistakes_at_the_command_line(arguments, said):
    """A mistake is one line, and the exit code is 2."""
    assert said in invoke("policy", *arguments, code=2)


def test_schema_is_that_of_the_library():
    """`policy schema` prints the JSON Schema of the library."""
    assert policy_schema() == json.loads(invoke("policy", "schema"))


def test_diff_names_what_differs():
    """Setting by setting, exit 1; the same policy is silence and exit 0."""
    output = invoke("policy", "diff", "default", "admin", code=1)
    assert "max_attempts: 5 -> 8" in output
    assert "backoff.cap: 5.0 -> 3.0" in output
    changed = json.loads(invoke("policy", "diff", "default", "admin", "--json", code=1))
    assert changed["deadline"] == {"old": 120.0, "new": 30.0}
    assert invoke("policy", "diff", "admin", "admin") == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("29", "--policy", "bulk-load"), "stops: configuration, credentials or ACLs"),
        (
            ("10", "--api", "Produce", "--policy", "bulk-load"),
            "goes to the dead-letter topic",
        ),
        (("7", "--api", "Produce", "--policy", "default"), "in_doubt"),
        (
            ("3", "--api", "Metadata", "--policy", "admin"),
            "refreshes metadata or the coordinator, then waits up to 0.1 s and tries again, at most 8 attempts in all, within 30 s",
        ),
        (("89", "--policy", "none"), "stops: it was not accepted as often"),
        (("46", "--policy", "none"), "goes on: it is not a failure"),
    ],
)
def test_explain_says_what_a_policy_does(arguments, said):
    """In one sentence, with the policy's name and id."""
    output = invoke("explain", *arguments)
    assert said in output
    assert said in json.loads(invoke("explain", *arguments, "--json"))["policy"]


def test_explain_knows_overrides_by_topic(tmp_path):
    """The sentence names the override that decided."""
    path = tmp_path / "mine.yaml"
    path.write_text(
        "overrides:\n  - when: {code: 29, topic: 'audit-*'}\n"
        "    action: RETRY\n    deadline: 60\n"
    )
    said = invoke("explain", "29", "--policy", str(path), "--topic", "audit-eu")
    assert "(overrides[0]) waits up to 0.1 s and tries again" in said
    other = invoke("explain", "29", "--policy", str(path), "--topic", "orders")
    assert "stops: configuration" in other


def test_explain_refuses_a_policy_that_is_not_there():
    """A missing preset is answered with the closest one and exit code 2."""
    assert "did you mean 'bulk-load'?" in invoke(
        "explain", "29", "--policy", "bulk-lod", code=2
    )
