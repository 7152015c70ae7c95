// The types of the package. docs/node.md describes what they mean.
import type * as cp from 'node:child_process';
import type { Readable, Writable } from 'node:stream';

/** What `keyward run` has as flags, one to one. */
export interface CageOptions {
  /** A profile of your policy file. */
  profile?: string;
  trust?: 'internal' | 'executor' | 'tool' | 'unknown';
  floor?: 'full' | 'landlock';
  allow?: string | string[];
  gpu?: boolean;
  /** Variables to pass on, unless they look like credentials. */
  pass?: string | string[];
  /** Credentials to hand over, by name. */
  inheritCredentials?: string | string[];
  /** Secrets of the vault, and how each is delivered. */
  secrets?: Record<string, 'proxy' | 'fd' | 'file' | 'token' | 'dangerous-env'>;
  redact?: 'on' | 'off';
  read?: string | string[];
  write?: string | string[];
  hide?: string | string[];
  show?: string | string[];
  protect?: 'notice' | 'strict';
  home?: 'real' | 'profile' | 'empty';
  tools?: string | string[];
  /** For an agent: run the shells and interpreters that it starts in a narrower cage. */
  shims?: boolean;
  net?: 'none' | 'rules' | 'open';
  /** Hosts that may be reached, as rules: `api.github.com`, `GET host/path`, `tcp://host:port`, a preset. */
  allowNet?: string | string[];
  /** Ports of this machine's loopback that may be reached. */
  reach?: string | string[];
  /** Ports of the cage that this machine reaches. */
  publish?: string | string[];
  gate?: 'ask' | 'deny' | 'auto' | 'judge' | 'yolo';
  /** Milliseconds after which the command ends with everything that it has started; `timeout` is that of `node:child_process`. */
  wall?: number;
  memory?: string | number;
  pids?: number;
}

interface Refusals {
  /** Refused: a cage runs as the user who started it. */
  uid?: never;
  /** Refused: a cage runs as the user who started it. */
  gid?: never;
  /** Refused: the gate judges the words that run. */
  argv0?: never;
  /** Refused: a cage has no IPC channel. */
  serialization?: never;
}

type Common = Omit<cp.SpawnOptions, keyof Refusals | 'stdio'> & Refusals & { stdio?: StdioOptions };
export type StdioStream = 'pipe' | 'overlapped' | 'ignore' | 'inherit' | Readable | Writable | number | null | undefined;
export type StdioOptions = 'pipe' | 'overlapped' | 'ignore' | 'inherit' | StdioStream[];

/** In a session the cage is decided when it starts. */
export interface InSession {
  /** In a cage of its own, under the same policy. */
  fresh?: boolean;
  /** Functions of `session.tool()` that may be called as long as this command runs. */
  tools?: string[];
}

export type SpawnOptions = Common & CageOptions;
export type SessionSpawnOptions = Common & InSession;
export type ExecFileOptions = Omit<cp.ExecFileOptions, keyof Refusals> & Refusals & CageOptions;
export type SessionExecFileOptions = Omit<cp.ExecFileOptions, keyof Refusals> & Refusals & InSession;
export type ExecOptions = Omit<cp.ExecOptions, keyof Refusals> & Refusals & CageOptions;
export type SessionExecOptions = Omit<cp.ExecOptions, keyof Refusals> & Refusals & InSession;
export type SpawnSyncOptions = Omit<cp.SpawnSyncOptions, keyof Refusals> & Refusals & CageOptions;
export type SessionSpawnSyncOptions = Omit<cp.SpawnSyncOptions, keyof Refusals> & Refusals & InSession;

/** `cp.ChildProcess`, and what a cage adds. */
export class ChildProcess extends cp.ChildProcess {
  /** Of a command in a session: its number there (`keyward ps`). */
  job: number | undefined;
  /** The limit that ended it: `wall` or `cpu`. */
  limit: string | null;
  /** Why a command that failed may have done so in a cage. */
  hint: { fact: string; remedy: string } | null;
}
export interface ChildProcessWithoutNullStreams extends ChildProcess {
  stdin: Writable;
  stdout: Readable;
  stderr: Readable;
}

type Piped = { stdio?: 'pipe' | 'overlapped' | undefined };
type Callback<T> = (error: cp.ExecFileException | null, stdout: T, stderr: T) => void;
type Encoding = { encoding?: BufferEncoding };
type AsBuffer = { encoding: 'buffer' | null };

