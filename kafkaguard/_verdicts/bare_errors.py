"""confluent-kafka's ``KafkaError``, which can be raised but is not an exception.

``raise message.error()`` passes every ``except`` that names a class, ``BaseException``
too; only a bare ``except:`` meets it.
"""

from __future__ import annotations

import sys
from typing import Any

from kafkaguard._errors import KafkaGuardError, dual
from kafkaguard._verdicts.classification import classify


def current_error() -> KafkaGuardError:
    """Return what a bare ``except:`` has caught as an exception; call it there.

    Returns:
        A ``KafkaException`` around the ``KafkaError``, also of its verdict's class.

    Raises:
        BaseException: What was caught, if that is an exception.
    """
    error: Any = sys.exc_info()[1]
    if isinstance(error, BaseException):
        raise  # noqa: PLE0704 - called where it is handled
    cls = dual(
        classify(error).error_class, sys.modules["confluent_kafka"].KafkaException
    )
    exception = cls.__new__(cls, error)
    KafkaGuardError.__init__(
        exception,
        client="confluent-kafka",
        code=error.code(),
        broker_message=error.str(),
    )
    exception.args = (error,)
    return exception
