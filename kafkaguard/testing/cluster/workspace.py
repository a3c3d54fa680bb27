"""A temporary folder and child processes that end with this process."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaguard.testing.cluster import watchdog

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST_END_S = 15
# The process announces itself to the watchdog before it runs its command, so that the
# watchdog can end it at any time.
_ANNOUNCED = 'echo "+$$" && exec "$@" >&2'


class Workspace:
    """A folder in the system's temporary folder, and the processes that use it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kafkaguard-"))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", watchdog.__file__, self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        _open_workspaces.add(self)

    @property
    def remote(self) -> Path:
        """The folder that is used as remote storage."""
        return self.folder / "remote"

    def properties(self, node: int) -> Path:
        """Return the file of a broker's settings."""
        return self.folder / f"broker-{node}.properties"

    def spawn(self, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a process that Ctrl-C does not reach; its output is added to a log."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                ["/bin/sh", "-c", _ANNOUNCED, "sh", *command],
                stdin=subprocess.DEVNULL,
                stdout=self._watchdog.stdin,
                stderr=output,
                cwd=self.folder,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def reap(self, process: subprocess.Popen[bytes], timeout: float) -> int:
        """Wait for the end of a process, and report the end to the watchdog.

        Raises:
            subprocess.TimeoutExpired: The process is still running.
        """
        code = process.wait(timeout)
        if process in self._processes:
            self._processes.remove(process)
            self._tell(f"-{process.pid}\n")
        return code

    def remove(self) -> None:
        """Kill running processes and remove the folder; a second call does nothing."""
        for process in self._processes:
            process.kill()
        for process in [*self._processes]:
            self.reap(process, _LONGEST_END_S)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.close_pipe()
        self._watchdog.wait(_LONGEST_END_S)

    def close_pipe(self) -> None:
        """Close the pipe to the watchdog, which then cleans up."""
        if self._watchdog.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._watchdog.stdin.close()

    def _tell(self, text: str) -> None:
        if self._watchdog.stdin:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._watchdog.stdin.fileno(), text.encode())


_open_workspaces: weakref.WeakSet[Workspace] = weakref.WeakSet()


def _close_pipes() -> None:
    """Close the pipes in a forked child, which may live longer than its parent."""
    for workspace in _open_workspaces:
        workspace.close_pipe()


os.register_at_fork(after_in_child=_close_pipes)
