'use strict';
// The errors of this package. Each has a fact (its message), a remedy, and a code that does not change.

const INSTALL = 'install it with `npm install keyward` or `cargo install --locked keyward`, and check it with `keyward doctor`';

/** What Keyward could not or would not do. `message` is the fact, `remedy` says what you can do. */
class KeywardError extends Error {
  /**
   * @param {string} fact
   * @param {{ code?: string, remedy?: string, exit?: number | null, retryable?: boolean, cause?: unknown }} [more]
   */
  constructor(fact, more = {}) {
    super(fact, more.cause === undefined ? undefined : { cause: more.cause });
    /** @type {string} */
    this.code = more.code ?? 'internal';
    /** @type {string} */
    this.remedy = more.remedy ?? '';
    /** @type {number | null} The exit code that the command line has for it. */
    this.exit = more.exit ?? null;
    /** @type {boolean} Whether the same call may go through later. */
    this.retryable = more.retryable ?? false;
  }

  get name() {
    return this.constructor.name;
  }
}

/** The gate or an approver said no, or the policy does. The command did not run. */
class Denied extends KeywardError {
  /**
   * @param {string} fact
   * @param {{ code?: string, remedy?: string, exit?: number | null, retryable?: boolean, rule?: string | null, reason?: string }} [more]
   */
  constructor(fact, more = {}) {
    super(fact, { code: 'denied', exit: 123, ...more });
    /** @type {string | null} The rule that said no. */
    this.rule = more.rule ?? null;
    /** @type {string} */
    this.reason = more.reason ?? fact;
  }
}

/** There is no executable. Nothing runs without it: there is no plain spawn to fall back to. */
class NotInstalled extends KeywardError {
  /** @param {string} fact @param {unknown} [cause] */
  constructor(fact = 'keyward is not installed here', cause) {
    super(fact, { code: 'not-installed', remedy: INSTALL, cause });
  }
}

/** The executable, or the session, speaks another version of the protocol. */
class VersionMismatch extends KeywardError {
  /** @param {string} fact */
  constructor(fact) {
    super(fact, { code: 'version-mismatch', remedy: INSTALL });
  }
}

/** The session has ended, or its process is gone. Every later call of it is this error. */
class SessionLost extends KeywardError {
  /** @param {string} [fact] */
  constructor(fact = 'the session has ended') {
    super(fact, { code: 'session-ended', exit: 125, remedy: 'open another with `Session.open()`' });
  }
}

/**
 * The error for a refusal of the session, or for an outcome of a run that did not start.
 * @param {{ exit?: number | null, code: string, fact: string, remedy: string, rule?: string | null, reason?: string, retry?: boolean }} refused
 * @returns {KeywardError}
 */
function ofRefusal(refused) {
  const { exit = null, code, fact, remedy, retry: retryable = false } = refused;
  if (exit === 123 || exit === 121 || code === 'denied') {
    return new Denied(fact, { code, exit, remedy, retryable, rule: refused.rule ?? null, reason: refused.reason ?? fact });
  }
  if (code === 'session-ended') return new SessionLost(fact);
  return new KeywardError(fact, { code, exit, remedy, retryable });
}

/**
 * The same error, in the words of a synchronous call.
 * @param {any} error
 */
function asSynchronous(error) {
  if (!error.syscall?.startsWith('spawn ')) return error;
  const syscall = error.syscall.replace('spawn ', 'spawnSync ');
  return Object.assign(error, { syscall, message: `${syscall} ${error.code}` });
}

/**
 * The error that node:child_process has for a command that cannot be started, with the words of Keyward beside it.
 * @param {'ENOENT' | 'EACCES' | 'E2BIG'} name
 * @param {string} file
 * @param {string[]} args
 * @param {{ fact: string, remedy: string, exit?: number | null }} why
 */
function ofSystem(name, file, args, why) {
  const errno = { ENOENT: -2, EACCES: -13, E2BIG: -7 }[name];
  const error = new KeywardError(`spawn ${file} ${name}`, { code: name, remedy: why.remedy, exit: why.exit ?? null });
  return Object.assign(error, { errno, syscall: `spawn ${file}`, path: file, spawnargs: args, fact: why.fact });
}

module.exports = { KeywardError, Denied, NotInstalled, VersionMismatch, SessionLost, asSynchronous, ofRefusal, ofSystem };
