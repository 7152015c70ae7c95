//! The login files whose secret fields are known: where they stand, what each field is bound to, how it is renewed. Data with a reason per
//! row. A file that is not here is shown as `tools.toml` says.

use super::{File, Form, Format, Grant, Role, Row, To, Unit};
use crate::provider::{Alphabet, Part, Shape};

const ANTHROPIC_ACCESS: Shape =
    Shape(&[Part::Text("sk-ant-oat01-"), Part::Random(Alphabet::Base64Url, 86), Part::Text("-AAAAAAA")]);
const ANTHROPIC_REFRESH: Shape =
    Shape(&[Part::Text("sk-ant-ort01-"), Part::Random(Alphabet::Base64Url, 86), Part::Text("-AAAAAAA")]);
const OPENAI_REFRESH: Shape = Shape(&[Part::Text("rt_"), Part::Random(Alphabet::Base64Url, 87)]);
const GOOGLE_ACCESS: Shape = Shape(&[Part::Text("ya29."), Part::Random(Alphabet::Base64Url, 180)]);
const GOOGLE_REFRESH: Shape = Shape(&[Part::Text("1//0"), Part::Random(Alphabet::Base64Url, 95)]);
const JWT: Shape = Shape(&[Part::Jwt]);

/// Where access tokens of a Claude account are good.
const ANTHROPIC: &[&str] = &["api.anthropic.com", "mcp-proxy.anthropic.com"];
/// Where they are renewed: the agent changed its host, and kept the path.
const ANTHROPIC_TOKENS: &[&str] = &[
    "POST platform.claude.com/v1/oauth/token",
    "POST console.anthropic.com/v1/oauth/token",
    "POST api.anthropic.com/v1/oauth/token",
];
const CHATGPT: &[&str] = &["chatgpt.com"];
const OPENAI_TOKENS: &[&str] = &["POST auth.openai.com/oauth/token"];
const OPENAI: &[&str] = &["api.openai.com"];
/// The assistant of a Google account, and who the account is.
const GOOGLE: &[&str] = &[
    "cloudcode-pa.googleapis.com",
    "www.googleapis.com/oauth2/v2/userinfo",
    "oauth2.googleapis.com/tokeninfo",
];
const GOOGLE_TOKENS: &[&str] = &["POST oauth2.googleapis.com/token"];

const fn row(at: &'static [&'static str], role: Role, to: To, shape: Option<Shape>) -> Row {
    Row { at, role, to, shape, form: Form::Text, grant: 0 }
}

/// The same, for the second grant of a file.
const fn second(row: Row) -> Row {
    Row { grant: 1, ..row }
}

/// Neither a host nor a value: when a token ends, or was renewed.
const fn time(at: &'static [&'static str], role: Role) -> Row {
    row(at, role, To::Rules(&[]), None)
}

