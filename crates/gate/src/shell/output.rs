//! What a program would print, where its arguments and its input tell.

use super::walk::{Started, Stream, Walker};
use super::word::unescape;
use crate::paths::{CREDENTIAL, HERE, look};
use crate::rules::tables::Entry;
use crate::text::{Bytes, Field, LONGEST, Taint, UNKNOWN};
use std::rc::Rc;

/// The name of a file or directory that a command has made for itself.
pub(super) const MADE: &[u8] = b"/tmp/made";

impl Walker<'_> {
    pub(super) fn output(&mut self, name: &[u8], entry: Option<&Entry>, started: &Started) -> Stream {
        let args = &started.args[1..];
        let input = &started.input;
        let own = args.iter().fold(Taint::NONE, |taint, arg| taint.and(arg.taint));
        let words = || args.iter().filter(|arg| !arg.text.starts_with(b"-") || arg.text == b"-");
        let flag = |short: u8, long: &[u8]| {
            let has = |arg: &Field| {
                arg.text == long
                    || arg.text.len() > 1
                        && arg.text[0] == b'-'
                        && arg.text[1] != b'-'
                        && arg.text.contains(&short)
            };
            args.iter().any(has)
        };
        let text = |bytes: &[u8], taint| Stream { taint, ..Stream::text(bytes) };
        match name {
            b"echo" => match echo(args) {
                Some(text) => Stream { text: Some(text), ..Stream::unknown(own) },
                None => Stream::unknown(own),
            },
            b"printf" => {
                let into = args.first().filter(|arg| arg.text == b"-v").and_then(|_| args.get(1));
                let formatted = match into {
                    Some(_) => print_formatted(&args[2..]),
                    None => print_formatted(args),
                };
                let bytes = formatted.unwrap_or_else(|| vec![UNKNOWN]);
                if let Some(variable) = into {
                    let value = super::variables::Text { bytes: bytes.into(), taint: own };
                    self.variables.assign(&variable.text, vec![value], false);
                    return text(b"", Taint::NONE);
                }
                text(&bytes, own)
            }
            b"cat" | b"bat" | b"head" | b"tail" | b"tac" | b"less" | b"more" => {
                self.concatenated(words(), input, name == b"cat")
            }
            b"base64" | b"base32" | b"openssl" | b"xxd" | b"uudecode" | b"gunzip" | b"zcat" | b"gzip"
            | b"bunzip2" | b"xz" | b"unxz" | b"zstd" | b"hex" | b"rev" | b"tr" => {
                self.decoded(name, args, input, flag)
            }
            b"tee" => {
                for file in words() {
                    self.write(&file.text, input.clone());
                }
                input.clone()
            }
            b"mktemp" => text(MADE, Taint::NONE),
            b"pwd" => text(b".", Taint::NONE),
            b"git" if words().next().is_some_and(|word| word.text == b"rev-parse") => {
                match flag(b'-', b"--show-toplevel") {
                    true => text(b".", Taint::NONE),
                    false => Stream::unknown(Taint::NONE),
                }
            }
            b"dirname" => match args.first() {
                Some(arg) if arg.is_known() => {
                    let at = arg.text.iter().rposition(|byte| *byte == b'/');
                    text(at.map_or(b".", |at| &arg.text[..at.max(1)]), own)
                }
                _ => Stream::unknown(own),
            },
            b"date" | b"nproc" | b"id" | b"wc" | b"expr" | b"seq" | b"hostname" | b"uname" | b"arch" => {
                // A number or a short word that is no path.
                text(b"1", Taint::NONE)
            }
            b"true" | b"false" | b":" | b"test" | b"[" | b"mkdir" | b"touch" | b"rm" | b"mv" | b"cp"
            | b"chmod" | b"sleep" | b"wait" | b"return" | b"exit" => text(b"", Taint::NONE),
            b"find" | b"fd" => {
                let mut roots = words().take_while(|word| !matches!(word.text.first(), Some(b'(' | b'!')));
                let root = roots.next().map_or(b".".as_slice(), |word| word.text.as_slice());
                self.found(name, args, root)
            }
            b"sort" | b"uniq" if input.names.is_some() => {
                Stream { names: input.names.clone(), ..Stream::unknown(own.and(input.taint)) }
            }
            b"ls" | b"rg" | b"grep" | b"git" | b"ag" if started.reads.is_empty() && !input.fed => {
                let words: Vec<&Field> = words().collect();
                self.listed(name, args, &words, flag(b'l', b"--files-with-matches"))
            }
            b"printenv" | b"gpg" | b"pass" => Stream::unknown(Taint::SECRET),
            _ if entry.is_some_and(|entry| entry.download) => {
                // What comes from this machine is no download, but nobody has seen it either.
                let from =
                    if args.iter().any(|arg| is_near(&arg.text)) { Taint::NONE } else { Taint::DOWNLOAD };
                self.downloaded_files(name, args, own, from);
                Stream::unknown(from.and(input.taint))
            }
            _ => {
                let secret = words().any(|word| self.is_credential(&word.text));
                Stream::unknown(own.and(input.taint).and(if secret { Taint::SECRET } else { Taint::NONE }))
            }
        }
    }

    /// What is printed of files one after the other; `whole` if nothing is left out.
    fn concatenated<'f>(
        &mut self,
        files: impl Iterator<Item = &'f Field>,
        input: &Stream,
        whole: bool,
    ) -> Stream {
        let mut files = files.peekable();
        if files.peek().is_none() {
            return Stream { text: input.text.clone().filter(|_| whole), ..input.clone() };
        }
        let mut output = Stream { fed: true, ..Stream::text(b"") };
        for file in files {
            let stream = if file.text == b"-" { input.clone() } else { self.file_stream(&file.text) };
            output = Stream {
                text: match (output.text, stream.text) {
                    (Some(mut one), Some(two)) if whole && one.len() + two.len() <= LONGEST => {
                        one.extend_from_slice(&two);
                        Some(one)
                    }
                    _ => None,
                },
                taint: output.taint.and(stream.taint),
                file: output.file.or(stream.file),
                names_all: false,
                names: None,
                place: None,
                fed: true,
            };
        }
        output
    }

    /// The names that a search below `root` prints.
    fn found(&mut self, name: &[u8], args: &[Field], root: &[u8]) -> Stream {
        let line = match root {
            b"/" | b"~" => [root, b"\n"].concat(),
            _ => [root, b"/\0\n"].concat(),
        };
        let names_all = !args.iter().any(|arg| picks(&arg.text)) && look(root, &self.standing).is.meets(HERE);
        let names = (name == b"find").then(|| self.printed_by_find(args)).flatten().map(Rc::new);
        Stream { names_all, names, ..Stream::text(&line) }
    }

    /// The names, or the lines, that a listing prints. `words` are its arguments without options.
    fn listed(&mut self, name: &[u8], args: &[Field], words: &[&Field], only_names: bool) -> Stream {
        let secret = words.iter().any(|word| self.is_credential(&word.text));
        let names = name == b"ls" || only_names || words.first().is_some_and(|word| word.text == b"ls-files");
        let list = match name {
            b"ls" => self.printed_by_ls(args),
            b"git" => self.printed_by_git(args),
            _ => None,
        };
        let list = list.filter(|_| !secret).map(Rc::new);
        // `git ls-files` without a pattern.
        let names_all = name == b"git" && words.len() == 1 && list.is_none();
        match names && !secret {
            true => Stream { names_all, names: list, ..Stream::text(b"./\0\n") },
            false => {
                Stream { names: list, ..Stream::unknown(if secret { Taint::SECRET } else { Taint::NONE }) }
            }
        }
    }

    fn is_credential(&self, path: &[u8]) -> bool {
        self.findings.looks.look(path, &self.standing).is.meets(CREDENTIAL)
    }

    /// Remembers which files come from the network.
    fn downloaded_files(&mut self, name: &[u8], args: &[Field], taint: Taint, from: Taint) {
        let stream = Stream::unknown(from.and(taint));
        for (at, arg) in args.iter().enumerate() {
            let text = arg.text.as_slice();
            let option = matches!(text, b"-o" | b"--output" | b"-O" | b"--output-document");
            let remote =
                name == b"curl" && text.starts_with(b"-") && !text.starts_with(b"--") && text.contains(&b'O');
            if option
                && !remote
                && let Some(file) = args.get(at + 1)
            {
                self.write(&file.text, stream.clone());
            }
            let joined = text.strip_prefix(b"-o").filter(|rest| !rest.is_empty());
            if let Some(file) =
                text.strip_prefix(b"--output=").or(text.strip_prefix(b"--output-document=")).or(joined)
            {
                self.write(file, stream.clone());
            }
            // Clusters such as `-fsSLo`.
            if text.len() > 2
                && text[0] == b'-'
                && text[1] != b'-'
                && matches!(text.last(), Some(b'o' | b'O'))
                && let Some(file) = args.get(at + 1)
            {
                self.write(&file.text, stream.clone());
            }
            // The name on the server becomes the name here.
            if text.windows(3).any(|window| window == b"://")
                && let Some(last) = text.rsplit(|byte| *byte == b'/').next()
            {
                let last = last.split(|byte| b"?#".contains(byte)).next().unwrap_or(last);
                if !last.is_empty()
                    && (name != b"curl"
                        || args.iter().any(|arg| arg.text.starts_with(b"-") && arg.text.contains(&b'O')))
                {
                    self.write(last, stream.clone());
                }
            }
        }
    }

    fn decoded(
        &mut self,
        name: &[u8],
        args: &[Field],
        input: &Stream,
        flag: impl Fn(u8, &[u8]) -> bool,
    ) -> Stream {
        let file =
            args.iter().rfind(|arg| !arg.text.starts_with(b"-") && name != b"tr" && name != b"openssl");
        let source = match file {
            Some(file) => self.file_stream(&file.text),
            None => input.clone(),
        };
        let known = source.text.as_deref().filter(|text| !text.contains(&UNKNOWN));
        let taint = source.taint;
        let hidden = |bytes: Option<Vec<u8>>| match bytes {
            Some(bytes) => Stream { taint: taint.and(Taint::DECODED), ..Stream::text(&bytes) },
            None => Stream::unknown(taint.and(Taint::DECODED)),
        };
        match name {
            b"base64" if flag(b'd', b"--decode") || flag(b'D', b"--decode") => {
                hidden(known.and_then(decode_base64))
            }
            b"openssl" if args.iter().any(|arg| arg.text == b"-d") => {
                let plain =
                    args.iter().any(|arg| matches!(arg.text.as_slice(), b"base64" | b"-base64" | b"-a"));
                hidden(known.filter(|_| plain).and_then(decode_base64))
            }
            b"xxd" if flag(b'r', b"-revert") => hidden(known.and_then(decode_hex)),
            b"rev" => {
                let turned = known.map(|text| {
                    let lines = text
                        .split(|byte| *byte == b'\n')
                        .map(|line| line.iter().rev().copied().collect::<Vec<u8>>());
                    lines.collect::<Vec<_>>().join(&b'\n')
                });
                hidden(turned)
            }
            b"tr" => match known.and_then(|text| translate(args, text)) {
                Some(bytes) => Stream { taint, ..Stream::text(&bytes) },
                None => Stream::unknown(taint),
            },
            // To encode hides nothing from whoever reads the script.
            b"base64" | b"base32" | b"xxd" | b"hex" | b"openssl" | b"gzip" | b"xz" | b"zstd"
                if !flag(b'd', b"--decompress") =>
            {
                Stream::unknown(taint)
            }
            _ => hidden(None),
        }
    }
}