interface Spawn<O> {
  (file: string, options?: O & Piped): ChildProcessWithoutNullStreams;
  (file: string, args?: readonly string[], options?: O & Piped): ChildProcessWithoutNullStreams;
  (file: string, options: O): ChildProcess;
  (file: string, args: readonly string[], options: O): ChildProcess;
}
interface Output<T> {
  stdout: T;
  stderr: T;
}
export type PromiseWithChild<T> = Promise<T> & { child: ChildProcess };
interface PromisedExec<O> {
  (command: string, options: O & AsBuffer): PromiseWithChild<Output<Buffer>>;
  (command: string, options?: O & Encoding): PromiseWithChild<Output<string>>;
}
interface PromisedExecFile<O> {
  (file: string, args: readonly string[], options: O & AsBuffer): PromiseWithChild<Output<Buffer>>;
  (file: string, args?: readonly string[], options?: O & Encoding): PromiseWithChild<Output<string>>;
  (file: string, options: O & Encoding): PromiseWithChild<Output<string>>;
}
interface Exec<O> {
  (command: string, callback?: Callback<string>): ChildProcess;
  (command: string, options: O & AsBuffer, callback?: Callback<Buffer>): ChildProcess;
  (command: string, options: O & Encoding, callback?: Callback<string>): ChildProcess;
}
interface ExecFile<O> {
  (file: string, callback?: Callback<string>): ChildProcess;
  (file: string, args: readonly string[], callback?: Callback<string>): ChildProcess;
  (file: string, args: readonly string[], options: O & AsBuffer, callback?: Callback<Buffer>): ChildProcess;
  (file: string, args: readonly string[], options: O & Encoding, callback?: Callback<string>): ChildProcess;
  (file: string, options: O & Encoding, callback?: Callback<string>): ChildProcess;
}
interface SpawnSync<O> {
  (file: string, args: readonly string[], options: O & { encoding: BufferEncoding }): cp.SpawnSyncReturns<string>;
  (file: string, args?: readonly string[], options?: O): cp.SpawnSyncReturns<Buffer>;
}
interface ExecSync<O> {
  (command: string, options: O & { encoding: BufferEncoding }): string;
  (command: string, options?: O): Buffer;
}
interface ExecFileSync<O> {
  (file: string, args: readonly string[], options: O & { encoding: BufferEncoding }): string;
  (file: string, args?: readonly string[], options?: O): Buffer;
}

export const spawn: Spawn<SpawnOptions>;
export const exec: Exec<ExecOptions> & { __promisify__: PromisedExec<ExecOptions> };
export const execFile: ExecFile<ExecFileOptions> & { __promisify__: PromisedExecFile<ExecFileOptions> };
export const spawnSync: SpawnSync<SpawnSyncOptions>;
export const execSync: ExecSync<SpawnSyncOptions>;
export const execFileSync: ExecFileSync<SpawnSyncOptions>;
/** Refused: an IPC channel would be a way out of the cage. It throws. */
export function fork(...args: unknown[]): never;

/** A question of the gate. */
export interface Question {
  id: number;
  digest: string;
  rule: string | null;
  class: string | null;
  reason: string;
  /** The whole command. */
  argv: string[];
  /** Whether a process in the cage wants it. */
  fromInside: boolean;
  /** Everything that is known of it, as `schema/question.json` describes. */
  document: Record<string, unknown> | null;
  /** Aborts when the question needs no answer any more. */
  signal: AbortSignal;
}
export type Decision = boolean | { allow: boolean; reach?: 'once' | 'session' | 'project' };

export interface SessionOptions extends CageOptions {
  name?: string;
  /** Commands are lines of one shell that keeps its directory, variables and functions. */
  shell?: boolean;
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  /** Answers questions of the gate. What is not a clear yes is a no: also if it throws, or does not answer in time. */
  onApproval?: (question: Question) => Decision | Promise<Decision>;
  /** Milliseconds; ten minutes if it is left out. */
  approvalTimeout?: number;
}

export interface ToolOptions {
  /** A JSON Schema of the input. A keyword that is not known is an error. */
  schema?: boolean | Record<string, unknown>;
  /** The most bytes of the input; 65,536 if it is left out. */
  maxInput?: number;
  /** What the gate judges before the function is called. */
  judged?: { as: 'sh' | 'python' | 'js' | 'argv' | 'ask'; field?: string };
}

export interface BackgroundJob {
  job: number;
  /** `SESSION/JOB`, for the command line. */
  name: string;
  kill(): Promise<void>;
  signal(signal: NodeJS.Signals | number): Promise<void>;
  /** What it has printed. */
  logs(): Promise<string>;
}

