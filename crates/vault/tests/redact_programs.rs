//! Values as real programs print them: each command gets a value in its environment, and its output is compared as a whole.
#![allow(clippy::unwrap_used)]

use keyward_vault::redact::{Encoding, Patterns, Redactor};
use std::process::Command;

const NASTY: &str = "p@ss/w0rd \"q\" 'x' $HOME&<t>+~100% ü,#";

/// Made of parts, so that no scanner takes this file for a leak.
fn token() -> String {
    ["gh", "p_", "Qr7tX2bN9wLmK4zP8vYd0aB1cD2eF3gH4iJ5"].concat()
}

/// Longer than a line of base64 and of `xxd -p`.
fn long() -> String {
    (0..10).map(|line| format!("{line}-xK9+vQ/{}.", line * 7919)).collect()
}

fn key_block() -> String {
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    ["-----BEGIN ", "PRIVATE KEY-----\n", line, "\n", &line[20..], "\n-----END ", "PRIVATE KEY-----"].concat()
}

/// What the command prints when `S` is the value.
fn printed(script: &str, value: &str) -> Vec<u8> {
    let output =
        Command::new("bash").args(["-c", script]).env("S", value).env("LC_ALL", "C.UTF-8").output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    [output.stdout, output.stderr].concat()
}

fn redacted(text: &[u8], value: &str) -> (String, Vec<Encoding>) {
    let (patterns, refused) = Patterns::new([("it", value.as_bytes())]);
    assert_eq!(refused, []);
    let (mut out, mut found) = (Vec::new(), Vec::new());
    let mut redactor = Redactor::new(&patterns);
    redactor.push(text, &mut out, &mut found);
    redactor.finish(&mut out, &mut found);
    (String::from_utf8_lossy(&out).into_owned(), found.iter().map(|found| found.encoding).collect())
}

/// Every command with the encoding that is told and the whole output that is left. Where two encodings make the same of a value, the one
/// that comes first in the list is told.
fn check(value: &str, cases: &[(&str, Encoding, &str)]) {
    for (script, encoding, expected) in cases {
        let text = printed(script, value);
        let (out, found) = redacted(&text, value);
        assert_eq!(
            (out.as_str(), found.as_slice()),
            (*expected, &[*encoding][..]),
            "{script}: {}",
            String::from_utf8_lossy(&text)
        );
    }
}

