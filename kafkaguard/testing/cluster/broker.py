"""One broker: a Java process that can be stopped, killed, paused and started again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from itertools import dropwhile
from typing import TYPE_CHECKING

from kafkaguard._common.arguments import flag, seconds
from kafkaguard.testing.cluster.errors import ClusterError, PortTakenError, StartError
from kafkaguard.testing.cluster.requests import knows_brokers, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from kafkaguard.testing.cluster.java import Runtime
    from kafkaguard.testing.cluster.workspace import Workspace


_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 30.0
_PAUSE_TIMEOUT_S = 10.0


class Broker:
    """One broker of a running cluster.

    Attributes:
        id: Its ``node.id``, from 0.
        address: ``host:port`` of its plain listener.
        log: The file with the output of all its starts.
    """

    def __init__(
        self, node: int, address: str, workspace: Workspace, runtime: Runtime
    ) -> None:
        self.id = node
        self.address = address
        self.log: Path = workspace.folder / f"broker-{node}.log"
        self._properties = workspace.properties(node)
        self._workspace = workspace
        self._runtime = runtime
        self._process: subprocess.Popen[bytes] | None = None
        self._is_paused = False
        self._log_start = 0

    @property
    def pid(self) -> int:
        """The process id.

        Raises:
            ClusterError: The broker is not running.
        """
        return self._running_process().pid

    @property
    def is_running(self) -> bool:
        """Whether its process exists, paused or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code of its last process, None while it runs.

        A process that a signal killed has the negative number of the signal.
        """
        return None if self._process is None else self._process.poll()

    @property
    def is_serving(self) -> bool:
        """Whether its process exists and is not paused."""
        return self.is_running and not self._is_paused

    def start(self, *, wait: bool = True, timeout: float = _START_TIMEOUT_S) -> None:
        """Start the broker, on the same ports and data as before.

        Args:
            wait: Whether to wait until it answers and sees itself in the cluster. This
                needs a quorum of running controllers.
            timeout: Seconds to wait.

        Raises:
            ClusterError: It is already running.
            StartError: It ended or did not answer in time; the text has the end of its
                log.
            TypeError: ``wait`` is not a bool, or ``timeout`` not a number.
            ValueError: ``timeout`` is not above 0, or has no end.
        """
        flag("start(): wait", wait)
        timeout = seconds("start(): timeout", timeout)
        if self.is_running:
            raise ClusterError(f"broker {self.id} is already running (pid {self.pid})")
        command = self._runtime.command("kafka.Kafka", str(self._properties))
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self._process = self._workspace.spawn(command, self.log)
        self._is_paused = False
        if wait:
            self.wait_until_ready({self.id}, timeout)

    def wait_until_ready(self, brokers: set[int], timeout: float) -> None:
        """Wait until it answers and sees these brokers as alive.

        Args:
            brokers: The ids of the brokers.
            timeout: Seconds to wait.

        Raises:
            StartError: It ended, or did not see all of them in time.
        """

        def is_ready() -> bool:
            return not self.is_running or knows_brokers(self.address, brokers)

        in_time = wait_for(is_ready, timeout)
        if not self.is_running:
            raise self._start_error()
        if not in_time:
            raise StartError(
                f"broker {self.id} ({self.address}) does not see the brokers "
                f"{sorted(brokers)} as alive after {timeout:.1f} s. {self._quote_log()}"
            )

    def stop(self, timeout: float = _STOP_TIMEOUT_S) -> bool:
        """Shut the broker down (SIGTERM); kill it if that takes too long.

        Args:
            timeout: Seconds for the orderly shutdown, with the move of its leaders.

        Returns:
            Whether it ended without being killed.

        Raises:
            TypeError: ``timeout`` is not a number.
            ValueError: ``timeout`` is not above 0, or has no end.
        """
        timeout = seconds("stop(): timeout", timeout)
        process = self._running_process()
        self.resume()
        process.terminate()
        try:
            self._workspace.reap(process, timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def kill(self) -> None:
        """End the broker at once (SIGKILL), like a crash of its machine."""
        process = self._running_process()
        process.kill()
        self._workspace.reap(process, _STOP_TIMEOUT_S)

    def pause(self) -> None:
        """Freeze the broker (SIGSTOP): connections stay open, nothing is answered.

        Raises:
            ClusterError: It is not running, or did not stop within 10 s.
        """
        process = self._running_process()
        process.send_signal(signal.SIGSTOP)
        self._is_paused = True
        # On a busy machine, some of its threads run on for a moment.
        if not wait_for(lambda: _has_stopped(process.pid), _PAUSE_TIMEOUT_S):
            raise ClusterError(f"broker {self.id} did not stop within 10 s")

    def resume(self) -> None:
        """Let a paused broker continue (SIGCONT)."""
        self._running_process().send_signal(signal.SIGCONT)
        self._is_paused = False

    def _running_process(self) -> subprocess.Popen[bytes]:
        if self._process is None or not self.is_running:
            raise ClusterError(f"broker {self.id} is not running; call start() first")
        return self._process

    def _start_error(self) -> StartError:
        code = self._process.returncode if self._process else None
        quotation = self._quote_log()
        kind = PortTakenError if "Address already in use" in quotation else StartError
        return kind(
            f"broker {self.id} ended with code {code} while starting. {quotation}"
        )

    def _quote_log(self) -> str:
        """Quote the log since the last start."""
        with self.log.open(errors="replace") as log:
            log.seek(self._log_start)
            return quote(log.read())


def _has_stopped(pid: int) -> bool:
    """Return whether all threads of a child have stopped, if that can be known."""
    if sys.platform == "darwin":
        return True
    options = os.WSTOPPED | os.WNOWAIT | os.WNOHANG
    return os.waitid(os.P_PID, pid, options) is not None


_LINES = 15
_ERROR = re.compile(r" (ERROR|FATAL) |^Exception in |^Error|^usage:")
_NOISE = re.compile(r" INFO |^\s+(at |\.\.\. \d+ more)")


def quote(log: str) -> str:
    """Quote the first error and its consequences, or the end, without stack frames."""
    lines = log.splitlines()
    if lines_from_error := [*dropwhile(lambda line: not _ERROR.search(line), lines)]:
        relevant = [line for line in lines_from_error if not _NOISE.search(line)]
        return "\n".join(["The first error in its log:", *relevant[:_LINES]])
    return "\n".join(["Its log ends:", *lines[-_LINES:]])
