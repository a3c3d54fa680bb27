"""kafkaguard: what every answer of a Kafka broker means, and the right next step.

The front door. Public names of all rooms are re-exported here, lazily (PEP 562), so
that ``import kafkaguard`` loads no Kafka client, no pydantic and no pyspark.
"""

from __future__ import annotations

from kafkaguard._version import __version__

__all__ = ["__version__"]
