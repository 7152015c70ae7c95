'use strict';
// Arguments are checked as node:child_process checks them, with the same error codes, before anything is started.

const os = require('node:os');
const { fileURLToPath } = require('node:url');
const { inspect } = require('node:util');

/** @param {unknown} value */
function shown(value) {
  if (value === null || value === undefined) return ` Received ${value}`;
  if (typeof value === 'function') return ` Received function ${value.name}`;
  if (typeof value === 'object') {
    const name = value.constructor?.name;
    return name ? ` Received an instance of ${name}` : ` Received ${inspect(value, { depth: -1 })}`;
  }
  const text = inspect(value, { colors: false });
  return ` Received type ${typeof value} (${text.length > 28 ? `${text.slice(0, 25)}...` : text})`;
}

/**
 * @template {Error} T
 * @param {new (message: string) => T} Base @param {string} code @param {string} message
 * @returns {T & { code: string }}
 */
function coded(Base, code, message) {
  const error = Object.assign(new Base(message), { code });
  Object.defineProperty(error, 'toString', { configurable: true, writable: true, value: () => `${error.name} [${code}]: ${error.message}` });
  Error.captureStackTrace?.(error, coded);
  return error;
}

/** @param {string} name @param {string} expected @param {unknown} value */
function wrongType(name, expected, value) {
  const kind = name.includes('.') ? 'property' : 'argument';
  return coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "${name}" ${kind} must be ${expected}.${shown(value)}`);
}

/** @param {string} name @param {unknown} value @param {string} why */
function wrongValue(name, value, why) {
  const kind = name.includes('.') ? 'property' : 'argument';
  return coded(TypeError, 'ERR_INVALID_ARG_VALUE', `The ${kind} '${name}' ${why}.${' '}Received ${inspect(value)}`);
}

/** The options that a caller has given, and none that something has put into `Object.prototype`. @param {any} options */
function own(options) {
  return Object.assign(Object.create(null), options);
}

/** @param {unknown} value @param {string} name */
function noNul(value, name) {
  if (typeof value === 'string' && value.includes('\0')) throw wrongValue(name, value, 'must be a string without null bytes');
}

/** @param {unknown} value @param {string} name @returns {asserts value is string} */
function text(value, name) {
  if (typeof value !== 'string') throw wrongType(name, 'of type string', value);
  noNul(value, name);
}

/** @param {unknown} file @returns {asserts file is string} */
function command(file, name = 'file') {
  text(file, name);
  if (file.length === 0) throw wrongValue(name, file, 'cannot be empty');
}

/** @param {unknown} value @returns {number} */
function signalNumber(value) {
  if (typeof value === 'number' && Object.values(os.constants.signals).includes(/** @type {any} */ (value))) return value;
  if (typeof value === 'string') {
    const found = os.constants.signals[/** @type {NodeJS.Signals} */ (value.toUpperCase())];
    if (found) return found;
  }
  throw coded(TypeError, 'ERR_UNKNOWN_SIGNAL', `Unknown signal: ${String(value)}`);
}

/** @param {number} number @returns {NodeJS.Signals | null} */
function signalName(number) {
  for (const [name, value] of Object.entries(os.constants.signals)) {
    if (value === number) return /** @type {NodeJS.Signals} */ (name);
  }
  return null;
}

/** @param {unknown} value @param {string} name */
function optionalBoolean(value, name) {
  if (value != null && typeof value !== 'boolean') throw wrongType(name, 'of type boolean', value);
}

/** @param {any} options */
function timing(options) {
  const { timeout, killSignal, signal } = options;
  if (timeout != null && !(Number.isInteger(timeout) && timeout >= 0)) {
    throw coded(RangeError, 'ERR_OUT_OF_RANGE', `The value of "timeout" is out of range. It must be an unsigned integer. Received ${inspect(timeout)}`);
  }
  if (killSignal != null) {
    if (typeof killSignal !== 'string' && typeof killSignal !== 'number') throw wrongType('options.killSignal', 'one of type string or number', killSignal);
    signalNumber(killSignal);
  }
  if (signal !== undefined && (signal === null || typeof signal !== 'object' || !('aborted' in signal))) {
    throw wrongType('options.signal', 'an instance of AbortSignal', signal);
  }
}

/** @param {unknown} value */
function maxBuffer(value) {
  if (value != null && !(typeof value === 'number' && value >= 0)) {
    throw coded(RangeError, 'ERR_OUT_OF_RANGE', `The value of "options.maxBuffer" is out of range. It must be a positive number. Received ${inspect(value)}`);
  }
}

/**
 * What Keyward cannot do the way node:child_process does: refused with the reason, and never ignored.
 * @param {any} options
 */
function refused(options) {
  for (const name of ['uid', 'gid']) {
    if (options[name] == null) continue;
    if ((options[name] | 0) !== options[name]) throw wrongType(`options.${name}`, 'int32', options[name]);
    throw wrongValue(`options.${name}`, options[name], 'is not supported: a cage runs as the user who started it');
  }
  if (options.argv0 != null) {
    text(options.argv0, 'options.argv0');
    throw wrongValue('options.argv0', options.argv0, 'is not supported: the gate judges the words that run');
  }
  if (options.serialization != null) throw wrongValue('options.serialization', options.serialization, 'is not supported: a cage has no IPC channel');
}

/**
 * The words, the directory, the variables and the streams of a command, checked.
 * @param {unknown} file @param {unknown} args @param {any} options
 * @returns {import('./child.cjs').Wanted}
 */
function normalized(file, args, options) {
  command(file);
  /** @type {string[]} */
  let words = [];
  if (Array.isArray(args)) words = args.slice();
  else if (args != null && typeof args !== 'object') throw wrongType('args', 'of type object', args);
  else if (args != null) options = args;
  words = words.map((word, index) => {
    const said = `${word}`;
    noNul(said, `args[${index}]`);
    return said;
  });
  if (options === undefined) options = {};
  if (options === null || typeof options !== 'object' || Array.isArray(options)) throw wrongType('options', 'of type object', options);
  options = own(options);
  let cwd = options.cwd ?? undefined;
  if (cwd instanceof URL || (cwd && typeof cwd === 'object' && cwd.href && cwd.protocol)) cwd = fileURLToPath(cwd);
  if (cwd !== undefined) text(cwd, 'options.cwd');
  optionalBoolean(options.detached, 'options.detached');
  optionalBoolean(options.windowsHide, 'options.windowsHide');
  optionalBoolean(options.windowsVerbatimArguments, 'options.windowsVerbatimArguments');
  const { shell } = options;
  if (shell != null && typeof shell !== 'boolean' && typeof shell !== 'string') throw wrongType('options.shell', 'one of type boolean or string', shell);
  noNul(shell, 'options.shell');
  refused(options);
  timing(options);
  const { env } = options;
  if (env != null && typeof env !== 'object') throw wrongType('options.env', 'of type object', env);
  /** @type {Record<string, string> | undefined} */
  let variables;
  if (env != null) {
    variables = {};
    for (const name in env) {
      if (env[name] === undefined) continue;
      noNul(name, `options.env['${name}']`);
      noNul(`${env[name]}`, `options.env['${name}']`);
      variables[name] = `${env[name]}`;
    }
  }
  const [spawnfile, spawnargs] = shell ? shelled(file, words, shell) : [file, [file, ...words]];
  return { file: spawnfile, argv: spawnargs, cwd, env: variables, stdio: streams(options.stdio), options, line: shell ? [file, ...words].join(' ') : undefined };
}

/** @param {string} file @param {string[]} words @param {true | string} shell @returns {[string, string[]]} */
function shelled(file, words, shell) {
  const program = typeof shell === 'string' ? shell : '/bin/sh';
  return [program, [program, '-c', [file, ...words].join(' ')]];
}

/**
 * @param {any} stdio
 * @returns {import('./child.cjs').Stream[]}
 */
function streams(stdio) {
  if (stdio == null) stdio = 'pipe';
  if (typeof stdio === 'string') {
    if (!['pipe', 'inherit', 'ignore', 'overlapped'].includes(stdio)) throw wrongValue('stdio', stdio, 'is invalid');
    stdio = [stdio, stdio, stdio];
  }
  if (!Array.isArray(stdio)) throw wrongValue('stdio', stdio, 'is invalid');
  const all = stdio.slice();
  while (all.length < 3) all.push(undefined);
  return all.map((wanted, index) => {
    if (wanted === 'ipc') throw wrongValue('stdio', wanted, 'is not supported: a cage has no IPC channel; use a session and `session.tool()`');
    if (wanted == null && index > 2) return { kind: /** @type {const} */ ('ignore') };
    if (index > 2 && wanted !== 'ignore') throw wrongValue('stdio', wanted, 'is not supported: a command in a cage has the descriptors 0, 1 and 2');
    if (wanted == null || wanted === 'pipe' || wanted === 'overlapped') return { kind: /** @type {const} */ ('pipe') };
    if (wanted === 'ignore') return { kind: /** @type {const} */ ('ignore') };
    if (wanted === 'inherit') return { kind: /** @type {const} */ ('given'), given: index };
    const isStream = typeof wanted === 'object' && (typeof wanted.fd === 'number' || wanted._handle);
    if ((typeof wanted === 'number' && Number.isInteger(wanted) && wanted >= 0) || isStream) return { kind: /** @type {const} */ ('given'), given: wanted };
    throw wrongValue('stdio', wanted, 'is invalid');
  }).slice(0, 3);
}

module.exports = { command, coded, maxBuffer, normalized, own, signalName, signalNumber, text, timing, wrongType, wrongValue };
