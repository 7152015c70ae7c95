//! What comes out, what is kept back, and that cutting a stream changes nothing.

use super::definition::by_definition;
use super::encodings::forms;
use super::*;
use keyward_policy::detect::registry::{Token, token_at};
use proptest::prelude::*;

/// Made of parts, so that no scanner takes this file for a leak.
fn token() -> String {
    ["sk-", "ant-", "api03-Qr7tX2bN9wLmK4zP8vYd"].concat()
}

fn patterns(secrets: &[(&str, &str)]) -> Patterns {
    let (patterns, refused) = Patterns::new(secrets.iter().map(|(name, value)| (*name, value.as_bytes())));
    assert_eq!(refused, []);
    patterns
}

fn whole(patterns: &Patterns, text: &[u8]) -> (Vec<u8>, Vec<Found>) {
    pieces(patterns, [text])
}

fn pieces<'a>(patterns: &Patterns, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, Vec<Found>) {
    let (mut out, mut found) = (Vec::new(), Vec::new());
    let mut redactor = Redactor::new(patterns);
    for piece in pieces {
        redactor.push(piece, &mut out, &mut found);
    }
    redactor.finish(&mut out, &mut found);
    (out, found)
}

fn shown(patterns: &Patterns, text: &str) -> String {
    String::from_utf8(whole(patterns, text.as_bytes()).0).unwrap()
}

#[test]
fn a_value_is_replaced_by_its_name_and_told_with_its_place() {
    let value = token();
    let patterns = patterns(&[("anthropic", &value)]);
    let (out, found) = whole(&patterns, format!("key={value}\n").as_bytes());
    assert_eq!(out, b"key=[keyward:anthropic]\n");
    assert_eq!(found, [Found { name: "anthropic".into(), encoding: Encoding::Plain, offset: 4 }]);
    assert_eq!(shown(&patterns, &format!("{value}{value}")), "[keyward:anthropic][keyward:anthropic]");
    assert_eq!(shown(&patterns, &value[7..]), "[keyward:anthropic]");
    assert_eq!(shown(&patterns, "nothing here, not even sk-ant-"), "nothing here, not even sk-ant-");
}

#[test]
fn values_that_overlap_are_left_out_together_and_both_are_told() {
    let patterns = patterns(&[("left", "azcdefgh1234"), ("right", "1234stuvwxyz"), ("inner", "cdefgh12")]);
    let (out, found) = whole(&patterns, b"<azcdefgh1234stuvwxyz>");
    assert_eq!(out, b"<[keyward:left][keyward:right]>");
    let places: Vec<(&str, u64)> = found.iter().map(|found| (&*found.name, found.offset)).collect();
    assert_eq!(places, [("left", 1), ("right", 9)]);
    assert_eq!(shown(&patterns, "cdefgh12 alone"), "[keyward:inner] alone");
    assert_eq!(shown(&patterns, "azcdefgh12341234stuvwxyz"), "[keyward:left][keyward:right]");
}

#[test]
fn a_value_that_begins_another_is_decided_by_what_follows() {
    let patterns = patterns(&[("short", "k3y-of-mine"), ("long", "k3y-of-mine-2026-03")]);
    assert_eq!(shown(&patterns, "k3y-of-mine-2026-03."), "[keyward:long].");
    assert_eq!(shown(&patterns, "k3y-of-mine-2026-04."), "[keyward:short]-2026-04.");
    let (mut out, mut found) = (Vec::new(), Vec::new());
    let mut redactor = Redactor::new(&patterns);
    redactor.push(b"k3y-of-mine", &mut out, &mut found);
    assert_eq!((out.len(), redactor.kept_back()), (0, 11));
    redactor.rest(&mut out);
    assert_eq!(out, b"");
    redactor.finish(&mut out, &mut found);
    assert_eq!(out, b"[keyward:short]");
}

#[test]
fn refused_values_are_named_and_not_looked_for() {
    let (patterns, refused) =
        Patterns::new([("pin", &b"1234"[..]), ("db", b"postgres"), ("good", b"v3ry-l0ng-value")]);
    let told: Vec<(&str, Reason)> = refused.iter().map(|one| (one.name.as_str(), one.reason)).collect();
    assert_eq!(told, [("pin", Reason::Short), ("db", Reason::Common)]);
    assert_eq!(shown(&patterns, "1234 postgres v3ry-l0ng-value"), "1234 postgres [keyward:good]");
}

