//! Decisions of a session, with sockets in the place of its cage, its launcher and its clients.

use super::*;

mod questions;

use keyward_policy::event::Gate;
use keyward_policy::gate::Because;
use keyward_policy::net::asking::Awaited;
use keyward_policy::words::{GateMode, Verdict};
use keyward_protocol::link::{self, Link};
use keyward_protocol::session::Ask;
use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::rc::Rc;

/// A session, and the other ends of its sockets.
struct Stage {
    server: Server<Gatekeeper, Recorder, NoCages>,
    /// The spawner in the cage.
    spawner: OwnedFd,
    link: OwnedFd,
    /// What was recorded, by kind.
    recorded: Rc<RefCell<Vec<&'static str>>>,
    /// Whether the record takes anything.
    has_room: Rc<Cell<bool>>,
    /// How often the gate was asked.
    judged: Rc<Cell<usize>>,
    /// Whether the gate asks approvers, and the processes that ask, each by its end of the socket.
    asks: Rc<Cell<bool>>,
    askers: Rc<RefCell<Vec<OwnedFd>>>,
}

/// Lets everything pass that has room, or has approvers asked, and counts.
struct Gatekeeper {
    asked: Rc<Cell<usize>>,
    asks: Rc<Cell<bool>>,
    askers: Rc<RefCell<Vec<OwnedFd>>>,
}

impl Judge for Gatekeeper {
    fn judge(&self, request: &Request<'_>) -> Passage {
        self.asked.set(self.asked.get() + 1);
        match (self.asks.get(), request.has_room) {
            (false, _) => Passage::Go(went_on(), Kept::default()),
            (true, false) => {
                Passage::Refuse { fact: "crowded".into(), remedy: "wait".into(), rule: None, retry: true }
            }
            (true, true) => {
                let (ours, theirs) = non_blocking();
                self.askers.borrow_mut().push(theirs);
                Passage::Wait(ours)
            }
        }
    }

    fn judge_awaited(&self, _: &Awaited, _: bool, has_room: bool) -> Passage {
        self.asked.set(self.asked.get() + 1);
        if !has_room {
            return Passage::Refuse {
                fact: "crowded".into(),
                remedy: String::new(),
                rule: None,
                retry: true,
            };
        }
        let (ours, theirs) = non_blocking();
        self.askers.borrow_mut().push(theirs);
        Passage::Wait(ours)
    }
}

#[derive(Default)]
struct Recorder {
    recorded: Rc<RefCell<Vec<&'static str>>>,
    has_room: Rc<Cell<bool>>,
    /// The spawner's end, to look whether something is there when an event is recorded, and what was seen.
    spawner: Option<OwnedFd>,
    sent: Option<usize>,
}

impl Record for Recorder {
    fn write(&mut self, what: What) -> bool {
        self.recorded.borrow_mut().push(kind(&what));
        if let Some(spawner) = &self.spawner {
            let mut polled = [PollFd::new(spawner, PollFlags::IN)];
            self.sent = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).ok();
        }
        self.has_room.get()
    }

    fn now(&self) -> String {
        "now".into()
    }
}

struct NoCages;

impl MakeCages for NoCages {
    fn make(&mut self) -> Result<Launcher, Errno> {
        Err(Errno::NOSYS)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.server.session.launcher.signal(signal::KILL);
        let _ = self.server.session.launcher.wait();
    }
}

fn went_on() -> Gate {
    Gate {
        mode: GateMode::Ask,
        verdict: Verdict::Allow,
        rule: None,
        class: None,
        digest: None,
        because: Because::Harmless,
    }
}

fn kind(what: &What) -> &'static str {
    match what {
        What::Job(_) => "job",
        What::JobEnd(_) => "job-end",
        What::Call { .. } => "call",
        _ => "other",
    }
}

fn non_blocking() -> (OwnedFd, OwnedFd) {
    let (ours, theirs) = channel::pair().unwrap();
    for end in [&ours, &theirs] {
        rustix::fs::fcntl_setfl(end, OFlags::NONBLOCK).unwrap();
    }
    (ours, theirs)
}

