"""Agents with the login of an account in their own file and no key in the environment: `keyward AGENT` uses it with no set-up. The
agent holds phantoms; the real tokens are at the hosts of the account alone, and renewed ones reach the user's file."""
import base64
import json
import secrets
import time

import pytest
import stage as stages

EARLIER, LATER = 1_700_000_000, 4_000_000_000


def jwt(word, ends):
    """A token as OpenAI gives it: the agent reads its claims. The mark is the signature."""
    def part(value):
        return base64.urlsafe_b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).decode().rstrip("=")

    account = {"chatgpt_account_id": "11111111-2222-3333-4444-555555555555", "chatgpt_plan_type": "plus", "chatgpt_user_id": "user-1"}
    claims = {"email": "ann@example.test", "exp": ends, "iat": EARLIER, "https://api.openai.com/auth": account}
    return f"{part({'alg': 'RS256', 'typ': 'JWT'})}.{part(claims)}.{part((word + secrets.token_hex(64)).encode())}"


class Login:
    """The login of one agent: its file, its tokens and those that follow, each with a mark of its own."""

    FILES = {"claude": ".claude/.credentials.json", "codex": ".codex/auth.json", "gemini": ".gemini/oauth_creds.json", "opencode": ".local/share/opencode/auth.json"}

    def __init__(self, agent, stage, ends):
        self.agent, self.path = agent, stage.home / self.FILES[agent]
        self.words = [f"KWLOGIN{secrets.token_hex(12)}" for _ in range(4)]
        shapes = {"claude": ("sk-ant-oat01-{}-AA", "sk-ant-ort01-{}-AA"), "gemini": ("ya29.{}", "1//0{}"), "opencode": ("sk-proj-{}", "{}"), "codex": (None, "rt_{}")}
        access, refresh = shapes[agent]
        make = (lambda word, ends: jwt(word, ends)) if agent == "codex" else (lambda word, _: access.format(word))
        self.access, self.next_access = make(self.words[0], ends), make(self.words[2], LATER)
        self.refresh, self.next_refresh = refresh.format(self.words[1]), refresh.format(self.words[3])
        self.ends = ends
        stage.write(self.path, json.dumps(self.content(), indent=1), 0o600)

    def content(self):
        milliseconds = self.ends * 1000
        if self.agent == "claude":
            return {"claudeAiOauth": {"accessToken": self.access, "refreshToken": self.refresh, "expiresAt": milliseconds, "scopes": ["user:inference", "user:profile"], "subscriptionType": "max"}}
        if self.agent == "codex":
            renewed = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(EARLIER if self.ends == EARLIER else time.time()))
            return {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": {"id_token": jwt("id", LATER), "access_token": self.access, "refresh_token": self.refresh, "account_id": "11111111-2222-3333-4444-555555555555"}, "last_refresh": renewed}
        if self.agent == "gemini":
            return {"access_token": self.access, "refresh_token": self.refresh, "token_type": "Bearer", "scope": "https://www.googleapis.com/auth/cloud-platform", "expiry_date": milliseconds}
        return {"openai": {"type": "api", "key": self.access}}

    def granted(self):
        """What the host answers to a renewal."""
        answer = {"token_type": "Bearer", "access_token": self.next_access, "refresh_token": self.next_refresh, "expires_in": 28800, "scope": "user:inference user:profile"}
        return answer | ({"id_token": jwt("id", LATER)} if self.agent == "codex" else {})

    def found_in(self, data):
        data = data.encode() if isinstance(data, str) else data
        return [word for word in self.words if any(form in data for form in stages.forms(word.encode()))]


@pytest.fixture
def served(stage):
    _, cert, key = stage.authority()
    with stage.models(cert, key) as models:
        yield models


def caged(stage, agent, prompt, models):
    variables = stage.for_cage(agent, models)
    if agent == "codex":
        # Its own provider, with the login.
        stage.configure("codex", None)
        with open(stage.home / ".codex/config.toml", "a") as file:
            # The double reads no compressed requests.
            file.write("[features]\nenable_request_compression = false\n")
    if agent == "gemini":
        settings = stage.home / ".gemini/settings.json"
        value = json.loads(settings.read_text())
        value["security"]["auth"]["selectedType"] = "oauth-personal"
        stage.write(settings, json.dumps(value))
    if agent == "opencode":
        settings = stage.home / ".config/opencode/opencode.json"
        value = json.loads(settings.read_text())
        del value["provider"]["double"]["options"]["apiKey"]
        value["provider"]["openai"] = {"models": {"scripted": {"name": "scripted", "tool_call": True}}, "options": {}}
        value["small_model"] = "openai/scripted"
        stage.write(settings, json.dumps(value))
    words = [word.replace("double/scripted", "openai/scripted") for word in stage.headless(agent, prompt)]
    words = [word for word in words if word != "--dangerously-bypass-approvals-and-sandbox"]
    # No key in the environment: the login is all that the agent has.
    without = {name: "" for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY")}
    return stage.run([stages.executable(), *words], variables | without)


LOOK = "cat ~/.claude/.credentials.json ~/.codex/auth.json ~/.gemini/oauth_creds.json ~/.local/share/opencode/auth.json 2>/dev/null; env; echo LOOKED"


def check(stage, agent, login, models, ran):
    """Nothing of the login is anywhere but at its hosts and in the user's own file."""
    assert "FINISHED" in ran.out, (ran, models.problems, [(one.path, one.headers.get("host")) for one in models.requests])
    assert b"LOOKED" in models.bodies()
    talk = [request for request in models.requests if not request.path.endswith("/token")]
    bodies = b"\n".join(request.body for request in talk)
    assert login.found_in(bodies) == [] and login.found_in(ran.out + ran.err) == []
    assert stage.marks_in(bodies) == []
    kept = stage.home / ".local/state/keyward"
    for path in (path for path in kept.rglob("*") if path.is_file() and not path.is_symlink()):
        assert login.found_in(path.read_bytes()) == [], path


def test_the_login_of_an_account_works_with_no_set_up_and_is_not_in_the_cage(agent, stage, served):
    login = Login(agent, stage, LATER)
    before = login.path.read_bytes()
    served.script.on("LOOKHARD", {"shell": LOOK}, {"say": "FINISHED"})
    ran = caged(stage, agent, "LOOKHARD please", served)
    check(stage, agent, login, served, ran)
    assert any(login.access in value for value in served.header_values()), [(one.path, one.headers) for one in served.requests]
    assert login.path.read_bytes() == before


def test_tokens_that_an_agent_renews_reach_the_users_file_and_not_the_cage(agent, stage, served):
    login = Login(agent, stage, EARLIER)
    served.grants[login.refresh] = login.granted()
    served.script.on("LOOKHARD", {"shell": LOOK}, {"say": "FINISHED"})
    ran = caged(stage, agent, "LOOKHARD please", served)
    check(stage, agent, login, served, ran)
    assert any(login.next_access in value for value in served.header_values()), [(one.path, one.headers) for one in served.requests]
    now = login.path.read_text()
    assert login.next_access in now and login.access not in now
    # The next start needs no renewal.
    served.forget()
    again = caged(stage, agent, "LOOKHARD please", served)
    assert "FINISHED" in again.out, (again, served.problems)
    assert not any(request.path.endswith("/token") for request in served.requests)


test_tokens_that_an_agent_renews_reach_the_users_file_and_not_the_cage.agents = ["claude", "codex", "gemini"]
