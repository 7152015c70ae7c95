// The group of a name in the tables of exact names, the same for any case. Used by `build/credentials.rs`, which makes the groups, and by
// `registry`, which looks into them.

fn spread(name: &[u8]) -> u8 {
    let at = |index: usize| name.get(index).map_or(0, u8::to_ascii_uppercase);
    let length = name.len();
    let ends = at(0).wrapping_mul(31) ^ at(length.wrapping_sub(1)).wrapping_mul(7);
    ends ^ at(length / 2).wrapping_mul(13) ^ length.to_le_bytes()[0].wrapping_mul(97)
}
