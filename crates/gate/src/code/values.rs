//! What an expression is known to be.

use crate::shell::decode_base64;
use crate::text::{Field, LONGEST, Taint, UNKNOWN};
use crate::verdict::Span;
use keyward_policy::detect::registry;

/// More values than these are as good as any.
const ALTERNATIVES: usize = 6;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text, of which a part may be unknown.
    Text(Vec<u8>, Taint),
    List(Vec<Value>),
    Table(Vec<(Option<String>, Value)>),
    /// A module, or something in it, by its dotted name.
    Path(String),
    /// A function of a value.
    Method(Box<Value>, String),
    /// Something of a module that acts, which cannot be told.
    Hidden,
    OneOf(Vec<Value>),
    Unknown(Taint),
}

impl Value {
    pub fn text(text: &[u8]) -> Value {
        Value::Text(text.to_vec(), Taint::NONE)
    }

    pub fn unknown() -> Value {
        Value::Unknown(Taint::NONE)
    }

    pub fn known_text(&self) -> Option<&[u8]> {
        match self {
            Value::Text(text, _) if !text.contains(&UNKNOWN) => Some(text),
            _ => None,
        }
    }

    /// How many parts it has, counted as far as `most`.
    pub fn weight(&self, most: usize) -> usize {
        let all = |items: &mut dyn Iterator<Item = &Value>| {
            let mut sum = 1;
            for item in items {
                sum += item.weight(most);
                if sum >= most {
                    break;
                }
            }
            sum
        };
        match self {
            Value::Text(text, _) => 1 + text.len() / 16,
            Value::List(items) | Value::OneOf(items) => all(&mut items.iter()),
            Value::Table(items) => all(&mut items.iter().map(|(_, value)| value)),
            Value::Method(of, _) => 1 + of.weight(most),
            Value::Path(path) => 1 + path.len() / 16,
            Value::Hidden | Value::Unknown(_) => 1,
        }
    }

    /// Whether something in it could be called and act.
    pub fn may_act(&self, most: usize) -> bool {
        match self {
            Value::Path(_) | Value::Hidden => true,
            Value::List(items) | Value::OneOf(items) => {
                items.iter().take(most).any(|item| item.may_act(most))
            }
            Value::Table(items) => items.iter().take(most).any(|(_, item)| item.may_act(most)),
            Value::Method(of, _) => of.may_act(most),
            Value::Text(..) | Value::Unknown(_) => false,
        }
    }

    /// The text, with its unknown parts marked.
    fn rough(&self) -> Vec<u8> {
        match self {
            Value::Text(text, _) => text.clone(),
            Value::OneOf(all) => all.first().map_or_else(|| vec![UNKNOWN], Value::rough),
            _ => vec![UNKNOWN],
        }
    }

    pub fn taint(&self) -> Taint {
        self.taint_except(&[])
    }

    /// Without what stands under some keys.
    pub fn taint_except(&self, keys: &[&str]) -> Taint {
        match self {
            Value::Text(_, taint) | Value::Unknown(taint) => *taint,
            Value::List(items) | Value::OneOf(items) => {
                items.iter().fold(Taint::NONE, |taint, item| taint.and(item.taint_except(keys)))
            }
            Value::Table(items) => {
                let counted =
                    items.iter().filter(|(key, _)| key.as_deref().is_none_or(|key| !keys.contains(&key)));
                counted.fold(Taint::NONE, |taint, (_, item)| taint.and(item.taint_except(keys)))
            }
            Value::Path(path) => match path.as_str() {
                "os.environ" | "process.env" | "os.environb" => Taint::SECRET,
                _ => Taint::NONE,
            },
            Value::Method(of, _) => of.taint_except(keys),
            Value::Hidden => Taint::NONE,
        }
    }

    pub fn field(&self, span: Span) -> Field {
        Field { text: self.rough().into(), span, splits: false, taint: self.taint() }
    }

    pub fn alternatives(&self) -> &[Value] {
        match self {
            Value::OneOf(all) => all,
            one => std::slice::from_ref(one),
        }
    }

    pub fn or(self, other: Value) -> Value {
        if self == other {
            return self;
        }
        let mut all = match self {
            Value::OneOf(all) => all,
            one => vec![one],
        };
        match other {
            Value::OneOf(more) => all.extend(more),
            one => all.push(one),
        }
        if all.len() > ALTERNATIVES {
            let acting = all.iter().any(|value| matches!(value, Value::Hidden | Value::Path(_)));
            let taint = all.iter().fold(Taint::NONE, |taint, value| taint.and(value.taint()));
            return if acting { Value::Hidden } else { Value::Unknown(taint) };
        }
        Value::OneOf(all)
    }

