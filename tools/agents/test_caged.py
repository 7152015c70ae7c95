"""Whole agents in a cage, `keyward AGENT …`: file tools, background tasks, MCP servers and the terminal work, and none of the planted
secrets reaches the agent's tools or the model. `test_whole.py` has the key, the resumed conversation and the gateway."""
import pathlib
import shutil
import time

import pytest
import stage as stages
from terminal import Terminal

KEYS = {"claude": "ANTHROPIC_API_KEY", "codex": "OPENAI_API_KEY", "opencode": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY"}


# The key of the environment is what the agents use here. A login of their own in a file is another matter, with tests of its own.
LOGINS = [".claude/.credentials.json", ".codex/auth.json", ".local/share/opencode/auth.json", ".gemini/oauth_creds.json"]


@pytest.fixture
def models(stage):
    """The double, on https, in the place of the hosts of the models."""
    for login in LOGINS:
        (stage.home / login).unlink()
    _, cert, key = stage.authority()
    with stage.models(cert, key) as models:
        yield models


def test_the_file_tools_of_a_caged_agent_read_no_secret_file(agent, stage, models):
    files = [stage.home / ".aws/credentials", stage.home / ".ssh/id_ed25519", stage.project / ".env", stage.home / ".config/gh/hosts.yml"]
    models.script.on("READTHEM", *[{"read": str(file)} for file in files], {"read": str(stage.project / "README.md")}, {"say": "FINISHED"})
    ran = stage.caged(agent, "READTHEM please", models)
    assert "FINISHED" in ran.out, (ran, models.problems)
    assert b"A project." in models.bodies(), "the control: an ordinary file is read"
    assert stage.marks_in(models.bodies()) == []


# Codex has no tool that reads files but its shell.
test_the_file_tools_of_a_caged_agent_read_no_secret_file.agents = ["claude", "opencode", "gemini"]


def test_a_caged_agent_runs_tools_in_parallel_and_what_it_keeps_holds_no_secret(agent, stage, models):
    models.script.on("FIRSTLY", [{"shell": "printf 'par%sone' 2"}, {"shell": "printf 'par%stwo' 2; echo made > made.txt"}], {"shell": stages.COLLECT}, {"say": "FIRST DONE"})
    ran = stage.caged(agent, "FIRSTLY please", models)
    assert "FIRST DONE" in ran.out, (ran, models.problems)
    assert b"par2one" in models.bodies() and b"par2two" in models.bodies() and b"LOOKED" in models.bodies()
    assert (stage.project / "made.txt").read_text() == "made\n"
    planted = {stage.home / name for name in stage.marks.SHAPES} | {stage.home / ".claude.json"}
    kept = [file for file in stage.home.rglob("*") if file.is_file() and not file.is_symlink() and file not in planted]
    assert kept and [file for file in kept if stage.marks_in(file.read_bytes())] == []


def test_a_background_task_of_a_caged_agent_runs_and_ends_with_it(agent, stage, models):
    models.script.on("BACKGROUND", {"shell": "sleep 4242; echo never", "background": True}, {"shell": "sleep 1; printf 'run%sning ' 2; ps ax -o args | grep -c '[s]leep 4242'"}, {"say": "FINISHED"})
    ran = stage.caged(agent, "BACKGROUND please", models)
    assert "FINISHED" in ran.out, (ran, models.problems)
    assert b"run2ning" in models.bodies()
    assert not any(b"sleep\x004242" in entry.read_bytes() for entry in processes())


test_a_background_task_of_a_caged_agent_runs_and_ends_with_it.agents = ["claude", "gemini"]


def processes():
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            entry.read_bytes()
        except OSError:
            continue
        yield entry


def test_an_mcp_server_of_a_caged_agent_works_and_finds_no_secret(agent, stage, models):
    sdk = stages.AGENTS / "node_modules/@modelcontextprotocol/sdk"
    shutil.copy(pathlib.Path(__file__).parent / "mcp_server.mjs", stage.project / "mcp_server.mjs")
    stage.own(stage.project / "mcp_server.mjs")
    # With the prefix, as a file that also serves outside has it.
    server = [str(stages.executable()), "mcp", "--", "node", str(stage.project / "mcp_server.mjs"), str(sdk)]
    # Claude offers the tools of servers when its model has searched for them.
    search = [{"tool": "ToolSearch", "args": {"query": "select:mcp__fixture__look,mcp__fixture__test_simple_text"}}] if agent == "claude" else []
    models.script.on("ASKMCP", *search, {"mcp": "look", "args": {"command": stages.COLLECT}}, {"mcp": "test_simple_text"}, {"say": "FINISHED"})
    ran = stage.caged(agent, "ASKMCP please", models, mcp={"fixture": server})
    assert "FINISHED" in ran.out, (ran, models.problems)
    assert b"This is a simple text response" in models.bodies() and b"LOOKED" in models.bodies()
    assert stage.marks_in(models.bodies()) == []


# What a command of the agent can use: its key, its state, its model's host. In a file, because Gemini refuses a substitution in a command.
NARROW = """
keys=$(env | grep -cE '^(KEYWARD_ANTHROPIC_KEY|OPENAI_API_KEY|GEMINI_API_KEY)=')
state=$(ls -d ~/.claude.json ~/.gemini/settings.json ~/.config/opencode/opencode.json 2>/dev/null | wc -l)
host=$(curl -so /dev/null -m 5 -w '%{http_code}' https://HOST/)
echo "keys=$keys state=$state host=$host looked"
"""
MODELS = {"claude": "api.anthropic.com", "opencode": "api.openai.com", "gemini": "generativelanguage.googleapis.com"}


def test_the_commands_of_a_caged_agent_run_in_a_narrower_cage(agent, stage, models):
    stage.write(stage.project / "narrow.sh", NARROW.replace("HOST", MODELS[agent]))
    models.script.on("NARROWLY", {"shell": "sh narrow.sh"}, {"say": "FINISHED"})
    ran = stage.caged(agent, "NARROWLY please", models)
    assert "FINISHED" in ran.out and b" looked" in models.bodies(), (ran, models.problems)
    assert b"keys=0 state=0 host=000 looked" in models.bodies(), models.bodies()[-2000:]
    # The control: in the agent's own cage the same command finds a phantom, settings and the host.
    models.forget()
    env = stage.for_cage(agent, models)
    with open(stage.home / ".config/keyward/policy.toml", "a") as policy:
        policy.write(f'[profiles.{agent}]\ntools.cage = "same"\n')
    ran = stage.run([stages.executable(), *stage.headless(agent, "NARROWLY please")], env)
    assert b" looked" in models.bodies(), (ran, models.problems)
    assert b"keys=0" not in models.bodies() and b"state=0" not in models.bodies() and b"host=000" not in models.bodies()


# Codex starts its shell by its path, which no shim catches.
test_the_commands_of_a_caged_agent_run_in_a_narrower_cage.agents = ["claude", "opencode", "gemini"]


READY = {"claude": "? for shortcuts", "codex": "Ask Codex", "opencode": "Ask anything", "gemini": "Type your message"}


def test_a_caged_agent_works_at_a_terminal(agent, stage, models):
    models.script.on("SAYHELLO", {"say": "GREETINGS"})
    models.script.on("WHATSIZE", {"shell": "stty size </dev/tty || true; printf 'siz%se' 2"}, {"say": "MEASURED"})
    env = stage.for_cage(agent, models)
    argv = [stages.executable(), agent] + (["-m", "double/scripted"] if agent == "opencode" else [])
    with Terminal(stage, argv, env) as terminal:
        shown = terminal.wait_for(READY[agent], "Do you want to use this API key?")
        if "Do you want" in shown:
            terminal.press("Up")
            terminal.wait_for("❯ 1. Yes")
            terminal.press("Enter")
            terminal.wait_for(READY[agent])
        terminal.type("SAYHELLO")
        terminal.wait_for("SAYHELLO")
        terminal.press("Enter")
        terminal.wait_for("GREETINGS")
        terminal.resize(70, 20)
        terminal.wait_for(READY[agent], "GREETINGS")
        assert max(len(line) for line in terminal.screen().splitlines()) <= 70
        # Ctrl-C clears what is typed, and ends the agent when it is pressed again.
        for _ in range(6):
            if terminal.code.exists():
                break
            terminal.press("C-c", check=False)
            time.sleep(0.4)
        assert terminal.end() in (0, 130)
    assert stage.marks_in(models.bodies()) == []
    assert any(stage.marks[KEYS[agent]].value in value for value in models.header_values())
