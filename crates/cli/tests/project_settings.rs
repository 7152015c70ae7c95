//! Settings of projects that hold a credential: the command sees them without it, and works on those that hold none.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{Stage, keyward, stderr, stdout};

const SECRET: &str = "canary-5521-AB12cd";

/// Files of today's tools with a credential among harmless lines, and what a command sees of each.
fn files() -> Vec<(&'static str, String, String)> {
    let file = |path, before: &str, after: &str| {
        (path, format!("{before}{SECRET}{after}"), format!("{before}{after}"))
    };
    vec![
        file(
            "docker-compose.yml",
            "services:\n  db:\n    environment:\n      POSTGRES_PASSWORD: ",
            "\n    image: postgres:16\n",
        ),
        file(
            "deploy/compose.prod.yaml",
            "services:\n  web:\n    environment:\n      - API_KEY=",
            "\n      - PORT=80\n",
        ),
        file(
            "src/main/resources/application.properties",
            "server.port=80\nspring.datasource.password=",
            "\n",
        ),
        file(
            "src/main/resources/application.yml",
            "spring:\n  datasource:\n    password: ",
            "\n    username: app\n",
        ),
        file("appsettings.Development.json", "{\"Db\": \"Server=x;Password=", ";Encrypt=true\"}\n"),
        file(".codex/config.toml", "[mcp_servers.x.env]\nTOKEN = \"", "\"\nmodel = \"o\"\n"),
        file(
            ".vscode/settings.json",
            "{ // ours\n  \"ext.apiKey\": \"",
            "\",\n  \"editor.tabSize\": 2,\n}\n",
        ),
        file(".vscode/launch.json", "{\"env\": {\"API_TOKEN\": \"", "\"}}\n"),
        file("wrangler.toml", "name = \"x\"\n[vars]\nAPI_TOKEN = \"", "\"\n"),
        file("serverless.yml", "provider:\n  environment:\n    STRIPE_SECRET: ", "\n  runtime: x\n"),
        file("config/database.yml", "production:\n  password: \"", "\"\n  pool: 5\n"),
        file("chart/values.yaml", "auth:\n  rootPassword: ", "\nreplicas: 2\n"),
        file("k8s/db-secret.yaml", "kind: Secret\ndata:\n  any: ", "\n"),
        file(".jupyter/jupyter_server_config.json", "{\"ServerApp\": {\"token\": \"", "\"}}\n"),
        file(
            "pyproject.toml",
            "[project]\nname = \"x\"\n[[tool.poetry.source]]\nurl = \"https://bob:",
            "@host/simple\"\n",
        ),
        file("requirements.txt", "--index-url https://bob:", "@host/simple\nrequests==2.31.0\n"),
        file(".gitlab-ci.yml", "variables:\n  DEPLOY_TOKEN: ", "\njob:\n  script: [make]\n"),
        file("group_vars/all.yml", "db_password: ", "\nport: 1\n"),
        // Names that stand on another line or are written with escapes, and values that have none.
        file("config.yml", "? password\n: ", "\nport: 1\n"),
        file("config.json", "{\"pass\\u0077ord\": \"", "\"}\n"),
        file(".travis.yml", "script:\n  - curl -u bob:", " https://a.test\n"),
        file("redis.conf", "port 1\nuser bob on >", " ~* +@all\n"),
        file(".zed/settings.json", "{\"api_key\": \"", "\",}\n"),
        // Sources.
        file("app/settings.py", "import os\nSECRET_KEY = \"", "\"\nDEBUG = True\n"),
        file("app/settings/base.py", "DATABASES = {'default': {'PASSWORD': '", "', 'PORT': 1}}\n"),
        file("main.tf", "variable \"db_password\" {\n  default = \"", "\"\n}\n"),
        file("prod.tfvars", "region = \"eu-1\"\ndb_pass = \"", "\"\n"),
    ]
}

#[test]
fn a_credential_in_settings_of_a_project_is_not_seen_and_the_rest_is() {
    let stage = Stage::user();
    for (path, content, _) in files() {
        stage.project_file(path, &content);
    }
    let find = format!("grep -rl -- {SECRET} . | wc -l");
    assert_eq!(stdout(&stage.bare(&find)).trim(), files().len().to_string(), "the control");
    assert_eq!(stdout(&stage.caged(&find)).trim(), "0");
    for (path, content, expected) in files() {
        let seen = stage.caged(&format!("cat '{path}'"));
        assert_eq!(stdout(&seen), expected, "{path}: {}", stderr(&seen));
        assert_eq!(std::fs::read_to_string(stage.project().join(path)).unwrap(), content, "{path}");
    }
}

#[test]
fn settings_without_a_credential_can_be_read_and_written_and_are_not_named() {
    let stage = Stage::user();
    let compose =
        "services:\n  db:\n    environment:\n      POSTGRES_PASSWORD: postgres\n      TOKEN: ${TOKEN}\n";
    stage.project_file("docker-compose.yml", compose);
    let output = stage.caged("cat docker-compose.yml && echo '# more' >> docker-compose.yml && echo '{\"port\": 80}' > config.json && mv config.json settings.json");
    assert_eq!(stdout(&output), compose, "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    let written = std::fs::read_to_string(stage.project().join("docker-compose.yml")).unwrap();
    assert_eq!(written, format!("{compose}# more\n"));
}

#[test]
fn a_source_that_only_mentions_credentials_can_be_read_and_written() {
    let stage = Stage::user();
    let source = "SECRET_KEY = os.environ['SECRET_KEY']\nPASSWORD_HASHERS = ['x.Argon2PasswordHasher']\npassword = get_password(user1)\n";
    stage.project_file("settings.py", source);
    stage.project_file("main.tf", "password = random_password.db1.result\n");
    let output = stage.caged("cat settings.py && echo '# more' >> settings.py && echo '# more' >> main.tf");
    assert_eq!(stdout(&output), source, "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

#[test]
fn settings_that_git_has_with_their_credential_can_be_worked_on() {
    let stage = Stage::user();
    let (path, content, _) = files().remove(0);
    stage.project_file(path, &content);
    let made = stage.bare("git init -q . && git config user.name a && git config user.email a@b && git add . && git commit -qm one");
    assert!(made.status.success(), "{}", stderr(&made));
    let edit = format!("sed -i 's/postgres:16/postgres:17/' {path} && grep -c {SECRET} {path}");
    let output = stage.caged(&edit);
    assert_eq!(stdout(&output), "1\n", "{}", stderr(&output));
    // The working copy differs now, and holds no credential that git does not have.
    let output = stage.caged(&format!("cat {path} && echo '# more' >> {path} && git diff --stat"));
    assert!(
        stdout(&output).contains("postgres:17") && stdout(&output).contains("1 file changed"),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    // A new one is in no object.
    stage.project_file(path, &content.replace(SECRET, "canary-9999-EF34gh"));
    let output = stage.caged(&format!("cat {path}"));
    assert!(
        stdout(&output).contains(SECRET) && !stdout(&output).contains("canary-9999"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn the_read_guard_shows_settings_only_without_a_credential() {
    let stage = Stage::user();
    let (path, content, expected) = files().remove(0);
    stage.project_file(path, &content);
    let read = || stage.command(keyward()).args(["read", path]).output().unwrap();
    assert!(!read().status.success() && !stdout(&read()).contains(SECRET));
    stage.project_file(path, &expected);
    assert_eq!(stdout(&read()), expected);
}