    pub fn plus(&self, other: &Value) -> Value {
        let mut text = self.rough();
        let more = other.rough();
        // Unknown beside unknown is no more than unknown.
        if more != [UNKNOWN] || text.last() != Some(&UNKNOWN) {
            text.extend(more);
        }
        if text.len() > LONGEST {
            text = vec![UNKNOWN];
        }
        Value::Text(text, self.taint().and(other.taint()))
    }

    /// As two parts of a path.
    pub fn joined(&self, other: &Value) -> Value {
        let right = other.rough();
        if right.first() == Some(&b'/') {
            return other.clone();
        }
        self.plus(&Value::text(b"/")).plus(other)
    }

    /// `text % values`.
    pub fn formatted(&self, _values: &Value) -> Value {
        let Value::Text(text, taint) = self else { return Value::Unknown(self.taint()) };
        let mut out = Vec::new();
        let mut at = 0;
        while at < text.len() {
            if text[at] == b'%' && text.get(at + 1) != Some(&b'%') {
                out.push(UNKNOWN);
                at += 1;
                let is_format = |byte: &u8| !byte.is_ascii_alphabetic();
                at += text[at..].iter().take_while(|byte| is_format(byte)).count();
            } else {
                out.push(text[at]);
            }
            at += 1;
        }
        Value::Text(out, *taint)
    }

    pub fn item(&self, at: usize) -> Value {
        match self {
            Value::List(items) => items.get(at).cloned().unwrap_or_else(|| Value::Unknown(self.taint())),
            other => Value::Unknown(other.taint()),
        }
    }

    pub fn member(&self, name: &str) -> Value {
        match self {
            Value::Path(path) => match path.as_str() {
                "os.environ" | "process.env" | "os.environb"
                    if !matches!(name, "get" | "copy" | "items" | "update") =>
                {
                    variable(name)
                }
                "globalThis" | "global" | "window" | "builtins" | "__builtins__" | "sys.modules" => {
                    Value::Path(name.to_owned())
                }
                _ if name == "__dict__" || name == "default" => self.clone(),
                path => Value::Path(format!("{path}.{name}")),
            },
            Value::OneOf(all) => {
                all.iter().map(|one| one.member(name)).reduce(Value::or).unwrap_or_else(Value::unknown)
            }
            Value::Table(items) if items.iter().any(|(key, _)| key.as_deref() == Some(name)) => {
                let item = items.iter().find(|(key, _)| key.as_deref() == Some(name));
                item.map_or_else(Value::unknown, |(_, value)| value.clone())
            }
            Value::Hidden => Value::Hidden,
            other => Value::Method(Box::new(other.clone()), name.to_owned()),
        }
    }

    /// Whether a table has this key with something true.
    pub fn has_true(&self, key: &str) -> bool {
        let truth = |value: &Value| !matches!(value, Value::Path(path) if matches!(path.as_str(), "false" | "False" | "undefined"));
        matches!(self, Value::Table(items) if items.iter().any(|(name, value)| name.as_deref() == Some(key) && truth(value)))
    }

    /// What a function of this value gives.
    pub fn method(&self, name: &str, args: &[(Option<String>, Value)]) -> Value {
        let first = args.first().map(|(_, value)| value);
        let taint = args.iter().fold(self.taint(), |taint, (_, value)| taint.and(value.taint()));
        match (name, self) {
            (
                "decode" | "encode" | "toString" | "strip" | "trim" | "expanduser" | "resolve" | "absolute"
                | "as_posix",
                _,
            ) => self.clone(),
            ("join", Value::Text(separator, _)) => match first {
                Some(Value::List(items)) => join(items, separator),
                _ => Value::Unknown(taint),
            },
            ("join", Value::List(items)) => join(items, &first.map_or_else(|| b",".to_vec(), Value::rough)),
            ("joinpath", _) => args.iter().fold(self.clone(), |path, (_, part)| path.joined(part)),
            ("lower" | "toLowerCase", Value::Text(text, taint)) => {
                Value::Text(text.to_ascii_lowercase(), *taint)
            }
            ("upper" | "toUpperCase", Value::Text(text, taint)) => {
                Value::Text(text.to_ascii_uppercase(), *taint)
            }
            ("concat", _) => args.iter().fold(self.clone(), |sum, (_, part)| sum.plus(part)),
            ("replace" | "replaceAll", Value::Text(text, _)) => {
                let parts =
                    (first.and_then(Value::known_text), args.get(1).and_then(|(_, with)| with.known_text()));
                match parts {
                    (Some(what), Some(with)) if !what.is_empty() => {
                        Value::Text(replaced(text, what, with), taint)
                    }
                    _ => Value::Unknown(taint),
                }
            }
            ("format", Value::Text(text, _)) => {
                let mut out = Vec::new();
                let mut inside = false;
                for byte in text {
                    match byte {
                        b'{' => {
                            inside = true;
                            out.push(UNKNOWN);
                        }
                        b'}' => inside = false,
                        _ if inside => {}
                        byte => out.push(*byte),
                    }
                }
                Value::Text(out, taint)
            }
            ("split", Value::Text(text, taint)) if text.len() < 4096 && !text.contains(&UNKNOWN) => {
                let separator = first
                    .and_then(Value::known_text)
                    .filter(|text| text.len() == 1)
                    .map_or(b' ', |text| text[0]);
                let parts = text.split(|byte| *byte == separator).filter(|part| !part.is_empty());
                Value::List(parts.map(|part| Value::Text(part.to_vec(), *taint)).collect())
            }
            ("reverse", Value::List(items)) => Value::List(items.iter().rev().cloned().collect()),
            _ => Value::Unknown(taint),
        }
    }
}

