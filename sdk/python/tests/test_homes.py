"""The HOME of a profile for children without a cage. The trees of macOS and Windows are fixtures, made here."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import unittest
from typing import Any

import keyward


class ProfileHome(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.real = os.path.join(self.folder, "ann")
        os.makedirs(os.path.join(self.real, ".config", "gh"))
        self.write(".config/gh/hosts.yml", "login")
        self.write(".npmrc", "login")

    def write(self, path: str, text: str) -> None:
        with open(os.path.join(self.real, path), "w", encoding="utf-8") as file:
            file.write(text)

    def made(self, name: str = "builder", **more: Any) -> str:
        more.setdefault("platform", "linux")
        return keyward.profile_home(name, home=self.real, environ=more.pop("environ", {}), **more)

    def test_it_is_private_and_the_same_each_time(self) -> None:
        home = self.made()
        self.assertEqual(stat.S_IMODE(os.stat(home).st_mode), 0o700)
        self.assertEqual(os.listdir(home), [])
        self.assertEqual(home, self.made())
        self.assertNotEqual(home, self.made("other"))
        self.assertNotEqual(home, self.made(trust="tool"))

    def test_it_has_the_logins_that_are_named_and_no_others(self) -> None:
        home = self.made(tools=["gh"])
        with open(os.path.join(home, ".config/gh/hosts.yml"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "login")
        self.assertFalse(os.path.lexists(os.path.join(home, ".npmrc")))

    def test_a_login_that_is_no_longer_named_goes_away(self) -> None:
        self.made(tools=["gh", "npm"])
        home = self.made(tools=["npm"])
        self.assertFalse(os.path.lexists(os.path.join(home, ".config/gh")))
        self.assertTrue(os.path.exists(os.path.join(home, ".npmrc")))
        self.assertTrue(os.path.exists(os.path.join(self.real, ".config/gh/hosts.yml")))

    def test_what_the_profile_has_itself_is_not_replaced(self) -> None:
        home = self.made()
        with open(os.path.join(home, ".npmrc"), "w", encoding="utf-8") as file:
            file.write("own")
        self.made(tools=["npm"])
        with open(os.path.join(home, ".npmrc"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "own")

    def test_a_link_that_a_child_has_planted_is_not_followed(self) -> None:
        home = self.made()
        elsewhere = os.path.join(self.folder, "elsewhere")
        os.mkdir(elsewhere)
        os.symlink(elsewhere, os.path.join(home, ".config"))
        self.made(tools=["gh"])
        self.assertEqual(os.listdir(elsewhere), [])

    def test_a_moved_configuration_is_found(self) -> None:
        moved = os.path.join(self.folder, "moved")
        os.makedirs(os.path.join(moved, "gh"))
        home = self.made(tools=["gh"], environ={"XDG_CONFIG_HOME": moved})
        self.assertEqual(os.readlink(os.path.join(home, ".config/gh")), os.path.join(moved, "gh"))

    def test_a_class_without_logins_gets_none(self) -> None:
        with self.assertRaises(keyward.Refused):
            self.made(tools=["gh"], trust="tool")

    def test_names_that_lead_elsewhere_are_refused(self) -> None:
        for name in ("", ".", "..", "a/b", "a\0b", "-p", "x" * 65):
            with self.subTest(name), self.assertRaises(keyward.Refused):
                self.made(name)
        with self.assertRaises(keyward.Refused):
            self.made(tools=["no-such-tool"])

    def test_fixture_macos_has_the_keychains_by_a_link(self) -> None:
        keychains = os.path.join(self.real, "Library", "Keychains")
        os.makedirs(keychains)
        home = self.made(platform="macos")
        self.assertEqual(os.readlink(os.path.join(home, "Library/Keychains")), keychains)
        self.assertTrue(home.startswith(os.path.join(self.real, "Library/Application Support/keyward")))
        self.assertFalse(os.path.lexists(os.path.join(self.made(platform="macos", trust="tool"), "Library")))

    def test_fixture_windows_has_a_directory_and_no_login(self) -> None:
        local = os.path.join(self.folder, "local")
        home = self.made(platform="windows", environ={"LOCALAPPDATA": local})
        self.assertTrue(home.startswith(local))
        with self.assertRaises(keyward.Refused):
            self.made(platform="windows", tools=["gh"], environ={"LOCALAPPDATA": local})


if __name__ == "__main__":
    unittest.main()
