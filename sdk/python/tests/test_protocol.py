"""The messages: our own fit the published schema, and the golden files are read and written as they are."""

from __future__ import annotations

import glob
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from typing import Any, Dict, List

import keyward
from keyward import _door, protocol
from keyward._process import _Wish, _trouble

from support import REPOSITORY, SDK

PROTOCOL = os.path.join(REPOSITORY, "crates", "protocol")


def load(*parts: str) -> Any:
    with open(os.path.join(PROTOCOL, *parts), encoding="utf-8") as file:
        return json.load(file)


def golden(pattern: str) -> Dict[str, Any]:
    paths = sorted(glob.glob(os.path.join(PROTOCOL, "golden", pattern)))
    return {os.path.basename(path): load("golden", os.path.basename(path)) for path in paths}


class Fits:
    """As much of JSON Schema as the schema of the session uses."""

    def __init__(self, whole: Any) -> None:
        self.whole = whole

    def check(self, schema: Any, value: Any) -> bool:
        known = {"$schema", "$id", "title", "description", "$defs"}
        for word, rule in schema.items():
            if word not in known and not getattr(self, "_" + word.strip("$").lower())(rule, value, schema):
                return False
        return True

    def _ref(self, rule: str, value: Any, _: Any) -> bool:
        found = self.whole
        for part in rule[2:].split("/"):
            found = found[part]
        return self.check(found, value)

    def _type(self, rule: Any, value: Any, _: Any) -> bool:
        kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int, "number": (int, float)}
        names = [rule] if isinstance(rule, str) else rule
        return any(isinstance(value, kinds[name]) and not (name == "integer" and isinstance(value, bool)) for name in names)  # type: ignore[arg-type]

    def _const(self, rule: Any, value: Any, _: Any) -> bool:
        return bool(rule == value)

    def _enum(self, rule: Any, value: Any, _: Any) -> bool:
        return value in rule

    def _anyof(self, rule: Any, value: Any, _: Any) -> bool:
        return any(self.check(one, value) for one in rule)

    _oneof = _anyof

    def _required(self, rule: Any, value: Any, _: Any) -> bool:
        return all(name in value for name in rule)

    def _properties(self, rule: Any, value: Any, _: Any) -> bool:
        return all(self.check(rule[name], one) for name, one in value.items() if name in rule)

    def _additionalproperties(self, rule: Any, value: Any, schema: Any) -> bool:
        others = [one for name, one in value.items() if name not in schema.get("properties", {})]
        return not others if rule is False else rule is True or all(self.check(rule, one) for one in others)

    def _items(self, rule: Any, value: Any, _: Any) -> bool:
        return not isinstance(value, list) or all(self.check(rule, one) for one in value)

    def _minimum(self, rule: Any, value: Any, _: Any) -> bool:
        return not isinstance(value, (int, float)) or bool(value >= rule)

    def _maximum(self, rule: Any, value: Any, _: Any) -> bool:
        return not isinstance(value, (int, float)) or bool(value <= rule)

    def _minitems(self, rule: Any, value: Any, _: Any) -> bool:
        return bool(len(value) >= rule)

    def _maxitems(self, rule: Any, value: Any, _: Any) -> bool:
        return bool(len(value) <= rule)

    def _minlength(self, rule: Any, value: Any, _: Any) -> bool:
        return bool(len(value) >= rule)

    def _maxlength(self, rule: Any, value: Any, _: Any) -> bool:
        return bool(len(value) <= rule)

    def _pattern(self, rule: Any, value: Any, _: Any) -> bool:
        return re.search(rule, value) is not None