impl Stage {
    fn new() -> Self {
        let (spawner_ours, spawner) = non_blocking();
        let (link_ours, link) = non_blocking();
        let (listener, cage_door) = channel::pair().unwrap();
        let recorded: Rc<RefCell<Vec<&'static str>>> = Rc::default();
        let (has_room, judged) = (Rc::new(Cell::new(true)), Rc::new(Cell::new(0)));
        let (asks, askers) = (Rc::new(Cell::new(false)), Rc::default());
        let session = Session {
            agent: None,
            name: "work".into(),
            profile: None,
            policy: "digest".into(),
            shell: false,
            directory: Directory::new("/nonexistent".into(), None, channel::pair().unwrap().0),
            project: "/project".into(),
            project_mode: rustix::fs::Mode::empty(),
            cwd: "/project/sub".into(),
            listener,
            spawner: spawner_ours,
            cage_door,
            launcher: cages::tests::stand_in(),
            link: link_ours,
            words: Words::new().unwrap(),
            syncs: Syncs::default(),
            wall: None,
            limits_cpu: true,
            owned_within: None,
            ends_with: None,
            cages: NoCages,
            gate: Gatekeeper { asked: judged.clone(), asks: asks.clone(), askers: Rc::clone(&askers) },
            record: Recorder {
                recorded: recorded.clone(),
                has_room: has_room.clone(),
                ..Recorder::default()
            },
        };
        let server = Server {
            session,
            unowned_until: None,
            clients: Clients::default(),
            jobs: Jobs::default(),
            cages: Cages::default(),
            calls: Calls::default(),
            questions: Questions::default(),
            waiting: VecDeque::new(),
            inbox: Inbox::new(&Set::of(&[])).unwrap(),
            news: String::new(),
            budget: Budget::new(Instant::now()),
            room: Vec::new(),
            grants: BTreeMap::new(),
            last_grant: 0,
            link_open: true,
            stopping: None,
            owner: None,
        };
        Stage { server, spawner, link, recorded, has_room, judged, asks, askers }
    }

    fn ask(&mut self, client: u64, ask: Ask) {
        let streams = match &ask {
            Ask::Exec { background: false, .. } => (0..3).map(|_| channel::pair().unwrap().0).collect(),
            _ => Vec::new(),
        };
        self.server.answer(client, ask, streams);
    }

    /// What the spawner is asked to do next.
    fn errand(&self) -> Option<Errand> {
        let mut packet = vec![0; LONGEST];
        let message = channel::receive(&self.spawner, &mut packet).ok()?;
        packet::read(&packet[..message.length])
    }

    fn run(&mut self, client: u64) -> u32 {
        self.ask(client, command("true"));
        let Some(Errand::Start { job, .. }) = self.errand() else { panic!("nothing was started") };
        job
    }
}

fn command(program: &str) -> Ask {
    Ask::Exec {
        argv: vec![OsStr::new(program).into()],
        cwd: None,
        from: None,
        background: false,
        terminal: None,
        timeout_ms: None,
        fresh: false,
        answers: false,
        line: None,
        tools: Vec::new(),
        quiet: false,
    }
}

/// The next answer that a client has got, if any.
fn told(client: &OwnedFd) -> Option<Answer> {
    rustix::fs::fcntl_setfl(client, OFlags::NONBLOCK).unwrap();
    let mut packet = vec![0; LONGEST];
    let message = channel::receive(client, &mut packet).ok()?;
    packet::read(&packet[..message.length])
}

fn is_refused(answer: Option<Answer>, words: &str) -> bool {
    matches!(answer, Some(Answer::Refused { trouble, .. }) if trouble.fact.contains(words))
}

#[test]
fn a_command_is_recorded_before_the_spawner_hears_of_it() {
    let mut stage = Stage::new();
    let (client, _theirs) = stage.server.clients.connect(Side::Outside);
    stage.server.session.record.spawner = Some(stage.spawner.try_clone().unwrap());
    stage.run(client);
    assert_eq!(stage.server.session.record.sent, Some(0), "nothing had been sent when it was recorded");
}

#[test]
fn a_command_that_cannot_be_recorded_does_not_run() {
    let mut stage = Stage::new();
    let (client, theirs) = stage.server.clients.connect(Side::Outside);
    stage.has_room.set(false);
    stage.ask(client, command("true"));
    assert!(is_refused(told(&theirs), "cannot record this command"));
    assert_eq!(stage.errand(), None);
    assert_eq!(stage.server.jobs.all().count(), 0);
}

