'use strict';
// A command: the shape of node:child_process' ChildProcess, over `keyward run`, `keyward exec` or a session.

const { EventEmitter } = require('node:events');
const childProcess = require('node:child_process');
const { explainEnviron, refuseCredential } = require('./environ.cjs');
const { signalName, signalNumber } = require('./validate.cjs');
const { KeywardError, NotInstalled, VersionMismatch, ofRefusal, ofSystem } = require('./errors.cjs');

/**
 * @typedef {{ kind: 'pipe' } | { kind: 'ignore' } | { kind: 'given', given: any }} Stream
 * @typedef {{ file: string, argv: string[], cwd: string | undefined, env: Record<string, string> | undefined, stdio: Stream[], options: any, line: string | undefined }} Wanted
 * @typedef {{ signal(number: number): boolean, ref(): void, unref(): void }} Control
 */

/** The errno of Linux that an `error` without one of its own closes with. */
const EIO = -5;

/** A command that was started, or could not be. */
class Child extends EventEmitter {
  /** @type {Control | undefined} */
  #control;
  #needed = 1;
  #got = 0;
  #over = false;
  #started = false;

  /** @param {Wanted} wanted */
  constructor(wanted) {
    super();
    /** @type {number | undefined} */
    this.pid = undefined;
    /** @type {number | undefined} The number of the job in its session. */
    this.job = undefined;
    /** @type {any} */
    this.stdin = null;
    /** @type {any} */
    this.stdout = null;
    /** @type {any} */
    this.stderr = null;
    /** @type {any[]} */
    this.stdio = [null, null, null];
    /** @type {number | null} */
    this.exitCode = null;
    /** @type {NodeJS.Signals | null} */
    this.signalCode = null;
    this.killed = false;
    this.connected = false;
    this.spawnfile = wanted.file;
    this.spawnargs = wanted.argv;
    /** @type {string | null} The limit that ended it: `wall` or `cpu`. */
    this.limit = null;
    /** @type {{ fact: string, remedy: string } | null} Why it may have failed in a cage. */
    this.hint = null;
  }