class Messages(unittest.TestCase):
    def setUp(self) -> None:
        self.schema = load("schema", "session.json")

    def fits(self, kind: str, value: Any) -> bool:
        return Fits(self.schema).check(self.schema["$defs"][kind], value)

    def test_every_request_that_the_package_makes_fits_the_schema(self) -> None:
        wish = _Wish(["echo", b"caf\xe9"], None, False, {**os.environ, "MINE": "x"}, {}, True, ("search",), False)
        line = _Wish(["cd src"], None, False, None, {}, False, (), True)
        messages: List[_door.Message] = [
            wish.for_a_session("src"),
            wish.for_a_session(None),
            line.for_a_session(None),
            {**line.for_a_session("x"), "background": True},
            {**wish.for_a_session(None), "quiet": True},
            {"do": "hello"},
            {"do": "own"},
            {"do": "watch"},
            {"do": "stop"},
            {"do": "jobs"},
            {"do": "kill", "job": 1},
            {"do": "signal", "job": 1, "signal": 2},
            {"do": "log", "job": 1},
            {"do": "decide", "question": 1, "allow": False},
            {"do": "offer", "names": ["a"], "named": True, "judged": {"a": {"as": "sh", "field": "command"}}},
            {"do": "return", "call": 1, "output": [1]},
            {"do": "return", "call": 1, "error": "x"},
            {"do": "call", "name": "a", "input": {}},
        ]
        for message in messages:
            self.assertTrue(self.fits("ask", json.loads(_door.encode(message))), message)
        self.assertFalse(self.fits("ask", {"v": 1, "do": "hello", "more": 1}), "the check checks")
        self.assertFalse(self.fits("ask", {"v": 1, "do": "exec"}), "the check checks")

    def test_every_kind_of_request_that_the_sources_name_is_checked_above(self) -> None:
        folder = os.path.dirname(_door.__file__)
        named = set()
        for path in glob.glob(os.path.join(folder, "*.py")):
            with open(path, encoding="utf-8") as file:
                named |= set(re.findall(r'"do": "([a-z]+)"', file.read()))
        with open(__file__, encoding="utf-8") as file:
            checked = set(re.findall(r'"do": "([a-z]+)"', file.read())) | {"exec"}
        self.assertEqual(named - checked, set())

    def test_every_golden_request_is_written_as_it_is(self) -> None:
        files = golden("ask.*.json")
        self.assertGreater(len(files), 15)
        for name, message in files.items():
            self.assertTrue(self.fits("ask", message), name)
            body = {key: value for key, value in message.items() if key != "v"}
            self.assertEqual(json.loads(_door.encode(body)), message, name)

    def test_every_golden_answer_is_read(self) -> None:
        files = golden("answer.*.json")
        self.assertEqual({name.split(".")[1] for name in files}, set(_door._KINDS))
        for name, message in files.items():
            self.assertTrue(self.fits("answer", message), name)
            self.assertEqual(_door.decode(json.dumps(message).encode()), message, name)

    def test_a_refusal_is_the_exception_for_its_code(self) -> None:
        told = {
            name: _door.refusal(message) for name, message in golden("answer.refused*.json").items()
        }
        self.assertIsInstance(told["answer.refused.json"], keyward.Refused)
        self.assertIsInstance(told["answer.refused.2.json"], keyward.NotFound)
        denied = told["answer.refused.3.json"]
        self.assertIsInstance(denied, keyward.Denied)
        self.assertEqual((denied.rule, denied.reason), ("git-push-force", "an approver said no"))
        self.assertEqual((denied.retryable, told["answer.refused.json"].retryable), (True, False))

    def test_every_golden_outcome_is_understood(self) -> None:
        kinds = {"denied": keyward.Denied, "refused": keyward.Refused, "fault": keyward.Fault}
        files = golden("outcome.*.json")
        for name, outcome in files.items():
            if outcome["outcome"] in kinds:
                error = _trouble(outcome)
                self.assertIsInstance(error, kinds[outcome["outcome"]], name)
                self.assertEqual((error.fact, error.remedy, error.code), (outcome["fact"], outcome["remedy"], outcome["code"]))
                self.assertEqual(error.retryable, outcome["retry"])

    def test_what_is_no_message_or_of_no_known_kind_ends_it(self) -> None:
        for packet in (b"", b"{}", b"[]", b"\xff", b'{"v":1}', b'{"v":1,"is":"paused"}', b'{"v":2,"is":"done"}', b"1"):
            with self.subTest(packet), self.assertRaises(keyward.KeywardError):
                _door.decode(packet)

    def test_a_message_that_is_too_long_is_not_sent(self) -> None:
        with self.assertRaises(keyward.Refused):
            _door.encode({"do": "exec", "argv": ["x" * _door.LONGEST]})

    def test_errors_survive_the_way_to_another_process(self) -> None:
        import pickle

        error = keyward.NotFound("fact", "remedy", code="not-found", rule="r", retryable=True)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), again.__dict__), (type(error), error.__dict__))