#[test]
fn a_name_cannot_act_on_a_terminal() {
    let patterns = patterns(&[("a\x1b[2Jb\n", "v3ry-l0ng-value")]);
    assert_eq!(shown(&patterns, "v3ry-l0ng-value"), "[keyward:a?[2Jb?]");
}

#[test]
fn tokens_of_vendors_are_left_out_by_their_shape_alone() {
    let none = patterns(&[]);
    let github = ["gh", "p_", "Zx81kQ0sT5uV7wXyZ2aB4cD6eF8gH0"].concat();
    let jwt = ["eyJ", "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"].concat();
    assert_eq!(shown(&none, &format!("a {github} b")), "a [keyward:github token] b");
    assert_eq!(shown(&none, &format!("Bearer {jwt}.")), "Bearer [keyward:json web token].");
    assert_eq!(shown(&none, &format!("x{github}")), format!("x{github}"));
    assert_eq!(shown(&none, "see sk-learn-pipelines-and-more"), "see sk-learn-pipelines-and-more");
    let padded = format!("{} {github}\n{}", "filler text ".repeat(100), "more of it ".repeat(100));
    assert_eq!(shown(&none, &padded), padded.replace(&github, "[keyward:github token]"));
}

#[test]
fn every_prefix_of_the_registry_is_found_wherever_it_stands() {
    let none = patterns(&[]);
    for (text, then) in keyward_policy::detect::registry::token_prefixes() {
        let filling = "aB3dE6gH9jK2mN5pQ8sT1vW4xY7z".chars().cycle().take(then.max(16));
        let mut value: String = text.chars().chain(filling).collect();
        if text == "eyJ" {
            value.push_str(".e30");
        }
        // Beyond what is looked at byte by byte at the end of the data, at every place within a block.
        for place in 0..70 {
            let stream = format!("{}\"{value}\"{}", " ".repeat(place), " .".repeat(300));
            let (out, found) = whole(&none, stream.as_bytes());
            assert_eq!(found.len(), 1, "{text} at {place}");
            assert_eq!((&*out, &found), (&*by_definition(&none, stream.as_bytes()).0, &found), "{text}");
        }
    }
}

#[test]
fn a_row_without_end_is_no_token_after_some_thousand_signs() {
    let none = patterns(&[]);
    let endless = ["gh", "p_", &"a1".repeat(10_000)].concat();
    let expected = format!("[keyward:github token]{}", &endless[4096..]);
    assert_eq!(shown(&none, &endless), expected);
    let (out, found) = pieces(&none, endless.as_bytes().chunks(7));
    assert_eq!((out, found.len()), (expected.into_bytes(), 1));
}

#[test]
fn only_the_longest_end_with_which_a_form_begins_is_kept_back() {
    let patterns = patterns(&[("one", "Zq8#Zq8#x7")]);
    let (mut out, mut found) = (Vec::new(), Vec::new());
    for (text, kept) in [
        ("a line\n", 0),
        ("password: ", 0),
        ("and Zq8#Zq", 6),
        ("and Zq8#Zq8#Zq8#Zq8", 7),
        ("and Zq8#Zq8#x", 9),
        ("and Zq8#Zq8#!", 0),
    ] {
        let mut redactor = Redactor::new(&patterns);
        redactor.push(text.as_bytes(), &mut out, &mut found);
        assert_eq!(redactor.kept_back(), kept, "{text}");
    }
}

#[test]
fn a_prompt_that_ends_like_a_beginning_is_shown_when_the_stream_rests() {
    let value = token();
    let patterns = patterns(&[("anthropic", &value)]);
    let (mut out, mut found) = (Vec::new(), Vec::new());
    let mut redactor = Redactor::new(&patterns);
    redactor.push(b"Give me tools", &mut out, &mut found);
    assert_eq!((out.as_slice(), redactor.kept_back()), (&b"Give me tool"[..], 1));
    redactor.rest(&mut out);
    assert_eq!((out.as_slice(), redactor.kept_back()), (&b"Give me tools"[..], 0));
    redactor.rest(&mut out);
    assert_eq!(out, b"Give me tools");
    // The vendor's prefix is no secret.
    out.clear();
    redactor.push(b" or a key like sk-ant-", &mut out, &mut found);
    redactor.rest(&mut out);
    assert_eq!(out, b" or a key like sk-ant-");
    // It was the secret after all.
    redactor.push(&value.as_bytes()[7..], &mut out, &mut found);
    redactor.push(b"!", &mut out, &mut found);
    assert_eq!(out, b" or a key like sk-ant-[keyward:anthropic]!");
    assert_eq!(found.len(), 1);
}

