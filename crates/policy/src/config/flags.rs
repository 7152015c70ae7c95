//! The flags of the command line, as one more layer.

use super::checks::{self, Writer};
use super::keys::{Id, KEYS, Kind};
use super::mistake::{Mistake, Unfit};
use super::value::{At, Value, Values};
use crate::env;
use crate::secret::Grant;
use crate::words::{
    Allowance, Floor, GateMode, HomeMode, NetMode, Origin, Protect, Redact, ToolCage, TrustClass,
};
use std::path::PathBuf;
use std::time::Duration;

/// What the command line says about the policy. Paths are absolute or begin with `~/`; only `hide` and `show` may be relative.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    pub trust: Option<TrustClass>,
    pub floor: Option<Floor>,
    pub allow: Vec<Allowance>,
    /// A display was asked for, which no cage gets.
    pub display: bool,
    pub pass: Vec<String>,
    /// `NAME=VALUE`, as typed.
    pub env: Vec<String>,
    pub inherit_credentials: Vec<String>,
    pub secrets: Vec<String>,
    pub redact: Option<Redact>,
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    pub hide: Vec<PathBuf>,
    pub show: Vec<PathBuf>,
    pub protect: Option<Protect>,
    pub home: Option<HomeMode>,
    pub tools: Vec<String>,
    /// Whether the command's tools run in a narrower cage.
    pub shims: bool,
    pub net: Option<NetMode>,
    /// Rules and presets.
    pub allow_net: Vec<String>,
    pub reach: Vec<u16>,
    pub publish: Vec<u16>,
    pub gate: Option<GateMode>,
    pub wall: Option<Duration>,
    pub memory: Option<u64>,
    pub pids: Option<u64>,
}

/// The flags as a layer, held to the same rules as a file.
pub fn layer(flags: &Flags) -> Result<Values, Vec<Mistake>> {
    let mut layer = Layer { values: Values::default(), mistakes: Vec::new() };
    layer.choose(Id::Trust, flags.trust.map(|word| word as usize));
    layer.choose(Id::Floor, flags.floor.map(|word| word as usize));
    layer.choose(Id::NetMode, flags.net.map(|word| word as usize));
    layer.network(flags);
    layer.choose(Id::GateMode, flags.gate.map(|word| word as usize));
    let allowed: Vec<String> = flags.allow.iter().map(|word| word.as_str().to_owned()).collect();
    if let Some(list) = layer.list(Id::Allow, &allowed, |_, _| Ok(())) {
        layer.values.put(Id::Allow, Value::Names(list));
    }
    if flags.display {
        layer.mistakes.push(no_display().in_flag("--display"));
    }
    layer.names(Id::EnvPass, &flags.pass);
    layer.set(Id::EnvSet, &flags.env);
    layer.names(Id::InheritCredentials, &flags.inherit_credentials);
    layer.secrets(Id::Secrets, &flags.secrets);
    layer.choose(Id::Redact, flags.redact.map(|word| word as usize));
    layer.paths(Id::FilesRead, &flags.read);
    layer.paths(Id::FilesWrite, &flags.write);
    layer.paths(Id::FilesHide, &flags.hide);
    layer.paths(Id::FilesShow, &flags.show);
    layer.choose(Id::HomeMode, flags.home.map(|word| word as usize));
    layer.tools(Id::HomeTools, &flags.tools);
    layer.choose(Id::ToolsCage, flags.shims.then_some(ToolCage::Shims as usize));
    layer.choose(Id::FilesProtect, flags.protect.map(|word| word as usize));
    layer.limit(Id::LimitsWall, flags.wall.map(nanoseconds));
    layer.limit(Id::LimitsMemory, flags.memory);
    layer.limit(Id::LimitsPids, flags.pids);
    if layer.mistakes.is_empty() { Ok(layer.values) } else { Err(layer.mistakes) }
}

