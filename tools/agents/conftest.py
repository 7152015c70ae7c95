"""What the tests of agents share. `KEYWARD_TEST_AGENTS` chooses among the agents."""
import os
import pathlib
import shutil
import tempfile

import pytest

import stage as stages

ALL = ["claude", "codex", "opencode", "gemini"]


def pytest_generate_tests(metafunc):
    if "agent" in metafunc.fixturenames:
        wanted = os.environ.get("KEYWARD_TEST_AGENTS", "").split() or ALL
        only = getattr(metafunc.function, "agents", ALL)
        metafunc.parametrize("agent", [agent for agent in only if agent in wanted])


@pytest.fixture(scope="session", autouse=True)
def installed():
    """Keyward as it is installed: where cages have it too, and not in a checkout."""
    built = stages.executable()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="keyward-", dir=stages.AGENTS if os.access(stages.AGENTS, os.W_OK) else "/var/tmp"))
    directory.chmod(0o755)
    for name in ("keyward", "keyward-services", "keyward-shim"):
        shutil.copy(built.with_name(name), directory / name)
    os.environ["KEYWARD_TEST_EXECUTABLE"] = str(directory / "keyward")
    yield
    os.environ["KEYWARD_TEST_EXECUTABLE"] = str(built)
    shutil.rmtree(directory)


@pytest.fixture
def stage():
    with stages.Stage() as stage:
        yield stage


@pytest.fixture
def models(stage):
    """The double, on http."""
    with stage.models() as models:
        yield models
