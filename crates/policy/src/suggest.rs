//! What would have allowed something that was denied: lines of policy, the dangerous ones marked.

use crate::text::{typed, typed_words, visible};
use std::fmt::Write;

/// A denial, as the record tells it. All of it may come from inside a cage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Denial {
    /// `refused` or `denied`.
    pub event: String,
    pub rule: String,
    /// Why the gate has denied it.
    pub because: String,
    pub class: Option<String>,
    /// The approval that can be given for the next time.
    pub question: Option<u64>,
    pub argv: Vec<String>,
}

/// What one can do about a denial.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    Line(&'static str),
    /// A line, and what it opens.
    Dangerous(&'static str, &'static str),
    Command(String),
    Nothing(&'static str),
}

fn ways(denial: &Denial) -> Vec<Way> {
    let key = denial.rule.split([' ', '(']).next().unwrap_or_default();
    match (denial.event.as_str(), denial.because.as_str(), key) {
        ("denied", "forbidden", _) => vec![Way::Nothing("no policy line overrides this")],
        ("denied", "rule", _) => {
            vec![Way::Nothing(
                "a rule denies it, and no policy line overrides that; your own rules are in gate.rules",
            )]
        }
        ("denied", "mode", _) => vec![Way::Line("gate.mode = \"auto\"")],
        ("denied", ..) => {
            let class = denial
                .class
                .as_ref()
                .map(|class| format!(" --class {} --for 1h", typed(&visible(class.as_ref()))));
            let allow =
                |id| Way::Command(format!("keyward approvals allow {id}{}", class.unwrap_or_default()));
            let yolo = Way::Dangerous("gate.mode = \"yolo\"", "nothing is asked about any more");
            denial.question.map(allow).into_iter().chain([yolo]).collect()
        }
        (_, _, "inherit_credentials") => {
            vec![Way::Dangerous("trust = \"executor\"", "the command gets the credentials that are named")]
        }
        (_, _, "floor") => vec![Way::Dangerous(
            "floor = \"landlock\"",
            "promises fall away; `keyward explain --floor landlock CMD` names them",
        )],
        (_, _, "files.protect") => vec![Way::Dangerous(
            "files.protect = \"notice\"",
            "new footholds are taken away when they are noticed, and can be made",
        )],
        _ => vec![Way::Nothing("no policy line overrides this; `keyward log --denied` shows the fact")],
    }
}

