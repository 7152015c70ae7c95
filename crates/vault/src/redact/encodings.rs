//! The forms in which programs print a value: what `base64`, `xxd`, `jq`, `printf %q`, `json.dumps` and their like make of it.
//!
//! Each form is a plain row of bytes, so that finding one is a comparison and nothing else. A form begins and ends with the value: quotes,
//! offsets and padding around it are not part of it, except where they would give the end of the value away.

use super::wiped::Wiped;

/// How a value was written where it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encoding {
    Plain,
    /// Without the vendor's well-known prefix.
    WithoutPrefix,
    /// One line of a key that has several.
    Line,
    /// Standard or URL alphabet, at any of the three places in a group of four.
    Base64,
    /// `%2F`
    Percent,
    /// Digits, also with spaces, colons, `\x` or `0x` between the bytes.
    Hex,
    /// The lines that `xxd`, `hexdump` and `od` print.
    Dump,
    Json,
    /// What `printf %q`, `set -x`, `declare -p` and quoting functions make.
    Shell,
    /// Escapes of programming languages.
    Source,
    /// Character references.
    Html,
    Reversed,
    Utf16,
    /// A separator between the letters.
    Spaced,
    /// No secret of ours, but the shape of a known vendor's token.
    VendorShape,
}

impl Encoding {
    pub fn as_str(self) -> &'static str {
        match self {
            Encoding::Plain => "plain",
            Encoding::WithoutPrefix => "without-prefix",
            Encoding::Line => "line",
            Encoding::Base64 => "base64",
            Encoding::Percent => "percent",
            Encoding::Hex => "hex",
            Encoding::Dump => "dump",
            Encoding::Json => "json",
            Encoding::Shell => "shell",
            Encoding::Source => "source",
            Encoding::Html => "html",
            Encoding::Reversed => "reversed",
            Encoding::Utf16 => "utf-16",
            Encoding::Spaced => "spaced",
            Encoding::VendorShape => "vendor-shape",
        }
    }
}

/// Values beyond this length are files; no program prints them letter by letter.
const LONG: usize = 512;

/// Calls `give` with every form of the value. The same bytes may come more than once.
pub(super) fn forms(value: &[u8], give: &mut dyn FnMut(Encoding, Wiped)) {
    // A terminal shows a new line as two bytes.
    let give = &mut |encoding, form: Wiped| {
        if form.contains(&b'\n') {
            give(encoding, replaced(&form, b'\n', b"\r\n"));
        }
        give(encoding, form);
    };
    give(Encoding::Plain, copied(value));
    lines(value, give);
    base64(value, give);
    percent(value, give);
    hex(value, give);
    json(value, give);
    shell(value, give);
    source(value, give);
    html(value, give);
    reversed(value, give);
    utf16(value, give);
    if value.len() <= LONG {
        spaced(value, give);
        dumps(value, give);
    }
}

type Give<'a> = &'a mut dyn FnMut(Encoding, Wiped);

fn copied(bytes: &[u8]) -> Wiped {
    let mut out = Wiped::with_capacity(bytes.len());
    out.extend(bytes);
    out
}

fn replaced(bytes: &[u8], from: u8, to: &[u8]) -> Wiped {
    each_byte(bytes, |byte, out| if byte == from { out.extend(to) } else { out.push(byte) })
}

fn each_byte(bytes: &[u8], write: impl Fn(u8, &mut Wiped)) -> Wiped {
    let mut out = Wiped::with_capacity(bytes.len() * 3);
    for byte in bytes {
        write(*byte, &mut out);
    }
    out
}

/// A character, or a byte that belongs to none.
#[derive(Clone, Copy)]
enum Unit {
    Char(char),
    Byte(u8),
}

impl Unit {
    fn write(self, out: &mut Wiped) {
        match self {
            Unit::Char(character) => out.extend(character.encode_utf8(&mut [0; 4]).as_bytes()),
            Unit::Byte(byte) => out.push(byte),
        }
    }

    fn is_ascii(self) -> bool {
        matches!(self, Unit::Char(character) if character.is_ascii())
    }
}

fn units(value: &[u8]) -> impl Iterator<Item = Unit> {
    value.utf8_chunks().flat_map(|chunk| {
        let bytes = chunk.invalid().iter().map(|byte| Unit::Byte(*byte));
        chunk.valid().chars().map(Unit::Char).chain(bytes)
    })
}

