'use strict';
// `exec` and `execFile`: a command whose output is collected, in the shapes of node:child_process, over any `spawn`.

const { getSystemErrorName } = require('node:util');
const { abortError } = require('./child.cjs');
const { KeywardError } = require('./errors.cjs');
const validate = require('./validate.cjs');

const MAX_BUFFER = 1024 * 1024;

/** @typedef {(file: string, args: string[], options: any) => import('./child.cjs').Child} Spawn */

/**
 * The arguments of `execFile`, in any of their orders.
 * @param {any} args @param {any} options @param {any} callback
 */
function sorted(args, options, callback) {
  if (args != null && Array.isArray(args)) args = args.slice();
  else if (args != null && typeof args === 'object') [args, options, callback] = [[], args, options];
  else if (typeof args === 'function') [args, options, callback] = [[], {}, args];
  else if (args != null) throw validate.wrongType('args', 'of type object', args);
  args ??= [];
  if (typeof options === 'function') [options, callback] = [{}, options];
  else if (options != null && (typeof options !== 'object' || Array.isArray(options))) throw validate.wrongType('options', 'of type object', options);
  if (callback != null && typeof callback !== 'function') throw validate.wrongType('callback', 'of type function', callback);
  return { args, options: validate.own(options ?? {}), callback };
}

/**
 * @param {Spawn} spawn @param {string} file @param {any} [given] @param {any} [more] @param {any} [then]
 */
function execFile(spawn, file, given, more, then) {
  const { args, options: said, callback } = sorted(given, more, then);
  const options = { __proto__: null, encoding: 'utf8', timeout: 0, maxBuffer: MAX_BUFFER, killSignal: 'SIGTERM', ...said };
  validate.command(file);
  validate.timing(options);
  validate.maxBuffer(options.maxBuffer);
  // The time is watched here, so that what was collected comes with the error.
  const { timeout, signal: aborts, ...rest } = options;
  const child = spawn(file, args, { ...rest, stdio: undefined });
  const encoding = options.encoding !== 'buffer' && Buffer.isEncoding(options.encoding) ? options.encoding : null;
  const outputs = [collector(child, child.stdout, 'stdout', options, encoding, stop), collector(child, child.stderr, 'stderr', options, encoding, stop)];
  /** @type {any} */
  let failure = null;
  let killed = false;
  let isOver = false;
  /** @type {NodeJS.Timeout | undefined} */
  let timer;

  /** @param {any} error */
  function stop(error) {
    failure ??= error;
    kill();
  }

  function kill() {
    child.stdout?.destroy();
    child.stderr?.destroy();
    killed = true;
    try {
      child.kill(options.killSignal);
    } catch (error) {
      failure ??= error;
      done(null, null);
    }
  }

  /** @param {number | null} code @param {NodeJS.Signals | null} signal */
  function done(code, signal) {
    if (isOver) return;
    isOver = true;
    clearTimeout(timer);
    aborts?.removeEventListener('abort', abort);
    if (!callback) return;
    const [stdout, stderr] = outputs.map((output) => output());
    if (!failure && code === 0 && signal === null) return callback(null, stdout, stderr);
    const cmd = [file, ...args].join(' ');
    if (!failure) {
      failure = Object.assign(new Error(`Command failed: ${cmd}\n${stderr}`), { code: code !== null && code < 0 ? getSystemErrorName(code) : code, killed: child.killed || killed, signal });
    }
    failure.cmd ??= cmd;
    failure.stdout ??= stdout;
    failure.stderr ??= stderr;
    return callback(failure, stdout, stderr);
  }

  function abort() {
    failure ??= abortError(aborts);
    kill();
    // The command may take its time to end; the caller does not wait for it.
    process.nextTick(() => done(null, null));
  }

  if (timeout > 0) {
    timer = setTimeout(() => {
      kill();
      timer = undefined;
    }, timeout);
  }
  if (aborts?.aborted) process.nextTick(abort);
  else aborts?.addEventListener('abort', abort, { once: true });
  child.on('close', done);
  child.on('error', (/** @type {any} */ error) => {
    failure ??= error;
    child.stdout?.destroy();
    child.stderr?.destroy();
    done(null, null);
  });
  return child;
}

/**
 * Collects a stream up to `maxBuffer`; gives what is there.
 * @param {any} child @param {any} stream @param {string} name @param {any} options @param {BufferEncoding | null} encoding
 * @param {(error: any) => void} stop
 */
function collector(child, stream, name, options, encoding, stop) {
  /** @type {any[]} */
  const parts = [];
  let length = 0;
  const { maxBuffer } = options;
  if (encoding) stream?.setEncoding(encoding);
  stream?.on('data', (/** @type {any} */ part) => {
    const isText = typeof part === 'string';
    const size = isText ? Buffer.byteLength(part, stream.readableEncoding ?? 'utf8') : part.length;
    length += size;
    if (length <= maxBuffer) return void parts.push(part);
    const room = maxBuffer - (length - size);
    parts.push(part.slice(0, room));
    const error = new RangeError(`${name} maxBuffer length exceeded`);
    stop(Object.assign(error, { code: 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER' }));
  });
  return () => (encoding || stream?.readableEncoding ? parts.join('') : Buffer.concat(parts));
}

/**
 * @param {Spawn} spawn @param {string} command @param {any} [options] @param {any} [callback]
 */
function exec(spawn, command, options, callback) {
  if (typeof options === 'function') [options, callback] = [undefined, options];
  validate.command(command, 'command');
  if (options != null && typeof options !== 'object') throw validate.wrongType('options', 'of type object', options);
  options = validate.own(options ?? {});
  return execFile(spawn, command, [], { ...options, shell: typeof options.shell === 'string' ? options.shell : true }, callback);
}

/**
 * The form that gives a promise, which has the child as its `child`.
 * @param {(...args: any[]) => any} call
 */
function promised(call) {
  return (/** @type {any[]} */ ...args) => {
    /** @type {(value: any) => void} */
    let resolve;
    /** @type {(error: any) => void} */
    let reject;
    const promise = new Promise((...both) => ([resolve, reject] = both));
    // A mistake in the arguments is thrown at once.
    const child = call(...args, (/** @type {any} */ error, /** @type {any} */ stdout, /** @type {any} */ stderr) => {
      if (error === null) return resolve({ stdout, stderr });
      return reject(Object.assign(error, { stdout, stderr }));
    });
    return Object.assign(promise, { child });
  };
}

/** @returns {never} */
function fork() {
  throw new KeywardError('fork is not supported: its child shares a channel with this process, and with it a way out of the cage', {
    code: 'usage',
    exit: 120,
    remedy: 'use `spawn(process.execPath, [file])`, and `session.tool()` for what the child may ask of this process',
  });
}

module.exports = { MAX_BUFFER, exec, execFile, fork, promised };