#[test]
fn where_repositories_are_brought_together_a_command_waits_for_that() {
    let mut stage = Stage::new();
    stage.server.session.syncs = Syncs::of_repositories();
    let (client, _theirs) = stage.server.clients.connect(Side::Outside);
    stage.ask(client, command("true"));
    assert_eq!(stage.errand(), None);
    let mut asked = [0; link::ROOM];
    let length = channel::receive(&stage.link, &mut asked).unwrap().length;
    assert_eq!(packet::read(&asked[..length]), Some(Link::Sync {}));
    channel::send(&stage.link, &packet::write(&Link::Synced {}), &[]).unwrap();
    stage.server.hear_link();
    assert!(matches!(stage.errand(), Some(Errand::Start { .. })));
}

#[test]
fn without_repositories_the_launcher_is_asked_only_when_there_is_something_to_look_at() {
    let mut stage = Stage::new();
    let ((news, appears), (sign, works), (sees_all, _)) = (non_blocking(), non_blocking(), non_blocking());
    stage.server.session.syncs = Syncs::watched(news, sign, sees_all);
    let (client, theirs) = stage.server.clients.connect(Side::Outside);
    let end = |stage: &mut Stage, job: u32| {
        stage.ask(client, command("true"));
        assert!(matches!(stage.errand(), Some(Errand::Start { .. })), "it starts at once");
        stage.server.take_news(News::Ended { job, exit: 0, signal: None, alone: true }, Vec::new());
        let asked = channel::receive(&stage.link, &mut [0; link::ROOM]).is_ok();
        (asked, matches!(told(&theirs), Some(Answer::Ended { .. })))
    };
    assert_eq!(end(&mut stage, 1), (false, true));
    // The launcher works on something that it has read already.
    channel::send(&works, b"1", &[]).unwrap();
    assert_eq!(end(&mut stage, 2), (true, false));
    channel::receive(stage.server.session.syncs.sign().unwrap(), &mut [0; 8]).unwrap();
    // Another command ends while it has not answered.
    assert_eq!(end(&mut stage, 3), (true, false));
    for _ in 0..2 {
        channel::send(&stage.link, &packet::write(&Link::Synced {}), &[]).unwrap();
        stage.server.hear_link();
        assert!(matches!(told(&theirs), Some(Answer::Ended { .. })));
    }
    assert_eq!(end(&mut stage, 4), (false, true));
    // Something has appeared.
    channel::send(&appears, b"1", &[]).unwrap();
    assert_eq!(end(&mut stage, 5), (true, false));
}

/// A session whose launcher watches the project, and a cage that was made ahead in it.
struct Ahead {
    stage: Stage,
    client: u64,
    theirs: OwnedFd,
    /// What is told of the project, that it is looked at, and that all is told: of the session's own cage and of the one that was made ahead.
    own: [OwnedFd; 3],
    beside: [OwnedFd; 3],
    launcher: OwnedFd,
    spawner: OwnedFd,
}

impl Ahead {
    fn new(settles: bool) -> Self {
        let mut stage = Stage::new();
        let (watched, own): (Vec<OwnedFd>, Vec<OwnedFd>) = (0..3).map(|_| non_blocking()).unzip();
        let [news, sign, sees_all] = watched.try_into().unwrap();
        stage.server.session.syncs = Syncs::watched(news, sign, sees_all);
        let (watched, beside): (Vec<OwnedFd>, Vec<OwnedFd>) = (0..3).map(|_| non_blocking()).unzip();
        let ready = Link::Ready { repositories: false, guarded: true, watched: true, settles };
        let (cage, launcher, spawner) = cages::tests::made_ahead(&ready, &watched.try_into().unwrap());
        for end in [&launcher, &spawner] {
            rustix::fs::fcntl_setfl(end, OFlags::NONBLOCK).unwrap();
        }
        stage.server.cages.warm = Some(cage);
        let (client, theirs) = stage.server.clients.connect(Side::Outside);
        let (own, beside) = (own.try_into().unwrap(), beside.try_into().unwrap());
        Ahead { stage, client, theirs, own, beside, launcher, spawner }
    }

