//! What goes out of settings of projects, and what stays.

use super::*;
use proptest::prelude::*;

fn shown(content: &str) -> String {
    let left = without_credentials(content.as_bytes(), Kind::Settings, &["CLEARED_TOKEN"]);
    String::from_utf8_lossy(&left).into_owned()
}

fn source(content: &str) -> String {
    String::from_utf8_lossy(&without_credentials(content.as_bytes(), Kind::Source, &[])).into_owned()
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
        ("Authorization: Bearer canary1canary1\n", "Authorization: Bearer \n"),
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
        ("password: !!str canary-5521\npassword: &x canary-5521\n", "password: !!str \npassword: &x \n"),
        ("db.password\tcanary-5521\ndb.password canary-5521\n", "db.password\t\ndb.password \n"),
        ("dbpass = canary-5521\n", "dbpass = \n"),
        ("password = '''canary-5521'''\n", "password = ''''''\n"),
        ("command: [\"x\", \"--token\", \"canary1canary1\"]\n", "command: [\"x\", \"--token\", \"\"]\n"),
        ("Authorization: token canary1canary1\n", "Authorization: token \n"),
        (
            "secrets:\n  github: canary1canary1\n  port: 80\nother: canary1canary1\n",
            "secrets:\n  github: \n  port: 80\nother: canary1canary1\n",
        ),
        (
            "[api_keys]\nopenai = \"canary1canary1\"\n[x]\ny = \"canary1canary1\"\n",
            "[api_keys]\nopenai = \"\"\n[x]\ny = \"canary1canary1\"\n",
        ),
        ("\"tokens\": {\n  \"gh\": \"canary1canary1\"\n},\n", "\"tokens\": {\n  \"gh\": \"\"\n},\n"),
    ] {
        assert_eq!(shown(content), expected, "{content}");
    }
}

#[test]
fn a_name_may_stand_on_another_line_or_be_written_with_escapes() {
    for (content, expected) in [
        ("? password\n: canary-5521\nport: 1\n", "? password\n: \nport: 1\n"),
        (
            "a:\n  ? \"db_password\"\n  # ours\n  : \"canary-5521\"\n",
            "a:\n  ? \"db_password\"\n  # ours\n  : \"\"\n",
        ),
        ("- ? token\n  : canary1canary1\n", "- ? token\n  : \n"),
        ("? token\n: |\n  canary1\nport: 1\n", "? token\n: |\n  \nport: 1\n"),
        ("{\"pass\\u0077ord\": \"canary-5521\"}", "{\"pass\\u0077ord\": \"\"}"),
        ("\"\\x70assword\": canary-5521\n", "\"\\x70assword\": \n"),
        ("\"passwor\\U00000064\": canary-5521\n", "\"passwor\\U00000064\": \n"),
        ("db.pass\\u0077ord=canary-5521\n", "db.pass\\u0077ord=\n"),
    ] {
        assert_eq!(shown(content), expected, "{content}");
        assert!(may_hold_credentials(content.as_bytes()), "{content}");
    }
    for content in
        ["? port\n: canary-5521\n", "? password\nport: canary-5521\n", "\"p\\u006frt\": \"canary-5521\"\n"]
    {
        assert_eq!(shown(content), content);
    }
}

#[test]
fn a_password_goes_from_the_options_of_a_command_and_from_the_users_of_redis() {
    for (content, expected) in [
        (
            "script:\n  - curl -fsS -u bob:canary-5521 https://a.test\n",
            "script:\n  - curl -fsS -u bob: https://a.test\n",
        ),
        (
            "RUN curl \\\n  --user 'bob:canary-5521' \\\n  https://a.test\n",
            "RUN curl \\\n  --user 'bob:' \\\n  https://a.test\n",
        ),
        (
            "test: [\"CMD\", \"curl\", \"-ubob:canary-5521\", \"x\"]\n",
            "test: [\"CMD\", \"curl\", \"-ubob:\", \"x\"]\n",
        ),
        ("- curl --proxy-user=bob:canary-5521 x\n", "- curl --proxy-user=bob: x\n"),
        ("- curl -H 'Authorization: Basic Y2FuYXJ5LTU1MjE=' x\n", "- curl -H 'Authorization: Basic ' x\n"),
        ("- curl -H \"Authorization: canary1canary1\" x\n", "- curl -H \"Authorization: \" x\n"),
        ("- sshpass -p canary-5521 ssh a\n", "- sshpass -p  ssh a\n"),
        ("- mysqldump -u root -pcanary-5521 app\n", "- mysqldump -u root -p app\n"),
        ("- docker login -u bob -p canary-5521 r.test\n", "- docker login -u bob -p  r.test\n"),
        ("user bob on >canary-5521 ~* +@all\n", "user bob on > ~* +@all\n"),
        ("USER bob ON nopass <canary-5521\n", "USER bob ON nopass <\n"),
    ] {
        assert_eq!(shown(content), expected, "{content}");
    }
    for content in [
        "- curl -u $USER:$PASS x\n- curl -u \"${U:-bob}:${P}\" x\n- curl -u bob: x\n- curl -u user:pass x\n",
        "- docker run -u 1000:1000 -p 8080:8080 x\n- sudo -u bob:staff17 x\n- mkdir -p canary-5521\n",
        "- mysql -u root -p$PASS -P 3306\n- mysql -p app17\n",
        "user root;\nuser  www-data data17;\nname: user one on two\n",
    ] {
        assert_eq!(shown(content), content);
    }
}

