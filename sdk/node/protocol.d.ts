// Generated from crates/protocol/schema/session.json by tools/types.mjs. A test compares them.

/** Runs a command. Descriptors: its standard streams, without those that are a terminal; none with `background`. */
export type AskExec = {
  v: 1;
  do: "exec";
  argv: Word[];
  cwd?: Word | null;
  /** Where a relative `cwd` begins, if that is in the project. */
  from?: Word | null;
  /** It goes on when the client is gone, and its output is kept. */
  background?: boolean;
  terminal?: Terminal | null;
  timeout_ms?: number | null;
  /** In a cage of its own. */
  fresh?: boolean;
  /** This client can answer a question about the command. */
  answers?: boolean;
  /** A line for a shell that remembers. Without it, the session decides. */
  line?: boolean | null;
  /** Functions that may be called as long as this command runs, of those that are offered with `named`. */
  tools?: Function[];
  /** The client is not told of the start: its first answer is `ended` or `refused`. Not with `background` or `terminal`. */
  quiet?: boolean;
};

/** Runs a tool of the agent whose cage this client is in, in the cage of its session. For the shims of an agent. Descriptors: its standard streams, without those that are a terminal. */
export type AskTool = {
  v: 1;
  do: "tool";
  /** The program by its name, and its arguments. */
  argv: Word[];
  cwd: Word;
  terminal?: Terminal | null;
  /** What a tool has of the process that has started it. */
  surroundings: {
    /** The name that the program was called by, where that is not its own. */
    name?: Word | null;
    /** Variables that were set or changed, as `NAME=value`. */
    set?: Word[];
    /** Names of variables that were removed. */
    unset?: Word[];
    umask: number;
  };
};

/** Passes a signal on to a job. */
export type AskSignal = {
  v: 1;
  do: "signal";
  job: number;
  signal: number;
};

/** Lets a stopped job on a terminal go on, as the one that reads from it or not. */
export type AskFront = {
  v: 1;
  do: "front";
  job: number;
  front: boolean;
};

/** Ends a job with all its descendants. */
export type AskKill = {
  v: 1;
  do: "kill";
  job: number;
};

/** Asks which version the session speaks. Read in any version. */
export type AskHello = {
  v: 1;
  do: "hello";
};

/** Asks for the session and its jobs. */
export type AskJobs = {
  v: 1;
  do: "jobs";
};

/** Asks for the kept output of a background job; with `follow` its end is told as well. */
export type AskLog = {
  v: 1;
  do: "log";
  job: number;
  follow?: boolean;
};

/** Asks for the other side of a background job's terminal. */
export type AskAttach = {
  v: 1;
  do: "attach";
  job: number;
};

/** Offers functions of this client to the cages of the session. */
export type AskOffer = {
  v: 1;
  do: "offer";
  names: Function[];
  judged?: Record<string, Judging>;
  /** A cage may call them only as long as a command runs that names them. */
  named?: boolean;
};

/** Has questions of the gate shown to this client. */
export type AskWatch = {
  v: 1;
  do: "watch";
};

/** Answers a question of the gate. */
export type AskDecide = {
  v: 1;
  do: "decide";
  question: number;
  allow: boolean;
  reach?: "once" | "session" | "project";
};

/** Calls a function that a client has offered. */
export type AskCall = {
  v: 1;
  do: "call";
  name: string;
  input: unknown;
};

/** The result of a call, by the client that offered the function: one of the two. */
export type AskReturn = {
  v: 1;
  do: "return";
  call: number;
  output?: unknown;
  error?: string | null;
};

/** Makes this client the owner of the session, which ends with the connection. */
export type AskOwn = {
  v: 1;
  do: "own";
};

/** Allows more of the network to the session, for a time. */
export type AskWiden = {
  v: 1;
  do: "widen";
  /** Rules as they are typed, presets expanded. */
  rules: string[];
  seconds: number;
};

/** Ends the session. */
export type AskStop = {
  v: 1;
  do: "stop";
};

/** What a client asks. */
export type Ask = AskExec | AskTool | AskSignal | AskFront | AskKill | AskHello | AskJobs | AskLog | AskAttach | AskOffer | AskWatch | AskDecide | AskCall | AskReturn | AskOwn | AskWiden | AskStop;

/** The command runs. With a terminal, one descriptor: its other side. */
export type AnswerStarted = {
  v: 1;
  is: "started";
  job: number;
};

/** A job on a terminal was stopped. */
export type AnswerStopped = {
  v: 1;
  is: "stopped";
  job: number;
  /** The number of a signal. */
  signal: number;
};

