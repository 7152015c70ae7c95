"""Host tools: who may call them, with what, and what comes back."""

from __future__ import annotations

import json
import os
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List

import keyward
from keyward._schema import check_schema, fault
from keyward._tools import LONGEST, redacted

from support import EXECUTABLE, Stage

PYTHON = "/usr/bin/python3"
SOURCES = os.path.dirname(os.path.dirname(os.path.abspath(keyward.__file__)))


class Tools(Stage):
    session: keyward.Session

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        # The package, as code in the cage finds it, and the executable for `keyward call`.
        cls.session = keyward.Session(read=[SOURCES, os.path.dirname(SOURCES), os.path.realpath(EXECUTABLE)])

    @classmethod
    def tearDownClass(cls) -> None:
        cls.session.close()
        super().tearDownClass()

    def inside(self, code: str, tools: List[str], **more: Any) -> Any:
        """Runs Python in the cage, with `call` at hand; gives what it prints."""
        code = "import sys; sys.dont_write_bytecode = True; sys.path.insert(0, %r)\nfrom keyward.inside import call\n%s" % (
            SOURCES,
            code,
        )
        done = self.session.run([PYTHON, "-c", code], tools=tools, capture_output=True, text=True, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_function_is_called_from_python_and_by_the_executable(self) -> None:
        self.session.tool("add", lambda a, b: a + b)
        self.assertEqual(self.inside("print(call('add', a=1, b=2), call('add', {'a': 3, 'b': 4}))", ["add"]), "3 7\n")
        done = self.session.run([os.path.realpath(EXECUTABLE), "call", "add", '{"a": 5, "b": 6}'], tools=["add"], stdout=keyward.PIPE)
        self.assertEqual(done.stdout, b"11\n")

    def test_a_command_that_does_not_name_a_tool_cannot_call_it(self) -> None:
        self.session.tool("secret_search", lambda: "found")
        code = "try:\n call('secret_search')\nexcept Exception as error: print(error.fact)"
        self.assertIn("not named for the command that calls it", self.inside(code, []))
        self.assertEqual(self.inside("print(call('secret_search'))", ["secret_search"]), "found\n", "the control")

    def test_a_command_beside_one_that_names_a_tool_cannot_call_it(self) -> None:
        self.session.tool("only", lambda: "called")
        attempt = "try:\n print(call('only'), flush=True)\nexcept Exception as error: print(error.fact, flush=True)\n"
        wait = "import sys; sys.dont_write_bytecode = True; sys.path.insert(0, %r)\nfrom keyward.inside import call\n" % SOURCES
        code = wait + "print('ready', flush=True); sys.stdin.readline()\n" + attempt
        pipes: Dict[str, Any] = {"stdin": keyward.PIPE, "stdout": keyward.PIPE, "text": True}
        with self.session.popen([PYTHON, "-c", code], tools=["only"], **pipes) as named:
            self.assertEqual(named.stdout.readline(), "ready\n")
            self.assertIn("not named for the command that calls it", self.inside(attempt, []))
            self.assertEqual(named.communicate("go\n", 30)[0], "called\n", "the control")

    def test_what_a_command_leaves_behind_belongs_to_no_command(self) -> None:
        self.session.tool("only_its_own", lambda: "called")
        attempt = "\n try: told = call('only_its_own')\n except Exception as error: told = error.fact\n"
        daemon = "import os, time\nif os.fork() == 0:\n os.setsid()\n if os.fork(): os._exit(0)\n"
        told = self.inside(daemon + attempt + " print(told, flush=True)\n os._exit(0)\ntime.sleep(1)", ["only_its_own"])
        self.assertEqual(told, "called\n", "the control: its command runs")
        wait = " sys.stdout.flush(); os.close(1); os.close(2)\n while not os.path.exists('/tmp/go'): time.sleep(0.01)"
        self.inside(daemon + wait + attempt + " open('/tmp/part', 'w').write(told); os.rename('/tmp/part', '/tmp/told')", ["only_its_own"])
        self.session.run(["touch", "/tmp/go"], check=True)
        line = "while [ ! -e /tmp/told ]; do sleep 0.05; done; cat /tmp/told"
        told = self.session.check_output(line, shell=True, text=True, timeout=30)
        self.assertIn("not named for the command that calls it", told)

    def test_the_input_is_checked_against_the_schema_before_the_function_sees_it(self) -> None:
        seen: List[Any] = []
        schema = {
            "type": "object",
            "properties": {"text": {"type": "string", "maxLength": 5}, "count": {"type": "integer", "minimum": 1}},
            "required": ["text"],
            "additionalProperties": False,
        }
        self.session.tool("find", lambda **given: seen.append(given), schema)
        inputs: List[Any] = [{}, {"text": 1}, {"text": "too long"}, {"text": "x", "count": 0}, {"text": "x", "other": 1}, [], "x"]
        for wrong in inputs:
            code = "try:\n call('find', %r)\n print('passed')\nexcept Exception as error: print(error.fact)" % (wrong,)
            told = self.inside(code if wrong != {} else code.replace("call('find', {})", "call('find')"), ["find"])
            self.assertIn("the input does not fit", told, wrong)
        self.assertEqual(seen, [])
        self.inside("call('find', text='x', count=2)", ["find"])
        self.assertEqual(seen, [{"text": "x", "count": 2}])

    def test_an_exception_is_the_callers_error_without_its_secrets(self) -> None:
        key = "ghp_" + "a1B2" * 9

        def broken() -> None:
            raise RuntimeError("cannot log in with %s there" % key)

        self.session.tool("broken", broken)
        told = self.inside("try:\n call('broken')\nexcept Exception as error: print(type(error).__name__, error.fact)", ["broken"])
        self.assertIn("ToolError RuntimeError: cannot log in with", told)
        self.assertNotIn(key, told)

    def test_a_result_passes_the_redactor(self) -> None:
        os.environ["ACME_TOKEN"] = "quite-ordinary-looking"
        self.addCleanup(os.environ.pop, "ACME_TOKEN")
        key = "ghp_" + "a1B2" * 9
        self.session.tool("leak", lambda: {"a": ["x %s y" % key], "password": "hunter2", "b": "see quite-ordinary-looking", "c": 5})
        told = json.loads(self.inside("import json; print(json.dumps(call('leak')))", ["leak"]))
        self.assertEqual(told["c"], 5)
        self.assertTrue(told["a"][0].startswith("x (removed") and told["a"][0].endswith(" y"), told)
        for secret in (key, "hunter2", "quite-ordinary-looking"):
            self.assertNotIn(secret, json.dumps(told))

    def test_large_payloads_pass_and_larger_ones_are_an_error(self) -> None:
        self.session.tool("echo", lambda text: text)
        self.assertEqual(self.inside("print(len(call('echo', text='x' * 100_000)))", ["echo"]), "100000\n")
        self.session.tool("much", lambda: "x" * (LONGEST + 1))
        told = self.inside("try:\n call('much')\nexcept Exception as error: print(error.fact)", ["much"])
        self.assertIn("longer than", told)
        told = self.inside("try:\n call('echo', text='x' * 200_000)\nexcept Exception as error: print(error.fact)", ["echo"])
        self.assertIn("longer than", told)

    def test_calls_run_beside_each_other(self) -> None:
        gate = threading.Barrier(4, timeout=30)

        def meet(number: int) -> int:
            gate.wait()
            return number

        self.session.tool("meet", meet)
        with ThreadPoolExecutor(4) as pool:
            told = pool.map(lambda n: self.inside("print(call('meet', number=%d))" % n, ["meet"]), range(4))
            self.assertEqual(sorted(told), ["0\n", "1\n", "2\n", "3\n"])

    def test_an_async_function(self) -> None:
        import asyncio

        async def later(text: str) -> str:
            await asyncio.sleep(0.01)
            return text

        self.session.tool("later", later)
        self.assertEqual(self.inside("print(call('later', text='x'))", ["later"]), "x\n")

    def test_a_caller_that_is_gone_disturbs_no_other_call(self) -> None:
        began, release = threading.Event(), threading.Event()

        def slow() -> str:
            began.set()
            release.wait(30)
            return "late"

        self.session.tool("slow", slow)
        code = "import sys; sys.dont_write_bytecode = True; sys.path.insert(0, %r); from keyward.inside import call; call('slow')" % SOURCES
        with self.session.popen([PYTHON, "-c", code], tools=["slow"], stderr=keyward.DEVNULL) as process:
            self.assertTrue(began.wait(30))
            process.kill()
            process.wait(30)
        release.set()
        time.sleep(0.1)
        self.session.tool("after", lambda: "fine")
        self.assertEqual(self.inside("print(call('after'))", ["after"]), "fine\n")

    def test_each_call_is_judged_if_the_owner_says_so(self) -> None:
        seen: List[str] = []
        self.session.tool("shell", lambda command: seen.append(command), judged={"as": "sh", "field": "command"})
        code = "for line in ('echo hello', 'git push --force origin main'):\n try:\n  call('shell', command=line); print('ran')\n except Exception as error: print(type(error).__name__)"
        self.assertEqual(self.inside(code, ["shell"]), "ran\nDenied\n")
        self.assertEqual(seen, ["echo hello"])

    def test_a_name_that_cannot_be_is_refused(self) -> None:
        with self.assertRaises(keyward.Refused):
            self.session.tool("a b", print)
        with self.assertRaises(ValueError):
            self.session.tool("ok", print, {"type": "object", "unevaluatedProperties": False})

    def test_outside_of_a_cage_there_is_no_tool(self) -> None:
        from keyward.inside import call

        with self.assertRaises(keyward.SessionLost):
            call("add", a=1)


class Schema(unittest.TestCase):
    def test_values_fit_or_do_not(self) -> None:
        cases: List[Any] = [
            ({"type": "integer"}, 1, True),
            ({"type": "integer"}, True, False),
            ({"type": "integer"}, 1.5, False),
            ({"type": ["string", "null"]}, None, True),
            ({"enum": [1, "a"]}, "a", True),
            ({"enum": [1]}, True, False),
            ({"const": 1}, 2, False),
            ({"type": "array", "items": {"type": "string"}, "maxItems": 1}, ["a"], True),
            ({"type": "array", "items": {"type": "string"}, "maxItems": 1}, ["a", "b"], False),
            ({"type": "array", "items": {"type": "string"}}, [1], False),
            ({"type": "string", "pattern": "^a"}, "ba", False),
            ({"type": "string", "minLength": 2}, "a", False),
            ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, False),
            ({"additionalProperties": {"type": "string"}}, {"a": 1}, False),
            ({"maximum": 3}, 4, False),
        ]
        for schema, value, fits in cases:
            check_schema(schema)
            self.assertEqual(fault(schema, value) is None, fits, (schema, value))

    def test_a_keyword_that_is_not_checked_is_a_mistake(self) -> None:
        wrong: List[Dict[str, Any]] = [{"$ref": "#"}, {"type": "thing"}, {"items": {"format": "uri"}}]
        for schema in wrong:
            with self.assertRaises(ValueError):
                check_schema(schema)

    def test_the_redactor_leaves_ordinary_text_alone(self) -> None:
        for text in ("hello world", "a=b", "https://example.org/x", "caf\u00e9 \U0001f600", "x" * 5000):
            self.assertEqual(redacted(text), text)


if __name__ == "__main__":
    unittest.main()
