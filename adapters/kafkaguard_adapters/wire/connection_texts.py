"""Error texts for connections that fail; each says what to change."""

from __future__ import annotations

import ssl
from typing import Final

_CA: Final = (
    "trust the authority that signed it (the CA file of the settings, now {ca}), or "
    "give the broker a certificate that is trusted"
)
#: What to do about each of OpenSSL's verification errors (X509_V_ERR_...).
_ADVICE: Final = {
    3: "give a CRL file that covers it",
    9: "it is not valid yet: check the clocks and the certificate",
    10: "the broker needs a new certificate (or this machine the right time)",
    18: _CA,
    19: _CA,
    20: _CA,
    21: _CA,
    23: "it was revoked: the broker needs a new one",
    62: "connect by a name that the certificate has, or give it this one",
    64: "connect by an address that the certificate has, or give it this one",
}
_NO_TLS: Final = frozenset(
    {
        "WRONG_VERSION_NUMBER",
        "RECORD_LAYER_FAILURE",
        "PACKET_LENGTH_TOO_LONG",
        "UNKNOWN_PROTOCOL",
        "HTTP_REQUEST",
        "UNEXPECTED_MESSAGE",
    }
)
_PROTOCOL: Final = "choose the security protocol of this port, or the port of this one"


def tls_failed(place: str, error: ssl.SSLError, ca: str | None) -> str:
    """Return the text for a failure of TLS: the reason, and what to do.

    Args:
        place: Host and port.
        error: The error from OpenSSL.
        ca: The file of trusted certificates; None: the system's certificates.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        advice = _ADVICE.get(error.verify_code, "check the certificate")
        problem = error.verify_message.rstrip(".")
        step = advice.format(ca=ca or "the system's")
        return f"the certificate of {place} is not accepted: {problem}: {step}"
    reason = error.reason or str(error)
    if reason in _NO_TLS:
        return f"{place} does not speak TLS ({reason}): {_PROTOCOL}"
    if "ALERT" in reason:
        return (
            f"{place} refuses TLS with this client ({reason}): check the client's "
            "certificate and key, and the TLS versions of both sides"
        )
    return f"TLS with {place} failed ({reason}): check the TLS settings"


def speaks_otherwise(place: str, protocol: str) -> str:
    """Return the text for a port that answers in another protocol than expected."""
    reason = (
        ("the broker requires TLS there")
        if "TLS" in protocol
        else "it is not a Kafka broker"
    )
    return (
        f"{place} answers in {protocol}, not in Kafka's protocol: {reason}; {_PROTOCOL}"
    )


def closed_in_handshake(place: str) -> str:
    """Return the text for a port that ends the connection in the TLS handshake."""
    return f"{place} ended the connection in the TLS handshake: {_PROTOCOL}"


def closed_at_once(place: str, fault: str | None, *, has_tls: bool) -> str:
    """Return the text for a port that closes the connection without an answer."""
    detail = f" ({fault})" if fault else ""
    text = f"{place} closed the connection instead of answering{detail}: {_PROTOCOL}"
    if has_tls:
        text += "; it may require the client's certificate (mutual TLS) or SASL"
    return text


def uses_no_sasl(place: str) -> str:
    """Return the text for a port that takes requests, but no login."""
    return f"{place} does not use SASL"


def requires_more(place: str, times: str, *, has_tls: bool) -> str:
    """Return the text for a port that closes each connection at the first request.

    Args:
        place: Host and port.
        times: How often it did so.
        has_tls: Whether the client uses TLS. It does not use SASL.
    """
    protocols = "SASL" if has_tls else "SASL or TLS"
    return (
        f"{place} most likely requires {protocols}, which this client does not use: "
        f"{times} it closed the connection instead of answering. Check the security "
        "protocol"
    )


def unopened(place: str, *, has_accepted: bool) -> str:
    """Return the text for a broker with which no connection could be opened in time.

    Args:
        place: Host and port.
        has_accepted: Whether the other side took the connection.
    """
    if has_accepted:
        return (
            f"{place} accepts connections, but does not answer: check whether it is a "
            "port of Kafka's and whether the broker hangs"
        )
    return f"{place} accepts no connection: check the address and the network"


def given_by_the_cluster(text: str) -> str:
    """Add to a text that the address comes from the cluster, not from the user."""
    return (
        f"{text}. The cluster names this address for the broker "
        "(advertised.listeners); it is not one of the bootstrap servers. This machine "
        "must be able to reach it"
    )
