"""The whole agent in a cage: `keyward AGENT`, with its built-in profile and nothing else. Its key works, and is not there."""
import json

import pytest
import stage as stages

HOSTS = ["api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com"]
KEYS = {"claude": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY"}
# The agent's own login in a file, which it may hold in another way.
LOGINS = {"claude": ".claude/.credentials.json", "codex": ".codex/auth.json", "opencode": ".local/share/opencode/auth.json", "gemini": ".gemini/oauth_creds.json"}


@pytest.fixture
def served(stage):
    """The double in the place of the providers' own hosts, by the user's policy."""
    ca, cert, key = stage.authority()
    with stage.models(cert, key) as models:
        port = models.url.rsplit(":", 1)[1].strip("/")
        hosts = "".join(f'[net.upstream."{host}"]\naddress = "127.0.0.1:{port}"\nca = "{ca}"\n' for host in HOSTS)
        stage.write(stage.home / ".config/keyward/policy.toml", "version = 1\n" + hosts)
        yield models


def caged(stage, agent, prompt, url=None, resume=False):
    # The key of the environment is what is tried here.
    (stage.home / LOGINS[agent]).unlink(missing_ok=True)
    words = [word for word in stage.headless(agent, prompt, resume) if word != "--dangerously-bypass-approvals-and-sandbox"]
    if agent == "opencode" and url is None:
        url = "https://api.openai.com"
    variables = {"PATH": stages.PATH} | stage.configure(agent, url)
    if agent == "codex":
        # Of the environment it takes this one.
        variables["CODEX_API_KEY"] = key_of(stage, agent)
    return stage.run([stages.executable(), *words], variables)


def key_of(stage, agent):
    return stage.marks[KEYS.get(agent, "OPENAI_API_KEY")].value


def test_an_agent_works_with_a_phantom_and_shows_its_model_no_mark(agent, stage, served):
    served.script.on("LOOKHARD", {"shell": stages.COLLECT}, {"shell": "echo made > made.txt"}, {"say": "FINISHED"})
    ran = caged(stage, agent, "LOOKHARD please")
    assert ran.code == 0 and "FINISHED" in ran.out, (ran, served.problems)
    assert b"LOOKED" in served.bodies()
    assert stage.marks_in(served.bodies()) == [], ran
    assert (stage.project / "made.txt").read_text() == "made\n"
    # The model's host has the real key; it is in nothing that the agent printed or kept.
    assert any(key_of(stage, agent) in value for value in served.header_values()), served.requests
    assert stage.marks_in(ran.out + ran.err) == []
    kept = stage.home / ".local/state/keyward"
    for path in (path for path in kept.rglob("*") if path.is_file() and not path.is_symlink()):
        assert stage.marks_in(path.read_bytes()) == [], path


def test_a_conversation_of_a_caged_agent_is_resumed(agent, stage, served):
    served.script.on("FIRSTLY", {"shell": "echo one"}, {"say": "FIRST DONE"})
    served.script.on("SECONDLY", {"shell": "echo two"}, {"say": "SECOND DONE"})
    first = caged(stage, agent, "FIRSTLY please")
    assert "FIRST DONE" in first.out, (first, served.problems)
    served.forget()
    second = caged(stage, agent, "SECONDLY please", resume=True)
    assert "SECOND DONE" in second.out, (second, served.problems)
    assert b"FIRST DONE" in served.bodies(), "the conversation was not resumed"


def test_a_gateway_of_this_machine_gets_the_key_by_the_users_base_url(agent, stage, models):
    ran = caged(stage, agent, "hello", models.url)
    assert ran.code == 0, ran
    assert any(key_of(stage, agent) in value for value in models.header_values()), (ran, models.requests)
    assert stage.marks_in(models.bodies()) == []


test_a_gateway_of_this_machine_gets_the_key_by_the_users_base_url.agents = ["claude", "gemini"]


def test_a_project_does_not_choose_the_gateway(agent, stage, served, models):
    """Settings of the project lead the agent to a server of the attacker's: nothing arrives there but at most a phantom."""
    (stage.project / ".claude").mkdir()
    stage.write(stage.project / ".claude/settings.json", json.dumps({"env": {"ANTHROPIC_BASE_URL": models.url}}))
    with open(stage.project / ".env", "a") as file:
        file.write(f"ANTHROPIC_BASE_URL={models.url}\n")
    caged(stage, agent, "hello")
    assert stage.marks_in("".join(models.header_values())) == [], models.requests


test_a_project_does_not_choose_the_gateway.agents = ["claude"]
