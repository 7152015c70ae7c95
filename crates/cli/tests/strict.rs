//! `files.protect = "strict"`: no new foothold can be made, by whichever call, and everything else is as without it.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use support::{Stage, Who, after_a_sign, is_root, ran, refused, stderr, stdout};

const STRICT: &[&str] = &["--protect", "strict"];

/// Does one call that makes a name: `maker CALL NAME`, in the current folder. Prints MADE or the number of the error.
const MAKER: &str = include_str!("strict/maker.c");

/// Every call that makes a name, as `maker` calls them.
const CALLS: &[&str] = &[
    "open",
    "open-tmpfile-linkat-proc",
    "open-tmpfile-linkat-empty",
    "openat",
    "openat-absolute",
    "openat-descriptor",
    "openat-through-link",
    "openat-through-links",
    "openat-proc-cwd",
    "openat-proc-fd",
    "openat-thread-cwd",
    "creat",
    "mkdir",
    "mkdir-slash",
    "mkdirat",
    "mknod",
    "mknodat",
    "mknod-fifo",
    "rename",
    "rename-folder",
    "renameat",
    "renameat2",
    "renameat2-noreplace",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "bind",
    "bind-absolute",
    "bind-proc-fd",
    "thread-open",
    "vfork-mkdir",
];

fn everybody() -> Vec<Stage> {
    let mut stages = vec![Stage::user()];
    if is_root() {
        stages.push(Stage::new(Who::Root));
    }
    stages
}

/// Does a call in a fresh folder of the project, in a strict cage or in none; gives what it said and whether the name is there afterwards.
fn made(stage: &Stage, strict: bool, call: &str, name: &str) -> (String, bool) {
    let _ = std::fs::remove_dir_all(stage.project().join("place"));
    let script = after_a_sign(&format!("mkdir place && cd place && ../maker {call} '{name}'"));
    let output = match strict {
        true => stage.caged_with(STRICT, &script),
        false => stage.command("sh").args(["-c", &script]).output().unwrap(),
    };
    let said = stdout(&ran(output)).lines().last().unwrap_or_default().to_owned();
    (said, stage.project().join("place").join(name).symlink_metadata().is_ok())
}

#[test]
fn no_call_makes_a_foothold() {
    for stage in everybody() {
        stage.program("maker", MAKER);
        for call in CALLS {
            for name in [".envrc", ".VSCode", ".git"] {
                assert_eq!(
                    made(&stage, false, call, name),
                    ("MADE".into(), true),
                    "the control did not work: {call} {name}"
                );
                assert_eq!(made(&stage, true, call, name), ("EPERM".into(), false), "{call} {name}");
            }
            assert_eq!(made(&stage, true, call, "harmless"), ("MADE".into(), true), "{call}");
        }
    }
}

/// Does a call below a folder in which these directories are, empty; gives what it said and whether the name is there afterwards.
fn made_below(stage: &Stage, strict: bool, call: &str, directory: &str, name: &str) -> (String, bool) {
    let place = stage.project().join("place");
    let _ = std::fs::remove_dir_all(&place);
    stage.make_folder(&place.join(directory));
    let path = std::path::Path::new(directory).join(name);
    let script = after_a_sign(&format!("cd place && ../maker {call} '{}'", path.display()));
    let output = match strict {
        true => stage.caged_with(STRICT, &script),
        false => stage.command("sh").args(["-c", &script]).output().unwrap(),
    };
    let said = stdout(&ran(output)).lines().last().unwrap_or_default().to_owned();
    (said, place.join(path).symlink_metadata().is_ok())
}

#[test]
fn no_call_adds_a_program_where_one_is_looked_for() {
    let stage = Stage::user();
    stage.program("maker", MAKER);
    for call in CALLS {
        for (directory, name) in [("node_modules/.bin", "ls"), ("lib/site-packages", "x.pth")] {
            let done = |strict| made_below(&stage, strict, call, directory, name);
            assert_eq!(done(false), ("MADE".into(), true), "the control did not work: {call} {name}");
            assert_eq!(done(true), ("EPERM".into(), false), "{call} {name}");
        }
        let done = made_below(&stage, true, call, "node_modules/a/bin", "ls");
        assert_eq!(done, ("MADE".into(), true), "{call}");
    }
}