pub(super) const FILES: &[File] = &[
    File {
        name: "claude",
        path: ".claude/.credentials.json",
        format: Format::Json { guesses: true },
        rows: &[
            row(
                &["claudeAiOauth", "accessToken"],
                Role::Access,
                To::Rules(ANTHROPIC),
                Some(ANTHROPIC_ACCESS),
            ),
            row(
                &["claudeAiOauth", "refreshToken"],
                Role::Refresh,
                To::Rules(ANTHROPIC_TOKENS),
                Some(ANTHROPIC_REFRESH),
            ),
            time(&["claudeAiOauth", "expiresAt"], Role::Ends(Unit::Milliseconds)),
        ],
        plain: &["subscriptionType", "rateLimitTier", "scopes", "organizationUuid"],
        grants: &[Grant { tokens: ANTHROPIC_TOKENS, account: "Anthropic" }],
        beside: &[],
    },
    // The account, and servers to start with their keys. Most of it is neither.
    File {
        name: "claude-settings",
        path: ".claude.json",
        format: Format::Json { guesses: false },
        rows: &[row(&["primaryApiKey"], Role::Key, To::Named("anthropic"), None)],
        plain: &[],
        grants: &[],
        beside: &[],
    },
    // Variables that it sets for itself, sometimes a key among them; servers to start.
    File {
        name: "claude-variables",
        path: ".claude/settings.json",
        format: Format::Settings,
        rows: &[
            row(&["env", "ANTHROPIC_API_KEY"], Role::Key, To::Named("anthropic"), None),
            row(&["env", "ANTHROPIC_AUTH_TOKEN"], Role::Key, To::Named("anthropic-token"), None),
            row(&["env", "CLAUDE_CODE_OAUTH_TOKEN"], Role::Key, To::Named("claude"), None),
        ],
        // Programs that give a credential, and ways to log in.
        plain: &[
            "apiKeyHelper",
            "awsAuthRefresh",
            "awsCredentialExport",
            "forceLoginMethod",
            "forceLoginOrgUUID",
        ],
        grants: &[],
        beside: &[],
    },
    File {
        name: "codex-settings",
        path: ".codex/config.toml",
        format: Format::Toml,
        rows: &[],
        plain: &[],
        grants: &[],
        beside: &[],
    },
    File {
        name: "gemini-settings",
        path: ".gemini/settings.json",
        format: Format::Settings,
        rows: &[],
        plain: &["selectedType", "enforcedType"],
        grants: &[],
        beside: &[],
    },
    File {
        name: "codex",
        path: ".codex/auth.json",
        format: Format::Json { guesses: true },
        rows: &[
            row(&["OPENAI_API_KEY"], Role::Key, To::Rules(OPENAI), None),
            // The agent reads the claims of all three: the account, the plan, the end.
            row(&["tokens", "access_token"], Role::Access, To::Rules(CHATGPT), Some(JWT)),
            row(&["tokens", "id_token"], Role::Id, To::Rules(OPENAI_TOKENS), Some(JWT)),
            row(&["tokens", "refresh_token"], Role::Refresh, To::Rules(OPENAI_TOKENS), Some(OPENAI_REFRESH)),
            time(&["last_refresh"], Role::Renewed),
        ],
        plain: &["account_id", "auth_mode", "last_refresh"],
        grants: &[Grant { tokens: OPENAI_TOKENS, account: "OpenAI" }],
        beside: &[],
    },
    File {
        name: "gemini",
        path: ".gemini/oauth_creds.json",
        format: Format::Json { guesses: true },
        rows: &[
            row(&["access_token"], Role::Access, To::Rules(GOOGLE), Some(GOOGLE_ACCESS)),
            row(&["id_token"], Role::Id, To::Rules(GOOGLE_TOKENS), Some(JWT)),
            row(&["refresh_token"], Role::Refresh, To::Rules(GOOGLE_TOKENS), Some(GOOGLE_REFRESH)),
            time(&["expiry_date"], Role::Ends(Unit::Milliseconds)),
        ],
        plain: &["scope", "token_type"],
        grants: &[Grant { tokens: GOOGLE_TOKENS, account: "Google" }],
        beside: &[],
    },
    File {
        name: "gemini-env",
        path: ".gemini/.env",
        format: Format::Dotenv,
        rows: &[],
        plain: &[],
        grants: &[],
        beside: &[],
    },
    // Encrypted, with a key that any program of the user can make: it is not JSON, and so it is not shown.
    File {
        name: "gemini-encrypted",
        path: ".gemini/gemini-credentials.json",
        format: Format::Json { guesses: true },
        rows: &[],
        plain: &[],
        grants: &[],
        beside: &[],
    },
    // Tokens of MCP servers at hosts of anyone's: they read as empty.
    File {
        name: "gemini-mcp",
        path: ".gemini/mcp-oauth-tokens.json",
        format: Format::Json { guesses: true },
        rows: &[],
        plain: &["serverName", "tokenType", "scope"],
        grants: &[],
        beside: &[],
    },
    File {
        name: "gemini-mcp-encrypted",
        path: ".gemini/mcp-oauth-tokens-v2.json",
        format: Format::Json { guesses: true },
        rows: &[],
        plain: &[],
        grants: &[],
        beside: &[],
    },
    File {
        name: "opencode-mcp",
        path: ".local/share/opencode/mcp-auth.json",
        format: Format::Json { guesses: true },
        rows: &[],
        plain: &[],
        grants: &[],
        beside: &[],
    },
    File {
        name: "opencode",
        path: ".local/share/opencode/auth.json",
        format: Format::Json { guesses: true },
        rows: &[
            row(&["*", "key"], Role::Key, To::Provider(0), None),
            row(&["anthropic", "access"], Role::Access, To::Rules(ANTHROPIC), Some(ANTHROPIC_ACCESS)),
            row(
                &["anthropic", "refresh"],
                Role::Refresh,
                To::Rules(ANTHROPIC_TOKENS),
                Some(ANTHROPIC_REFRESH),
            ),
            time(&["anthropic", "expires"], Role::Ends(Unit::Milliseconds)),
            second(row(&["openai", "access"], Role::Access, To::Rules(CHATGPT), Some(JWT))),
            second(row(
                &["openai", "refresh"],
                Role::Refresh,
                To::Rules(OPENAI_TOKENS),
                Some(OPENAI_REFRESH),
            )),
            second(time(&["openai", "expires"], Role::Ends(Unit::Milliseconds))),
        ],
        plain: &["type", "accountId"],
        grants: &[
            Grant { tokens: ANTHROPIC_TOKENS, account: "Anthropic" },
            Grant { tokens: OPENAI_TOKENS, account: "OpenAI" },
        ],
        beside: &[],
    },
    File {
        name: "gh",
        path: ".config/gh/hosts.yml",
        format: Format::Yaml,
        rows: &[
            row(&["*", "oauth_token"], Role::Key, To::Forge(0), None),
            row(&["*", "users", "*", "oauth_token"], Role::Key, To::Forge(0), None),
        ],
        plain: &["git_protocol", "user"],
        grants: &[],
        // Aliases, the editor.
        beside: &[".config/gh/config.yml"],
    },
    File {
        name: "npm",
        path: ".npmrc",
        format: Format::Npmrc,
        rows: &[],
        plain: &[],
        grants: &[],
        beside: &[],
    },
    File {
        name: "netrc",
        path: ".netrc",
        format: Format::Netrc,
        rows: &[],
        plain: &[],
        grants: &[],
        beside: &[],
    },
    File {
        name: "git",
        path: ".git-credentials",
        format: Format::Urls,
        rows: &[],
        plain: &[],
        grants: &[],
        beside: &[],
    },
    File {
        name: "git-config",
        path: ".config/git/credentials",
        format: Format::Urls,
        rows: &[],
        plain: &[],
        grants: &[],
        beside: &[],
    },
    File {
        name: "docker",
        path: ".docker/config.json",
        format: Format::Json { guesses: true },
        rows: &[
            Row {
                form: Form::UserAndPassword,
                ..row(&["auths", "*", "auth"], Role::Key, To::Registry(1), None)
            },
            row(&["auths", "*", "password"], Role::Key, To::Registry(1), None),
            row(&["auths", "*", "registrytoken"], Role::Key, To::Registry(1), None),
        ],
        // The names of programs that keep logins, which are not in the cage.
        plain: &["credsStore", "username", "email", "currentContext"],
        grants: &[],
        beside: &[],
    },
    File {
        name: "hermes-env",
        path: ".hermes/.env",
        format: Format::Dotenv,
        rows: &[],
        plain: &[],
        grants: &[],
        beside: &[],
    },
    File {
        name: "hermes",
        path: ".hermes/auth.json",
        format: Format::Json { guesses: true },
        rows: &[
            row(
                &["providers", "openai-codex", "tokens", "access_token"],
                Role::Access,
                To::Rules(CHATGPT),
                Some(JWT),
            ),
            row(
                &["providers", "openai-codex", "tokens", "refresh_token"],
                Role::Refresh,
                To::Rules(OPENAI_TOKENS),
                Some(OPENAI_REFRESH),
            ),
            time(&["providers", "openai-codex", "last_refresh"], Role::Renewed),
            // Keys that were added by `hermes auth add`, and the tokens above once more.
            row(&["credential_pool", "*", "access_token"], Role::Key, To::Provider(1), None),
            row(
                &["credential_pool", "openai-codex", "access_token"],
                Role::Access,
                To::Rules(CHATGPT),
                Some(JWT),
            ),
        ],
        plain: &["active_provider", "auth_mode", "last_refresh", "account_id", "token_type", "scope"],
        grants: &[Grant { tokens: OPENAI_TOKENS, account: "OpenAI" }],
        beside: &[],
    },
];