/// What `--env` sets is held to the rules of a file, with the clearances of the user's own file and profile.
pub fn check_set(effective: &Values) -> Vec<Mistake> {
    let Some(Value::Map(map)) = effective.get(Id::EnvSet) else { return Vec::new() };
    let said = |id: Id, name: &str| effective.names(id).iter().any(|entry| entry.value == name);
    let mut mistakes = Vec::new();
    for At { value: (name, value), .. } in map.value.iter().filter(|pair| pair.origin == origin(Id::EnvSet)) {
        if checks::is_credential(name, value) && !said(Id::EnvNotSecret, name) {
            let secret = name.to_ascii_lowercase().replace('_', "-");
            let remedy = format!(
                "a command line holds no secrets: `--inherit-credentials {name}` hands over your own variable, `keyward secret set {secret}` keeps one; \
                 `env.not_secret` in your policy file clears a false hit"
            );
            let unfit = Unfit::new(format!("{name} looks like a credential"), remedy);
            mistakes.push(unfit.in_flag(flag(Id::EnvSet)));
        }
        if env::is_loader(name.as_bytes()) && !said(Id::EnvDangerousLoaderEnv, name) {
            let remedy = format!(
                "if that is meant, write `env.dangerous_loader_env = [\"{name}\"]` in your policy file"
            );
            let unfit = Unfit::new(format!("{name} makes programs load code"), remedy);
            mistakes.push(unfit.in_flag(flag(Id::EnvSet)));
        }
    }
    mistakes
}

impl Flags {
    /// The keys that these flags set.
    pub fn keys(&self) -> Vec<&'static str> {
        let values = layer(self).unwrap_or_default();
        KEYS.iter().filter(|key| values.get(key.id).is_some()).map(|key| key.path).collect()
    }
}

/// A display belongs to all windows on it alike.
fn no_display() -> Unfit {
    Unfit::new(
        "no cage gets your display: a program on it can read what you type and see, and type into other windows",
        "run the program outside, or on a display of the cage's own, as in `keyward run xvfb-run -a CMD`",
    )
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

struct Layer {
    values: Values,
    mistakes: Vec<Mistake>,
}

impl Layer {
    fn choose(&mut self, id: Id, rank: Option<usize>) {
        if let Some(rank) = rank {
            self.values.put(id, Value::Choice(At::outside(rank, origin(id))));
        }
    }

    fn network(&mut self, flags: &Flags) {
        if let (Some(mode @ (NetMode::None | NetMode::Open)), true) =
            (flags.net, !flags.allow_net.is_empty() || !flags.reach.is_empty())
        {
            let fact = format!("rules and `--net {mode}` exclude each other");
            let remedy = format!("leave out `--net {mode}`: `--allow-net` and `--reach` mean `--net rules`");
            self.mistakes.push(Unfit::new(fact, remedy).in_flag(flag(Id::NetAllow)));
        }
        let rule = |key: &str, text: &String| checks::rule(key, text);
        if let Some(list) = self.list(Id::NetAllow, &flags.allow_net, rule) {
            self.values.put(Id::NetAllow, Value::Names(list));
        }
        for (id, ports) in [(Id::NetReach, &flags.reach), (Id::NetPublish, &flags.publish)] {
            let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
            if let Some(list) = self.list(id, &ports, |key, text| checks::port(key, text)) {
                self.values.put(id, Value::Names(list));
            }
        }
    }

    fn names(&mut self, id: Id, names: &[String]) {
        if let Some(list) = self.list(id, names, |flag, name| checks::env_name(flag, name)) {
            self.values.put(id, Value::Names(list));
        }
    }

    fn set(&mut self, id: Id, entries: &[String]) {
        let mut pairs: Vec<At<(String, String)>> = Vec::with_capacity(entries.len());
        for entry in entries {
            match checks::env_pair(id.key().path, entry) {
                // The last of a name counts, as in a shell.
                Ok(pair) => {
                    pairs.retain(|earlier| earlier.value.0 != pair.0);
                    pairs.push(At::outside(pair, origin(id)));
                }
                Err(unfit) => self.mistakes.push(unfit.in_flag(flag(id))),
            }
        }
        if !pairs.is_empty() {
            self.values.put(id, Value::Map(At::outside(pairs, origin(id))));
        }
    }

    fn tools(&mut self, id: Id, names: &[String]) {
        if let Some(list) = self.list(id, names, |flag, name| checks::tool(flag, name)) {
            self.values.put(id, Value::Names(list));
        }
    }

    fn secrets(&mut self, id: Id, grants: &[String]) {
        if let Some(list) = self.list(id, grants, |_, grant| Grant::parse(grant).map(drop)) {
            self.values.put(id, Value::Names(list));
        }
    }

    fn paths(&mut self, id: Id, paths: &[PathBuf]) {
        let Kind::Paths(purpose) = id.key().kind else { return };
        let fit = |flag: &str, path: &PathBuf| checks::path(flag, path, purpose, Writer::Flag);
        if let Some(list) = self.list(id, paths, fit) {
            self.values.put(id, Value::Paths(list));
        }
    }

    fn list<T: Clone>(
        &mut self,
        id: Id,
        entries: &[T],
        fit: impl Fn(&str, &T) -> Result<(), Unfit>,
    ) -> Option<At<Vec<At<T>>>> {
        if entries.is_empty() {
            return None;
        }
        let flag = flag(id);
        let mut out = Vec::with_capacity(entries.len());
        for entry in entries {
            match fit(id.key().path, entry) {
                Ok(()) => out.push(At::outside(entry.clone(), origin(id))),
                Err(unfit) => self.mistakes.push(unfit.in_flag(flag)),
            }
        }
        Some(At::outside(out, origin(id)))
    }

    fn limit(&mut self, id: Id, number: Option<u64>) {
        let Some(number) = number else { return };
        let key = id.key();
        let outcome = match key.kind {
            Kind::Size { least } => checks::size(key.path, number, least),
            _ => checks::count(key.path, number),
        };
        match outcome {
            Ok(number) => self.values.put(id, Value::Number(At::outside(number, origin(id)))),
            Err(unfit) => self.mistakes.push(unfit.in_flag(flag(id))),
        }
    }
}

fn flag(id: Id) -> &'static str {
    id.key().flag.unwrap_or("the command line")
}