#[test]
fn what_shells_make_of_a_value() {
    use Encoding::{Plain, Shell};
    check(
        NASTY,
        &[
            (r#"printf '%s' "$S""#, Plain, "[keyward:it]"),
            (r#"printf '%q' "$S""#, Shell, "[keyward:it]"),
            (r#"declare -p S"#, Shell, "declare -x S=\"[keyward:it]\"\n"),
            (r#"echo "${S@Q}""#, Shell, "'[keyward:it]'\n"),
            (r#"set -x; : "$S""#, Shell, "+ : '[keyward:it]'\n"),
            (r#"sh -xc ': "$S"'"#, Plain, "+ : [keyward:it]\n"),
            (r#"sh -c 'export -p' | grep ' S='"#, Shell, "export S='[keyward:it]'\n"),
            (r#"printf %s "$S" | jq -Rr @sh"#, Shell, "'[keyward:it]'\n"),
            (
                r#"python3 -c 'import os, shlex; print(shlex.quote(os.environ["S"]))'"#,
                Shell,
                "'[keyward:it]'\n",
            ),
        ],
    );
    check("two\nlines\tof-it\x1b!", &[(r#"printf '%q' "$S""#, Shell, "$'[keyward:it]'")]);
}

#[test]
fn what_python_and_node_and_perl_make_of_a_value() {
    use Encoding::{Html, Json, Plain, Reversed, Shell, Source, Spaced, Utf16};
    check(
        NASTY,
        &[
            (r#"python3 -c 'import os; print(repr(os.environ["S"]))'"#, Shell, "'[keyward:it]'\n"),
            (r#"python3 -c 'import os; print(ascii(os.environ["S"]))'"#, Source, "'[keyward:it]'\n"),
            (r#"python3 -c 'import os; print(os.environb[b"S"])'"#, Source, "b'[keyward:it]'\n"),
            (
                r#"python3 -c 'import os, json; print(json.dumps(os.environ["S"]))'"#,
                Json,
                "\"[keyward:it]\"\n",
            ),
            (
                r#"python3 -c 'import os, json; print(json.dumps(json.dumps([os.environ["S"]])))'"#,
                Json,
                "\"[\\\"[keyward:it]\\\"]\"\n",
            ),
            (r#"python3 -c 'import os, html; print(html.escape(os.environ["S"]))'"#, Html, "[keyward:it]\n"),
            (r#"python3 -c 'import os; print(os.environ["S"][::-1])'"#, Reversed, "[keyward:it]\n"),
            (r#"python3 -c 'import os; print(*os.environ["S"])'"#, Spaced, "[keyward:it]\n"),
            (r#"python3 -c 'import os; print(*os.environ["S"], sep="\n")'"#, Spaced, "[keyward:it]\n"),
            (
                r#"python3 -c 'import os, sys; sys.stdout.buffer.write(os.environ["S"].encode("utf-16-le"))'"#,
                Utf16,
                "[keyward:it]\0",
            ),
            (
                r#"python3 -c 'import os, sys; sys.stdout.buffer.write(os.environ["S"].encode("utf-16-be"))'"#,
                Utf16,
                "\0[keyward:it]",
            ),
            (r#"node -p 'JSON.stringify(process.env.S)'"#, Json, "\"[keyward:it]\"\n"),
            (r#"node -p '[process.env.S]'"#, Plain, "[ `[keyward:it]` ]\n"),
            (r#"node -p '[process.env.S + "`"]'"#, Shell, "[ '[keyward:it]`' ]\n"),
            (r#"printf %s "$S" | jq -R ."#, Json, "\"[keyward:it]\"\n"),
            (r#"printf %s "$S" | jq -aR ."#, Json, "\"[keyward:it]\"\n"),
            (r#"printf %s "$S" | jq -Rr @html"#, Html, "[keyward:it]\n"),
            (r#"printf %s "$S" | sed -n l"#, Source, "[keyward:it]$\n"),
        ],
    );
    check(
        &NASTY.replace('ü', "u"),
        &[(
            r#"perl -MData::Dumper -e '$Data::Dumper::Useqq = 1; $Data::Dumper::Terse = 1; print Dumper($ENV{S})'"#,
            Shell,
            "\"[keyward:it]\"\n",
        )],
    );
    check(
        &token(),
        &[
            (r#"python3 -c 'import os; print(list(os.environ["S"]))'"#, Spaced, "['[keyward:it]']\n"),
            (r#"node -p 'JSON.stringify([...process.env.S])'"#, Spaced, "[\"[keyward:it]\"]\n"),
            (r#"rev <<< "$S""#, Reversed, "[keyward:it]\n"),
            (r#"sed 's/./& /g' <<< "$S""#, Spaced, "[keyward:it] \n"),
            (r#"fold -w1 <<< "$S""#, Spaced, "[keyward:it]\n"),
            (r#"echo "${S#ghp_}""#, Encoding::WithoutPrefix, "[keyward:it]\n"),
        ],
    );
}

#[test]
fn what_becomes_of_a_value_in_a_url() {
    use Encoding::Percent;
    let out = "[keyward:it]\n";
    check(
        NASTY,
        &[
            (r#"printf %s "$S" | jq -Rr @uri"#, Percent, out),
            (r#"python3 -c 'import os, urllib.parse as u; print(u.quote(os.environ["S"]))'"#, Percent, out),
            (
                r#"python3 -c 'import os, urllib.parse as u; print(u.quote(os.environ["S"], safe=""))'"#,
                Percent,
                out,
            ),
            (
                r#"python3 -c 'import os, urllib.parse as u; print(u.quote_plus(os.environ["S"]))'"#,
                Percent,
                out,
            ),
            (r#"node -p 'encodeURIComponent(process.env.S)'"#, Percent, out),
            (r#"node -p 'encodeURI(process.env.S)'"#, Percent, out),
            (
                r#"node -p 'new URLSearchParams({ a: process.env.S }).toString()'"#,
                Percent,
                "a=[keyward:it]\n",
            ),
            (r#"printf %s "$S" | xxd -p | tr -d '\n' | sed 's/../%&/g'; echo"#, Percent, out),
            (
                r#"curl -s -o /dev/null -w '%{url_effective}\n' --get --data-urlencode "a=$S" http://127.0.0.1:9 || true"#,
                Percent,
                "http://127.0.0.1:9/?a=[keyward:it]\n",
            ),
        ],
    );
}

#[test]
fn base64_of_a_value_alone_and_inside() {
    use Encoding::Base64;
    let out = "[keyward:it]\n";
    for value in [token(), NASTY.to_owned(), long(), "nine-or10".to_owned(), "8letters".to_owned()] {
        check(
            &value,
            &[
                (r#"printf %s "$S" | base64"#, Base64, out),
                (r#"printf %s "$S" | base64 -w0"#, Base64, &out[..12]),
                (r#"echo "$S" | base64"#, Base64, out),
                (r#"printf %s "$S" | openssl base64"#, Base64, out),
                (r#"printf %s "$S" | basenc --base64url -w0"#, Base64, &out[..12]),
                (r#"printf %s "$S" | basenc --base64url -w0 | tr -d ="#, Base64, &out[..12]),
                (r#"node -p 'Buffer.from(process.env.S).toString("base64url")'"#, Base64, out),
                (
                    r#"python3 -c 'import os, base64; print(base64.encodebytes(os.environb[b"S"]).decode(), end="")'"#,
                    Base64,
                    out,
                ),
            ],
        );
        // Inside, what is shared with the neighbours stays.
        for before in ["", "u", "us", "user:", "x-access-token:"] {
            let script = format!(r#"printf '%s%s%s' '{before}' "$S" 'and more' | base64 -w0"#);
            let text = printed(&script, &value);
            let (out, found) = redacted(&text, &value);
            assert_eq!(found, [Base64], "{script}");
            let left = out.replace("[keyward:it]", "").len();
            assert!(text.len() - left >= value.len() * 4 / 3 - 2, "{script}: {out}");
        }
    }
}

#[test]
fn hexadecimal_and_dumps() {
    use Encoding::{Dump, Hex};
    for value in [token(), NASTY.to_owned(), long(), "8letters".to_owned()] {
        for (script, encoding) in [
            (r#"printf %s "$S" | xxd -p"#, Hex),
            (r#"printf %s "$S" | xxd -p | tr -d '\n'"#, Hex),
            (r#"printf %s "$S" | xxd -p -u | tr -d '\n'"#, Hex),
            (r#"printf %s "$S" | xxd -i"#, Hex),
            (r#"printf %s "$S" | od -An -v -tx1 | tr -d ' \n'"#, Hex),
            (r#"printf %s "$S" | od -An -v -tx1 | tr -d '\n'"#, Hex),
            (r#"python3 -c 'import os; print(os.environb[b"S"].hex(":"))'"#, Hex),
            (r#"python3 -c 'import os; print("".join(f"\\x{b:02x}" for b in os.environb[b"S"]))'"#, Hex),
            (r#"node -p 'Buffer.from(process.env.S).toString("hex").toUpperCase()'"#, Hex),
            (r#"printf %s "$S" | xxd"#, Dump),
            (r#"echo "$S" | xxd"#, Dump),
            (r#"printf %s "$S" | hexdump -C"#, Dump),
            (r#"echo "$S" | hexdump -C"#, Dump),
            (r#"printf %s "$S" | od -tx1"#, Dump),
            (r#"printf %s "$S" | od -An -tx1"#, Dump),
            (r#"printf %s "$S" | od -x"#, Dump),
            (r#"echo "$S" | od -x"#, Dump),
            (r#"printf %s "$S" | hexdump"#, Dump),
            (r#"printf %s "$S" | od -c"#, Dump),
        ] {
            let text = printed(script, &value);
            let (out, found) = redacted(&text, &value);
            assert!(
                found == [encoding] || (found == [Hex] && value.len() <= 16),
                "{script}: {found:?}\n{out}\n{}",
                String::from_utf8_lossy(&text)
            );
            // Offsets and what frames the dump, nothing of the value.
            assert!(out.split_whitespace().map(str::len).sum::<usize>() <= 40, "{script}: {out}");
        }
    }
}

#[test]
fn a_key_of_several_lines() {
    let key = key_block();
    let left = |script: &str| redacted(&printed(script, &key), &key).0;
    assert_eq!(left(r#"printf %s "$S""#), "[keyward:it]");
    // As a terminal shows it.
    assert_eq!(left(r#"printf %s "$S" | sed 's/$/\r/'"#).trim_end(), "[keyward:it]");
    assert_eq!(
        left(r#"python3 -c 'import os, json; print(json.dumps({"key": os.environ["S"]}))'"#),
        "{\"key\": \"[keyward:it]\"}\n"
    );
    assert_eq!(left(r#"printf %s "$S" | sed -n 's/^/    /; 2,3p'"#), "    [keyward:it]\n    [keyward:it]\n");
}