/// Ways to get a program into a place where one is looked for; each prints IT in the end if it is there.
const WAYS: &[&str] = &[
    "mkdir bin; echo x > bin/ls; ls bin/ls && echo IT",
    "mkdir b; echo x > b/ls; mv b bin; ls bin/ls && echo IT",
    "mkdir b; echo x > b/ls; ln -s b bin; ls bin/ls && echo IT",
    "mkdir -p deep/bin; echo x > deep/bin/ls; ls deep/bin/ls && echo IT",
    "mkdir -p d/bin; echo x > d/bin/ls; mv d deep; ls deep/bin/ls && echo IT",
    "mkdir -p d/bin; echo x > d/bin/ls; ln -s d deep; ls deep/bin/ls && echo IT",
    "mkdir rel; echo x > rel/ls; ls rel/ls && echo IT",
    "rm tools; mkdir t; echo x > t/ls; ln -s t tools; ls tools/ls && echo IT",
    "rm tools; mkdir tools; echo x > tools/ls; ls tools/ls && echo IT",
    "echo x > real/ls; ls tools/ls && echo IT",
    "echo x >> modules/site-packages/sitecustomize.py; grep x modules/site-packages/sitecustomize.py && echo IT",
    "mkdir -p node_modules/.bin; echo x > node_modules/.bin/ls; ls node_modules/.bin/ls && echo IT",
    "mkdir -p n/.bin; echo x > n/.bin/ls; mv n node_modules; ls node_modules/.bin/ls && echo IT",
    "mkdir -p n/.bin; echo x > n/.bin/ls; chmod 311 n; mv n node_modules; ls node_modules/.bin/ls && echo IT",
    "mkdir -p n/.bin; echo x > n/.bin/ls; ln -s n node_modules; ls node_modules/.bin/ls && echo IT",
    "mkdir -p n/.bin; echo x > n/.bin/ls; ln -s n m; ln -P m node_modules; ls node_modules/.bin/ls && echo IT",
    "mkdir -p n/.bin; echo x > n/.bin/ls; ln -s n m; mv -T m node_modules; ls node_modules/.bin/ls && echo IT",
    "mkdir -p n/.bin node_modules; echo x > n/.bin/ls; mv n/.bin node_modules; ls node_modules/.bin/ls && echo IT",
    "mkdir -p .venv/bin; echo x > .venv/bin/ls; ls .venv/bin/ls && echo IT",
    "mkdir -p v/bin; echo x > v/bin/ls; mv v .venv; ls .venv/bin/ls && echo IT",
    "mkdir -p v/bin .venv; echo x > v/bin/ls; python3 -c 'import os; os.rename(\"v/bin\", \".venv/bin\")'; ls .venv/bin/ls && echo IT",
    "mkdir -p mine/bin; echo x > mine/bin/ls; echo > mine/pyvenv.cfg; ls mine/bin/ls mine/pyvenv.cfg && echo IT",
    "echo x > there/bin/ls; ls there/bin/ls && echo IT",
    "mkdir s; echo x > s/x.pth; mkdir -p l; mv s l/site-packages; ls l/site-packages/x.pth && echo IT",
    "mkdir -p l/site-packages; echo x > l/site-packages/sitecustomize.py; ls l/site-packages/sitecustomize.py && echo IT",
    "echo x >> modules/site-packages/old.pth; grep x modules/site-packages/old.pth && echo IT",
];

#[test]
fn no_way_leads_a_program_into_a_place_where_one_is_looked_for() {
    for way in WAYS {
        let run = |strict: bool| {
            let stage = Stage::user();
            let project = stage.project();
            // An environment under another name, with nothing in it yet.
            stage.make_folder(&project.join("there/bin"));
            stage.project_file("there/pyvenv.cfg", "");
            stage.project_file("modules/site-packages/old.pth", "");
            stage.project_file("modules/site-packages/sitecustomize.py", "");
            stage.make_folder(&project.join("real"));
            std::os::unix::fs::symlink("real", project.join("tools")).unwrap();
            let search = format!(
                "rel:{0}/tools:{0}/bin:{0}/deep/bin:{1}",
                project.display(),
                std::env::var("PATH").unwrap()
            );
            let flags = if strict { STRICT } else { &[] };
            let mut command = stage.keyward_run(flags, &["/bin/sh", "-c", &after_a_sign(way)]);
            ran(command.env("PATH", search).output().unwrap())
        };
        let control = run(false);
        assert!(stdout(&control).contains("IT"), "the control did not work: {way}: {}", stderr(&control));
        let output = run(true);
        assert!(!stdout(&output).contains("IT"), "{way}");
        assert!(!stderr(&output).contains("none can be added"), "{way}: {}", stderr(&output));
    }
}

