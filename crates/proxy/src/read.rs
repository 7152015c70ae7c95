//! Readers of hostile bytes: DNS messages, TLS greetings, heads of requests. Each is pure and fuzzed.

pub mod dns;
pub mod head;
pub mod hello;

#[cfg(test)]
mod tests {
    use super::head::Frames;
    use super::{dns, hello};
    use proptest::prelude::*;

    /// Requests of pieces that a hostile program would put together, in any order.
    fn request() -> impl Strategy<Value = Vec<u8>> {
        let pieces = [
            &b"GET / HTTP/1.1\r\n"[..],
            b"POST /x HTTP/1.1\r\n",
            b"Host: a\r\n",
            b"host: b\r\n",
            b"Content-Length: 3\r\n",
            b"Content-Length: 0\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: identity\r\n",
            b"\r\n",
            b"\n",
            b"\r",
            b"3\r\nabc\r\n",
            b"0\r\n\r\n",
            b"abc",
            b" ",
            b":",
            b"\0",
            b"Upgrade: x\r\n",
            b"ffffffffffffffff\r\n",
            b"x: y\r\n",
            b" folded\r\n",
        ];
        prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..24).prop_map(|pieces| pieces.concat())
    }

    fn taken(bytes: &[u8], step: usize) -> (bool, Vec<u8>) {
        let (mut frames, mut out) = (Frames::default(), Vec::new());
        let is_sound = bytes.chunks(step).all(|piece| frames.take(piece, &mut out).is_ok());
        (is_sound, out)
    }

    proptest! {
        #[test]
        fn what_passes_does_not_depend_on_the_pieces_and_passes_again(bytes in request(), step in 1..40_usize) {
            let (is_sound, out) = taken(&bytes, bytes.len().max(1));
            prop_assert_eq!((is_sound, &out), (taken(&bytes, step).0, &taken(&bytes, step).1));
            prop_assert_eq!(taken(&out, 7), (true, out));
        }

        #[test]
        fn no_bytes_break_a_reader(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = hello::read(&bytes);
            let _ = hello::read(&[&[22, 3, 1, 0, 60], &bytes[..]].concat());
            let name = keyward_policy::net::Name::parse("a.example").unwrap();
            for message in [bytes.clone(), [&b"\0\x07\x81\x80\0\x01\0\x02\0\0\0\0\x01a\x07example\0\0\x01\0\x01"[..], &bytes].concat()] {
                let _ = dns::question(&message);
                let _ = dns::found(&message, 7, &name, dns::A);
            }
        }
    }
}
