"""A session is an object that is handed on: one test for each way to lose it, with the pattern that does lose it as control."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, List, Optional

import keyward

from support import ASKED, EXECUTABLE, Stage

#: The patterns that lose it: what a library would use to find "the current session".
_local = threading.local()
_context: "contextvars.ContextVar[Optional[keyward.Session]]" = contextvars.ContextVar("session", default=None)


def _by_thread() -> Optional[keyward.Session]:
    return getattr(_local, "session", None)


def _worker_of_another_process(session: Any, answers: Any) -> None:
    """In a child: what becomes of a session that was handed on."""
    try:
        session.run(["true"])
        answers.put("ran")
    except keyward.SessionLost as error:
        answers.put("lost: %s" % error.fact)


def _find_in_another_process(answers: Any) -> None:
    """In a child: what the patterns find."""
    answers.put((_by_thread() is None, _context.get() is None))


class Handed(Stage):
    session: keyward.Session

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.session = keyward.Session()
        cls.session.run("echo mine > /tmp/mark", shell=True)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.session.close()
        super().tearDownClass()

    def setUp(self) -> None:
        _local.session = self.session
        self._token = _context.set(self.session)
        self.addCleanup(_context.reset, self._token)

    def is_mine(self, session: keyward.Session) -> bool:
        out: bytes = session.check_output(["cat", "/tmp/mark"])
        return out == b"mine\n"

    def test_nothing_is_ambient(self) -> None:
        with self.session:
            pass
        self.__class__.session = keyward.Session()
        self.session.run("echo mine > /tmp/mark", shell=True)
        # Inside the block of a session, the functions of the module still make a cage of their own.
        self.assertNotEqual(keyward.call(["cat", "/tmp/mark"], stderr=keyward.DEVNULL), 0)

    def test_threads(self) -> None:
        found: List[Any] = []
        thread = threading.Thread(target=lambda: found.extend([self.is_mine(self.session), _by_thread()]))
        thread.start()
        thread.join()
        self.assertEqual(found, [True, None], "handed on, and by thread-local: lost")

    def test_a_reused_thread_of_a_pool_acts_for_the_session_it_is_handed(self) -> None:
        with keyward.Session() as other, ThreadPoolExecutor(1) as pool:
            pool.submit(setattr, _local, "session", self.session).result()
            self.assertTrue(pool.submit(self.is_mine, self.session).result())
            self.assertNotEqual(pool.submit(other.call, ["cat", "/tmp/mark"], stderr=keyward.DEVNULL).result(), 0)
            # The control: the next task on this thread finds the session of the last one.
            self.assertIs(pool.submit(_by_thread).result(), self.session)

    def test_concurrent_futures(self) -> None:
        with ThreadPoolExecutor(4) as pool:
            self.assertTrue(all(pool.map(self.is_mine, [self.session] * 8)))
            # The control: a task of a pool has a context of its own.
            self.assertIsNone(pool.submit(_context.get).result())

    def test_asyncio_tasks(self) -> None:
        async def one(session: keyward.Session) -> bool:
            process = await session.create_subprocess_exec("cat", "/tmp/mark", stdout=keyward.PIPE)
            return bool((await process.communicate())[0] == b"mine\n")

        async def several() -> List[Any]:
            tasks = [asyncio.ensure_future(one(self.session)) for _ in range(4)]
            loop = asyncio.get_running_loop()
            # The control: what runs in an executor has lost the context.
            lost = await loop.run_in_executor(None, _context.get)
            return [*(await asyncio.gather(*tasks)), lost]

        self.assertEqual(asyncio.run(several()), [True, True, True, True, None])

    def test_greenlets(self) -> None:
        from greenlet import greenlet  # type: ignore[import-untyped, unused-ignore]

        found: List[Any] = []

        def work(session: keyward.Session) -> None:
            found.append(self.is_mine(session))
            found.append(_context.get())

        greenlet(work).switch(self.session)
        self.assertEqual(found, [True, None], "handed on, and by context: lost")

    def by_process(self, method: str) -> None:
        context: Any = multiprocessing.get_context(method)
        answers = context.Queue()
        process = context.Process(target=_find_in_another_process, args=(answers,))
        process.start()
        lost = answers.get(timeout=60)
        process.join()
        if method == "fork":
            # The control: a child of fork finds the object by both patterns, and would go on with it.
            self.assertEqual(lost, (False, False))
            process = context.Process(target=_worker_of_another_process, args=(self.session, answers))
            process.start()
            told = answers.get(timeout=60)
            process.join()
            self.assertIn("the session belongs to process %d" % os.getpid(), told)
        else:
            self.assertEqual(lost, (True, True), "by the patterns: lost")
            process = context.Process(target=_worker_of_another_process, args=(self.session, answers))
            with self.assertRaises(keyward.NotShareable) as caught:
                process.start()
            self.assertIn("make a Session in the process", caught.exception.remedy)
        self.assertTrue(self.is_mine(self.session), "the session of this process goes on")

    def test_multiprocessing_fork(self) -> None:
        self.by_process("fork")

    def test_multiprocessing_spawn(self) -> None:
        self.by_process("spawn")

    def test_multiprocessing_forkserver(self) -> None:
        self.by_process("forkserver")

    def test_it_is_neither_pickled_nor_copied(self) -> None:
        for act in (pickle.dumps, copy.copy, copy.deepcopy):
            with self.assertRaises(keyward.NotShareable):
                act(self.session)


class End(Stage):
    def test_a_session_whose_process_is_killed_is_an_error_ever_after(self) -> None:
        session = keyward.Session()
        process = session.popen(["sleep", "60"])
        import json

        listed = subprocess.run([os.environ["KEYWARD_EXECUTABLE"], "ps", "--json"], stdout=subprocess.PIPE)
        pid = next(one["pid"] for one in json.loads(listed.stdout)["sessions"] if one["session"] == session.name)
        os.kill(pid, signal.SIGKILL)
        with self.assertRaises(keyward.SessionLost):
            process.wait(30)
        for _ in range(2):
            with self.assertRaises(keyward.SessionLost):
                session.run(["true"])
        with self.assertRaises(keyward.SessionLost):
            asyncio.run(session.create_subprocess_exec("true"))
        session.close()

    def test_a_closed_session_is_an_error(self) -> None:
        with keyward.Session() as session:
            pass
        for act in (lambda: session.run(["true"]), lambda: session.tool("x", print), session.__enter__):
            with self.assertRaises(keyward.SessionLost):
                act()

    def test_a_session_ends_with_its_process(self) -> None:
        code = (
            "import keyward, os, sys; s = keyward.Session(); print(s.name, flush=True);"
            "pid = os.fork()\nif pid == 0: import time; time.sleep(20); os._exit(0)\nos.kill(os.getpid(), 9)"
        )
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        process.wait(30)
        process.stdout.close()
        until = time.monotonic() + 30
        while name in subprocess.run([os.environ["KEYWARD_EXECUTABLE"], "ps"], stdout=subprocess.PIPE, text=True).stdout:
            self.assertLess(time.monotonic(), until, "the session outlives its process, although a child of fork lives")
            time.sleep(0.1)

    def test_a_session_that_no_client_comes_to_own_ends(self) -> None:
        start = [EXECUTABLE, "session", "start", "--json", "--name"]
        subprocess.run([*start, "stays"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([*start, "goes", "--owned-within", "1s"], check=True, stdout=subprocess.DEVNULL)
        self.assertEqual(self._names(), {"goes", "stays"})
        for _ in range(400):
            if "goes" not in self._names():
                break
            time.sleep(0.05)
        self.assertEqual(self._names(), {"stays"}, "the control: one that was started without the flag")
        subprocess.run([EXECUTABLE, "session", "stop", "stays"], check=True)

    def test_a_session_that_a_client_owns_stays_beyond_that_time(self) -> None:
        double = os.path.join(self.folder, "one-second")
        with open(double, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\ncase "$*" in *" --owned-within 30s"*) ;; "session "*) exit 9 ;; esac\n')
            file.write('exec "%s" $(echo "$@" | sed "s/within 30s/within 1s/")\n' % EXECUTABLE)
        os.chmod(double, 0o700)
        os.environ["KEYWARD_EXECUTABLE"] = double
        try:
            session = keyward.Session()
        finally:
            os.environ["KEYWARD_EXECUTABLE"] = EXECUTABLE
        with session:
            time.sleep(1.2)
            self.assertEqual(session.run(["true"]).returncode, 0)

    def _names(self) -> "set[str]":
        listed = subprocess.run([EXECUTABLE, "ps", "--json"], check=True, stdout=subprocess.PIPE).stdout
        return {one["session"] for one in json.loads(listed)["sessions"]}

    def test_a_background_job_keeps_its_output_and_ends_with_the_session(self) -> None:
        with keyward.Session() as session:
            job = session.popen(["sh", "-c", "echo out; exit 4"], background=True)
            self.assertEqual((job.wait(30), job.output()), (4, b"out\n"))
            job = session.popen(["sleep", "60"], background=True)
            self.assertIsNone(job.poll())
            with self.assertRaises(keyward.TimeoutExpired):
                job.wait(0.1)
            job.kill()
            self.assertEqual(job.wait(30), 137)
            with self.assertRaises(keyward.Refused):
                session.popen(["true"], background=True, stdout=keyward.PIPE)

    def test_a_line_finds_what_the_last_one_left(self) -> None:
        with keyward.Session() as session:
            session.shell("cd /tmp; greet() { echo hello $1; }; export A=1")
            done = session.shell("pwd; greet you; echo $A", capture_output=True, text=True)
            self.assertEqual(done.stdout, "/tmp\nhello you\n1\n")
            self.assertEqual(session.check_output(["pwd"], text=True), self.project() + "\n", "words do not")

    def test_a_session_that_cannot_start_says_why(self) -> None:
        for wrong in ({"profile": "no-such-profile"}, {"protect": "strict"}, {"name": "a/b"}):
            with self.subTest(wrong), self.assertRaises(keyward.KeywardError) as caught:
                keyward.Session(**wrong)  # type: ignore[arg-type]
            self.assertTrue(caught.exception.fact and caught.exception.remedy, caught.exception.__dict__)


class Approvals(Stage):
    def setUp(self) -> None:
        self.work()

    def denied(self, on_approval: Optional[Callable[..., Any]], timeout: float = 30) -> keyward.Denied:
        with keyward.Session(on_approval=on_approval, approval_timeout=timeout) as session:
            with self.assertRaises(keyward.Denied) as caught:
                session.run(ASKED, stderr=keyward.DEVNULL)
        return caught.exception

    def test_a_yes_lets_the_command_run_and_the_question_says_what_it_is_about(self) -> None:
        seen: List[Any] = []

        def yes(question: keyward.Question) -> bool:
            seen.append(question)
            return True

        with keyward.Session(on_approval=yes) as session:
            done = session.run(ASKED, stderr=keyward.DEVNULL)
        self.assertEqual(len(seen), 1, done)
        question = seen[0]
        self.assertEqual(question.argv, ASKED)
        self.assertTrue(question.reason and question.rule and question.digest)
        self.assertEqual(question.cwd, self.project())
        self.assertFalse(question.from_inside)

    def test_an_async_callback(self) -> None:
        async def yes(question: keyward.Question) -> bool:
            await asyncio.sleep(0.01)
            return question.argv == ASKED

        with keyward.Session(on_approval=yes) as session:
            session.run(ASKED, stderr=keyward.DEVNULL)
        self.assertFalse(os.path.exists("work"))
        self.work()

        async def no(question: keyward.Question) -> bool:
            return False

        self.denied(no)

    def test_a_no_is_a_denial_with_its_rule(self) -> None:
        self.assertTrue(self.denied(lambda question: False).rule)

    def test_only_true_is_a_yes(self) -> None:
        for answer in (None, 1, "yes", [True]):
            with self.subTest(answer):
                self.denied(lambda question, answer=answer: answer)

    def test_one_that_raises_denies(self) -> None:
        hook, threading.excepthook = threading.excepthook, lambda *told: None
        self.addCleanup(setattr, threading, "excepthook", hook)

        def broken(question: keyward.Question) -> bool:
            raise RuntimeError("broken")

        def gone(question: keyward.Question) -> bool:
            raise SystemExit

        self.denied(broken)
        self.denied(gone)

    def test_one_that_hangs_denies(self) -> None:
        release = threading.Event()
        self.addCleanup(release.set)
        began = time.monotonic()
        self.denied(lambda question: release.wait(60), timeout=0.3)
        self.assertLess(time.monotonic() - began, 30)

    def test_one_that_dies_with_its_connection_denies(self) -> None:
        with keyward.Session(on_approval=lambda question: time.sleep(60) or True) as session:  # type: ignore[func-returns-value]
            assert session._approvals is not None
            timer = threading.Timer(0.5, session._approvals.end)
            timer.start()
            with self.assertRaises(keyward.Denied):
                session.run(ASKED, stderr=keyward.DEVNULL)
            timer.join()

    def test_without_a_callback_it_is_denied_at_once(self) -> None:
        began = time.monotonic()
        self.denied(None)
        self.assertLess(time.monotonic() - began, 20)

    def test_it_is_called_on_any_thread_and_for_several_at_once(self) -> None:
        threads = set()

        def yes(question: keyward.Question) -> bool:
            threads.add(threading.get_ident())
            time.sleep(0.05)
            return True

        with keyward.Session(on_approval=yes) as session, ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: session.run(ASKED, stderr=keyward.DEVNULL), range(4)))
        self.assertNotIn(threading.get_ident(), threads)


if __name__ == "__main__":
    unittest.main()