#[test]
fn what_is_not_looked_for_there_can_be_made() {
    let stage = Stage::user();
    stage.make_folder(&stage.project().join(".venv/lib/site-packages"));
    let script = "mkdir -p node_modules/a/bin && echo x > node_modules/a/bin/a.js && mv node_modules n && mv n node_modules
        echo x > .venv/lib/site-packages/a.py && mkdir bin && echo x > bin/tool && mv bin tools && echo MADE";
    let output = stage.caged_with(STRICT, &format!("set -e; {script}"));
    assert!(stdout(&output).contains("MADE"), "{}", stderr(&output));
}

#[test]
fn a_folder_that_was_granted_is_protected_as_the_project_is() {
    let stage = Stage::user();
    let granted = stage.elsewhere();
    let script = format!("mkdir '{0}/.vscode'; mkdir '{0}/plain' && echo MADE", granted.display());
    let output = stage.caged_with(&["--protect", "strict", "--write", granted.to_str().unwrap()], &script);
    assert!(
        stdout(&output).contains("MADE") && stderr(&output).contains("not permitted"),
        "{}",
        stderr(&output)
    );
    assert!(!granted.join(".vscode").exists());
}

#[test]
fn places_of_the_cages_own_may_hold_any_name() {
    for stage in everybody() {
        stage.make_folder(&stage.home().join(".npm"));
        let script = "mkdir -p ~/.cache; for place in /tmp /dev/shm /run \"$HOME\" ~/.cache ~/.npm; do mkdir \"$place/.vscode\" && echo x > \"$place/.envrc\" || exit 1; done
                      cd /tmp && git init -q x && mkdir y && mv y .idea && echo MADE";
        let output = stage.caged_with(STRICT, script);
        assert!(stdout(&output).contains("MADE"), "{}", stderr(&output));
    }
}

#[test]
fn a_cache_on_the_projects_own_file_system_opens_nothing() {
    let stage = Stage::user();
    // An overlay cannot be made with this name, so that the user's own folder is shown in its place.
    let home = stage.home().join("a,b");
    stage.make_folder(&home.join(".cargo/registry"));
    let mut command = stage.keyward_run(STRICT, &["sh", "-c", "mkdir plain && echo MADE; mkdir .vscode"]);
    let output = command.env("HOME", &home).output().unwrap();
    assert!(stdout(&output).contains("MADE"), "{}", stderr(&output));
    assert!(!stage.project().join(".vscode").exists());
}

#[test]
fn what_was_made_elsewhere_cannot_be_moved_into_the_project() {
    let stage = Stage::user();
    // A cache may lie on the same file system as the project, and is still another mount.
    let script = "for made in /tmp/x ~/.cache/y; do mkdir -p \"$made/.vscode\" && touch \"$made/.vscode/tasks.json\"; done; mkdir sub
        python3 -c \"
import os
for source, target in (('/tmp/x', 'x'), ('/tmp/x', 'sub/x'), (os.path.expanduser('~/.cache/y'), 'y')):
    try:
        os.rename(source, target)
        print('MOVED')
    except OSError as error:
        print(os.strerror(error.errno))
\"; mv /tmp/x . ; mv ~/.cache/y . ; ls -A x y";
    let output = stage.caged_with(STRICT, script);
    let said = stdout(&output);
    assert_eq!(said.matches("Invalid cross-device link").count(), 3, "{said}{}", stderr(&output));
    assert_eq!(stderr(&output).matches("not permitted").count(), 2, "{}", stderr(&output));
    assert!(["x/.vscode", "y/.vscode"].iter().all(|path| !stage.project().join(path).exists()));
}

