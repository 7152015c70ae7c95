//! One message of age's plugin protocol: a line with its words, then a body in base64, 64 characters a line, ended by a shorter line.

use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use zeroize::Zeroizing;

/// Characters of the body in one line.
const COLUMNS: usize = 64;

/// A message that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stanza {
    pub words: Vec<String>,
    pub body: Zeroizing<Vec<u8>>,
}

/// These bytes are none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoStanza;

/// The message as it is sent, in a place that has its final size from the start.
pub(super) fn written(words: &[&str], body: &[u8]) -> Zeroizing<Vec<u8>> {
    let encoded = Zeroizing::new({
        let mut text = vec![0; body.len() * 2 + 4];
        let length = BASE64_STANDARD_NO_PAD.encode_slice(body, &mut text).unwrap_or_default();
        text.truncate(length);
        text
    });
    let head: usize = words.iter().map(|word| word.len() + 1).sum();
    let mut message = Zeroizing::new(Vec::with_capacity(4 + head + encoded.len() * 2 + 2));
    message.extend_from_slice(b"->");
    for word in words {
        message.push(b' ');
        message.extend_from_slice(word.as_bytes());
    }
    message.push(b'\n');
    for line in encoded.chunks(COLUMNS) {
        message.extend_from_slice(line);
        message.push(b'\n');
    }
    // The last line is shorter than a full one, if need be empty.
    if encoded.len().is_multiple_of(COLUMNS) {
        message.push(b'\n');
    }
    message
}

/// The message at the beginning of these bytes and its length; `None` as long as it has not come as a whole.
pub(super) fn read(bytes: &[u8]) -> Result<Option<(Stanza, usize)>, NoStanza> {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let Some(head) = lines.next().and_then(|line| line.strip_suffix(b"\n")) else {
        // Also a beginning can be wrong.
        return if b"-> ".starts_with(bytes.get(..bytes.len().min(3)).unwrap_or_default()) {
            Ok(None)
        } else {
            Err(NoStanza)
        };
    };
    let head = std::str::from_utf8(head).ok().and_then(|head| head.strip_prefix("-> ")).ok_or(NoStanza)?;
    let words: Vec<String> = head.split(' ').map(str::to_owned).collect();
    let plain = |word: &String| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic());
    if !words.iter().all(plain) {
        return Err(NoStanza);
    }
    let mut length = head.len() + "-> \n".len();
    let mut encoded = Zeroizing::new(Vec::with_capacity(bytes.len()));
    for line in lines {
        let Some(text) = line.strip_suffix(b"\n") else {
            return if line.len() > COLUMNS { Err(NoStanza) } else { Ok(None) };
        };
        length += line.len();
        encoded.extend_from_slice(text);
        if text.len() > COLUMNS {
            return Err(NoStanza);
        }
        if text.len() < COLUMNS {
            let mut body = Zeroizing::new(vec![0; encoded.len()]);
            let decoded =
                BASE64_STANDARD_NO_PAD.decode_slice(&encoded[..], &mut body).map_err(|_| NoStanza)?;
            body.truncate(decoded);
            return Ok(Some((Stanza { words, body }, length)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_form_is_that_of_age() {
        assert_eq!(&written(&["done"], b"")[..], b"-> done\n\n");
        assert_eq!(&written(&["file-key", "0"], &[0; 16])[..], b"-> file-key 0\nAAAAAAAAAAAAAAAAAAAAAA\n");
        assert_eq!(&written(&["x"], &[0; 48])[..], format!("-> x\n{}\n\n", "A".repeat(64)).as_bytes());
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for wrong in ["x", "->x\n\n", "-> \n\n", "-> a  b\n\n", "-> a\n*\n", "-> a\nA\n", "-> \u{e9}\n\n"] {
            assert_eq!(read(wrong.as_bytes()), Err(NoStanza), "{wrong:?}");
        }
        assert_eq!(read(format!("-> a\n{}\n", "A".repeat(65)).as_bytes()), Err(NoStanza));
        assert_eq!(read(format!("-> a\n{}", "A".repeat(65)).as_bytes()), Err(NoStanza));
        for early in ["", "-", "->", "-> a", "-> a\n", "-> a\nAA", &format!("-> a\n{}\n", "A".repeat(64))] {
            assert_eq!(read(early.as_bytes()), Ok(None), "{early:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(
            words in proptest::collection::vec("[!-~]{1,9}", 1..4),
            body in proptest::collection::vec(any::<u8>(), 0..200),
            behind in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let list: Vec<&str> = words.iter().map(String::as_str).collect();
            let mut message = written(&list, &body).to_vec();
            let length = message.len();
            message.extend(behind);
            let (stanza, read_length) = read(&message).unwrap().unwrap();
            prop_assert_eq!((&stanza.words, &stanza.body[..], read_length), (&words, &body[..], length));
        }

        #[test]
        fn any_bytes_are_a_message_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..100), text in "(-> )?[a-z\nA ]{0,80}") {
            let _ = read(&bytes);
            let _ = read(text.as_bytes());
        }
    }
}
