//! `keyward-shim`, the third executable: a shim and nothing else. An agent starts one for each command, and most of what a start costs is the
//! size of the program. Where it is missing, `keyward` is the shim.
#![forbid(unsafe_code)]

mod shim;

use keyward_sys::environ::Block;
use keyward_sys::file::write_all;

fn main() {
    let _ = keyward_sys::confine::become_opaque();
    let block = Block::take();
    std::process::exit(match shim::stands_for() {
        Some(program) => shim::run(program, &block),
        None => {
            let text = b"keyward: keyward-shim works in the cage of an agent only\nstart the agent with `keyward run --shims -- COMMAND`\n";
            let _ = write_all(rustix::stdio::stderr(), text);
            keyward_policy::outcome::code::USAGE
        }
    });
}

/// What a shim has to say.
mod say {
    use keyward_policy::trouble::Trouble;

    /// Two lines; gives the exit code.
    pub fn failure(trouble: &Trouble) -> i32 {
        let text = format!("keyward: {}\n{}\n", trouble.fact, trouble.remedy);
        let _ = keyward_sys::file::write_all(rustix::stdio::stderr(), text.as_bytes());
        trouble.exit()
    }
}
