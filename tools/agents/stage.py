"""A stage for real agents: a throw-away HOME and project of an unprivileged user, 19 planted marks, and a double of the model.

    with Stage() as stage, stage.models() as models:
        models.script.on("LOOK", {"shell": "env"}, {"say": "done"})
        ran = stage.bare("claude", "LOOK around", models)
        stage.marks_in(models.bodies())
"""
import base64
import dataclasses
import json
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from models import Models, Script  # noqa: E402

AGENTS = pathlib.Path(os.environ.get("KEYWARD_AGENTS", "/opt/keyward-test-tools/agents"))
BIN = AGENTS / "node_modules/.bin"
ROOT = pathlib.Path(__file__).resolve().parents[2]
# The ordinary user of the tests, as in crates/cli/tests/support.
USER = 54321
PATH = f"{BIN}:/usr/local/bin:/usr/bin:/bin"


def executable():
    """The keyward that is tested."""
    given = os.environ.get("KEYWARD_TEST_EXECUTABLE")
    return pathlib.Path(given) if given else ROOT / "target/x86_64-unknown-linux-gnu/debug/keyward"


@dataclasses.dataclass
class Mark:
    """A planted secret: where it is, and its value. `core` is the part that no other text contains."""

    name: str
    core: str
    value: str


class Marks:
    """The 19 planted secrets: 7 variables, 11 files of HOME, and one `.env` of the project."""

    SHAPES = {
        # Variables
        "ANTHROPIC_API_KEY": "sk-ant-api03-{}-AA",
        "OPENAI_API_KEY": "sk-proj-{}",
        "GEMINI_API_KEY": "AIzaSy{}",
        "GITHUB_TOKEN": "ghp_{}",
        "AWS_SECRET_ACCESS_KEY": "{}/aK+bPxRfiC",
        "DATABASE_URL": "postgres://app:{}@db.example.test/app",
        "ACME_CONN": "acme://u:{}@acme.example.test",
        # Files of HOME
        ".aws/credentials": "{}/file+bPxRf",
        ".ssh/id_ed25519": "{}",
        ".netrc": "{}",
        ".npmrc": "npm_{}",
        ".config/gh/hosts.yml": "gho_{}",
        ".docker/config.json": "{}",
        ".claude/.credentials.json": "sk-ant-oat01-{}-AA",
        ".codex/auth.json": "sk-proj-{}",
        ".local/share/opencode/auth.json": "sk-{}",
        ".gemini/oauth_creds.json": "ya29.{}",
        ".hermes/.env": "sk-or-v1-{}",
        # The project
        ".env": "sk_live_{}",
    }

    def __init__(self):
        self.all = []
        for place, (name, shape) in enumerate(self.SHAPES.items(), 1):
            core = f"KWMARK{place:02d}{secrets.token_hex(10)}"
            self.all.append(Mark(name, core, shape.format(core)))

    def __getitem__(self, name):
        return next(mark for mark in self.all if mark.name == name)

    def variables(self):
        return {mark.name: mark.value for mark in self.all if mark.name.isupper()}

    def files(self):
        """The files of HOME with their contents, as the tools write them."""
        def value(name):
            return self[name].value

        later = 4_000_000_000_000
        docker = base64.b64encode(f"u:{value('.docker/config.json')}".encode()).decode()
        return {
            ".aws/credentials": f"[default]\naws_access_key_id = AKIAIOSFODNN7EXAMPLE\naws_secret_access_key = {value('.aws/credentials')}\n",
            ".ssh/id_ed25519": f"-----BEGIN OPENSSH PRIVATE KEY-----\n{value('.ssh/id_ed25519')}\n-----END OPENSSH PRIVATE KEY-----\n",
            ".netrc": f"machine git.example.test login u password {value('.netrc')}\n",
            ".npmrc": f"//registry.npmjs.org/:_authToken={value('.npmrc')}\n",
            ".config/gh/hosts.yml": f"github.com:\n    oauth_token: {value('.config/gh/hosts.yml')}\n    user: u\n    git_protocol: https\n",
            ".docker/config.json": json.dumps({"auths": {"https://index.docker.io/v1/": {"auth": docker, "password": value(".docker/config.json")}}}),
            ".claude/.credentials.json": json.dumps({"claudeAiOauth": {"accessToken": value(".claude/.credentials.json"), "refreshToken": "sk-ant-ort01-" + self[".claude/.credentials.json"].core, "expiresAt": later, "scopes": ["user:inference", "user:profile"], "subscriptionType": "max"}}),
            ".codex/auth.json": json.dumps({"OPENAI_API_KEY": value(".codex/auth.json")}),
            ".local/share/opencode/auth.json": json.dumps({"openrouter": {"type": "api", "key": value(".local/share/opencode/auth.json")}}),
            ".gemini/oauth_creds.json": json.dumps({"access_token": value(".gemini/oauth_creds.json"), "refresh_token": "1//" + self[".gemini/oauth_creds.json"].core, "token_type": "Bearer", "expiry_date": later}),
            ".hermes/.env": f"OPENROUTER_API_KEY={value('.hermes/.env')}\n",
        }

    def found_in(self, data):
        """The names of the marks that a text contains, plainly, in base64 or in hex."""
        if isinstance(data, str):
            data = data.encode()
        return [mark.name for mark in self.all if any(form in data for form in forms(mark.core.encode()))]


