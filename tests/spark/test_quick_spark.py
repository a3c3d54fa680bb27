"""The one Spark that the tests share."""

from __future__ import annotations

import signal
import threading

import pytest

from tests import quick_spark

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.java]


def test_interrupted_test_costs_no_later_one(spark):
    """What a time limit left unread is no answer to the next test's question."""
    here = threading.get_ident()
    timer = threading.Timer(0.5, lambda: signal.pthread_kill(here, signal.SIGUSR1))
    former = signal.signal(signal.SIGUSR1, lambda *_: pytest.fail("Timeout"))
    timer.start()
    try:
        with pytest.raises(pytest.fail.Exception) as caught:
            spark.sparkContext._jvm.java.lang.Thread.sleep(5000)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, former)
    quick_spark.leave_connection()
    assert spark.range(3).count() == 3
    assert spark.sparkContext.defaultParallelism == 2
    # As pytest's reports do, this keeps the frames, and with them the connection.
    assert caught.tb
