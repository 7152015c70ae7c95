//! `keyward mcp-server`: the tools run, read and why for an agent, by the Model Context Protocol on stdin and stdout.
//!
//! Each call starts the launcher that started this room, with the flags that the server was given, and passes on what it says. Nothing is
//! decided here, no command is started in another way, and there is no tool that approves anything. A thread per call, so that one that
//! takes long keeps no other waiting and can be cancelled. The launcher of a call dies with its thread, and so with the server.

mod call;
mod messages;
mod output;
mod tools;

use crate::tell::Teller;
use call::{Answered, Caller, Running};
use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::services::Call;
use messages::{Failure, Id, Incoming, Line, Lines, Request};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The versions of the protocol that we speak, the newest first.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Calls at one time.
const MOST_CALLS: usize = 32;
/// How long calls that were cancelled may take to end, once the client is gone.
const LAST: Duration = Duration::from_secs(5);

/// Serves until the input ends. Gives the exit code.
pub fn serve(call: &Call) -> i32 {
    // What the client may do is fixed here: a directory that is changed or gone later is not looked up again.
    let Ok(folder) = std::env::current_dir() else {
        return Teller::WORDS.failure(&Trouble::new(
            Code::Usage,
            "the current directory is gone or cannot be read",
            "start the server in the directory of a project",
        ));
    };
    let server = Arc::new(Server::new(call.launcher.clone(), folder, call.words.clone()));
    for line in Lines::new(std::io::stdin().lock()) {
        let incoming = match line {
            Line::Whole(text) => messages::read(&text),
            Line::TooLong => vec![Incoming::Wrong(None, Failure::TooLong)],
        };
        // An array is answered by an array, once all of its requests are.
        match <[Incoming; 1]>::try_from(incoming) {
            Ok([one]) => server.clone().take(one),
            Err(several) => server.clone().take_several(several),
        }
    }
    server.end()
}

/// What all threads share.
struct Server {
    caller: Caller,
    state: Mutex<State>,
    /// Told when a call has ended.
    ended: Condvar,
    out: Mutex<std::io::Stdout>,
}

#[derive(Default)]
struct State {
    is_initialized: bool,
    calls: HashMap<Id, Arc<Running>>,
}

impl Server {
    fn new(launcher: PathBuf, folder: PathBuf, flags: Vec<std::ffi::OsString>) -> Self {
        let caller = Caller { launcher, folder, flags };
        let out = Mutex::new(std::io::stdout());
        Server { caller, state: Mutex::default(), ended: Condvar::new(), out }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(self: Arc<Self>, incoming: Incoming) {
        match incoming {
            Incoming::Request(request) if request.method == "tools/call" => {
                self.in_a_thread(vec![request], false)
            }
            other => {
                if let Some(answer) = self.answer(other) {
                    self.write(&answer);
                }
            }
        }
    }

    fn take_several(self: Arc<Self>, all: Vec<Incoming>) {
        let (mut requests, mut answers) = (Vec::new(), Vec::new());
        for one in all {
            match one {
                Incoming::Request(request) => requests.push(request),
                other => answers.extend(self.answer(other)),
            }
        }
        match requests.is_empty() {
            true if answers.is_empty() => {}
            true => self.write(&Value::Array(answers)),
            false => self.in_a_thread(requests, true),
        }
    }

    /// Answers requests, one after the other, away from the reader.
    fn in_a_thread(self: Arc<Self>, requests: Vec<Request>, as_array: bool) {
        // Registered before the reader goes on, so that a cancellation that follows finds them.
        let registered: Vec<_> =
            requests.into_iter().map(|request| (self.register(&request), request)).collect();
        let ids: Vec<Id> = registered
            .iter()
            .filter(|(call, _)| call.is_ok())
            .map(|(_, request)| request.id.clone())
            .collect();
        let server = self.clone();
        let work = move || {
            let mut answers = Vec::new();
            for (call, request) in registered {
                let answer = match call {
                    Ok(running) => server.answer_request(&request, Some(&running)),
                    Err(failure) => Some(failure.answer(Some(&request.id))),
                };
                server.state().calls.remove(&request.id);
                answers.extend(answer);
            }
            match as_array {
                false => answers.iter().for_each(|answer| server.write(answer)),
                true if answers.is_empty() => {}
                true => server.write(&Value::Array(answers)),
            }
            server.ended.notify_all();
        };
        if std::thread::Builder::new().spawn(work).is_err() {
            for id in ids {
                self.state().calls.remove(&id);
                self.write(&Failure::TooMany.answer(Some(&id)));
            }
        }
    }

    fn register(&self, request: &Request) -> Result<Arc<Running>, Failure> {
        let mut state = self.state();
        if state.calls.contains_key(&request.id) {
            return Err(Failure::SameId);
        }
        if state.calls.len() >= MOST_CALLS {
            return Err(Failure::TooMany);
        }
        let running = Arc::new(Running::default());
        state.calls.insert(request.id.clone(), running.clone());
        Ok(running)
    }

    /// The answer to what takes no time; `None` where none is due.
    fn answer(&self, incoming: Incoming) -> Option<Value> {
        match incoming {
            Incoming::Request(request) => self.answer_request(&request, None),
            Incoming::Wrong(id, failure) => Some(failure.answer(id.as_ref())),
            Incoming::Notification { method, params } => {
                if method == "notifications/cancelled"
                    && let Some(running) =
                        Id::of(params.get("requestId")).and_then(|id| self.state().calls.get(&id).cloned())
                {
                    running.cancel();
                }
                None
            }
            Incoming::Response => None,
        }
    }

    fn answer_request(&self, request: &Request, running: Option<&Running>) -> Option<Value> {
        let Request { id, method, params } = request;
        let is_initialized = self.state().is_initialized;
        let result = match method.as_str() {
            "initialize" => Ok(self.initialize(params)),
            "ping" => Ok(json!({})),
            // Also before the greeting: a client tries what later versions have, and goes on with ours.
            other if !other.starts_with("tools/") => Err(Failure::UnknownMethod),
            _ if !is_initialized => Err(Failure::NotInitialized),
            "tools/list" => Ok(json!({ "tools": tools::list() })),
            "tools/call" => {
                let alone = Running::default();
                match tools::call(&self.caller, params, running.unwrap_or(&alone)) {
                    // One that was cancelled is not answered.
                    Ok(Answered::Cancelled) => return None,
                    Ok(Answered::Result(result)) => Ok(result),
                    Err(failure) => Err(failure),
                }
            }
            _ => Err(Failure::UnknownMethod),
        };
        Some(match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(failure) => failure.answer(Some(id)),
        })
    }