#[test]
fn more_than_a_beginning_of_a_secret_is_not_shown_when_the_stream_rests() {
    let value = token();
    let patterns = patterns(&[("anthropic", &value)]);
    let (mut out, mut found) = (Vec::new(), Vec::new());
    let mut redactor = Redactor::new(&patterns);
    redactor.push(&value.as_bytes()[..value.len() - 3], &mut out, &mut found);
    redactor.rest(&mut out);
    assert_eq!((out.len(), redactor.kept_back()), (0, value.len() - 3));
    redactor.finish(&mut out, &mut found);
    // A part of it is no secret that we know; but it has the shape of one.
    assert_eq!(out, b"[keyward:anthropic token]");
}

#[test]
fn every_form_is_found_in_the_middle_of_anything() {
    let value = "p@ss/w0rd \"ü\" 'x'\n$HOME&<tag>+~100%";
    let patterns = patterns(&[("it", value)]);
    let mut number = 0;
    forms(value.as_bytes(), &mut |encoding, form| {
        number += 1;
        let text = [b"\x00\xff before ", &*form, b" after \xfe\n"].concat();
        let (out, found) = whole(&patterns, &text);
        assert_eq!(found.len(), 1, "{encoding:?}");
        let name = b"[keyward:it]";
        assert!(out.starts_with(b"\x00\xff before ") && out.ends_with(b" after \xfe\n"), "{encoding:?}");
        assert!(out.windows(name.len()).any(|part| part == name), "{encoding:?}");
    });
    assert!(number > 100);
}

#[test]
fn every_form_is_found_wherever_it_is_cut() {
    // What stands before a form moves it against the steps of the search.
    for (value, leads) in
        [(token(), 16), ("q'7 w\n\"ü8".to_owned(), 4), ("k3y-of/m1ne&yours+theirs".to_owned(), 1)]
    {
        let patterns = patterns(&[("it", &value)]);
        forms(value.as_bytes(), &mut |encoding, form| {
            for lead in 0..leads {
                let text = [&b"~".repeat(lead), &*form].concat();
                let expected = whole(&patterns, &text);
                for cut in lead + 1..text.len() {
                    let cut_there = pieces(&patterns, [&text[..cut], &text[cut..]]);
                    assert_eq!(cut_there, expected, "{encoding:?} behind {lead} cut at {cut}");
                }
            }
        });
    }
}

/// Values of several kinds; short ones make the search take smaller steps.
fn values() -> impl Strategy<Value = Vec<String>> {
    let value = prop_oneof![
        "[a-c]{3}[0-9]{3}[a-cü/\"' %+]{2,6}",
        "[A-Za-z0-9+/=_-]{16,40}",
        "[a-z]{4}\n[a-z0-9 ]{8,20}",
        "ghp_[A-Za-z0-9]{30}",
        "[ab]{8,14}",
    ];
    prop::collection::vec(value, 0..4)
}

#[derive(Clone, Debug)]
enum Part {
    Noise(Vec<u8>),
    /// A form of one of the values, cut to so many hundredths.
    Form {
        value: usize,
        form: usize,
        share: usize,
    },
    Vendor(String),
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = prop_oneof![
        "[a-c0-9 \n%]{0,20}".prop_map(|text| Part::Noise(text.into_bytes())),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Part::Noise),
        (0..64_usize, 0..1000_usize, prop_oneof![Just(100_usize), 1..100_usize])
            .prop_map(|(value, form, share)| Part::Form { value, form, share }),
        "(sk-ant-|ghp_|sk-|hvs\\.|s\\.|eyJ|dp\\.st\\.)[A-Za-z0-9.]{0,40}".prop_map(Part::Vendor),
        Just(Part::Noise(b" filler without anything of interest, ".repeat(10))),
    ];
    prop::collection::vec(part, 0..6)
}

