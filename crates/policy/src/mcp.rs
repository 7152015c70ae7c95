//! What differs between `keyward mcp` and `keyward run`: a server of the Model Context Protocol speaks to its client on
//! descriptors 0 and 1, comes from a stranger as a rule, and is often fetched by a package runner.

use crate::words::{NetMode, TrustClass};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Programs that fetch a package and run it, the words that make them do so, and the preset of the registry.
const RUNNERS: &[(&str, &[&str], &str)] = &[
    ("npx", &[], "npm"),
    ("npm", &["exec", "x"], "npm"),
    ("pnpx", &[], "npm"),
    ("pnpm", &["dlx"], "npm"),
    ("yarn", &["dlx"], "npm"),
    ("bunx", &[], "npm"),
    ("bun", &["x"], "npm"),
    ("uvx", &[], "pypi"),
    ("uv", &["tool", "run"], "pypi"),
    ("pipx", &["run"], "pypi"),
];

/// What the caller said that has a default here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given<'a> {
    pub profile: Option<&'a str>,
    pub trust: Option<TrustClass>,
    pub net: Option<NetMode>,
}

/// What is said for the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    pub trust: Option<TrustClass>,
    /// The preset of the registry that the server is fetched from.
    pub preset: Option<&'static str>,
}

/// The defaults for a server. A profile that is named decides by itself, and so does each flag.
pub fn defaults(argv: &[OsString], given: Given<'_>) -> Defaults {
    if given.profile.is_some() {
        return Defaults::default();
    }
    let trust = given.trust.is_none().then_some(TrustClass::Tool);
    Defaults { trust, preset: given.net.is_none().then(|| preset(argv)).flatten() }
}

/// The preset that a package runner needs.
fn preset(argv: &[OsString]) -> Option<&'static str> {
    let program = Path::new(argv.first()?).file_name()?;
    let says = |words: &[&str]| {
        let word = argv.get(1).map(OsString::as_os_str);
        words.is_empty() || words.iter().any(|known| word == Some(OsStr::new(known)))
    };
    let runner = RUNNERS.iter().find(|(name, words, _)| program == OsStr::new(name) && says(words));
    runner.map(|(.., preset)| *preset)
}

/// Which of descriptors 0 to 2 the cage has a terminal for. A client that speaks through a pipe may share its terminal's error
/// stream with its servers: a server that got a terminal there could read what is typed for the client.
pub fn terminals(found: [bool; 3]) -> [bool; 3] {
    if found[0] { found } else { [false; 3] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_server_is_a_tool_and_reaches_the_registry_that_its_runner_fetches_from() {
        let of = |words: &[&str]| defaults(&argv(words), Given::default());
        let expected = |preset| Defaults { trust: Some(TrustClass::Tool), preset };
        assert_eq!(of(&["npx", "-y", "server"]), expected(Some("npm")));
        assert_eq!(of(&["/usr/bin/npx", "server"]), expected(Some("npm")));
        assert_eq!(of(&["uvx", "server"]), expected(Some("pypi")));
        assert_eq!(of(&["uv", "tool", "run", "server"]), expected(Some("pypi")));
        assert_eq!(of(&["pnpm", "dlx", "server"]), expected(Some("npm")));
        for without in
            [&["npm", "start"][..], &["node", "npx"], &["uv", "pip", "install"], &["python3", "-m", "server"]]
        {
            assert_eq!(of(without), expected(None), "{without:?}");
        }
    }

    #[test]
    fn what_the_caller_says_counts() {
        let npx = argv(&["npx", "server"]);
        let net = Given { net: Some(NetMode::None), ..Given::default() };
        assert_eq!(defaults(&npx, net).preset, None);
        let trust = Given { trust: Some(TrustClass::Executor), ..Given::default() };
        assert_eq!(defaults(&npx, trust).trust, None);
        let profile = Given { profile: Some("servers"), ..Given::default() };
        assert_eq!(defaults(&npx, profile), Defaults::default());
    }

    #[test]
    fn a_server_behind_a_pipe_has_no_terminal() {
        assert_eq!(terminals([false, false, true]), [false; 3]);
        assert_eq!(terminals([false, true, true]), [false; 3]);
        assert_eq!(terminals([true; 3]), [true; 3]);
    }
}