    /// Agrees on a version: the client's if we speak it, else our newest, which the client may refuse.
    fn initialize(&self, params: &Value) -> Value {
        let wanted = params.get("protocolVersion").and_then(Value::as_str);
        let version = VERSIONS.into_iter().find(|ours| Some(*ours) == wanted).unwrap_or(VERSIONS[0]);
        self.state().is_initialized = true;
        json!({
            "protocolVersion": version,
            "capabilities": { "tools": { "listChanged": false } },
            "serverInfo": { "name": "keyward", "title": "Keyward", "version": env!("CARGO_PKG_VERSION") },
            "instructions": tools::INSTRUCTIONS,
        })
    }

    /// Writes one line. A client that does not read any more has gone.
    fn write(&self, answer: &Value) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let written = writeln!(out, "{answer}").and_then(|()| out.flush());
        if let Err(error) = written
            && error.kind() == ErrorKind::BrokenPipe
        {
            // The launchers of all calls end with us.
            std::process::exit(0);
        }
    }

    /// The client is gone: no call is needed any more.
    fn end(&self) -> i32 {
        let mut state = self.state();
        for running in state.calls.values() {
            running.cancel();
        }
        while !state.calls.is_empty() {
            let waited = self.ended.wait_timeout(state, LAST).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if waited.1.timed_out() {
                break;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        Server::new("/nowhere/keyward".into(), "/".into(), Vec::new())
    }

    fn ask(server: &Server, method: &str, params: Value) -> Value {
        let request = Request { id: Id::of(Some(&json!(1))).unwrap(), method: method.into(), params };
        server.answer_request(&request, None).unwrap()
    }

    #[test]
    fn the_version_of_the_client_is_used_if_we_speak_it_and_else_our_newest() {
        for (wanted, given) in
            [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("1999-01-01", VERSIONS[0])]
        {
            let answer = ask(&server(), "initialize", json!({ "protocolVersion": wanted }));
            assert_eq!(answer["result"]["protocolVersion"], given);
        }
    }

    #[test]
    fn before_the_greeting_only_a_ping_is_answered() {
        let server = server();
        assert_eq!(ask(&server, "ping", Value::Null)["result"], json!({}));
        assert_eq!(ask(&server, "tools/list", Value::Null)["error"]["code"], -32600);
        ask(&server, "initialize", json!({}));
        assert_eq!(ask(&server, "tools/list", Value::Null)["result"]["tools"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn there_is_no_tool_that_approves() {
        let names: Vec<String> =
            tools::list().as_array().unwrap().iter().map(|tool| tool["name"].to_string()).collect();
        assert_eq!(names, ["\"run\"", "\"read\"", "\"why\""]);
    }

    #[test]
    fn a_launcher_that_cannot_be_started_is_an_error_and_the_command_does_not_run() {
        let server = server();
        ask(&server, "initialize", json!({}));
        let params =
            json!({ "name": "run", "arguments": { "argv": ["touch", "/tmp/keyward-mcp-fell-back"] } });
        let result = ask(&server, "tools/call", params)["result"].clone();
        assert_eq!(result["isError"], true);
        assert_eq!(result["structuredContent"]["outcome"], "fault");
        assert!(!std::path::Path::new("/tmp/keyward-mcp-fell-back").exists());
    }

    #[test]
    fn an_id_is_used_once_at_a_time_and_calls_are_bounded() {
        let server = server();
        let request = |id: usize| Request {
            id: Id::of(Some(&json!(id))).unwrap(),
            method: "tools/call".into(),
            params: Value::Null,
        };
        assert!(server.register(&request(0)).is_ok());
        assert!(matches!(server.register(&request(0)), Err(Failure::SameId)));
        for id in 1..MOST_CALLS {
            assert!(server.register(&request(id)).is_ok());
        }
        assert!(matches!(server.register(&request(MOST_CALLS)), Err(Failure::TooMany)));
    }
}
