"""Agents outside, their tools inside: `keyward init` on the settings of real agents. The control is in test_bare.py."""
import json
import os
import signal
import subprocess
import time

import stage as stages


def init(stage, agent, *more):
    return stage.run([stages.executable(), "init", agent, "--yes", *more], {"LANG": "C.UTF-8"}, check=True)


def sessions(stage):
    return stage.run([stages.executable(), "ps"], {"LANG": "C.UTF-8"}).out


def results(models):
    """What the tools of Claude have given back, in order, as the model was told."""
    bodies = [json.loads(request.body) for request in models.requests if b'"tool_result"' in request.body]
    found = []
    for message in bodies[-1]["messages"] if bodies else []:
        for part in message["content"] if isinstance(message["content"], list) else []:
            if part.get("type") == "tool_result":
                content = part["content"]
                found.append(content if isinstance(content, str) else "".join(one.get("text", "") for one in content))
    return found


def test_no_mark_reaches_the_model_of_a_hooked_claude(stage, models):
    init(stage, "claude-code")
    files = [{"read": str(stage.home / name)} for name in stage.marks.files()] + [{"read": str(stage.project / ".env")}]
    models.script.on("LOOKHARD", {"shell": stages.COLLECT}, files, {"say": "FINISHED"})
    ran = stage.bare("claude", "LOOKHARD please", models)
    assert "FINISHED" in ran.out, (ran, models.problems)
    told = results(models)
    assert "LOOKED" in told[0] and len(told) == 1 + len(files), told
    assert stage.marks_in(models.bodies()) == []
    assert "claude-" not in sessions(stage)


def test_a_hooked_claude_keeps_its_directory_and_its_background_commands(stage, models):
    init(stage, "claude-code")
    models.script.on(
        "WORK",
        {"shell": "mkdir -p sub/deep && cd sub/deep && echo in > file"},
        {"shell": "pwd; cat file; exit 3"},
        {"shell": "sleep 1; echo behind", "background": True},
        [{"shell": "printf 'par%sone' 2"}, {"shell": "printf 'par%stwo' 2"}],
        {"say": "FINISHED"},
    )
    ran = stage.bare("claude", "WORK please", models)
    # The end of the background command is a message of its own, behind the last turn.
    assert ran.code == 0 and b"FINISHED" in models.bodies() + ran.out.encode(), (ran, models.problems)
    told = results(models)
    assert f"{stage.project}/sub/deep\nin" in told[1] and "Exit code 3" in told[1], told
    assert "running in background" in told[2], told
    # Which of the two ends first is open.
    assert sorted(told[3:5]) == ["par2one", "par2two"], told


def test_a_denied_command_tells_claude_to_stop(stage, models):
    init(stage, "claude-code")
    models.script.on("DENY", {"shell": "dd if=/dev/zero of=/dev/sda"}, {"say": "FINISHED"})
    stage.bare("claude", "DENY please", models)
    told = results(models)[0]
    line = json.loads(next(line for line in told.splitlines() if line.startswith("{")))
    assert line["rule"] == "write-disk" and line["retry"] is False and line["allowed"]


def test_a_hook_that_is_killed_late_or_garbage_leaves_commands_in_the_session(stage, models):
    """The program before each command holds without the hook. File tools do not, which docs/agents/outside.md says."""
    settings = stage.home / ".claude/settings.json"
    for number, line in enumerate(["kill -9 $$", "sleep 30", "echo garbage", "exit 1"]):
        init(stage, "claude-code")
        value = json.loads(settings.read_text())
        value["hooks"]["PreToolUse"][0]["hooks"][0].update(command=line, timeout=1)
        settings.write_text(json.dumps(value))
        models.script.on(f"WORD{number}", {"shell": stages.COLLECT}, {"say": "FINISHED"})
        ran = stage.bare("claude", f"WORD{number} please", models)
        assert "FINISHED" in ran.out, (line, ran, models.problems)
        assert "LOOKED" in results(models)[-1], line
        assert stage.marks_in(models.bodies()) == [], line
        models.forget()
        settings.unlink()