fn join(items: &[Value], separator: &[u8]) -> Value {
    let mut whole = Value::text(b"");
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            whole = whole.plus(&Value::text(separator));
        }
        whole = whole.plus(item);
    }
    whole
}

fn replaced(text: &[u8], what: &[u8], with: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with(what) {
            out.extend_from_slice(with);
            at += what.len();
        } else {
            out.push(text[at]);
            at += 1;
        }
    }
    if out.len() > LONGEST { vec![UNKNOWN] } else { out }
}

/// A variable of the environment.
fn variable(name: &str) -> Value {
    if name == "HOME" || name == "USERPROFILE" {
        return Value::text(b"~");
    }
    let secret = registry::known(name.as_bytes())
        .is_some_and(|entry| entry.kind == registry::Kind::Credential)
        || registry::name_shape(name.as_bytes()).is_some();
    Value::Unknown(if secret { Taint::SECRET } else { Taint::NONE })
}

/// Functions whose result is known when their arguments are.
pub fn computed(path: &str, args: &[(Option<String>, Value)]) -> Option<Value> {
    let positional: Vec<&Value> =
        args.iter().filter(|(key, _)| key.is_none()).map(|(_, value)| value).collect();
    let first = positional.first().copied();
    Some(match path {
        "os.path.join" | "path.join" | "path.resolve" | "posixpath.join" | "pathlib.Path" | "Path"
        | "pathlib.PurePath" | "pathlib.PosixPath" => {
            let mut parts = positional.into_iter();
            let first = parts.next().cloned().unwrap_or_else(|| Value::text(b"."));
            parts.fold(first, |path, part| path.joined(part))
        }
        "os.path.expanduser" | "os.path.abspath" | "os.path.realpath" | "os.path.normpath" | "str"
        | "String" | "bytes" | "path.normalize" | "os.fspath" | "shlex.quote" | "shlex.split" | "list"
        | "tuple" | "dict" | "TextDecoder" => match first {
            Some(Value::Path(_)) | None => return None,
            Some(value) => value.clone(),
        },
        "pathlib.Path.home" | "Path.home" | "os.homedir" => Value::text(b"~"),
        "os.getcwd" | "pathlib.Path.cwd" | "Path.cwd" | "process.cwd" => Value::text(b"."),
        "tempfile.mkdtemp" | "tempfile.mktemp" | "tempfile.gettempdir" | "os.tmpdir" | "fs.mkdtempSync" => {
            Value::text(b"/tmp/made")
        }
        "os.getenv" | "os.environ.get" | "Deno.env.get" => {
            variable(&String::from_utf8_lossy(first.and_then(Value::known_text)?))
        }
        "os.environ.copy" | "os.environ.items" => Value::Unknown(Taint::SECRET),
        "base64.b64decode"
        | "base64.decodebytes"
        | "atob"
        | "base64.urlsafe_b64decode"
        | "base64.standard_b64decode" => decoded(first.and_then(Value::known_text).and_then(decode_base64)),
        "Buffer.from" => match positional.get(1).and_then(|value| value.known_text()) {
            Some(b"base64") => decoded(first.and_then(Value::known_text).and_then(decode_base64)),
            Some(b"hex") => decoded(None),
            _ => first?.clone(),
        },
        "bytes.fromhex"
        | "binascii.unhexlify"
        | "binascii.a2b_base64"
        | "codecs.decode"
        | "zlib.decompress"
        | "gzip.decompress"
        | "marshal.loads" => decoded(None),
        "chr" | "String.fromCharCode" | "String.fromCodePoint" => {
            let letter = |value: &Value| {
                let number = std::str::from_utf8(value.known_text()?).ok()?.parse::<u32>().ok()?;
                char::from_u32(number)
            };
            let text: Option<String> = positional.iter().map(|value| letter(value)).collect();
            Value::text(text?.as_bytes())
        }
        _ => return None,
    })
}

fn decoded(bytes: Option<Vec<u8>>) -> Value {
    match bytes {
        Some(bytes) => Value::Text(bytes, Taint::DECODED),
        None => Value::Unknown(Taint::DECODED),
    }
}
