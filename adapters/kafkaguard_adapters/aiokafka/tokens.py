"""Token providers of aiokafka, whose failures the client takes for failed connections.

aiokafka tries another broker, or later again, after an exception of its own or an
OSError. Any other exception of a provider ends ``start`` or the producer's task.
"""

from __future__ import annotations

from typing import Any

from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError

from kafkaguard._errors import TokenProviderError
from kafkaguard_adapters.aiokafka.errors import errors
from kafkaguard_adapters.aiokafka.settings import inner_client

_SETTING = "_sasl_oauth_token_provider"


class GuardedProvider(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka is untyped
    """Calls the application's provider.

    Args:
        provider: The application's provider.
    """

    def __init__(self, provider: AbstractTokenProvider) -> None:
        self._provider = provider

    async def token(self) -> Any:
        """Return a token.

        Raises:
            TokenProviderError: The provider raised; its exception is the ``__cause__``.
        """
        try:
            return await self._provider.token()
        except Exception as error:
            text = f"the token provider raised {type(error).__name__}"
            raise errors.make(
                TokenProviderError, text, theirs=KafkaConnectionError
            ) from error

    def extensions(self) -> Any:
        """Return the extensions of the token."""
        return self._provider.extensions()


def guard_tokens(client: Any) -> None:
    """Let a client use a guarded provider, if it has a provider."""
    inner = inner_client(client)
    provider = getattr(inner, _SETTING, None)
    if isinstance(provider, AbstractTokenProvider):
        setattr(inner, _SETTING, GuardedProvider(provider))
