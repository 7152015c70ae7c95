#!/usr/bin/env python3
"""A double of model servers: Anthropic Messages, OpenAI Responses and Chat Completions, Gemini. Nothing here is a model.

It answers from a script and records every request, so that a test can search what reached the model. Standard library only.

A script has words that prompts contain, and for each the turns that follow:

    {"LOOK": [[{"shell": "env"}, {"read": "/etc/hostname"}], [{"say": "done"}]]}

Each turn is a list of acts; several calls in one turn are parallel tools. The double finds the last message of the user that
contains one of the words, counts the answers since then, and gives the next turn. It keeps no other state, so a resumed
conversation and several agents at once work. After the last turn, and where no word matches, it says "done".

Acts, and the tools they become in the agent at hand:

    {"say": TEXT}              text
    {"shell": COMMAND}         the agent's shell tool; {"shell": COMMAND, "background": true} where the tool can do that
    {"read": PATH}             its file reader
    {"write": PATH, "text": TEXT}
    {"mcp": TOOL, "args": {}}  the tool of an MCP server whose name ends so
    {"tool": NAME, "args": {}} a tool by its exact name

As a program:  models.py [--port N] [--script FILE] [--record FILE] [--cert FILE --key FILE]
It prints its base URL, and serves until it is ended.
"""
import argparse
import gzip
import itertools
import json
import ssl
import sys
import threading
import time
import urllib.parse
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SHELL = ("Bash", "bash", "run_shell_command", "exec_command", "shell_command", "shell", "local_shell", "terminal", "execute_command")
READ = ("Read", "read", "read_file", "view")
WRITE = ("Write", "write", "write_file", "create_file")


class Tool:
    """A tool that the agent offers: its name, the properties of its arguments, and how the protocol names it."""

    def __init__(self, name, schema, kind="function"):
        self.name, self.kind = name, kind
        self.properties = (schema or {}).get("properties") or {}
        self.required = (schema or {}).get("required") or []

    def arguments(self, wanted):
        """The wanted values under the names that this tool knows, and something for what else it requires."""
        found = {}
        for names, value in wanted:
            name = next((name for name in names if name in self.properties), None)
            if name is None:
                continue
            kind = self.properties[name].get("type")
            found[name] = ["bash", "-c", value] if kind == "array" and isinstance(value, str) else value
        for name in self.required:
            if name not in found:
                kind = self.properties.get(name, {}).get("type")
                found[name] = {"boolean": False, "integer": 1, "number": 1, "array": [], "object": {}}.get(kind, "as asked")
        return found


class NoTool(Exception):
    """The agent does not offer a tool for this act."""


def call(act, tools):
    """The tool and its arguments for an act."""
    def among(names):
        for name in names:
            if name in tools:
                return tools[name]
        raise NoTool(f"no tool for {act}: the agent offers {sorted(tools)}")

    if "shell" in act:
        tool = among(SHELL)
        wanted = [(("command", "cmd"), act["shell"]), (("description",), "a scripted command")]
        if act.get("background"):
            wanted.append((("run_in_background", "is_background", "background"), True))
        return tool, tool.arguments(wanted)
    if "read" in act:
        tool = among(READ)
        return tool, tool.arguments([(("file_path", "filePath", "path", "absolute_path"), act["read"])])
    if "write" in act:
        tool = among(WRITE)
        wanted = [(("file_path", "filePath", "path"), act["write"]), (("content", "text"), act["text"])]
        return tool, tool.arguments(wanted)
    if "mcp" in act:
        ends = [name for name in tools if name == act["mcp"] or name.endswith(("_" + act["mcp"], "." + act["mcp"]))]
        tool = among(ends)
        return tool, dict(act.get("args") or {})
    tool = among([act["tool"]])
    return tool, dict(act.get("args") or {})


