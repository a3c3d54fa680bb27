"""SASL logins, with kafka-python's mechanisms."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider

from kafkaguard._errors import (
    ClientConfigurationError,
    SaslAuthenticationFailedError,
    TokenProviderError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard._cluster.reports import Make
    from kafkaguard_adapters.wire.settings import Settings, TokenCall


class _Fetched(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python is untyped
    """Holds a token that was fetched for one connection."""

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        super().__init__()
        self._token = token
        self._extensions = extensions

    def token(self) -> str:
        return self._token

    def extensions(self) -> Mapping[str, str]:
        return self._extensions


class Login:
    """One SASL login: returns the bytes to send, until the broker accepts the login.

    Args:
        settings: The connection settings, with the mechanism and its arguments.
        host: The broker's host name, for Kerberos.
        make: Makes the errors.
    """

    def __init__(self, settings: Settings, host: str, make: Make) -> None:
        self._settings = settings
        self._host = host
        self._make = make
        self._mechanism: Any = None

    async def next_bytes(self) -> bytes | None:
        """Return the bytes to send next; None if the login is complete.

        Raises:
            KafkaGuardError: The mechanism cannot begin, or a token is not available.
        """
        if self._mechanism is None:
            self._mechanism = await self._begin()
        if self._mechanism.is_done():
            return None
        data: bytes = await asyncio.to_thread(self._mechanism.auth_bytes)
        return data

    def receive(self, data: bytes) -> None:
        """Process the broker's answer.

        Raises:
            KafkaGuardError: The broker's proof of identity is wrong, or the broker did
                not accept the login.
        """
        try:
            self._mechanism.receive(data)
        except ValueError as error:
            raise self._failed("the broker's proof is wrong") from error
        if self._mechanism.is_done() and not self._mechanism.is_authenticated():
            raise self._failed("the broker did not accept the login")

    def _failed(self, text: str) -> Exception:
        return self._make(
            SaslAuthenticationFailedError, f"{self._settings.mechanism}: {text}"
        )

    async def _begin(self) -> Any:
        settings = self._settings
        arguments = dict(settings.sasl, sasl_mechanism=settings.mechanism)
        if settings.token is not None:
            answer = await fetch_token(settings.token, self._make)
            arguments["sasl_oauth_token_provider"] = _Fetched(*answer)
        try:
            return get_sasl_mechanism(settings.mechanism)(host=self._host, **arguments)
        except Exception as error:
            raise self._make(
                ClientConfigurationError,
                f"SASL {settings.mechanism} cannot begin ({type(error).__name__}): "
                "check the sasl settings and what the mechanism requires",
            ) from error


async def fetch_token(provider: TokenCall, make: Make) -> tuple[str, Mapping[str, str]]:
    """Fetch a token and its extensions.

    Args:
        provider: Calls the application's provider.
        make: Makes the errors.

    Raises:
        TokenProviderError: The provider raised. Its exception is the ``__cause__``; its
            text may have a credential, so it is not copied.
    """
    try:
        return await provider()
    except Exception as error:
        text = f"the OAUTHBEARER token provider raised {type(error).__name__}"
        raise make(TokenProviderError, text) from error
