"""What of the atlas disagrees with the verdicts, and which of it is explained.

``explained.yaml`` has the explanations. An entry names the kind of the disagreement, may
narrow it down by client, request, code and how often it was answered, and says the
cause, and why it is right.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import yaml

from kafkaguard._verdicts.classification import classify
from kafkaguard.testing.proxy.language import error_code

EXPLAINED = Path(__file__).with_name("explained.yaml")
#: What raises, and is no error of a client.
_OURS = ("AnsweredError", "SilenceError", "Hung")
#: Actions after which this client object is not used again.
_ENDS = ("RECREATE", "FENCED", "CONFIGURE")


def disagreements(line):
    """Return the kinds of disagreement of one guarded cell."""
    return [kind for kind, shows in _KINDS.items() if line["guarded"] and shows(line)]


def _verdict(line):
    idempotent = line["client"] == "kafka-python" or None
    return classify(line["code"], api=line["api"], idempotent=idempotent)


def _raises(line):
    return line["error"] not in (None, *_OURS)


_KINDS = {
    "hung": lambda line: line["error"] == "Hung" or not line["ended"],
    "silent": lambda line: line["error"] == "SilenceError",
    "told-not-written": lambda line: line.get("told") == "no" and line.get("written"),
    "lost": lambda line: line["error"] is None and line.get("written") == 0,
    "twice": lambda line: (line.get("written") or 0) > 1,
    "no-verdict": lambda line: _raises(line) and "action" not in line,
    "other-code": lambda line: (
        _raises(line) and line["requests"] and line["raised"] != line["code"]
    ),
    "other-verdict": lambda line: (
        line.get("action")
        and line["raised"] == line["code"]
        and line["action"] != _verdict(line).action
    ),
    "gave-up": lambda line: (
        _raises(line)
        and not line["ever"]
        and line["requests"] == 1
        and _verdict(line).retriable
    ),
    "repeats": lambda line: (
        line["ever"] and line["requests"] > 1 and not _verdict(line).retriable
    ),
    "dead": lambda line: line["lives"] is False and line.get("action") not in _ENDS,
}


class Explained:
    """The explanations of disagreements."""

    def __init__(self, entries=None):
        self._entries = (
            yaml.safe_load(EXPLAINED.read_text()) if entries is None else entries
        )
        self.used = Counter()

    def why(self, kind, line):
        """Return the explanation of a disagreement, or None."""
        for number, entry in enumerate(self._entries):
            if self._fits(entry, kind, line):
                self.used[number] += 1
                return entry["why"]
        return None

    def unused(self):
        """Return the entries that explain nothing."""
        return [e for n, e in enumerate(self._entries) if not self.used[n]]

    @staticmethod
    def _fits(entry, kind, line):
        facts = {**line, "kind": kind}

        def listed(name, read=lambda word: word):
            words = entry.get(name)
            words = words if isinstance(words, list) else [words]
            return name not in entry or facts[name] in map(read, words)

        return (
            listed("kind")
            and listed("client")
            and listed("api")
            and listed("code", error_code)
            and listed("ever")
            and listed("error")
        )