/// The lines for a policy file. What is dangerous, or not a line of policy, is a comment: pasted as it is, the text opens nothing
/// that a reader has not chosen.
pub fn suggest(denials: &[Denial]) -> String {
    let mut groups: Vec<(&Denial, usize)> = Vec::new();
    for denial in denials {
        let same = |(other, _): &&mut (&Denial, usize)| {
            (&other.event, &other.rule, &other.because) == (&denial.event, &denial.rule, &denial.because)
        };
        match groups.iter_mut().find(same) {
            // The newest has the question that can still be answered.
            Some((newest, count)) => (*newest, *count) = (denial, *count + 1),
            None => groups.push((denial, 1)),
        }
    }
    let mut text = String::new();
    let mut said: Vec<&str> = Vec::new();
    for (denial, count) in groups {
        let words: Vec<String> = denial.argv.iter().map(|word| visible(word.as_ref())).collect();
        let times = if count == 1 { String::new() } else { format!(", {count} times") };
        let why = [&denial.because, &denial.rule].map(|part| visible(part.as_ref())).join(" ");
        let _ = writeln!(
            text,
            "# {}: {} ({}){times}",
            visible(denial.event.as_ref()),
            typed_words(&words),
            why.trim()
        );
        for way in ways(denial) {
            let _ = match way {
                Way::Line(line) | Way::Dangerous(line, _) if said.contains(&line) => {
                    writeln!(text, "#   as above: {line}")
                }
                Way::Line(line) => {
                    said.push(line);
                    writeln!(text, "{line}")
                }
                Way::Dangerous(line, opens) => {
                    said.push(line);
                    writeln!(text, "#   DANGEROUS, {opens}:\n# {line}")
                }
                Way::Command(command) => writeln!(text, "#   not by a line: `{command}`"),
                Way::Nothing(why) => writeln!(text, "#   {why}"),
            };
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Document, Role, check};

    fn denial(event: &str, rule: &str, because: &str) -> Denial {
        let (event, rule, because) = (event.into(), rule.into(), because.into());
        Denial { event, rule, because, argv: vec!["git".into(), "push it".into()], ..Denial::default() }
    }

    #[test]
    fn what_is_dangerous_is_marked_and_a_comment() {
        let asked = Denial {
            class: Some("git".into()),
            question: Some(7),
            ..denial("denied", "git-push", "unattended")
        };
        let denials = [
            Denial { question: Some(6), ..asked.clone() },
            asked,
            denial("denied", "git-push", "mode"),
            denial("denied", "delete-root", "forbidden"),
            denial("refused", "inherit_credentials", ""),
            denial("refused", "floor = \"full\" (built in)", ""),
            denial("refused", "cwd", ""),
            denial("denied", "other", "timeout"),
        ];
        let text = suggest(&denials);
        assert_eq!(
            text,
            "# denied: git 'push it' (unattended git-push), 2 times\n\
             #   not by a line: `keyward approvals allow 7 --class git --for 1h`\n\
             #   DANGEROUS, nothing is asked about any more:\n\
             # gate.mode = \"yolo\"\n\
             # denied: git 'push it' (mode git-push)\n\
             gate.mode = \"auto\"\n\
             # denied: git 'push it' (forbidden delete-root)\n\
             #   no policy line overrides this\n\
             # refused: git 'push it' (inherit_credentials)\n\
             #   DANGEROUS, the command gets the credentials that are named:\n\
             # trust = \"executor\"\n\
             # refused: git 'push it' (floor = \"full\" (built in))\n\
             #   DANGEROUS, promises fall away; `keyward explain --floor landlock CMD` names them:\n\
             # floor = \"landlock\"\n\
             # refused: git 'push it' (cwd)\n\
             #   no policy line overrides this; `keyward log --denied` shows the fact\n\
             # denied: git 'push it' (timeout other)\n\
             #   as above: gate.mode = \"yolo\"\n"
        );
    }

    #[test]
    fn a_hostile_command_stays_in_its_comment() {
        let hostile = ["a\ntrust = \"internal\"", "\u{202e}", "x\r\nfloor = 'landlock'"];
        let denials: Vec<Denial> = hostile
            .iter()
            .flat_map(|&text| {
                let all = Denial { argv: vec![text.into()], ..denial(text, text, text) };
                let asked =
                    Denial { class: Some(text.into()), question: Some(1), ..denial("denied", text, text) };
                [all, asked]
            })
            .collect();
        let text = suggest(&denials);
        assert!(text.lines().all(|line| line.starts_with('#')), "{text}");
        let document = format!("version = 1\n{text}");
        assert_eq!(check(&Document { name: "x", text: document.as_bytes() }, Role::User), Ok(()));
    }

    #[test]
    fn every_line_belongs_into_a_policy_file() {
        let rules = [
            ("refused", "inherit_credentials", ""),
            ("refused", "floor", ""),
            ("refused", "files.protect", ""),
            ("denied", "x", "mode"),
            ("denied", "x", "lost"),
        ];
        for (event, rule, because) in rules {
            for way in ways(&denial(event, rule, because)) {
                if let Way::Line(line) | Way::Dangerous(line, _) = way {
                    let text = format!("version = 1\n{line}\n");
                    assert_eq!(
                        check(&Document { name: "x", text: text.as_bytes() }, Role::User),
                        Ok(()),
                        "{line}"
                    );
                }
            }
        }
    }
}
