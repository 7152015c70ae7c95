"""The functions of `subprocess`, each without a session and in one. The full suite of CPython is in `full_cpython.py`."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock
from typing import Any, Dict, Optional

import keyward
from keyward._door import Connection

from support import ASKED, EXECUTABLE, Stage


class InACage(Stage):
    """Without a session. The class below runs the same in one."""

    session: Optional[keyward.Session] = None

    @property
    def where(self) -> Dict[str, Any]:
        return {} if self.session is None else {"session": self.session}

    def test_output_text_input_and_code_are_those_of_subprocess(self) -> None:
        for module, where in ((keyward, self.where), (subprocess, {})):
            done = module.run(["sh", "-c", "cat; echo err >&2; exit 3"], input="in", capture_output=True, text=True, **where)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "in", "err\n"), module)

    def test_it_runs_in_a_cage(self) -> None:
        done = keyward.run(["sh", "-c", "echo $KEYWARD"], stdout=keyward.PIPE, **self.where)
        self.assertEqual(done.stdout, b"1\n")

    def test_a_credential_does_not_arrive(self) -> None:
        os.environ["OPENAI_API_KEY"] = "x"
        self.addCleanup(os.environ.pop, "OPENAI_API_KEY")
        line = "echo ${OPENAI_API_KEY-none}"
        self.assertEqual(keyward.check_output(line, shell=True, **self.where), b"none\n")
        self.assertEqual(subprocess.check_output(line, shell=True), b"x\n", "the control")

    def test_a_failure_is_a_called_process_error(self) -> None:
        with self.assertRaises(keyward.CalledProcessError) as caught:
            keyward.check_output(["sh", "-c", "echo x; exit 4"], **self.where)
        self.assertEqual((caught.exception.returncode, caught.exception.output), (4, b"x\n"))
        with self.assertRaises(keyward.CalledProcessError):
            keyward.check_call(["false"], **self.where)
        self.assertEqual(keyward.call(["sh", "-c", "exit 5"], **self.where), 5)

    def test_a_signal_is_a_negative_code(self) -> None:
        self.assertEqual(keyward.run(["sh", "-c", "kill -TERM $$"], **self.where).returncode, -15)

    def test_time_that_is_over_ends_the_command(self) -> None:
        began = time.monotonic()
        with self.assertRaises(keyward.TimeoutExpired):
            keyward.run(["sleep", "60"], timeout=0.5, **self.where)
        self.assertLess(time.monotonic() - began, 30)

    def test_a_command_is_polled_signalled_and_killed(self) -> None:
        for act, code in (("terminate", -15), ("kill", -9)):
            with keyward.Popen(["sleep", "60"], **self.where) as process:
                self.assertIsNone(process.poll())
                time.sleep(0.3)
                getattr(process, act)()
                self.assertEqual(process.wait(30), code)
                self.assertEqual(process.poll(), code)

    def test_an_interrupt_reaches_the_command(self) -> None:
        script = "trap 'echo got; exit 7' INT; echo ready; while :; do sleep 0.05; done"
        with keyward.Popen(["sh", "-c", script], stdout=keyward.PIPE, **self.where) as process:
            assert process.stdout is not None
            self.assertEqual(process.stdout.readline(), b"ready\n")
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.stdout.read(), b"got\n")
            self.assertEqual(process.wait(30), 7)

    def test_large_data_in_both_directions(self) -> None:
        data = os.urandom(1 << 20)
        done = keyward.run(["cat"], input=data, stdout=keyward.PIPE, **self.where)
        self.assertEqual(done.stdout, data)

    def test_variables_are_set_and_left_out(self) -> None:
        os.environ["CI"] = "1"
        self.addCleanup(os.environ.pop, "CI", None)
        line = "echo ${CI-gone} ${MINE-gone}"
        where = self.where
        self.assertEqual(keyward.getoutput(line, env={**os.environ, "MINE": "a b"}, **where).split(" ", 1)[1], "a b")
        left = {name: value for name, value in os.environ.items() if name != "CI"}
        self.assertEqual(keyward.getoutput(line, env=left, **where), "gone gone")

    def test_a_credential_cannot_be_set(self) -> None:
        for name, value in (("ACME_SECRET", "x"), ("MINE", "ghp_" + "a1B2" * 9)):
            with self.subTest(name), self.assertRaises(keyward.Refused) as caught:
                keyward.run(["true"], env={**os.environ, name: value}, **self.where)
            self.assertIn("credential", caught.exception.fact)
            self.assertNotIn(value, str(caught.exception).replace("x", "") if value == "x" else str(caught.exception))

    def test_what_would_lead_out_is_refused_with_a_reason(self) -> None:
        wrong: Dict[str, Any] = {"pass_fds": (5,), "preexec_fn": print, "close_fds": False, "user": 0, "umask": 0o77}
        for name, value in wrong.items():
            with self.subTest(name), self.assertRaises(keyward.Refused) as caught:
                keyward.run(["true"], **{name: value}, **self.where)
            self.assertIn(name, caught.exception.fact)
            self.assertTrue(caught.exception.remedy)

    def test_a_program_that_is_not_there_is_a_file_not_found_error(self) -> None:
        with self.assertRaises(FileNotFoundError) as caught:
            keyward.run(["no-such-program"], stderr=keyward.DEVNULL, **self.where)
        self.assertIsInstance(caught.exception, keyward.KeywardError)

    def test_a_program_that_cannot_be_executed_is_a_permission_error(self) -> None:
        with open("plain.txt", "w", encoding="utf-8") as file:
            file.write("text")
        with self.assertRaises(PermissionError):
            keyward.run(["./plain.txt"], stderr=keyward.DEVNULL, **self.where)

    def test_a_denial_has_rule_reason_and_remedy(self) -> None:
        self.work()
        with self.assertRaises(keyward.Denied) as caught:
            keyward.run(ASKED, stderr=keyward.DEVNULL, **self.where)
        error = caught.exception
        self.assertTrue(error.rule and error.reason and error.remedy, error.__dict__)
        self.assertEqual(error.code, "denied")
        self.assertNotIn("denied", error.reason.split(":")[0])

    def test_the_directory_is_that_of_the_call(self) -> None:
        os.makedirs("below", exist_ok=True)
        inside = keyward.check_output(["pwd"], cwd="below", text=True, **self.where)
        self.assertEqual(inside, os.path.join(self.project(), "below") + "\n")

    def test_words_that_are_no_text_arrive_as_they_are(self) -> None:
        done = keyward.run([b"printf", b"%s", b"caf\xe9"], stdout=keyward.PIPE, **self.where)
        self.assertEqual(done.stdout, b"caf\xe9")

    def test_many_threads_at_once(self) -> None:
        from concurrent.futures import ThreadPoolExecutor

        def one(number: int) -> bytes:
            out: bytes = keyward.check_output(["echo", str(number)], **self.where)
            return out

        with ThreadPoolExecutor(8) as pool:
            self.assertEqual(list(pool.map(one, range(24))), [b"%d\n" % number for number in range(24)])

    def test_asyncio(self) -> None:
        async def talk() -> None:
            process = await keyward.create_subprocess_exec(
                "sh", "-c", "cat; echo err >&2; exit 3", stdin=keyward.PIPE, stdout=keyward.PIPE, stderr=keyward.PIPE, **self.where
            )
            self.assertEqual(await process.communicate(b"x" * 300_000), (b"x" * 300_000, b"err\n"))
            self.assertEqual(process.returncode, 3)
            process = await keyward.create_subprocess_shell("echo a; sleep 60", stdout=keyward.PIPE, **self.where)
            assert process.stdout is not None
            self.assertEqual(await process.stdout.readline(), b"a\n")
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(process.wait(), 0.1)
            process.kill()
            self.assertEqual(await process.wait(), -9)
            codes = await asyncio.gather(*(self._code(number) for number in range(6)))
            self.assertEqual(codes, list(range(6)))
            self.work()
            with self.assertRaises(keyward.Denied):
                denied = await keyward.create_subprocess_exec(*ASKED, stderr=keyward.DEVNULL, **self.where)
                await denied.wait()

        asyncio.run(talk())

    async def _code(self, number: int) -> int:
        process = await keyward.create_subprocess_shell("exit %d" % number, **self.where)
        return await process.wait()

    def test_descriptors_do_not_pile_up(self) -> None:
        keyward.run(["true"], capture_output=True, **self.where)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            keyward.run(["true"], capture_output=True, **self.where)
            with self.assertRaises(FileNotFoundError):
                keyward.run(["no-such-program"], capture_output=True, **self.where)
        self.assertLessEqual(len(os.listdir("/proc/self/fd")), before + 1)


class InASession(InACage):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.session = keyward.Session()

    @classmethod
    def tearDownClass(cls) -> None:
        assert cls.session is not None
        cls.session.close()
        super().tearDownClass()

    def test_the_start_of_a_command_that_only_ends_is_not_told(self) -> None:
        sent: "list[Any]" = []
        send = Connection.send

        def keep(connection: Connection, message: Any, descriptors: Any = ()) -> None:
            sent.append(message.get("quiet", False))
            send(connection, message, descriptors)

        with unittest.mock.patch.object(Connection, "send", keep):
            keyward.run(["true"], **self.where)
            keyward.call(["true"], **self.where)
            keyward.run(["true"], timeout=30, **self.where)
            keyward.Popen(["true"], **self.where).wait()
        self.assertEqual(sent, [True, True, False, False])

    def test_an_interrupt_ends_the_command_before_it_is_raised(self) -> None:
        marker = os.path.join(self.project(), "ended-by-interrupt")
        line = "while [ ! -e %s.go ]; do sleep 0.05; done; echo > %s.started" % (marker, marker)
        main = threading.main_thread().ident
        timer = threading.Timer(0.2, lambda: signal.pthread_kill(main or 0, signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            keyward.run(["sh", "-c", line], **self.where)
        timer.join()
        # The spawner takes errands in order: what comes next finds it gone.
        listed = keyward.check_output(["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"], text=True, **self.where)
        self.assertNotIn("ended-by-interrupt", listed)
        with open(marker + ".go", "w"):
            pass
        time.sleep(0.3)
        self.assertFalse(os.path.exists(marker + ".started"))

    def test_flags_are_decided_at_the_start_of_the_session(self) -> None:
        with self.assertRaises(keyward.Refused):
            keyward.run(["true"], net="open", **self.where)

    def test_the_number_of_a_process_reaches_no_process_outside(self) -> None:
        with keyward.Popen(["sleep", "0.2"], **self.where) as process:
            with self.assertRaises(ProcessLookupError):
                os.kill(process.pid, 0)

    def test_commands_share_the_cage(self) -> None:
        keyward.run("echo kept > /tmp/note", shell=True, **self.where)
        self.assertEqual(keyward.check_output(["cat", "/tmp/note"], **self.where), b"kept\n")
        self.assertNotEqual(keyward.call(["cat", "/tmp/note"], stderr=keyward.DEVNULL), 0, "the control: without a session")

    def test_a_stream_that_is_a_terminal_is_relayed(self) -> None:
        main, terminal = os.openpty()
        try:
            done = keyward.run(["sh", "-c", "test -t 1 || echo plain"], stdout=terminal, **self.where)
            self.assertEqual(done.returncode, 0)
            self.assertEqual(os.read(main, 100), b"plain\r\n")
        finally:
            os.close(main)
            os.close(terminal)


class Installation(Stage):
    """Never plain: without the executable, or with another one, nothing runs."""

    def other(self, script: str) -> None:
        path = os.path.join(self.folder, "other-keyward")
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + script)
        os.chmod(path, 0o755)
        os.environ["KEYWARD_EXECUTABLE"] = path
        self.addCleanup(os.environ.update, KEYWARD_EXECUTABLE=EXECUTABLE)

    def assert_refuses(self, kind: Any) -> None:
        marker = os.path.join(self.project(), "ran")
        for call in (
            lambda: keyward.run(["touch", marker]),
            lambda: keyward.Popen(["touch", marker]),
            lambda: keyward.getoutput("touch " + marker),
            lambda: keyward.Session(),
            lambda: asyncio.run(keyward.create_subprocess_exec("touch", marker)),
            lambda: keyward.open("/etc/hostname"),
        ):
            with self.assertRaises(kind) as caught:
                call()
            self.assertIn("pip install keyward", caught.exception.remedy)
        self.assertFalse(os.path.exists(marker))

    def test_without_the_executable_nothing_runs(self) -> None:
        os.environ["KEYWARD_EXECUTABLE"] = "/nonexistent/keyward"
        self.addCleanup(os.environ.update, KEYWARD_EXECUTABLE=EXECUTABLE)
        self.assert_refuses(keyward.NotInstalled)
        del os.environ["KEYWARD_EXECUTABLE"]
        path, os.environ["PATH"] = os.environ["PATH"], "/nonexistent"
        self.addCleanup(os.environ.update, PATH=path)
        self.assert_refuses(keyward.NotInstalled)

    def test_with_another_protocol_nothing_runs(self) -> None:
        self.other("echo '{\"v\":1,\"protocol\":2}'")
        self.assert_refuses(keyward.VersionMismatch)

    def test_with_a_program_that_is_not_keyward_nothing_runs(self) -> None:
        self.other("exec \"$@\"")
        self.assert_refuses(keyward.VersionMismatch)

    def test_what_the_launcher_does_not_take_is_refused_everywhere(self) -> None:
        for call in (
            lambda: keyward.run(["touch", "ran"], net="sideways", stderr=keyward.DEVNULL),
            lambda: keyward.Session(net="sideways"),
            lambda: keyward.Session(profile="nobody"),
        ):
            with self.assertRaises(keyward.Refused) as caught:
                call()
            self.assertTrue(caught.exception.fact and caught.exception.remedy, caught.exception.__dict__)
        self.assertFalse(os.path.exists("ran"))

    def test_flags_are_those_of_keyward_run(self) -> None:
        from keyward._executable import FLAGS

        help_text = subprocess.run([EXECUTABLE, "run", "--help"], stdout=subprocess.PIPE, text=True).stdout
        for flag, _ in FLAGS.values():
            self.assertIn(flag, help_text)
        own = {"--json", "--outcome-fd", "--verbose", "--quiet", "--help", "--cwd"}
        known = {flag for flag, _ in FLAGS.values()} | own
        told = {word.rstrip(",") for word in help_text.split() if word.startswith("--") and len(word) > 2}
        self.assertEqual({word for word in told if word.strip("-").replace("-", "").isalpha()} - known, set())
        with self.assertRaises(TypeError):
            keyward.run(["true"], nett="open")

    def test_the_guarded_read_reads_and_refuses(self) -> None:
        with open("plain.txt", "w", encoding="utf-8") as file:
            file.write("text\n")
        with open(".env", "w", encoding="utf-8") as file:
            file.write("OPENAI_API_KEY=sk-proj-" + "a1B2" * 10 + "\n")
        with keyward.open("plain.txt") as file:
            self.assertEqual(file.read(), "text\n")
        with self.assertRaises(keyward.Refused):
            keyward.open(".env")

    def test_the_import_is_short(self) -> None:
        code = "import sys; import keyward; print([m for m in ('subprocess', 'json', 'asyncio', 'socket', 're') if m in sys.modules])"
        # `site` may have imported some: compare with a start without the package.
        plain = code.replace("import keyward; ", "")
        outputs = [subprocess.run([sys.executable, "-c", one], stdout=subprocess.PIPE).stdout for one in (code, plain)]
        self.assertEqual(outputs[0], outputs[1])


if __name__ == "__main__":
    unittest.main()