#[test]
fn a_foothold_that_was_changed_in_a_package_cannot_be_moved_out_of_it() {
    let stages = || [Stage::user(), Stage::user()];
    let prepare = "mkdir -p node_modules/p/.vscode lib/site-packages/q/.claude here there; touch node_modules/a.js
                   echo old > node_modules/p/.vscode/tasks.json; echo old > lib/site-packages/q/.claude/settings.json";
    let script = "echo planted | tee node_modules/p/.vscode/tasks.json lib/site-packages/q/.claude/settings.json >/dev/null
        python3 -c \"
import ctypes, os
os.rename('node_modules/a.js', 'b.js')
os.rename('node_modules/p', 'node_modules/p2'); os.rename('node_modules/p2', 'node_modules/p')
for pair in ((b'here', b'node_modules/p'), (b'lib/site-packages/q', b'there')):
    ctypes.CDLL(None).syscall(316, -100, pair[0], -100, pair[1], 2)
for pair in (('node_modules/p', 'x'), ('node_modules', 'y'), ('lib/site-packages/q', 'z'), ('lib/site-packages', 'lib/w')):
    try:
        os.rename(*pair)
    except OSError as error:
        print(error)
\"; [ -e x ] || mv node_modules/p x";
    let [bare, caged] = stages();
    let planted = |stage: &Stage| {
        let find = "find . -path ./node_modules -prune -o -name site-packages -prune -o -type f -print | xargs grep -l planted";
        stdout(&stage.bare(find))
    };
    bare.bare(prepare);
    bare.bare(script);
    assert_eq!(planted(&bare).lines().count(), 2, "{}", planted(&bare));
    caged.bare(prepare);
    let output = caged.caged_with(STRICT, script);
    assert_eq!(stdout(&output).matches("Invalid cross-device link").count(), 4, "{}", stderr(&output));
    assert_eq!(planted(&caged), "", "{}", stderr(&output));
    // Files may leave, and within the tree everything may be moved.
    assert!(caged.project().join("b.js").exists());
}

#[test]
fn what_exists_already_stays_usable() {
    let stage = Stage::user();
    stage.bare("git init -q . && mkdir .vscode && echo old > .vscode/settings.json && echo old > .envrc");
    let script = "echo x >> .git/description && mkdir -p .git .vscode && touch .git/new && echo MADE
                  mkdir .git; echo x > a; mv a .envrc; ln -s a .envrc";
    let output = stage.caged_with(STRICT, script);
    assert!(stdout(&output).contains("MADE"), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("File exists") && said.contains("not permitted"), "{said}");
    assert_eq!(std::fs::read_to_string(stage.project().join(".envrc")).unwrap(), "old\n");
}

#[test]
fn an_existing_foothold_is_not_exchanged_for_another() {
    let exchange = "python3 -c \"
import ctypes
for pair in ((b'new', b'.exrc'), (b'.exrc', b'new')):
    print(ctypes.CDLL(None).syscall(316, -100, pair[0], -100, pair[1], 2))
\"; cat .exrc";
    let say = |strict: bool| {
        let stage = Stage::user();
        stage.project_file(".exrc", "the user's");
        stage.project_file("new", "the child's");
        let script = format!("{exchange}; mv -f .exrc gone; ls -A gone");
        stdout(&match strict {
            true => stage.caged_with(STRICT, &script),
            false => stage.command("sh").args(["-c", &script]).output().unwrap(),
        })
    };
    assert!(say(false).starts_with("0\n0\n"), "the control did not work");
    assert!(say(true).starts_with("-1\n-1\nthe user's"), "{}", say(true));
}

/// The same calls with and without a warden: what they answer, what they leave behind.
#[track_caller]
fn behaves_alike(stage: &Stage) {
    stage.python("conformance.py", include_str!("strict/conformance.py"));
    stage.make_folder(&stage.project().join("work"));
    let run = |flags: &[&str]| stage.caged_with(flags, "python3 conformance.py");
    let (without, with) = (run(&[]), run(STRICT));
    assert!(stdout(&without).contains(" cases"), "{}", stderr(&without));
    let (without, with) = (stdout(&without), stdout(&with));
    let different: Vec<_> = without.lines().zip(with.lines()).filter(|(one, other)| one != other).collect();
    assert!(different.is_empty(), "{} of {}: {different:#?}", different.len(), without.lines().count());
    assert_eq!(without.lines().count(), with.lines().count());
}