class Script:
    """What is answered to which prompt."""

    def __init__(self, turns=None):
        self.turns = dict(turns or {})
        self.lock = threading.Lock()

    def on(self, word, *turns):
        """After a prompt that contains the word, these turns, each a list of acts or one act."""
        with self.lock:
            self.turns[word] = [turn if isinstance(turn, list) else [turn] for turn in turns]

    def next(self, messages):
        """The acts that follow these messages: pairs of "user" or "assistant" and text."""
        with self.lock:
            turns = dict(self.turns)
        for place in range(len(messages) - 1, -1, -1):
            role, text = messages[place]
            word = next((word for word in turns if role == "user" and word in text), None)
            if word is None:
                continue
            # An answer may be stored as several messages in a row.
            roles = [role for role, _ in messages[place:]]
            given = sum(1 for role, _ in itertools.groupby(roles) if role == "assistant")
            return turns[word][given] if given < len(turns[word]) else [{"say": "done"}]
        return [{"say": "done"}]


def text_of(content):
    """All text of a message, tool results included."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text_of(part) for part in content)
    if isinstance(content, dict):
        return "\n".join(text_of(content[key]) for key in ("text", "content", "output") if key in content)
    return str(content)


class Request:
    """One recorded request."""

    def __init__(self, method, path, headers, body):
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.arrived, self.answered = time.monotonic(), None

    @property
    def json(self):
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def line(self):
        return json.dumps({"method": self.method, "path": self.path, "headers": self.headers, "body": self.body.decode("utf-8", "replace")})


class Models:
    """The server, on a port of loopback. `requests` has everything that arrived, `problems` what the double could not do."""

    def __init__(self, script=None, port=0, cert=None, key=None, record=None, host="127.0.0.1"):
        self.script = script or Script()
        self.requests, self.problems = [], []
        # Refresh tokens that are good once, each with what it is answered.
        self.grants = {}
        self.lock = threading.Lock()
        self.numbers = itertools.count(1)
        self.record = open(record, "a", encoding="utf-8") if record else None
        models = self

        class Handler(Conversation):
            server_of = models

        self.server = ThreadingHTTPServer((host, port), Handler)
        self.server.daemon_threads = True
        self.scheme = "http"
        if cert:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(cert, key)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            self.scheme = "https"
        self.port = self.server.server_address[1]
        self.url = f"{self.scheme}://{host}:{self.port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def note(self, request):
        with self.lock:
            self.requests.append(request)
            if self.record:
                self.record.write(request.line() + "\n")
                self.record.flush()

    def problem(self, text):
        with self.lock:
            self.problems.append(text)
        print(f"models: {text}", file=sys.stderr, flush=True)

    def bodies(self):
        """Everything that reached the model, as one text."""
        with self.lock:
            return b"\n".join(request.path.encode() + b"\n" + request.body for request in self.requests)

    def header_values(self):
        """Every value of a header that arrived: where a credential belongs."""
        with self.lock:
            return [value for request in self.requests for value in request.headers.values()]

    def forget(self):
        with self.lock:
            self.requests.clear()
            self.problems.clear()


class Conversation(BaseHTTPRequestHandler):
    """One connection of an agent."""

    protocol_version = "HTTP/1.1"
    server_of = None

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except (ConnectionError, ssl.SSLError):
            pass

    # Reading and writing

    def body(self):
        if "chunked" in (self.headers.get("transfer-encoding") or "").lower():
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            body = b"".join(parts)
        else:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
        coding = self.headers.get("content-encoding")
        if coding == "gzip":
            return gzip.decompress(body)
        return zlib.decompress(body) if coding == "deflate" else body

    def answer(self, value, status=200):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def stream(self, events):
        """Events as a stream: pairs of a name, or None, and a value, or a text as it is."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for name, value in events:
            text = value if isinstance(value, str) else json.dumps(value)
            event = (f"event: {name}\n" if name else "") + f"data: {text}\n\n"
            self.wfile.write(f"{len(event.encode()):x}\r\n{event}\r\n".encode())
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self):
        self.respond(b"")

    def do_POST(self):
        self.respond(self.body())

    def respond(self, body):
        models = self.server_of
        request = Request(self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        models.note(request)
        path = self.path.split("?")[0].rstrip("/")
        asked = request.json if isinstance(request.json, dict) else {}
        try:
            if path.endswith(("/oauth/token", "oauth2.googleapis.com/token")) or path == "/token":
                self.tokens(body)
            elif path.endswith("/messages/count_tokens"):
                self.answer({"input_tokens": 10})
            elif path.endswith("/messages"):
                self.anthropic(asked)
            elif path.endswith("/chat/completions"):
                self.chat(asked)
            elif path.endswith("/responses") and self.command == "POST":
                self.openai_responses(asked)
            elif ":countTokens" in path:
                self.answer({"totalTokens": 10})
            elif ":generateContent" in path or ":streamGenerateContent" in path:
                self.gemini(asked, ":streamGenerateContent" in path)
            elif path.endswith(":loadCodeAssist"):
                self.answer({"currentTier": {"id": "free-tier", "name": "free"}, "cloudaicompanionProject": "double", "allowedTiers": [{"id": "free-tier", "isDefault": True}]})
            elif path.endswith("/tokeninfo"):
                self.answer({"email": "ann@example.test", "expires_in": 3600, "scope": "https://www.googleapis.com/auth/cloud-platform"})
            elif path.endswith("/accounts/check"):
                account = {"id": "11111111-2222-3333-4444-555555555555", "account_id": "11111111-2222-3333-4444-555555555555", "structure": "personal", "plan_type": "plus", "workspace_backend_origin": "https://chatgpt.com", "account_routing_override": "us"}
                self.answer({"accounts": [account], "account_ordering": [account["id"]], "default_account_id": account["id"]})
            elif path.endswith("/userinfo"):
                self.answer({"email": "ann@example.test"})
            elif path.endswith("/models"):
                self.answer({"object": "list", "data": [{"id": "scripted", "object": "model", "created": 1, "owned_by": "double", "type": "model", "display_name": "scripted"}], "has_more": False, "models": []})
            else:
                self.answer({"error": {"type": "not_found_error", "message": "the double has no such path"}}, 404)
            request.answered = time.monotonic()
        except NoTool as missing:
            models.problem(str(missing))
            self.answer({"type": "error", "error": {"type": "invalid_request_error", "message": str(missing)}}, 400)

    def tokens(self, body):
        """Renews tokens. Each refresh token is good once."""
        text = body.decode()
        fields = json.loads(text) if text.startswith("{") else dict(urllib.parse.parse_qsl(text))
        with self.server_of.lock:
            granted = self.server_of.grants.pop(fields.get("refresh_token"), None)
        if granted is None:
            return self.answer({"error": "invalid_grant", "error_description": "the refresh token is not good"}, 400)
        self.answer(granted)

    def number(self, prefix):
        return f"{prefix}_{next(self.server_of.numbers):08d}"

    def acts(self, messages, tools, plain):
        """The acts of this turn with their tools. A request without tools is a side request, such as one for a title."""
        if not tools:
            return [("text", plain)]
        found = []
        for act in self.server_of.script.next(messages):
            if "say" in act:
                found.append(("text", act["say"]))
            else:
                found.append(("call", *call(act, tools)))
        return found

    # Anthropic Messages

    def anthropic(self, asked):
        tools = {tool["name"]: Tool(tool["name"], tool.get("input_schema")) for tool in asked.get("tools") or [] if "input_schema" in tool}
        history = []
        for message in asked.get("messages") or []:
            content = message.get("content")
            has_results = isinstance(content, list) and any(part.get("type") == "tool_result" for part in content)
            history.append(("tool" if has_results else message.get("role"), text_of(content)))
        blocks = []
        for act in self.acts(history, tools, '{"title": "scripted", "isNewTopic": false}'):
            if act[0] == "text":
                blocks.append({"type": "text", "text": act[1]})
            else:
                blocks.append({"type": "tool_use", "id": self.number("toolu"), "name": act[1].name, "input": act[2]})
        stop = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
        usage = {"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        whole = {"id": self.number("msg"), "type": "message", "role": "assistant", "model": asked.get("model", "scripted"), "content": blocks, "stop_reason": stop, "stop_sequence": None, "usage": usage}
        if not asked.get("stream"):
            return self.answer(whole)

        def events():
            yield "message_start", {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
            for place, block in enumerate(blocks):
                if block["type"] == "text":
                    yield "content_block_start", {"type": "content_block_start", "index": place, "content_block": {"type": "text", "text": ""}}
                    for part in pieces(block["text"]):
                        yield "content_block_delta", {"type": "content_block_delta", "index": place, "delta": {"type": "text_delta", "text": part}}
                else:
                    yield "content_block_start", {"type": "content_block_start", "index": place, "content_block": {**block, "input": {}}}
                    for part in pieces(json.dumps(block["input"])):
                        yield "content_block_delta", {"type": "content_block_delta", "index": place, "delta": {"type": "input_json_delta", "partial_json": part}}
                yield "content_block_stop", {"type": "content_block_stop", "index": place}
            yield "message_delta", {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
            yield "message_stop", {"type": "message_stop"}

        self.stream(events())

    # OpenAI Chat Completions

    def chat(self, asked):
        tools = {}
        for tool in asked.get("tools") or []:
            function = tool.get("function") or {}
            if "name" in function:
                tools[function["name"]] = Tool(function["name"], function.get("parameters"))
        history = [(message.get("role"), text_of(message.get("content"))) for message in asked.get("messages") or []]
        text, calls = "", []
        for act in self.acts(history, tools, "scripted"):
            if act[0] == "text":
                text += act[1]
            else:
                calls.append({"id": self.number("call"), "type": "function", "function": {"name": act[1].name, "arguments": json.dumps(act[2])}})
        stop = "tool_calls" if calls else "stop"
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        base = {"id": self.number("chatcmpl"), "created": 1700000000, "model": asked.get("model", "scripted")}
        if not asked.get("stream"):
            message = {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
            return self.answer({**base, "object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": stop}], "usage": usage})

        def events():
            def chunk(delta, finish=None):
                return None, {**base, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

            yield chunk({"role": "assistant", "content": ""})
            for part in pieces(text):
                yield chunk({"content": part})
            for place, one in enumerate(calls):
                yield chunk({"tool_calls": [{"index": place, **one, "function": {"name": one["function"]["name"], "arguments": ""}}]})
                for part in pieces(one["function"]["arguments"]):
                    yield chunk({"tool_calls": [{"index": place, "function": {"arguments": part}}]})
            yield chunk({}, stop)
            yield None, {**base, "object": "chat.completion.chunk", "choices": [], "usage": usage}
            yield None, "[DONE]"

        self.stream(events())

    # OpenAI Responses

    def openai_responses(self, asked):
        tools = {}
        for tool in asked.get("tools") or []:
            name = tool.get("name") or tool.get("type")
            if tool.get("type") == "namespace":
                for inner in tool.get("tools") or []:
                    tools[f"{name}.{inner.get('name')}"] = Tool(inner.get("name"), inner.get("parameters"), ("namespace", name))
            elif name:
                tools[name] = Tool(name, tool.get("parameters"), tool.get("type", "function"))
        history, turns, turn = [], set(), self.number("turn")
        given = asked.get("input") or []
        for item in [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else given:
            kind = item.get("type", "message")
            if kind == "message":
                history.append((item.get("role"), text_of(item.get("content"))))
            elif kind.endswith("_call"):
                # Calls of one turn may stand apart, each before its result. Their identifiers begin with that of the turn.
                of = str(item.get("call_id")).partition("-")[0]
                if of not in turns:
                    turns.add(of)
                    history.append(("assistant", ""))
            elif kind.endswith("_output"):
                history.append(("tool", text_of(item.get("output"))))
        items = []
        for act in self.acts(history, tools, "scripted"):
            if act[0] == "text":
                items.append({"type": "message", "id": self.number("msg"), "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": act[1], "annotations": []}]})
                continue
            _, tool, arguments = act
            if tool.kind == "local_shell":
                command = arguments.get("command") or ["true"]
                items.append({"type": "local_shell_call", "id": self.number("lsh"), "call_id": self.number(f"{turn}-call"), "status": "completed", "action": {"type": "exec", "command": command, "env": {}}})
            elif tool.kind == "custom":
                items.append({"type": "custom_tool_call", "id": self.number("ctc"), "call_id": self.number(f"{turn}-call"), "name": tool.name, "input": arguments.get("input", "")})
            else:
                item = {"type": "function_call", "id": self.number("fc"), "call_id": self.number(f"{turn}-call"), "name": tool.name, "arguments": json.dumps(arguments), "status": "completed"}
                if isinstance(tool.kind, tuple):
                    item["namespace"] = tool.kind[1]
                items.append(item)
        usage = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15}
        whole = {"id": self.number("resp"), "object": "response", "created_at": 1700000000, "status": "completed", "model": asked.get("model", "scripted"), "output": items, "usage": usage, "error": None, "parallel_tool_calls": True, "tools": []}
        if not asked.get("stream"):
            return self.answer(whole)

        def events():
            order = itertools.count()

            def event(name, **fields):
                return name, {"type": name, "sequence_number": next(order), **fields}

            begun = {**whole, "status": "in_progress", "output": [], "usage": None}
            yield event("response.created", response=begun)
            for place, item in enumerate(items):
                opened = {**item, "content": []} if item["type"] == "message" else {**item, **({"arguments": ""} if "arguments" in item else {})}
                yield event("response.output_item.added", output_index=place, item=opened)
                if item["type"] == "message":
                    text = item["content"][0]["text"]
                    yield event("response.content_part.added", item_id=item["id"], output_index=place, content_index=0, part={"type": "output_text", "text": "", "annotations": []})
                    for part in pieces(text):
                        yield event("response.output_text.delta", item_id=item["id"], output_index=place, content_index=0, delta=part)
                    yield event("response.output_text.done", item_id=item["id"], output_index=place, content_index=0, text=text)
                elif "arguments" in item:
                    for part in pieces(item["arguments"]):
                        yield event("response.function_call_arguments.delta", item_id=item["id"], output_index=place, delta=part)
                    yield event("response.function_call_arguments.done", item_id=item["id"], output_index=place, arguments=item["arguments"])
                yield event("response.output_item.done", output_index=place, item=item)
            yield event("response.completed", response=whole)

        self.stream(events())

    # Gemini

    def gemini(self, asked, streams):
        # With the login of an account the same request stands in another one.
        is_wrapped = "request" in asked
        asked = asked["request"] if is_wrapped else asked
        tools = {}
        for group in asked.get("tools") or []:
            for function in group.get("functionDeclarations") or []:
                schema = function.get("parametersJsonSchema") or function.get("parameters")
                tools[function["name"]] = Tool(function["name"], schema)
        history = []
        for content in asked.get("contents") or []:
            role = "assistant" if content.get("role") == "model" else "user"
            parts = content.get("parts") or []
            if role == "user" and any("functionResponse" in part for part in parts):
                role = "tool"
            history.append((role, text_of(parts)))
        plain = json.dumps({"reasoning": "scripted", "model_choice": "flash", "next_speaker": "user", "complexity_reasoning": "scripted", "complexity_score": 1})
        parts = []
        for act in self.acts(history, tools, plain):
            if act[0] == "text":
                parts.append({"text": act[1]})
            else:
                parts.append({"functionCall": {"id": self.number("call"), "name": act[1].name, "args": act[2]}, "thoughtSignature": "c2NyaXB0ZWQ="})
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}

        def answer(parts, finish):
            candidate = {"index": 0, "content": {"role": "model", "parts": parts}}
            if finish:
                candidate["finishReason"] = "STOP"
            whole = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted", "responseId": self.number("resp")}
            return {"response": whole} if is_wrapped else whole

        if not streams:
            return self.answer(answer(parts, True))
        self.stream((None, answer([part], place == len(parts) - 1)) for place, part in enumerate(parts))


def pieces(text, size=24):
    """A text in parts, as a stream has it."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--script", help="a JSON file with words and turns")
    options.add_argument("--record", help="a file to which each request is added as one line of JSON")
    options.add_argument("--cert")
    options.add_argument("--key")
    given = options.parse_args()
    turns = {}
    if given.script:
        with open(given.script, encoding="utf-8") as file:
            turns = json.load(file)
    models = Models(Script(turns), given.port, given.cert, given.key, given.record, given.host)
    print(models.url, flush=True)
    models.server.serve_forever()


if __name__ == "__main__":
    main()
