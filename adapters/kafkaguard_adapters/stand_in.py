"""Base classes of guarded clients: they delegate everything else to the client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn, Self

from kafkaguard._common.logs import Log
from kafkaguard._errors import ClientTimeoutError, KafkaGuardError
from kafkaguard_adapters.asking.cluster_calls import AsyncReportCalls, ReportCalls
from kafkaguard_adapters.asking.cluster_view import explain

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard_adapters.asking.cluster_view import ClusterView

_log = Log("producer")

#: Seconds that a client with awaited calls has to close.
CLOSE_S = 30.0


class StandIn:
    """Delegates every attribute to a client. ``isinstance`` is true for its class.

    Args:
        client: The client.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    @property  # type: ignore[misc]  # object's has a setter
    def __class__(self) -> type:
        """The client's class, for ``isinstance``."""
        return type(self.client)

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to the client."""
        if name in ("client", "_shell"):  # not set yet
            raise AttributeError(name)
        return getattr(self.client, name)

    def __dir__(self) -> list[str]:
        """List the names of the client and of the guard."""
        return sorted({*dir(self.client), *dir(type(self))})

    def __repr__(self) -> str:
        """Show the class of the client."""
        return f"<guarded {type(self.client).__qualname__}>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Raise TypeError: a connection cannot be moved to another process."""
        raise TypeError(
            "a guarded client cannot be pickled or copied: build it where it is used, "
            "in the worker itself"
        )

    def _is_noted(self, failure: KafkaGuardError, raised: tuple[object, ...]) -> bool:
        """Note a failure to close on the exception of a ``with`` block, if it has one.

        Args:
            failure: The failure.
            raised: The arguments of ``__exit__``.
        """
        error = raised[1] if raised else None
        if not isinstance(error, BaseException):
            return False
        name = type(self.client).__name__
        error.add_note(f"besides, on closing the {name}: {failure}")
        return True


class GuardedClient(ReportCalls, StandIn):
    """Base class of guarded clients with blocking calls.

    Args:
        client: The client.
        view: The cluster view for the guard's own requests.
    """

    def __init__(self, client: Any, view: ClusterView) -> None:
        super().__init__(client)
        self.cluster_view = view

    def close(self, *args: Any, **kwargs: Any) -> Any:
        """Close the guard's connections, then call the client's own ``close``."""
        self.close_view()
        close = getattr(self.client, "close", None)
        return None if close is None else close(*args, **kwargs)

    def __enter__(self) -> Self:
        """Return the guarded client; the end of the block closes it."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close the guarded client; an exception of the block has priority."""
        try:
            self.close()
        except KafkaGuardError as failure:
            if not self._is_noted(failure, raised):
                raise


class GuardedAsyncClient(AsyncReportCalls, StandIn):
    """Base class of guarded clients with awaited calls.

    Args:
        client: The client.
        view: The cluster view for the guard's own requests.
    """

    #: The name of the client's method that closes it.
    _ends_with = "stop"
    #: The base class of the client's errors, and the function that translates them.
    _client_error: type[BaseException]
    _translate: Callable[..., KafkaGuardError]

    def __init__(self, client: Any, view: ClusterView) -> None:
        super().__init__(client)
        self.cluster_view = view
        self._has_failed = False

    async def __aenter__(self) -> Self:
        """Start the client; the end of the block closes it."""
        await self.start()
        return self

    async def start(self) -> None:
        """Start the client; if that fails, close what it has opened.

        After a failure you can call ``start`` again, as users of aiokafka do in a loop.

        Raises:
            KafkaGuardError: The client could not start. The error also has the class
                that the client raises.
        """
        if self._has_failed:
            # aiokafka does not close a client that is marked as closed.
            self.client._closed = False  # noqa: SLF001 - there is no other way
        self._has_failed = False
        try:
            await self.client.start()
        except BaseException as error:
            self._has_failed = True
            await self._close_after_failure()
            if isinstance(error, self._client_error):
                view, failure = self.cluster_view, self._translate(error)
                failure = await explain(failure, view.settings, view.make)
                raise failure from failure.__cause__
            raise

    async def _close_client(self) -> None:
        async with asyncio.timeout(CLOSE_S):
            await getattr(self.client, self._ends_with)()

    async def _close_after_failure(self) -> None:
        """Close a client that did not start; log errors, so that start's is raised."""
        try:
            await self._close_client()
        except Exception:  # noqa: BLE001 - only logged
            name = type(self.client).__name__
            _log.exception(
                "unstarted_client_not_closed",
                "%s.%s() failed",
                name,
                self._ends_with,
                client=name,
            )

    @property
    def is_ended(self) -> bool:
        """Whether the client was closed, or did not start."""
        return self._has_failed or self.cluster_view.is_closed

    @property
    def how_it_ended(self) -> str:
        """The error text for calls of a client that has ended; it says what to do."""
        if self.cluster_view.is_closed:
            return "was closed: build a new one"
        return "did not start: correct the cause that start() raised"

    async def __aexit__(self, *raised: object) -> None:
        """Close the guarded client; an exception of the block has priority."""
        try:
            await self._end()
        except KafkaGuardError as failure:
            if not self._is_noted(failure, raised):
                raise

    async def _end(self) -> None:
        """Close the guard's connections, then the client, within a time limit.

        Raises:
            KafkaGuardError: The client has not closed within 30 s.
        """
        await self.cluster_view.close()
        try:
            await self._close_client()
        except TimeoutError as error:
            name = f"{type(self.client).__name__}.{self._ends_with}()"
            raise self.cluster_view.make(
                ClientTimeoutError,
                f"{name} has not ended within "
                f"{CLOSE_S:g} s and was cancelled; offsets or records may not have "
                "been committed or sent. Check whether a broker answers",
            ) from error