fn origin(id: Id) -> Origin {
    Origin::Flag { flag: flag(id) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_of_the_key_table_reaches_its_layer() {
        let flags = Flags {
            trust: Some(TrustClass::Tool),
            floor: Some(Floor::Landlock),
            allow: vec![Allowance::Ptrace],
            display: false,
            pass: vec!["CI".into()],
            env: vec!["TZ=UTC".into()],
            inherit_credentials: vec!["GH_TOKEN".into()],
            secrets: vec!["github=fd".into()],
            redact: Some(Redact::Off),
            read: vec!["/srv".into()],
            write: vec!["/tmp/w".into()],
            hide: vec!["notes".into()],
            show: vec!["tests/keys".into()],
            protect: Some(Protect::Strict),
            home: Some(HomeMode::Empty),
            tools: vec!["gh".into()],
            shims: true,
            net: Some(NetMode::Rules),
            allow_net: vec!["npm".into(), "api.example.com".into()],
            reach: vec![11434],
            publish: vec![3000],
            gate: Some(GateMode::Deny),
            wall: Some(Duration::from_secs(1)),
            memory: Some(1 << 30),
            pids: Some(7),
        };
        let values = layer(&flags).expect("these flags are fine");
        for key in KEYS {
            assert_eq!(values.get(key.id).is_some(), key.flag.is_some(), "{}", key.path);
            assert_eq!(flags.keys().contains(&key.path), key.flag.is_some(), "{}", key.path);
        }
        assert!(Flags::default().keys().is_empty());
    }

    #[test]
    fn a_variable_is_set_by_its_last_value_and_never_quoted_in_a_mistake() {
        let of = |env: &[&str]| {
            layer(&Flags { env: env.iter().map(|&pair| pair.into()).collect(), ..Flags::default() })
        };
        let values = of(&["A=1", "B=x=y", "A=", "C=\u{e9}"]).expect("these are fine");
        let Some(Value::Map(map)) = values.get(Id::EnvSet) else { unreachable!("variables were set") };
        let pairs: Vec<_> =
            map.value.iter().map(|pair| (pair.value.0.as_str(), pair.value.1.as_str())).collect();
        assert_eq!(pairs, [("B", "x=y"), ("A", ""), ("C", "\u{e9}")]);
        for wrong in [
            "hunter2",
            "=hunter2",
            "1A=hunter2",
            "A B=hunter2",
            "PATH=hunter2",
            "KEYWARD=hunter2",
            "A=hunter2\n",
        ] {
            let mistakes = of(&[wrong]).expect_err(wrong);
            let text = mistakes.iter().map(ToString::to_string).collect::<String>();
            assert!(text.starts_with("--env: ") && !text.contains("hunter2"), "{text}");
        }
    }
}
