//! Named sets of rules, such as `npm`, and how they follow the user's own settings of a package manager.
//!
//! The text of those settings arrives as an argument. It is read outside the cage, from HOME, the system and the caller's variables.

use super::rule::Rule;

/// One preset of `data/presets.toml`.
#[derive(Debug, PartialEq, Eq)]
pub struct Preset {
    pub name: &'static str,
    pub about: &'static str,
    pub follows: Option<Settings>,
    /// Rules and their reasons that another registry in those settings replaces.
    main: &'static [(&'static str, &'static str)],
    rules: &'static [(&'static str, &'static str)],
}

include!(concat!(env!("OUT_DIR"), "/presets.rs"));

/// The settings that a preset follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settings {
    Npm,
    Pip,
    Cargo,
    Go,
}

/// What the user's settings say about registries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registries {
    /// The registry that takes the place of the public one.
    pub main: Option<String>,
    /// Registries beside it.
    pub more: Vec<String>,
}

/// A file of settings, or a variable, whose value is its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<'a> {
    pub name: &'a str,
    pub text: &'a str,
}

/// Every preset, in the order of the data file.
pub fn all() -> &'static [Preset] {
    PRESETS
}

/// The preset of this name.
pub fn named(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Preset {
    /// The rules, each with its reason. Registries of the user's take the place of the public ones.
    pub fn rules(&self, own: &Registries) -> Vec<(Rule, String)> {
        let main = if own.main.is_some() { &[][..] } else { self.main };
        let listed = main.iter().chain(self.rules);
        let listed =
            listed.filter_map(|(rule, reason)| Some((Rule::parse(rule).ok()?, (*reason).to_owned())));
        let own = own.main.iter().chain(&own.more).filter_map(|url| host_of(url));
        listed.chain(own.map(|rule| (rule, "your own setting of the registry".to_owned()))).collect()
    }
}

impl Settings {
    /// Files below HOME that hold them, and those of the system. Later ones count before earlier ones.
    pub const fn files(self) -> &'static [&'static str] {
        match self {
            Settings::Npm => &["/etc/npmrc", "/usr/etc/npmrc", "~/.npmrc"],
            Settings::Pip => &["/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf"],
            Settings::Cargo => &["~/.cargo/config", "~/.cargo/config.toml"],
            Settings::Go => &["~/.config/go/env"],
        }
    }

    /// Variables of the caller that hold them; they count before every file.
    pub const fn variables(self) -> &'static [&'static str] {
        match self {
            Settings::Npm => &["npm_config_registry", "NPM_CONFIG_REGISTRY"],
            Settings::Pip => &["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"],
            Settings::Cargo => &[],
            Settings::Go => &["GOPROXY"],
        }
    }

    /// Reads them: files in the order of [`Settings::files`], then variables.
    pub fn read(self, settings: &[Setting<'_>]) -> Registries {
        let mut found = Registries::default();
        for setting in settings {
            match self {
                Settings::Npm => npm(setting, &mut found),
                Settings::Pip => pip(setting, &mut found),
                Settings::Cargo => cargo(setting, &mut found),
                Settings::Go => go(setting, &mut found),
            }
        }
        found
    }
}

/// `KEY = VALUE` of a line, without quotes.
fn pair(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once('=')?;
    let (key, value) = (key.trim(), value.trim().trim_matches(['"', '\'']));
    (!key.starts_with(['#', ';'])).then_some((key, value))
}

fn npm(setting: &Setting<'_>, found: &mut Registries) {
    if setting.name.eq_ignore_ascii_case("npm_config_registry") {
        found.main = Some(setting.text.into());
        return;
    }
    for (key, value) in setting.text.lines().filter_map(pair) {
        match key {
            "registry" => found.main = Some(value.into()),
            key if key.starts_with('@') && key.ends_with(":registry") => found.more.push(value.into()),
            _ => {}
        }
    }
}

fn pip(setting: &Setting<'_>, found: &mut Registries) {
    let urls = |value: &str| value.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    match setting.name {
        "PIP_INDEX_URL" | "UV_INDEX_URL" | "UV_DEFAULT_INDEX" => {
            found.main = Some(setting.text.trim().into())
        }
        "PIP_EXTRA_INDEX_URL" => found.more.extend(urls(setting.text)),
        _ => {
            // A value may go on in further lines that are indented.
            let mut continues = false;
            for line in setting.text.lines() {
                match pair(line) {
                    Some(("index-url" | "index_url", value)) => {
                        found.main = Some(value.into());
                        continues = false;
                    }
                    Some(("extra-index-url" | "extra_index_url", value)) => {
                        found.more.extend(urls(value));
                        continues = true;
                    }
                    None if continues && line.starts_with([' ', '\t']) => found.more.extend(urls(line)),
                    _ => continues = false,
                }
            }
        }
    }
}

