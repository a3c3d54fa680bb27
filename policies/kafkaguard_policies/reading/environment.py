"""A policy from environment variables."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from kafkaguard._common.closest import did_you_mean
from kafkaguard_policies.model.policy import Backoff
from kafkaguard_policies.model.problems import PolicyError, Problem
from kafkaguard_policies.reading.documents import Document
from kafkaguard_policies.retry_policy import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BASE = "KAFKAGUARD_POLICY"
PREFIX = f"{BASE}_"


class _Variables(RetryPolicy, BaseSettings):
    """The policy's fields as environment variables."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__")


def environment_document() -> Document:
    """Read ``KAFKAGUARD_POLICY`` and the settings of ``KAFKAGUARD_POLICY_...``.

    ``KAFKAGUARD_POLICY`` names the preset or file to start from (default:
    ``default``). ``KAFKAGUARD_POLICY_MAX_ATTEMPTS=3`` and
    ``KAFKAGUARD_POLICY_BACKOFF__BASE=0.5`` change single settings; lists are JSON.

    A variable that names no setting, or that is not valid JSON where JSON is needed, is
    a problem of the document.
    """
    source = EnvSettingsSource(_Variables)
    problems = [*_unknown(os.environ), *_no_json(source)]
    settings = source()
    return Document(
        "environment",
        {"extends": os.environ.get(BASE, "default"), **_read(settings)},
        problems=tuple(problems),
    )


def _no_json(source: EnvSettingsSource) -> Iterator[Problem]:
    """Remove the variables that are not valid JSON, one by one."""
    while (name := _wrong_json(source)) is not None:
        yield Problem(f"{name}: is no JSON: write it as JSON, such as [] or {{}}")
        source.env_vars = {
            key: value
            for key, value in source.env_vars.items()
            if not key.upper().startswith(name)
        }


def _wrong_json(source: EnvSettingsSource) -> str | None:
    try:
        source()
    except SettingsError as error:
        found = re.search(r'field "(\w+)"', str(error))
        if found is None:
            raise
        return f"{PREFIX}{found[1].upper()}"
    return None


def _read(settings: dict[str, Any]) -> dict[str, Any]:
    """Convert numbers and booleans, which are text in the environment."""
    return {key: _value(key, value) for key, value in settings.items()}


def _value(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        return _read(value)
    if not isinstance(value, str) or key in _TEXTS:
        return value
    if key in _FLAGS:
        return _WORDS.get(value.strip().lower(), value)
    return float(value) if _NUMBER.fullmatch(value) else value


_NUMBER = re.compile(r"\s*-?\d+(\.\d+)?\s*")
_TEXTS = {"name", "description", "topic"}
_FLAGS = {
    name
    for part in (RetryPolicy, Backoff)
    for name, info in part.model_fields.items()
    if info.annotation is bool
}
_WORDS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def in_variables(error: PolicyError) -> PolicyError:
    """Name the variables instead of the settings."""
    return PolicyError(error.source, map(_in_variable, error.problems))


def _in_variable(problem: Problem) -> Problem:
    if not problem.path:
        return problem
    if problem.path == ("extends",):
        return Problem(f"{BASE}: {problem.message}")
    keys = [key for key in problem.path if isinstance(key, str)]
    name = PREFIX + "__".join(keys[: None if "overrides" not in keys else 1]).upper()
    place = "" if "overrides" not in keys else f" {Problem('', problem.path)}".rstrip()
    return Problem(f"{name}{place.rstrip(':')}: {problem.message}")


def _unknown(names: Iterable[str]) -> Iterable[Problem]:
    known = [f"{PREFIX}{field.upper()}" for field in RetryPolicy.model_fields]
    for name in names:
        if name.upper().startswith(PREFIX) and name.upper().split("__")[0] not in known:
            hint = did_you_mean(name, known)
            yield Problem(f"{name} names no setting of a policy{hint}")
