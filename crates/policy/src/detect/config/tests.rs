//! What goes out of settings of projects, and what stays.

use super::*;
use proptest::prelude::*;

fn shown(content: &str) -> String {
    String::from_utf8_lossy(&without_credentials(content.as_bytes(), &["CLEARED_TOKEN"])).into_owned()
}

#[test]
fn a_credential_goes_in_every_syntax_and_the_rest_of_its_line_stays() {
    for (content, expected) in [
        (
            "services:\n  db:\n    environment:\n      POSTGRES_PASSWORD: canary-5521\n      POSTGRES_USER: app\n",
            "services:\n  db:\n    environment:\n      POSTGRES_PASSWORD: \n      POSTGRES_USER: app\n",
        ),
        ("      - API_KEY=canary1canary1\n      - PORT=80\n", "      - API_KEY=\n      - PORT=80\n"),
        ("      - \"API_KEY=canary1canary1\"\n", "      - \"API_KEY=\"\n"),
        (
            "spring.datasource.password=canary-5521\nserver.port=8080\n",
            "spring.datasource.password=\nserver.port=8080\n",
        ),
        ("nexusPassword:canary1\n", "nexusPassword:\n"),
        ("password = \"canary-5521\" # of the team\n", "password = \"\" # of the team\n"),
        ("{ \"apiKey\": \"canary1canary1\", \"port\": 80, }", "{ \"apiKey\": \"\", \"port\": 80, }"),
        ("{\"name\":\"DB_PASSWORD\",\"value\":\"canary-5521\"}", "{\"name\":\"DB_PASSWORD\",\"value\":\"\"}"),
        (
            "- name: DB_PASSWORD\n  value: canary-5521\n- name: PORT\n  value: 8080x\n",
            "- name: DB_PASSWORD\n  value: \n- name: PORT\n  value: 8080x\n",
        ),
        ("<env name=\"API_KEY\" value=\"canary1canary1\" />", "<env name=\"API_KEY\" value=\"\" />"),
        (
            "<property name=\"connection.password\">canary-5521</property>",
            "<property name=\"connection.password\"></property>",
        ),
        ("<password>canary-5521</password>", "<password></password>"),
        (
            "\"Db\": \"Server=x;User Id=sa;Password=canary-5521;Encrypt=true\"",
            "\"Db\": \"Server=x;User Id=sa;Password=;Encrypt=true\"",
        ),
        ("url: postgres://app:canary-5521@db:5432/app\n", "url: postgres://app:@db:5432/app\n"),
        ("url = https://canary1canary1canary1ab@host/simple\n", "url = https://@host/simple\n"),
        ("--index-url https://bob:canary-5521@host/simple\n", "--index-url https://bob:@host/simple\n"),
        (
            "command: redis-server --requirepass canary-5521 --port 1\n",
            "command: redis-server --requirepass  --port 1\n",
        ),
        ("requirepass canary-5521\n", "requirepass \n"),
        ("Authorization: Bearer canary1canary1\n", "Authorization: \n"),
        ("note: ghp_0123456789abcdefghijABCDEFGHIJ012345 is old\n", "note:  is old\n"),
        (
            "key: |\n  -----BEGIN RSA PRIVATE KEY-----\n  canary\n  -----END RSA PRIVATE KEY-----\nport: 1\n",
            "key: |\n  \n  \n  \nport: 1\n",
        ),
        ("token: |\n  canary1\n  canary2\nport: 1\n", "token: |\n  \n  \nport: 1\n"),
        ("token:\n  canary1canary1\nport: 1\n", "token:\n  \nport: 1\n"),
        ("tokens:\n  - canary1canary1\n  - canary2canary2\nport: 1\n", "tokens:\n  - \n  - \nport: 1\n"),
        ("tokens: [canary1canary1, \"canary2canary2\"]\n", "tokens: [, \"\"]\n"),
        ("\"tokens\": [\n  \"canary1canary1\",\n]\n", "\"tokens\": [\n  \"\",\n]\n"),
        ("secret = \"\"\"\ncanary1\n\"\"\"\nport = 1\n", "secret = \"\"\"\n\n\"\"\"\nport = 1\n"),
        ("password: ${DB_PASSWORD:-canary-5521}\n", "password: ${DB_PASSWORD:-}\n"),
        ("password: ${DB_PASSWORD:canary-5521}\n", "password: ${DB_PASSWORD:}\n"),
        ("# password: canary-5521\n", "# password: \n"),
        (
            "kind: Secret\ndata:\n  user: Ym9i\n  any: Y2FuYXJ5\n---\nkind: ConfigMap\ndata:\n  any: Y2FuYXJ5\n",
            "kind: Secret\ndata:\n  user: \n  any: \n---\nkind: ConfigMap\ndata:\n  any: Y2FuYXJ5\n",
        ),
        ("SECRET_KEY = 'canary1canary1'\n", "SECRET_KEY = ''\n"),
        ("'password' => 'canary-5521',\n", "'password' => '',\n"),
        ("https://hooks.slack.com/services/T000/B000/canary1canary1\n", "\n"),
        ("ENV API_KEY=canary1canary1\n", "ENV API_KEY=\n"),
        ("key: \"canary1Canary2Canary3\"\n", "key: \"\"\n"),
    ] {
        assert_eq!(shown(content), expected, "{content}");
    }
}