#[test]
fn harmless_calls_answer_as_the_kernel_does() {
    behaves_alike(&Stage::user());
}

#[test]
fn harmless_calls_of_root_answer_as_the_kernel_does() {
    behaves_alike(&Stage::root());
}

#[test]
fn a_name_that_changes_while_it_is_looked_at_is_never_made() {
    let stage = Stage::user();
    let racer = stage.program("racer", include_str!("strict/racer.c"));
    let output =
        stage.caged_with(STRICT, &format!("mkdir race && cd race && ../{}", racer.trim_start_matches("./")));
    let said = stdout(&output);
    assert!(said.contains("20000 tries"), "{said}{}", stderr(&output));
    // Both names were met, or nothing was raced.
    assert!(said.contains("refused yes, made yes"), "{said}");
    assert!(!stage.project().join("race/.envrc").exists() && !said.contains("CAUGHT"), "{said}");
}

/// Kills the warden and then tries what a child could try.
const AFTER_ITS_DEATH: &str = include_str!("strict/after_its_death.c");

#[test]
fn without_its_warden_a_child_makes_nothing() {
    for stage in everybody() {
        let attack = stage.program("attack", AFTER_ITS_DEATH);
        let output = stage.caged_with(STRICT, &after_a_sign(&attack));
        let said = stdout(&ran(output));
        assert!(said.contains("warden found") && said.contains("warden gone"), "{said}");
        assert!(
            said.contains("plain ENOSYS") && said.contains("listener EPERM") && said.contains("after ENOSYS"),
            "{said}"
        );
        assert!(!stage.project().join(".vscode").exists() && !stage.project().join("harmless").exists());
    }
}