def test_without_keyward_the_tool_calls_of_a_hooked_claude_fail(stage, models):
    init(stage, "claude-code")
    for file in (stage.home / ".claude/settings.json", stage.home / ".local/share/keyward/agents/keyward-claude-shell"):
        file.write_text(file.read_text().replace(str(stages.executable()), "/nonexistent/keyward"))
    models.script.on("GONE", [{"shell": stages.COLLECT}, {"read": str(stage.project / ".env")}], {"say": "FINISHED"})
    stage.bare("claude", "GONE please", models)
    assert len(results(models)) == 2, results(models)
    assert stage.marks_in(models.bodies()) == []


def test_the_session_of_a_killed_claude_ends(stage, models):
    init(stage, "claude-code")
    models.script.on("WAIT", {"shell": "touch began; sleep 600"}, {"say": "FINISHED"})
    env = stage.environment({"PATH": stages.PATH} | stage.configure("claude", models.url))
    ids = {"user": stages.USER, "group": stages.USER, "extra_groups": []} if os.geteuid() == 0 else {}
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    words = stage.headless("claude", "WAIT please")
    claude = subprocess.Popen([str(stages.BIN / words[0]), *words[1:]], env=env, cwd=stage.project, start_new_session=True, **streams, **ids)
    until = time.monotonic() + 60
    while not (stage.project / "began").exists():
        assert time.monotonic() < until and claude.poll() is None
        time.sleep(0.1)
    assert "claude-" in sessions(stage)
    os.killpg(claude.pid, signal.SIGKILL)
    claude.wait()
    until = time.monotonic() + 60
    while "claude-" in sessions(stage):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_undo_gives_claude_back_every_byte(stage):
    settings = stage.write(stage.home / ".claude/settings.json", '{\n\t"model" : "opus"}')
    before = settings.read_bytes()
    init(stage, "claude-code")
    assert settings.read_bytes() != before
    init(stage, "claude-code", "--undo")
    assert settings.read_bytes() == before


WORDS = {"codex": "codex", "gemini": "gemini", "opencode": "opencode"}


def hooked(stage, agent, prompt, models):
    """The agent after `keyward init`."""
    variables = {"PATH": stages.PATH} | stage.configure(agent, models.url)
    init(stage, WORDS[agent])
    words = stage.headless(agent, prompt)
    if agent == "codex":
        # In the place of the user, who trusts new hooks once.
        words[2:2] = ["--dangerously-bypass-hook-trust"]
    return stage.run(words, variables)


def test_no_mark_reaches_the_model_of_another_hooked_agent(agent, stage, models):
    files = [] if agent == "codex" else [{"read": str(stage.project / ".env")}, {"read": str(stage.home / ".netrc")}]
    turns = [{"shell": stages.COLLECT}] + ([files] if files else [])
    models.script.on("LOOKHARD", *turns, {"say": "FINISHED"})
    ran = hooked(stage, agent, "LOOKHARD please", models)
    assert "FINISHED" in ran.out, (ran, models.problems)
    assert b"LOOKED" in models.bodies()
    assert stage.marks_in(models.bodies()) == []
    until = time.monotonic() + 60
    while f"{agent}-" in sessions(stage):
        assert time.monotonic() < until, "the session did not end with the agent"
        time.sleep(0.1)


test_no_mark_reaches_the_model_of_another_hooked_agent.agents = ["codex", "gemini", "opencode"]


def test_a_denied_command_tells_another_agent_to_stop(agent, stage, models):
    models.script.on("DENY", {"shell": "dd if=/dev/zero of=/dev/sda"}, {"say": "FINISHED"})
    hooked(stage, agent, "DENY please", models)
    assert b"write-disk" in models.bodies() and b"Do not retry" in models.bodies()


test_a_denied_command_tells_another_agent_to_stop.agents = ["codex", "gemini", "opencode"]


def test_without_keyward_the_tool_calls_of_opencode_fail(stage, models):
    variables = {"PATH": stages.PATH} | stage.configure("opencode", models.url)
    init(stage, "opencode")
    plugin = stage.home / ".config/opencode/plugin/keyward.js"
    plugin.write_text(plugin.read_text().replace(str(stages.executable()), "/nonexistent/keyward"))
    models.script.on("GONE", [{"shell": stages.COLLECT}, {"read": str(stage.project / ".env")}], {"say": "FINISHED"})
    stage.run(stage.headless("opencode", "GONE please"), variables)
    assert b"so the call is denied" in models.bodies() and stage.marks_in(models.bodies()) == []