class Types(unittest.TestCase):
    """The types that mypy checks the package with are those of the schema."""

    def test_they_are_made_from_the_schema(self) -> None:
        made = subprocess.check_output([sys.executable, os.path.join(SDK, "python", "tools", "make-types.py")], text=True)
        with open(protocol.__file__, encoding="utf-8") as file:
            self.assertEqual(file.read(), made, "run `python3 tools/make-types.py > src/keyward/protocol.py` in sdk/python")

    def test_golden_files_have_the_fields_of_their_types(self) -> None:
        for channel in ("ask", "answer"):
            for name, message in golden(channel + ".*.json").items():
                kind: Any = getattr(protocol, channel.title() + message["do" if channel == "ask" else "is"].title())
                self.assertLessEqual(kind.__required_keys__, set(message), name)
                self.assertLessEqual(set(message), kind.__required_keys__ | kind.__optional_keys__, name)

    def test_a_question_has_what_its_schemas_have(self) -> None:
        whole = load("golden", "judge.asked.json")
        question = keyward.Question(7, load("golden", "answer.question.json"), whole)
        known = set(load("schema", "question.json")["$defs"]["document"]["properties"])
        names = {"class_": "class", "number": "digest", "document": "digest"}
        self.assertLessEqual({names.get(name, name) for name in vars(question)}, known)
        self.assertEqual((question.argv, question.cwd, question.texts), (whole["argv"], whole["cwd"], whole["texts"]))


class Transcript(unittest.TestCase):
    """The conversation of the golden files, replayed against the client."""

    def serve(self, answers: List[Any]) -> str:
        """A session that says what is written, one message for each request."""
        folder = tempfile.mkdtemp()
        path = os.path.join(folder, "door")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(path)
        listener.listen(4)
        self.asked: List[Any] = []

        def work() -> None:
            connection, _ = listener.accept()
            for group in answers:
                packet, descriptors, _, _ = socket.recv_fds(connection, _door.LONGEST, 4)
                self.asked.append((json.loads(packet), len(descriptors)))
                _door.close_all(descriptors)
                for answer in group:
                    connection.send(json.dumps(answer).encode())
            connection.close()
            listener.close()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self.addCleanup(thread.join, 10)
        return path

    def test_a_command_from_greeting_to_end(self) -> None:
        files = golden("*.json")
        path = self.serve([[files["answer.hello.json"]], [files["answer.said.json"], files["answer.started.json"], files["answer.ended.json"]]])
        connection = _door.Connection(path)
        self.addCleanup(connection.close)
        _door.greet(connection)
        connection.send({"do": "exec", "argv": ["echo", "hello"]}, [0, 1, 2])
        kinds = []
        for _ in range(3):
            received = connection.receive(10)
            assert received is not None
            kinds.append(received[0]["is"])
        self.assertEqual(kinds, ["said", "started", "ended"])
        self.assertEqual(self.asked[0], (files["ask.hello.json"], 0))
        self.assertEqual((self.asked[1][0]["argv"], self.asked[1][1]), (files["ask.exec.json"]["argv"], 3))
        with self.assertRaises(keyward.SessionLost):
            connection.receive(10)

    def test_a_session_of_another_version_is_refused(self) -> None:
        path = self.serve([[{"v": 2, "is": "hello", "protocol": 2, "keyward": "9.0.0"}]])
        connection = _door.Connection(path)
        self.addCleanup(connection.close)
        with self.assertRaises(keyward.VersionMismatch):
            _door.greet(connection)


if __name__ == "__main__":
    unittest.main()
