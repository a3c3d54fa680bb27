"""Without an extra a broker's jars cannot be downloaded; the error names the extra."""

import os

from kafkaguard.testing import JarsNotFoundError, KafkaCluster

os.environ["KAFKAGUARD_CACHE"] = "empty"
try:
    KafkaCluster().start()
except JarsNotFoundError as error:
    print(error)
