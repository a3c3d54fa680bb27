"""Without an extra: the public names, verdicts, errors and messages."""

import importlib
import sys

import kafkaguard

assert "site-packages" in kafkaguard.__file__, kafkaguard.__file__
heavy = {"kafka", "confluent_kafka", "aiokafka", "pydantic", "pyspark"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
for name in kafkaguard.__all__:
    # The module spark needs an extra.
    assert hasattr(kafkaguard, name) is (name != "spark"), name
verdict = kafkaguard.classify(9, api="Metadata")
assert verdict.action == "IGNORE", verdict
error = kafkaguard.errors.for_code(87)("refused", topic="t")
assert "INVALID_RECORD (87)" in str(error)
message = importlib.import_module("kafkaguard.protocol").broker_registration
assert message.serialize_request({"broker_id": 1}, 4)