/** A cage that stays, for many commands. It is an object: nothing is in it that was not called on it. */
export class Session implements AsyncDisposable {
  private constructor();
  /** Starts a session. It ends with `close`, and at the latest with this process. */
  static open(options?: SessionOptions): Promise<Session>;
  /** Connects to a session that another process or thread has started. */
  static attach(name: string, options?: Pick<SessionOptions, 'onApproval' | 'approvalTimeout'>): Promise<Session>;
  readonly name: string;
  readonly closed: boolean;
  spawn: Spawn<SessionSpawnOptions>;
  exec: Exec<SessionExecOptions>;
  execFile: ExecFile<SessionExecFileOptions>;
  readonly promises: { exec: PromisedExec<SessionExecOptions>; execFile: PromisedExecFile<SessionExecFileOptions> };
  spawnSync: SpawnSync<SessionSpawnSyncOptions>;
  execSync: ExecSync<SessionSpawnSyncOptions>;
  execFileSync: ExecFileSync<SessionSpawnSyncOptions>;
  fork(...args: unknown[]): never;
  /** Runs a line in the session's shell. */
  shell(line: string, options?: SessionExecOptions): Promise<Output<string>>;
  background(file: string, args?: readonly string[], options?: SessionSpawnOptions): Promise<BackgroundJob>;
  jobs(): Promise<import('./protocol.js', { with: { 'resolution-mode': 'import' } }).Job[]>;
  /** Lets commands that name it in `tools` call a function of this program: `keyward call NAME JSON`. */
  tool(name: string, fn: (input: any, context: { signal: AbortSignal; fromInside: boolean }) => unknown, options?: ToolOptions): Promise<void>;
  call(name: string, input?: unknown): Promise<any>;
  on(event: 'notice', listener: (text: string) => void): this;
  on(event: 'lost', listener: (error: Error) => void): this;
  once(event: 'notice', listener: (text: string) => void): this;
  once(event: 'lost', listener: (error: Error) => void): this;
  off(event: 'notice' | 'lost', listener: (value: any) => void): this;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface EnvironOptions {
  /** `process.env`, if it is left out. */
  base?: NodeJS.ProcessEnv;
  inheritCredentials?: string[];
  pass?: string[];
  notSecret?: string[];
  dangerousLoaderEnv?: string[];
  set?: Record<string, string>;
  trust?: 'internal' | 'executor' | 'tool' | 'unknown';
  net?: 'open' | 'none';
  /** A HOME for the child, such as that of `profileHome`. */
  home?: string;
  platform?: 'linux' | 'macos' | 'windows';
}
export interface EnvironDecision {
  passed: { name: string; value: string; rule: string }[];
  dropped: { name: string; rule: string; detail: string | null }[];
  missing: string[];
}
/** The environment for a child that you spawn yourself, without credentials. It needs no executable. */
export function environ(options?: EnvironOptions): Record<string, string>;
/** What `environ` decides, with the rule for each variable. */
export function explainEnviron(options?: Omit<EnvironOptions, 'home'>): EnvironDecision;
/** Makes the HOME of a profile, with links to the logins of the named tools, and gives its path. It needs no executable. */
export function profileHome(
  name: string,
  options?: { tools?: string[]; share?: string[]; trust?: 'internal' | 'executor' | 'tool' | 'unknown'; home?: string; state?: string; environ?: NodeJS.ProcessEnv; platform?: 'linux' | 'macos' | 'windows' },
): string;
/** The content of a file, unless it holds a credential: the guarded read. */
export function open(path: string, options: BufferEncoding | { encoding: BufferEncoding; max?: number }): Promise<string>;
export function open(path: string, options?: { max?: number }): Promise<Buffer>;

/** What Keyward could not or would not do. */
export class KeywardError extends Error {
  constructor(fact: string, more?: { code?: string; remedy?: string; exit?: number | null; retryable?: boolean; cause?: unknown });
  /** For programs: it does not change. `docs/errors.md` lists them; a command that cannot be started has that of Node, such as `ENOENT`. */
  code: string;
  /** For people: what can be done. */
  remedy: string;
  /** The exit code that the command line has for it. */
  exit: number | null;
  /** Whether the same call may go through later. */
  retryable: boolean;
}
/** The gate, an approver or the policy said no. */
export class Denied extends KeywardError {
  rule: string | null;
  reason: string;
}
/** There is no executable. There is no plain spawn to fall back to. */
export class NotInstalled extends KeywardError {}
/** The executable or the session speaks another version of the protocol. */
export class VersionMismatch extends KeywardError {}
/** The session has ended. Every later call of it is this error. */
export class SessionLost extends KeywardError {}
