"""A policy from environment variables."""

from __future__ import annotations

import os
from typing import Any

import yaml

from kafkaguard_policies.model.problems import PolicyError, Problem
from kafkaguard_policies.reading.documents import Document
from kafkaguard_policies.reading.nodes import Loader

BASE = "KAFKAGUARD_POLICY"
PREFIX = f"{BASE}_"
_TEXTS = {"name", "description", "topic"}


def read_environment() -> Document:
    """Read ``KAFKAGUARD_POLICY`` and the settings of ``KAFKAGUARD_POLICY_...``.

    ``KAFKAGUARD_POLICY`` names the preset or file to start from (default:
    ``default``). ``KAFKAGUARD_POLICY_MAX_ATTEMPTS=3`` and
    ``KAFKAGUARD_POLICY_BACKOFF__BASE=0.5`` change single settings. Values are YAML, so
    a list can be written as JSON.

    A value that is not well-formed is a problem of the document.
    """
    content: dict[str, Any] = {"extends": os.environ.get(BASE, "default")}
    problems = []
    for name, text in sorted(os.environ.items()):
        if not name.upper().startswith(PREFIX):
            continue
        *parts, last = name[len(PREFIX) :].lower().split("__")
        settings = content
        for part in parts:
            settings = settings.setdefault(part, {})
        try:
            settings[last] = text if last in _TEXTS else yaml.load(text, Loader)  # noqa: S506 - it is a safe loader
        except yaml.YAMLError:
            message = f"{name}: is not JSON: write it as JSON, such as [] or {{}}"
            problems.append(Problem(message))
    return Document("environment", content, problems=tuple(problems))


def name_variables(error: PolicyError) -> PolicyError:
    """Name the variables instead of the settings."""
    return PolicyError(error.source, map(_name_variable, error.problems))


def _name_variable(problem: Problem) -> Problem:
    if not problem.path:
        return problem
    if problem.path == ("extends",):
        return Problem(f"{BASE}: {problem.message}")
    keys = [key for key in problem.path if isinstance(key, str)]
    name = PREFIX + "__".join(keys[: None if "overrides" not in keys else 1]).upper()
    place = "" if "overrides" not in keys else f" {Problem('', problem.path)}".rstrip()
    return Problem(f"{name}{place.rstrip(':')}: {problem.message}")
