"""``kafkaguard broker`` starts, serves and stops; its jars are downloaded before."""

import json
import subprocess

with subprocess.Popen(
    ["kafkaguard", "broker", "--json", "--topic", "flights:3"],
    stdout=subprocess.PIPE,
    text=True,
) as broker:
    facts = json.loads(broker.stdout.readline())
    subprocess.run(
        ["kafkaguard", "lag", "-b", facts["bootstrap_servers"]], check=True, timeout=60
    )
    broker.terminate()
    assert broker.wait(60) == 0
