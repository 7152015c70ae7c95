//! Who waits for an answer: a process, known by its number, its start and the start of the kernel. Another one that has got the
//! same number later is not taken for it.

use std::fs;

/// This process.
pub fn own() -> String {
    named(std::process::id()).unwrap_or_default()
}

/// Whether the process is still there.
pub fn is_alive(asker: &str) -> bool {
    let number = asker.split(' ').next().and_then(|number| number.parse().ok());
    number.and_then(named).is_some_and(|now| now == asker)
}

fn named(number: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The name of the program stands in brackets, and may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?;
    // A zombie process cannot take an answer.
    if matches!(state, "Z" | "X") {
        return None;
    }
    let kernel = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Some(format!("{number} {start} {}", kernel.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_while_it_lives_and_not_by_its_number_alone() {
        let own = own();
        assert!(is_alive(&own));
        let mut words: Vec<&str> = own.split(' ').collect();
        words[1] = "1";
        assert!(!is_alive(&words.join(" ")));
        assert!(!is_alive("") && !is_alive("x y z"));
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let name = named(child.id()).unwrap();
        assert!(is_alive(&name));
        child.kill().unwrap();
        // Also before it was waited for.
        while is_alive(&name) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!is_alive(&name));
    }
}