/// Writes each character as `write` wants it; what it does not want stays.
fn escaped(value: &[u8], write: impl Fn(Unit, &mut Wiped) -> bool) -> Wiped {
    let mut out = Wiped::with_capacity(value.len() * 2);
    for unit in units(value) {
        if !write(unit, &mut out) {
            unit.write(&mut out);
        }
    }
    out
}

/// A key block has lines that are secret each for itself; other texts have lines that stand elsewhere too.
fn lines(value: &[u8], give: Give) {
    let is_key = |line: &&[u8]| {
        line.len() >= 40 && line.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte))
    };
    let lines = value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    for line in lines.filter(|line| line.len() < value.len()).filter(is_key) {
        give(Encoding::Line, copied(line));
    }
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What stands before the value decides which of three texts it becomes, and the letters that it shares with its neighbours are not known.
/// Where the text ends with the value, or with a new line behind it, the last letters are.
fn base64(value: &[u8], give: Give) {
    for alphabet in [STANDARD, URL] {
        for before in 0..3 {
            let all = base64_letters(value, before, b"", alphabet);
            let first = (before * 8).div_ceil(6);
            let sure = (before + value.len()) * 8 / 6;
            give(Encoding::Base64, copied(&all[first..sure]));
            for end in [&b""[..], b"\n"] {
                let all = base64_letters(value, before, end, alphabet);
                let padding = (4 - all.len() % 4) % 4;
                let mut padded = copied(&all[first..]);
                padded.extend(&b"=="[..padding]);
                if before == 0 {
                    for width in [76, 64] {
                        if padded.len() > width {
                            give(Encoding::Base64, wrapped(&padded, width));
                        }
                    }
                }
                give(Encoding::Base64, copied(&all[first..]));
                give(Encoding::Base64, padded);
            }
        }
    }
}

fn base64_letters(value: &[u8], before: usize, end: &[u8], alphabet: &[u8; 64]) -> Wiped {
    let mut plain = Wiped::with_capacity(before + value.len() + end.len());
    plain.extend(&[0, 0][..before]);
    plain.extend(value);
    plain.extend(end);
    let mut out = Wiped::with_capacity(plain.len().div_ceil(3) * 4);
    for group in plain.chunks(3) {
        let bits = group.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte))
            << (8 * (3 - group.len()));
        for place in 0..=group.len() {
            out.push(alphabet[bits >> (18 - 6 * place) & 63]);
        }
    }
    out
}

fn wrapped(text: &[u8], width: usize) -> Wiped {
    let mut out = Wiped::with_capacity(text.len() + text.len() / width + 1);
    for (count, line) in text.chunks(width).enumerate() {
        if count > 0 {
            out.push(b'\n');
        }
        out.extend(line);
    }
    out
}

const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

fn hex_digits(byte: u8, digits: &[u8; 16]) -> [u8; 2] {
    [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]
}

/// Which bytes beside letters and digits are left as they are: by jq and curl, by Python's `quote`, by `encodeURIComponent`, by `encodeURI`, in
/// the user part of a URL, in forms; and by those who encode everything.
fn percent(value: &[u8], give: Give) {
    const LEFT: [&[u8]; 7] =
        [b"-._~", b"-._~/", b"-._~!'()*", b"-._~!'()*;/?:@&=+$,#", b"-._~!$&'()*+,;=", b"-._*", b"-_."];
    for digits in [UPPER, LOWER] {
        let code = |byte: u8, out: &mut Wiped| {
            out.push(b'%');
            out.extend(&hex_digits(byte, digits));
        };
        for left in LEFT {
            for plus in [false, true] {
                let form = each_byte(value, |byte, out| match byte {
                    b' ' if plus => out.push(b'+'),
                    _ if byte.is_ascii_alphanumeric() || left.contains(&byte) => out.push(byte),
                    _ => code(byte, out),
                });
                give(Encoding::Percent, form);
            }
        }
        if value.len() <= LONG {
            give(Encoding::Percent, each_byte(value, code));
        }
    }
}

