"""`keyward mcp-server`, with the official client library."""

import asyncio
import contextlib
import os
import signal
import unittest

import anyio
from mcp.client.client import Client
from mcp.client.stdio import stdio_client

import mcp_client
from stage import EXECUTABLE, Stage


def processes(mark):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open("/proc/%s/cmdline" % pid, "rb") as file:
            if mark.encode() in file.read():
                found.append(int(pid))
    return found


async def gone(mark):
    for _ in range(400):
        if not processes(mark):
            return True
        await asyncio.sleep(0.05)
    return False


async def there(mark):
    for _ in range(400):
        if processes(mark):
            return True
        await asyncio.sleep(0.05)
    return False


class Server(Stage, unittest.IsolatedAsyncioTestCase):
    def connect(self, *flags):
        return Client(stdio_client(mcp_client.server(self.project, *flags, keyward=EXECUTABLE)))

    async def test_the_library_agrees_on_a_version_and_finds_three_tools(self):
        async with self.connect() as client:
            self.assertEqual(client.protocol_version, "2025-11-25")
            self.assertEqual([tool.name for tool in (await client.list_tools()).tools], ["run", "read", "why"])

    async def test_a_command_runs_in_a_cage_and_sees_no_key_of_the_caller(self):
        with open(self.key) as file:
            self.assertIn("canary", file.read(), "the control: it is readable here")
        async with self.connect() as client:
            done = await client.call_tool("run", {"command": 'cat "%s"; env; echo to-stderr >&2; exit 3' % self.key})
        self.assertFalse(done.is_error)
        told = done.structured_content
        self.assertEqual((told["outcome"], told["exit"]), ("exited", 3))
        self.assertIn("to-stderr", told["stderr"])
        self.assertNotIn("canary", str(done))

    async def test_a_denial_is_structured_and_no_tool_lifts_it(self):
        async with self.connect() as client:
            done = await client.call_tool("run", {"argv": ["rm", "-rf", "/"]})
            self.assertTrue(done.is_error)
            self.assertEqual(done.structured_content["rule"], "delete-root")
            self.assertEqual(done.structured_content["outcome"], "denied")
            self.assertEqual(done.structured_content["retryable"], False)
            self.assertTrue(done.structured_content["reason"] and done.structured_content["remedy"])
            for name in ("approve", "approvals", "decide"):
                with self.assertRaises(Exception):
                    await client.call_tool(name, {})

    async def test_the_flags_of_the_server_hold_for_every_call_and_the_model_cannot_add_any(self):
        async with self.connect("--env", "GREETING=from-the-flags") as client:
            for _ in range(2):
                done = await client.call_tool("run", {"command": "echo $GREETING"})
                self.assertEqual(done.structured_content["stdout"], "from-the-flags\n")
            done = await client.call_tool("run", {"argv": ["--env", "GREETING=x", "--", "true"]})
            self.assertEqual(done.structured_content["code"], "command-not-found")
            done = await client.call_tool("run", {"argv": ["true"], "flags": ["--gate", "off"]})
            self.assertEqual(done.structured_content["code"], "usage")

    async def test_the_guarded_read_gives_a_file_and_refuses_a_key(self):
        with open("notes.txt", "w") as file:
            file.write("plain text\n")
        async with self.connect() as client:
            done = await client.call_tool("read", {"path": "notes.txt"})
            self.assertEqual(done.structured_content["text"], "plain text\n")
            done = await client.call_tool("read", {"path": self.key})
            self.assertTrue(done.is_error)
            self.assertEqual(done.structured_content["code"], "read-refused")
            self.assertNotIn("canary", str(done))

    async def test_why_names_the_rule(self):
        async with self.connect() as client:
            done = await client.call_tool("why", {"subject": "env", "object": "OPENAI_API_KEY"})
            self.assertFalse(done.is_error)
            self.assertTrue(done.structured_content["decision"])
            self.assertNotIn("canary", str(done))
            done = await client.call_tool("why", {"subject": "env", "object": "--json"})
            self.assertTrue(done.is_error)

    async def test_long_output_is_cut_and_does_not_hold_the_command_up(self):
        async with self.connect() as client:
            done = await client.call_tool("run", {"command": "head -c 5000000 /dev/zero | tr '\\0' x; echo; echo the-end"})
        told = done.structured_content
        self.assertGreater(told["left_out_bytes"], 4_900_000)
        self.assertTrue(told["stdout"].endswith("the-end\n"))
        self.assertLess(len(str(done)), 400_000)

    async def test_calls_run_beside_each_other(self):
        async with self.connect() as client:
            waiting = asyncio.create_task(client.call_tool("run", {"command": "until [ -e go ]; do sleep 0.02; done; echo seen"}))
            await client.call_tool("run", {"argv": ["touch", "go"]})
            self.assertEqual((await waiting).structured_content["stdout"], "seen\n")

    async def test_a_call_that_is_cancelled_ends_its_command(self):
        async with self.connect() as client:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(client.call_tool, "run", {"argv": ["sleep", "86401"]})
                    self.assertTrue(await there("sleep\x0086401"))
                    scope.cancel()
            self.assertTrue(await gone("sleep\x0086401"))
            done = await client.call_tool("run", {"argv": ["echo", "still there"]})
            self.assertEqual(done.structured_content["stdout"], "still there\n")

    async def test_a_command_that_takes_too_long_is_ended_and_told(self):
        async with self.connect() as client:
            done = await client.call_tool("run", {"argv": ["sleep", "86402"], "timeout_seconds": 0.3})
        self.assertTrue(done.is_error)
        self.assertEqual(done.structured_content["outcome"], "timeout")
        self.assertTrue(await gone("sleep\x0086402"))

    async def test_commands_end_with_the_server_however_that_ends(self):
        for number, end in ((86403, signal.SIGKILL), (86404, signal.SIGTERM), (86405, None)):
            read, write = os.pipe()
            server = await asyncio.create_subprocess_exec(
                EXECUTABLE, "mcp-server", stdin=asyncio.subprocess.PIPE, stdout=write, cwd=self.project
            )
            os.close(write)
            lines = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n'
            lines += '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run","arguments":{"argv":["sleep","%d"]}}}\n'
            server.stdin.write((lines % number).encode())
            await server.stdin.drain()
            self.assertTrue(await there("sleep\x00%d" % number))
            server.stdin.close() if end is None else server.send_signal(end)
            await server.wait()
            os.close(read)
            self.assertTrue(await gone("sleep\x00%d" % number), "after %s" % end)


if __name__ == "__main__":
    unittest.main()
