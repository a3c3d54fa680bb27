"""Checks that a client has the private names that the guard uses.

A method that the guard replaces must also have the known arguments.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kafkaguard._common.logs import Log
from kafkaguard._errors import ClientConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkaguard_adapters.client_errors import ClientErrors

    #: Names of attributes, or of a method's arguments, by the name of the object.
    Used = Mapping[str, Iterable[str]]
    Replaced = Mapping[tuple[str, str], tuple[str, ...]]


_log = Log("consumer")


def check_known(
    errors: ClientErrors, version: str, known: str, missing: Sequence[str]
) -> None:
    """Refuse a producer whose private names have changed.

    Args:
        errors: Makes the client's errors.
        version: The version of the client library.
        known: The version whose names are known.
        missing: The names that the producer does not have.

    Raises:
        ClientConfigurationError: A name is missing.
    """
    if missing:
        raise errors.make(
            ClientConfigurationError,
            f"guard(): this kafkaguard does not know {errors.client} {version} (other "
            f"private attributes: {', '.join(missing)}). Use {errors.client} {known}, "
            "or a newer kafkaguard",
        )


def warn_changed(client: str, version: str, known: str, missing: Iterable[str]) -> None:
    """Log what a consumer loses whose private names have changed.

    Args:
        client: The name of the client library.
        version: Its version.
        known: The version whose names are known.
        missing: The names that it does not have.
    """
    _log.warning(
        "client_version_unknown",
        "guard(): this kafkaguard does not know %s %s (other private attributes: %s). "
        "Errors of polling and commits have a verdict, but a partition that cannot be "
        "read does not wait alone, and there are no events. Use %s %s, or a newer "
        "kafkaguard",
        client,
        version,
        ", ".join(missing),
        client,
        known,
        client=client,
        version=version,
    )


def missing_in_producer(
    package: str,
    objects: Callable[[], Iterable[tuple[str, Any]]],
    used: Used,
    replaced: Replaced,
) -> list[str]:
    """List the private names that a package uses and that the producer does not have.

    Args:
        package: The package, whose modules import private modules of the client.
        objects: Returns the client's objects with the names that ``used`` and
            ``replaced`` give them. Objects that it does not return are not checked.
        used: As for :func:`missing`.
        replaced: As for :func:`missing`.
    """
    try:
        for module in ("reading", "moving", "transactions"):
            import_module(f"{package}.{module}")
        owners = dict(objects())
    except (AttributeError, ImportError, TypeError) as error:
        return [str(error)]
    return missing(
        owners,
        {kind: used[kind] for kind in owners},
        {of: arguments for of, arguments in replaced.items() if of[0] in owners},
    )


def missing(owners: Mapping[str, Any], used: Used, replaced: Replaced) -> list[str]:
    """List the private names that the guard uses and that the client does not have.

    Args:
        owners: The client's objects, by the names that ``used`` and ``replaced`` give
            them.
        used: Names of the attributes that are used, by object.
        replaced: Names of the arguments of the methods that are replaced.
    """
    return [
        *(
            f"{kind}.{name}"
            for kind, names in used.items()
            for name in names
            if not hasattr(owners[kind], name)
        ),
        *(
            f"{kind}.{name}({', '.join(arguments)})"
            for (kind, name), arguments in replaced.items()
            if arguments != _arguments(owners[kind], name)
        ),
    ]


def _arguments(owner: Any, name: str) -> tuple[str, ...] | None:
    method = getattr(owner, name, None)
    return None if method is None else tuple(inspect.signature(method).parameters)