    /// Lets a descriptor be readable for the session.
    fn tell(descriptor: &OwnedFd) {
        channel::send(descriptor, b"1", &[]).unwrap();
    }

    fn start(&mut self) {
        let mut ask = command("true");
        if let Ask::Exec { fresh, .. } = &mut ask {
            *fresh = true;
        }
        self.stage.ask(self.client, ask);
    }

    fn has_started(&self) -> bool {
        channel::receive(&self.spawner, &mut vec![0; LONGEST]).is_ok()
    }

    /// Whether the end of the command is told without the end of its launcher.
    fn ends_at_once(mut self, exit: i32, alone: bool) -> bool {
        self.start();
        assert!(self.has_started());
        self.stage.server.take_news(News::Ended { job: 1, exit, signal: None, alone }, Vec::new());
        let at_once = matches!(told(&self.theirs), Some(Answer::Ended { .. }));
        let [Ending { told, .. }] = &self.stage.server.cages.ending[..] else { panic!("its cage is kept") };
        assert_eq!(told.is_none(), at_once);
        self.stage.server.cages.ending[0].launcher.signal(signal::KILL);
        at_once
    }
}

#[test]
fn the_end_of_a_command_in_a_fresh_cage_waits_only_if_it_may_have_left_something() {
    let watched = || {
        let ahead = Ahead::new(false);
        Ahead::tell(&ahead.own[2]);
        ahead
    };
    assert!(watched().ends_at_once(0, true));
    assert!(!watched().ends_at_once(0, false), "processes of it are left");
    assert!(!watched().ends_at_once(1, true), "its launcher may say why it failed");
    assert!(!Ahead::new(false).ends_at_once(0, true), "not all of the project is watched yet");
    for place in [0, 1] {
        let ahead = watched();
        Ahead::tell(&ahead.own[place]);
        assert!(!ahead.ends_at_once(0, true), "something has appeared in the project");
    }
    let settles = Ahead::new(true);
    Ahead::tell(&settles.own[2]);
    assert!(!settles.ends_at_once(0, true), "logins are brought home");
    let mut left = watched();
    left.start();
    assert!(left.has_started());
    Ahead::tell(&left.beside[0]);
    left.stage.server.take_news(News::Ended { job: 1, exit: 0, signal: None, alone: true }, Vec::new());
    assert_eq!(told(&left.theirs), None, "something was left in the cage");
    left.stage.server.cages.ending[0].launcher.signal(signal::KILL);
}

#[test]
fn a_command_in_a_cage_that_was_made_ahead_waits_only_for_what_appeared_meanwhile() {
    let mut ahead = Ahead::new(false);
    ahead.start();
    assert!(ahead.has_started());
    assert!(channel::receive(&ahead.launcher, &mut [0; link::ROOM]).is_err(), "its launcher is not asked");

    let mut behind = Ahead::new(false);
    Ahead::tell(&behind.beside[0]);
    behind.start();
    assert!(!behind.has_started());
    let mut asked = [0; link::ROOM];
    let length = channel::receive(&behind.launcher, &mut asked).unwrap().length;
    assert_eq!(packet::read(&asked[..length]), Some(Link::Sync {}));
    channel::send(&behind.launcher, &packet::write(&Link::Synced {}), &[]).unwrap();
    behind.stage.server.hear_beside(1);
    assert!(behind.has_started());
    for ahead in [ahead, behind] {
        let Some(Job { place: Place::Beside { cage, .. }, .. }) = ahead.stage.server.jobs.get(1) else {
            panic!("it has no cage of its own")
        };
        cage.kill();
    }
}

#[test]
fn a_command_that_was_killed_while_it_waited_does_not_start() {
    let mut stage = Stage::new();
    stage.server.session.syncs = Syncs::of_repositories();
    let (client, theirs) = stage.server.clients.connect(Side::Outside);
    stage.ask(client, command("true"));
    stage.ask(client, Ask::Kill { job: 1 });
    assert!(matches!(stage.errand(), Some(Errand::Kill { job: 1 })));
    stage.server.synced();
    assert_eq!(stage.errand(), None);
    assert_eq!(told(&theirs), Some(Answer::Done {}));
    assert!(matches!(told(&theirs), Some(Answer::Ended { job: 1, exit: 137, .. })));
}

