'use strict';
// The synchronous calls. They run `keyward` itself, which starts the command in a cage.

const childProcess = require('node:child_process');
const { concluded, parsed, variables, withVariables } = require('./child.cjs');
const { NotInstalled, asSynchronous } = require('./errors.cjs');
const validate = require('./validate.cjs');

const MAX_BUFFER = 1024 * 1024;
/** The most bytes of an outcome. */
const LONGEST_OUTCOME = 64 * 1024;

/** @typedef {import('./child.cjs').Wanted} Wanted */

/** @param {(wanted: Wanted) => [string, string[], Wanted]} launcher Gives the program, its words, and the command as it runs there. */
function synchronous(launcher) {
  /** @param {any} file @param {any} [args] @param {any} [options] */
  function spawnSync(file, args, options) {
    const checked = validate.normalized(file, args, options);
    validate.maxBuffer(checked.options.maxBuffer);
    const [program, words, wanted] = launcher(checked);
    const said = wanted.options;
    const isRun = words[0] === 'run';
    const { environment, set, unset } = variables(wanted.env, said);
    const stdio = wanted.stdio.map((stream) => (stream.kind === 'given' ? stream.given : stream.kind));
    const flags = isRun ? set.map(([name, value]) => `--env=${name}=${value}`) : [];
    const argv = isRun ? wanted.argv : withVariables(wanted.argv, set, unset);
    const result = childProcess.spawnSync(program, [...words, ...flags, '--outcome-fd=3', '--', ...argv], {
      stdio: [...stdio, 'pipe'],
      input: typeof said.input === 'string' ? Buffer.from(said.input, encodingOf(said)) : said.input,
      env: environment,
      cwd: isRun ? wanted.cwd : undefined,
      timeout: said.timeout,
      killSignal: said.killSignal,
      // The limit counts all outputs together, and the outcome is one of them.
      maxBuffer: (said.maxBuffer ?? MAX_BUFFER) + LONGEST_OUTCOME,
      windowsHide: true,
    });
    return finished(result, said, wanted);
  }

  /** @param {any} file @param {any} [args] @param {any} [options] */
  function execFileSync(file, args, options) {
    if (args != null && !Array.isArray(args)) [args, options] = [[], args];
    const inherits = options?.stdio === undefined;
    const result = spawnSync(file, args ?? [], options);
    return checkedOutput(result, inherits, [file, ...(args ?? [])].join(' '));
  }

  /** @param {any} command @param {any} [options] */
  function execSync(command, options) {
    validate.command(command, 'command');
    const shell = typeof options?.shell === 'string' ? options.shell : true;
    return checkedOutput(spawnSync(command, { ...options, shell }), options?.stdio === undefined, command);
  }

  return { spawnSync, execFileSync, execSync };
}

/** @param {any} options @returns {BufferEncoding | undefined} */
function encodingOf({ encoding }) {
  return encoding && encoding !== 'buffer' ? encoding : undefined;
}

/** @param {any} result @param {any} options @param {Wanted} wanted */
function finished(result, options, wanted) {
  const told = parsed([result.output?.[3] ?? Buffer.alloc(0)]);
  const most = options.maxBuffer ?? MAX_BUFFER;
  const output = result.output ? result.output.slice(0, 3) : null;
  const length = (result.output ?? []).slice(1, 3).reduce((/** @type {number} */ sum, /** @type {Buffer | null} */ part) => sum + (part?.length ?? 0), 0);
  if (length > most) result.error ??= Object.assign(new Error('ENOBUFS'), { errno: -105, code: 'ENOBUFS' });
  const encoding = encodingOf(options);
  const texts = output?.map((/** @type {Buffer | null} */ part) => (part && encoding ? part.toString(encoding) : part)) ?? null;
  const ended = { pid: result.pid, output: texts, stdout: texts?.[1] ?? null, stderr: texts?.[2] ?? null, status: result.status, signal: result.signal };
  if (result.error) {
    const isOurs = result.error.code === 'ENOENT' && wanted.cwd === undefined;
    const error = isOurs ? new NotInstalled(undefined, result.error) : result.error;
    // The words of node:child_process are about the launcher.
    if (!isOurs) Object.assign(error, { syscall: `spawnSync ${wanted.file}`, path: wanted.file, spawnargs: wanted.argv.slice(1), message: `spawnSync ${wanted.file} ${error.code}` });
    // The launcher passes the signal on, and ends with its number.
    const killed = result.error.code === 'ETIMEDOUT' || result.error.code === 'ENOBUFS';
    const signal = validate.signalNumber(options.killSignal ?? 'SIGTERM');
    return killed && result.status === 128 + signal ? { ...ended, status: null, signal: validate.signalName(signal), error } : { ...ended, error };
  }
  const conclusion = concluded(told, result.status, result.signal, wanted);
  if ('error' in conclusion) return { ...ended, status: null, signal: null, error: asSynchronous(conclusion.error) };
  return { ...ended, status: conclusion.code, signal: conclusion.signal };
}

/** @param {any} result @param {boolean} inherits @param {string} command */
function checkedOutput(result, inherits, command) {
  if (inherits && result.stderr) process.stderr.write(result.stderr);
  if (result.error) throw Object.assign(result.error, { ...result, error: undefined });
  if (result.status !== 0) {
    const words = result.stderr?.length > 0 ? `\n${result.stderr.toString()}` : '';
    throw Object.assign(new Error(`Command failed: ${command}${words}`), result);
  }
  return result.stdout;
}

module.exports = { synchronous };
