"""How requests are named, and what a bare ``except:`` meets."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafkaguard._verdicts.bare_errors import current_error
from kafkaguard._verdicts.request_names import no_such_request, request_named


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("Produce", "Produce"),
        ("describe_log_dirs", "DescribeLogDirs"),
        ("DESCRIBE-LOG-DIRS", "DescribeLogDirs"),
        (0, "Produce"),
        ("0", "Produce"),
        ("00035", "DescribeLogDirs"),
        ("000035", None),
        (999, None),
        ("Produces", None),
    ],
)
def test_a_request_has_a_name_in_any_spelling_and_a_number(name, request_):
    """None, where there is no such request."""
    assert request_ == request_named(name)


def test_a_request_that_there_is_not_is_told_with_the_nearest():
    """An unknown request is answered with the closest name, if there is one."""
    said = "Kafka has no request named 'Prodce'; did you mean 'Produce'?"
    assert said == no_such_request("Prodce")
    assert no_such_request(999) == "Kafka has no request named 999"


def test_a_bare_error_becomes_an_exception_with_all_that_it_says():
    """Code, text, client, and the error itself."""
    bare = KafkaError(10, "9 bytes")
    try:
        raise bare
    except:  # noqa: E722 - what is tested
        error = current_error()
    assert isinstance(error, KafkaException)
    assert (error.code, error.client) == (10, "confluent-kafka")
    assert error.broker_message == "9 bytes"
    assert error.args == (bare,)
