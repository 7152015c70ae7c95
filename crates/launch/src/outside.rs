//! Looks at the host after a command has failed, for the words that are told about it. Runs in the launcher and in the session process.

use keyward_policy::hint::Outside;
use std::path::Path;

/// The machine that the cage is on.
pub struct Host;

impl Outside for Host {
    fn exists(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok()
    }

    fn listens(&self, port: u16) -> bool {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
        tables.into_iter().flatten().any(|table| table.lines().any(|line| is_listening(line, port)))
    }
}

/// Whether a line of the kernel's table is of a socket that listens on a port.
fn is_listening(line: &str, port: u16) -> bool {
    const LISTEN: &str = "0A";
    let mut columns = line.split_whitespace().skip(1);
    let (Some(address), Some(state)) = (columns.next(), columns.nth(1)) else { return false };
    let local = address.rsplit_once(':').and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
    state == LISTEN && local == Some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_this_machine_is_known_by_its_port() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        assert!(Host.listens(port));
        drop(server);
        assert!(!Host.listens(port));
    }
}
