"""What `environ()` decides: by the cases that every implementation reads, and beside the launcher on made-up inputs."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import time
import unittest
from typing import Any, Dict, List

import keyward
from keyward._environment import Inputs, decide
from keyward._registry import registry

from support import EXECUTABLE, SDK, Stage


def inputs_of(case: Dict[str, Any]) -> Inputs:
    return Inputs(
        platform=case["platform"],
        inherit_credentials=case.get("inherit_credentials", []),
        pass_=case.get("pass", []),
        not_secret=case.get("not_secret", []),
        dangerous_loader_env=case.get("dangerous_loader_env", []),
        set=case.get("set", {}),
        trust=case["trust"],
        net=case["net"],
    )


class Cases(unittest.TestCase):
    def test_the_shared_cases_are_decided_as_by_the_launcher(self) -> None:
        with open(os.path.join(SDK, "cases", "environment.json"), encoding="utf-8") as file:
            cases = json.load(file)["cases"]
        self.assertGreater(len(cases), 25)
        for case in cases:
            with self.subTest(case["name"]):
                decision = decide([entry.encode("latin-1") for entry in case["environment"]], inputs_of(case))
                self.assertEqual([[row.name, row.rule] for row in decision.passed], case["passed"])
                self.assertEqual([[row.name, row.rule] for row in decision.dropped], case["dropped"])
                self.assertEqual(decision.missing, case["missing"])


class Environ(unittest.TestCase):
    def test_a_child_gets_no_credential_unless_it_is_named(self) -> None:
        base = {"PATH": "/usr/bin", "OPENAI_API_KEY": "x", "GH_TOKEN": "y"}
        self.assertEqual(set(keyward.environ(base)) & set(base), {"PATH"})
        made = keyward.environ(base, inherit_credentials=["GH_TOKEN"])
        self.assertEqual(made["GH_TOKEN"], "y")
        self.assertNotIn("OPENAI_API_KEY", made)

    def test_one_string_in_the_place_of_a_list_is_a_mistake(self) -> None:
        with self.assertRaises(TypeError):
            keyward.environ({}, inherit_credentials="GH_TOKEN")

    def test_unknown_words_are_refused(self) -> None:
        for wrong in ({"trust": "friend"}, {"net": "rules"}, {"platform": "plan9"}):
            with self.subTest(wrong), self.assertRaises(ValueError):
                keyward.environ({}, **wrong)  # type: ignore[arg-type]

    def test_bytes_that_are_no_text_survive(self) -> None:
        value = b"a\xffb".decode("utf-8", "surrogateescape")
        self.assertEqual(keyward.environ({"CI": value})["CI"], value)

    def test_an_entry_that_no_kernel_takes_is_dropped(self) -> None:
        made = keyward.explain_environ({"CI": "a" * 131068, "TZ": "a" * 131069})
        self.assertIn(("TZ", "too-long", None), made.dropped)
        self.assertIn("CI", made.environ())

    def test_a_hostile_value_comes_to_an_end(self) -> None:
        began = time.monotonic()
        for unit in ("a", "-", "-eyJ", "://", "x://a:", "=", "sk-", ":", ".abcdef.", "-----BEGIN "):
            keyward.environ({"CI": (unit * 131000)[:131000]})
        # The quadratic way takes minutes.
        self.assertLess(time.monotonic() - began, 60)

    def test_a_home_of_another_profile_is_moved_on_windows_too(self) -> None:
        made = keyward.environ({"HOMEDRIVE": "C:"}, home="D:\\h", platform="windows")
        self.assertEqual((made["HOME"], made["USERPROFILE"]), ("D:\\h", "D:\\h"))
        self.assertNotIn("HOMEDRIVE", made)


class BesideTheLauncher(Stage):
    def launcher(self, entries: Dict[str, str], flags: List[str]) -> Any:
        variables = {"HOME": self.home(), **entries}
        done = subprocess.run(
            [EXECUTABLE, "env", "--json", *flags], env=variables, stdout=subprocess.PIPE, check=True
        )
        return json.loads(done.stdout)

    def same(self, entries: Dict[str, str], passing: List[str], net: str) -> None:
        flags = ["--net", net, "--trust", "executor"] + [word for name in passing for word in ("--pass", name)]
        told = self.launcher(entries, flags)
        made = keyward.explain_environ({"HOME": self.home(), **entries}, pass_=passing, net=net)
        passed = {row["name"]: row["rule"] for row in told["passed"]}
        dropped = sorted((row["name"], row["rule"]) for row in told["dropped"])
        mine = {row.name: row.rule for row in made.passed}
        self.assertEqual(mine, passed, {name: entries.get(name) for name in set(mine) ^ set(passed)})
        self.assertEqual(sorted((row.name, row.rule) for row in made.dropped), dropped)
        for row in told["passed"]:
            if "value" in row:
                self.assertEqual(made.environ()[row["name"]], row["value"])

    def test_a_command_in_a_cage_has_these_variables_and_those_of_the_cage(self) -> None:
        base = {"PATH": "/usr/bin:/bin", "HOME": self.home(), "LANG": "C", "CI": "1", "EDITOR": "vi"}
        base.update(OPENAI_API_KEY="x", RUST_LOG="info", MINE="see ghp_" + "a1B2" * 9, TZ="UTC")
        flags = ["--net", "none", "--pass", "RUST_LOG"]
        shown = subprocess.run(
            [EXECUTABLE, "run", *flags, "--", "env"], env=base, stdout=subprocess.PIPE, check=True, text=True
        )
        there = {line.split("=", 1)[0] for line in shown.stdout.splitlines()}
        of_the_cage = {"PATH", "HOME", "PWD", "TMPDIR", "XDG_RUNTIME_DIR", "KEYWARD", "SHLVL", "_"}
        mine = set(keyward.environ(base, pass_=["RUST_LOG"], net="none", trust="unknown"))
        told = {row["name"] for row in self.launcher(base, flags)["passed"]}
        self.assertEqual(mine, told)
        self.assertEqual(there - of_the_cage, mine - of_the_cage)

    def test_made_up_values_are_decided_alike(self) -> None:
        draw = random.Random(17)
        parts = re.findall(r"[A-Za-z0-9]+[_-]+", " ".join(pattern for _, pattern in registry()._values))
        parts += ["://", "@", ":", "=", "password", "token", " ", '"', "/", ".", "-", "eyJ", "sig=", "pwd=", "bearer "]
        parts += ["a", "B", "7", "word", "Word", "a1B2c3D4e5", "0123456789abcdef", "-----BEGIN ", "PRIVATE KEY", "?", "#"]
        parts += ["x-api-key:", "123456789", "MTaB3dE6gH9jK2mN5pQ8sT1vW", ".Gabcde.", "$", "{", "]", "\u00e4"]
        for _ in range(8):
            entries = {
                "V%d" % at: "".join(draw.choice(parts) for _ in range(draw.randint(1, 9))) for at in range(400)
            }
            self.same(entries, list(entries), draw.choice(["open", "none"]))

    def test_made_up_names_are_decided_alike(self) -> None:
        draw = random.Random(4)
        with open(os.path.join(SDK, "registry.json"), encoding="utf-8") as file:
            known = [row[0] for row in json.load(file)["known"]]
        words = ["KEY", "AUTH", "AUTHOR", "PASS", "PATH", "LC_", "LD_", "GIT_", "PWD", "_", "X", "PIN", "http_proxy", "npm_"]
        words += [name.replace("*", "X") for name in draw.sample(known, 60)]
        for _ in range(4):
            names = {"".join(draw.choice(words) for _ in range(draw.randint(1, 3))) for _ in range(300)}
            taken = {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "PWD"}
            entries = {draw.choice([name, name.lower()]): "x" for name in names if name not in taken}
            # A flag that names a credential instead of a variable is a mistake of its own.
            names = {name for name in entries if registry().value_shape(name) is None}
            self.same(entries, draw.sample(sorted(names), 40), "open")


if __name__ == "__main__":
    unittest.main()