#[test]
fn a_quick_no_is_right() {
    for content in
        ["curl -u bob:canary-5521 x", "user bob on >canary-5521", "mysql -pcanary-5521", "sshpass -p x"]
    {
        assert!(may_hold_credentials(content.as_bytes()), "{content}");
    }
}

#[test]
fn of_a_source_only_texts_under_the_name_of_a_credential_go() {
    for (content, expected) in [
        ("SECRET_KEY = 'canary1canary1'  # ours\n", "SECRET_KEY = ''  # ours\n"),
        ("    'PASSWORD': 'canary-5521',\n    'HOST': 'db1',\n", "    'PASSWORD': '',\n    'HOST': 'db1',\n"),
        ("SECRET_KEY: str = \"canary1canary1\"\n", "SECRET_KEY: str = \"\"\n"),
        (
            "SECRET_KEY = b'canary1canary1'\nAPI_KEY = rb\"canary1canary1\"\n",
            "SECRET_KEY = b''\nAPI_KEY = rb\"\"\n",
        ),
        ("API_TOKEN: Optional[str] = \"canary1canary1\"\n", "API_TOKEN: Optional[str] = \"\"\n"),
        (
            "SECRET_KEY = (\n    \"canary1canary1\"\n    \"canary2canary2\"\n)\n",
            "SECRET_KEY = (\n    \"\"\n    \"\"\n)\n",
        ),
        (
            "SECRET_KEY = os.environ.get(\"SECRET_KEY\", \"canary1canary1\")\n",
            "SECRET_KEY = os.environ.get(\"SECRET_KEY\", \"\")\n",
        ),
        ("X = config('API_KEY', default='canary1canary1')\n", "X = config('API_KEY', default='')\n"),
        (
            "SECRET_KEY = os.environ.get('SECRET_KEY') or 'canary1canary1'\n",
            "SECRET_KEY = os.environ.get('SECRET_KEY') or ''\n",
        ),
        ("connect(user='app', password='canary-5521')\n", "connect(user='app', password='')\n"),
        ("DATABASE = 'postgres://app:canary-5521@db/app'\n", "DATABASE = 'postgres://app:@db/app'\n"),
        (
            "resource \"x\" \"y\" {\n  password = \"canary-5521\"\n}\n",
            "resource \"x\" \"y\" {\n  password = \"\"\n}\n",
        ),
        (
            "variable \"db_password\" {\n  type    = string\n  default = \"canary-5521\"\n}\n",
            "variable \"db_password\" {\n  type    = string\n  default = \"\"\n}\n",
        ),
        (
            "{ name = \"DB_PASSWORD\", value = \"canary-5521\" }\n",
            "{ name = \"DB_PASSWORD\", value = \"\" }\n",
        ),
        ("SECRET_KEY = \"\"\"canary1canary1\"\"\"\n", "SECRET_KEY = \"\"\"\"\"\"\n"),
        ("# the old one: ghp_0123456789abcdefghijABCDEFGHIJ012345\n", "# the old one: \n"),
    ] {
        assert_eq!(source(content), expected, "{content}");
    }
    for content in [
        "SECRET_KEY = f'canary1{x}canary1'\nTOKEN = buu1('canary1canary1')\nTOKEN = burr['canary1canary1']\n",
        "SECRET_KEY = os.environ['SECRET_KEY']\nSECRET_KEY = env('SECRET_KEY')\nTOKEN = get_token(name1)\nPASSWORD = password2\n",
        "SECRET_KEY = 'django-insecure-0a1b2c3d4e5f6g7h8i9j'\nPASSWORD = 'postgres'\nPASSWORD = ''\nTOKEN = None\n",
        "PASSWORD_HASHERS = [\n    'django.contrib.auth.hashers.Argon2PasswordHasher',\n]\nAUTH_PASSWORD_VALIDATORS = [\n    {'NAME': 'x.y1.MinimumLengthValidator'},\n]\n",
        "PASSWORD_RESET_TEMPLATE = 'registration/reset1.html'\nTOKEN_MODEL = 'accounts2.Token'\nSESSION_COOKIE_NAME = 'sid1234567890'\nCSRF_COOKIE_SAMESITE = 'Strict12'\n",
        "CACHE_KEY = 'a1b2c3d4e5f6a7b8c9'\nKEY_PREFIX = 'v1aaaaaaaaaaaaaaaaa'\nLOGIN_URL = 'accounts1/login'\n",
        "def password(self, token='x'):\n    if password == 'canary-5521':\n        return {'password': _('Your password is wrong')}\n",
        "  password = random_password.db1.result\n  token    = module.x1.token\n  secret   = \"${var.prefix1}-secret\"\n  key = \"prod1/terraform.tfstate\"\n",
        "variable \"db_password\" {\n  type = string\n}\nvariable \"region\" {\n  default = \"eu-west-11\"\n}\n",
        "<input type=\"password\" name=\"password17\">\nerrors.text = messages.get('wrong_password', 'Wrong1234')\n",
        "token: Token = Token1(value)\nsecret: str\npassword: SecretStr = Field(min_length=8)\n",
    ] {
        assert_eq!(source(content), content);
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
        "secrets:\n  db_password:\n    file: ./db1.txt\n  api:\n    external: true\n    name: my-api-v2\n",
        "bypass: some1thing\ncompass: a1b2c3d4\nspring.main.banner mode\n",
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
        prop_oneof![any::<u8>(), proptest::sample::select(b"\n\n==::\"'# ${}[]-<>|AaKEYtoken_.?\\u0(,".to_vec())], 0..300), is_source in any::<bool>()) {
        let kind = if is_source { Kind::Source } else { Kind::Settings };
        let spans = credentials(&content, kind, &[]);
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
