"""A Kubernetes API server for tests: Pintle as a child process with everything in memory."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import tempfile
import time
from typing import Sequence

__all__ = ["ServerError", "TestServer", "binary"]

_POLL_SECONDS = 0.001


class ServerError(Exception):
    """The server could not be started."""


def binary() -> str:
    """The program: that of PINTLE_BIN, of this package, or on PATH."""
    named = os.environ.get("PINTLE_BIN")
    if named:
        return named
    packaged = pathlib.Path(__file__).parent / "bin" / "pintle"
    if packaged.is_file():
        return str(packaged)
    found = shutil.which("pintle")
    if found is None:
        raise ServerError("there is no pintle: set PINTLE_BIN or install a wheel that holds it")
    return found


class TestServer:
    """A running server. Use it in a `with` statement, or call `stop`."""

    # Pytest must not take this for a class of tests.
    __test__ = False

    def __init__(self, flags: Sequence[str] = (), timeout_seconds: float = 30.0) -> None:
        self._folder = tempfile.mkdtemp(prefix="pintle-test-")
        self._process = None
        try:
            self._start(flags, timeout_seconds)
        except BaseException:
            self.stop()
            raise

    @property
    def kubeconfig(self) -> str:
        """The path of a kubeconfig of the group system:masters."""
        return os.path.join(self._folder, "admin.kubeconfig")

    @property
    def url(self) -> str:
        """`https://127.0.0.1:PORT`"""
        return f"https://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def log(self) -> str:
        """What the server printed so far."""
        return pathlib.Path(self._folder, "server.log").read_text(errors="replace")

    def stop(self) -> None:
        """Ends the server and removes its folder. May be called again."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "TestServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self, flags: Sequence[str], timeout_seconds: float) -> None:
        command = [binary(), "serve", "--ephemeral", "--stop-with-stdin", "--secure-port=0"]
        command += [f"--data-dir={self._folder}", *flags]
        with open(os.path.join(self._folder, "server.log"), "wb") as log:
            # The pipe ends with this process, however it ends, and the server with the pipe.
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        # The server writes this file when it is ready.
        port_file = pathlib.Path(self._folder, "port")
        end = time.monotonic() + timeout_seconds
        while not port_file.exists():
            if self._process.poll() is not None:
                raise ServerError(f"the server ended while starting:\n{self.log()}")
            if time.monotonic() > end:
                raise ServerError(f"the server was not ready within {timeout_seconds} s:\n{self.log()}")
            time.sleep(_POLL_SECONDS)
        self.port = int(port_file.read_text())
