//! Code in languages that are not read here (perl, ruby, awk …): harmless only if it consists of words that are known to be.

/// Whether nothing in it could start, delete or send anything.
pub fn is_harmless(program: &[u8], code: &[u8], is_known: impl Fn(&[u8]) -> bool) -> bool {
    let perl_like = matches!(program, b"perl" | b"ruby" | b"sed" | b"awk" | b"gawk" | b"mawk" | b"nawk");
    let awk = matches!(program, b"awk" | b"gawk" | b"mawk" | b"nawk");
    let mut at = 0;
    // What stood last decides whether a slash begins a pattern.
    let mut after_value = false;
    // In awk a name without a sign is a variable.
    let mut after_name = false;
    while at < code.len() {
        let byte = code[at];
        match byte {
            b'`' => return false,
            // A pipe in awk starts a shell; in perl and ruby a single one is arithmetic or a block.
            b'|' if awk && code.get(at + 1) != Some(&b'|') => return false,
            b'|' if awk => at += 2,
            b'"' | b'\'' => match string_end(code, at) {
                Some((end, plain)) if plain || awk => {
                    at = end;
                    after_value = true;
                }
                _ => return false,
            },
            b'#' if !after_value => return false,
            // Calls what a variable names, or loads code.
            b'@' if awk => return false,
            // Where it could be either, it is a division only if no quote is hidden by that.
            b'/' if awk && after_name && !quote_follows(code, at) => {
                at += 1;
                after_name = false;
            }
            b'/' if perl_like && !after_value => match delimited(code, at) {
                Some(end) => {
                    at = end;
                    after_value = true;
                }
                None => return false,
            },
            byte if byte == b'_' || byte.is_ascii_alphabetic() || byte >= 128 => {
                let rest = &code[at..];
                let is_word = |byte: &u8| *byte == b'_' || byte.is_ascii_alphanumeric() || *byte >= 128;
                let length = rest.iter().position(|byte| !is_word(byte)).unwrap_or(rest.len());
                let word = &rest[..length];
                let before = at.checked_sub(1).map(|before| code[before]);
                at += length;
                if perl_like && !awk && matches!(word, b"s" | b"tr" | b"y" | b"m" | b"qr") {
                    match substitution(code, at, word) {
                        Some(end) => at = end,
                        None => return false,
                    }
                    after_value = true;
                    continue;
                }
                // `$name` is a variable, whatever it is called.
                let variable = matches!(before, Some(b'$'));
                // In awk only what is called can do anything.
                let is_called = !awk || code[at..].trim_ascii_start().first() == Some(&b'(');
                if !variable && !is_known(word) && (is_called || starts_something(word)) {
                    return false;
                }
                after_value = variable;
                after_name = !matches!(
                    word,
                    b"print" | b"printf" | b"return" | b"in" | b"if" | b"while" | b"else" | b"do"
                );
            }
            byte if byte.is_ascii_whitespace() => at += 1,
            byte => {
                after_value = byte.is_ascii_digit() || matches!(byte, b')' | b']' | b'}' | b'$');
                after_name = false;
                at += 1;
            }
        }
    }
    true
}

/// Words of awk that reach out without being called.
fn starts_something(word: &[u8]) -> bool {
    matches!(
        word,
        b"getline" | b"system" | b"close" | b"fflush" | b"ENVIRON" | b"PROCINFO" | b"SYMTAB" | b"FUNCTAB"
    )
}

/// Files that awk writes: the texts behind `>`.
pub fn written_files<'c>(program: &[u8], code: &'c [u8]) -> Vec<&'c [u8]> {
    let mut files = Vec::new();
    if !matches!(program, b"awk" | b"gawk" | b"mawk" | b"nawk") {
        return files;
    }
    for (at, _) in code.iter().enumerate().filter(|(_, byte)| **byte == b'>') {
        let rest = code[at + 1..].trim_ascii_start();
        if let Some(text) = rest.strip_prefix(b"\"")
            && let Some(end) = text.iter().position(|byte| *byte == b'"')
        {
            files.push(&text[..end]);
        }
    }
    files
}

/// Whether a quote stands between this slash and the next, or the end of the line.
fn quote_follows(code: &[u8], at: usize) -> bool {
    let rest = &code[at + 1..];
    let end = rest.iter().position(|byte| b"/\n".contains(byte)).unwrap_or(rest.len());
    rest[..end].iter().any(|byte| b"\"'`".contains(byte))
}

/// Where a string ends, and whether nothing is evaluated in it.
fn string_end(code: &[u8], start: usize) -> Option<(usize, bool)> {
    let quote = code[start];
    let mut at = start + 1;
    let mut plain = true;
    while at < code.len() {
        match code[at] {
            b'\\' => at += 1,
            byte if byte == quote => return Some((at + 1, plain)),
            b'@' | b'`' => plain = false,
            // `${…}`, `#{…}` and `$(…)` evaluate; `$name` does not.
            b'{' | b'(' if matches!(code[at - 1], b'$' | b'#') => plain = false,
            _ => {}
        }
        at += 1;
    }
    None
}

/// The end of `/…/`, if nothing is evaluated in it.
fn delimited(code: &[u8], start: usize) -> Option<usize> {
    let mark = *code.get(start)?;
    let close = match mark {
        b'{' => b'}',
        b'(' => b')',
        b'[' => b']',
        b'<' => b'>',
        other => other,
    };
    let mut at = start + 1;
    while at < code.len() {
        match code[at] {
            b'\\' => at += 1,
            byte if byte == close => return Some(at + 1),
            b'{' if at > 0 && matches!(code[at - 1], b'?' | b'@' | b'$' | b'#') => return None,
            b'`' => return None,
            _ => {}
        }
        at += 1;
    }
    None
}

/// What follows `s`, `tr`, `y`, `m` or `qr`: its parts and its letters, of which `e` would run the second part.
fn substitution(code: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    let mark = *code.get(at)?;
    if mark.is_ascii_whitespace() || mark.is_ascii_alphanumeric() || mark == b'=' {
        return None;
    }
    let mut end = delimited(code, at)?;
    if !matches!(word, b"m" | b"qr") {
        // With brackets the second part has its own pair.
        end = if b"{([<".contains(&mark) { delimited(code, end)? } else { delimited(code, end - 1)? };
    }
    let letters = code[end..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let harmless = code[end..end + letters].iter().all(|letter| b"gimsxruocd".contains(letter));
    harmless.then_some(end + letters)
}
