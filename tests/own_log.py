"""What kafkaguard has logged, without the clients that other tests have left behind."""

from __future__ import annotations


def own_records(caplog, *more):
    """List the records of kafkaguard's loggers, and of other loggers by name."""
    return [
        r for r in caplog.records if r.name.partition(".")[0] in ("kafkaguard", *more)
    ]
