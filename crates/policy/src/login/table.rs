//! The login files whose secret fields are known: where they stand, what each field is bound to, how it is renewed. Those of agents stand in
//! their profiles, and `build/logins.rs` turns them into a table; the others are here, with a reason per row. A file that is in neither is shown
//! as `tools.toml` says.

use super::{File, Form, Format, Grant, Role, Row, To, Unit};
use crate::provider::{Alphabet, Part, Shape};

include!(concat!(env!("OUT_DIR"), "/logins.rs"));

const fn row(at: &'static [&'static str], role: Role, to: To, shape: Option<Shape>) -> Row {
    Row { at, role, to, shape, form: Form::Text, grant: 0 }
}

pub(super) const FILES: &[File] = &[
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
];
