"""Environment variables in a pipeline file that are empty or missing."""

from __future__ import annotations

import pytest

from kafkaguard_adapters.spark.pipeline.file import PipelineError, load_pipeline


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    """Load a pipeline file with brokers, a path and variables."""
    (tmp_path / "rows.json").write_text("{}")

    def call(servers, path="rows.json", **variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        file = tmp_path / "pipeline.yaml"
        file.write_text(
            f"source: {{format: json, path: '{path}'}}\n"
            "select: {value: v}\n"
            f"sink:\n  bootstrap_servers: '{servers}'\n  topic: t\n"
        )
        return load_pipeline(file)

    return call


@pytest.mark.parametrize(
    ("servers", "variables", "said"),
    [
        ("${KAFKA}", {"KAFKA": ""}, "the environment variable KAFKA is empty"),
        ("${KAFKA}", {"KAFKA": " "}, "the environment variable KAFKA is empty"),
        ("${KAFKA}:9092", {"KAFKA": ""}, "the environment variable KAFKA is empty"),
        ("a:1,${KAFKA}:2", {"KAFKA": ""}, "the environment variable KAFKA is empty"),
        (
            "${A},${B}",
            {"A": "", "B": ""},
            "the environment variables A and B are empty",
        ),
        ("${NOT_SET_HERE}", {}, "the environment variable NOT_SET_HERE is not set"),
        ("", {}, "must not be empty"),
    ],
)
def test_an_empty_variable_is_named_with_line_and_key(loaded, servers, variables, said):
    """It is not the option of the data source that is missing."""
    with pytest.raises(PipelineError) as caught:
        loaded(servers, **variables)
    assert f"line 4: sink.bootstrap_servers: {said}" in str(caught.value)


def test_an_empty_variable_in_a_path_is_named(loaded):
    """The path would be the folder of the pipeline file."""
    with pytest.raises(PipelineError, match="the environment variable ROWS is empty"):
        loaded("a:1", "${ROWS}", ROWS="")


@pytest.mark.parametrize(
    ("servers", "variables", "expected"),
    [
        ("${KAFKA}", {"KAFKA": "a:1"}, "a:1"),
        ("a:1${MORE}", {"MORE": ""}, "a:1"),
        ("[::1]:9092", {}, "[::1]:9092"),
    ],
)
def test_what_leaves_an_address_is_used(loaded, servers, variables, expected):
    """An empty variable beside an address is no mistake."""
    assert expected == loaded(servers, **variables).sink.bootstrap_servers