def forms(core):
    """What a mark looks like, plainly and encoded wherever it begins."""
    encoded = [core, core.hex().encode(), core[::-1]]
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + core)
        # Only the part that does not depend on the neighbours.
        encoded.append(whole[4 if before else 0 : len(whole) // 4 * 4 - 4])
    return encoded


# What an agent's shell tool is told to run: it looks wherever the marks are, and prints what it finds in a form that no agent cuts.
COLLECT = (
    "{ env; cat /proc/$$/environ /proc/$PPID/environ /proc/[0-9]*/environ | tr '\\0' '\\n'; "
    "cat ~/.aws/credentials ~/.ssh/id_ed25519 ~/.netrc ~/.npmrc ~/.config/gh/hosts.yml ~/.docker/config.json "
    "~/.claude/.credentials.json ~/.codex/auth.json ~/.local/share/opencode/auth.json ~/.gemini/oauth_creds.json ~/.hermes/.env .env; "
    "} 2>/dev/null | grep -aoE 'KWMARK[0-9a-f]+' | sort -u; echo LOOKED"
)


class Ran:
    """How a command ended, and what it printed."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return f"exit {self.code}\n--- stdout\n{self.out[-6000:]}\n--- stderr\n{self.err[-6000:]}"


class Stage:
    """A HOME and a project that are gone afterwards."""

    def __init__(self):
        root = os.geteuid() == 0
        self.user = USER if root else os.geteuid()
        # Not below /tmp, which is another one inside the cage.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="keyward-agents-", dir="/srv" if root else "/var/tmp"))
        self.folder.chmod(0o755)
        self.home, self.project = self.folder / "home", self.folder / "project"
        self.marks = Marks()
        for directory in (self.home, self.project):
            directory.mkdir()
        for name, text in self.marks.files().items():
            self.write(self.home / name, text, 0o600)
        self.write(self.project / ".env", f"STRIPE_KEY={self.marks['.env'].value}\n", 0o600)
        self.write(self.project / "README.md", "A project.\n")
        self.own(self.home, self.project)
        for command in (["init", "-q"], ["add", "README.md"], ["-c", "user.name=t", "-c", "user.email=t@example.test", "commit", "-qm", "begin"]):
            self.run(["git", *command], {}, check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def own(self, *paths):
        if os.geteuid() != 0:
            return
        for top in paths:
            os.chown(top, USER, USER)
            for path in pathlib.Path(top).rglob("*"):
                os.chown(path, USER, USER, follow_symlinks=False)

    def write(self, path, text, mode=0o644):
        path = pathlib.Path(path)
        made = [above for above in path.parents if not above.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        if os.geteuid() == 0:
            for one in [*made, path]:
                os.chown(one, USER, USER)
        return path

    def models(self, cert=None, key=None):
        return Models(Script(), cert=cert, key=key)

    def authority(self):
        """A certificate authority for the double: the paths of its certificate, and of one for the hosts of the models."""
        ca, cert, key = (self.folder / name for name in ("ca.pem", "cert.pem", "key.pem"))
        if not ca.exists():
            names = ",".join([*HOSTS, *OF_LOGINS, "localhost"])
            alt = ",".join(f"DNS:{name}" for name in names.split(",")) + ",IP:127.0.0.1"
            make(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{self.folder}/ca.key", "-out", ca, "-days", "2", "-subj", "/CN=double of models", "-addext", "basicConstraints=critical,CA:TRUE"])
            make(["req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", f"{self.folder}/csr", "-subj", "/CN=localhost"])
            extra = self.folder / "ext"
            extra.write_text(f"subjectAltName={alt}\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n")
            make(["x509", "-req", "-in", f"{self.folder}/csr", "-CA", ca, "-CAkey", f"{self.folder}/ca.key", "-CAcreateserial", "-days", "2", "-extfile", extra, "-out", cert])
            ca.chmod(0o644)
        return ca, cert, key

    def environment(self, extra=None, marks=True):
        variables = {"PATH": PATH, "HOME": str(self.home), "LANG": "C.UTF-8", "TERM": "xterm-256color", "USER": "tester", "SHELL": "/bin/bash"}
        if marks:
            variables |= self.marks.variables()
        return variables | (extra or {})

    def run(self, argv, env, timeout=180, check=False, text="", cwd=None):
        """Any program as the stage's user, in the project. All of its processes are ended when time is up."""
        ids = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
        process = subprocess.Popen(
            [str(word) for word in argv], env=self.environment(env, marks=bool(env)), cwd=cwd or self.project, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **ids)
        try:
            out, err = process.communicate(text.encode(), timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            err += b"\n(ended by the test after %d seconds)" % timeout
        ran = Ran(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))
        assert not check or ran.code == 0, ran
        return ran

    # Agents

    def headless(self, agent, prompt, resume=False):
        """The words that start an agent for one prompt, without questions and without its own sandbox."""
        if agent == "claude":
            return ["claude", *(["--continue"] if resume else []), "-p", prompt, "--dangerously-skip-permissions"]
        if agent == "codex":
            words = ["exec", *(["resume", "--last"] if resume else []), "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
            return ["codex", *words, prompt]
        if agent == "opencode":
            return ["opencode", "run", *(["--continue"] if resume else []), "-m", "double/scripted", prompt]
        if agent == "gemini":
            return ["gemini", *(["--resume", "latest"] if resume else []), "-m", "gemini-2.5-flash", "--approval-mode", "yolo", "-p", prompt]
        raise KeyError(agent)

    def configure(self, agent, url, mcp=None):
        """Settings of the agent that lead it to the double at `url`; gives the variables that it needs. `mcp` names stdio servers."""
        mcp = mcp or {}
        if agent == "claude":
            # A HOME that has seen the agent before: otherwise it begins with a connection check and questions.
            self.write(self.home / ".claude.json", json.dumps({
                "hasCompletedOnboarding": True, "bypassPermissionsModeAccepted": True, "numStartups": 3, "autoUpdates": False,
                "customApiKeyResponses": {"approved": [self.marks["ANTHROPIC_API_KEY"].value[-20:]], "rejected": []},
                "projects": {str(self.project): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True, "allowedTools": []}},
                "mcpServers": {name: {"type": "stdio", "command": argv[0], "args": argv[1:], "env": {}} for name, argv in mcp.items()},
            }), 0o600)
            return {"ANTHROPIC_BASE_URL": url} | CLAUDE if url else CLAUDE
        if agent == "codex":
            lines = ['model = "gpt-5.1-codex"', 'check_for_update_on_startup = false']
            if url:
                lines += ['model_provider = "double"', "[model_providers.double]", 'name = "double"', f'base_url = "{url}/v1"', 'wire_api = "responses"', 'env_key = "OPENAI_API_KEY"', "request_max_retries = 1", "stream_max_retries = 1"]
            lines += [f'[projects."{self.project}"]', 'trust_level = "trusted"']
            for name, argv in mcp.items():
                lines += [f"[mcp_servers.{name}]", f"command = {json.dumps(argv[0])}", f"args = {json.dumps(argv[1:])}"]
            self.write(self.home / ".codex/config.toml", "\n".join(lines) + "\n")
            return {}
        if agent == "opencode":
            provider = {"npm": "@ai-sdk/openai-compatible", "name": "double", "options": {"baseURL": f"{url}/v1", "apiKey": "{env:OPENAI_API_KEY}"}, "models": {"scripted": {"name": "scripted", "tool_call": True}}}
            servers = {name: {"type": "local", "command": argv, "enabled": True} for name, argv in mcp.items()}
            self.write(self.home / ".config/opencode/opencode.json", json.dumps({"$schema": "https://opencode.ai/config.json", "autoupdate": False, "share": "disabled", "permission": {"*": "allow"}, "small_model": "double/scripted", "provider": {"double": provider}, "mcp": servers}))
            return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}
        if agent == "gemini":
            servers = {name: {"command": argv[0], "args": argv[1:], "trust": True} for name, argv in mcp.items()}
            self.write(self.home / ".gemini/settings.json", json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}}, "general": {"disableAutoUpdate": True, "enableAutoUpdate": False}, "privacy": {"usageStatisticsEnabled": False}, "mcpServers": servers}))
            return {"GOOGLE_GEMINI_BASE_URL": url} | GEMINI if url else GEMINI
        raise KeyError(agent)

    def bare(self, agent, prompt, models, resume=False, mcp=None, timeout=180):
        """The agent as it is, without Keyward: the control."""
        return self.run(self.headless(agent, prompt, resume), {"PATH": PATH} | self.configure(agent, models.url, mcp), timeout)

    def caged(self, agent, prompt, models, resume=False, mcp=None, timeout=180, variables=None):
        """`keyward AGENT …`, with the double in the place of the model's host. It speaks https, with a certificate of `authority`."""
        return self.run([executable(), *self.headless(agent, prompt, resume)], self.for_cage(agent, models, mcp) | (variables or {}), timeout)

    def for_cage(self, agent, models, mcp=None):
        """Settings for `keyward AGENT`: the agent speaks to its usual host, which the policy leads to the double."""
        ca, _, _ = self.authority()
        hosts = "".join(f'[net.upstream."{host}"]\naddress = "127.0.0.1:{models.port}"\nca = "{ca}"\n' for host in [*HOSTS, *OF_LOGINS])
        self.write(self.home / ".config/keyward/policy.toml", f"version = 1\n{hosts}", 0o600)
        # OpenCode and Codex are given a provider that has the host of OpenAI.
        url = "https://api.openai.com" if agent in ("opencode", "codex") else None
        return {"PATH": PATH} | self.configure(agent, url, mcp)

    def marks_in(self, data):
        return self.marks.found_in(data)


HOSTS = ["api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com", "openrouter.ai"]
# Where logins are used and renewed.
OF_LOGINS = ["platform.claude.com", "console.anthropic.com", "auth.openai.com", "chatgpt.com", "cloudcode-pa.googleapis.com", "oauth2.googleapis.com", "www.googleapis.com"]
CLAUDE = {"DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
GEMINI = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}


def make(words):
    subprocess.run(["openssl", *[str(word) for word in words]], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
