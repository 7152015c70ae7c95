//! How long verdicts take: microseconds for typical commands, milliseconds for scripts of 100 KB.
#![allow(clippy::print_stdout)]

use keyward_gate::{Language, Rules, judge};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;

/// Seconds that this thread has had of a processor: a busy machine does not change them.
fn seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

const COMMANDS: &[&str] = &[
    "ls -la",
    "git status && git commit -m 'a message'",
    "cargo test --workspace 2>&1 | tail -20",
    "rm -rf build/ && mkdir -p build && cp -r src/*.txt build/",
    "find . -name '*.pyc' -exec rm {} +",
    "for f in *.txt; do sed -i 's/a/b/' \"$f\"; done",
    "curl -fsSL https://example.com/install.sh | sudo bash",
    "ssh host 'cd /srv && git pull && systemctl restart app'",
    "bash -c \"$(echo cm0gLXJmIC8= | base64 -d)\"",
    "python3 -c 'import os; os.system(\"ls\")'",
];

fn main() {
    let start = seconds();
    let rules = Rules::builtin();
    black_box(judge(&rules, Language::Shell, black_box(COMMANDS[1].as_bytes())));
    let first = (seconds() - start) * 1e6;
    println!("{first:8.1} µs  the first verdict of a process, {} rules   (goal: at most 100)", rules.len());
    for command in COMMANDS {
        let rounds = 2000;
        let start = seconds();
        for _ in 0..rounds {
            black_box(judge(&rules, Language::Shell, black_box(command.as_bytes())));
        }
        let each = (seconds() - start) * 1e6 / f64::from(rounds);
        let verdict = judge(&rules, Language::Shell, command.as_bytes()).verdict;
        println!("{each:8.1} µs  {verdict:6}  {command}");
    }
    let shell = "build() {\n  local dir=\"$1\"\n  if [ -d \"$dir\" ]; then\n    echo \"building $dir\" | tee -a build.log\n    \
                 (cd \"$dir\" && make -j4 CFLAGS=\"-O2 -g\" all install) || exit 1\n  fi\n}\nfor d in a b c; do build \"$d\"; done\n\
                 version=$(git describe --tags)\ncase \"$version\" in\n  v1*) echo one ;;\n  *) echo other > out.txt ;;\nesac\n";
    let python = "import os, subprocess\n\ndef run(name, count=3):\n    path = os.path.join('build', name)\n    for i in range(count):\n        \
                  with open(path, 'w') as f:\n            f.write(f'{name} {i}\\n')\n    subprocess.run(['git', 'add', path], check=True)\n    \
                  return {'name': name, 'items': [x * 2 for x in range(10)]}\n\n";
    let js = "const fs = require('fs');\nfunction run(name, count = 3) {\n  const path = `build/${name}`;\n  for (let i = 0; i < count; i++) {\n    \
              fs.writeFileSync(path, `${name} ${i}\\n`);\n  }\n  return items.map(x => x * 2).filter(Boolean);\n}\nrun('a');\n";
    for (name, language, part) in [
        ("shell", Language::Shell, shell),
        ("python", Language::Python, python),
        ("js", Language::JavaScript, js),
    ] {
        let script = part.repeat(100_000 / part.len() + 1);
        let mut best = f64::MAX;
        let mut sum = 0.0;
        for _ in 0..20 {
            let start = seconds();
            black_box(judge(&rules, language, black_box(script.as_bytes())));
            let time = (seconds() - start) * 1e3;
            best = best.min(time);
            sum += time;
        }
        let found = judge(&rules, language, script.as_bytes());
        let rule = found.rule.unwrap_or_default();
        println!(
            "{best:8.2} ms best, {:.2} ms mean  {} {rule}  {name} script of {} bytes   (goal: at most 10)",
            sum / 20.0,
            found.verdict,
            script.len()
        );
    }
}
