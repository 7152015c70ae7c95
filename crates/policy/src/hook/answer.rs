//! What an agent is answered: a decision, in the JSON and the exit code that make the agent stop.

use super::call::Agent;
use crate::text::visible;
use crate::trouble::Trouble;
use serde_json::{Map, Value, json};

/// What a hook decides about a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The agent goes on as it would without the hook.
    Pass,
    /// The agent goes on, and its model is told this at the start of the session.
    Tell(&'static str),
    Deny(Denied),
    /// The agent asks its user, in whatever mode it is.
    AskUser(Denied),
    /// The tool is given this instead.
    Replace(Map<String, Value>),
    /// The same, once the agent's user has said yes.
    ReplaceIfAllowed(Map<String, Value>, Denied),
}

/// Why a call is denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    pub rule: Option<String>,
    pub fact: String,
    /// What the user can do.
    pub remedy: String,
    /// What the agent may do instead.
    pub allowed: &'static str,
}

impl Denied {
    /// What an agent reads: one line of JSON between two sentences, so that neither a model nor a program has to guess.
    pub fn for_agent(&self) -> String {
        let Denied { rule, fact, remedy, allowed } = self;
        let told = json!({
            "keyward": "denied", "rule": rule, "reason": fact, "remedy_for_the_user": remedy, "allowed": allowed, "retry": false
        });
        format!("Keyward: {fact}\n{told}\n{STOP}")
    }

    /// The one line for the user.
    pub fn for_user(&self) -> String {
        one_line(&format!("keyward: {}; {}", self.fact, self.remedy))
    }
}

const STOP: &str = "Do not retry this call, and do not look for another way to do the same. Tell the user what was denied, and go on with what is allowed.";

/// What is printed where a session refuses the command of an agent that has started it already.
pub fn refused_command(trouble: &Trouble, rule: Option<String>) -> String {
    let denied = Denied {
        rule,
        fact: trouble.fact.clone(),
        remedy: trouble.remedy.clone(),
        allowed: "other commands in the project",
    };
    denied.for_agent()
}

/// What the model of an agent is told about its shell, so that it does not take a wall for a mistake.
pub const ABOUT_SESSION: &str = "Shell commands run in a session of Keyward, a cage: no credentials, files with secrets are hidden or empty, HOME and /tmp are the cage's own, and the network is what the user's policy allows. Files of the project are the real ones. Where Keyward denies something, do not retry and do not look for another way: tell the user.";

/// What goes to the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    pub stdout: Option<String>,
    pub stderr: Option<String>,
    pub exit: i32,
}

/// The exit code by which all these agents deny a call. Others let it pass.
pub const BLOCKS: i32 = 2;

/// A decision in the words of an agent.
pub fn render(agent: Agent, decision: &Decision) -> Rendered {
    let json = |value: Value| Rendered { stdout: Some(value.to_string()), stderr: None, exit: 0 };
    match (agent, decision) {
        // Their hooks are plugins of Keyward's, which take nothing but an answer for one.
        (Agent::Hermes | Agent::OpenCode, Decision::Pass | Decision::Tell(_)) => {
            json(json!({ "decision": "pass" }))
        }
        (Agent::Hermes | Agent::OpenCode, Decision::Replace(input)) => {
            json(json!({ "decision": "replace", "args": input }))
        }
        (Agent::Hermes, Decision::ReplaceIfAllowed(input, denied)) => {
            json(json!({ "decision": "replace", "args": input, "ask": denied.for_user() }))
        }
        (Agent::Hermes, Decision::AskUser(denied)) => {
            json(json!({ "decision": "ask", "ask": denied.for_user() }))
        }
        // An agent that cannot ask its user denies.
        (other, Decision::ReplaceIfAllowed(_, denied)) => render(other, &Decision::Deny(denied.clone())),
        (Agent::Hermes | Agent::OpenCode, Decision::Deny(denied))
        | (Agent::OpenCode, Decision::AskUser(denied)) => {
            json(json!({ "decision": "deny", "reason": denied.for_agent() }))
        }
        (_, Decision::Pass) => Rendered { stdout: None, stderr: None, exit: 0 },
        (_, Decision::Tell(text)) => json(json!({
            "hookSpecificOutput": { "hookEventName": "SessionStart", "additionalContext": text }
        })),
        (Agent::ClaudeCode, Decision::Deny(denied)) => json(before_tool("deny", denied)),
        (Agent::ClaudeCode, Decision::AskUser(denied)) => json(before_tool("ask", denied)),
        (Agent::ClaudeCode | Agent::Codex, Decision::Replace(input)) => json(json!({
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": input
            }
        })),
        // Codex has no question of its own for a hook: what its user should decide is denied.
        (Agent::Codex, Decision::Deny(denied) | Decision::AskUser(denied)) => {
            json(before_tool("deny", denied))
        }
        (Agent::Gemini, Decision::Deny(denied) | Decision::AskUser(denied)) => json(json!({
            "decision": "deny", "reason": denied.for_agent(), "systemMessage": denied.for_user()
        })),
        (Agent::Gemini, Decision::Replace(input)) => json(json!({
            "hookSpecificOutput": { "hookEventName": "BeforeTool", "tool_input": input }
        })),
    }
}

