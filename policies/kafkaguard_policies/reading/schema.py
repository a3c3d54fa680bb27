"""The JSON Schema of a policy document, for editors."""

from __future__ import annotations

from typing import Any

from kafkaguard_policies.reading.sources import presets
from kafkaguard_policies.retry_policy import RetryPolicy


def policy_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a policy file.

    An editor with a YAML language server uses it after
    ``kafkaguard policy schema > policy.schema.json`` and a first line
    ``# yaml-language-server: $schema=policy.schema.json``.
    """
    schema = RetryPolicy.model_json_schema()
    extends = {
        "description": "A preset, or a file beside this one, whose settings hold where "
        "this document says nothing.",
        "type": "string",
        "examples": list(presets()),
    }
    schema["properties"] = {"extends": extends, **schema["properties"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "kafkaguard retry policy",
    }