/// Whether an argument of `find` leaves some files out.
pub(super) fn picks(arg: &[u8]) -> bool {
    const PICKING: [&[u8]; 14] = [
        b"-name",
        b"-iname",
        b"-path",
        b"-ipath",
        b"-regex",
        b"-iregex",
        b"-newer",
        b"-mtime",
        b"-mmin",
        b"-size",
        b"-empty",
        b"-user",
        b"-perm",
        b"-maxdepth",
    ];
    PICKING.contains(&arg)
}

/// Whether an address is one of this machine.
fn is_near(arg: &[u8]) -> bool {
    let address = arg.strip_prefix(b"http://").or(arg.strip_prefix(b"https://")).unwrap_or(arg);
    let near: [&[u8]; 9] = [
        b"file:",
        b"localhost",
        b"127.",
        b"[::1]",
        b"0.0.0.0",
        b"--unix-socket",
        b"--abstract-unix-socket",
        b"UNIX",
        b"-U",
    ];
    near.iter().any(|start| address.starts_with(start)) || arg == b"-l"
}

fn echo(args: &[Field]) -> Option<Bytes> {
    let mut args = args;
    let (mut escapes, mut newline) = (false, true);
    while let Some(first) = args.first() {
        let letters = first.text.strip_prefix(b"-").filter(|letters| !letters.is_empty());
        let Some(letters) = letters.filter(|letters| letters.iter().all(|letter| b"neE".contains(letter)))
        else {
            break;
        };
        escapes = letters.contains(&b'e') || escapes && !letters.contains(&b'E');
        newline &= !letters.contains(&b'n');
        args = &args[1..];
    }
    let mut text = Bytes::new();
    for (at, arg) in args.iter().enumerate() {
        if at > 0 {
            text.push(b' ');
        }
        text.extend_from_slice(&arg.text);
    }
    if escapes {
        text = unescape(&text).into();
    }
    if newline {
        text.push(b'\n');
    }
    (text.len() <= LONGEST).then_some(text)
}