fn before_tool(decision: &str, denied: &Denied) -> Value {
    json!({
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": denied.for_agent()
        },
        "systemMessage": denied.for_user()
    })
}

fn one_line(text: &str) -> String {
    visible(text.as_ref()).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied() -> Denied {
        Denied {
            rule: Some(".env".into()),
            fact: "/p/.env is not read: it holds \"x\"".into(),
            remedy: "open it yourself".into(),
            allowed: "other files",
        }
    }

    #[test]
    fn a_denial_names_rule_reason_and_what_is_allowed_and_says_not_to_retry() {
        let rendered = render(Agent::ClaudeCode, &Decision::Deny(denied()));
        let value: Value = serde_json::from_str(&rendered.stdout.unwrap()).unwrap();
        let reason = value["hookSpecificOutput"]["permissionDecisionReason"].as_str().unwrap();
        let lines: Vec<&str> = reason.lines().collect();
        let told: Value = serde_json::from_str(lines[1]).unwrap();
        assert_eq!(told["rule"], ".env");
        assert_eq!(told["retry"], false);
        assert_eq!(told["allowed"], "other files");
        assert_eq!(lines[0], "Keyward: /p/.env is not read: it holds \"x\"");
        assert!(lines[2].starts_with("Do not retry"));
        let line = value["systemMessage"].as_str().unwrap();
        assert_eq!(line, "keyward: /p/.env is not read: it holds \"x\"; open it yourself");
    }

    #[test]
    fn a_pass_says_nothing_so_that_the_agents_own_permissions_decide() {
        for agent in [Agent::ClaudeCode, Agent::Codex, Agent::Gemini] {
            assert_eq!(render(agent, &Decision::Pass), Rendered { stdout: None, stderr: None, exit: 0 });
        }
        // The plugin throws where there is no answer.
        let pass = render(Agent::OpenCode, &Decision::Pass);
        assert_eq!(pass.stdout.as_deref(), Some("{\"decision\":\"pass\"}"));
    }

    #[test]
    fn each_agent_is_denied_in_its_own_words() {
        let said = |agent, decision: &Decision| {
            serde_json::from_str::<Value>(&render(agent, decision).stdout.unwrap()).unwrap()
        };
        let deny = Decision::Deny(denied());
        assert_eq!(said(Agent::ClaudeCode, &deny)["hookSpecificOutput"]["permissionDecision"], "deny");
        assert_eq!(said(Agent::Codex, &deny)["hookSpecificOutput"]["permissionDecision"], "deny");
        assert_eq!(said(Agent::Gemini, &deny)["decision"], "deny");
        let ask = Decision::AskUser(denied());
        assert_eq!(said(Agent::ClaudeCode, &ask)["hookSpecificOutput"]["permissionDecision"], "ask");
        assert_eq!(said(Agent::Codex, &ask)["hookSpecificOutput"]["permissionDecision"], "deny");
    }
}