fn stream(values: &[String], parts: &[Part]) -> Vec<u8> {
    let mut text = Vec::new();
    for part in parts {
        match part {
            Part::Noise(noise) => text.extend_from_slice(noise),
            Part::Vendor(token) => text.extend_from_slice(token.as_bytes()),
            Part::Form { value, form, share } => {
                let Some(value) = values.get(value % values.len().max(1)) else { continue };
                let mut all: Vec<Vec<u8>> = Vec::new();
                forms(value.as_bytes(), &mut |_, form| all.push(form.to_vec()));
                let form = &all[form % all.len()];
                text.extend_from_slice(&form[..form.len() * share / 100]);
            }
        }
    }
    text
}

fn compiled(values: &[String]) -> Patterns {
    let names: Vec<String> = (0..values.len()).map(|number| format!("s{number}")).collect();
    Patterns::new(names.iter().map(String::as_str).zip(values.iter().map(String::as_bytes))).0
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn a_stream_cut_at_every_point_gives_what_the_definition_says(values in values(), parts in parts()) {
        let patterns = compiled(&values);
        let text = stream(&values, &parts);
        let expected = by_definition(&patterns, &text);
        prop_assert_eq!(&whole(&patterns, &text), &expected);
        for cut in 0..=text.len() {
            prop_assert_eq!(&pieces(&patterns, [&text[..cut], &text[cut..]]), &expected, "cut at {}", cut);
        }
        prop_assert_eq!(&pieces(&patterns, text.chunks(1)), &expected);
        prop_assert_eq!(&pieces(&patterns, text.chunks(13)), &expected);
    }

    #[test]
    fn what_is_kept_back_could_be_the_beginning_of_a_match(values in values(), parts in parts(), cut in 0..64_usize) {
        let patterns = compiled(&values);
        let mut text = stream(&values, &parts);
        text.truncate(text.len().saturating_sub(cut));
        let (mut out, mut found) = (Vec::new(), Vec::new());
        let mut redactor = Redactor::new(&patterns);
        redactor.push(&text, &mut out, &mut found);
        let kept = redactor.kept_back();
        if kept > 0 {
            let end = &text[text.len() - kept..];
            let mut begins_form = false;
            for value in &values {
                // The beginning of the form may be gone with a token that ends in it.
                let mut check = |form: &[u8]| {
                    let earliest = text.len().saturating_sub(form.len().saturating_sub(1));
                    let mut starts = earliest..=text.len() - kept;
                    begins_form |= starts.any(|start| form.len() > text.len() - start && form.starts_with(&text[start..]));
                };
                forms(value.as_bytes(), &mut |_, form| check(&form));
                check(value.strip_prefix("ghp_").unwrap_or(value).as_bytes());
            }
            // A token that goes on after a dot keeps the dot.
            prop_assert!(begins_form || token_at(end, false) == Token::Undecided || end == b".", "{:?}", end);
        }
    }

    #[test]
    fn bytes_without_a_secret_pass_as_they_are(bytes in prop::collection::vec(any::<u8>(), 0..2000), size in 1..100_usize) {
        let patterns = patterns(&[("one", "Zq8#Zq8#x7"), ("two", "Xk2-Jw9-Lm4-Rt6-Vb8")]);
        let (out, found) = pieces(&patterns, bytes.chunks(size));
        prop_assert_eq!(found, []);
        prop_assert_eq!(out, bytes);
    }

    #[test]
    fn what_was_shown_at_rest_is_not_shown_again(values in values(), parts in parts(), size in 1..40_usize) {
        let patterns = compiled(&values);
        let text = stream(&values, &parts);
        let (mut out, mut found) = (Vec::new(), Vec::new());
        let mut redactor = Redactor::new(&patterns);
        for piece in text.chunks(size) {
            redactor.push(piece, &mut out, &mut found);
            redactor.rest(&mut out);
        }
        redactor.finish(&mut out, &mut found);
        let (expected, told) = by_definition(&patterns, &text);
        prop_assert_eq!(found, told);
        // Beginnings may stand before a name that have come out already, and nothing else is different.
        prop_assert!(out.len() >= expected.len());
        let mut rest = out.iter();
        prop_assert!(expected.iter().all(|byte| rest.any(|other| other == byte)));
    }
}
