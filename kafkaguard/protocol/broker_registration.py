"""BrokerRegistration (62): a broker registers with the controller.

Fields of the request: ``broker_id``, ``cluster_id``, ``incarnation_id`` (uuid),
``listeners`` (``name``, ``host``, ``port``, ``security_protocol``), ``features``
(``name``, ``min_supported_version``, ``max_supported_version``), ``rack`` (or None);
``is_migrating_zk_broker`` from version 1, ``log_dirs`` (uuids) from version 2,
``previous_broker_epoch`` from version 3. The latter two are ignorable: older versions
leave them out; a true ``is_migrating_zk_broker`` in version 0 is an error.

Fields of the response: ``throttle_time_ms``, ``error_code``, ``broker_epoch``.

Before version 4 a broker must leave out features whose lowest level is 0 (KIP-1022).
This module does not do so: the caller must build the content accordingly.
"""

from __future__ import annotations

from kafkaguard.protocol._message import Message

__all__ = [
    "api_key",
    "deserialize_request",
    "deserialize_response",
    "max_supported_version",
    "min_supported_version",
    "serialize_request",
    "serialize_response",
]

_MESSAGE = Message("BrokerRegistration")

api_key = _MESSAGE.api_key
min_supported_version = _MESSAGE.min_supported_version
max_supported_version = _MESSAGE.max_supported_version
serialize_request = _MESSAGE.serialize_request
deserialize_request = _MESSAGE.deserialize_request
serialize_response = _MESSAGE.serialize_response
deserialize_response = _MESSAGE.deserialize_response
