"""Names of requests on the command line."""

from __future__ import annotations

from kafkaguard._verdicts.request_names import no_such_request, request_named
from kafkaguard.cli.group import Problem


def request_name(api: str | None) -> str | None:
    """Return Kafka's name of a request, from its name in any spelling or its number.

    Raises:
        Problem: Kafka has no such request.
    """
    known = None if api is None else request_named(api)
    if api is not None and known is None:
        raise Problem(no_such_request(api))
    return known