fn hex(value: &[u8], give: Give) {
    for digits in [LOWER, UPPER] {
        let between = |before: &[u8], after: &dyn Fn(usize) -> &'static [u8]| {
            let mut out = Wiped::with_capacity(value.len() * 4);
            for (at, byte) in value.iter().enumerate() {
                out.extend(if at == 0 { b"" } else { after(at) });
                out.extend(before);
                out.extend(&hex_digits(*byte, digits));
            }
            out
        };
        give(Encoding::Hex, between(b"", &|_| b""));
        // `xxd -p`
        give(Encoding::Hex, between(b"", &|at| if at % 30 == 0 { b"\n" } else { b"" }));
        if value.len() > LONG {
            continue;
        }
        give(Encoding::Hex, between(b"", &|_| b" "));
        give(Encoding::Hex, between(b"", &|_| b":"));
        give(Encoding::Hex, between(b"\\x", &|_| b""));
        give(Encoding::Hex, between(b"0x", &|_| b", "));
        give(Encoding::Hex, between(b"0x", &|_| b","));
        // `xxd -i`
        give(Encoding::Hex, between(b"0x", &|at| if at % 12 == 0 { b",\n  " } else { b", " }));
        // Groups of two, as xxd has them, wherever the value begins.
        give(Encoding::Hex, between(b"", &|at| if at % 2 == 0 { b" " } else { b"" }));
        give(Encoding::Hex, between(b"", &|at| if at % 2 == 1 { b" " } else { b"" }));
    }
}

/// What a writer of JSON escapes beside what it must.
struct Json {
    beyond_ascii: bool,
    digits: &'static [u8; 16],
    slash: bool,
    as_code: &'static [u8],
}

/// Python; JavaScript; jq; PHP, twice; Go; Gson; .NET.
const JSON: [Json; 8] = [
    Json { beyond_ascii: true, digits: LOWER, slash: false, as_code: b"" },
    Json { beyond_ascii: false, digits: LOWER, slash: false, as_code: b"" },
    Json { beyond_ascii: false, digits: LOWER, slash: false, as_code: b"\x7f" },
    Json { beyond_ascii: true, digits: LOWER, slash: true, as_code: b"" },
    Json { beyond_ascii: false, digits: LOWER, slash: true, as_code: b"" },
    Json { beyond_ascii: false, digits: LOWER, slash: false, as_code: b"<>&" },
    Json { beyond_ascii: false, digits: LOWER, slash: false, as_code: b"<>&='" },
    Json { beyond_ascii: true, digits: UPPER, slash: false, as_code: b"<>&'+`\"\x7f" },
];

fn json(value: &[u8], give: Give) {
    for dialect in &JSON {
        let once = json_text(value, dialect);
        // JSON within JSON, as logs have it.
        give(Encoding::Json, json_text(&once, dialect));
        give(Encoding::Json, once);
    }
    if value.len() <= LONG {
        for digits in [LOWER, UPPER] {
            let form = escaped(value, |unit, out| {
                let Unit::Char(character) = unit else { return false };
                code_units(character, digits, out);
                true
            });
            give(Encoding::Json, form);
        }
    }
}

fn json_text(value: &[u8], dialect: &Json) -> Wiped {
    escaped(value, |unit, out| {
        let Unit::Char(character) = unit else { return false };
        let short: &[u8] = match character {
            _ if character.is_ascii() && dialect.as_code.contains(&(character as u8)) => b"",
            '"' => b"\\\"",
            '\\' => b"\\\\",
            '\n' => b"\\n",
            '\r' => b"\\r",
            '\t' => b"\\t",
            '\u{8}' => b"\\b",
            '\u{c}' => b"\\f",
            '/' if dialect.slash => b"\\/",
            _ if character < ' ' || (dialect.beyond_ascii && !character.is_ascii()) => b"",
            _ => return false,
        };
        match short {
            b"" => code_units(character, dialect.digits, out),
            _ => out.extend(short),
        }
        true
    })
}

/// `\u00e4`
fn code_units(character: char, digits: &[u8; 16], out: &mut Wiped) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        out.extend(b"\\u");
        for byte in unit.to_be_bytes() {
            out.extend(&hex_digits(byte, digits));
        }
    }
}

