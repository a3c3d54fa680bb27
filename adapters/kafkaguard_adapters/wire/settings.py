"""Connection settings of any client, in one form.

Each client's folder translates its settings, one by one. A setting that affects the
connection and cannot be translated raises an error that names it; it is never ignored.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkaguard._common.arguments import read_address
from kafkaguard._errors import ClientConfigurationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from kafkaguard._cluster.reports import Make

    TokenCall = Callable[[], Awaitable[tuple[str, Mapping[str, str]]]]

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class Settings:
    """How to connect and log in to a cluster.

    Attributes:
        bootstrap: Hosts and ports of the bootstrap servers.
        client_id: The ``client.id`` in requests.
        tls: Makes the TLS context; None without TLS.
        ca: The file of trusted certificates, for the error text if TLS fails; None: the
            system's.
        mechanism: The SASL mechanism; None without SASL.
        sasl: Arguments of kafka-python's implementation of the mechanism.
        token: Fetches an OAUTHBEARER token, and its extensions, for each connection.
    """

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str = "kafkaguard"
    tls: Callable[[], ssl.SSLContext] | None = field(default=None, repr=False)
    ca: str | None = None
    mechanism: str | None = None
    sasl: Mapping[str, Any] = field(default_factory=dict, repr=False)
    token: TokenCall | None = field(default=None, repr=False)


def read_bootstrap(
    value: str | Iterable[str], make: Make
) -> tuple[tuple[str, int], ...]:
    """Read ``"host:port,..."``, or a list of ``"host:port"``. The default port is 9092.

    Raises:
        KafkaGuardError: There is no address, or an address is not ``host:port``.
    """
    parts = value.split(",") if isinstance(value, str) else list(value)
    addresses = tuple(_address(part.strip(), make) for part in parts if part.strip())
    if not addresses:
        raise unusable(make, "bootstrap servers", "name at least one as host:port")
    return addresses


def _address(text: str, make: Make) -> tuple[str, int]:
    is_bare_ipv6 = text.count(":") > 1 and not re.search(r"\[|://", text)
    address = read_address(f"[{text}]" if is_bare_ipv6 else text)
    if is_bare_ipv6 and address is not None and not _is_ipv6(address[0]):
        address = None
    if address is None:
        # The text before an @ may be a password.
        visible_text = text.rpartition("@")[2]
        raise unusable(
            make,
            f"bootstrap server {visible_text!r}",
            "write it as host:port, with a port up to 65535",
        )
    return address


def _is_ipv6(host: str) -> bool:
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True


def check_protocol(value: str | None, make: Make) -> tuple[bool, bool]:
    """Return whether a security protocol has TLS, and whether it has SASL.

    Raises:
        KafkaGuardError: The protocol is not known.
    """
    protocol = (value or "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise unusable(
            make,
            f"security protocol {value!r}",
            f"it is one of {', '.join(_PROTOCOLS)}",
        )
    return protocol.endswith("SSL"), protocol.startswith("SASL")


def unusable(make: Make, setting: str, advice: str) -> Any:
    """Make the error for a setting that the guard's own connection cannot use."""
    return make(
        ClientConfigurationError,
        f"{setting} cannot be used for kafkaguard's own connection: {advice}",
    )


@dataclass(frozen=True, slots=True)
class Tls:
    """The settings of a TLS context.

    Attributes:
        cafile: A PEM file of certificates to trust. Default: the system's.
        cadata: Certificates to trust, as PEM text.
        certfile: A file with the client's own certificate and its chain.
        keyfile: A file with the client's key.
        password: The key's password.
        crlfile: A file of revoked certificates.
        ciphers: OpenSSL's cipher list.
        check_hostname: Whether the broker's certificate must have its host name.
        verify: Whether the broker's certificate must be trusted.
    """

    cafile: str | None = None
    cadata: str | None = field(default=None, repr=False)
    certfile: str | None = None
    keyfile: str | None = None
    password: str | None = field(default=None, repr=False)
    crlfile: str | None = None
    ciphers: str | None = None
    check_hostname: bool = True
    verify: bool = True

    def context(self) -> ssl.SSLContext:
        """Make the TLS context.

        Raises:
            OSError: A file cannot be read or used.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.check_hostname and self.verify
        context.verify_mode = ssl.CERT_REQUIRED if self.verify else ssl.CERT_NONE
        for path in filter(None, (self.cafile, self.certfile, self.keyfile)):
            Path(path).stat()  # unlike OpenSSL's, this error names the file
        if self.cafile or self.cadata:
            context.load_verify_locations(self.cafile, cadata=self.cadata)
        else:
            context.load_default_certs()
        if self.certfile:
            context.load_cert_chain(self.certfile, self.keyfile, self.password)
        if self.crlfile:
            context.load_verify_locations(self.crlfile)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        if self.ciphers:
            context.set_ciphers(self.ciphers)
        return context
