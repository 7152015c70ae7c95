'use strict';
// The shapes of node:child_process. Each command runs in a cage of its own (`keyward run`), or in that of a session.

const { promisify } = require('node:util');
const { Child, launched } = require('./child.cjs');
const collect = require('./collect.cjs');
const { environ, explainEnviron } = require('./environ.cjs');
const errors = require('./errors.cjs');
const { executable } = require('./executable.cjs');
const { flags } = require('./flags.cjs');
const { profileHome } = require('./homes.cjs');
const { open } = require('./read.cjs');
const { Session } = require('./session.cjs');
const { synchronous } = require('./sync.cjs');
const { normalized } = require('./validate.cjs');

/** @param {import('./child.cjs').Wanted} wanted @returns {string[]} */
function words(wanted) {
  const { options } = wanted;
  for (const name of ['fresh', 'onApproval']) {
    if (options[name]) throw new errors.KeywardError(`${name} needs a session`, { code: 'usage', exit: 120, remedy: 'open one with `Session.open()`' });
  }
  return ['run', '--quiet', ...flags(options)];
}

/** @param {string} file @param {any} [args] @param {any} [options] @returns {Child} */
function spawn(file, args, options) {
  const wanted = normalized(file, args, options);
  return launched(executable(), words(wanted), wanted);
}

/** @param {string} command @param {any} [options] @param {any} [callback] */
function exec(command, options, callback) {
  return collect.exec(spawn, command, options, callback);
}
Object.defineProperty(exec, promisify.custom, { value: collect.promised(exec) });

/** @param {string} file @param {any} [args] @param {any} [options] @param {any} [callback] */
function execFile(file, args, options, callback) {
  return collect.execFile(spawn, file, args, options, callback);
}
Object.defineProperty(execFile, promisify.custom, { value: collect.promised(execFile) });

const { spawnSync, execFileSync, execSync } = synchronous((wanted) => [executable(), words(wanted), wanted]);

module.exports = {
  ChildProcess: Child,
  spawn,
  exec,
  execFile,
  fork: collect.fork,
  spawnSync,
  execFileSync,
  execSync,
  Session,
  environ,
  explainEnviron,
  profileHome,
  open,
  KeywardError: errors.KeywardError,
  Denied: errors.Denied,
  NotInstalled: errors.NotInstalled,
  VersionMismatch: errors.VersionMismatch,
  SessionLost: errors.SessionLost,
};
