"""Standing in for a client: whatever the guard does not do itself, the client does."""

from __future__ import annotations

from typing import Any, NoReturn


class StandIn:
    """Hands every attribute on to a client, and passes for one of its class.

    Args:
        client: The client.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    @property  # type: ignore[misc]  # that of object can be set, too
    def __class__(self) -> type:
        """The client's class, so that ``isinstance`` holds."""
        return type(self.client)

    def __getattr__(self, name: str) -> Any:
        """Hand everything else on to the client."""
        if name == "client":  # not there yet
            raise AttributeError(name)
        return getattr(self.client, name)

    def __dir__(self) -> list[str]:
        """List the client's names and our own."""
        return sorted({*dir(self.client), *dir(type(self))})

    def __repr__(self) -> str:
        """Show what is guarded."""
        return f"<guarded {type(self.client).__qualname__}>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse: a connection cannot be moved to another process."""
        raise TypeError(
            "a guarded client cannot be pickled or copied: build it where it is used"
        )