fn shell(value: &[u8], give: Give) {
    // Within single quotes, as bash, as dash and Python's shlex, as SQL and PowerShell write a quote.
    for quote in [&b"'\\''"[..], b"'\"'\"'", b"''"] {
        give(Encoding::Shell, replaced(value, b'\'', quote));
    }
    // Within double quotes; Perl has names with an `@` as well.
    give(Encoding::Shell, backslashed(value, b"$`\"\\"));
    give(Encoding::Shell, backslashed(value, b"$@\"\\"));
    give(Encoding::Shell, replaced(value, b'"', b"\"\""));
    // Without quotes: `printf %q` of bash, which escapes a comma since 5.1, and a `#` or `~` only where a word begins.
    for special in [&b" \t'\"\\|&;()<>!{}*[]?^$`,"[..], b" \t'\"\\|&;()<>!{}*[]?^$`"] {
        let form = backslashed(value, special);
        if matches!(value.first(), Some(b'#' | b'~')) {
            let mut first = copied(b"\\");
            first.extend(&form);
            give(Encoding::Shell, first);
        }
        give(Encoding::Shell, form);
    }
    // `$'…'`, where something cannot be printed.
    let ansi = |octal_beyond: bool| {
        escaped(value, |unit, out| {
            match unit {
                Unit::Char('\'') => out.extend(b"\\'"),
                Unit::Char('\\') => out.extend(b"\\\\"),
                Unit::Char('\u{1b}') => out.extend(b"\\E"),
                Unit::Char('\u{7}') => out.extend(b"\\a"),
                Unit::Char('\u{8}') => out.extend(b"\\b"),
                Unit::Char('\u{b}') => out.extend(b"\\v"),
                Unit::Char('\u{c}') => out.extend(b"\\f"),
                Unit::Char('\n') => out.extend(b"\\n"),
                Unit::Char('\r') => out.extend(b"\\r"),
                Unit::Char('\t') => out.extend(b"\\t"),
                Unit::Char(character) if character.is_ascii() && !character.is_ascii_control() => {
                    return false;
                }
                Unit::Char(character) if !character.is_ascii() && !octal_beyond => return false,
                _ => octal(unit, out),
            }
            true
        })
    };
    give(Encoding::Shell, ansi(true));
    give(Encoding::Shell, ansi(false));
}

fn backslashed(value: &[u8], special: &[u8]) -> Wiped {
    each_byte(value, |byte, out| {
        if special.contains(&byte) {
            out.push(b'\\');
        }
        out.push(byte);
    })
}

fn octal(unit: Unit, out: &mut Wiped) {
    let mut bytes = Wiped::with_capacity(4);
    unit.write(&mut bytes);
    for byte in bytes.iter() {
        out.extend(&[b'\\', b'0' + (byte >> 6), b'0' + (byte >> 3 & 7), b'0' + (byte & 7)]);
    }
}

/// Literals of Python, JavaScript, Rust and C: which quote is escaped, and what stands for what cannot be printed.
fn source(value: &[u8], give: Give) {
    for quote in [None, Some('\''), Some('"')] {
        for rest in [Rest::Hex(LOWER), Rest::Hex(UPPER), Rest::Code, Rest::Braces, Rest::Octal] {
            for beyond_ascii in [false, true] {
                let form = escaped(value, |unit, out| {
                    match unit {
                        Unit::Char('\\') => out.extend(b"\\\\"),
                        Unit::Char('\n') => out.extend(b"\\n"),
                        Unit::Char('\r') => out.extend(b"\\r"),
                        Unit::Char('\t') => out.extend(b"\\t"),
                        Unit::Char(character) if Some(character) == quote => {
                            out.push(b'\\');
                            unit.write(out);
                        }
                        Unit::Char(character) if character.is_ascii() && !character.is_ascii_control() => {
                            return false;
                        }
                        Unit::Char(_) if !unit.is_ascii() && !beyond_ascii => return false,
                        _ => rest.write(unit, out),
                    }
                    true
                });
                give(Encoding::Source, form);
            }
        }
    }
}