  /** @param {Control} control @param {any[]} streams */
  begin(control, streams) {
    this.#control = control;
    this.stdio = streams;
    [this.stdin, this.stdout, this.stderr] = streams;
    for (const stream of streams) {
      if (!stream) continue;
      this.#needed += 1;
      stream.once('close', () => this.#closed());
    }
  }

  #closed() {
    this.#got += 1;
    if (this.#got === this.#needed) this.emit('close', this.exitCode, this.signalCode);
  }

  /** The command runs: told once, and before everything else. */
  started() {
    if (this.#started || this.#over) return;
    this.#started = true;
    this.emit('spawn');
  }

  get isOver() {
    return this.#over;
  }

  /**
   * It has ended. What nobody reads is let go, so that `close` comes.
   * @param {number | null} code @param {NodeJS.Signals | null} signal
   */
  ended(code, signal) {
    if (this.#over) return;
    this.#over = true;
    this.exitCode = code;
    this.signalCode = signal;
    this.stdin?.destroy();
    this.emit('exit', code, signal);
    process.nextTick(() => this.#flush());
    this.#closed();
  }

  /** @param {Error & { errno?: number }} error */
  failed(error) {
    if (this.#over) return;
    this.#over = true;
    this.exitCode = error.errno ?? EIO;
    this.pid = undefined;
    for (const stream of this.stdio) stream?.destroy();
    this.emit('error', error);
    this.#closed();
  }

  #flush() {
    for (const stream of [this.stdout, this.stderr]) {
      if (stream?.readable && stream.readableFlowing === null && stream.listenerCount('readable') === 0) stream.resume();
    }
  }

  /** @param {number | NodeJS.Signals} [signal] @returns {boolean} */
  kill(signal) {
    const number = signal === 0 ? 0 : signalNumber(signal === undefined ? 'SIGTERM' : signal);
    if (this.#over || !this.#control) return false;
    if (number === 0) return true;
    const sent = this.#control.signal(number);
    this.killed ||= sent;
    return sent;
  }

  ref() {
    this.#control?.ref();
  }

  unref() {
    this.#control?.unref();
  }

  spawn() {
    throw new KeywardError('a child of keyward cannot start another process', { remedy: 'call `spawn` of keyward again' });
  }

  [Symbol.dispose ?? Symbol.for('nodejs.dispose')]() {
    if (!this.killed) this.kill();
  }
}
// `instanceof ChildProcess` holds. The constructor of node:child_process is not called, and its `spawn` is not reachable.
Object.setPrototypeOf(Child.prototype, childProcess.ChildProcess.prototype);

/**
 * Ends a child when its time is over or its signal aborts, as node:child_process does.
 * @param {Child} child @param {any} options
 */
function limit(child, options) {
  if (options.timeout > 0) {
    const timer = setTimeout(() => {
      try {
        child.kill(options.killSignal ?? 'SIGTERM');
      } catch (error) {
        child.emit('error', error);
      }
    }, options.timeout);
    child.once('exit', () => clearTimeout(timer));
    child.once('error', () => child.isOver && clearTimeout(timer));
  }
  const { signal } = options;
  if (!signal) return;
  const abort = () => {
    try {
      if (child.kill(options.killSignal ?? 'SIGTERM') || !child.isOver) child.emit('error', abortError(signal));
    } catch (error) {
      child.emit('error', error);
    }
  };
  if (signal.aborted) {
    process.nextTick(abort);
  } else {
    signal.addEventListener('abort', abort, { once: true });
    child.once('exit', () => signal.removeEventListener('abort', abort));
  }
}

/** @param {AbortSignal} signal */
function abortError(signal) {
  const error = new Error('The operation was aborted', { cause: signal.reason });
  return Object.assign(error, { name: 'AbortError', code: 'ABORT_ERR' });
}

/** The variables that the launcher itself needs, whatever the command gets. */
const OF_THE_LAUNCHER = ['HOME', 'PATH', 'USER', 'LOGNAME', 'PWD', 'TMPDIR', 'DBUS_SESSION_BUS_ADDRESS', 'XDG_CONFIG_HOME', 'XDG_STATE_HOME', 'XDG_CACHE_HOME', 'XDG_DATA_HOME', 'XDG_RUNTIME_DIR'];

/**
 * The launcher's environment, and what a command sets and leaves out: the policy decides about what is merely inherited.
 * @param {Record<string, string> | undefined} env @param {any} [options]
 * @returns {{ environment: Record<string, string | undefined>, set: [string, string][], unset: string[] }}
 */
function variables(env, options = {}) {
  if (!env) return { environment: process.env, set: [], unset: [] };
  /** @type {Record<string, string | undefined>} */
  const environment = { ...env };
  for (const name of OF_THE_LAUNCHER) if (name !== 'PATH' || env['PATH'] === undefined) environment[name] = process.env[name];
  // What is named passes, or not, as a variable of the caller's.
  const named = new Set([options.inheritCredentials ?? [], options.pass ?? []].flat());
  const set = Object.entries(env).filter(([name, value]) => process.env[name] !== value && !named.has(name) && !OF_THE_LAUNCHER.includes(name));
  for (const [name, value] of set) refuseCredential(name, value);
  const unset = explainEnviron().passed.map(({ name }) => name).filter((name) => process.env[name] !== undefined && env[name] === undefined && !OF_THE_LAUNCHER.includes(name));
  return { environment, set, unset };
}

/**
 * What an outcome of `keyward run` or `keyward exec` means for a child.
 * @param {any} outcome @param {number | null} code @param {NodeJS.Signals | null} signal @param {Wanted} wanted
 * @returns {{ error: KeywardError } | { code: number | null, signal: NodeJS.Signals | null, limit: string | null, hint: any }}
 */
function concluded(outcome, code, signal, wanted) {
  const rest = { limit: null, hint: outcome?.hint ?? null };
  // A launcher that was killed took the cage with it, and wrote nothing.
  if (!outcome) return code === null ? { code, signal, ...rest } : { error: withoutOutcome(code) };
  if (outcome.v !== 1) return { error: new VersionMismatch(`the executable writes outcomes of version ${outcome.v}, and this package reads version 1`) };
  switch (outcome.outcome) {
    case 'exited':
      return { code: outcome.exit, signal: null, ...rest };
    case 'signalled':
      return { code: null, signal: signalName(outcome.signal), ...rest };
    case 'limit':
      return { code: outcome.exit, signal: null, ...rest, limit: outcome.limit };
    default:
      return { error: refusal({ ...outcome, reason: outcome.reason ?? outcome.fact }, wanted) };
  }
}

/** The error for a launcher that did not say what became of the command. @param {number} exit */
function withoutOutcome(exit) {
  if (exit === 120) return new KeywardError('the launcher did not take the flags of this command; its standard error says why', { code: 'usage', exit, remedy: '`keyward help run` lists them, and what each takes' });
  return new KeywardError('the launcher ended without an outcome', { code: 'internal', exit, remedy: '`keyward doctor` shows what this host can do' });
}

/**
 * The error for a command that did not start.
 * @param {any} refused @param {Wanted} wanted
 * @returns {KeywardError}
 */
function refusal(refused, wanted) {
  const args = wanted.argv.slice(1);
  if (refused.code === 'command-not-found') return ofSystem('ENOENT', wanted.file, args, refused);
  if (refused.code === 'command-not-executable') return ofSystem('EACCES', wanted.file, args, refused);
  if (wanted.cwd !== undefined && (refused.code === 'usage' || refused.code === 'request-unfit')) return ofSystem('ENOENT', wanted.file, args, refused);
  return ofRefusal(refused);
}

/** @param {Buffer[]} parts @returns {any} */
function parsed(parts) {
  try {
    return JSON.parse(Buffer.concat(parts).toString());
  } catch {
    return undefined;
  }
}

/**
 * Starts `keyward` itself as an ordinary child, which starts the command in a cage.
 * @param {string} program @param {string[]} words @param {Wanted} wanted
 * @returns {Child}
 */
function launched(program, words, wanted) {
  const child = new Child(wanted);
  const stdio = wanted.stdio.map((stream) => (stream.kind === 'given' ? stream.given : stream.kind));
  const { environment, set, unset } = variables(wanted.env, wanted.options);
  const isRun = words[0] === 'run';
  const flags = isRun ? set.map(([name, value]) => `--env=${name}=${value}`) : [];
  const argv = isRun ? wanted.argv : withVariables(wanted.argv, set, unset);
  const inner = childProcess.spawn(program, [...words, ...flags, '--outcome-fd=3', '--', ...argv], {
    stdio: [...stdio, 'pipe'],
    env: environment,
    cwd: isRun ? wanted.cwd : undefined,
    detached: wanted.options.detached ?? false,
    windowsHide: true,
  });
  /** @type {Buffer[]} */
  const told = [];
  const reader = /** @type {import('node:stream').Readable | undefined} */ (inner.stdio[3]);
  reader?.on('data', (part) => told.push(part));
  reader?.on('error', () => {});
  child.begin(
    { signal: (number) => inner.kill(number), ref: () => inner.ref(), unref: () => inner.unref() },
    [inner.stdin, inner.stdout, inner.stderr],
  );
  child.pid = inner.pid;
  inner.on('spawn', () => child.started());
  inner.on('error', (/** @type {any} */ error) => {
    // After the start, only `kill` can fail.
    if (inner.pid !== undefined) return child.emit('error', error);
    const isMissing = error.code === 'ENOENT' && wanted.cwd === undefined;
    const why = { fact: `cannot start keyward: ${error.message}`, remedy: 'name an existing directory with `cwd`' };
    child.failed(isMissing ? new NotInstalled(`cannot start ${program}`, error) : ofSystem('ENOENT', wanted.file, wanted.argv.slice(1), why));
  });
  inner.on('exit', (code, signal) => {
    const end = () => {
      const result = concluded(parsed(told), code, signal, wanted);
      if ('error' in result) return child.failed(result.error);
      child.limit = result.limit;
      child.hint = result.hint;
      child.ended(result.code, result.signal);
    };
    if (!reader || reader.readableEnded || reader.destroyed) end();
    else reader.once('close', end);
  });
  limit(child, wanted.options);
  return child;
}

/**
 * In a session the environment was decided at its start: what a command sets besides is set by `env` in the cage, where the gate judges it.
 * @param {string[]} argv @param {[string, string][]} set @param {string[]} unset
 */
function withVariables(argv, set, unset) {
  if (set.length + unset.length === 0) return argv;
  return ['env', ...unset.flatMap((name) => ['-u', name]), ...set.map(([name, value]) => `${name}=${value}`), ...argv];
}

module.exports = { Child, abortError, concluded, launched, limit, parsed, refusal, variables, withVariables };
