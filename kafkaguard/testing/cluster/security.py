"""Security of a test cluster: listeners, users, certificates and broker settings."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaguard._common.extras import require
from kafkaguard.testing.cluster.clients import Access, login, unsecured_login
from kafkaguard.testing.cluster.errors import ClusterError
from kafkaguard.testing.cluster.listeners import HOST, PLAINTEXT, Listener

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


_SCRAM_DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_SCRAM_ITERATIONS = 4096
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

SASL_PLAIN = Listener("SASL_PLAIN", "SASL_PLAINTEXT", ("PLAIN",))
SASL_SCRAM = Listener("SASL_SCRAM", "SASL_PLAINTEXT", tuple(_SCRAM_DIGESTS))
SASL_TLS = Listener("SASL_TLS", "SASL_SSL", ("PLAIN", *_SCRAM_DIGESTS))
TLS = Listener("TLS", "SSL")
OAUTHBEARER = Listener("OAUTHBEARER", "SASL_PLAINTEXT", ("OAUTHBEARER",))


@dataclass(frozen=True, slots=True)
class Security:
    """The requested security, beside the plain listener.

    Clients without a user name, on the plain or the TLS listener, may do everything.
    Users may do only what was granted to them.
    """

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    super_users: frozenset[str] = frozenset()
    tls: bool = False
    oauth: bool = False

    def check(self) -> None:
        """Raise an error for settings that a broker cannot have.

        Raises:
            ClusterError: A user's name or password cannot be used, or a package that
                TLS needs is missing.
        """
        if self.tls:
            check_packages()
        for name in [*self.users, *self.super_users]:
            if not re.fullmatch(r"[\w.@-]+", name, re.ASCII):
                raise ClusterError(
                    f"user {name!r}: names are letters, digits, and any of . _ - @, "
                    "without Kafka's User: in front"
                )
        without_password = sorted(self.super_users - self.users.keys())
        if without_password and not self.oauth:
            raise ClusterError(
                f"super user {without_password[0]!r} cannot log in: give it a password "
                "among the users, too (users={name: password}, --user NAME:PASSWORD)"
            )
        for name, password in self.users.items():
            if not password:
                raise ClusterError(f"user {name!r} has an empty password")

    def listeners(self) -> list[Listener]:
        """Return the listeners of the brokers."""
        conditions = {
            PLAINTEXT: True,
            SASL_PLAIN: self.users,
            SASL_SCRAM: self.users,
            TLS: self.tls,
            SASL_TLS: self.users and self.tls,
            OAUTHBEARER: self.oauth,
        }
        return [listener for listener, condition in conditions.items() if condition]

    def settings(self, folder: Path) -> dict[str, object]:
        """Return the broker settings, and write the certificates that they name."""
        settings: dict[str, object] = {}
        for listener in self.listeners():
            settings.update(self._sasl_settings(listener))
        if self.users or self.oauth:
            settings.update(self._authorizer_settings())
        if self.tls:
            keystore = folder / "keystore.pem"
            write_certificates(authority_file(folder), keystore)
            settings["ssl.keystore.type"] = "PEM"
            settings["ssl.keystore.location"] = keystore
        return settings

    def format_options(self) -> list[str]:
        """Return the format options that create the SCRAM users."""
        return [
            f"--add-scram={mechanism}=[{_scram_credential(name, password, digest)}]"
            for name, password in self.users.items()
            for mechanism, digest in _SCRAM_DIGESTS.items()
        ]

    def access(
        self,
        listener: Listener,
        user: str | None,
        mechanism: str | None,
        authority: Path | None,
    ) -> Access:
        """Collect what a client needs to connect to a listener.

        Raises:
            ClusterError: There is no such user or mechanism, or a user is missing.
        """
        mechanisms = listener.mechanisms
        mechanism = mechanism or next(iter(mechanisms), None)
        if mechanism and mechanism not in mechanisms:
            takes = ", ".join(mechanisms) or "no mechanism"
            raise ClusterError(f"{listener.name} takes {takes}, not {mechanism}")
        if mechanism and not user:
            raise ClusterError(f"give user= to log in through {listener.name}")
        password = self._password(user, mechanism) if user and mechanism else ""
        return Access(
            listener.bootstrap_servers,
            listener.security_protocol,
            mechanism,
            user or "",
            password,
            authority if listener.security_protocol.endswith("SSL") else None,
        )

    def _password(self, user: str, mechanism: str) -> str:
        if mechanism == "OAUTHBEARER":
            return ""
        if user not in self.users:
            raise ClusterError(
                f"no user {user!r}; create users with users= of the cluster"
            )
        return self.users[user]

    def _authorizer_settings(self) -> dict[str, object]:
        super_users = ["ANONYMOUS", *sorted(self.super_users)]
        return {
            "authorizer.class.name": _AUTHORIZER,
            "super.users": ";".join(f"User:{name}" for name in super_users),
        }

    def _sasl_settings(self, listener: Listener) -> Iterator[tuple[str, object]]:
        prefix = f"listener.name.{listener.name.lower()}"
        if listener.mechanisms:
            yield f"{prefix}.sasl.enabled.mechanisms", ",".join(listener.mechanisms)
        for mechanism in listener.mechanisms:
            key = f"{prefix}.{mechanism.lower()}.sasl.jaas.config"
            yield key, self._login(mechanism)

    def _login(self, mechanism: str) -> str:
        if mechanism == "PLAIN":
            users = {f"user_{name}": word for name, word in self.users.items()}
            return login(mechanism, **users)
        if mechanism == "OAUTHBEARER":
            return unsecured_login("broker")
        return login(mechanism)


def authority_file(folder: Path) -> Path:
    """Return the file of the authority's certificate, which clients trust."""
    return folder / "ca.pem"


def _scram_credential(name: str, password: str, digest: str) -> str:
    """Salt a password here, so that the password is not on a command line."""
    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, _SCRAM_ITERATIONS)
    return (
        f'name={name},iterations={_SCRAM_ITERATIONS},salt="{_base64(salt)}",'
        f'saltedpassword="{_base64(salted)}"'
    )


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def check_packages() -> None:
    """Check that certificates can be made, before anything starts.

    Raises:
        ClusterError: A package is missing; the text names it and the extra.
    """
    try:
        require("TLS", "testing", "trustme", "cryptography")
    except ModuleNotFoundError as error:
        raise ClusterError(str(error)) from None


def write_certificates(authority_file: Path, keystore_file: Path) -> None:
    """Write the authority's certificate, and the brokers' key and certificate (PEM)."""
    import trustme

    authority = trustme.CA()
    issued = authority.issue_cert(HOST, "localhost")
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    keystore_file.write_bytes(_pkcs8(issued.private_key_pem.bytes()) + chain)
    authority.cert_pem.write_to_path(authority_file)


def _pkcs8(key: bytes) -> bytes:
    """Convert a private key to PKCS #8, the only format that Kafka reads."""
    from cryptography.hazmat.primitives import serialization

    return serialization.load_pem_private_key(key, password=None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