#[test]
fn a_client_inside_is_refused_what_is_for_those_outside_and_the_gate_is_not_asked() {
    let mut stage = Stage::new();
    let (client, theirs) = stage.server.clients.connect(Side::Inside);
    for ask in [Ask::Jobs {}, Ask::Stop {}, command("true")] {
        stage.ask(client, ask);
        assert!(is_refused(told(&theirs), "not permitted from inside a cage"));
    }
    assert_eq!((stage.judged.get(), stage.errand(), stage.server.stopping), (0, None, None));
}

#[test]
fn a_client_inside_cannot_signal_or_kill_the_job_of_another() {
    let mut stage = Stage::new();
    let (outside, _theirs) = stage.server.clients.connect(Side::Outside);
    let (inside, theirs) = stage.server.clients.connect(Side::Inside);
    let job = stage.run(outside);
    for ask in [Ask::Signal { job, signal: 9 }, Ask::Kill { job }] {
        stage.ask(inside, ask);
        assert!(is_refused(told(&theirs), "not permitted from inside a cage"));
        assert_eq!(stage.errand(), None);
    }
    stage.server.jobs.get_mut(job).unwrap().client = Some(inside);
    stage.ask(inside, Ask::Kill { job });
    assert!(matches!(stage.errand(), Some(Errand::Kill { .. })), "its own it can");
}

#[test]
fn requests_from_inside_are_refused_and_counted_when_the_record_has_no_room_for_so_many() {
    let mut stage = Stage::new();
    let (client, theirs) = stage.server.clients.connect(Side::Inside);
    let now = Instant::now();
    while stage.server.budget.allows_request(1 << 20, now) {}
    while stage.server.budget.allows_request(0, now) {}
    stage.ask(client, Ask::Call { name: "add".into(), input: keyward_protocol::session::Value::Null });
    assert!(is_refused(told(&theirs), "denied for now"));
    assert_eq!(stage.server.budget.take_refused(None).unwrap().counts.get("calls"), Some(&1));
}

#[test]
fn a_call_from_inside_is_judged_and_one_from_outside_is_not() {
    let mut stage = Stage::new();
    let (provider, offers) = stage.server.clients.connect(Side::Outside);
    let (outside, _one) = stage.server.clients.connect(Side::Outside);
    let (inside, _other) = stage.server.clients.connect(Side::Inside);
    stage.ask(provider, Ask::Offer { names: vec!["add".into()], judged: Default::default(), named: false });
    assert_eq!(told(&offers), Some(Answer::Done {}));
    for (client, times, from_inside_wanted) in [(outside, 0, false), (inside, 1, true)] {
        stage.ask(client, Ask::Call { name: "add".into(), input: keyward_protocol::session::Value::Null });
        assert_eq!(stage.judged.get(), times);
        let called = told(&offers);
        assert!(
            matches!(called, Some(Answer::Called { from_inside, .. }) if from_inside == from_inside_wanted),
            "{called:?}"
        );
    }
    assert_eq!(*stage.recorded.borrow(), ["call", "call"]);
}

#[test]
fn with_its_client_a_job_ends() {
    let mut stage = Stage::new();
    let (client, theirs) = stage.server.clients.connect(Side::Outside);
    let job = stage.run(client);
    drop(theirs);
    stage.server.serve_client(client);
    assert!(matches!(stage.errand(), Some(Errand::Kill { job: ended }) if ended == job));
    assert_eq!(stage.server.jobs.get(job).unwrap().client, None);
}

#[test]
fn a_spawner_that_speaks_of_a_job_in_another_cage_ends_the_session() {
    let mut stage = Stage::new();
    let mut job = jobs::tests::job(None);
    job.fresh = true;
    stage.server.jobs.add(7, job);
    channel::send(
        &stage.spawner,
        &packet::write(&News::Ended { job: 7, exit: 0, signal: None, alone: true }),
        &[],
    )
    .unwrap();
    assert!(!stage.server.hear());
    assert_eq!(stage.server.jobs.get(7).unwrap().ended, None);
    channel::send(&stage.spawner, b"nonsense", &[]).unwrap();
    assert!(!stage.server.hear());
}

