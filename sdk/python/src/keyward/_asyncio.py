"""``create_subprocess_exec`` and ``create_subprocess_shell``: the shapes of ``asyncio.subprocess``, in a cage."""

from __future__ import annotations

import asyncio
import os
from asyncio import StreamReader, StreamWriter
from asyncio.streams import FlowControlMixin, StreamReaderProtocol
from typing import Any, Optional, Tuple

from ._process import Popen

_LIMIT = 1 << 16


class Process:
    """A command in a cage, with the methods of :class:`asyncio.subprocess.Process`."""

    def __init__(self, popen: Popen, streams: Tuple[Any, Any, Any]) -> None:
        self._popen = popen
        self.stdin: Optional[StreamWriter] = streams[0]
        self.stdout: Optional[StreamReader] = streams[1]
        self.stderr: Optional[StreamReader] = streams[2]
        self._waiting: Optional["asyncio.Task[int]"] = None

    def __repr__(self) -> str:
        return "<keyward.Process %r>" % (self._popen.args,)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def returncode(self) -> Optional[int]:
        return self._popen.returncode  # type: ignore[no-any-return]

    async def wait(self) -> int:
        """Waits for the end. A denial is raised here."""
        if self._waiting is None:
            self._waiting = asyncio.ensure_future(self._ended())
        # Cancelling one who waits does not end the command, and not the wait of another.
        return await asyncio.shield(self._waiting)

    async def _ended(self) -> int:
        loop = asyncio.get_running_loop()
        while self._popen.poll() is None:
            descriptor, is_own = self._end_descriptor()
            if descriptor is None:
                return await loop.run_in_executor(None, self._popen.wait)
            ready: "asyncio.Future[None]" = loop.create_future()
            loop.add_reader(descriptor, _settle, ready)
            try:
                await ready
            finally:
                loop.remove_reader(descriptor)
                if is_own:
                    os.close(descriptor)
        return self._popen.wait()

    def _end_descriptor(self) -> Tuple[Optional[int], bool]:
        """What becomes readable when the command ends, and whether it is ours to close."""
        connection = self._popen._connection
        if connection is not None:
            return connection.fileno(), False
        try:
            return os.pidfd_open(self._popen.pid), True
        except (OSError, AttributeError):
            return None, False

    async def communicate(self, input: Optional[bytes] = None) -> Tuple[Optional[bytes], Optional[bytes]]:
        """Writes the input, reads the output, and waits for the end."""

        async def feed() -> None:
            if self.stdin is None:
                return
            try:
                if input:
                    self.stdin.write(input)
                    await self.stdin.drain()
            except (BrokenPipeError, ConnectionResetError):
                pass
            self.stdin.close()

        async def drain(stream: Optional[StreamReader]) -> Optional[bytes]:
            return None if stream is None else await stream.read()

        _, stdout, stderr = await asyncio.gather(feed(), drain(self.stdout), drain(self.stderr))
        await self.wait()
        return stdout, stderr

    def send_signal(self, signal: int) -> None:
        self._popen.send_signal(signal)

    def terminate(self) -> None:
        self._popen.terminate()

    def kill(self) -> None:
        self._popen.kill()


def _settle(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)


async def create_subprocess_exec(program: Any, *args: Any, limit: int = _LIMIT, **kwargs: Any) -> Process:
    """Starts a command in a cage, as :func:`asyncio.create_subprocess_exec` does."""
    return await _create([program, *args], limit, kwargs)


async def create_subprocess_shell(cmd: Any, *, limit: int = _LIMIT, **kwargs: Any) -> Process:
    """Starts a line for the shell in a cage, as :func:`asyncio.create_subprocess_shell` does."""
    return await _create(cmd, limit, {**kwargs, "shell": True})


async def _create(args: Any, limit: int, kwargs: Any) -> Process:
    for name in ("text", "encoding", "errors", "universal_newlines", "bufsize"):
        if kwargs.get(name):
            raise ValueError("%s is not possible: the streams are bytes" % name)
    loop = asyncio.get_running_loop()
    # It may take as long as an approver takes.
    popen = await loop.run_in_executor(None, lambda: Popen(args, bufsize=0, **kwargs))
    try:
        streams = (await _writer(popen.stdin), await _reader(popen.stdout, limit), await _reader(popen.stderr, limit))
    except BaseException:
        popen.kill()
        raise
    return Process(popen, streams)


async def _reader(pipe: Any, limit: int) -> Optional[StreamReader]:
    if pipe is None:
        return None
    loop = asyncio.get_running_loop()
    reader = StreamReader(limit=limit, loop=loop)
    await loop.connect_read_pipe(lambda: StreamReaderProtocol(reader, loop=loop), pipe)
    return reader


async def _writer(pipe: Any) -> Optional[StreamWriter]:
    if pipe is None:
        return None
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(lambda: FlowControlMixin(loop=loop), pipe)
    return StreamWriter(transport, protocol, None, loop)