fn print_formatted(args: &[Field]) -> Option<Vec<u8>> {
    let args = if args.first().is_some_and(|arg| arg.text == b"--") { &args[1..] } else { args };
    let (format, mut rest) = args.split_first()?;
    let format = unescape(&format.text);
    let mut out = Vec::new();
    loop {
        let mut used = false;
        let mut at = 0;
        while at < format.len() {
            if format[at] != b'%' {
                out.push(format[at]);
                at += 1;
                continue;
            }
            at += 1;
            while format.get(at).is_some_and(|byte| b"-+ #0123456789.*".contains(byte)) {
                at += 1;
            }
            let code = *format.get(at)?;
            at += 1;
            if code == b'%' {
                out.push(b'%');
                continue;
            }
            let (arg, after) = match rest.split_first() {
                Some((arg, after)) => (arg.text.as_slice(), after),
                None => (&b""[..], rest),
            };
            used |= !rest.is_empty();
            rest = after;
            match code {
                b's' | b'q' | b'd' | b'i' | b'u' => out.extend_from_slice(arg),
                b'b' => out.extend(unescape(arg)),
                b'c' => out.extend(arg.first()),
                b'x' | b'X' | b'o' => {
                    let number: u64 = std::str::from_utf8(arg).ok()?.parse().ok()?;
                    let text = if code == b'o' { format!("{number:o}") } else { format!("{number:x}") };
                    out.extend_from_slice(text.as_bytes());
                }
                _ => return None,
            }
        }
        if out.len() > LONGEST {
            return None;
        }
        // The format is used again as long as there are arguments, and it takes some.
        if rest.is_empty() || !used {
            return Some(out);
        }
    }
}