#[test]
fn the_end_of_a_command_is_told_and_recorded_with_the_limit_that_ended_it() {
    let mut stage = Stage::new();
    let (client, theirs) = stage.server.clients.connect(Side::Outside);
    let job = stage.run(client);
    stage.server.jobs.running(job).unwrap().cut_short = Some(CutShort::Wall);
    stage.server.ended(job, 130, Some(2));
    let Some(Answer::Ended { exit, limit, .. }) = told(&theirs) else { panic!("it was not told") };
    assert_eq!((exit, limit.as_deref()), (124, Some("wall")));
    let second = stage.run(client);
    stage.server.ended(second, 152, Some(Signal::XCPU.as_raw()));
    let Some(Answer::Ended { exit, limit, .. }) = told(&theirs) else { panic!("it was not told") };
    assert_eq!((exit, limit.as_deref()), (152, Some("cpu")));
    assert_eq!(*stage.recorded.borrow(), ["job", "job-end", "job", "job-end"]);
}

#[test]
fn a_job_whose_time_is_over_is_asked_then_told_then_killed() {
    let mut stage = Stage::new();
    let (client, _theirs) = stage.server.clients.connect(Side::Outside);
    let job = stage.run(client);
    let over = Instant::now();
    stage.server.jobs.running(job).unwrap().clock = Clock::Interrupt(over);
    stage.server.clocks();
    assert!(matches!(stage.errand(), Some(Errand::Signal { signal: 2, ending: true, .. })));
    stage.server.clocks();
    assert_eq!(stage.errand(), None, "there is time to end by itself");
    stage.server.jobs.running(job).unwrap().clock = Clock::Terminate(over);
    stage.server.clocks();
    assert!(matches!(stage.errand(), Some(Errand::Signal { signal: 15, ending: true, .. })));
    stage.server.jobs.running(job).unwrap().clock = Clock::Kill(over);
    stage.server.clocks();
    assert!(matches!(stage.errand(), Some(Errand::Kill { .. })));
    assert!(stage.server.jobs.running(job).unwrap().killed);
}

#[test]
fn what_two_launchers_say_of_the_same_thing_is_told_once() {
    let mut stage = Stage::new();
    let (client, theirs) = stage.server.clients.connect(Side::Outside);
    stage.server.keep_news("keyward: a file was taken\nlook at it\n");
    stage.server.keep_news("keyward: a file was taken\nlook at it\nkeyward: another\n");
    stage.server.pass_on_news(Some(client));
    let Some(Answer::Said { text }) = told(&theirs) else { panic!("nothing was told") };
    assert_eq!(text, "keyward: a file was taken\nlook at it\nkeyward: another\n");
    stage.server.pass_on_news(Some(client));
    assert_eq!(told(&theirs), None);
}

#[test]
fn a_directory_begins_where_the_client_is_only_if_that_is_in_the_project() {
    let mut stage = Stage::new();
    let (client, _theirs) = stage.server.clients.connect(Side::Outside);
    for (from, expected) in [
        (Some("/project/deep"), "/project/deep/x"),
        (Some("/etc"), "/project/sub/x"),
        (None, "/project/sub/x"),
    ] {
        let Ask::Exec { argv, .. } = command("true") else { unreachable!() };
        let ask = Ask::Exec {
            argv,
            cwd: Some(OsStr::new("x").into()),
            from: from.map(|from| OsStr::new(from).into()),
            background: false,
            terminal: None,
            timeout_ms: None,
            fresh: false,
            answers: false,
            line: None,
            tools: Vec::new(),
            quiet: false,
        };
        stage.ask(client, ask);
        let Some(Errand::Start { cwd, .. }) = stage.errand() else { panic!("nothing was started") };
        assert_eq!(cwd, Some(OsStr::new(expected).into()), "{from:?}");
    }
}