enum Rest {
    Hex(&'static [u8; 16]),
    /// The number of the character, as short as it can be: Python's `ascii`.
    Code,
    Braces,
    Octal,
}

impl Rest {
    fn write(&self, unit: Unit, out: &mut Wiped) {
        match (self, unit) {
            (Rest::Octal, _) => octal(unit, out),
            (Rest::Code, Unit::Char(character)) => {
                let code = u32::from(character).to_be_bytes();
                let (mark, first) = match character {
                    '\0'..='\u{ff}' => (b'x', 3),
                    '\u{100}'..='\u{ffff}' => (b'u', 2),
                    _ => (b'U', 0),
                };
                out.extend(&[b'\\', mark]);
                code[first..].iter().for_each(|byte| out.extend(&hex_digits(*byte, LOWER)));
            }
            (Rest::Braces, Unit::Char(character)) => {
                out.extend(b"\\u{");
                let code = u32::from(character);
                let wanted = (u32::BITS - code.leading_zeros()).div_ceil(4).max(1);
                for place in (0..wanted).rev() {
                    out.push(LOWER[(code >> (4 * place) & 15) as usize]);
                }
                out.push(b'}');
            }
            (Rest::Code | Rest::Braces, Unit::Byte(byte)) => Rest::Hex(LOWER).write(Unit::Byte(byte), out),
            (Rest::Hex(digits), _) => {
                let mut bytes = Wiped::with_capacity(4);
                unit.write(&mut bytes);
                for byte in bytes.iter() {
                    out.extend(b"\\x");
                    out.extend(&hex_digits(*byte, digits));
                }
            }
        }
    }
}

fn html(value: &[u8], give: Give) {
    const NONE: &[u8] = b"";
    for (double, single) in [
        (&b"&quot;"[..], &b"&#39;"[..]),
        (b"&quot;", b"&#x27;"),
        (b"&quot;", b"&apos;"),
        (b"&#34;", b"&#39;"),
        (b"&quot;", NONE),
        (NONE, NONE),
    ] {
        let form = each_byte(value, |byte, out| match byte {
            b'&' => out.extend(b"&amp;"),
            b'<' => out.extend(b"&lt;"),
            b'>' => out.extend(b"&gt;"),
            b'"' if !double.is_empty() => out.extend(double),
            b'\'' if !single.is_empty() => out.extend(single),
            _ => out.push(byte),
        });
        give(Encoding::Html, form);
    }
}

fn reversed(value: &[u8], give: Give) {
    let mut bytes = Wiped::with_capacity(value.len());
    value.iter().rev().for_each(|byte| bytes.push(*byte));
    give(Encoding::Reversed, bytes);
    // Character by character: the characters one after the other, from the last place to the first.
    let lengths: Vec<u8> = units(value)
        .map(|unit| match unit {
            Unit::Char(character) => character.len_utf8() as u8,
            Unit::Byte(_) => 1,
        })
        .collect();
    let mut characters = Wiped::with_capacity(value.len());
    let mut end = value.len();
    for length in lengths.iter().rev() {
        let start = end - usize::from(*length);
        characters.extend(&value[start..end]);
        end = start;
    }
    give(Encoding::Reversed, characters);
}

/// Without the zero at the one end or the other: it tells nothing, and belongs as well to the character beside it in the other byte order.
fn utf16(value: &[u8], give: Give) {
    for little in [true, false] {
        let mut out = Wiped::with_capacity(value.len() * 2);
        for unit in units(value) {
            let mut pair = [0; 2];
            let pair: &[u16] = match unit {
                Unit::Char(character) => character.encode_utf16(&mut pair),
                Unit::Byte(byte) => {
                    pair[0] = u16::from(byte);
                    &pair[..1]
                }
            };
            for half in pair {
                out.extend(&if little { half.to_le_bytes() } else { half.to_be_bytes() });
            }
        }
        let form = match little {
            true => out.strip_suffix(&[0]).unwrap_or(&out),
            false => out.strip_prefix(&[0]).unwrap_or(&out),
        };
        give(Encoding::Utf16, copied(form));
    }
}

/// Spaces and lines; the lists of Python and JavaScript.
fn spaced(value: &[u8], give: Give) {
    for between in [&b" "[..], b"\n", b"', '", b"\", \"", b"\",\""] {
        let mut out = Wiped::with_capacity(value.len() * (1 + between.len()));
        for unit in units(value) {
            if !out.is_empty() {
                out.extend(between);
            }
            unit.write(&mut out);
        }
        give(Encoding::Spaced, out);
    }
}

/// One way to print a dump of 16 bytes a line.
struct Dump {
    /// Bytes that stand together.
    group: usize,
    /// Within a group the later byte first: words of a little machine.
    swapped: bool,
    /// What stands between the halves of a line beside the space.
    middle: &'static [u8],
    /// How the place of a line is written, from the second line on.
    place: fn(usize, &mut Wiped),
    /// The text at the end of a line: what stands before and behind it.
    text: Option<(&'static [u8], &'static [u8])>,
}

/// `xxd`; `hexdump -C`; `od -tx1`; `od -An -tx1`; `od -x`; `hexdump`.
const DUMPS: [Dump; 6] = [
    Dump {
        group: 2,
        swapped: false,
        middle: b"",
        place: |at, out| hex_place(at, 8, b": ", out),
        text: Some((b"  ", b"")),
    },
    Dump {
        group: 1,
        swapped: false,
        middle: b" ",
        place: |at, out| hex_place(at, 8, b"  ", out),
        text: Some((b"  |", b"|")),
    },
    Dump { group: 1, swapped: false, middle: b"", place: octal_place, text: None },
    Dump { group: 1, swapped: false, middle: b"", place: |_, out| out.push(b' '), text: None },
    Dump { group: 2, swapped: true, middle: b"", place: octal_place, text: None },
    Dump { group: 2, swapped: true, middle: b"", place: |at, out| hex_place(at, 7, b" ", out), text: None },
];

const LINE: usize = 16;

fn hex_place(at: usize, wanted: usize, behind: &[u8], out: &mut Wiped) {
    for place in (0..wanted).rev() {
        out.push(LOWER[at >> (4 * place) & 15]);
    }
    out.extend(behind);
}

fn octal_place(at: usize, out: &mut Wiped) {
    for place in (0..7).rev() {
        out.push(b'0' + (at >> (3 * place) & 7) as u8);
    }
    out.push(b' ');
}

/// The dump of the value alone, and of the value with a new line behind it: from the first digit to the last sign of its text.
fn dumps(value: &[u8], give: Give) {
    for dump in &DUMPS {
        for end in [&b""[..], b"\n"] {
            let mut bytes = Wiped::with_capacity(value.len() + 1);
            bytes.extend(value);
            bytes.extend(end);
            give(Encoding::Dump, dumped(&bytes, dump));
        }
    }
    give(Encoding::Dump, characters(value));
}

/// `od -c`
fn characters(value: &[u8]) -> Wiped {
    let mut out = Wiped::with_capacity(value.len() * 5);
    for (count, line) in value.chunks(LINE).enumerate() {
        if count > 0 {
            out.push(b'\n');
            octal_place(count * LINE, &mut out);
        }
        for (at, byte) in line.iter().enumerate() {
            let short = b"\0\x07\x08\t\n\x0b\x0c\r".iter().position(|other| other == byte);
            // A cell is three wide; the space before the first of a line is the one behind its place.
            if at > 0 {
                out.push(b' ');
            }
            match (short, *byte) {
                (Some(place), _) => out.extend(&[b' ', b'\\', b"0abtnvfr"[place]]),
                (None, b' '..=b'~') if count + at == 0 => out.push(*byte),
                (None, b' '..=b'~') => out.extend(&[b' ', b' ', *byte]),
                (None, byte) => out.extend(&[b'0' + (byte >> 6), b'0' + (byte >> 3 & 7), b'0' + (byte & 7)]),
            }
        }
    }
    out
}

fn dumped(bytes: &[u8], dump: &Dump) -> Wiped {
    let mut out = Wiped::with_capacity(bytes.len().div_ceil(LINE) * 80);
    for (count, line) in bytes.chunks(LINE).enumerate() {
        if count > 0 {
            out.push(b'\n');
            (dump.place)(count * LINE, &mut out);
        }
        let start = out.len();
        for (at, group) in line.chunks(dump.group).enumerate() {
            if at > 0 {
                out.push(b' ');
                out.extend(if at * dump.group == LINE / 2 { dump.middle } else { b"" });
            }
            if dump.swapped && group.len() < dump.group {
                out.extend(b"00");
            }
            for place in 0..group.len() {
                let byte = group[if dump.swapped { group.len() - 1 - place } else { place }];
                out.extend(&hex_digits(byte, LOWER));
            }
        }
        if let Some((before, behind)) = dump.text {
            let full = LINE * 2 + LINE / dump.group - 1 + dump.middle.len();
            while out.len() - start < full {
                out.push(b' ');
            }
            out.extend(before);
            line.iter().for_each(|byte| out.push(if matches!(byte, b' '..=b'~') { *byte } else { b'.' }));
            out.extend(behind);
        }
    }
    out
}