fn cargo(setting: &Setting<'_>, found: &mut Registries) {
    let Ok(file) = setting.text.parse::<toml_edit::DocumentMut>() else { return };
    let text = |item: Option<&toml_edit::Item>| item.and_then(toml_edit::Item::as_str).map(str::to_owned);
    let source = |name: &str, key: &str| text(file.get("source")?.get(name)?.get(key));
    if let Some(name) = source("crates-io", "replace-with") {
        // A directory of packages needs no host.
        found.main = source(&name, "registry").or(Some(String::new()));
    }
    for (_, registry) in
        file.get("registries").and_then(toml_edit::Item::as_table_like).into_iter().flat_map(|all| all.iter())
    {
        found.more.extend(text(registry.get("index")));
    }
}

fn go(setting: &Setting<'_>, found: &mut Registries) {
    let value = if setting.name == "GOPROXY" {
        Some(setting.text)
    } else {
        setting.text.lines().filter_map(pair).find_map(|(key, value)| (key == "GOPROXY").then_some(value))
    };
    let Some(value) = value else { return };
    let mut urls = value.split([',', '|']).filter(|word| word.contains("://")).map(str::to_owned);
    found.main = Some(urls.next().unwrap_or_default());
    found.more.extend(urls);
}

/// The rule for the host of an address. A login in it stays where it is.
fn host_of(url: &str) -> Option<Rule> {
    let url = url.strip_prefix("sparse+").unwrap_or(url);
    let (scheme, rest) = url.split_once("://").filter(|(scheme, _)| matches!(*scheme, "https" | "http"))?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit('@').next()?;
    let rule = Rule::parse(&format!("{scheme}://{authority}")).ok()?;
    Some(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(preset: &str, settings: &[(&str, &str)]) -> Vec<String> {
        let preset = named(preset).unwrap();
        let all: Vec<Setting<'_>> = settings.iter().map(|&(name, text)| Setting { name, text }).collect();
        let own = preset.follows.map(|follows| follows.read(&all)).unwrap_or_default();
        preset.rules(&own).into_iter().map(|(rule, _)| rule.to_string()).collect()
    }

    #[test]
    fn every_rule_of_a_preset_is_one() {
        for preset in all() {
            for (rule, _) in preset.main.iter().chain(preset.rules) {
                assert!(Rule::parse(rule).is_ok(), "{}: {rule}", preset.name);
            }
            // A preset has to be told from a host.
            assert!(!preset.name.contains('.') && !preset.about.ends_with('.'), "{}", preset.name);
        }
    }

    #[test]
    fn a_registry_of_the_users_takes_the_place_of_the_public_one() {
        assert_eq!(hosts("npm", &[]), ["registry.npmjs.org", "registry.yarnpkg.com"]);
        let file = "# registry=https://no.example/\n@corp:registry = https://corp.example:8443/npm/\nregistry=\"https://u:p@npm.example/x\"\n";
        assert_eq!(
            hosts("npm", &[("~/.npmrc", file)]),
            ["registry.yarnpkg.com", "npm.example:443", "corp.example:8443"]
        );
        let pip = "[global]\nindex-url = https://pip.example/simple\nextra-index-url = https://a.example\n    http://b.example:8080/x\ntimeout = 3\n";
        assert_eq!(
            hosts("pypi", &[("/etc/pip.conf", pip)]),
            ["pip.example:443", "a.example:443", "b.example:8080"]
        );
        assert_eq!(
            hosts("pypi", &[("/etc/pip.conf", pip), ("PIP_INDEX_URL", "https://env.example/")])[0],
            "env.example:443"
        );
        let cargo = "[source.crates-io]\nreplace-with = \"mirror\"\n[source.mirror]\nregistry = \"sparse+https://mirror.example/index/\"\n[registries.corp]\nindex = \"sparse+https://crates.corp.example/\"\n";
        assert_eq!(
            hosts("crates", &[("~/.cargo/config.toml", cargo)]),
            ["mirror.example:443", "crates.corp.example:443"]
        );
        assert_eq!(hosts("go", &[("GOPROXY", "https://goproxy.example,direct")])[2], "goproxy.example:443");
        assert!(hosts("go", &[("GOPROXY", "off")]).iter().all(|host| host != "proxy.golang.org"));
    }

    #[test]
    fn settings_that_are_not_understood_change_nothing() {
        for text in [
            "",
            "registry",
            "registry=file:///x",
            "registry=https://",
            "\u{0}=\u{0}",
            "[source",
            "registry=https://[::1",
        ] {
            let preset = hosts("npm", &[("~/.npmrc", text)]);
            assert!(preset.iter().all(|host| host.contains("registry.")), "{text:?} {preset:?}");
            assert_eq!(hosts("crates", &[("~/.cargo/config", text)]).len(), 3);
        }
    }
}
