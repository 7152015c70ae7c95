use keyward::{Command, ErrorKind, Session, Stdio};
use std::io::Write;
use std::time::Duration;

pub fn example() -> Result<(), Box<dyn std::error::Error>> {
    // One command in a cage of its own, in the shape of std::process::Command.
    let output = Command::new("sh").args(["-c", "echo hello"]).timeout(Duration::from_secs(60)).output()?;
    assert_eq!((output.status.success(), output.stdout), (true, b"hello\n".to_vec()));

    let mut sort = Command::new("sort").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    sort.stdin.as_mut().ok_or("no pipe")?.write_all(b"b\na\n")?;
    assert_eq!(sort.wait_with_output()?.stdout, b"a\nb\n");

    // A denial is an error, with the rule and what a person can do.
    let denied = Command::new("git").args(["push", "--force"]).net("open").gate("deny").status().unwrap_err();
    assert_eq!((denied.kind(), denied.rule()), (ErrorKind::Denied, Some("git-push-force")));

    // A cage that stays, for many commands.
    let session = Session::options().gate("ask").on_approval(|question| question.argv[0] == "git").open()?;
    session.shell("mkdir -p src; cd src")?;
    assert!(session.shell("pwd")?.stdout.ends_with(b"/src\n"));
    let server = session.command("sh").args(["-c", "echo ready; sleep 1000"]).background()?;
    while server.output()? != b"ready\n" {
        std::thread::sleep(Duration::from_millis(10));
    }

    // A function of this program, for the commands that name it.
    session.tool("double", None, |input| {
        input.as_i64().map(|number| (number * 2).into()).ok_or_else(|| "not a number".into())
    })?;
    session.command("true").tool("double").status()?;
    Ok(()) // The session ends here, with everything in it.
}