#[test]
fn what_is_no_credential_stays() {
    for content in [
        "POSTGRES_PASSWORD: postgres\nMYSQL_ROOT_PASSWORD: root\nMINIO_SECRET_KEY: minioadmin\nPASS: changeme123\n",
        "DATABASE_URL: postgres://postgres:postgres@db:5432/app\nX: postgres://app:app@db/app\nY: redis://:password@redis:6379\n",
        "password: ${DB_PASSWORD}\ntoken: $TOKEN\nsecret: {{ .Values.secret }}\nkey: <your-key>\napi_key: ${API_KEY:?missing}\n",
        "password: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  3132\n",
        "password: ENC[AES256_GCM,data:abc1,iv:x=,tag:y=,type:str]\n",
        "secretName: my-app-tls-2\nexistingSecret: release-postgresql\nsecretKeyRef:\n  name: db-secret-v2\n  key: password\n",
        "tokenUrl: https://a.test/token1\nsecret_file: /run/secrets/db1\npassword_file: ./p4ss\nkey: /etc/ssl/key.pem\n",
        "max_tokens: 4096\ntoken_ttl: 3600s\npassword_min_length: 12\nkeyboard: us-intl-2\ncache-key: v1-deps-linux\nprimary_key: id\n",
        "password = var.db_password\ntoken = data.vault.token\nsecret = os.environ[\"SECRET1\"]\nkey = getenv('KEY1')\n",
        "image: token-service:v1.2.3a\nvolumes:\n  - secret-data:/var/lib/x1\nports:\n  - 8080:80\n",
        "requests==2.31.0\npytest-secret>=1.0\ntoken-lib~=4.5\n[project]\nname = \"x\"\nversion = \"1.0.0\"\n",
        "github_token: ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\naws: AKIAIOSFODNN7EXAMPLE\n",
        "\"bos_token\": \"<s>\", \"pad_token_id\": 0, \"unk_token\": \"[UNK]\"\n",
        "keywords = [\"api\", \"key2value\"]\nlicense_key_header: X-License-1\ndescription: a password of 8 chars\n",
        "CLEARED_TOKEN: canary1canary1\n",
        "password:\n  secure: \"aB3dE6gH9jK2mN5pQ8sT1vW4xY7zaB3dE6gH9jK2\"\n",
        "publicKey: canary1canary1canary1\n",
        "",
    ] {
        assert_eq!(shown(content), content);
    }
}

#[test]
fn what_git_has_may_be_seen_in_a_working_copy_and_nothing_more() {
    use crate::detect::{Directory, shows_beside};
    let row = Directory::new(std::path::Path::new("/p"), &[]).secret("compose.yaml".as_ref()).unwrap();
    let committed = b"password: canary-5521\n";
    let beside = |content: &str| shows_beside(row, content.as_bytes(), committed, &[]);
    assert!(beside("services: {}\npassword: canary-5521\n"));
    assert!(!beside("password: canary-5522\n"));
    assert!(!beside("password: canary-5521\ntoken: canary1canary1\n"));
}

proptest! {
    #[test]
    fn any_text_only_shrinks_and_a_second_look_finds_what_the_first_left(content in proptest::collection::vec(
        prop_oneof![any::<u8>(), proptest::sample::select(b"\n\n==::\"'# ${}[]-<>|AaKEYtoken_.".to_vec())], 0..300)) {
        let spans = credentials(&content, &[]);
        for pair in spans.windows(2) {
            prop_assert!(pair[0].end < pair[1].start);
        }
        prop_assert!(spans.last().is_none_or(|span| span.end <= content.len()));
    }

    #[test]
    fn a_random_value_under_the_name_of_a_password_never_stays(
        value in "[a-zA-Z0-9]{12,40}", sign in proptest::sample::select(vec!["=", ": ", " = ", "=\"", ": '"]),
    ) {
        prop_assume!(!is_placeholder(value.as_bytes()));
        let end = sign.chars().last().filter(|c| "\"'".contains(*c)).map(String::from).unwrap_or_default();
        let text = format!("a:\n  db_password{sign}{value}{end}\n");
        prop_assert!(!shown(&text).contains(&value), "{}", text);
    }
}