#[test]
fn the_start_of_a_quiet_command_is_told_to_no_client_and_its_end_or_refusal_is() {
    let mut stage = Stage::new();
    let (client, theirs) = stage.server.clients.connect(Side::Outside);
    let quietly = |named: Option<&str>| {
        let mut ask = command("true");
        if let Ask::Exec { quiet, tools, .. } = &mut ask {
            *quiet = true;
            tools.extend(named.map(str::to_owned));
        }
        ask
    };
    stage.ask(client, quietly(None));
    let Some(Errand::Start { job, quiet, .. }) = stage.errand() else { panic!("nothing was started") };
    assert!(quiet, "the spawner is told");
    stage.server.take_news(News::Ended { job, exit: 3, signal: None, alone: true }, Vec::new());
    assert!(matches!(told(&theirs), Some(Answer::Ended { exit: 3, .. })), "its first answer is the end");

    stage.ask(client, quietly(None));
    let Some(Errand::Start { job, .. }) = stage.errand() else { panic!("nothing was started") };
    stage.server.take_news(News::Failed { job, code: 127, why: "no such file".into() }, Vec::new());
    assert!(is_refused(told(&theirs), "no such file"));
    assert_eq!(told(&theirs), None, "and nothing behind it");

    // The session needs the number of a process that may call functions, and its client does not.
    stage.ask(client, quietly(Some("search")));
    let Some(Errand::Start { job, quiet, .. }) = stage.errand() else { panic!("nothing was started") };
    assert!(!quiet);
    stage.server.take_news(News::Started { job, pid: 11 }, Vec::new());
    assert_eq!(told(&theirs), None);

    // A control: one that is not quiet.
    let job = stage.run(client);
    stage.server.take_news(News::Started { job, pid: 12 }, Vec::new());
    assert_eq!(told(&theirs), Some(Answer::Started { job }));

    let mut hidden = quietly(None);
    if let Ask::Exec { background, .. } = &mut hidden {
        *background = true;
    }
    stage.ask(client, hidden);
    assert!(is_refused(told(&theirs), "is always told"));
    assert_eq!(stage.errand(), None);
}

#[test]
fn a_session_ends_with_its_owner_and_with_no_other_client() {
    let mut stage = Stage::new();
    let (owner, theirs) = stage.server.clients.connect(Side::Outside);
    let (other, others) = stage.server.clients.connect(Side::Outside);
    stage.ask(owner, Ask::Own {});
    assert_eq!(told(&theirs), Some(Answer::Done {}));
    drop(others);
    stage.server.serve_client(other);
    assert_eq!(stage.server.stopping, None);
    drop(theirs);
    stage.server.serve_client(owner);
    assert_eq!(stage.server.stopping, Some(owner));
}

#[test]
fn a_function_that_is_offered_by_name_is_called_only_by_the_command_that_names_it() {
    let mut stage = Stage::new();
    let (host, _hosts) = stage.server.clients.connect(Side::Outside);
    let (inside, insides) = stage.server.clients.connect(Side::Inside);
    let (beside, besides) = stage.server.clients.connect(Side::Inside);
    let (stray, strays) = stage.server.clients.connect(Side::Inside);
    stage.server.clients.let_belong_to(inside, 11);
    stage.server.clients.let_belong_to(beside, 12);
    stage.ask(host, Ask::Offer { names: vec!["search".into()], judged: [].into(), named: true });
    let call = || Ask::Call { name: "search".into(), input: keyward_protocol::session::Value::Null };
    let not_named = "this function was not named for the command that calls it";
    stage.ask(inside, call());
    assert!(is_refused(told(&insides), not_named), "no command runs");
    let other = stage.run(host);
    stage.server.take_news(News::Started { job: other, pid: 12 }, Vec::new());
    let mut naming = command("true");
    if let Ask::Exec { tools, .. } = &mut naming {
        tools.push("search".into());
    }
    stage.ask(host, naming);
    let Some(Errand::Start { job, .. }) = stage.errand() else { panic!("nothing was started") };
    let asked = stage.judged.get();
    // It calls before its start was told; the message is on its way.
    channel::send(&stage.spawner, &packet::write(&News::Started { job, pid: 11 }), &[]).unwrap();
    stage.ask(inside, call());
    assert_eq!(stage.judged.get(), asked + 1, "it has come to the gate");
    for (client, theirs) in [(beside, &besides), (stray, &strays)] {
        stage.ask(client, call());
        assert!(is_refused(told(theirs), not_named), "a command beside it, and what belongs to none");
    }
    stage.server.take_news(News::Ended { job, exit: 0, signal: None, alone: true }, Vec::new());
    let _ = told(&insides);
    stage.ask(inside, call());
    assert!(is_refused(told(&insides), not_named), "its command has ended");
    assert_eq!(stage.judged.get(), asked + 1);
}