#[test]
fn the_command_has_no_way_to_the_warden() {
    for stage in everybody() {
        let script = "ls -l /proc/self/fd | grep -c seccomp
            warden=$(pgrep -x keyward:warden) && echo found
            cat /proc/$warden/environ; ls /proc/$warden/fd; readlink /proc/$warden/cwd
            mkdir /proc/$warden/cwd/x; true > /proc/$warden/fd/3; head -c1 /proc/$warden/mem
            python3 -c \"import os; os.open('/proc/$warden/environ', os.O_RDONLY | os.O_CREAT)\" 2>&1 | tail -n 1
            grep CapPrm /proc/$warden/status; grep -H Cap /proc/self/status";
        let output = stage.caged_with(STRICT, script);
        let said = stdout(&output);
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines[..2], ["0", "found"], "{said}{}", stderr(&output));
        assert!(lines[2].contains("Permission denied"), "{said}");
        // The right to look into others, and no other; the command has none at all.
        assert!(lines[3].ends_with("0000000000080000"), "{said}");
        assert!(lines[4..].iter().all(|line| line.ends_with("0000000000000000")), "{said}");
        assert_eq!(
            stderr(&output).lines().filter(|line| line.contains("ermission denied")).count(),
            5,
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn a_child_cannot_listen_to_its_own_calls() {
    let stage = Stage::user();
    let program = stage.program("listen", include_str!("strict/listen.c"));
    let script = after_a_sign(&program);
    assert!(stdout(&ran(stage.caged(&script))).contains("LISTENS"), "the control did not work");
    assert!(stdout(&ran(stage.caged_with(STRICT, &script))).contains("EPERM"));
}

#[test]
fn real_programs_work() {
    let stage = Stage::user();
    stage.bare("git init -q . && git config user.name x && git config user.email x@example.test");
    stage.project_file("hello.c", "#include <stdio.h>\nint main(void) { puts(\"hello from make\"); }\n");
    stage.project_file("Makefile", "hello: hello.o\n\tcc -o $@ $^\n%.o: %.c\n\tcc -c -o $@ $<\n");
    let script = "set -e
        make -s -j2 && ./hello
        git add Makefile hello.c && git commit -qm first && git checkout -qb other && git mv hello.c moved.c && git commit -qm second
        git log --oneline | wc -l && git stash list && git gc -q && git status --short | head -n 3
        tar cf x.tar Makefile moved.c && mkdir out && tar xf x.tar -C out && cmp out/moved.c moved.c
        cp -a out copy && mv copy moved && ln moved/moved.c hard && rsync --version > /dev/null 2>&1 || true
        python3 -m venv --without-pip /tmp/venv && /tmp/venv/bin/python -c 'print(\"hello from venv\")'
        python3 -c \"
import sqlite3, tempfile, shutil
base = sqlite3.connect('data.db'); base.execute('pragma journal_mode=wal'); base.execute('create table t(x)')
base.execute('insert into t values (1)'); base.commit(); print('hello from', base.execute('select count(*) from t').fetchone()[0], 'row')
with tempfile.NamedTemporaryFile(dir='.') as t: t.write(b'x')
shutil.copytree('out', 'tree')\"
        node -e \"const fs = require('fs'); fs.mkdirSync('n/a', {recursive: true}); fs.writeFileSync('n/a/f', 'x'); fs.renameSync('n/a/f', 'n/g'); console.log('hello from node')\"
        echo hello from tee | tee log; (cat log > /dev/stdout) | cat; echo > /dev/null; cat <<END
hello from here
END
        echo DONE";
    let output = stage.caged_with(STRICT, script);
    let said = stdout(&output);
    for word in [
        "hello from make",
        "hello from venv",
        "hello from 1 row",
        "hello from node",
        "hello from tee",
        "hello from here",
        "DONE",
    ] {
        assert!(said.contains(word), "{word}\n{said}\n{}", stderr(&output));
    }
}

#[test]
fn a_server_with_a_unix_socket_works() {
    let stage = Stage::user();
    let script = "python3 -c \"
import socketserver, threading, socket, os
class Echo(socketserver.StreamRequestHandler):
    def handle(self): self.wfile.write(self.rfile.readline())
server = socketserver.UnixStreamServer('echo.sock', Echo)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = socket.socket(socket.AF_UNIX); client.connect('echo.sock'); client.sendall(b'hello\\n'); print(client.recv(9), server.server_address)
server.shutdown()\"";
    let output = stage.caged_with(STRICT, script);
    assert!(stdout(&output).contains("b'hello\\n' echo.sock"), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn a_caller_that_dies_does_not_hold_up_the_others() {
    let stage = Stage::user();
    let script = "mkfifo pipe; for n in 1 2 3 4 5; do (echo x > pipe) & waiting=$!; sleep 0.05; kill -9 $waiting; done
                  for n in $(seq 50); do (while :; do mkdir d$n; rmdir d$n; done) & echo $! >> pids; done 2>/dev/null
                  sleep 0.3; kill -9 $(cat pids); echo alive > after && cat after
                  sleep 0.3; ps -e -o comm= | grep -c keyward:warden";
    let said = stdout(&stage.caged_with(STRICT, script));
    // One warden, and no helper of its that still waits.
    assert_eq!(said.lines().collect::<Vec<_>>(), ["alive", "1"]);
}

#[test]
fn the_terminal_of_a_caller_is_its_own() {
    let stage = Stage::user();
    // A session with a terminal that is not the warden's, and one without any.
    let script = "python3 -c \"
import os, pty
child, terminal = pty.fork()
if child == 0:
    os.write(os.open('/dev/tty', os.O_WRONLY | os.O_CREAT), b'to its own terminal')
    os._exit(0)
print(os.read(terminal, 100))
os.waitpid(child, 0)
\"; (setsid sh -c 'echo lost > /dev/tty') 2>&1";
    let said = stdout(&stage.caged_with(STRICT, script));
    assert!(said.contains("to its own terminal") && said.contains("No such device or address"), "{said}");
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let stage = Stage::user();
    // A filter with a listener is already there, and there can be only one.
    let program = stage.program("listen", include_str!("strict/listen.c"));
    let mut inner = stage.command("sh");
    let keyward = support::keyward();
    inner.args(["-c", &format!("{program} '{keyward}' run --protect strict -- echo RAN")]);
    refused(
        inner.output().unwrap(),
        122,
        "cannot keep new footholds from being made: a seccomp notification is refused here",
    );
    let mut control = stage.command("sh");
    control.args(["-c", &format!("{program} '{keyward}' run -- echo RAN")]);
    assert!(stdout(&control.output().unwrap()).contains("RAN"));
}