/** A job has ended. */
export type AnswerEnded = {
  v: 1;
  is: "ended";
  job: number;
  /** Its code; 128 + n for a signal. */
  exit: number;
  signal: number | null;
  /** The limit that ended it. */
  limit: string | null;
  /** Why a command that failed may have done so in a cage. */
  hint?: {
    fact: string;
    remedy: string;
  };
};

/** Lines for a person, about what was found in the project. */
export type AnswerSaid = {
  v: 1;
  is: "said";
  text: string;
};

/** The session and its jobs. */
export type AnswerJobs = {
  v: 1;
  is: "jobs";
  session: string;
  pid: number;
  profile: string | null;
  shell: boolean;
  directory?: string;
  jobs: Job[];
};

/** One descriptor: the output, to be read. */
export type AnswerLog = {
  v: 1;
  is: "log";
  job: number;
  ended: boolean;
};

/** Two descriptors: one to write keys to, one to read from what is shown. */
export type AnswerAttached = {
  v: 1;
  is: "attached";
  job: number;
};

/** The request was carried out. */
export type AnswerDone = {
  v: 1;
  is: "done";
};

/** The version of the protocol, and of the program that speaks it. */
export type AnswerHello = {
  v: 1;
  is: "hello";
  /** Compare it with the version you speak. */
  protocol: number;
  keyward: string;
};

/** To the client that offered the function: it is called. */
export type AnswerCalled = {
  v: 1;
  is: "called";
  call: number;
  name: string;
  input: unknown;
  from_inside: boolean;
};

/** The result of a call. */
export type AnswerReturned = {
  v: 1;
  is: "returned";
  output: unknown;
};

/** A question waits for an answer. One descriptor: the whole question, as `question.json` has it. */
export type AnswerQuestion = {
  v: 1;
  is: "question";
  question: number;
  digest: string;
  rule: string | null;
  class: string | null;
  reason: string;
  argv: string[];
  from_inside: boolean;
};

/** This question is no longer pending. */
export type AnswerSettled = {
  v: 1;
  is: "settled";
  question: number;
};

/** Nothing was done: the fact, and what one can do. */
export type AnswerRefused = {
  v: 1;
  is: "refused";
  exit: number | null;
  fact: string;
  remedy: string;
  code: Code;
  /** The rule of the gate by which a command was denied. */
  rule?: string;
  /** The same request may succeed later, without a change. */
  retry?: boolean;
};

/** What a client is told. */
export type Answer = AnswerStarted | AnswerStopped | AnswerEnded | AnswerSaid | AnswerJobs | AnswerLog | AnswerAttached | AnswerDone | AnswerHello | AnswerCalled | AnswerReturned | AnswerQuestion | AnswerSettled | AnswerRefused;

/** A text, or the list of its bytes if it is not UTF-8. */
export type Word = string | number[];

export type Function = string;

/** A terminal of the cage's own. */
export type Terminal = {
  rows: number;
  columns: number;
  /** Which of the three streams it is; the descriptors of the others travel along. */
  streams?: [boolean, boolean, boolean];
  /** Whether the command reads from it at once. */
  front?: boolean;
};

/** How the gate judges the input of a function. */
export type Judging = {
  as: "sh" | "python" | "js" | "argv" | "ask";
  /** The field of the input that is judged; without one, the whole input. */
  field?: string | null;
};

/** A job of the session. */
export type Job = {
  job: number;
  argv: string[];
  background: boolean;
  terminal: boolean;
  fresh: boolean;
  seconds: number;
  exit: number | null;
  /** Bytes of output that are kept. */
  output: number;
};

/** What went wrong; docs/errors.md lists the codes. */
export type Code = "usage" | "policy-mistake" | "policy-unreadable" | "unknown-profile" | "beyond-ceiling" | "request-unfit" | "refused" | "floor-missing" | "denied" | "limit-reached" | "command-not-found" | "command-not-executable" | "cage-failed" | "changed-meanwhile" | "project-unguarded" | "record-unwritable" | "record-unreadable" | "approvals-unusable" | "approvals-busy" | "approval-unknown" | "approval-answered" | "terminal-missing" | "secret-unknown" | "secret-unavailable" | "secret-locked" | "store-unusable" | "store-busy" | "token-used" | "session-unknown" | "session-taken" | "session-ended" | "session-unreachable" | "session-failed" | "session-full" | "job-unknown" | "only-outside" | "read-refused" | "file-unusable" | "answer-unwritten" | "witness-unreached" | "services-unusable" | "proxy-failed" | "internal";