/// Base64 with or without its padding; other bytes are left out, as decoders can be told to.
pub fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0u32, 0u32);
    for byte in text {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => break,
            byte if byte.is_ascii_whitespace() => continue,
            _ => return None,
        };
        held = held << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((held >> bits) as u8);
        }
    }
    Some(out)
}

fn decode_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .iter()
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|byte| char::from(*byte).to_digit(16).map(|digit| digit as u8))
        .collect::<Option<_>>()?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).unwrap_or(&0)).collect())
}

/// `tr SET1 SET2` and `tr -d SET`, with ranges.
fn translate(args: &[Field], text: &[u8]) -> Option<Vec<u8>> {
    let delete = args.first().is_some_and(|arg| arg.text == b"-d");
    let mut sets = args
        .iter()
        .filter(|arg| !arg.text.starts_with(b"-") || arg.text.len() == 1)
        .map(|arg| set(&arg.text));
    let from = sets.next()??;
    if delete {
        return Some(text.iter().copied().filter(|byte| !from.contains(byte)).collect());
    }
    let to = sets.next()??;
    let last = *to.last()?;
    let change = |byte: &u8| match from.iter().position(|one| one == byte) {
        Some(at) => to.get(at).copied().unwrap_or(last),
        None => *byte,
    };
    Some(text.iter().map(change).collect())
}

fn set(text: &[u8]) -> Option<Vec<u8>> {
    if text.contains(&b'[') || text.contains(&UNKNOWN) {
        return None;
    }
    let text = unescape(text);
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        match (text.get(at + 1), text.get(at + 2)) {
            (Some(b'-'), Some(end)) if *end >= text[at] => {
                out.extend(text[at]..=*end);
                at += 3;
            }
            _ => {
                out.push(text[at]);
                at += 1;
            }
        }
    }
    Some(out)
}
