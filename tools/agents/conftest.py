"""What the tests of agents share. `KEYWARD_TEST_AGENTS` chooses among the agents."""
import os

import pytest

import stage as stages

ALL = ["claude", "codex", "opencode", "gemini"]


def pytest_generate_tests(metafunc):
    if "agent" in metafunc.fixturenames:
        wanted = os.environ.get("KEYWARD_TEST_AGENTS", "").split() or ALL
        only = getattr(metafunc.function, "agents", ALL)
        metafunc.parametrize("agent", [agent for agent in only if agent in wanted])


@pytest.fixture
def stage():
    with stages.Stage() as stage:
        yield stage


@pytest.fixture
def models(stage):
    """The double, on http."""
    with stage.models() as models:
        yield models
