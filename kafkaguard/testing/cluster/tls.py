"""A temporary certificate authority and the brokers' certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._common.extras import require
from kafkaguard.testing.cluster.errors import ClusterError
from kafkaguard.testing.cluster.ports import HOST

if TYPE_CHECKING:
    from pathlib import Path


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
